/* The vectors that models see. */
#include "compiler-core/cost/features_cpu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/features_autotvm.h"
#include "tests/unit/compiler-core/sched/support.h"

static const char tile_text[] =
    "split(matmul.m, -1, 4)\nsplit(matmul.n, -1, 8)\n"
    "reorder(matmul.m.0, matmul.n.0, matmul.k, matmul.m.1, matmul.n.1)\n"
    "unroll(matmul.m.1)\nvectorize(matmul.n.1)\n";

static void counts_are_logarithms_of_what_is_executed(void **state) {
    float f[KILN_FEATURE_COUNT];
    kiln_program *te = matmul_program(*state, 12, 48, 32);
    kiln_features_cpu.compute(schedule(te, tile_text), &avx2, *state, f);
    const struct {
        kiln_feature feature;
        double value;
    } row[] = {
        {KILN_FEATURE_OPS_F32_MAC, log2(1 + 12 * 48 * 32)},
        {KILN_FEATURE_TILE_LANES, log2(1 + 8)},
        {KILN_FEATURE_TILE_SPATIAL, log2(1 + 4)},
        {KILN_FEATURE_TILE_VECTOR_FILL, 1},
        {KILN_FEATURE_NEST_TILES, log2(1 + 3 * 6 * 32)},
        {KILN_FEATURE_NEST_REDUCE_TRIPS, log2(1 + 32)},
        {KILN_FEATURE_LOOP0_EXTENT, log2(1 + 32)},
        {KILN_FEATURE_LOOP0_KIND, -1},
        {KILN_FEATURE_LOOP1_EXTENT, log2(1 + 6)},
        {KILN_FEATURE_VECTOR_BYTES, log2(1 + 32 * 48 * 4)},
        {KILN_FEATURE_SCALAR_BYTES, log2(1 + 12 * 32 * 4)},
        {KILN_FEATURE_RESULT_BYTES, log2(1 + 12 * 48 * 4)},
        {KILN_FEATURE_TILE_TAIL, 0},
    };
    for (uint32_t i = 0; i < sizeof row / sizeof row[0]; i++)
        if (fabs((double)f[row[i].feature] - row[i].value) > 1e-4)
            fail_msg("%s is %g, not %g", kiln_features_cpu.info[row[i].feature].name,
                     (double)f[row[i].feature], row[i].value);
    assert_true(exp2((double)f[KILN_FEATURE_NS]) >
                12 * 48 * 32 / 16.0 / 4); /* no faster than the peak */
}

static void tails_and_threads_show(void **state) {
    float f[KILN_FEATURE_COUNT];
    kiln_program *te = matmul_program(*state, 13, 48, 32);
    kiln_target two = avx2;
    two.threads = 2;
    char text[512];
    snprintf(text, sizeof text, "%sparallel(matmul.m.0)\n", tile_text);
    kiln_features_cpu.compute(schedule(te, text), &two, *state, f);
    assert_true(fabs((double)f[KILN_FEATURE_TILE_TAIL] - 3.0 / 16.0) < 1e-6);
    assert_true(fabs((double)f[KILN_FEATURE_THREADS] - 1) < 1e-6);
    assert_true(f[KILN_FEATURE_CYCLES_FORK] > 0);
}

/* y[i] = sum over k of x8[i][k] * w8[k] in i32. */
static kiln_program *integer_program(kiln_arena *arena) {
    kiln_program *p = kiln_program_create(arena, KILN_STR("dot"));
    kiln_shape x_shape = {.rank = 2, .dim = {16, 32}}, w_shape = {.rank = 1, .dim = {32}},
               y_shape = {.rank = 1, .dim = {16}};
    kiln_buffer x = kiln_buffer_create(p, KILN_STR("x"), KILN_I8, KILN_ROLE_INPUT, &x_shape);
    kiln_buffer w = kiln_buffer_create(p, KILN_STR("w"), KILN_I8, KILN_ROLE_INPUT, &w_shape);
    kiln_buffer y = kiln_buffer_create(p, KILN_STR("y"), KILN_I32, KILN_ROLE_OUTPUT, &y_shape);
    kiln_block b = kiln_block_create(p, KILN_STR("dot"));
    kiln_expr i = kiln_block_add_iter(p, b, "i", 16, false);
    kiln_expr k = kiln_block_add_iter(p, b, "k", 32, true);
    kiln_expr at[2] = {i, k};
    kiln_expr product =
        kiln_expr_binary(p, KILN_EXPR_MUL, kiln_expr_cast(p, KILN_I32, kiln_expr_load(p, x, at, 2)),
                         kiln_expr_cast(p, KILN_I32, kiln_expr_load(p, w, &k, 1)));
    kiln_block_set(p, b, y, &i, 1, KILN_COMBINE_SUM, product, 0);
    return p;
}

static kiln_program *integer_loops(kiln_arena *arena) {
    kiln_program *p = integer_program(arena);
    kiln_program_make_loops(p);
    return p;
}

static void integers_count_as_work(void **state) {
    float f[KILN_FEATURE_COUNT];
    kiln_features_cpu.compute(integer_loops(*state), &avx2, *state, f);
    assert_true(fabs((double)f[KILN_FEATURE_OPS_I8_MAC] - log2(1 + 16 * 32)) < 1e-4);
    assert_true(f[KILN_FEATURE_OPS_F32_MAC] == 0);
    assert_true(f[KILN_FEATURE_CYCLES_PORTS] > 0);
}

/* The same loops, in vectors and in an instruction that takes four steps at once. */
static void a_tensor_intrinsic_does_the_same_work_in_less_time(void **state) {
    kiln_arena *arena = *state;
    static const char *const text[] = {
        "cache_read(dot, w, \"global\")\ntransform_layout(w.read, \"d0/4,d1,d0%4\")\n"
        "split(dot.n, -1, 4)\nsplit(dot.k, -1, 4)\n"
        "reorder(dot.k.0, dot.k.1, dot.n.1)\ndecompose_reduction(dot, dot.k.0)\n"
        "unroll(dot.k.1)\nvectorize(dot.n.1)\n",
        "cache_read(dot, w, \"global\")\ntransform_layout(w.read, \"d0/4,d1/4,d0%4,d1%4\")\n"
        "split(dot.n, -1, 4)\nsplit(dot.k, -1, 4)\n"
        "reorder(dot.k.0, dot.n.1, dot.k.1)\ndecompose_reduction(dot, dot.k.0)\n"
        "tensorize(dot.n.1, \"sdot\")\n"};
    float f[2][KILN_FEATURE_COUNT];
    kiln_target target;
    expect_ok(kiln_target_parse(KILN_STR("rpi5"), arena, &target));
    for (uint32_t i = 0; i < 2; i++)
        kiln_features_cpu.compute(schedule(bytes_program(arena, 8, 64, 64), text[i]), &target,
                                  arena, f[i]);
    assert_true(f[1][KILN_FEATURE_OPS_I8_MAC] == f[0][KILN_FEATURE_OPS_I8_MAC]);
    assert_true(f[1][KILN_FEATURE_OPS_CASTS] == 0);
    assert_true(f[1][KILN_FEATURE_NS] < f[0][KILN_FEATURE_NS] - 1); /* less than half */
    assert_true(f[1][KILN_FEATURE_TILE_VECTOR_LOADS] < f[0][KILN_FEATURE_TILE_VECTOR_LOADS]);
    assert_true(f[1][KILN_FEATURE_TILE_BROADCASTS] <= f[0][KILN_FEATURE_TILE_BROADCASTS]);
}

static void computing_twice_gives_the_same_numbers(void **state) {
    const conv_shape shape = {1, 6, 6, 6, 16, 3, 3, 1, 1, true};
    kiln_program *program = schedule(conv_program(*state, &shape), "");
    float a[KILN_FEATURE_COUNT], b[KILN_FEATURE_COUNT];
    kiln_features_cpu.compute(program, &avx2, *state, a);
    memset(b, 0x55, sizeof b);
    kiln_features_cpu.compute(program, &avx2, *state, b);
    assert_memory_equal(a, b, sizeof a);
    for (uint32_t i = 0; i < KILN_FEATURE_COUNT; i++) assert_true(isfinite(a[i]));
}

static void the_baseline_lists_loops_in_order_and_is_blind_to_integers(void **state) {
    float f[FEATURES_AUTOTVM_COUNT];
    kiln_program *te = matmul_program(*state, 12, 48, 32);
    features_autotvm_compute(schedule(te, tile_text), &avx2, *state, f);
    /* The first loop: 3 iterations, level 1, topdown 3; serial; no operation directly below it. */
    assert_true(fabs((double)f[0] - 2) < 1e-6);
    assert_true(f[1] == 1);
    assert_true(fabs((double)f[2] - 2) < 1e-6);
    assert_true(f[4 + 9] == 1);
    /* Loops follow at a stride of 4 + 11 + 3 + 6 per access: the innermost one adds and multiplies.
     */
    const uint32_t stride = 4 + 11 + 3 + 6 * 3, last = 4 * stride;
    assert_true(f[last + 4 + 7] == 1);
    assert_true(f[last + 15] == 1);
    assert_true(f[last + 16] == 1);

    float integers[FEATURES_AUTOTVM_COUNT];
    features_autotvm_compute(integer_loops(*state), &avx2, *state, integers);
    assert_true(integers[stride + 15] == 0);
    assert_true(integers[stride + 16] == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(counts_are_logarithms_of_what_is_executed),
        test_with_arena(tails_and_threads_show),
        test_with_arena(integers_count_as_work),
        test_with_arena(a_tensor_intrinsic_does_the_same_work_in_less_time),
        test_with_arena(computing_twice_gives_the_same_numbers),
        test_with_arena(the_baseline_lists_loops_in_order_and_is_blind_to_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
