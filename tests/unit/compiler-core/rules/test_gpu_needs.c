/* What a group takes: closed forms, beside counts of what it reads element by element. */
#include "compiler-core/cost/estimate_gpu.h"
#include "compiler-core/cost/warp.h"
#include "compiler-core/rules/gpu.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/lower/support.h"
#include "tests/unit/compiler-core/rules/support.h"

static const struct {
    const char *target, *text;
} example[] = {
    {"h200", "program p\ninput x: f32[96,80]\ninput w: f32[80,64]\noutput y: f32[96,64]\n"
             "block mul(i:96, j:64 | k:80): y[i, j] sum= x[i, k] * w[k, j] init 0.0\n"},
    {"h200",
     "program p\ninput x: f32[2,16,31,31]\nconstant w: f32[32,16,3,3]\noutput y: f32[2,32,15,15]\n"
     "block mul(n:2, o:32, h:15, v:15 | i:16, r:3, q:3): y[n, o, h, v] sum= "
     "x[n, i, 2 * h + r, 2 * v + q] * w[o, i, r, q] init 0.0\n"},
    {"opencl:some",
     "program p\ninput x: f32[4,16,18,18]\ninput w: f32[4,24,16,3,3]\noutput y: f32[4,24,16,16]\n"
     "block mul(g:4, o:24, h:16, v:16 | i:16, r:3, q:3): y[g, o, h, v] sum= "
     "x[g, i, h + r, v + q] * w[g, o, i, r, q] init 0.0\n"},
};

static kiln_gpu_tiling tables_of(kiln_arena *arena, size_t i) {
    kiln_target *t = KILN_ARENA_NEW(arena, kiln_target);
    *t = target_of(arena, example[i].target);
    kiln_sched *s = KILN_ARENA_NEW(arena, kiln_sched);
    *s = kiln_sched_begin(parsed(arena, example[i].text), t, arena);
    kiln_gpu_tiling tiling = {.s = s, .block = block_of(s, "mul"), .limits = kiln_gpu_limits_of(t)};
    assert_true(kiln_gpu_choose_roles(&tiling));
    assert_null(kiln_gpu_choose_sizes(&tiling));
    return tiling;
}

/* Values that iterator `i` takes in a group. */
static int64_t values_of(const kiln_gpu_tiling *t, int i, const kiln_gpu_tile *tile,
                         int64_t steps) {
    for (uint32_t n = 0; n < t->tiled; n++)
        if (t->iter[n] == i) return tile->threads[n] * tile->points[n];
    const kiln_block_info *b = &t->s->program->block.data[t->block];
    if (i == t->k) return steps;
    return i < (int)b->iter_count && b->iter[i].reduce ? b->iter[i].extent : 1;
}

/* From the first to the last index of the dimension, each iterator at its last value. */
static int64_t reach_of(const kiln_gpu_tiling *t, const kiln_gpu_operand *o, uint32_t d,
                        const kiln_gpu_tile *tile, int64_t steps) {
    int64_t last = 0;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        last += o->coefficient[d][i] * (values_of(t, i, tile, steps) - 1);
    return last + 1;
}

static void a_region_reaches_from_first_to_last_index(void **state) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(example); i++) {
        const kiln_gpu_tiling t = tables_of(*state, i);
        for (uint32_t a = 0; a < t.operand_count; a++)
            for (uint32_t d = 0; d < t.operand[a].rank; d++)
                for (uint32_t r = 0; r < t.row_count; r++)
                    for (int64_t steps = 1; steps <= 8; steps++)
                        assert_int_equal(kiln_gpu_region(&t, &t.operand[a], d, &t.row[r], steps),
                                         reach_of(&t, &t.operand[a], d, &t.row[r], steps));
    }
}

/* Rounds of all threads hold every element, and one fewer would not; what they copy has room. */
static void rounds_are_as_few_as_hold_every_element(void **state) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(example); i++) {
        const kiln_gpu_tiling t = tables_of(*state, i);
        for (uint32_t a = 0; a < t.operand_count; a++)
            for (uint32_t r = 0; r < t.row_count; r++) {
                kiln_gpu_tile tile = t.row[r];
                const kiln_gpu_operand *o = &t.operand[a];
                tile.plane = 0; /* all threads along all elements */
                int64_t elements = 1;
                for (uint32_t d = 0; d < o->rank; d++) elements *= reach_of(&t, o, d, &tile, 4);
                const int64_t each = kiln_gpu_group_threads(&t, &tile) * o->fetch,
                              rounds = kiln_gpu_rounds(&t, o, &tile, 4);
                assert_true(rounds * each >= elements && (rounds - 1) * each < elements);
                assert_true(kiln_gpu_copied_elements(&t, o, &tile, 4) >= rounds * each);
            }
    }
}

static int64_t rounds_of(const kiln_gpu_tiling *t, const kiln_gpu_tile *tile, int64_t steps) {
    int64_t rounds = 0;
    for (uint32_t a = 0; a < t->operand_count; a++)
        if (t->operand[a].block_dim >= 0) rounds += kiln_gpu_rounds(t, &t->operand[a], tile, steps);
    return rounds;
}

static void no_other_plane_has_fewer_rounds(void **state) {
    uint32_t planes = 0;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(example); i++) {
        const kiln_gpu_tiling t = tables_of(*state, i);
        for (uint32_t r = 0; r < t.row_count; r++) {
            kiln_gpu_tile tile = t.row[r];
            tile.plane = kiln_gpu_choose_plane(&t, &tile, 8);
            const int64_t threads = kiln_gpu_group_threads(&t, &tile),
                          least = rounds_of(&t, &tile, 8);
            planes += tile.plane < threads;
            for (tile.plane = threads; tile.plane > 0; tile.plane /= 2)
                assert_true(rounds_of(&t, &tile, 8) >= least);
        }
    }
    assert_true(planes > 0); /* else nothing was chosen */
}

/* Needs are asked once for what the single questions tell one by one. */
static void needs_agree_with_single_questions(void **state) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(example); i++) {
        const kiln_gpu_tiling t = tables_of(*state, i);
        for (uint32_t r = 0; r < t.row_count; r++)
            for (uint32_t k = 0; k < t.step_count; k++) {
                const int64_t block = t.step[k][KILN_GPU_BLOCK];
                const kiln_gpu_needs needs = kiln_gpu_needs_of(&t, &t.row[r], block);
                assert_int_equal(needs.threads, kiln_gpu_group_threads(&t, &t.row[r]));
                assert_int_equal(needs.copied_bytes, kiln_gpu_shared_bytes(&t, &t.row[r], block));
                for (uint32_t a = 0; a < t.operand_count; a++)
                    assert_int_equal(needs.rounds[a],
                                     kiln_gpu_rounds(&t, &t.operand[a], &t.row[r], block));
                assert_true(needs.stage_bytes > needs.copied_bytes);
            }
    }
}

#define SEEN 64 /* elements of a window's dimension, at most */

/* Elements that the first of three rows of taps, or of three taps of a row, reads and others read
 * again. */
static int64_t read_again(const kiln_gpu_tile *tile, int64_t stride, bool rows) {
    bool first[SEEN][SEEN] = {{0}}, later[SEEN][SEEN] = {{0}};
    int64_t again = 0;
    for (int64_t h = 0; h < tile->points[1]; h++)
        for (int64_t v = 0; v < tile->points[2]; v++)
            for (int64_t r = 0; r < 3; r++)
                for (int64_t q = 0; q < 3; q++) {
                    if (!rows && r > 0) continue; /* one row of taps at a time */
                    if ((rows ? r : q) < 1)
                        first[h * stride + r][v * stride + q] = true;
                    else
                        later[h * stride + r][v * stride + q] = true;
                }
    for (int64_t i = 0; i < SEEN; i++)
        for (int64_t j = 0; j < SEEN; j++) again += first[i][j] && later[i][j];
    return again;
}

/* Vectors are exchanged in whole sets of all banks, of rows that threads turn; those of windows and
 * those that lie as they are read have none. */
static void exchanged_rows_have_whole_sets_of_vectors(void **state) {
    const kiln_gpu_tiling product = tables_of(*state, 0), windows = tables_of(*state, 1);
    const kiln_gpu_operand *x = &product.operand[0], *w = &product.operand[1];
    assert_int_equal(kiln_gpu_exchange_ways(x) * kiln_gpu_exchange_ways(w), 8);
    for (uint32_t a = 0; a < windows.operand_count; a++)
        assert_int_equal(kiln_gpu_exchange_ways(&windows.operand[a]), 1);
    for (uint32_t r = 0; r < product.row_count; r++) {
        const kiln_gpu_tile *tile = &product.row[r];
        const kiln_gpu_operand *turned = kiln_gpu_exchange_ways(x) > 1 ? x : w,
                               *other = turned == x ? w : x;
        const kiln_gpu_needs needs = kiln_gpu_needs_of(&product, tile, 8);
        const int64_t row = kiln_gpu_region(&product, turned, (uint32_t)turned->along, tile, 8),
                      other_row = kiln_gpu_region(&product, other, (uint32_t)other->along, tile, 8),
                      copied = kiln_gpu_copied_elements(&product, turned, tile, 8),
                      other_copied = kiln_gpu_copied_elements(&product, other, tile, 8);
        const int64_t whole = (copied + row - 1) / row * ((row + 31) / 32 * 32),
                      pitched = (other_copied / other_row + 1) * other->pitch + other_copied;
        assert_int_equal(needs.exchanged_bytes, (whole + pitched) * 4);
    }
}

static void live_elements_are_those_that_taps_read_again(void **state) {
    const int64_t stride[] = {0, 2, 1};
    const kiln_gpu_tiling product = tables_of(*state, 0);
    assert_int_equal(product.row[product.preferred].live, 0);
    for (size_t i = 1; i < KILN_ARRAY_COUNT(example); i++) {
        const kiln_gpu_tiling t = tables_of(*state, i);
        for (uint32_t r = 0; r < t.row_count; r++) {
            const kiln_gpu_tile *tile = &t.row[r];
            assert_int_equal(tile->live, KILN_MAX(read_again(tile, stride[i], true),
                                                  read_again(tile, stride[i], false)));
        }
    }
}

/* Defaults that took more, and spilled: first layers of large windows, and a reduction that is
 * split. The cost model counts the program's own loops. */
static void defaults_need_no_more_than_a_thread_has(void **state) {
    static const struct {
        const char *target, *text;
        uint32_t options;
    } row[] = {
        {"cuda:sm_90a",
         "program p\ninput x: f32[1,3,224,224]\nconstant w: f32[64,3,7,7]\ntemp p: "
         "f32[1,3,230,230]\noutput y: f32[1,64,112,112]\n"
         "block around(n:1, c:3, h:230, v:230): p[n, c, h, v] = select(and(and(3 <= h, h < 227), "
         "and(3 <= v, v < 227)), x[n, c, h - 3, v - 3], 0.0)\n"
         "block mul(n:1, o:64, h:112, v:112 | i:3, r:7, q:7): y[n, o, h, v] sum= "
         "p[n, i, 2 * h + r, 2 * v + q] * w[o, i, r, q] init 0.0\n",
         0},
        {"cuda:sm_80",
         "program p\ninput x: f32[1,512,14,14]\nconstant w: f32[512,512,3,3]\ntemp p: "
         "f32[1,512,15,15]\noutput y: f32[1,512,7,7]\n"
         "block around(n:1, c:512, h:15, v:15): p[n, c, h, v] = select(and(1 <= h, 1 <= v), "
         "x[n, c, h - 1, v - 1], 0.0)\n"
         "block mul(n:1, o:512, h:7, v:7 | i:512, r:3, q:3): y[n, o, h, v] sum= "
         "p[n, i, 2 * h + r, 2 * v + q] * w[o, i, r, q] init 0.0\n",
         KILN_GPU_SPLIT},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const kiln_target target = target_of(*state, row[i].target);
        kiln_sched s = kiln_sched_begin(parsed(*state, row[i].text), &target, *state);
        kiln_gpu_estimate e;
        kiln_sketch_gpu_tile(&s, row[i].options);
        expect_legal(&s);
        kiln_gpu_estimate_make(kiln_facts_create(s.program, KILN_WARP_SECTOR_BYTES, *state),
                               &target, *state, &e);
        for (uint32_t l = 0; l < e.launch_count; l++)
            if (e.launch[l].needed_registers > target.gpu->thread_registers)
                fail_msg("%s: %g registers", row[i].target, e.launch[l].needed_registers);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_region_reaches_from_first_to_last_index),
        test_with_arena(rounds_are_as_few_as_hold_every_element),
        test_with_arena(no_other_plane_has_fewer_rounds),
        test_with_arena(needs_agree_with_single_questions),
        test_with_arena(exchanged_rows_have_whole_sets_of_vectors),
        test_with_arena(live_elements_are_those_that_taps_read_again),
        test_with_arena(defaults_need_no_more_than_a_thread_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
