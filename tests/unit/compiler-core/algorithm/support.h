/* What tests of algorithms share: how far an alternative is off on random data. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_ALGORITHM_SUPPORT_H
#define KILN_TESTS_UNIT_COMPILER_CORE_ALGORITHM_SUPPORT_H

#include "compiler-core/ir/ir.h"

typedef struct random_error {
    double in_bounds; /* the largest difference in units of its element's bound */
    double relative;  /* the largest difference over the largest magnitude */
} random_error;

/* Computes loops `p`, every step rounded, and `te` in double precision, on data drawn uniformly
 * from [-1, 1); `zeros` of the inputs' elements are 0. `te` has one output. */
random_error error_on_random_data(const kiln_program *te, const kiln_program *p, uint64_t seed,
                                  double zeros, kiln_arena *arena);

/* matmul_program of sched/support.h, with no weights: both factors are inputs. */
kiln_program *data_product_program(kiln_arena *arena, int64_t m, int64_t n, int64_t k);

/* Softmax between two products: y[h, i, c] of 2 heads, some rows and 4 values each, from inputs q,
 * k, v, and w[i, j], which masks may read. */
typedef struct attention_shape {
    const char *dtype;
    int keys;
    const char *scaled; /* what becomes of score s[h, i, j] */
    const char *share;  /* of exponential e[h, i, j], by sums l[h, i], or by r, one over them */
    int rows;
} attention_shape;
kiln_program *attention_program(kiln_arena *arena, const attention_shape *a);

#endif
