/* The model that chooses among tiles: what takes longer on a device takes longer for it. */
#include "compiler-core/rules/gpu.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/lower/support.h"
#include "tests/unit/compiler-core/rules/support.h"

/* The block that is summed up, with its roles and tables. */
static kiln_gpu_tiling tiling_on(kiln_arena *arena, const char *text, const char *target) {
    kiln_target *t = KILN_ARENA_NEW(arena, kiln_target);
    *t = target_of(arena, target);
    kiln_sched *s = KILN_ARENA_NEW(arena, kiln_sched);
    *s = kiln_sched_begin(parsed(arena, text), t, arena);
    kiln_gpu_tiling tiling = {.s = s, .block = block_of(s, "mul"), .limits = kiln_gpu_limits_of(t)};
    assert_true(kiln_gpu_choose_roles(&tiling));
    assert_null(kiln_gpu_choose_sizes(&tiling));
    return tiling;
}

static const char large[] =
    "program p\ninput x: f32[2048,2048]\ninput w: f32[2048,2048]\noutput y: f32[2048,2048]\n"
    "block mul(i:2048, j:2048 | k:2048): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n";
static const char convolution[] =
    "program p\ninput x: f32[32,64,58,58]\nconstant w: f32[64,64,3,3]\noutput y: f32[32,64,56,56]\n"
    "block mul(n:32, o:64, h:56, v:56 | i:64, r:3, q:3): y[n, o, h, v] sum= x[n, i, h + r, v + q] "
    "* w[o, i, r, q] init 0.0\n";
static const char deep[] =
    "program p\ninput x: f32[32,256,16,16]\nconstant w: f32[256,256,3,3]\n"
    "output y: f32[32,256,14,14]\n"
    "block mul(n:32, o:256, h:14, v:14 | i:256, r:3, q:3): y[n, o, h, v] sum= x[n, i, h + r, v + "
    "q] * w[o, i, r, q] init 0.0\n";

static double cycles_of(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile, int64_t block,
                        int64_t stages) {
    const kiln_gpu_needs needs = kiln_gpu_needs_of(t, tile, block);
    return kiln_gpu_cycles(t, tile, &needs, stages);
}

static void default_tiles_fill_the_units(void **state) {
    static const char *const program[] = {large, convolution, deep};
    static const char *const device[] = {"h200", "a100"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(program); i++)
        for (size_t d = 0; d < KILN_ARRAY_COUNT(device); d++) {
            const kiln_gpu_tiling t = tiling_on(*state, program[i], device[d]);
            const double groups = kiln_gpu_groups(&t, &t.row[t.preferred]);
            if (groups < 0.9 * (double)t.limits.units)
                fail_msg("%zu %s: %g groups", i, device[d], groups);
        }
}

static void stages_hide_what_a_fetch_takes(void **state) {
    const kiln_gpu_tiling t = tiling_on(*state, large, "h200");
    const kiln_gpu_tile *tile = &t.row[t.preferred];
    assert_true(cycles_of(&t, tile, 8, 3) < cycles_of(&t, tile, 8, 1));
}

/* Vectors of one thread that lie side by side make its neighbours wait for the same banks. */
static void parts_that_lie_apart_are_read_sooner(void **state) {
    const kiln_gpu_tiling t = tiling_on(*state, large, "h200");
    kiln_gpu_tile together = t.row[t.preferred];
    together.points[t.vector] = 8;
    together.lanes = 4;
    together.parts = 1;
    kiln_gpu_tile apart = together;
    apart.parts = 2;
    const int64_t block = t.step[t.preferred_step][KILN_GPU_BLOCK],
                  stages = t.step[t.preferred_step][KILN_GPU_STAGES];
    assert_true(cycles_of(&t, &apart, block, stages) < cycles_of(&t, &together, block, stages));
}

static const char windows[] =
    "program p\ninput x: f32[64,114,366]\nconstant w: f32[4096,64,3,3]\n"
    "output y: f32[4096,112,364]\n"
    "block mul(o:4096, h:112, v:364 | i:64, r:3, q:3): y[o, h, v] sum= x[i, h + r, v + q] * "
    "w[o, i, r, q] init 0.0\n";

/* Rows of 32 words make 16 threads ask one bank, those of 30 do not: so fewer groups take longer.
 */
static void threads_that_ask_the_same_bank_wait(void **state) {
    const kiln_gpu_tiling t = tiling_on(*state, windows, "h200");
    kiln_gpu_tile tile = {.threads = {1, 16, 2}, .points = {4, 1, 13}, .lanes = 4, .parts = 1};
    const double rows_of_30 = cycles_of(&t, &tile, 8, 1);
    tile.points[2] = 14;
    assert_true(cycles_of(&t, &tile, 8, 1) > rows_of_30);
}

/* A loop of more rounds than compilers unroll waits in each; stages have all loads in a row. */
static void long_copying_loops_wait_for_each_load(void **state) {
    const kiln_gpu_tiling t = tiling_on(*state, large, "h200");
    const kiln_gpu_tile *tile = &t.row[t.preferred];
    kiln_gpu_needs needs = kiln_gpu_needs_of(&t, tile, 8);
    needs.rounds[0] = 32;
    const double unrolled = kiln_gpu_cycles(&t, tile, &needs, 1),
                 staged = kiln_gpu_cycles(&t, tile, &needs, 2);
    needs.rounds[0] = 33;
    assert_true(kiln_gpu_cycles(&t, tile, &needs, 1) > 2 * unrolled);
    assert_true(kiln_gpu_cycles(&t, tile, &needs, 2) < 1.1 * staged);
}

/* What threads fetch passes the port of their unit twice, what the device copies once. */
static void copies_of_the_device_take_half_of_the_port(void **state) {
    kiln_gpu_tiling t = tiling_on(*state, large, "h200");
    const kiln_gpu_tile tile = {.threads = {8, 32}, .points = {1, 1}, .lanes = 1, .parts = 1};
    kiln_gpu_needs needs = kiln_gpu_needs_of(&t, &tile, 8);
    t.operand[0].fetch = t.operand[1].fetch = 4; /* 16 bytes of a thread: four cycles of a warp */
    needs.rounds[0] = needs.rounds[1] = 30;
    const double threads = kiln_gpu_cycles(&t, &tile, &needs, 2),
                 device = kiln_gpu_cycles(&t, &tile, &needs, 3);
    assert_true(threads > 1.5 * device && threads < 2.5 * device);
}

static void every_row_goes_with_every_step(void **state) {
    static const char *const program[] = {large, convolution, deep};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(program); i++) {
        const kiln_gpu_tiling t = tiling_on(*state, program[i], "a100");
        for (uint32_t r = 0; r < t.row_count; r++)
            for (uint32_t k = 0; k < t.step_count; k++) {
                const int64_t block = t.step[k][KILN_GPU_BLOCK],
                              stages = t.step[k][KILN_GPU_STAGES];
                const kiln_gpu_needs needs = kiln_gpu_needs_of(&t, &t.row[r], block);
                const int64_t registers = kiln_gpu_tile_registers(&needs, stages);
                assert_true(registers <= t.limits.registers);
                assert_true(registers * needs.threads <= t.limits.unit_registers);
                assert_true(stages * needs.stage_bytes <= t.limits.shared_bytes);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(default_tiles_fill_the_units),
        test_with_arena(stages_hide_what_a_fetch_takes),
        test_with_arena(parts_that_lie_apart_are_read_sooner),
        test_with_arena(threads_that_ask_the_same_bank_wait),
        test_with_arena(long_copying_loops_wait_for_each_load),
        test_with_arena(copies_of_the_device_take_half_of_the_port),
        test_with_arena(every_row_goes_with_every_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
