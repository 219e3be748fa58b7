#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

#include <string.h>

#define XY .input = "x:2,3", .output = "y:2,3"

static void nodes_become_operators(void **state) {
    const float k[] = {1, 2, 3};
    model_parts parts = {
        .opset = 13,
        XY,
        .node_count = 2,
        .initializer_count = 1,
        .node = {node_of(*state, "Add", "x k", "a"), node_of(*state, "LeakyRelu", "a", "y")},
        .initializer = {floats_of(*state, "k", k, 3)}};
    parts.node[1] = with_attr_float(parts.node[1], "alpha", 0.25f);
    assert_string_equal(text_of_import(*state, &parts),
                        "input x: f32[2,3]\n"
                        "constant k: f32[3] = [1, 2, 3]\n"
                        "a: f32[2,3] = add(x, k) name \"a\"\n"
                        "y: f32[2,3] = leaky_relu(a) alpha=0.25 name \"y\"\n"
                        "output y\n");
}

static void operators_of_ones_own_are_expressions(void **state) {
    const char *program = "program twice\ninput a: f32[2,3]\noutput b: f32[2,3]\n"
                          "block b(i:2, j:3): b[i, j] = a[i, j] + a[i, j]\n";
    model_parts parts = {.opset = 13, XY, .node_count = 1};
    const message node = with_text(node_of(*state, "Expression", "x", "y"), 7, "ai.kiln");
    parts.node[0] = with_attr_text(node, "program", program);
    assert_string_equal(result_of(*state, import_of(*state, &parts)), "f32[2,3]: 2 4 6 8 10 12");
    parts.node[0] = with_attr_text(node, "program", "program twice\ninput a: f32[2]\n");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "input 0 is not 'a', a f32[2]");
}

static void everything_unsupported_is_listed_at_once(void **state) {
    model_parts parts = {
        .opset = 13,
        .input = "x:2,3 z:batch,3",
        .output = "y:2,3",
        .node_count = 4,
        .node = {with_text(node_of(*state, "Frobnicate", "x", "a"), 3, "first"),
                 node_of(*state, "Relu", "a", "b"),
                 with_attr_int(with_attr_int(node_of(*state, "Relu", "x", "c"), "inplace", 1),
                               "fast", 1),
                 with_text(node_of(*state, "Conv", "b x", "y"), 7, "com.example")}};
    kiln_graph *graph = NULL;
    kiln_status st = kiln_import_bytes(model_of(*state, &parts), NULL, NULL, *state, &graph);
    const char *text = kiln_status_text(st);
    assert_int_equal(kiln_status_code(st), KILN_UNIMPLEMENTED);
    expect_contains(text, "5 things of this model are not supported:");
    expect_contains(text,
                    "input \"z\": dimension \"batch\" is open; give it a size: --dim batch=N");
    expect_contains(text, "node \"first\": Frobnicate (opset 13): operator");
    expect_contains(text, "node \"c\": Relu (opset 13): attribute inplace");
    expect_contains(text, "node \"c\": Relu (opset 13): attribute fast");
    expect_contains(text, "node \"y\": Conv (opset 13): operator of domain com.example");
    assert_null(strstr(text, "node \"b\"")); /* fine by itself */
    kiln_status_free(st);
}

static void long_lists_are_cut(void **state) {
    model_parts parts = {.opset = 13, XY, .node_count = 16};
    for (uint32_t i = 0; i < 16; i++) {
        char name[600];
        memset(name, 'n', sizeof name - 1);
        name[sizeof name - 1] = '\0';
        parts.node[i] = with_text(
            node_of(*state, "Frobnicate", "x", kiln_arena_printf(*state, "o%u", i)), 3, name);
    }
    parts.output = "o0:1";
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "\n  ...");
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "16 things");
}

static void negative_dimensions_are_open(void **state) {
    model_parts parts = {.opset = 13,
                         .input = "x:-1,3",
                         .output = "y:1",
                         .node_count = 1,
                         .node = {node_of(*state, "Relu", "x", "y")}};
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED,
                          "input \"x\": dimension \"x.0\" is open");
    const kiln_named_tensor known = {KILN_STR("x"),
                                     kiln_tensor_create(*state, KILN_F32, SHAPE(2, 3))};
    const kiln_import_options options = {.known_count = 1, .known = &known};
    kiln_graph *graph = NULL;
    expect_ok(kiln_import_bytes(model_of(*state, &parts), NULL, &options, *state, &graph));
    assert_int_equal(graph->value.data[graph->input.data[0]].shape.dim[0], 2);
}

static void opsets_have_bounds(void **state) {
    model_parts parts = {
        .opset = 99, XY, .node_count = 1, .node = {node_of(*state, "Relu", "x", "y")}};
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "opset 99; 27 is the newest known");
    parts.opset = -1;
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "opset -1 does not exist");
    parts = (model_parts){
        .opset = 10, XY, .node_count = 1, .node = {node_of(*state, "HardSwish", "x", "y")}};
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "HardSwish (opset 10): operator");
}

static void names_must_be_defined_once_and_before_use(void **state) {
    model_parts parts = {
        .opset = 13, XY, .node_count = 1, .node = {node_of(*state, "Relu", "z", "y")}};
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT,
                          "input \"z\" is produced by no earlier node");
    parts.node[0] = node_of(*state, "Relu", "x", "x");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "output \"x\" is defined twice");
    parts.node[0] = node_of(*state, "Relu", "x", "z");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT,
                          "output \"y\" is produced by no node");
    parts.output = "";
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "the model has no output");
}

static void contradictions_name_the_node(void **state) {
    model_parts parts = {.opset = 13,
                         .input = "x:2,3 z:4",
                         .output = "y:2,3",
                         .node_count = 1,
                         .node = {node_of(*state, "Add", "x z", "y")}};
    expect_import_refused(
        *state, &parts, KILN_INVALID_ARGUMENT,
        "node \"y\": Add (opset 13): input 1: dimensions 3 and 4 do not broadcast");
}

static void dimensions_can_be_given_by_name(void **state) {
    model_parts parts = {.opset = 13,
                         .input = "x:batch,3",
                         .output = "y:batch,3",
                         .node_count = 1,
                         .node = {node_of(*state, "Relu", "x", "y")}};
    kiln_str name = KILN_STR("batch");
    int64_t value = 7;
    kiln_import_options options = {.dim_count = 1, .dim_name = &name, .dim_value = &value};
    kiln_graph *graph = NULL;
    expect_ok(kiln_import_bytes(model_of(*state, &parts), NULL, &options, *state, &graph));
    assert_int_equal(graph->value.data[graph->output.data[0]].shape.dim[0], 7);
    name = KILN_STR("channels");
    expect_error(kiln_import_bytes(model_of(*state, &parts), NULL, &options, *state, &graph),
                 INVALID_ARGUMENT, "no open dimension \"channels\"; open are batch");
    parts.input = "x:-1,3";
    expect_error(kiln_import_bytes(model_of(*state, &parts), NULL, &options, *state, &graph),
                 INVALID_ARGUMENT, "open are x.0");
    name = KILN_STR("x.0"); /* what has no name is called by its place */
    expect_ok(kiln_import_bytes(model_of(*state, &parts), NULL, &options, *state, &graph));
    assert_int_equal(graph->value.data[graph->output.data[0]].shape.dim[0], 7);
    parts.input = "x:7,3";
    expect_error(kiln_import_bytes(model_of(*state, &parts), NULL, &options, *state, &graph),
                 INVALID_ARGUMENT, "its shapes are all known");
}

static void initializers_that_are_inputs_too_are_constants(void **state) {
    const float k[] = {1, 2, 3};
    model_parts parts = {.opset = 13,
                         .input = "x:2,3 k:3",
                         .output = "y:2,3",
                         .node_count = 1,
                         .initializer_count = 1,
                         .node = {node_of(*state, "Add", "x k", "y")},
                         .initializer = {floats_of(*state, "k", k, 3)}};
    assert_int_equal(import_of(*state, &parts)->input.count, 1);
}

/* Before opset 7, a broadcast operand could stand at an inner axis. */
static void old_broadcasts_align_at_their_axis(void **state) {
    const float k[] = {10, 20};
    model_parts parts = {.opset = 6,
                         XY,
                         .node_count = 1,
                         .initializer_count = 1,
                         .initializer = {floats_of(*state, "k", k, 2)}};
    parts.node[0] =
        with_attr_int(with_attr_int(node_of(*state, "Add", "x k", "y"), "broadcast", 1), "axis", 0);
    expect_contains(text_of_import(*state, &parts), "f32[2,1] = unsqueeze(k) axes=[1]");
    parts.node[0] =
        with_attr_int(with_attr_int(node_of(*state, "Add", "x k", "y"), "broadcast", 1), "axis", 2);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT,
                          "attribute axis: 2 is out of range");
}

static void opsets_choose_the_meaning(void **state) {
    model_parts parts = {
        .opset = 11, XY, .node_count = 1, .node = {node_of(*state, "Softmax", "x", "y")}};
    expect_contains(text_of_import(*state, &parts), "softmax(x) axis=1 flatten=1");
    parts.opset = 13;
    expect_contains(text_of_import(*state, &parts), "softmax(x) name");
    parts.opset = 6;
    parts.node[0] =
        with_attr_float(with_attr_float(node_of(*state, "Clip", "x", "y"), "min", -1), "max", 6);
    expect_contains(text_of_import(*state, &parts), "clip(x, min, max)");
    parts.node[0] = with_attr_float(node_of(*state, "Clip", "x", "y"), "max", 6);
    expect_contains(text_of_import(*state, &parts), "clip(x, _, max)");
}

static void values_may_be_attributes_or_inputs(void **state) {
    const int64_t axes[] = {1};
    model_parts parts = {.opset = 11, .input = "x:2,3", .output = "y:2,1", .node_count = 1};
    parts.node[0] = with_attr_ints(node_of(*state, "ReduceSum", "x", "y"), "axes", axes, 1);
    expect_contains(text_of_import(*state, &parts), "y: f32[2,1] = reduce_sum(x) axes=[1]");
    parts.opset = 13;
    parts.node[0] = node_of(*state, "ReduceSum", "x axes", "y");
    parts.initializer_count = 1;
    parts.initializer[0] = i64s_of(*state, "axes", axes, 1);
    expect_contains(text_of_import(*state, &parts), "y: f32[2,1] = reduce_sum(x) axes=[1]");
}

static void values_are_computed_from_shapes(void **state) {
    const int64_t last[] = {1}, rest[] = {-1};
    model_parts parts = {
        .opset = 13,
        .input = "x:2,3,4",
        .output = "y:3,8",
        .node_count = 4,
        .initializer_count = 2,
        .node = {node_of(*state, "Shape", "x", "s"), node_of(*state, "Gather", "s last", "d"),
                 with_attr_int(node_of(*state, "Concat", "d rest", "t"), "axis", 0),
                 node_of(*state, "Reshape", "x t", "y")},
        .initializer = {i64s_of(*state, "last", last, 1), i64s_of(*state, "rest", rest, 1)}};
    expect_contains(text_of_import(*state, &parts), "y: f32[3,8] = reshape(x) shape=[3,-1]");
}

static void values_known_at_run_time_only_are_refused_by_name(void **state) {
    const float k[] = {1, 1};
    model_parts parts = {.opset = 13,
                         .input = "x:2,3 w:1",
                         .output = "y:6",
                         .node_count = 2,
                         .initializer_count = 1,
                         .node = {with_attr_int(node_of(*state, "Cast", "w", "s"), "to", 7),
                                  node_of(*state, "Reshape", "x s", "y")},
                         .initializer = {floats_of(*state, "k", k, 2)}};
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED,
                          "shape: input 1 must be known when compiling: it depends on the input w, "
                          "which is known only at run time");
}

static void inputs_needed_as_values_are_bound(void **state) {
    model_parts parts = {.opset = 13,
                         .input = "x:2,3 w:1",
                         .output = "y:6",
                         .node_count = 2,
                         .node = {with_attr_int(node_of(*state, "Cast", "w", "s"), "to", 7),
                                  node_of(*state, "Reshape", "x s", "y")}};
    float data[] = {6};
    uint32_t bound = 0;
    kiln_named_tensor known[] = {{KILN_STR("x"), {0}},
                                 {KILN_STR("w"), {KILN_F32, {.rank = 1, .dim = {1}}, data}}};
    kiln_import_options options = {.known_count = 2, .known = known, .out_bound_count = &bound};
    kiln_graph *graph = NULL;
    expect_ok(kiln_import_bytes(model_of(*state, &parts), NULL, &options, *state, &graph));
    assert_int_equal(bound, 1);
    assert_int_equal(graph->input.count, 1); /* x stays an input: nothing needs its value */
    expect_str(graph->value.data[graph->input.data[0]].name, "x");
}

/* Since opset 14 it says what training mode computes (test_composed.c). */
static void old_training_is_not_supported(void **state) {
    model_parts parts = {.opset = 13, .input = "x:1,2,3 s:2", .output = "y:1,2,3", .node_count = 1};
    parts.node[0] =
        with_attr_int(node_of(*state, "BatchNormalization", "x s s s s", "y"), "training_mode", 1);
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED,
                          "attribute training_mode: 1, only 0 is supported");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(nodes_become_operators),
        test_with_arena(operators_of_ones_own_are_expressions),
        test_with_arena(everything_unsupported_is_listed_at_once),
        test_with_arena(long_lists_are_cut),
        test_with_arena(opsets_have_bounds),
        test_with_arena(negative_dimensions_are_open),
        test_with_arena(names_must_be_defined_once_and_before_use),
        test_with_arena(contradictions_name_the_node),
        test_with_arena(dimensions_can_be_given_by_name),
        test_with_arena(initializers_that_are_inputs_too_are_constants),
        test_with_arena(old_broadcasts_align_at_their_axis),
        test_with_arena(opsets_choose_the_meaning),
        test_with_arena(values_may_be_attributes_or_inputs),
        test_with_arena(values_are_computed_from_shapes),
        test_with_arena(values_known_at_run_time_only_are_refused_by_name),
        test_with_arena(inputs_needed_as_values_are_bound),
        test_with_arena(old_training_is_not_supported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
