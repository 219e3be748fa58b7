#include "compiler-core/passes/pass.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

/* GraphProto of one node with f32 (or other) ports by name only. */
static message body_of(kiln_arena *arena, const char *inputs, const char *outputs, uint32_t count,
                       const message *node) {
    message body = with_text(message_of(arena), 2, "body");
    for (uint32_t i = 0; i < count; i++) body = with_message(body, 1, node[i]);
    const char *const list[] = {inputs, outputs};
    for (uint32_t k = 0; k < 2; k++) {
        kiln_str rest = kiln_str_from(list[k]);
        while (rest.size) {
            kiln_str name = kiln_str_cut(&rest, ' ');
            body =
                with_message(body, 11 + k, with_bytes(message_of(arena), 1, name.data, name.size));
        }
    }
    return body;
}

static message with_body(message node, const char *name, message body) {
    message attr = with_int(with_text(message_of(node.arena), 1, name), 20, 5);
    return with_message(node, 5, with_message(attr, 6, body));
}

static message truth(kiln_arena *arena, const char *name, bool value) {
    message m = with_int(with_text(message_of(arena), 8, name), 2, 9);
    return with_bytes(m, 9, value ? "\x01" : "\x00", 1);
}

static message branches(kiln_arena *arena, const char *then_op, const char *else_op) {
    message then_node = node_of(arena, then_op, "x", "t"),
            else_node = node_of(arena, else_op, "x", "e");
    message node = with_body(node_of(arena, "If", "c", "y"), "then_branch",
                             body_of(arena, "", "t", 1, &then_node));
    return with_body(node, "else_branch", body_of(arena, "", "e", 1, &else_node));
}

static void a_known_condition_takes_one_branch(void **state) {
    model_parts parts = {.opset = 13,
                         .input = "x:2",
                         .output = "y:2",
                         .node_count = 1,
                         .initializer_count = 1,
                         .node = {branches(*state, "Neg", "Frobnicate")},
                         .initializer = {truth(*state, "c", true)}};
    expect_contains(text_of_import(*state, &parts), "y: f32[2] = neg(x)");
    parts.initializer[0] = truth(*state, "c", false);
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "Frobnicate (opset 13): operator");
}

static void a_condition_is_needed(void **state) {
    message node = with_text(message_of(*state), 1, ""),
            body_node = node_of(*state, "Neg", "x", "t");
    const message body = body_of(*state, "", "t", 1, &body_node);
    node = with_text(with_text(node, 2, "y"), 4, "If");
    node = with_body(with_body(node, "then_branch", body), "else_branch", body);
    const model_parts parts = {
        .opset = 13, .input = "x:2", .output = "y:2", .node_count = 1, .node = {node}};
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "it has no condition");
}

static void an_unknown_condition_chooses_between_both(void **state) {
    model_parts parts = {.opset = 13,
                         .input = "x:2 k:2",
                         .output = "y:2",
                         .node_count = 3,
                         .node = {node_of(*state, "ReduceSum", "k", "s"),
                                  node_of(*state, "Greater", "s k0", "c"),
                                  branches(*state, "Neg", "Abs")}};
    const float three[] = {3}, two[] = {2};
    parts.initializer_count = 1;
    parts.initializer[0] = floats_of(*state, "k0", two, 1);
    assert_string_equal(result_of(*state, import_of(*state, &parts)), "f32[2]: -1 -2");
    parts.initializer[0] = floats_of(*state, "k0", three, 1);
    assert_string_equal(result_of(*state, import_of(*state, &parts)), "f32[2]: 1 2");
    parts.node[2] = branches(*state, "Neg", "Shape");
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "known only at run time");
}

/* The graph has a loop, before and after the passes, and computes that. */
static void expect_loop(kiln_arena *arena, const model_parts *parts, const char *result) {
    kiln_graph *graph = import_unrolling(arena, parts, 1);
    assert_int_equal(count_loops(graph), 1);
    assert_string_equal(result_of(arena, graph), result);
    expect_ok(kiln_passes_run(graph, (kiln_str){0}));
    assert_int_equal(count_loops(graph), 1);
    assert_string_equal(result_of(arena, graph), result);
}

/* Adds the iteration's number to `a`, and gives `a` doubled as a result of every iteration. */
static message counting_loop(kiln_arena *arena, const char *condition) {
    message node[] = {with_attr_int(node_of(arena, "Cast", "i", "f"), "to", 1),
                      node_of(arena, "Add", "a f", "a2"), node_of(arena, "Add", "a2 a2", "d"),
                      node_of(arena, "Less", "i two", "more"),
                      node_of(arena, "Identity", "go", "same")};
    const char *outputs = kiln_arena_printf(arena, "%s a2 d", condition);
    return with_body(node_of(arena, "Loop", "n go0 x", "y z"), "body",
                     body_of(arena, "i go a", outputs, 5, node));
}

static void loops_of_known_length_are_unrolled(void **state) {
    const int64_t trips[] = {3}, two[] = {2}, many[] = {100000};
    model_parts parts = {.opset = 13,
                         .input = "x:2",
                         .output = "y:2 z:3,2",
                         .node_count = 1,
                         .initializer_count = 3,
                         .node = {counting_loop(*state, "same")},
                         .initializer = {i64s_of(*state, "n", trips, 1), truth(*state, "go0", true),
                                         i64s_of(*state, "two", two, 1)}};
    assert_string_equal(result_of(*state, import_of(*state, &parts)),
                        "f32[2]: 4 5; f32[3,2]: 2 4 4 6 8 10");
    parts.initializer[0] = i64s_of(*state, "n", many, 1);
    parts.node[0] = counting_loop(*state, "more");
    assert_string_equal(result_of(*state, import_of(*state, &parts)),
                        "f32[2]: 4 5; f32[3,2]: 2 4 4 6 8 10");
}

static void longer_loops_stay_loops(void **state) {
    const int64_t trips[] = {3}, two[] = {2}, many[] = {20000};
    model_parts parts = {.opset = 13,
                         .input = "x:2",
                         .output = "y:2 z:3,2",
                         .node_count = 1,
                         .initializer_count = 3,
                         .node = {counting_loop(*state, "same")},
                         .initializer = {i64s_of(*state, "n", trips, 1), truth(*state, "go0", true),
                                         i64s_of(*state, "two", two, 1)}};
    expect_loop(*state, &parts, "f32[2]: 4 5; f32[3,2]: 2 4 4 6 8 10");
    parts.initializer[0] = i64s_of(*state, "n", many, 1);
    parts.output = "y:2 z:20000,2";
    const kiln_graph *graph = import_of(*state, &parts);
    assert_int_equal(count_loops(graph), 1);
    assert_in_range(graph->node.count, 2, 20);
}

/* More iterations than a loop can have are not cut down to what it can. */
static void endless_loops_are_refused(void **state) {
    const int64_t many[] = {INT64_C(1) << 40};
    message node[] = {node_of(*state, "Add", "a x", "a2"),
                      node_of(*state, "Identity", "go", "same")};
    model_parts parts = {
        .opset = 13,
        .input = "x:2",
        .output = "y:2",
        .node_count = 1,
        .initializer_count = 2,
        .node = {with_body(node_of(*state, "Loop", "n go0 x", "y"), "body",
                           body_of(*state, "i go a", "same a2", 2, node))},
        .initializer = {i64s_of(*state, "n", many, 1), truth(*state, "go0", true)}};
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "more than 4096 iterations");
}

/* Adds the iteration's number to `a`; goes on while that is below `limit`. */
static message open_loop(kiln_arena *arena, const char *condition) {
    message node[] = {with_attr_int(node_of(arena, "Cast", "i", "f"), "to", 1),
                      node_of(arena, "Add", "a f", "a2"),
                      with_attr_int(node_of(arena, "ReduceMax", "a2", "m"), "keepdims", 0),
                      node_of(arena, "Less", "m limit", "less"),
                      node_of(arena, "Identity", "go", "same")};
    const char *outputs = kiln_arena_printf(arena, "%s a2", condition);
    return with_body(node_of(arena, "Loop", "n go0 x", "y"), "body",
                     body_of(arena, "i go a", outputs, 5, node));
}

/* Sums of 0 1 2 3: the input k is 1, so 4 k is 4 iterations. */
static void loops_of_unknown_length_run_until_they_end(void **state) {
    const int64_t many[] = {1000};
    const float four[] = {4}, limit[] = {30};
    model_parts parts = {.opset = 13,
                         .input = "x:2 k:1",
                         .output = "y:2",
                         .node_count = 3,
                         .initializer_count = 3,
                         .node = {node_of(*state, "Mul", "k four", "k4"),
                                  with_attr_int(node_of(*state, "Cast", "k4", "n"), "to", 7),
                                  open_loop(*state, "same")},
                         .initializer = {floats_of(*state, "four", four, 1),
                                         truth(*state, "go0", true),
                                         floats_of(*state, "limit", limit, 1)}};
    expect_loop(*state, &parts, "f32[2]: 7 8");
    /* ... 2 + 0 + 1 + ... + 7 = 30 is the first that is not below */
    parts.node[2] = open_loop(*state, "less");
    parts.node_count = 1;
    parts.node[0] = parts.node[2];
    parts.initializer[0] = i64s_of(*state, "n", many, 1);
    expect_loop(*state, &parts, "f32[2]: 29 30");
}

/* A loop of 4 k iterations, or one that ends by itself before `many`, with a result of each. */
static model_parts growing_loop(kiln_arena *arena, const char *condition, int64_t many) {
    const float four[] = {4}, limit[] = {30};
    message node[] = {with_attr_int(node_of(arena, "Cast", "i", "f"), "to", 1),
                      node_of(arena, "Add", "a f", "a2"),
                      with_attr_int(node_of(arena, "ReduceMax", "a2", "m"), "keepdims", 0),
                      node_of(arena, "Less", "m limit", "less"),
                      node_of(arena, "Identity", "go", "same"),
                      node_of(arena, "Identity", "a2", "each")};
    const char *outputs = kiln_arena_printf(arena, "%s a2 each", condition);
    model_parts parts = {
        .opset = 13,
        .input = "x:2 k:1",
        .output = "y:2 z:n,2",
        .node_count = 1,
        .initializer_count = 3,
        .node = {with_body(node_of(arena, "Loop", "n go0 x", "y z"), "body",
                           body_of(arena, "i go a", outputs, 6, node))},
        .initializer = {floats_of(arena, "limit", limit, 1), truth(arena, "go0", true)}};
    parts.initializer[2] = i64s_of(arena, "n", &many, 1);
    if (many > 0) return parts;
    parts.node[2] = parts.node[0];
    parts.node[0] = node_of(arena, "Mul", "k four", "k4");
    parts.node[1] = with_attr_int(node_of(arena, "Cast", "k4", "n"), "to", 7);
    parts.node_count = 3;
    parts.initializer[2] = floats_of(arena, "four", four, 1);
    return parts;
}

/* The results' shape is the bound; zeros stand behind those that there are. */
static void results_of_unknown_number_have_a_bound(void **state) {
    const kiln_import_options six = {.loop_max = 6}, three = {.loop_max = 3};
    model_parts parts = growing_loop(*state, "same", 0);
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "give one with --loop-max");
    kiln_graph *graph = import_with(*state, &parts, &six);
    const char *result = "f32[2]: 7 8; f32[6,2]: 1 2 2 3 4 5 7 8 0 0 0 0";
    assert_string_equal(result_of(*state, graph), result);
    expect_ok(kiln_passes_run(graph, (kiln_str){0}));
    assert_string_equal(result_of(*state, graph), result);
    kiln_tensor output[2];
    graph = import_with(*state, &parts, &three);
    expect_error(kiln_graph_eval(graph, inputs_of(*state, graph), *state, output), OUT_OF_RANGE,
                 "runs more than 3 times");
}

static void the_model_may_have_the_bound_itself(void **state) {
    model_parts parts = growing_loop(*state, "less", 10);
    const char *rows = "2 3 4 5 7 8 11 12 16 17 22 23 29 30 0 0 0 0";
    assert_string_equal(result_of(*state, import_of(*state, &parts)),
                        kiln_arena_printf(*state, "f32[2]: 29 30; f32[10,2]: 1 2 %s", rows));
    parts = growing_loop(*state, "less", INT64_MAX);
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "give one with --loop-max");
    const kiln_import_options eight = {.loop_max = 8}, seven = {.loop_max = 7};
    assert_string_equal(result_of(*state, import_with(*state, &parts, &eight)),
                        kiln_arena_printf(*state, "f32[2]: 29 30; f32[8,2]: 1 2 %.35s", rows));
    kiln_graph *graph = import_with(*state, &parts, &seven);
    kiln_tensor output[2];
    expect_error(kiln_graph_eval(graph, inputs_of(*state, graph), *state, output), OUT_OF_RANGE,
                 "runs more than 7 times");
}

/* Not even their shape is known. */
static void nothing_reads_results_of_unknown_number(void **state) {
    model_parts parts = growing_loop(*state, "less", 10);
    parts.output = "y:2 w:n,2";
    parts.node_count = 2;
    parts.node[1] = node_of(*state, "Neg", "z", "w");
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED,
                          "it reads \"z\", which has as many rows as a loop runs");
    parts.output = "y:2 w:n";
    parts.node[1] = node_of(*state, "Shape", "z", "w");
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "it reads \"z\"");
}

static void a_first_iteration_may_be_none(void **state) {
    const int64_t many[] = {1000};
    const float limit[] = {30}, zero[] = {0};
    model_parts parts = {
        .opset = 13,
        .input = "x:2 k:1",
        .output = "y:2",
        .node_count = 2,
        .initializer_count = 3,
        .node = {node_of(*state, "Less", "k zero", "go0"), open_loop(*state, "less")},
        .initializer = {i64s_of(*state, "n", many, 1), floats_of(*state, "zero", zero, 1),
                        floats_of(*state, "limit", limit, 1)}};
    expect_loop(*state, &parts, "f32[2]: 1 2");
}

static void loops_whose_values_grow_are_unrolled(void **state) {
    const int64_t trips[] = {3};
    message node[] = {with_attr_int(node_of(*state, "Concat", "a x", "a2"), "axis", 0),
                      node_of(*state, "Identity", "go", "same")};
    model_parts parts = {
        .opset = 13,
        .input = "x:2",
        .output = "y:8",
        .node_count = 1,
        .initializer_count = 2,
        .node = {with_body(node_of(*state, "Loop", "n go0 x", "y"), "body",
                           body_of(*state, "i go a", "same a2", 2, node))},
        .initializer = {i64s_of(*state, "n", trips, 1), truth(*state, "go0", true)}};
    kiln_graph *graph = import_unrolling(*state, &parts, 1);
    assert_int_equal(count_loops(graph), 0);
    assert_string_equal(result_of(*state, graph), "f32[8]: 1 2 1 2 1 2 1 2");
}

static void scans_cut_their_inputs_and_stack_their_results(void **state) {
    const int64_t backward[] = {1};
    message node[] = {node_of(*state, "Add", "s e", "s2"),
                      node_of(*state, "Identity", "s2", "out")};
    message scan = with_body(node_of(*state, "Scan", "x0 x", "y z"), "body",
                             body_of(*state, "s e", "s2 out", 2, node));
    model_parts parts = {.opset = 11,
                         .input = "x0:2 x:3,2",
                         .output = "y:2 z:3,2",
                         .node_count = 1,
                         .node = {with_attr_int(scan, "num_scan_inputs", 1)}};
    assert_string_equal(result_of(*state, import_of(*state, &parts)),
                        "f32[2]: 10 14; f32[3,2]: 2 4 5 8 10 14");
    expect_loop(*state, &parts, "f32[2]: 10 14; f32[3,2]: 2 4 5 8 10 14");
    parts.node[0] = with_attr_ints(parts.node[0], "scan_input_directions", backward, 1);
    parts.node[0] = with_attr_ints(parts.node[0], "scan_output_directions", backward, 1);
    assert_string_equal(result_of(*state, import_of(*state, &parts)),
                        "f32[2]: 10 14; f32[3,2]: 10 14 9 12 6 8");
    expect_loop(*state, &parts, "f32[2]: 10 14; f32[3,2]: 10 14 9 12 6 8");
}

/* Along the last dimension: columns of x go in, columns of z come out. */
static void scans_go_along_any_dimension(void **state) {
    const int64_t last[] = {-1}, one[] = {1};
    message node[] = {node_of(*state, "Add", "s e", "s2"),
                      node_of(*state, "Identity", "s2", "out")};
    message scan = with_body(node_of(*state, "Scan", "x0 x", "y z"), "body",
                             body_of(*state, "s e", "s2 out", 2, node));
    scan = with_attr_ints(scan, "scan_input_axes", last, 1);
    scan = with_attr_ints(scan, "scan_output_axes", one, 1);
    model_parts parts = {.opset = 11,
                         .input = "x0:2 x:2,3",
                         .output = "y:2 z:2,3",
                         .node_count = 1,
                         .node = {with_attr_int(scan, "num_scan_inputs", 1)}};
    const char *wanted = "f32[2]: 7 17; f32[2,3]: 2 4 7 6 11 17";
    assert_string_equal(result_of(*state, import_of(*state, &parts)), wanted);
    expect_loop(*state, &parts, wanted);
}

/* What one step of a recurrence computes may be the user's own expression. */
static void scans_may_have_an_expression_as_their_step(void **state) {
    const char *program =
        "program step\ninput s: f32[2]\ninput e: f32[2]\noutput s2: f32[2]\noutput out: f32[2]\n"
        "block s2(i:2): s2[i] = min(s[i]*e[i], 9.0)\nblock out(i:2): out[i] = s2[i] - s[i]\n";
    const message step = with_text(node_of(*state, "Expression", "s e", "s2 out"), 7, "ai.kiln");
    message node[] = {with_attr_text(step, "program", program)};
    message scan = with_body(node_of(*state, "Scan", "x0 x", "y z"), "body",
                             body_of(*state, "s e", "s2 out", 1, node));
    model_parts parts = {.opset = 11,
                         .input = "x0:2 x:3,2",
                         .output = "y:2 z:3,2",
                         .node_count = 1,
                         .node = {with_attr_int(scan, "num_scan_inputs", 1)}};
    const char *wanted = "f32[2]: 9 9; f32[3,2]: 0 2 2 5 6 0";
    assert_string_equal(result_of(*state, import_of(*state, &parts)), wanted);
    expect_loop(*state, &parts, wanted);
}

/* Before opset 9 there was a batch around it, and an input of lengths before the others. */
static void old_scans_have_a_batch(void **state) {
    const int64_t backward[] = {1};
    message node[] = {node_of(*state, "Add", "s e", "s2"),
                      node_of(*state, "Identity", "s2", "out")};
    message scan = with_body(node_of(*state, "Scan", "- x0 x", "y z"), "body",
                             body_of(*state, "s e", "s2 out", 2, node));
    model_parts parts = {.opset = 8,
                         .input = "x0:2,1 x:2,3,1",
                         .output = "y:2,1 z:2,3,1",
                         .node_count = 1,
                         .node = {with_attr_int(scan, "num_scan_inputs", 1)}};
    assert_string_equal(result_of(*state, import_of(*state, &parts)),
                        "f32[2,1]: 7 17; f32[2,3,1]: 2 4 7 6 11 17");
    parts.node[0] = with_attr_ints(parts.node[0], "directions", backward, 1);
    assert_string_equal(result_of(*state, import_of(*state, &parts)),
                        "f32[2,1]: 7 17; f32[2,3,1]: 4 6 7 8 13 17");
    parts.input = "x0:3,1 x:2,3,1";
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "input 2 does not fit");
}

static void bodies_must_fit_their_node(void **state) {
    message node = node_of(*state, "Neg", "x", "t");
    model_parts parts = {.opset = 13,
                         .input = "x:2",
                         .output = "y:2",
                         .node_count = 1,
                         .initializer_count = 1,
                         .initializer = {truth(*state, "c", true)},
                         .node = {with_body(node_of(*state, "If", "c", "y"), "then_branch",
                                            body_of(*state, "", "t", 1, &node))}};
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "it has no body");
    parts.node[0] = with_body(parts.node[0], "else_branch", body_of(*state, "", "t u", 1, &node));
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "2 outputs, not 0 and 1");
    parts.node[0] = with_body(node_of(*state, "If", "c", "y"), "then_branch",
                              body_of(*state, "", "missing", 1, &node));
    parts.node[0] = with_body(parts.node[0], "else_branch", body_of(*state, "", "t", 1, &node));
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT,
                          "\"missing\" is produced by no node");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(a_known_condition_takes_one_branch),
        test_with_arena(a_condition_is_needed),
        test_with_arena(an_unknown_condition_chooses_between_both),
        test_with_arena(loops_of_known_length_are_unrolled),
        test_with_arena(longer_loops_stay_loops),
        test_with_arena(loops_of_unknown_length_run_until_they_end),
        test_with_arena(results_of_unknown_number_have_a_bound),
        test_with_arena(the_model_may_have_the_bound_itself),
        test_with_arena(nothing_reads_results_of_unknown_number),
        test_with_arena(a_first_iteration_may_be_none),
        test_with_arena(endless_loops_are_refused),
        test_with_arena(loops_whose_values_grow_are_unrolled),
        test_with_arena(scans_go_along_any_dimension),
        test_with_arena(old_scans_have_a_batch),
        test_with_arena(scans_cut_their_inputs_and_stack_their_results),
        test_with_arena(scans_may_have_an_expression_as_their_step),
        test_with_arena(bodies_must_fit_their_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
