#include "base/rand.h"
#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/graph/support.h"

#define DATA "input x: f32[1]\nconstant v: f32[2,3] = [3, 1, 2, 5, 6, 5]"

static void values_and_positions_come_in_order(void **state) {
    expect_op(*state, DATA, "y: f32[2,2], i: i64[2,2] = top_k(v) k=[2]", "f32[2,2]: 3 2 6 5");
    expect_op(*state, DATA, "v2: f32[2,2], y: i64[2,2] = top_k(v) k=[2]", "i64[2,2]: 0 2 1 0");
    expect_op(*state, DATA, "y: f32[2,1] = top_k(v) k=[1] largest=0", "f32[2,1]: 1 5");
    expect_op(*state, DATA, "y: f32[1,3] = top_k(v) k=[1] axis=0", "f32[1,3]: 5 6 5");
}

static void of_equals_the_earlier_comes_first(void **state) {
    expect_op(*state, "input x: f32[1]\nconstant v: i32[4] = [7, 7, 7, 7]",
              "a: i32[4], y: i64[4] = top_k(v) k=[4]", "i64[4]: 0 1 2 3");
}

/* The position of the place-th element of `count`, `stride` apart, by asking all. */
static int64_t position_of(const float *value, int64_t count, int64_t stride, int64_t place,
                           bool largest) {
    for (int64_t i = 0; i < count; i++) {
        int64_t before = 0;
        for (int64_t r = 0; r < count; r++) {
            float its = value[r * stride], own = value[i * stride];
            before += (largest ? its > own : its < own) || (its == own && r < i);
        }
        if (before == place) return i;
    }
    return -1;
}

static void expect_order(kiln_arena *arena, int64_t rows, int64_t count, int64_t k, uint32_t axis,
                         bool largest) {
    const int64_t dim[2] = {axis ? rows : count, axis ? count : rows};
    const char *output = kiln_arena_printf(arena, "%lld,%lld", (long long)(axis ? rows : k),
                                           (long long)(axis ? k : rows));
    kiln_graph *graph = graph_of(
        arena, kiln_arena_printf(arena,
                                 "graph t\ninput x: f32[%lld,%lld]\n"
                                 "y: f32[%s], i: i64[%s] = top_k(x) k=[%lld] axis=%u largest=%d\n"
                                 "output y\noutput i\n",
                                 (long long)dim[0], (long long)dim[1], output, output, (long long)k,
                                 axis, largest));
    kiln_tensor input = kiln_tensor_create(arena, KILN_F32,
                                           &graph->value.data[graph->input.data[0]].shape),
                out[2];
    float *value = input.data;
    kiln_rand rand;
    kiln_rand_init(&rand, (uint64_t)(count + k));
    for (int64_t n = 0; n < rows * count; n++)
        value[n] = (float)kiln_rand_range(&rand, -count / 3, count / 3); /* some are equal */
    expect_ok(kiln_graph_eval(graph, &input, arena, out));
    int64_t stride = axis ? 1 : rows, to_row = axis ? count : 1;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t p = 0; p < k; p++) {
            const float *first = value + row * to_row;
            int64_t wanted = position_of(first, count, stride, p, largest);
            int64_t at = axis ? row * k + p : p * rows + row;
            assert_int_equal(((const int64_t *)out[1].data)[at], wanted);
            assert_true(((const float *)out[0].data)[at] == first[wanted * stride]);
        }
}

/* Counted and merged; whole dimensions, and runs that are cut off; with a last run that is short,
 * or has no partner. */
static void many_are_merged(void **state) {
    static const int64_t row[][2] = {{1, 1},     {2, 2},       {512, 1},   {511, 3},  {513, 8},
                                     {570, 5},   {577, 9},     {1030, 16}, {4700, 2}, {400, 400},
                                     {700, 700}, {1025, 1025}, {900, 640}, {1024, 1}};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_arena_reset(*state);
        expect_order(*state, 2, row[i][0], row[i][1], i % 2, i % 3 != 0);
        expect_order(*state, 1, row[i][0], row[i][1], (i + 1) % 2, i % 2 == 0);
    }
}

static void k_must_fit(void **state) {
    expect_op_refused(*state, DATA, "y: f32[2,4] = top_k(v) k=[4]", "at most 3");
    expect_op_refused(*state, DATA, "y: f32[2,4] = top_k(v)", "attribute k must be one number");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(values_and_positions_come_in_order),
        test_with_arena(of_equals_the_earlier_comes_first),
        test_with_arena(many_are_merged),
        test_with_arena(k_must_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
