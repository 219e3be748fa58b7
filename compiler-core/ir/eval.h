/* The interpreter of tensor expressions: the reference for all tests. Slow and simple. The
 * interpreter of loop programs is loop_eval.h.
 *
 * Arguments are in row-major LOGICAL order: args[i] belongs to the i-th argument buffer of the
 * program (roles INPUT, CONSTANT, OUTPUT in table order, then PACKED); outputs are written. Floats
 * are computed in double and rounded to the buffer's dtype at each store; integers wrap as their
 * dtype. */
#ifndef KILN_COMPILER_CORE_IR_EVAL_H
#define KILN_COMPILER_CORE_IR_EVAL_H

#include "base/status.h"
#include "compiler-core/ir/ir.h"

/* Buffers of argument roles in table order, PACKED ones last. The list belongs to the program: it
 * is valid until the next call or the next new buffer. */
kiln_arg_buffers kiln_program_args(const kiln_program *p);

/* Evaluates the blocks of a tensor expression in order, each over its whole domain.
 * INVALID_ARGUMENT: args disagree with the program. OUT_OF_RANGE: an access outside its buffer (the
 * program is wrong; names block, buffer, index). */
KILN_MUST_USE kiln_status kiln_te_eval(const kiln_program *p, const kiln_tensor *args,
                                       uint32_t arg_count);

#endif
