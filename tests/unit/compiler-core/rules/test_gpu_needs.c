/* What a group takes: closed forms, beside counts of what it reads element by element. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_region_reaches_from_first_to_last_index),
        test_with_arena(rounds_are_as_few_as_hold_every_element),
        test_with_arena(no_other_plane_has_fewer_rounds),
        test_with_arena(needs_agree_with_single_questions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
