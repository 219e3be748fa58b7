/* Functions of the model: bodies in place of calls, attributes that refer to the call's. */
#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

static message call_of(kiln_arena *arena, const char *name, const char *in, const char *out) {
    return with_text(node_of(arena, name, in, out), 7, "local");
}

/* The node with attribute `name` taken from the call's `from`; type: AttributeProto's. */
static message with_reference(message node, const char *name, const char *from, int64_t type) {
    message a = with_text(with_text(message_of(node.arena), 1, name), 21, from);
    return with_message(node, 5, with_int(a, 20, type));
}

/* x and an optional y to leaky_relu(x) clipped by y from below: with slope `slope` (default 0.5).
 */
static message leaky_function(kiln_arena *arena) {
    message f = with_text(with_text(message_of(arena), 1, "Leaky"), 10, "local");
    f = with_text(with_text(with_text(f, 4, "x"), 4, "low"), 5, "y");
    f = with_message(f, 7,
                     with_reference(node_of(arena, "LeakyRelu", "x", "t"), "alpha", "slope", 1));
    f = with_message(f, 7, node_of(arena, "Clip", "t low", "y"));
    f = with_message(f, 9, with_int(with_text(message_of(arena), 1, ""), 2, 13));
    message slope = with_float(with_text(message_of(arena), 1, "slope"), 2, 0.5f);
    return with_message(f, 11, with_int(slope, 20, 1));
}

static void bodies_take_the_place_of_calls(void **state) {
    model_parts parts = {.opset = 13,
                         .input = "x:3 t:",
                         .output = "y:3",
                         .node_count = 1,
                         .node = {call_of(*state, "Leaky", "x", "y")},
                         .function_count = 1,
                         .function = {leaky_function(*state)}};
    const float low = -1;
    const kiln_tensor input[] = {tensor_from(*state, SHAPE(3), FLOATS(-4, -1, 2)),
                                 tensor_from(*state, &(kiln_shape){0}, &low)};
    kiln_tensor y;
    parts.input = "x:3";
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &y));
    expect_tensor(&y, SHAPE(3), FLOATS(-2, -0.5f, 2)); /* by default */
    parts.node[0] = with_attr_float(parts.node[0], "slope", 0.25f);
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &y));
    expect_tensor(&y, SHAPE(3), FLOATS(-1, -0.25f, 2));
    static const float bound[] = {-1};
    message bounded = with_int(with_text(message_of(*state), 8, "low"), 2, 1);
    parts.initializer[0] = with_bytes(bounded, 9, bound, sizeof bound);
    parts.initializer_count = 1;
    parts.node[0] = call_of(*state, "Leaky", "x low", "y");
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &y));
    expect_tensor(&y, SHAPE(3), FLOATS(-1, -0.5f, 2));
}

/* A function that calls another one, twice, and whose names are those of the graph around it. */
static void functions_call_functions_under_their_own_names(void **state) {
    message outer = with_text(with_text(message_of(*state), 1, "Twice"), 10, "local");
    outer = with_text(with_text(outer, 4, "a"), 5, "x");
    outer = with_message(outer, 7,
                         with_reference(call_of(*state, "Leaky", "a", "y"), "slope", "by", 1));
    outer = with_message(outer, 7, call_of(*state, "Leaky", "y", "x"));
    model_parts parts = {.opset = 13,
                         .input = "x:2",
                         .output = "y:2",
                         .node_count = 1,
                         .node = {with_attr_float(call_of(*state, "Twice", "x", "y"), "by", 0.25f)},
                         .function_count = 2,
                         .function = {leaky_function(*state), outer}};
    const kiln_tensor x = tensor_from(*state, SHAPE(2), FLOATS(-8, 8));
    kiln_tensor y;
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &x, *state, &y));
    expect_tensor(&y, SHAPE(2), FLOATS(-1, 8));
}

static void wrong_calls_are_refused(void **state) {
    model_parts parts = {.opset = 13,
                         .input = "x:2",
                         .output = "y:2",
                         .node_count = 1,
                         .node = {call_of(*state, "Leaky", "x x x", "y")},
                         .function_count = 1,
                         .function = {leaky_function(*state)}};
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "of a function with 2 and 1");
    parts.node[0] = call_of(*state, "Other", "x", "y");
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "operator of domain local");
    parts.node[0] = call_of(*state, "Leaky", "x", "y");
    parts.function[parts.function_count++] = parts.function[0];
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "several functions of one name");
    message self = with_text(with_text(message_of(*state), 1, "Self"), 10, "local");
    self = with_text(with_text(self, 4, "x"), 5, "y");
    parts.function[1] = with_message(self, 7, call_of(*state, "Self", "x", "y"));
    parts.node[0] = call_of(*state, "Self", "x", "y");
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "bodies within bodies");
    message blind = with_text(with_text(message_of(*state), 1, "Blind"), 10, "local");
    blind = with_text(with_text(blind, 4, "a"), 5, "y");
    parts.function[1] = with_message(blind, 7, node_of(*state, "Neg", "x", "y"));
    parts.node[0] = call_of(*state, "Blind", "x", "y"); /* x is known outside of it only */
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "\"x\" is produced by no earlier");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(bodies_take_the_place_of_calls),
        test_with_arena(functions_call_functions_under_their_own_names),
        test_with_arena(wrong_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
