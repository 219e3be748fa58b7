#include "tests/unit/compiler-core/graph/support.h"
#include "tests/unit/compiler-core/frontend/support.h"

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
    parts.node[0] = counting_loop(*state, "same");
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "more than 4096 iterations");
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
    parts.node[0] = with_attr_ints(parts.node[0], "scan_input_directions", backward, 1);
    parts.node[0] = with_attr_ints(parts.node[0], "scan_output_directions", backward, 1);
    assert_string_equal(result_of(*state, import_of(*state, &parts)),
                        "f32[2]: 10 14; f32[3,2]: 10 14 9 12 6 8");
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
        test_with_arena(an_unknown_condition_chooses_between_both),
        test_with_arena(loops_of_known_length_are_unrolled),
        test_with_arena(scans_cut_their_inputs_and_stack_their_results),
        test_with_arena(bodies_must_fit_their_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
