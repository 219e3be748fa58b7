/* rfactor: what it makes, and what it refuses. */
#include "tests/unit/compiler-core/sched/support.h"

static void a_reduction_becomes_parts_and_their_sum(void **state) {
    kiln_arena *arena = *state;
    expect_loops(matmul_program(arena, 6, 10, 8), "rfactor(matmul, \"k\", 4)\n",
                 "  for matmul.part.m in 6:\n"
                 "    for matmul.part.n in 10:\n"
                 "      for matmul.part.k.1 in 4:\n"
                 "        for matmul.part.k.0 in 2:\n"
                 "          block matmul.part(m=matmul.part.m, n=matmul.part.n, "
                 "k.1=matmul.part.k.1, k.0=matmul.part.k.0)\n"
                 "  for matmul.m in 6:\n"
                 "    for matmul.n in 10:\n"
                 "      for matmul.k in 4:\n"
                 "        block matmul(m=matmul.m, n=matmul.n, k=matmul.k)\n");
    expect_line(matmul_program(arena, 6, 10, 8), "rfactor(matmul, \"k\", 4)\n",
                "block matmul.part(m:6, n:10, k.1:4 | k.0:2): y.part[m, n, k.1] sum= x[m, k.1 + "
                "k.0*4]*w[k.1 + k.0*4, n] init 0.0");
    expect_line(matmul_program(arena, 6, 10, 8), "rfactor(matmul, \"k\", 4)\n",
                "block matmul(m:6, n:10 | k:4): y[m, n] sum= y.part[m, n, k] init 0.0");
}

static void parts_beyond_the_end_add_nothing(void **state) {
    kiln_arena *arena = *state;
    expect_line(matmul_program(arena, 6, 10, 7), "rfactor(matmul, \"k\", 4)\n",
                "block matmul.part(m:6, n:10, k.1:4 | k.0:2): y.part[m, n, k.1] sum= select(k.1 + "
                "k.0*4 < 7, x[m, k.1 + k.0*4]*w[k.1 + k.0*4, n], 0.0) init 0.0");
}

static void rfactor_refuses_what_is_no_whole_reduction(void **state) {
    kiln_arena *arena = *state;
    expect_illegal(matmul_program(arena, 6, 10, 8), "rfactor(matmul, \"m\", 4)\n",
                   "m is no reduce iterator");
    expect_illegal(matmul_program(arena, 6, 10, 8), "rfactor(matmul, \"j\", 4)\n",
                   "matmul has no iterator j");
    expect_illegal(matmul_program(arena, 6, 10, 8), "rfactor(matmul, \"k\", 1)\n",
                   "1 is not a number of parts");
    expect_illegal(matmul_program(arena, 6, 10, 8),
                   "split(matmul.m, -1, 2)\n"
                   "rfactor(matmul, \"k\", 4)\n",
                   "m no longer has a separate loop");
    expect_illegal(matmul_program(arena, 6, 10, 8),
                   "decompose_reduction(matmul, matmul.k)\n"
                   "rfactor(matmul, \"k\", 4)\n",
                   "the reduction of matmul has been decomposed");
}

static void parts_beyond_memory_are_refused(void **state) {
    kiln_program *te = parsed(*state, "program p\ninput x: f32[1073741824]\n"
                                      "output y: f32[1073741824]\n"
                                      "block s(i:1073741824 | k:4): y[i] sum= x[i] init 0.0\n");
    expect_illegal(te, "rfactor(s, \"k\", 4)\nrfactor(s.part, \"k.0\", 2)\n", "would be too large");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(a_reduction_becomes_parts_and_their_sum),
        test_with_arena(parts_beyond_the_end_add_nothing),
        test_with_arena(rfactor_refuses_what_is_no_whole_reduction),
        test_with_arena(parts_beyond_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
