/* The analytic model: which of two schedules it takes for the faster one, and why. */
#include "compiler-core/cost/estimate.h"

#include <math.h>
#include <stdio.h>

#include "compiler-core/cost/features_cpu.h"
#include "compiler-core/lower/lower.h"
#include "tests/unit/compiler-core/sched/support.h"

/* A product with a register tile of `rows` times `vectors` vectors of 8 columns. */
static kiln_program *tiled(const kiln_program *te, int rows, int vectors) {
    char text[1024];
    snprintf(text, sizeof text,
             "cache_write(matmul, \"register\")\n"
             "split(matmul.m, -1, %d)\n"
             "split(matmul.n, -1, %d, 8)\n"
             "reorder(matmul.m.0, matmul.n.0, matmul.k, matmul.m.1, matmul.n.1, matmul.n.2)\n"
             "reverse_compute_at(matmul.write, matmul.n.0)\n"
             "vectorize(matmul.n.2)\nunroll(matmul.n.1)\nunroll(matmul.m.1)\n"
             "split(matmul.write.n, -1, 8)\nvectorize(matmul.write.n.1)\n"
             "unroll(matmul.write.n.0)\nunroll(matmul.write.m)\n"
             "decompose_reduction(matmul, matmul.k)\n",
             rows, vectors);
    return schedule(te, text);
}

static kiln_estimate estimate_for(const kiln_program *program, const kiln_target *target,
                                  kiln_arena *arena) {
    kiln_estimate e;
    const kiln_facts *facts = kiln_facts_create(program, target->line_bytes, arena);
    kiln_estimate_make(facts, target, arena, &e);
    return e;
}

static double cycles_of(const kiln_program *program, kiln_arena *arena) {
    return estimate_for(program, &avx2, arena).cycles;
}

static void vectors_and_register_tiles_are_worth_their_while(void **state) {
    kiln_program *te = matmul_program(*state, 12, 48, 32);
    double plain = cycles_of(schedule(te, ""), *state);
    double vectors = cycles_of(
        schedule(te,
                 "split(matmul.n, -1, 8)\nreorder(matmul.k, matmul.n.1)\nvectorize(matmul.n.1)\n"),
        *state);
    double tile = cycles_of(tiled(te, 6, 2), *state);
    assert_true(vectors < plain / 2);
    assert_true(tile < vectors / 2);
}

static void a_tile_of_one_vector_waits_for_loads(void **state) {
    kiln_program *te = matmul_program(*state, 12, 48, 32);
    kiln_estimate square = estimate_for(tiled(te, 6, 2), &avx2, *state);
    kiln_estimate flat = estimate_for(tiled(te, 12, 1), &avx2, *state);
    assert_int_equal(lround(square.tile[square.main].accumulators), 12);
    assert_int_equal(lround(flat.tile[flat.main].accumulators), 12);
    assert_true(square.term[KILN_TERM_LOADS] < square.term[KILN_TERM_PORTS]);
    assert_true(flat.term[KILN_TERM_LOADS] > flat.term[KILN_TERM_PORTS]);
    assert_true(square.cycles < flat.cycles);
}

static void few_accumulators_wait_for_each_other(void **state) {
    kiln_program *te = matmul_program(*state, 12, 48, 32);
    kiln_estimate few = estimate_for(tiled(te, 2, 1), &avx2, *state);
    assert_true(few.term[KILN_TERM_LATENCY] > few.term[KILN_TERM_PORTS]);
}

static void what_fits_the_registers_is_what_lowering_takes(void **state) {
    kiln_program *te = matmul_program(*state, 24, 48, 8);
    static const int rows[] = {2, 4, 6, 8, 12}, vectors[] = {1, 2, 3};
    uint32_t refused = 0;
    for (uint32_t i = 0; i < 5; i++)
        for (uint32_t k = 0; k < 3; k++) {
            kiln_program *program = tiled(te, rows[i], vectors[k]);
            float feature[KILN_FEATURE_COUNT];
            kiln_lowered lowered;
            kiln_features_cpu.compute(program, &avx2, *state, feature);
            kiln_status st = kiln_lower(program, &avx2, *state, &lowered);
            if (kiln_features_cpu.fits(feature) != (st == NULL))
                fail_msg("%d times %d: %s", rows[i], vectors[k], kiln_status_text(st));
            refused += st != NULL;
            kiln_status_free(st);
        }
    assert_in_range(refused, 1, 14);
}

static void data_that_leaves_a_cache_is_fetched_again(void **state) {
    kiln_program *te = matmul_program(*state, 64, 256, 256);
    kiln_target small = avx2;
    small.l1_bytes = 4096;
    kiln_program *program = tiled(te, 4, 2);
    double large = estimate_for(program, &avx2, *state).term[KILN_TERM_L1];
    assert_true(estimate_for(program, &small, *state).term[KILN_TERM_L1] > 2 * large);
}

static void workers_share_parallel_loops_unevenly(void **state) {
    kiln_program *te = matmul_program(*state, 12, 48, 32);
    kiln_target two = avx2;
    two.threads = 2;
    kiln_estimate e =
        estimate_for(schedule(te, "split(matmul.m, 3, 4)\nparallel(matmul.m.0)\n"), &two, *state);
    assert_int_equal(lround(e.workers), 2);
    assert_true(fabs(e.imbalance - 4.0 / 3.0) < 1e-9);
    assert_true(e.term[KILN_TERM_FORK] > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(vectors_and_register_tiles_are_worth_their_while),
        test_with_arena(a_tile_of_one_vector_waits_for_loads),
        test_with_arena(few_accumulators_wait_for_each_other),
        test_with_arena(what_fits_the_registers_is_what_lowering_takes),
        test_with_arena(data_that_leaves_a_cache_is_fetched_again),
        test_with_arena(workers_share_parallel_loops_unevenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
