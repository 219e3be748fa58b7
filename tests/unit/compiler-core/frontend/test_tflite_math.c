#include "tests/unit/compiler-core/frontend/tflite_support.h"

#define OPTIONS(arena) flat_table_of(arena)

typedef struct row {
    int number;
    const char *x, *extra, *y, *result;
} row;

static void expect_rows(kiln_arena *arena, const row *table, size_t count) {
    for (size_t i = 0; i < count; i++)
        expect_tflite(
            arena,
            one_operator(arena, table[i].number, table[i].x, table[i].y, table[i].extra, NULL),
            table[i].result);
}

static void operators_work_element_by_element(void **state) {
    static const row table[] = {
        {8, "x:2", "", "y:2", "f32[2]: 1 2"},                       /* FLOOR */
        {14, "x:2", "", "y:2", "f32[2]: 0.731059 0.880797"},        /* LOGISTIC */
        {19, "x:2", "", "y:2", "f32[2]: 1 2"},                      /* RELU */
        {20, "x:3", "", "y:3", "f32[3]: 1 1 1"},                    /* RELU_N1_TO_1 */
        {21, "x:8", "", "y:8", "f32[8]: 1 2 3 4 5 6 6 6"},          /* RELU6 */
        {152, "x:3", "", "y:3", "f32[3]: 1 1 1"},                   /* RELU_0_TO_1 */
        {28, "x:2", "", "y:2", "f32[2]: 0.761594 0.964028"},        /* TANH */
        {59, "x:2", "", "y:2", "f32[2]: -1 -2"},                    /* NEG */
        {76, "x:4", "", "y:4", "f32[4]: 1 0.707107 0.57735 0.5"},   /* RSQRT */
        {92, "x:3", "", "y:3", "f32[3]: 1 4 9"},                    /* SQUARE */
        {117, "x:4", "", "y:4", "f32[4]: 0.666667 1.66667 3 4"},    /* HARD_SWISH */
        {150, "x:2", "", "y:2", "f32[2]: 0.841345 1.9545"},         /* GELU */
        {98, "x:2", "", "y:2", "f32[2]: 1 2"},                      /* LEAKY_RELU */
        {25, "x:1,2", "", "y:1,2", "f32[1,2]: 0.5 0.5"},            /* SOFTMAX, beta 0 */
        {50, "x:1,2", "", "y:1,2", "f32[1,2]: -1.31326 -0.313262"}, /* LOG_SOFTMAX */
        {11, "x:1,2", "", "y:1,2", "f32[1,2]: 0.447214 0.894427"},  /* L2_NORMALIZATION */
        {128, "x:4", "0", "y:4", "f32[4]: 1 3 6 10"},               /* CUMSUM */
    };
    expect_rows(*state, table, KILN_ARRAY_COUNT(table));
}

static void reductions_are_over_the_dimensions_of_the_file(void **state) {
    static const row table[] = {
        {40, "x:1,2,2,2", "1,2", "y:1,2", "f32[1,2]: 4 5"}, /* MEAN */
        {74, "x:2,3", "-1", "y:2", "f32[2]: 6 15"},         /* SUM */
        {81, "x:2,3", "0", "y:3", "f32[3]: 4 10 18"},       /* REDUCE_PROD */
        {82, "x:2,3", "0,1", "y:", "f32[]: 6"},             /* REDUCE_MAX */
        {89, "x:2,3", "1", "y:2", "f32[2]: 1 4"},           /* REDUCE_MIN */
        {40, "x:1,2,2,2", "3", "y:1,2,2", "f32[1,2,2]: 1.5 3.5 5.5 7.5"},
    };
    expect_rows(*state, table, KILN_ARRAY_COUNT(table));
    expect_tflite(*state,
                  one_operator(*state, 40, "x:1,2,2,2", "y:1,1,1,2", "1,2",
                               flat_int(OPTIONS(*state), 0, 1, 1)),
                  "f32[1,1,1,2]: 4 5");
    expect_tflite_refused(*state, one_operator(*state, 40, "x:2,3", "y:2", "2", NULL),
                          KILN_INVALID_ARGUMENT, "axis 2 of 2 dimensions");
}

static void numbers_of_options_are_taken(void **state) {
    expect_tflite(*state,
                  one_operator(*state, 25, "x:1,2", "y:1,2", "", flat_float(OPTIONS(*state), 0, 1)),
                  "f32[1,2]: 0.268941 0.731059");
    expect_tflite(*state,
                  one_operator(*state, 150, "x:2", "y:2", "", flat_int(OPTIONS(*state), 0, 1, 1)),
                  "f32[2]: 0.841192 1.9546");
    expect_tflite(*state,
                  one_operator(*state, 128, "x:3", "y:3", "0",
                               flat_int(flat_int(OPTIONS(*state), 0, 1, 1), 1, 1, 1)),
                  "f32[3]: 5 3 0");
}

/* x of one type and a constant, to a result of a type. */
static kiln_str two_operands(kiln_arena *arena, int number, const char *x, const char *c,
                             const float *data, size_t size, int type, const char *y) {
    tflite_model m = tflite_model_of(arena);
    tflite_tensor(&m, T_F32, x, NULL, 0);
    tflite_tensor(&m, T_F32, c, data, size);
    tflite_tensor(&m, type, y, NULL, 0);
    tflite_operator(&m, number, "0,1", "2", NULL);
    return tflite_bytes(&m, "0", "2");
}

static void operators_of_two_operands_broadcast(void **state) {
    const float c[] = {2, -3};
    static const struct {
        int number, type;
        const char *result;
    } table[] = {
        {0, T_F32, "f32[2,2]: 3 -1 5 1"},   {18, T_F32, "f32[2,2]: 2 -6 6 -12"},
        {41, T_F32, "f32[2,2]: -1 5 1 7"},  {42, T_F32, "f32[2,2]: 0.5 -0.666667 1.5 -1.33333"},
        {55, T_F32, "f32[2,2]: 2 2 3 4"},   {57, T_F32, "f32[2,2]: 1 -3 2 -3"},
        {99, T_F32, "f32[2,2]: 1 25 1 49"}, {54, T_F32, "f32[2,2]: 1 2 3 4"},
        {58, T_BOOL, "bool[2,2]: 1 0 0 0"}, {61, T_BOOL, "bool[2,2]: 0 1 1 1"},
        {71, T_BOOL, "bool[2,2]: 0 0 0 0"}, {72, T_BOOL, "bool[2,2]: 1 1 1 1"}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++)
        expect_tflite(*state,
                      two_operands(*state, table[i].number, "x:2,2", "c:2", c, sizeof c,
                                   table[i].type, "y:2,2"),
                      table[i].result);
}

/* With channels first the vector of channels must still meet the channels. */
static void channels_of_images_meet_vectors_of_channels(void **state) {
    const float w[] = {1, 1}, c[] = {10, 20}, d[] = {1, 2, 3, 4};
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:1,2,2,2", NULL, 0);
    tflite_tensor(&m, T_F32, "w:1,1,1,2", w, sizeof w);
    tflite_tensor(&m, T_F32, "a:1,2,2,2", NULL, 0);
    tflite_tensor(&m, T_F32, "c:2", c, sizeof c);
    tflite_tensor(&m, T_F32, "d:2,2", d, sizeof d);
    tflite_tensor(&m, T_F32, "b:1,2,2,2", NULL, 0);
    tflite_tensor(&m, T_F32, "y:1,2,2,2", NULL, 0);
    flat_table *window = flat_int(flat_int(flat_int(OPTIONS(*state), 0, 1, 1), 1, 4, 1), 2, 4, 1);
    tflite_operator(&m, 4 /* DEPTHWISE_CONV_2D */, "0,1", "2", window);
    tflite_operator(&m, 0 /* ADD */, "2,3", "5", NULL);
    tflite_operator(&m, 0 /* ADD */, "4,5", "6", NULL);
    expect_tflite(*state, tflite_bytes(&m, "0", "6"), "f32[1,2,2,2]: 12 24 16 28 16 28 20 32");
}

static void slopes_are_those_of_elements_below_0(void **state) {
    const float slope[] = {2, 3};
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:1,2", NULL, 0);
    tflite_tensor(&m, T_F32, "n:1,2", NULL, 0);
    tflite_tensor(&m, T_F32, "s:2", slope, sizeof slope);
    tflite_tensor(&m, T_F32, "y:1,2", NULL, 0);
    tflite_tensor(&m, T_F32, "z:1,2", NULL, 0);
    tflite_operator(&m, 59 /* NEG */, "0", "1", NULL);
    tflite_operator(&m, 98 /* LEAKY_RELU */, "1", "3", flat_float(OPTIONS(*state), 0, 0.25f));
    tflite_operator(&m, 54 /* PRELU */, "1,2", "4", NULL);
    expect_tflite(*state, tflite_bytes(&m, "0", "3,4"), "f32[1,2]: -0.25 -0.5; f32[1,2]: -2 -6");
}

static kiln_str with_type(kiln_arena *arena, int number, int x, int y, const char *extra_shape,
                          const char *result_shape) {
    const int32_t axis[] = {1};
    tflite_model m = tflite_model_of(arena);
    tflite_tensor(&m, x, "x:2,3", NULL, 0);
    tflite_tensor(&m, T_I32, extra_shape, axis, sizeof axis);
    tflite_tensor(&m, y, result_shape, NULL, 0);
    tflite_operator(&m, number, "0,1", "2", NULL);
    return tflite_bytes(&m, "0", "2");
}

static void places_of_largest_elements_have_the_type_of_the_result(void **state) {
    expect_tflite(*state, with_type(*state, 56, T_F32, T_I32, "c:", "y:2"), "i32[2]: 2 2");
    expect_tflite(*state, with_type(*state, 79, T_F32, T_I64, "c:1", "y:2"), "i64[2]: 0 0");
    tflite_model m = tflite_model_of(*state);
    const int32_t k[] = {2};
    tflite_tensor(&m, T_F32, "x:1,3", NULL, 0);
    tflite_tensor(&m, T_I32, "k:", k, sizeof k);
    tflite_tensor(&m, T_F32, "v:1,2", NULL, 0);
    tflite_tensor(&m, T_I32, "p:1,2", NULL, 0);
    tflite_operator(&m, 48 /* TOPK_V2 */, "0,1", "2,3", NULL);
    expect_tflite(*state, tflite_bytes(&m, "0", "2,3"), "f32[1,2]: 3 2; i32[1,2]: 2 1");
}

static kiln_str converted(kiln_arena *arena, int number, int from, float from_scale, int to,
                          float to_scale) {
    const int64_t zero[] = {1}, other[] = {-2};
    tflite_model m = tflite_model_of(arena);
    flat_table *x = tflite_tensor(&m, from, "x:3", NULL, 0),
               *y = tflite_tensor(&m, to, "y:3", NULL, 0);
    if (from_scale > 0) tflite_quantise(x, &from_scale, zero, 1, 0);
    if (to_scale > 0) tflite_quantise(y, &to_scale, other, 1, 0);
    tflite_operator(&m, number, "0", "1", NULL);
    return tflite_bytes(&m, "0", "1");
}

static void conversions_follow_the_type_and_scale_of_the_result(void **state) {
    expect_tflite(*state, converted(*state, 6, T_I8, 0.5f, T_F32, 0), "f32[3]: 0 0.5 1");
    expect_tflite(*state, converted(*state, 6, T_F16, 0, T_F32, 0), "f32[3]: 1 2 3");
    expect_tflite(*state, converted(*state, 114, T_F32, 0, T_I8, 0.5f), "i8[3]: 0 2 4");
    expect_tflite(*state, converted(*state, 114, T_U8, 1, T_I8, 0.25f), "i8[3]: -2 2 6");
    expect_tflite(*state, converted(*state, 114, T_I16, 1, T_I8, 0.25f), "i8[3]: -2 2 6");
    expect_tflite(*state, converted(*state, 53, T_F32, 0, T_I32, 0), "i32[3]: 1 2 3");
}

/* (x - 1) * 0.5 + 1 = 1 1.5 2, stored as y / 0.25 - 2. */
static void quantised_operands_are_what_they_stand_for(void **state) {
    const float half[] = {0.5f}, quarter[] = {0.25f}, one[] = {1};
    const int64_t zero_x[] = {1}, zero_y[] = {-2};
    tflite_model m = tflite_model_of(*state);
    tflite_quantise(tflite_tensor(&m, T_I8, "x:3", NULL, 0), half, zero_x, 1, 0);
    tflite_tensor(&m, T_F32, "c:1", one, sizeof one);
    tflite_quantise(tflite_tensor(&m, T_I8, "y:3", NULL, 0), quarter, zero_y, 1, 0);
    tflite_operator(&m, 0 /* ADD */, "0,1", "2", NULL);
    expect_tflite(*state, tflite_bytes(&m, "0", "2"), "i8[3]: 2 4 6");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(operators_work_element_by_element),
        test_with_arena(reductions_are_over_the_dimensions_of_the_file),
        test_with_arena(numbers_of_options_are_taken),
        test_with_arena(operators_of_two_operands_broadcast),
        test_with_arena(channels_of_images_meet_vectors_of_channels),
        test_with_arena(slopes_are_those_of_elements_below_0),
        test_with_arena(places_of_largest_elements_have_the_type_of_the_result),
        test_with_arena(conversions_follow_the_type_and_scale_of_the_result),
        test_with_arena(quantised_operands_are_what_they_stand_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
