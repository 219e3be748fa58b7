#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

/* An initialiser of 8-bit (type 3: i8, 2: u8) or 32-bit integers (type 6) with the given
 * dimensions. */
static message integers(kiln_arena *arena, const char *name, int64_t type, const void *data,
                        size_t size, const char *dims) {
    message m = with_int(with_text(message_of(arena), 8, name), 2, type);
    kiln_str rest = kiln_str_from(dims);
    while (rest.size) {
        int64_t extent = 0;
        assert_true(kiln_str_to_i64(kiln_str_cut(&rest, ','), &extent));
        m = with_int(m, 1, extent);
    }
    return with_bytes(m, 9, data, size);
}

static const int8_t weights[] = {1, 2, 3, -4}, zero_i8[] = {0};
static const uint8_t zero_u8[] = {1};
static const float scale_x[] = {0.5f}, scale_w[] = {0.25f};

/* x is quantised with scale 0.5 and zero point 1, then used in `node` with weights of scale 0.25.
 */
static model_parts quantised_model(kiln_arena *arena, const char *ports, const char *dims,
                                   message node) {
    return (model_parts){
        .opset = 13,
        .input = ports,
        .output = "y:1",
        .node_count = 4,
        .initializer_count = 5,
        .node = {node_of(arena, "QuantizeLinear", "x sx zx", "q"),
                 node_of(arena, "DequantizeLinear", "q sx zx", "d"),
                 with_attr_int(node_of(arena, "DequantizeLinear", "w sw zw", "v"), "axis", 0),
                 node},
        .initializer = {floats_of(arena, "sx", scale_x, 1), floats_of(arena, "sw", scale_w, 1),
                        integers(arena, "zx", 2, zero_u8, 1, ""),
                        integers(arena, "zw", 3, zero_i8, 1, ""),
                        integers(arena, "w", 3, weights, sizeof weights, dims)}};
}

static void expect_text_and_result(kiln_arena *arena, const model_parts *parts, const char *needle,
                                   const char *result) {
    expect_contains(text_of_import(arena, parts), needle);
    assert_string_equal(result_of(arena, import_of(arena, parts)), result);
}

/* x = 1 2 3 4 */
static void convolutions_of_quantised_tensors_sum_integers(void **state) {
    model_parts parts =
        quantised_model(*state, "x:1,1,2,2", "1,1,2,2", node_of(*state, "Conv", "d v", "y"));
    expect_text_and_result(*state, &parts, "conv_integer(q, w, zx)", "f32[1,1,1,1]: -0.5");
    parts = quantised_model(*state, "x:1,1,2,2", "4,1,1,1", node_of(*state, "Conv", "d v", "y"));
    expect_text_and_result(*state, &parts, "conv_integer(q, w, zx)",
                           "f32[1,4,2,2]: 0.25 0.5 0.75 1 0.5 1 1.5 2 0.75 1.5 2.25 3 -1 -2 -3 -4");
}

static void products_of_quantised_tensors_sum_integers(void **state) {
    model_parts parts =
        quantised_model(*state, "x:2,2", "2,2", node_of(*state, "MatMul", "d v", "y"));
    expect_text_and_result(*state, &parts, "matmul_integer(q, w, zx)",
                           "f32[2,2]: 1.75 -1.5 3.75 -2.5");
    message gemm = with_attr_float(with_attr_int(node_of(*state, "Gemm", "d v", "y"), "transB", 1),
                                   "alpha", 2);
    parts = quantised_model(*state, "x:2,2", "2,2", gemm);
    expect_text_and_result(*state, &parts, "matmul_integer(q,", "f32[2,2]: 2.5 -2.5 5.5 -3.5");
}

static void bias_of_the_sums_scale_is_added_to_the_sums(void **state) {
    const int32_t bias[] = {8};
    const float same[] = {0.125f}, other[] = {0.25f};
    model_parts parts =
        quantised_model(*state, "x:1,1,2,2", "1,1,2,2", node_of(*state, "Conv", "d v c", "y"));
    parts.node[4] = parts.node[3];
    parts.node[3] = node_of(*state, "DequantizeLinear", "b sb", "c");
    parts.node_count = 5;
    parts.initializer_count = 7;
    parts.initializer[5] = integers(*state, "b", 6, bias, sizeof bias, "1");
    parts.initializer[6] = floats_of(*state, "sb", same, 1);
    expect_text_and_result(*state, &parts, "i32[1,1,1,1] = add(", "f32[1,1,1,1]: 0.5");
    parts.initializer[6] = floats_of(*state, "sb", other, 1);
    expect_text_and_result(*state, &parts, "f32[1,1,1,1] = add(", "f32[1,1,1,1]: 1.5");
}

static void linear_operators_round_once(void **state) {
    const float scale_y[] = {0.5f};
    model_parts parts = quantised_model(
        *state, "x:2,2", "2,2", node_of(*state, "QLinearMatMul", "q sx zx w sw zw sy zw", "y"));
    parts.initializer_count = 6;
    parts.initializer[5] = floats_of(*state, "sy", scale_y, 1);
    expect_text_and_result(*state, &parts, "quantize_linear(", "i8[2,2]: 4 -3 8 -5");
    parts.node[3] = node_of(*state, "QLinearMatMul", "q sx zx w sw zw sy", "y");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "input 7 is missing");
}

static void operands_of_other_kinds_stay_as_they_are(void **state) {
    model_parts parts =
        quantised_model(*state, "x:2,2", "2,2", node_of(*state, "MatMul", "x v", "y"));
    expect_contains(text_of_import(*state, &parts), "= matmul(x, v)");
}

/* x = 1 2 3 4 -> 2 3 3 3 of UINT2 with scale 0.5 and zero point 0 (for 2 and more); weights 1 -2 0
 * -1 of INT2 are a byte, 0xc9. The result is (2 - 6 + 0 - 3) * 0.5 * 0.25. */
static model_parts narrow_model(kiln_arena *arena, int64_t data_type) {
    static const char packed[] = "\xc9", zero[] = "\0";
    model_parts parts =
        quantised_model(arena, "x:1,1,2,2", "1,1,2,2", node_of(arena, "Conv", "d v", "y"));
    parts.opset = 25;
    parts.initializer[2] = integers(arena, "zx", data_type, zero, 1, "");
    parts.initializer[3] = integers(arena, "zw", 26, zero, 1, "");
    parts.initializer[4] = integers(arena, "w", 26, packed, 1, "1,1,2,2");
    return parts;
}

static void integers_of_two_bits_are_bytes_with_a_range(void **state) {
    model_parts parts = narrow_model(*state, 25);
    expect_text_and_result(*state, &parts, "quantize_linear(x, sx, zx) bits=2",
                           "f32[1,1,1,1]: -0.875");
    parts = narrow_model(*state, 21); /* UINT4: 2 4 6 8 */
    expect_text_and_result(*state, &parts, "quantize_linear(x, sx, zx) bits=4",
                           "f32[1,1,1,1]: -1.75");
}

static void the_type_may_be_an_attribute(void **state) {
    model_parts parts = narrow_model(*state, 25);
    message quantize = node_of(*state, "QuantizeLinear", "x sx", "q"),
            both = node_of(*state, "QuantizeLinear", "x sx zx", "q");
    parts.node[0] = with_attr_int(quantize, "output_dtype", 25);
    expect_text_and_result(*state, &parts, "bits=2", "f32[1,1,1,1]: -0.875");
    parts.node[0] = with_attr_int(both, "output_dtype", 25);
    expect_text_and_result(*state, &parts, "bits=2", "f32[1,1,1,1]: -0.875");
    parts.node[0] = with_attr_int(with_attr_int(both, "precision", 1), "output_dtype", 21);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "not the zero point's type");
    parts.node[0] = with_attr_int(quantize, "output_dtype", 2);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT,
                          "integers of 0 bits with a zero point of 2");
    parts.node[0] = with_attr_int(quantize, "output_dtype", 8 /* STRING */);
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "output_dtype: type 8");
    parts.node[0] = with_attr_int(both, "precision", 10);
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "precision: f16");
    parts.node[0] = with_attr_int(both, "bits", 2);
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "attribute bits");
    parts.node[0] = both;
    parts.node[1] = with_attr_int(parts.node[1], "output_dtype", 10);
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "not the scale's type");
}

static void bits_follow_what_only_moves_integers(void **state) {
    model_parts parts = narrow_model(*state, 25);
    parts.node_count = 5;
    parts.node[4] = parts.node[3];
    parts.node[3] = parts.node[2];
    parts.node[2] = parts.node[1];
    parts.node[0] = node_of(*state, "Identity", "zx", "z");
    parts.node[1] = node_of(*state, "QuantizeLinear", "x sx z", "q");
    expect_text_and_result(*state, &parts, "bits=2", "f32[1,1,1,1]: -0.875");
    parts.node[0] = with_attr_int(node_of(*state, "Cast", "zx", "z"), "to", 2);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT,
                          "integers of 0 bits with a zero point of 2");
    parts.node[0] = node_of(*state, "CastLike", "sx zx", "z");
    expect_contains(text_of_import(*state, &parts), "bits=2");
    parts.node[0] = with_attr_int(node_of(*state, "Cast", "sx", "z"), "to", 25);
    expect_contains(text_of_import(*state, &parts), "bits=2");
    parts.node[0] = with_attr_int(node_of(*state, "Cast", "sx", "z"), "to", 8);
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "type 8 is not supported");
}

/* ---- com.microsoft --------------------------------------------------------------------------- */

static message contributed(kiln_arena *arena, const char *op, const char *inputs) {
    return with_text(node_of(arena, op, inputs, "y"), 7, "com.microsoft");
}

/* q is 3 5 7 9 with scale 0.5 and zero point 1, for 1 2 3 4; w is 1 2 3 -4 with scale 0.25. */
static void operators_of_another_domain_are_quantised_again(void **state) {
    const float scale_y[] = {0.5f};
    model_parts parts =
        quantised_model(*state, "x:1,1,2,2", "1,1,2,2", node_of(*state, "Relu", "d", "y"));
    parts.initializer_count = 6;
    parts.initializer[5] = floats_of(*state, "sy", scale_y, 1);
    parts.node[3] = contributed(*state, "QLinearAdd", "q sx zx w sw zw sy zx");
    expect_text_and_result(*state, &parts, "quantize_linear(", "u8[1,1,2,2]: 3 6 9 7");
    parts.node[3] = contributed(*state, "QLinearMul", "q sx zx w sw zw sy zw");
    expect_text_and_result(*state, &parts, "quantize_linear(", "i8[1,1,2,2]: 0 2 4 -8");
    parts.node[3] =
        with_attr_int(contributed(*state, "QLinearConcat", "sy zx q sx zx w sw zw"), "axis", 1);
    expect_text_and_result(*state, &parts, "concat(", "u8[1,2,2,2]: 3 5 7 9 1 2 3 0");
    static const int64_t kernel[] = {1, 2};
    parts.node[3] = with_attr_ints(contributed(*state, "QLinearAveragePool", "q sx zx sy zx"),
                                   "kernel_shape", kernel, 2);
    expect_text_and_result(*state, &parts, "average_pool(", "u8[1,1,2,1]: 4 8");
    parts.node[3] = with_attr_int(contributed(*state, "QLinearGlobalAveragePool", "q sx zx sy zx"),
                                  "channels_last", 0);
    expect_text_and_result(*state, &parts, "global_average_pool(", "u8[1,1,1,1]: 6");
    parts.node[3] =
        with_attr_float(contributed(*state, "QLinearLeakyRelu", "w sw zw sy zw"), "alpha", 0.5);
    expect_text_and_result(*state, &parts, "leaky_relu(", "i8[1,1,2,2]: 0 1 2 -1");
    parts.node[3] = contributed(*state, "QLinearSigmoid", "w sw zw sy");
    expect_text_and_result(*state, &parts, "sigmoid(", "i8[1,1,2,2]: 1 1 1 1");
}

static void products_of_another_domain_are_sums_of_integers(void **state) {
    const float scale_y[] = {0.5f};
    const int32_t bias[] = {8, -8};
    model_parts parts = quantised_model(*state, "x:2,2", "2,2", node_of(*state, "Relu", "d", "y"));
    parts.initializer_count = 7;
    parts.initializer[5] = floats_of(*state, "sy", scale_y, 1);
    parts.initializer[6] = integers(*state, "b", 6, bias, sizeof bias, "2");
    parts.node[3] = contributed(*state, "QGemm", "q sx zx w sw zw b sy zw");
    expect_text_and_result(*state, &parts, "matmul_integer(", "i8[2,2]: 6 -5 10 -7");
    parts.node[3] = contributed(*state, "QGemm", "q sx zx w sw zw");
    expect_text_and_result(*state, &parts, "matmul_integer(", "f32[2,2]: 1.75 -1.5 3.75 -2.5");
    parts.node[3] = with_attr_int(contributed(*state, "QGemm", "q sx zx w sw zw b"), "transB", 1);
    expect_text_and_result(*state, &parts, "transpose(w)", "f32[2,2]: 2.25 -2.25 3.75 -2.75");
}

static void bad_operators_of_another_domain_are_refused(void **state) {
    model_parts parts = quantised_model(*state, "x:1,1,2,2", "1,1,2,2",
                                        contributed(*state, "QLinearAdd", "q sx zx"));
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "input 3 is missing");
    parts.node[3] = contributed(*state, "QLinearConcat", "sx zx q sx");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "three for each part");
    parts.node[3] = with_attr_int(contributed(*state, "QLinearConcat", "sx zx q sx zx"), "axis", 4);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "axis: 4");
    parts.node[3] = contributed(*state, "QGemm", "q sx zx w sw");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "input 5 is missing");
    parts.node[3] = with_attr_int(contributed(*state, "QLinearGlobalAveragePool", "q sx zx sx zx"),
                                  "channels_last", 1);
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "channels_last: 1");
    parts.node[3] = contributed(*state, "FusedConv", "q w");
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "operator of domain com.microsoft");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(convolutions_of_quantised_tensors_sum_integers),
        test_with_arena(products_of_quantised_tensors_sum_integers),
        test_with_arena(bias_of_the_sums_scale_is_added_to_the_sums),
        test_with_arena(linear_operators_round_once),
        test_with_arena(operands_of_other_kinds_stay_as_they_are),
        test_with_arena(operators_of_another_domain_are_quantised_again),
        test_with_arena(products_of_another_domain_are_sums_of_integers),
        test_with_arena(bad_operators_of_another_domain_are_refused),
        test_with_arena(integers_of_two_bits_are_bytes_with_a_range),
        test_with_arena(the_type_may_be_an_attribute),
        test_with_arena(bits_follow_what_only_moves_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
