/* Operators with as many results as data says: what is in the rows, and zeros behind them. */
#include <string.h>

#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

static void expect_i64s(const kiln_tensor *tensor, const kiln_shape *shape, const int64_t *item) {
    assert_int_equal(tensor->dtype, KILN_I64);
    assert_true(kiln_shape_equal(&tensor->shape, shape));
    assert_memory_equal(tensor->data, item, kiln_tensor_bytes(tensor));
}

static kiln_tensor truths(kiln_arena *arena, const uint8_t *item, int64_t count) {
    const kiln_tensor tensor = kiln_tensor_create(arena, KILN_BOOL, SHAPE(count));
    memcpy(tensor.data, item, (size_t)count);
    return tensor;
}

/* ---- Compress and NonZero -------------------------------------------------------------------- */

static void known_conditions_give_exact_shapes(void **state) {
    const kiln_tensor chosen = truths(*state, (const uint8_t[]){0, 1}, 2);
    model_parts parts = {
        .opset = 11,
        .input = "x:2,3",
        .output = "y:1",
        .node_count = 1,
        .node = {with_attr_int(node_of(*state, "Compress", "x c", "y"), "axis", -1)},
        .initializer_count = 1,
        .initializer = {tensor_message(*state, "c", &chosen)}};
    const kiln_tensor x = tensor_from(*state, SHAPE(2, 3), FLOATS(1, 2, 3, 4, 5, 6));
    kiln_tensor y;
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &x, *state, &y));
    expect_tensor(&y, SHAPE(2, 1), FLOATS(2, 5));
    parts.node[0] = node_of(*state, "Compress", "x c", "y");
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &x, *state, &y));
    expect_tensor(&y, SHAPE(1), FLOATS(2));
}

/* The condition is computed from x: elements above 2, or rows. */
static void rows_are_chosen_at_run_time(void **state) {
    static const float two[] = {2};
    static const int64_t flat[] = {-1};
    model_parts parts = {
        .opset = 11,
        .input = "x:2,2 r:3",
        .output = "y:1",
        .node_count = 3,
        .node = {node_of(*state, "Reshape", "x n", "f"), node_of(*state, "Greater", "f t", "c"),
                 node_of(*state, "Compress", "x c", "y")},
        .initializer_count = 2,
        .initializer = {floats_of(*state, "t", two, 1), i64s_of(*state, "n", flat, 1)}};
    kiln_tensor input[] = {tensor_from(*state, SHAPE(2, 2), FLOATS(5, 1, 2, 3)),
                           tensor_from(*state, SHAPE(3), FLOATS(9, 0, 9))},
                y;
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &y));
    expect_tensor(&y, SHAPE(4), FLOATS(5, 3, 0, 0)); /* two rows, and two that are none */
    parts.input = "x:3,2 r:3";
    parts.node[0] = node_of(*state, "Reshape", "r n", "f");
    parts.node[2] = with_attr_int(parts.node[2], "axis", 0);
    input[0] = tensor_from(*state, SHAPE(3, 2), FLOATS(1, 2, 3, 4, 5, 6));
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &y));
    expect_tensor(&y, SHAPE(3, 2), FLOATS(1, 2, 5, 6, 0, 0));
    parts.input = "x:2,3 r:3";
    parts.node[2] = with_attr_int(node_of(*state, "Compress", "x c", "y"), "axis", 1);
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "only rows can be chosen");
    parts.input = "x:3,2 r:3";
    parts.node[2] = with_attr_int(node_of(*state, "Compress", "x c", "z"), "axis", 0);
    parts.node[parts.node_count++] = node_of(*state, "Neg", "z", "y");
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "known at run time only");
}

static void places_of_known_numbers_are_constants(void **state) {
    const kiln_tensor x = tensor_from(*state, SHAPE(2, 2), FLOATS(0, 3, -1, 0));
    model_parts parts = {.opset = 13,
                         .input = "a:1",
                         .output = "y:1",
                         .node_count = 1,
                         .node = {node_of(*state, "NonZero", "x", "y")},
                         .initializer_count = 1,
                         .initializer = {tensor_message(*state, "x", &x)}};
    expect_contains(text_of_import(*state, &parts), "constant y: i64[2,2] = [0, 1, 1, 0]");
    parts.node[0] = node_of(*state, "NonZero", "a", "y");
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "must be known when compiling");
}

/* ---- Unique ---------------------------------------------------------------------------------- */

static void elements_are_counted_and_found_again(void **state) {
    model_parts parts = {.opset = 11,
                         .input = "x:2,3",
                         .output = "y:1 i:1 b:1 c:1",
                         .node_count = 1,
                         .node = {node_of(*state, "Unique", "x", "y i b c")}};
    const kiln_tensor x = tensor_from(*state, SHAPE(2, 3), FLOATS(2, 1, 1, 3, -4, 3));
    kiln_tensor out[4];
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &x, *state, out));
    expect_tensor(&out[0], SHAPE(6), FLOATS(-4, 1, 2, 3, 0, 0));
    expect_i64s(&out[1], SHAPE(6), (const int64_t[]){4, 1, 0, 3, 0, 0});
    expect_i64s(&out[2], SHAPE(6), (const int64_t[]){2, 1, 1, 3, 0, 3});
    expect_i64s(&out[3], SHAPE(6), (const int64_t[]){1, 2, 1, 2, 0, 0});
    parts.node[0] = with_attr_int(parts.node[0], "sorted", 0);
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &x, *state, out));
    expect_tensor(&out[0], SHAPE(6), FLOATS(2, 1, 3, -4, 0, 0));
    expect_i64s(&out[1], SHAPE(6), (const int64_t[]){0, 1, 3, 4, 0, 0});
    expect_i64s(&out[2], SHAPE(6), (const int64_t[]){0, 1, 1, 2, 3, 2});
    expect_i64s(&out[3], SHAPE(6), (const int64_t[]){1, 2, 2, 1, 0, 0});
}

static void rows_are_compared_as_wholes(void **state) {
    model_parts parts = {
        .opset = 11,
        .input = "x:4,2",
        .output = "y:1 i:1 b:1 c:1",
        .node_count = 1,
        .node = {with_attr_int(node_of(*state, "Unique", "x", "y i b c"), "axis", 0)}};
    const kiln_tensor x = tensor_from(*state, SHAPE(4, 2), FLOATS(1, 7, 0, 9, 1, 5, 1, 7));
    kiln_tensor out[4];
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &x, *state, out));
    expect_tensor(&out[0], SHAPE(4, 2), FLOATS(0, 9, 1, 5, 1, 7, 0, 0));
    expect_i64s(&out[1], SHAPE(4), (const int64_t[]){1, 2, 0, 0});
    expect_i64s(&out[2], SHAPE(4), (const int64_t[]){2, 0, 1, 2});
    expect_i64s(&out[3], SHAPE(4), (const int64_t[]){1, 1, 2, 0});
    parts.node[0] = with_attr_int(node_of(*state, "Unique", "x", "y i b c"), "axis", 1);
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "only the first is supported");
}

/* ---- NonMaxSuppression ----------------------------------------------------------------------- */

/* Two batches of four boxes [y1, x1, y2, x2]: 0 and 1 share 2/3 of what they cover, 0 and 2
 * nothing, and 3 is 2 with its corners exchanged. */
static const float boxes[] = {0, 0, 1, 5, 0, 1, 1, 6, 5, 0, 6, 5, 6, 5, 5, 0,
                              0, 0, 1, 5, 0, 1, 1, 6, 5, 0, 6, 5, 6, 5, 5, 0};
/* [batch][class][box] */
static const float scores[] = {0.5f, 0.75f, 0.25f, 0.375f, 0.125f, 0.125f, 0.125f, 0.125f,
                               0.1f, 0.1f,  0.1f,  0.1f,   0.5f,   0.25f,  0.75f,  0.5f};

static void boxes_put_out_those_below_them(void **state) {
    static const int64_t most[] = {3};
    static const float limit[] = {0.5f}, least[] = {0.2f};
    model_parts parts = {.opset = 11,
                         .input = "b:2,4,4 s:2,2,4",
                         .output = "y:1",
                         .node_count = 1,
                         .node = {node_of(*state, "NonMaxSuppression", "b s m l t", "y")},
                         .initializer_count = 3,
                         .initializer = {i64s_of(*state, "m", most, 1),
                                         floats_of(*state, "l", limit, 1),
                                         floats_of(*state, "t", least, 1)}};
    const kiln_tensor input[] = {tensor_from(*state, SHAPE(2, 4, 4), boxes),
                                 tensor_from(*state, SHAPE(2, 2, 4), scores)};
    kiln_tensor y;
    const int64_t wanted[12 * 3] = {0, 0, 1, 0, 0, 3, 1, 1, 2, 1, 1, 0};
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &y));
    expect_i64s(&y, SHAPE(12, 3), wanted);
    const kiln_import_options three = {.loop_max = 3};
    expect_error(kiln_graph_eval(import_with(*state, &parts, &three), input, *state, &y),
                 OUT_OF_RANGE, "runs more than 3 times");
    /* Nothing shares more than all that it has. */
    static const float all[] = {1};
    static const int64_t one[] = {1};
    parts.initializer[1] = floats_of(*state, "l", all, 1);
    const int64_t whole[12 * 3] = {0, 0, 1, 0, 0, 0, 0, 0, 3, 1, 1, 2, 1, 1, 0, 1, 1, 3};
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &y));
    expect_i64s(&y, SHAPE(12, 3), whole);
    parts.initializer[0] = i64s_of(*state, "m", one, 1);
    const int64_t best[4 * 3] = {0, 0, 1, 1, 1, 2};
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &y));
    expect_i64s(&y, SHAPE(4, 3), best);
}

static void boxes_can_be_given_by_their_centre(void **state) {
    static const int64_t most[] = {4}, none[] = {0};
    static const float limit[] = {0.5f};
    /* x, y, width, height: 0 and 1 share 2/3 when widths belong to x, and nothing otherwise. */
    static const float centred[] = {2.5f, 0.5f, 5, 1, 3.5f, 0.5f, 5, 1,
                                    2.5f, 9,    5, 1, 50,   50,   1, 1};
    message node = node_of(*state, "NonMaxSuppression", "b s m l", "y");
    model_parts parts = {
        .opset = 11,
        .input = "b:1,4,4 s:1,1,4",
        .output = "y:1",
        .node_count = 1,
        .node = {with_attr_int(node, "center_point_box", 1)},
        .initializer_count = 2,
        .initializer = {i64s_of(*state, "m", most, 1), floats_of(*state, "l", limit, 1)}};
    const kiln_tensor input[] = {tensor_from(*state, SHAPE(1, 4, 4), centred),
                                 tensor_from(*state, SHAPE(1, 1, 4), FLOATS(4, 3, 2, 1))};
    kiln_tensor y;
    const int64_t wanted[4 * 3] = {0, 0, 0, 0, 0, 2, 0, 0, 3};
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &y));
    expect_i64s(&y, SHAPE(4, 3), wanted);
    parts.initializer[0] = i64s_of(*state, "m", none, 1);
    expect_contains(text_of_import(*state, &parts), "i64[0,3]");
    parts.input = "b:1,4,4 s:1,1,3";
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "its boxes must be");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(known_conditions_give_exact_shapes),
        test_with_arena(rows_are_chosen_at_run_time),
        test_with_arena(places_of_known_numbers_are_constants),
        test_with_arena(elements_are_counted_and_found_again),
        test_with_arena(rows_are_compared_as_wholes),
        test_with_arena(boxes_put_out_those_below_them),
        test_with_arena(boxes_can_be_given_by_their_centre),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
