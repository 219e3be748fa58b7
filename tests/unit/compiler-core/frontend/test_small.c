/* Casts and quantisations to and from floats of at most 8 bits, as ONNX's tables say. */
#include <math.h>

#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

enum { E4M3FN = 17, E4M3FNUZ = 18, E5M2 = 19, E5M2FNUZ = 20, E2M1 = 23, E8M0 = 24 };

/* An initialiser of that ONNX type from the bytes of its data. */
static message bytes_of(kiln_arena *arena, const char *name, int64_t type, const void *data,
                        size_t size, const int64_t *dims, uint32_t rank) {
    message m = with_int(with_text(message_of(arena), 8, name), 2, type);
    for (uint32_t d = 0; d < rank; d++) m = with_int(m, 1, dims[d]);
    return with_bytes(m, 9, data, size);
}

static model_parts one_node(message node) {
    return (model_parts){
        .opset = 25, .input = "x:2,4", .output = "y:1", .node_count = 1, .node = {node}};
}

static const float values[] = {0, -0.0f, 0.3f, -1.0625f, 1e6f, -INFINITY, INFINITY, NAN};

/* Cast of `values` with these attributes. */
static void expect_cast(kiln_arena *arena, int64_t to, int64_t saturate, const char *mode,
                        const char *result) {
    message node = with_attr_int(node_of(arena, "Cast", "v", "y"), "to", to);
    if (saturate >= 0) node = with_attr_int(node, "saturate", saturate);
    if (mode) node = with_attr_text(node, "round_mode", mode);
    model_parts parts = one_node(node);
    parts.initializer_count = 1;
    parts.initializer[0] = floats_of(arena, "v", values, KILN_ARRAY_COUNT(values));
    assert_string_equal(result_of(arena, import_of(arena, &parts)), result);
}

static void casts_saturate_by_default(void **state) {
    expect_cast(*state, E4M3FN, -1, NULL, "f8e4m3fn[8]: 0 -0 0.3125 -1 448 -448 448 nan");
    expect_cast(*state, E4M3FNUZ, 1, NULL, "f8e4m3fnuz[8]: 0 0 0.3125 -1 240 -240 240 nan");
    expect_cast(*state, E5M2, 1, NULL, "f8e5m2[8]: 0 -0 0.3125 -1 57344 -57344 57344 nan");
    expect_cast(*state, E5M2FNUZ, 1, NULL, "f8e5m2fnuz[8]: 0 0 0.3125 -1 57344 -57344 57344 nan");
}

static void or_give_what_the_type_has_for_too_much(void **state) {
    expect_cast(*state, E4M3FN, 0, NULL, "f8e4m3fn[8]: 0 -0 0.3125 -1 nan -nan nan nan");
    expect_cast(*state, E4M3FNUZ, 0, NULL, "f8e4m3fnuz[8]: 0 0 0.3125 -1 nan nan nan nan");
    expect_cast(*state, E5M2, 0, NULL, "f8e5m2[8]: 0 -0 0.3125 -1 inf -inf inf nan");
    expect_cast(*state, E5M2FNUZ, 0, NULL, "f8e5m2fnuz[8]: 0 0 0.3125 -1 nan nan nan nan");
    /* no NaN and no infinity: saturated whatever the attribute says */
    expect_cast(*state, E2M1, 0, NULL, "f4e2m1[8]: 0 -0 0.5 -1 6 -6 6 -0");
}

static void powers_of_two_are_rounded_by_a_mode(void **state) {
    kiln_arena *arena = *state;
    static const float all[] = {0.75f,      0.7f,       1,           1.4f,           1.5f,
                                0x1.2p127f, 0x1.9p127f, INFINITY,    0x1p-127f,      0x1.4p-127f,
                                0,          NAN,        0x1.9p-128f, 0x1.fffffep-2f, 0x1.8p-127f};
    static const struct {
        int64_t saturate;
        const char *mode, *result;
    } row[] = {
        {1, "up",
         "1 1 1 2 2 1.70141e+38 1.70141e+38 1.70141e+38 5.87747e-39 1.17549e-38 5.87747e-39 nan "
         "5.87747e-39 0.5 1.17549e-38"},
        {1, "down",
         "0.5 0.5 1 1 1 1.70141e+38 1.70141e+38 1.70141e+38 5.87747e-39 5.87747e-39 5.87747e-39 "
         "nan 5.87747e-39 0.25 5.87747e-39"},
        {1, "nearest",
         "1 0.5 1 1 2 1.70141e+38 1.70141e+38 1.70141e+38 5.87747e-39 5.87747e-39 5.87747e-39 nan "
         "5.87747e-39 0.5 1.17549e-38"},
        {0, "up", "1 1 1 2 2 nan nan nan 5.87747e-39 1.17549e-38 nan nan nan 0.5 1.17549e-38"},
        {0, "down",
         "0.5 0.5 1 1 1 1.70141e+38 1.70141e+38 nan 5.87747e-39 5.87747e-39 nan nan nan 0.25 "
         "5.87747e-39"},
        {0, "nearest",
         "1 0.5 1 1 2 1.70141e+38 nan nan 5.87747e-39 5.87747e-39 nan nan nan 0.5 1.17549e-38"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        message node = with_attr_int(node_of(arena, "Cast", "v", "y"), "to", E8M0);
        node = with_attr_text(with_attr_int(node, "saturate", row[i].saturate), "round_mode",
                              row[i].mode);
        model_parts parts = one_node(node);
        parts.initializer_count = 1;
        parts.initializer[0] = floats_of(arena, "v", all, KILN_ARRAY_COUNT(all));
        assert_string_equal(result_of(arena, import_of(arena, &parts)),
                            kiln_arena_printf(arena, "f8e8m0[15]: %s", row[i].result));
    }
    model_parts wrong = one_node(with_attr_text(
        with_attr_int(node_of(arena, "Cast", "x", "y"), "to", E8M0), "round_mode", "odd"));
    expect_import_refused(arena, &wrong, KILN_INVALID_ARGUMENT,
                          "round_mode is up, down or nearest");
}

/* Through f32, in which every number of a type is exact. */
static void casts_between_small_types_and_others(void **state) {
    kiln_arena *arena = *state;
    static const uint8_t codes[] = {0x7e, 0xb8, 0x01, 0x7f};
    static const int64_t dims[] = {4};
    static const struct {
        int64_t to;
        const char *result;
    } row[] = {
        {1, "f32[4]: 448 -1 0.00195312 nan"},
        {10, "f16[4]: 448 -1 0.00195312 nan"},
        {6, "i32[4]: 448 -1 0 0"},
        {9, "bool[4]: 1 1 1 1"},
        {E5M2, "f8e5m2[4]: 448 -1 0.00195312 nan"},
        {E4M3FN, "f8e4m3fn[4]: 448 -1 0.00195312 nan"},
        {E4M3FNUZ, "f8e4m3fnuz[4]: 240 -1 0.00195312 nan"},
        {E2M1, "f4e2m1[4]: 6 -1 0 -0"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        model_parts parts =
            one_node(with_attr_int(node_of(arena, "Cast", "v", "y"), "to", row[i].to));
        parts.initializer_count = 1;
        parts.initializer[0] = bytes_of(arena, "v", E4M3FN, codes, 4, dims, 1);
        assert_string_equal(result_of(arena, import_of(arena, &parts)), row[i].result);
    }
    model_parts like =
        one_node(with_attr_int(node_of(arena, "CastLike", "x v", "y"), "saturate", 0));
    like.initializer_count = 1;
    like.initializer[0] = bytes_of(arena, "v", E4M3FN, codes, 4, dims, 1);
    assert_string_equal(result_of(arena, import_of(arena, &like)),
                        "f8e4m3fn[2,4]: 1 2 3 4 5 6 7 8");
}

/* x = 1 .. 8 */
static void quantisations_divide_and_cast(void **state) {
    kiln_arena *arena = *state;
    static const float one[] = {0.01f}, rows[] = {0.5f, 3};
    static const uint8_t zero[] = {0}, zero_row[] = {0, 0x38};
    static const int64_t two[] = {2};
    model_parts parts =
        one_node(with_attr_int(node_of(arena, "QuantizeLinear", "x s z", "y"), "axis", 0));
    parts.initializer_count = 2;
    parts.initializer[0] = floats_of(arena, "s", one, 1);
    parts.initializer[1] = bytes_of(arena, "z", E4M3FN, zero, 1, NULL, 0);
    assert_string_equal(result_of(arena, import_of(arena, &parts)),
                        "f8e4m3fn[2,4]: 96 192 288 384 448 448 448 448");
    parts.node[0] = with_attr_int(parts.node[0], "saturate", 0);
    assert_string_equal(result_of(arena, import_of(arena, &parts)),
                        "f8e4m3fn[2,4]: 96 192 288 384 nan nan nan nan");
    parts.initializer[0] = floats_of(arena, "s", rows, 2);
    parts.initializer[1] = bytes_of(arena, "z", E4M3FN, zero_row, 2, two, 1);
    assert_string_equal(result_of(arena, import_of(arena, &parts)),
                        "f8e4m3fn[2,4]: 2 4 6 8 2.75 3 3.25 3.75");
    parts.node[0] = with_attr_int(
        with_attr_int(with_attr_int(node_of(arena, "QuantizeLinear", "x s", "y"), "axis", 0),
                      "output_dtype", E2M1),
        "precision", 10);
    assert_string_equal(result_of(arena, import_of(arena, &parts)),
                        "f4e2m1[2,4]: 2 4 6 6 1.5 2 2 3");
    parts.node[0] = with_attr_int(parts.node[0], "axis", 1);
    parts.node[0] =
        with_attr_int(node_of(arena, "QuantizeLinear", "x s", "y"), "output_dtype", E2M1);
    expect_import_refused(arena, &parts, KILN_INVALID_ARGUMENT,
                          "nor one for each index of dimension 1");
}

static void and_back(void **state) {
    kiln_arena *arena = *state;
    static const uint8_t data[] = {0x38, 0xb8, 0x40, 0x7e}, packed[] = {0x42, 0xf9},
                         zero[] = {0x38}, scales[] = {128, 126}, one[] = {0x3c};
    static const float half[] = {0.5f};
    static const int64_t four[] = {4}, grid[] = {1, 4}, blocks[] = {1, 2};
    model_parts parts = one_node(node_of(arena, "DequantizeLinear", "q s z", "y"));
    parts.initializer_count = 3;
    parts.initializer[0] = bytes_of(arena, "q", E4M3FN, data, 4, four, 1);
    parts.initializer[1] = floats_of(arena, "s", half, 1);
    parts.initializer[2] = bytes_of(arena, "z", E4M3FN, zero, 1, NULL, 0);
    assert_string_equal(result_of(arena, import_of(arena, &parts)), "f32[4]: 0 -1 0.5 223.5");
    parts.node[0] = with_attr_int(parts.node[0], "output_dtype", 10);
    assert_string_equal(result_of(arena, import_of(arena, &parts)), "f16[4]: 0 -1 0.5 223.5");
    parts.initializer[2] = bytes_of(arena, "z", E5M2, one, 1, NULL, 0);
    expect_import_refused(arena, &parts, KILN_INVALID_ARGUMENT,
                          "elements of type f8e4m3fn with a zero point of type f8e5m2");

    /* Blocks of two numbers of 4 bits with powers of two as scales: 1 2 | -0.5 -6. */
    message node = with_attr_int(node_of(arena, "DequantizeLinear", "q s", "y"), "block_size", 2);
    parts.node[0] = with_attr_int(node, "output_dtype", 1);
    parts.initializer_count = 2;
    parts.initializer[0] = bytes_of(arena, "q", E2M1, packed, 2, grid, 2);
    parts.initializer[1] = bytes_of(arena, "s", E8M0, scales, 2, blocks, 2);
    assert_string_equal(result_of(arena, import_of(arena, &parts)), "f32[1,4]: 2 4 -0.25 -3");
    parts.node[0] = node;
    expect_import_refused(arena, &parts, KILN_UNIMPLEMENTED, "a result of type f8e8m0");
    parts.node[0] = with_attr_int(node, "output_dtype", E5M2);
    expect_import_refused(arena, &parts, KILN_UNIMPLEMENTED, "output_dtype: type 19");
}

/* Integers with powers of two as scales are the same arithmetic. */
static void integers_with_such_scales(void **state) {
    kiln_arena *arena = *state;
    static const uint8_t data[] = {1, 0xff, 4, 0x80}, scale[] = {126};
    static const int64_t four[] = {4};
    model_parts parts =
        one_node(with_attr_int(node_of(arena, "DequantizeLinear", "q s", "y"), "output_dtype", 1));
    parts.initializer_count = 2;
    parts.initializer[0] = bytes_of(arena, "q", 3, data, 4, four, 1);
    parts.initializer[1] = bytes_of(arena, "s", E8M0, scale, 1, NULL, 0);
    assert_string_equal(result_of(arena, import_of(arena, &parts)), "f32[4]: 0.5 -0.5 2 -64");
}

/* Of packed ones: 1 -0.5 4 | 6 0 -6 in three bytes. */
static void elements_are_moved(void **state) {
    kiln_arena *arena = *state;
    static const uint8_t packed[] = {0x92, 0x76, 0xf0}, one[] = {0x7c};
    static const int64_t grid[] = {2, 3}, shape[] = {2}, single[] = {1};
    model_parts parts = one_node(node_of(arena, "Transpose", "q", "y"));
    parts.initializer_count = 1;
    parts.initializer[0] = bytes_of(arena, "q", E2M1, packed, 3, grid, 2);
    assert_string_equal(result_of(arena, import_of(arena, &parts)), "f4e2m1[3,2]: 1 6 -0.5 0 4 -6");
    parts.node[0] = with_attr_tensor(node_of(arena, "ConstantOfShape", "s", "y"), "value",
                                     bytes_of(arena, "", E5M2, one, 1, single, 1));
    parts.initializer[0] = i64s_of(arena, "s", shape, 1);
    assert_string_equal(result_of(arena, import_of(arena, &parts)), "f8e5m2[2]: inf inf");
    parts.node[0] =
        with_attr_tensor(node_of(arena, "Constant", "", "y"), "value",
                         bytes_of(arena, "", E4M3FNUZ, (const uint8_t[]){0x7f, 0x80}, 2, shape, 1));
    assert_string_equal(result_of(arena, import_of(arena, &parts)), "f8e4m3fnuz[2]: 240 nan");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(casts_saturate_by_default),
        test_with_arena(or_give_what_the_type_has_for_too_much),
        test_with_arena(powers_of_two_are_rounded_by_a_mode),
        test_with_arena(casts_between_small_types_and_others),
        test_with_arena(quantisations_divide_and_cast),
        test_with_arena(and_back),
        test_with_arena(integers_with_such_scales),
        test_with_arena(elements_are_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
