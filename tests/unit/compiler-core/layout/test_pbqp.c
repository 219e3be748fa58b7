/* The solver against every combination there is. */
#include "compiler-core/layout/pbqp.h"

#include "base/rand.h"
#include "tests/support/test.h"

#define NODES_MAX 9
#define WAYS_MAX 4

/* A problem that can be looked through in full. */
typedef struct instance {
    uint32_t nodes, ways[NODES_MAX];
    double own[NODES_MAX][WAYS_MAX];
    bool linked[NODES_MAX][NODES_MAX];
    double pair[NODES_MAX][NODES_MAX][WAYS_MAX][WAYS_MAX]; /* [a < b] */
} instance;

static instance random_nodes(kiln_rand *rand, uint32_t nodes) {
    instance in = {.nodes = nodes};
    for (uint32_t n = 0; n < nodes; n++) {
        in.ways[n] = 1 + (uint32_t)kiln_rand_below(rand, WAYS_MAX);
        for (uint32_t i = 0; i < in.ways[n]; i++) in.own[n][i] = (double)kiln_rand_below(rand, 100);
    }
    return in;
}

static void link_nodes(instance *in, kiln_rand *rand, uint32_t one, uint32_t other) {
    uint32_t a = one < other ? one : other, b = one < other ? other : one;
    in->linked[a][b] = true;
    for (uint32_t i = 0; i < in->ways[a]; i++)
        for (uint32_t j = 0; j < in->ways[b]; j++)
            in->pair[a][b][i][j] =
                kiln_rand_below(rand, 3) ? (double)kiln_rand_below(rand, 100) : 0;
}

static double cost_of(const instance *in, const uint32_t *choice) {
    double cost = 0;
    for (uint32_t a = 0; a < in->nodes; a++) {
        cost += in->own[a][choice[a]];
        for (uint32_t b = a + 1; b < in->nodes; b++)
            if (in->linked[a][b]) cost += in->pair[a][b][choice[a]][choice[b]];
    }
    return cost;
}

static double least_cost(const instance *in) {
    uint32_t choice[NODES_MAX] = {0}, at = 0;
    double best = cost_of(in, choice);
    while (at < in->nodes) { /* counts in the mixed base of the ways */
        for (at = 0; at < in->nodes && ++choice[at] == in->ways[at]; at++) choice[at] = 0;
        if (at < in->nodes && cost_of(in, choice) < best) best = cost_of(in, choice);
    }
    return best;
}

/* Every second edge is given from its other end, and in two halves. */
static kiln_pbqp *problem_of(const instance *in, kiln_arena *arena) {
    kiln_pbqp *p = kiln_pbqp_create(arena);
    for (uint32_t n = 0; n < in->nodes; n++)
        assert_int_equal(kiln_pbqp_add_node(p, in->ways[n], in->own[n]), n);
    for (uint32_t a = 0; a < in->nodes; a++) {
        for (uint32_t b = a + 1; b < in->nodes; b++) {
            double forth[WAYS_MAX * WAYS_MAX], back[WAYS_MAX * WAYS_MAX];
            if (!in->linked[a][b]) continue;
            for (uint32_t i = 0; i < in->ways[a]; i++)
                for (uint32_t j = 0; j < in->ways[b]; j++)
                    forth[i * in->ways[b] + j] = back[j * in->ways[a] + i] =
                        in->pair[a][b][i][j] / 2;
            kiln_pbqp_add_edge(p, a, b, forth);
            kiln_pbqp_add_edge(p, b, a, back);
        }
    }
    return p;
}

static bool solve(const instance *in, double *out_cost) {
    kiln_arena arena;
    uint32_t choice[NODES_MAX];
    kiln_arena_init(&arena, 0);
    bool exact = kiln_pbqp_solve(problem_of(in, &arena), choice);
    for (uint32_t n = 0; n < in->nodes; n++) assert_true(choice[n] < in->ways[n]);
    kiln_arena_deinit(&arena);
    *out_cost = cost_of(in, choice);
    return exact;
}

static void expect_optimal(const instance *in) {
    double cost;
    assert_true(solve(in, &cost));
    assert_float_equal(cost, least_cost(in), 1e-9);
}

/* ---- promises -------------------------------------------------------------------------------- */

static void trees_are_solved_exactly(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        instance in = random_nodes(&rand, 1 + (uint32_t)(seed % NODES_MAX));
        for (uint32_t n = 1; n < in.nodes; n++)
            link_nodes(&in, &rand, n, (uint32_t)kiln_rand_below(&rand, n));
        expect_optimal(&in);
    }
}

/* Residual blocks: a chain with shortcuts that do not cross. */
static void chains_with_shortcuts_are_solved_exactly(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        instance in = random_nodes(&rand, NODES_MAX);
        for (uint32_t n = 1; n < in.nodes; n++) link_nodes(&in, &rand, n - 1, n);
        for (uint32_t n = 2; n < in.nodes; n += 2) link_nodes(&in, &rand, n - 2, n);
        expect_optimal(&in);
    }
}

static void parts_that_do_not_touch_are_solved_by_themselves(void **state) {
    (void)state;
    kiln_rand rand;
    kiln_rand_init(&rand, 7);
    instance in = random_nodes(&rand, 6);
    link_nodes(&in, &rand, 0, 1);
    link_nodes(&in, &rand, 3, 4);
    expect_optimal(&in);
}

/* Where everything touches everything the answer may be short of the best, and says so. */
static void dense_problems_come_close_and_admit_it(void **state) {
    (void)state;
    double found = 0, possible = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        kiln_rand rand;
        kiln_rand_init(&rand, seed);
        instance in = random_nodes(&rand, 7);
        for (uint32_t a = 0; a < in.nodes; a++)
            for (uint32_t b = a + 1; b < in.nodes; b++) link_nodes(&in, &rand, a, b);
        double cost;
        assert_false(solve(&in, &cost));
        assert_true(cost >= least_cost(&in) - 1e-9);
        found += cost;
        possible += least_cost(&in);
    }
    assert_true(found <= 1.1 * possible);
}

static void equal_answers_are_always_the_same_one(void **state) {
    kiln_pbqp *p = kiln_pbqp_create(*state);
    uint32_t choice[3] = {9, 9, 9};
    for (uint32_t n = 0; n < 3; n++) kiln_pbqp_add_node(p, 2, (double[]){5, 5});
    kiln_pbqp_add_edge(p, 0, 1, (double[]){0, 1, 1, 0});
    kiln_pbqp_add_edge(p, 1, 2, (double[]){0, 1, 1, 0});
    assert_true(kiln_pbqp_solve(p, choice));
    for (uint32_t n = 0; n < 3; n++) assert_int_equal(choice[n], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_are_solved_exactly),
        cmocka_unit_test(chains_with_shortcuts_are_solved_exactly),
        cmocka_unit_test(parts_that_do_not_touch_are_solved_by_themselves),
        cmocka_unit_test(dense_problems_come_close_and_admit_it),
        test_with_arena(equal_answers_are_always_the_same_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
