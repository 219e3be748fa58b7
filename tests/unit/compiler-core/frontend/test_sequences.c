/* Sequences and optional values that fold away. */
#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

static model_parts parts_of(const char *input) {
    return (model_parts){.opset = 18, .input = input, .output = "y:1"};
}

static void add(model_parts *parts, message node) { parts->node[parts->node_count++] = node; }

static void add_int(model_parts *parts, kiln_arena *arena, const char *name, int64_t value) {
    message m = with_int(with_text(message_of(arena), 8, name), 2, 7);
    parts->initializer[parts->initializer_count++] = with_bytes(m, 9, &value, sizeof value);
}

static void items_are_inserted_erased_and_found(void **state) {
    model_parts parts = parts_of("a:1 b:1 c:1");
    const kiln_tensor input[] = {tensor_from(*state, SHAPE(1), FLOATS(1)),
                                 tensor_from(*state, SHAPE(1), FLOATS(2)),
                                 tensor_from(*state, SHAPE(1), FLOATS(3))};
    kiln_tensor y;
    add_int(&parts, *state, "first", 0);
    add_int(&parts, *state, "last", -1);
    add(&parts, node_of(*state, "SequenceEmpty", "", "s0"));
    add(&parts, node_of(*state, "SequenceInsert", "s0 a", "s1"));
    add(&parts, node_of(*state, "SequenceInsert", "s1 b first", "s2"));
    add(&parts, node_of(*state, "SequenceInsert", "s2 c last", "s3")); /* b c a */
    add(&parts, node_of(*state, "SequenceErase", "s3 first", "s4"));
    add(&parts, node_of(*state, "Identity", "s4", "s5"));
    add(&parts, with_attr_int(node_of(*state, "ConcatFromSequence", "s5", "y"), "axis", 0));
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &y));
    expect_tensor(&y, SHAPE(2), FLOATS(3, 1));
    parts.node[6] = node_of(*state, "SequenceAt", "s5 last", "y");
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &y));
    expect_tensor(&y, SHAPE(1), FLOATS(1));
    parts.node[6] = node_of(*state, "SequenceLength", "s5", "y");
    expect_contains(text_of_import(*state, &parts), "i64[] = [2]");
    add_int(&parts, *state, "far", 2);
    parts.node[6] = node_of(*state, "SequenceAt", "s5 far", "y");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "no place in a sequence of 2");
    parts.node[6] = node_of(*state, "Identity", "s5", "y");
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "output \"y\": it is not a tensor");
    parts.node[6] = node_of(*state, "Neg", "s5", "y");
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "it reads a sequence");
}

static void tensors_are_split_into_sequences(void **state) {
    model_parts parts = parts_of("x:5,2");
    const kiln_tensor x = tensor_from(*state, SHAPE(5, 2), FLOATS(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    kiln_tensor y;
    add_int(&parts, *state, "two", 2);
    add(&parts, node_of(*state, "SplitToSequence", "x two", "s")); /* 2, 2 and 1 rows */
    add(&parts, node_of(*state, "SequenceAt", "s two", "y"));
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &x, *state, &y));
    expect_tensor(&y, SHAPE(1, 2), FLOATS(8, 9));
    parts.node[0] = with_attr_int(node_of(*state, "SplitToSequence", "x", "s"), "keepdims", 0);
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &x, *state, &y));
    expect_tensor(&y, SHAPE(2), FLOATS(4, 5));
    message stack = with_attr_int(node_of(*state, "ConcatFromSequence", "s", "y"), "new_axis", 1);
    parts.node[1] = with_attr_int(stack, "axis", -1);
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &x, *state, &y));
    expect_tensor(&y, SHAPE(2, 5), FLOATS(0, 2, 4, 6, 8, 1, 3, 5, 7, 9));
    static const int64_t short_parts[] = {2, 2};
    parts.initializer[0] = i64s_of(*state, "two", short_parts, 2);
    parts.node[0] = node_of(*state, "SplitToSequence", "x two", "s");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "parts of less than there is");
}

static void bodies_are_mapped_over_items(void **state) {
    message body = with_text(message_of(*state), 2, "b");
    body = with_message(body, 1, node_of(*state, "Mul", "item by", "scaled"));
    body = with_message(body, 11, with_text(message_of(*state), 1, "item"));
    body = with_message(body, 11, with_text(message_of(*state), 1, "by"));
    body = with_message(body, 12, with_text(message_of(*state), 1, "scaled"));
    model_parts parts = parts_of("a:1 b:2 f:1");
    add(&parts, node_of(*state, "SequenceConstruct", "a b", "s"));
    add(&parts, with_attr_graph(node_of(*state, "SequenceMap", "s f", "t"), "body", body));
    add(&parts, with_attr_int(node_of(*state, "ConcatFromSequence", "t", "y"), "axis", 0));
    const kiln_tensor input[] = {tensor_from(*state, SHAPE(1), FLOATS(1)),
                                 tensor_from(*state, SHAPE(2), FLOATS(2, 3)),
                                 tensor_from(*state, SHAPE(1), FLOATS(10))};
    kiln_tensor y;
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &y));
    expect_tensor(&y, SHAPE(3), FLOATS(10, 20, 30));
}

static void optional_values_are_there_or_not(void **state) {
    model_parts parts = parts_of("x:2");
    add(&parts, node_of(*state, "Optional", "x", "o"));
    add(&parts, node_of(*state, "OptionalHasElement", "o", "y"));
    expect_contains(text_of_import(*state, &parts), "bool[] = [1]");
    parts.node[0] = node_of(*state, "Optional", "", "o");
    expect_contains(text_of_import(*state, &parts), "bool[] = [0]");
    parts.node[1] = node_of(*state, "OptionalGetElement", "o", "y");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "no value to get");
    parts.node[0] = node_of(*state, "Optional", "x", "o");
    parts.node[1] = node_of(*state, "OptionalGetElement", "o", "p");
    add(&parts, node_of(*state, "Neg", "p", "y"));
    kiln_tensor y;
    const kiln_tensor x = tensor_from(*state, SHAPE(2), FLOATS(1, -2));
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &x, *state, &y));
    expect_tensor(&y, SHAPE(2), FLOATS(-1, 2));
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(items_are_inserted_erased_and_found),
        test_with_arena(tensors_are_split_into_sequences),
        test_with_arena(bodies_are_mapped_over_items),
        test_with_arena(optional_values_are_there_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
