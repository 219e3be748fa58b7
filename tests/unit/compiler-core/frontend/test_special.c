#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

static const char *constant_line(kiln_arena *arena, message node, const char *input) {
    model_parts parts = {
        .opset = 15, .input = input, .output = "y:1", .node_count = 1, .node = {node}};
    kiln_str rest = kiln_str_from(text_of_import(arena, &parts));
    while (rest.size) {
        kiln_str line = kiln_str_cut(&rest, '\n');
        if (kiln_str_starts(line, "constant y: "))
            return kiln_str_dup(arena, kiln_str_slice(line, 12, line.size));
    }
    return "";
}

static void constants_come_in_many_kinds(void **state) {
    const int64_t ints[] = {3, 4};
    message node = node_of(*state, "Constant", "", "y");
    assert_string_equal(
        constant_line(*state, with_attr_tensor(node, "value", i64s_of(*state, "", ints, 2)), "x:1"),
        "i64[2] = [3, 4]");
    assert_string_equal(constant_line(*state, with_attr_int(node, "value_int", 5), "x:1"),
                        "i64[] = [5]");
    assert_string_equal(constant_line(*state, with_attr_ints(node, "value_ints", ints, 2), "x:1"),
                        "i64[2] = [3, 4]");
    assert_string_equal(constant_line(*state, with_attr_float(node, "value_float", 0.5f), "x:1"),
                        "f32[] = [0.5]");
    model_parts parts = {.opset = 13,
                         .input = "x:1",
                         .output = "y:1",
                         .node_count = 1,
                         .node = {with_attr_text(node, "value_string", "a")}};
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "attribute value_string");
    parts.node[0] = node;
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "exactly one attribute");
}

static void shapes_are_constants(void **state) {
    message node = node_of(*state, "Shape", "x", "y");
    assert_string_equal(constant_line(*state, node, "x:2,3,4"), "i64[3] = [2, 3, 4]");
    assert_string_equal(constant_line(*state, with_attr_int(node, "start", -2), "x:2,3,4"),
                        "i64[2] = [3, 4]");
    assert_string_equal(
        constant_line(*state, with_attr_int(with_attr_int(node, "start", 1), "end", -1), "x:2,3,4"),
        "i64[1] = [3]");
    assert_string_equal(constant_line(*state, with_attr_int(node, "start", 99), "x:2,3,4"),
                        "i64[0] = []");
    assert_string_equal(constant_line(*state, node_of(*state, "Size", "x", "y"), "x:2,3,4"),
                        "i64[] = [24]");
}

static void identity_matrices_take_the_shape_of_another(void **state) {
    message node = node_of(*state, "EyeLike", "x", "y");
    assert_string_equal(constant_line(*state, node, "x:2,3"), "f32[2,3] = [1, 0, 0, 0, 1, 0]");
    assert_string_equal(
        constant_line(*state, with_attr_int(with_attr_int(node, "k", 1), "dtype", 7), "x:2,3"),
        "i64[2,3] = [0, 1, 0, 0, 0, 1]");
    assert_string_equal(constant_line(*state, with_attr_int(node, "k", INT64_MAX), "x:2,2"),
                        "f32[2,2] = [0, 0, 0, 0]");
}

static void filled_tensors_are_bounded(void **state) {
    const int64_t small[] = {2, 2}, wide[] = {4096, 4096}, large[] = {1 << 20, 1 << 20},
                  below[] = {-1};
    const float value[] = {0.5f};
    model_parts parts = {.opset = 13,
                         .input = "x:1",
                         .output = "y:1",
                         .node_count = 1,
                         .initializer_count = 1,
                         .node = {with_attr_tensor(node_of(*state, "ConstantOfShape", "s", "y"),
                                                   "value", floats_of(*state, "", value, 1))},
                         .initializer = {i64s_of(*state, "s", small, 2)}};
    expect_contains(text_of_import(*state, &parts), "constant y: f32[2,2] = [0.5, 0.5, 0.5, 0.5]");
    parts.initializer[0] = i64s_of(*state, "s", wide, 2); /* too large to be stored */
    char *text = text_of_import(*state, &parts);
    expect_contains(text, "constant y.1: f32[] = [0.5]");
    expect_contains(text, "y: f32[4096,4096] = expand(y.1) shape=[4096,4096]");
    parts.initializer[0] = i64s_of(*state, "s", large, 2);
    expect_import_refused(*state, &parts, KILN_OUT_OF_RANGE, "larger than");
    parts.initializer[0] = i64s_of(*state, "s", below, 1);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "dimension 0 is negative");
}

static void ranges_are_counted_out(void **state) {
    const float start[] = {1}, limit[] = {2}, delta[] = {0.25f}, tiny[] = {1e-30f}, zero[] = {0};
    model_parts parts = {.opset = 13,
                         .input = "x:1",
                         .output = "y:1",
                         .node_count = 1,
                         .initializer_count = 3,
                         .node = {node_of(*state, "Range", "a b c", "y")},
                         .initializer = {floats_of(*state, "a", start, 1),
                                         floats_of(*state, "b", limit, 1),
                                         floats_of(*state, "c", delta, 1)}};
    expect_contains(text_of_import(*state, &parts), "constant y: f32[4] = [1, 1.25, 1.5, 1.75]");
    parts.initializer[2] = floats_of(*state, "c", tiny, 1);
    expect_import_refused(*state, &parts, KILN_OUT_OF_RANGE, "too many elements");
    parts.initializer[2] = floats_of(*state, "c", zero, 1);
    expect_import_refused(*state, &parts, KILN_OUT_OF_RANGE, "too many elements");
    const float far[] = {1e8f}, one[] = {1}; /* 400 MB */
    parts.initializer[1] = floats_of(*state, "b", far, 1);
    parts.initializer[2] = floats_of(*state, "c", one, 1);
    expect_import_refused(*state, &parts, KILN_OUT_OF_RANGE, "take more than");
    parts.initializer[2] = floats_of(*state, "c", zero, 1);
    parts.initializer[1] = floats_of(*state, "b", start, 1); /* 0 / 0 */
    expect_contains(text_of_import(*state, &parts), "constant y: f32[0] = []");
}

static void dropout_is_identity_unless_it_trains(void **state) {
    model_parts parts = {.opset = 13,
                         .input = "x:2",
                         .output = "y:2",
                         .node_count = 1,
                         .initializer_count = 1,
                         .node = {node_of(*state, "Dropout", "x - t", "y")}};
    message yes = with_bytes(with_int(with_text(message_of(*state), 8, "t"), 2, 9), 9, "\x01", 1);
    message no = with_bytes(with_int(with_text(message_of(*state), 8, "t"), 2, 9), 9, "\x00", 1);
    parts.initializer[0] = no;
    expect_contains(text_of_import(*state, &parts), "y: f32[2] = dropout(x)");
    parts.initializer[0] = yes;
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "training_mode: 1");
    static const float none[] = {0}, some[] = {0.25f};
    parts.node[0] = node_of(*state, "Dropout", "x r t", "y");
    parts.initializer[parts.initializer_count++] = floats_of(*state, "r", none, 1);
    expect_contains(text_of_import(*state, &parts), "y: f32[2] = dropout(x)");
    parts.initializer[1] = floats_of(*state, "r", some, 1);
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "training_mode: 1");
}

static void old_slopes_belong_to_channels(void **state) {
    const float slope[] = {1, 2, 3};
    model_parts parts = {.opset = 6,
                         .input = "x:1,3,4",
                         .output = "y:1,3,4",
                         .node_count = 1,
                         .initializer_count = 1,
                         .node = {node_of(*state, "PRelu", "x s", "y")},
                         .initializer = {floats_of(*state, "s", slope, 3)}};
    expect_contains(text_of_import(*state, &parts), "f32[3,1] = unsqueeze(s) axes=[1]");
    parts.opset = 9;
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "do not broadcast");
}

static void casts_can_follow_another_tensor(void **state) {
    const int64_t like[] = {1};
    model_parts parts = {.opset = 15,
                         .input = "x:2",
                         .output = "y:2",
                         .node_count = 1,
                         .initializer_count = 1,
                         .node = {node_of(*state, "CastLike", "x l", "y")},
                         .initializer = {i64s_of(*state, "l", like, 1)}};
    expect_contains(text_of_import(*state, &parts), "y: i64[2] = cast(x) to=\"i64\"");
}

/* ONNX's numbers of types (TensorProto.DataType) do not enter the graph. */
static void types_of_casts_become_names(void **state) {
    model_parts parts = {.opset = 26, .input = "x:2", .output = "y:2", .node_count = 1};
    parts.node[0] = with_attr_int(node_of(*state, "Cast", "x", "y"), "to", 7);
    expect_contains(text_of_import(*state, &parts), "y: i64[2] = cast(x) to=\"i64\"");
    parts.node[0] = with_attr_int(node_of(*state, "BitCast", "x", "y"), "to", 6);
    expect_contains(text_of_import(*state, &parts), "y: i32[2] = bit_cast(x) to=\"i32\"");
    parts.node[0] = with_attr_int(node_of(*state, "Cast", "x", "y"), "to", 8);
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "type 8 is not supported");
}

/* The lowest bits of the whole number, as signed numbers or not. */
static void casts_to_few_bits_wrap_around(void **state) {
    static const struct {
        int64_t type;
        int8_t wanted[6];
    } table[] = {{21 /* UINT4 */, {7, 15, 3, 7, 8, 15}},
                 {22 /* INT4 */, {7, -1, 3, 7, -8, -1}},
                 {25 /* UINT2 */, {3, 3, 3, 3, 0, 3}},
                 {26 /* INT2 */, {-1, -1, -1, -1, 0, -1}}};
    const kiln_tensor input = tensor_from(*state, SHAPE(6), FLOATS(-9, -1.5f, 3.75f, 7, 8, 15));
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++) {
        model_parts parts = {
            .opset = 25,
            .input = "x:6",
            .output = "y:6",
            .node_count = 1,
            .node = {with_attr_int(node_of(*state, "Cast", "x", "y"), "to", table[i].type)}};
        kiln_tensor output;
        expect_ok(kiln_graph_eval(import_of(*state, &parts), &input, *state, &output));
        assert_int_equal(output.dtype, i % 2 ? KILN_I8 : KILN_U8);
        assert_memory_equal(output.data, table[i].wanted, sizeof table[i].wanted);
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(constants_come_in_many_kinds),
        test_with_arena(shapes_are_constants),
        test_with_arena(identity_matrices_take_the_shape_of_another),
        test_with_arena(filled_tensors_are_bounded),
        test_with_arena(ranges_are_counted_out),
        test_with_arena(dropout_is_identity_unless_it_trains),
        test_with_arena(old_slopes_belong_to_channels),
        test_with_arena(casts_can_follow_another_tensor),
        test_with_arena(casts_to_few_bits_wrap_around),
        test_with_arena(types_of_casts_become_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
