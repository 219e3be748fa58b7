/* What tests of schedules share: small tensor expressions, and the check that a scheduled program
 * still computes them. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_SCHED_SUPPORT_H
#define KILN_TESTS_UNIT_COMPILER_CORE_SCHED_SUPPORT_H

#include "base/target.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/ir/ir.h"
#include "compiler-core/sched/trace.h"
#include "tests/support/test.h"

/* A processor with AVX2 and FMA; the function: with so many cores, all of which kernels use. */
extern const kiln_target avx2;
kiln_target avx2_target(uint32_t threads);

typedef struct conv_shape {
    int64_t n, ic, h, w, oc, kh, kw, stride, padding;
    bool epilogue; /* bias and relu */
} conv_shape;

/* A 3x3 convolution of one square image that keeps its size and channels. */
conv_shape square_conv(int64_t size, int64_t channels);
/* "pad" (when padding > 0), "conv", and with an epilogue "bias" and "relu"; input x, constants w
 * and b, output y. */
kiln_program *conv_program(kiln_arena *arena, const conv_shape *shape);
/* "matmul": y[m][n] = sum over k of x[m][k] * w[k][n]. */
kiln_program *matmul_program(kiln_arena *arena, int64_t m, int64_t n, int64_t k);
/* "dot": the same of bytes, summed up in i32, with w[n][k]. */
kiln_program *bytes_program(kiln_arena *arena, int64_t m, int64_t n, int64_t k);
/* A program from its text, which must be good. */
kiln_program *parsed(kiln_arena *arena, const char *text);
/* Trace text that puts at least `loops` loops of one iteration around `loop` of so many. */
const char *deep_split(kiln_arena *arena, const char *loop, int64_t extent, uint32_t loops);
/* "a" scales x, "c" adds one to it: y = 2x + 1, shape [rows][columns]. */
kiln_program *chain_program(kiln_arena *arena, int64_t rows, int64_t columns);

/* Random integers (small enough that sums are exact in f32) through both interpreters; NULL when
 * they agree. */
kiln_status same_result(const kiln_program *te, const kiln_program *scheduled, kiln_arena *arena);
/* The same for a schedule of an alternative: within its stated error. */
kiln_status same_result_by(kiln_algorithm algorithm, const kiln_program *te,
                           const kiln_program *scheduled, kiln_arena *arena);
/* Replays trace text; fails the test when it does not parse or is illegal or changes the result. */
kiln_program *schedule(const kiln_program *te, const char *text);
/* Fails unless replaying the text is refused with ILLEGAL_SCHEDULE and a reason that contains
 * `reason`. */
void expect_illegal(const kiln_program *te, const char *text, const char *reason);
/* Replays the text, which must keep the result, and compares the statement tree's text (below
 * "loops:"). */
void expect_loops(const kiln_program *te, const char *text, const char *loops);
/* The scheduled program's text has this line. */
void expect_line(const kiln_program *te, const char *text, const char *line);

#endif
