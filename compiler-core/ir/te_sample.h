/* Single elements of a tensor expression, at any size: only what an element depends on is computed.
 * What is compiled on real shapes is compared with this in a few places (worker/), since the
 * interpreter is too slow to run over all of it. */
#ifndef KILN_COMPILER_CORE_IR_TE_SAMPLE_H
#define KILN_COMPILER_CORE_IR_TE_SAMPLE_H

#include "base/rand.h"
#include "base/status.h"
#include "compiler-core/ir/ir.h"

typedef struct kiln_te_sample kiln_te_sample;

/* `args` as kiln_te_eval takes them, of which only inputs and constants are read; all must outlive
 * it. At most `points_max` points of blocks are computed in all. INVALID_ARGUMENT: args disagree
 * with the program. */
KILN_MUST_USE kiln_status kiln_te_sample_create(const kiln_program *p, const kiln_tensor *args,
                                                uint32_t arg_count, uint64_t points_max,
                                                kiln_te_sample **out_sample);
void kiln_te_sample_destroy(kiln_te_sample *sample); /* NULL is fine */

/* The element of an output or temp at a logical index, stored to out_element in the buffer's dtype.
 * What was computed for one element is known to the next.
 * RESOURCE_EXHAUSTED: it takes more points than are left. UNIMPLEMENTED: a block writes where its
 * iterators do not say it one by one. OUT_OF_RANGE as of kiln_te_eval. */
KILN_MUST_USE kiln_status kiln_te_sample_get(kiln_te_sample *sample, kiln_buffer buffer,
                                             const int64_t *index, void *out_element);

/* Compares what another program made of each output, args[..].data, with elements drawn from it:
 * `count` of each, fewer where points run out. `bound` [args] is how far a right float element may
 * be off, [count(shape)] by argument; NULL: a relative 1e-3.
 * DATA_LOSS: an element is wrong; the note names it. out_compared: elements that were. */
KILN_MUST_USE kiln_status kiln_te_sample_compare(kiln_te_sample *sample, kiln_rand *rand,
                                                 uint32_t count, const float *const *bound,
                                                 uint32_t *out_compared);

#endif
