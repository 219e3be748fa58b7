/* Dense row-major tensors in host memory, for files, references and comparisons. */
#ifndef KILN_BASE_TENSOR_H
#define KILN_BASE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/str.h"

#define KILN_RANK_MAX 8
/* 16 GiB, or 1 GiB where addresses have 32 bits. */
#define KILN_TENSOR_BYTES_MAX ((size_t)(UINT64_C(1) << (SIZE_MAX > UINT32_MAX ? 34 : 30)))

typedef struct kiln_shape {
    uint32_t rank;              /* 0 = scalar, one element */
    int64_t dim[KILN_RANK_MAX]; /* >= 0 */
} kiln_shape;

typedef struct kiln_tensor {
    kiln_dtype dtype;
    kiln_shape shape;
    void *data; /* row-major, 64-byte aligned; owner decided by who made it */
} kiln_tensor;

int64_t kiln_shape_count(const kiln_shape *shape); /* product of dims; 1 for a scalar */
bool kiln_shape_equal(const kiln_shape *a, const kiln_shape *b);
/* "[1,64,56,56]" */
void kiln_shape_print(const kiln_shape *shape, kiln_strbuf *out);
/* Bytes of a tensor, or OUT_OF_RANGE above KILN_TENSOR_BYTES_MAX or on overflow. */
KILN_MUST_USE kiln_status kiln_shape_bytes(const kiln_shape *shape, kiln_dtype dtype,
                                           size_t *out_bytes);

/* Zeroed tensor in `arena`. The size must have been checked with kiln_shape_bytes. */
kiln_tensor kiln_tensor_create(kiln_arena *arena, kiln_dtype dtype, const kiln_shape *shape);
size_t kiln_tensor_bytes(const kiln_tensor *t);

/* How a board makes inputs; part of the TRIAL message, numbers are never reused. */
typedef enum kiln_fill {
    KILN_FILL_UNIFORM = 1, /* floats uniform in [-1, 1) without denormals; integers over the dtype's
                              range clamped to [-128, 127]; bool 0 or 1 */
    KILN_FILL_POSITIVE =
        2, /* floats uniform in [0.5, 1.5); integers in [1, 15] (divisors, variances) */
    KILN_FILL_ZERO = 3,
    KILN_FILL_RANGE = 4, /* integers of a kiln_range that goes with it: kiln_fill_range */
} kiln_fill;
/* Same (seed, dtype, count, fill), same bytes on every machine; element i depends on (seed, i)
 * only. `data`: [count]. `fill` is none of RANGE. */
void kiln_fill_data(void *data, kiln_dtype dtype, size_t count, uint64_t seed, kiln_fill fill);

/* The integers that a tensor may hold: low, low + step, ... high. step 0: all of its dtype. */
typedef struct kiln_range {
    int64_t low, high, step;
} kiln_range;

#define KILN_RANGE_COUNT_MAX 65536 /* integers in a range */

/* Whether a tensor of this dtype, an integer, may have this range: step > 0, low and high are
 * integers of the dtype, at most KILN_RANGE_COUNT_MAX of them. */
bool kiln_range_fits(const kiln_range *range, kiln_dtype dtype);
/* As kiln_fill_data, uniform over a range that fits (checked). */
void kiln_fill_range(void *data, kiln_dtype dtype, size_t count, uint64_t seed,
                     const kiln_range *range);

typedef struct kiln_compare {
    double max_abs;     /* max |a - r| */
    double max_ref;     /* max |r| */
    double cosine;      /* 1 when both are zero or empty */
    size_t mismatches;  /* elements beyond atol + rtol*|r| (or not equally NaN / infinite) */
    size_t first_index; /* of the worst mismatch; valid when mismatches > 0 */
} kiln_compare;
/* `actual` and `expected` have the same dtype and shape (checked). */
kiln_compare kiln_tensor_compare(const kiln_tensor *actual, const kiln_tensor *expected,
                                 double rtol, double atol);

/* NumPy .npy version 1.0 files, C order. */
KILN_MUST_USE kiln_status kiln_tensor_read_npy(const char *path, kiln_arena *arena,
                                               kiln_tensor *out_tensor);
KILN_MUST_USE kiln_status kiln_tensor_write_npy(const char *path, const kiln_tensor *t);

#endif
