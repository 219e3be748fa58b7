/* Single elements of a tensor expression, at any size: computes only what an element depends on.
 * Kernels compiled for real shapes are compared with a few such elements (worker/), since the
 * interpreter is too slow for all of them. */
#ifndef KILN_COMPILER_CORE_IR_TE_SAMPLE_H
#define KILN_COMPILER_CORE_IR_TE_SAMPLE_H

#include "base/rand.h"
#include "base/status.h"
#include "compiler-core/ir/ir.h"

typedef struct kiln_te_sample kiln_te_sample;

/* `args` are those of kiln_te_eval, of which only inputs and constants are read; all must outlive
 * it. At most `points_max` points of blocks are computed in all. INVALID_ARGUMENT: args disagree
 * with the program. */
KILN_MUST_USE kiln_status kiln_te_sample_create(const kiln_program *p, const kiln_tensor *args,
                                                uint32_t arg_count, uint64_t points_max,
                                                kiln_te_sample **out_sample);
void kiln_te_sample_destroy(kiln_te_sample *sample); /* NULL is fine */

/* The element of an output or temp at a logical index, stored to out_element in the buffer's dtype.
 * Computed elements are kept for later calls. RESOURCE_EXHAUSTED: it takes more points than are
 * left. UNIMPLEMENTED: an index that a block writes is not one of its iterators. OUT_OF_RANGE as
 * kiln_te_eval. */
KILN_MUST_USE kiln_status kiln_te_sample_get(kiln_te_sample *sample, kiln_buffer buffer,
                                             const int64_t *index, void *out_element);

/* Compares results of another program, args[..].data, in random elements of each output: `count` of
 * each, fewer where points run out. `bound` [args]: allowed errors of float elements,
 * [count(shape)] by argument; NULL: a relative 1e-3.
 * DATA_LOSS: an element is wrong; the note names it. out_compared: elements that were. */
KILN_MUST_USE kiln_status kiln_te_sample_compare(kiln_te_sample *sample, kiln_rand *rand,
                                                 uint32_t count, const float *const *bound,
                                                 uint32_t *out_compared);

#endif
