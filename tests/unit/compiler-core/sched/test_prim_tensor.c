/* tensorize: what it marks, and what it refuses. */
#include "tests/unit/compiler-core/sched/support.h"

static void lanes_and_steps_are_marked(void **state) {
    kiln_arena *arena = *state;
    expect_loops(bytes_program(arena, 3, 8, 12),
                 "split(dot.n, -1, 4)\n"
                 "split(dot.k, -1, 4)\n"
                 "reorder(dot.k.0, dot.n.1, dot.k.1)\n"
                 "decompose_reduction(dot, dot.k.0)\n"
                 "tensorize(dot.n.1, \"sdot\")\n",
                 "  for dot.m in 3:\n"
                 "    for dot.n.0 in 2:\n"
                 "      for dot.init.n.1 in 4:\n"
                 "        block dot.init(m=dot.m, n=dot.n.0*4 + dot.init.n.1)\n"
                 "      for dot.k.0 in 3:\n"
                 "        vectorize dot.n.1 in 4:\n"
                 "          unroll dot.k.1 in 4 @tensorize(sdot):\n"
                 "            block dot(m=dot.m, n=dot.n.0*4 + dot.n.1, k=dot.k.0*4 + dot.k.1)\n");
}

#define SPLIT_ROWS                                                    \
    "split(dot.m, -1, 2)\nsplit(dot.n, -1, 4)\nsplit(dot.k, -1, 8)\n" \
    "reorder(dot.m.0, dot.n.0, dot.k.0, dot.m.1, dot.n.1, dot.k.1)\n" \
    "decompose_reduction(dot, dot.k.0)\n"

/* Of three rows the last has no other one beside it. */
static void rows_are_marked_even_where_their_number_is_odd(void **state) {
    kiln_arena *arena = *state;
    expect_loops(bytes_program(arena, 3, 4, 16), SPLIT_ROWS "tensorize(dot.m.1, \"smmla\")\n",
                 "  for dot.m.0 in 2:\n"
                 "    for dot.n.0 in 1:\n"
                 "      for dot.init.m.1 in 2:\n"
                 "        for dot.init.n.1 in 4:\n"
                 "          block dot.init(m=dot.m.0*2 + dot.init.m.1, n=dot.init.n.1) if "
                 "dot.m.0*2 + dot.init.m.1 < 3\n"
                 "      for dot.k.0 in 2:\n"
                 "        unroll dot.m.1 in 2:\n"
                 "          vectorize dot.n.1 in 4:\n"
                 "            unroll dot.k.1 in 8 @tensorize(smmla):\n"
                 "              block dot(m=dot.m.0*2 + dot.m.1, n=dot.n.1, k=dot.k.0*8 + dot.k.1) "
                 "if dot.m.0*2 + dot.m.1 < 3\n");
    expect_illegal(bytes_program(arena, 4, 4, 16), SPLIT_ROWS "tensorize(dot.n.1, \"smmla\")\n",
                   "is not the outer one of the three");
    expect_illegal(bytes_program(arena, 4, 4, 16), SPLIT_ROWS "tensorize(dot.m.1, \"bfmmla\")\n",
                   "dot.k.1 has 8 iterations; bfmmla takes 4");
}

/* The target's configuration says how many it takes, and a schedule knows no target. */
static void rows_lanes_and_steps_of_a_core_stay_loops(void **state) {
    kiln_arena *arena = *state;
    expect_loops(bytes_program(arena, 2, 4, 16), SPLIT_ROWS "tensorize(dot.m.1, \"gemm.i8\")\n",
                 "  for dot.m.0 in 1:\n"
                 "    for dot.n.0 in 1:\n"
                 "      for dot.init.m.1 in 2:\n"
                 "        for dot.init.n.1 in 4:\n"
                 "          block dot.init(m=dot.init.m.1, n=dot.init.n.1)\n"
                 "      for dot.k.0 in 2:\n"
                 "        for dot.m.1 in 2:\n"
                 "          for dot.n.1 in 4:\n"
                 "            for dot.k.1 in 8 @tensorize(gemm.i8):\n"
                 "              block dot(m=dot.m.1, n=dot.n.1, k=dot.k.0*8 + dot.k.1)\n");
    expect_illegal(bytes_program(arena, 3, 4, 16), SPLIT_ROWS "tensorize(dot.m.1, \"gemm.i8\")\n",
                   "dot does not run in all iterations of dot.m.1");
}

#define SPLIT "split(dot.n, -1, 4)\nsplit(dot.k, -1, 4)\nreorder(dot.k.0, dot.n.1, dot.k.1)\n"
#define DECOMPOSE "decompose_reduction(dot, dot.k.0)\n"

static void what_is_no_such_piece_is_refused(void **state) {
    kiln_arena *arena = *state;
    static const struct {
        const char *text, *reason;
    } row[] = {
        {SPLIT DECOMPOSE "tensorize(dot.n.1, \"dot\")\n", "there is no tensor intrinsic dot"},
        {SPLIT DECOMPOSE "tensorize(dot.k.1, \"sdot\")\n", "is not the outer one of the two"},
        {SPLIT DECOMPOSE "tensorize(dot.m, \"sdot\")\n", "is not the outer one of the two"},
        {SPLIT "tensorize(dot.n.1, \"sdot\")\n", "dot has not been decomposed"},
        {SPLIT DECOMPOSE "unroll(dot.k.1)\ntensorize(dot.n.1, \"sdot\")\n", "is not serial"},
        {SPLIT DECOMPOSE "tensorize(dot.n.1, \"udot\")\n", "does not sum up"},
        {SPLIT DECOMPOSE "tensorize(dot.n.1, \"vpmaddwd\")\n", "dot.n.1 has 4 iterations"},
        {"split(dot.n, -1, 4)\nsplit(dot.k, -1, 6)\nreorder(dot.k.0, dot.n.1, dot.k.1)\n" DECOMPOSE
         "tensorize(dot.n.1, \"sdot\")\n",
         "dot.k.1 has 6 iterations; sdot takes 4"},
        {"split(dot.n, -1, 4)\nsplit(dot.k, -1, 4)\n"
         "reorder(dot.k.0, dot.k.1, dot.n.1)\ndecompose_reduction(dot, dot.k.0)\n"
         "tensorize(dot.k.1, \"sdot\")\n",
         "dot.k.1 is no loop over elements of the result"},
    };
    for (uint32_t i = 0; i < sizeof row / sizeof *row; i++)
        expect_illegal(bytes_program(arena, 3, 8, 12), row[i].text, row[i].reason);
}

/* Iterations that only a predicate stops would have to be masked. */
static void partial_lanes_and_steps_are_refused(void **state) {
    kiln_arena *arena = *state;
    const char *text = SPLIT DECOMPOSE "tensorize(dot.n.1, \"sdot\")\n";
    expect_illegal(bytes_program(arena, 3, 7, 12), text, "does not run in all iterations");
    expect_illegal(bytes_program(arena, 3, 8, 10), text, "does not run in all iterations");
}

static void nothing_is_placed_inside_afterwards(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(bytes_program(arena, 3, 8, 12),
                   "cache_read(dot, w, \"global\")\n" SPLIT DECOMPOSE
                   "tensorize(dot.n.1, \"sdot\")\ncompute_at(w.read, dot.k.1)\n",
                   "dot.n.1 is vectorized; nothing can be placed in it");
    expect_illegal(bytes_program(arena, 3, 8, 12),
                   SPLIT DECOMPOSE "tensorize(dot.n.1, \"sdot\")\nreorder(dot.k.1, dot.n.1)\n",
                   "dot.k.1 is the inner loop of a tensor intrinsic");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(lanes_and_steps_are_marked),
        test_with_arena(rows_are_marked_even_where_their_number_is_odd),
        test_with_arena(rows_lanes_and_steps_of_a_core_stay_loops),
        test_with_arena(what_is_no_such_piece_is_refused),
        test_with_arena(partial_lanes_and_steps_are_refused),
        test_with_arena(nothing_is_placed_inside_afterwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
