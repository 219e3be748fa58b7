#include "tests/unit/compiler-core/frontend/tflite_support.h"

enum { SAME, VALID };
enum { CONV = 3, DEPTHWISE = 4, FULLY_CONNECTED = 9, AVERAGE_POOL = 1, MAX_POOL = 17 };
enum { RESIZE_BILINEAR = 23, TRANSPOSE_CONV = 67, RESIZE_NEAREST = 97, BATCH_MATMUL = 126 };

static flat_table *window(kiln_arena *arena, int padding, int stride) {
    flat_table *options = flat_int(flat_table_of(arena), 0, 1, padding);
    return flat_int(flat_int(options, 1, 4, stride), 2, 4, stride);
}

static flat_table *pool(kiln_arena *arena, int padding, int stride, int size) {
    return flat_int(flat_int(window(arena, padding, stride), 3, 4, size), 4, 4, size);
}

static float pattern(uint32_t i) { return (float)((int)(i * 7 % 11) - 5) / 4.0f; }

static const float *weights_of(kiln_arena *arena, uint32_t count) {
    float *w = KILN_ARENA_ARRAY(arena, float, count);
    for (uint32_t i = 0; i < count; i++) w[i] = pattern(i);
    return w;
}

/* Weights [o][h][w][i] as ONNX has them, [o][i][h][w]. */
static message onnx_weights(kiln_arena *arena, const float *from, uint32_t o, uint32_t h,
                            uint32_t w, uint32_t i) {
    const kiln_shape shape = {4, {o, i, h, w}};
    kiln_tensor to = kiln_tensor_create(arena, KILN_F32, &shape);
    for (uint32_t a = 0; a < o; a++)
        for (uint32_t b = 0; b < h * w; b++)
            for (uint32_t c = 0; c < i; c++)
                ((float *)to.data)[(a * i + c) * h * w + b] = from[(a * h * w + b) * i + c];
    return tensor_message(arena, "w", &to);
}

static const int64_t to_first[] = {0, 3, 1, 2}, to_last[] = {0, 2, 3, 1};

/* The ONNX model of an operator on images with channels last. */
static model_parts around(kiln_arena *arena, const char *x, message node) {
    return (model_parts){
        .opset = 18,
        .input = x,
        .output = "y:1",
        .node_count = 3,
        .node = {with_attr_ints(node_of(arena, "Transpose", "x", "p"), "perm", to_first, 4), node,
                 with_attr_ints(node_of(arena, "Transpose", "q", "y"), "perm", to_last, 4)}};
}

static void convolutions_are_those_of_onnx_with_channels_last(void **state) {
    static const char *const pad_name[] = {"SAME_UPPER", "VALID"};
    static const char *const result[] = {"y:1,3,2,3", "y:1,2,1,3"};
    const float bias[] = {0.5f, -1, 2}, *w = weights_of(*state, 3 * 2 * 3 * 2);
    const int64_t two[] = {2, 2};
    for (int padding = SAME; padding <= VALID; padding++) {
        tflite_model m = tflite_model_of(*state);
        tflite_tensor(&m, T_F32, "x:1,5,4,2", NULL, 0);
        tflite_tensor(&m, T_F32, "w:3,2,3,2", w, 36 * sizeof *w);
        tflite_tensor(&m, T_F32, "b:3", bias, sizeof bias);
        tflite_tensor(&m, T_F32, result[padding], NULL, 0);
        tflite_operator(&m, CONV, "0,1,2", "3", window(*state, padding, 2));
        message node = with_attr_ints(node_of(*state, "Conv", "p w b", "q"), "strides", two, 2);
        model_parts parts =
            around(*state, "x:1,5,4,2", with_attr_text(node, "auto_pad", pad_name[padding]));
        parts.initializer_count = 2;
        parts.initializer[0] = onnx_weights(*state, w, 3, 2, 3, 2);
        parts.initializer[1] = floats_of(*state, "b", bias, 3);
        expect_same_as_onnx(*state, tflite_bytes(&m, "0", "3"), &parts);
    }
}

/* Two results for each of two channels; x is 1 2 3 4. */
static void depthwise_convolutions_multiply_each_channel(void **state) {
    const float w[] = {1, 10, 100, 1000};
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:1,1,2,2", NULL, 0);
    tflite_tensor(&m, T_F32, "w:1,1,1,4", w, sizeof w);
    tflite_tensor(&m, T_F32, "y:1,1,2,4", NULL, 0);
    tflite_operator(&m, DEPTHWISE, "0,1,-1", "2", window(*state, VALID, 1));
    expect_tflite(*state, tflite_bytes(&m, "0", "2"), "f32[1,1,2,4]: 1 10 200 2000 3 30 400 4000");
}

static void activations_of_layers_follow_them(void **state) {
    static const struct {
        int number;
        const char *result;
    } table[] = {{0, "-2 -1 0 1 2 3 4 5 6 7"},
                 {1, "0 0 0 1 2 3 4 5 6 7"},
                 {2, "-1 -1 0 1 1 1 1 1 1 1"},
                 {3, "0 0 0 1 2 3 4 5 6 6"}};
    const float bias[] = {-3};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++) {
        tflite_model m = tflite_model_of(*state);
        tflite_tensor(&m, T_F32, "x:1,10", NULL, 0);
        tflite_tensor(&m, T_F32, "b:1", bias, sizeof bias);
        tflite_tensor(&m, T_F32, "y:1,10", NULL, 0);
        tflite_operator(&m, 0 /* ADD */, "0,1", "2",
                        flat_int(flat_table_of(*state), 0, 1, table[i].number));
        expect_tflite(*state, tflite_bytes(&m, "0", "2"),
                      kiln_arena_printf(*state, "f32[1,10]: %s", table[i].result));
    }
    expect_tflite_refused(*state,
                          one_operator(*state, AVERAGE_POOL, "x:1,1,1,1", "y:1,1,1,1", "",
                                       flat_int(pool(*state, VALID, 1, 1), 5, 1, 5)),
                          KILN_UNIMPLEMENTED, "activation number 5");
}

static void products_keep_dimensions_where_they_are_told_to(void **state) {
    const float w[] = {1, 0, 0, 0, 1, 1}, bias[] = {10, 20};
    for (int keep = 0; keep <= 1; keep++) {
        tflite_model m = tflite_model_of(*state);
        tflite_tensor(&m, T_F32, "x:1,2,3", NULL, 0);
        tflite_tensor(&m, T_F32, "w:2,3", w, sizeof w);
        tflite_tensor(&m, T_F32, "b:2", bias, sizeof bias);
        tflite_tensor(&m, T_F32, keep ? "y:1,2,2" : "y:2,2", NULL, 0);
        tflite_operator(&m, FULLY_CONNECTED, "0,1,2", "3",
                        flat_int(flat_table_of(*state), 2, 1, keep));
        expect_tflite(*state, tflite_bytes(&m, "0", "3"),
                      keep ? "f32[1,2,2]: 11 25 14 31" : "f32[2,2]: 11 25 14 31");
    }
}

static void pools_leave_padding_out_of_averages(void **state) {
    flat_table *options = pool(*state, SAME, 2, 2);
    expect_tflite(*state, one_operator(*state, AVERAGE_POOL, "x:1,3,3,1", "y:1,2,2,1", "", options),
                  "f32[1,2,2,1]: 3 4.5 7.5 9");
    expect_tflite(*state, one_operator(*state, MAX_POOL, "x:1,3,3,1", "y:1,2,2,1", "", options),
                  "f32[1,2,2,1]: 5 6 8 9");
}

/* Every second place of the result has an element of x under the only weight that is not 0. */
static void transposed_convolutions_have_the_shape_that_they_are_given(void **state) {
    const float w[] = {0, 0, 0, 0, 1, 0, 0, 0, 0};
    const int32_t shape[] = {1, 4, 4, 1};
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_I32, "s:4", shape, sizeof shape);
    tflite_tensor(&m, T_F32, "w:1,3,3,1", w, sizeof w);
    tflite_tensor(&m, T_F32, "x:1,2,2,1", NULL, 0);
    tflite_tensor(&m, T_F32, "y:1,4,4,1", NULL, 0);
    tflite_operator(&m, TRANSPOSE_CONV, "0,1,2", "3", window(*state, SAME, 2));
    expect_tflite(*state, tflite_bytes(&m, "2", "3"),
                  "f32[1,4,4,1]: 0 0 0 0 0 1 0 2 0 0 0 0 0 3 0 4");
}

static void resizing_follows_the_coordinates_of_the_options(void **state) {
    expect_tflite(*state,
                  one_operator(*state, RESIZE_BILINEAR, "x:1,1,2,1", "y:1,1,4,1", "1,4", NULL),
                  "f32[1,1,4,1]: 1 1.5 2 2");
    expect_tflite(*state,
                  one_operator(*state, RESIZE_BILINEAR, "x:1,1,2,1", "y:1,1,4,1", "1,4",
                               flat_int(flat_table_of(*state), 3, 1, 1)),
                  "f32[1,1,4,1]: 1 1.25 1.75 2");
    expect_tflite(*state,
                  one_operator(*state, RESIZE_NEAREST, "x:1,1,2,1", "y:1,1,4,1", "1,4", NULL),
                  "f32[1,1,4,1]: 1 1 2 2");
}

static void adjoint_products_swap_the_last_dimensions(void **state) {
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:1,2,2", NULL, 0);
    tflite_tensor(&m, T_F32, "y:1,2,2", NULL, 0);
    tflite_operator(&m, BATCH_MATMUL, "0,0", "1", flat_int(flat_table_of(*state), 1, 1, 1));
    expect_tflite(*state, tflite_bytes(&m, "0", "1"), "f32[1,2,2]: 5 11 11 25");
}

/* ---- quantised ------------------------------------------------------------------------------- */

/* x = 1 2 3 4 stands for (x - 1) * 0.5 = 0 0.5 1 1.5 in two places of two channels. The channels of
 * the result have weights (2 0) * 0.25 and (4 -8) * 0.5, biases 4 * 0.125 and -2 * 0.25; y is
 * stored as round(y / 0.5) + 3. */
static kiln_str quantised_convolution(kiln_arena *arena, const float *bias_scale) {
    const int8_t w[] = {2, 0, 4, -8};
    const int32_t bias[] = {4, -2};
    const float half[] = {0.5f}, scales[] = {0.25f, 0.5f};
    const int64_t zero_x[] = {1}, zero_y[] = {3}, zeros[] = {0, 0};
    tflite_model m = tflite_model_of(arena);
    tflite_quantise(tflite_tensor(&m, T_I8, "x:1,1,2,2", NULL, 0), half, zero_x, 1, 0);
    tflite_quantise(tflite_tensor(&m, T_I8, "w:2,1,1,2", w, sizeof w), scales, zeros, 2, 0);
    tflite_quantise(tflite_tensor(&m, T_I32, "b:2", bias, sizeof bias), bias_scale, zeros, 2, 0);
    tflite_quantise(tflite_tensor(&m, T_I8, "y:1,1,2,2", NULL, 0), half, zero_y, 1, 0);
    tflite_operator(&m, CONV, "0,1,2", "3", window(arena, VALID, 1));
    return tflite_bytes(&m, "0", "3");
}

/* Place 0: 0*0.5 + 0.5 = 0.5 and 0*2 + 0.5*-4 - 0.5 = -2.5; place 1: 1*0.5 + 0.5 = 1 and
 * 1*2 + 1.5*-4 - 0.5 = -4.5. */
static void convolutions_quantised_by_channel_sum_integers(void **state) {
    const float of_sums[] = {0.125f, 0.25f};
    const kiln_str bytes = quantised_convolution(*state, of_sums);
    expect_contains(text_of_tflite(*state, bytes), "conv_integer(");
    expect_tflite(*state, bytes, "i8[1,1,2,2]: 4 -2 5 -6");
}

/* Biases 4 * 0.25 and -2 * 0.5. */
static void a_bias_of_another_scale_is_added_to_what_the_sums_stand_for(void **state) {
    const float other[] = {0.25f, 0.5f};
    expect_tflite(*state, quantised_convolution(*state, other), "i8[1,1,2,2]: 5 -3 6 -7");
}

/* (x - 1) * (w - 128): u8 has zero points on both sides. */
static void old_models_have_zero_points_of_weights(void **state) {
    const uint8_t w[] = {130, 129, 128, 127};
    const float one[] = {1};
    const int64_t zero_x[] = {1}, zero_w[] = {128}, zero_y[] = {100};
    tflite_model m = tflite_model_of(*state);
    tflite_quantise(tflite_tensor(&m, T_U8, "x:1,2", NULL, 0), one, zero_x, 1, 0);
    tflite_quantise(tflite_tensor(&m, T_U8, "w:2,2", w, sizeof w), one, zero_w, 1, 0);
    tflite_quantise(tflite_tensor(&m, T_U8, "y:1,2", NULL, 0), one, zero_y, 1, 0);
    tflite_operator(&m, FULLY_CONNECTED, "0,1,-1", "2", NULL);
    const kiln_str bytes = tflite_bytes(&m, "0", "2");
    expect_contains(text_of_tflite(*state, bytes), "matmul_integer(");
    expect_tflite(*state, bytes, "u8[1,2]: 101 99");
}

/* Weights alone are quantised, by the channels of a depthwise convolution: dimension 3. */
static void quantised_weights_of_float_layers_are_what_they_stand_for(void **state) {
    const int8_t w[] = {1, 1, 2, 2};
    const float scale[] = {1, 2, 3, 4};
    const int64_t zero[] = {0, 0, 0, 0};
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:1,1,1,4", NULL, 0);
    tflite_quantise(tflite_tensor(&m, T_I8, "w:1,1,1,4", w, sizeof w), scale, zero, 4, 3);
    tflite_tensor(&m, T_F32, "y:1,1,1,4", NULL, 0);
    tflite_operator(&m, DEPTHWISE, "0,1", "2", window(*state, VALID, 1));
    expect_tflite(*state, tflite_bytes(&m, "0", "2"), "f32[1,1,1,4]: 1 4 18 32");
}

/* Between two convolutions nothing is transposed. */
static void layers_in_a_row_stay_with_channels_first(void **state) {
    const float w[] = {1, 2, 3, 4};
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:1,3,3,2", NULL, 0);
    tflite_tensor(&m, T_F32, "w:2,1,1,2", w, sizeof w);
    tflite_tensor(&m, T_F32, "a:1,3,3,2", NULL, 0);
    tflite_tensor(&m, T_F32, "b:1,3,3,2", NULL, 0);
    tflite_tensor(&m, T_F32, "y:1,3,3,2", NULL, 0);
    tflite_operator(&m, CONV, "0,1", "2", window(*state, SAME, 1));
    tflite_operator(&m, 19 /* RELU */, "2", "3", NULL);
    tflite_operator(&m, CONV, "3,1", "4", window(*state, SAME, 1));
    const kiln_graph *graph = import_tflite(*state, tflite_bytes(&m, "0", "4"));
    uint32_t of_images = 0;
    for (kiln_node n = 1; n < graph->node.count; n++)
        of_images += graph->node.data[n].op == KILN_OP_TRANSPOSE &&
                     !kiln_value_is_constant(graph, graph->node.data[n].input[0]);
    assert_int_equal(of_images, 2);
}

/* ---- refused --------------------------------------------------------------------------------- */

static void layers_that_do_not_fit_are_refused(void **state) {
    const float w[16] = {0};
    static const struct {
        int number;
        const char *x, *w, *needle;
    } table[] = {{CONV, "x:1,2,2,3", "w:1,1,1,2", "do not fit"},
                 {CONV, "x:1,2,2,2", "w:1,1,1,0", "do not fit"},
                 {CONV, "x:2,2,2", "w:1,1,1,2", "do not fit"},
                 {CONV, "x:1,2,2,2", "w:2,2", "2 dimensions, not 4"},
                 {DEPTHWISE, "x:1,2,2,2", "w:2,1,1,2", "do not fit"},
                 {FULLY_CONNECTED, "x:1,3", "w:1,2", "do not fit"},
                 {FULLY_CONNECTED, "x:1,3", "w:1,0", "do not fit"}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++) {
        tflite_model m = tflite_model_of(*state);
        const kiln_str of = kiln_str_from(table[i].w);
        const size_t count = kiln_str_is(of, "w:1,1,1,0") || kiln_str_is(of, "w:1,0")   ? 0
                             : kiln_str_is(of, "w:2,2") || kiln_str_is(of, "w:2,1,1,2") ? 4
                                                                                        : 2;
        tflite_tensor(&m, T_F32, table[i].x, NULL, 0);
        tflite_tensor(&m, T_F32, table[i].w, w, count * sizeof *w);
        tflite_tensor(&m, T_F32, "y:1,2,2,1", NULL, 0);
        tflite_operator(&m, table[i].number, "0,1", "2",
                        table[i].number == FULLY_CONNECTED ? NULL : window(*state, SAME, 1));
        expect_tflite_refused(*state, tflite_bytes(&m, "0", "2"), KILN_INVALID_ARGUMENT,
                              table[i].needle);
    }
}

static void shuffled_weights_are_refused(void **state) {
    const float w[] = {1, 2};
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:1,2", NULL, 0);
    tflite_tensor(&m, T_F32, "w:1,2", w, sizeof w);
    tflite_tensor(&m, T_F32, "y:1,1", NULL, 0);
    tflite_operator(&m, FULLY_CONNECTED, "0,1", "2", flat_int(flat_table_of(*state), 1, 1, 1));
    expect_tflite_refused(*state, tflite_bytes(&m, "0", "2"), KILN_UNIMPLEMENTED,
                          "operator 0 (FULLY_CONNECTED): weights that are shuffled");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(convolutions_are_those_of_onnx_with_channels_last),
        test_with_arena(depthwise_convolutions_multiply_each_channel),
        test_with_arena(activations_of_layers_follow_them),
        test_with_arena(products_keep_dimensions_where_they_are_told_to),
        test_with_arena(pools_leave_padding_out_of_averages),
        test_with_arena(transposed_convolutions_have_the_shape_that_they_are_given),
        test_with_arena(resizing_follows_the_coordinates_of_the_options),
        test_with_arena(adjoint_products_swap_the_last_dimensions),
        test_with_arena(convolutions_quantised_by_channel_sum_integers),
        test_with_arena(a_bias_of_another_scale_is_added_to_what_the_sums_stand_for),
        test_with_arena(old_models_have_zero_points_of_weights),
        test_with_arena(quantised_weights_of_float_layers_are_what_they_stand_for),
        test_with_arena(layers_in_a_row_stay_with_channels_first),
        test_with_arena(layers_that_do_not_fit_are_refused),
        test_with_arena(shuffled_weights_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
