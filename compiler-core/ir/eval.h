/* The interpreter of tensor expressions: the truth that everything else is tested against. Slow and
 * obvious. The interpreter of loop programs is loop_eval.h.
 *
 * Arguments are in row-major LOGICAL order: args[i] belongs to the i-th argument buffer of the
 * program (roles INPUT, CONSTANT, OUTPUT in table order, then PACKED); outputs are written. Floats
 * are computed in double and rounded to the buffer's dtype at each store; integers wrap as their
 * dtype. */
#ifndef KILN_COMPILER_CORE_IR_EVAL_H
#define KILN_COMPILER_CORE_IR_EVAL_H

#include "base/status.h"
#include "compiler-core/ir/ir.h"

/* Buffers of argument roles in table order, PACKED ones last. The list is the program's: it holds
 * until the program is asked again or gets another buffer. */
kiln_arg_buffers kiln_program_args(const kiln_program *p);

/* Evaluates the blocks of a tensor expression in order, each over its whole domain.
 * INVALID_ARGUMENT: args disagree with the program. OUT_OF_RANGE: an access outside its buffer (a
 * bug of whoever built the program; names block, buffer, index). */
KILN_MUST_USE kiln_status kiln_te_eval(const kiln_program *p, const kiln_tensor *args,
                                       uint32_t arg_count);

#endif
