/* The two interpreters: the truth that everything else is tested against. Slow and obvious.
 *
 * Both work on kiln_tensor arguments in row-major LOGICAL order: args[i] belongs to the i-th
 * argument buffer of the program (roles INPUT, CONSTANT, OUTPUT in table order, then PACKED);
 * outputs are written, and so are PACKED buffers by the program that stores them. Floats are
 * computed in double and rounded to the buffer's dtype at each store; integers wrap as their dtype.
 */
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
/* The same, and next to each float output the error bound n*eps*sum|a*b| of computing it in its own
 * dtype: bounds[i]: float32 tensor for the i-th OUTPUT argument, made in `arena`. */
KILN_MUST_USE kiln_status kiln_te_eval_bounds(const kiln_program *p, const kiln_tensor *args,
                                              uint32_t arg_count, kiln_arena *arena,
                                              kiln_tensor *bounds);

/* Executes the statement tree of a loop or lowered program. Shadow memory reports, with the loop
 * indices: reads of elements never written (temps and outputs), accesses out of bounds (of the
 * compacted buffer when lowered), two iterations of a parallel or vectorized loop touching one
 * element with a write among them, an output element never written. FAILED_PRECONDITION with the
 * first finding. A temp lives, uninitialised at first, during its ALLOC, or else during the
 * smallest statement around all its accesses (where lowering will allocate it); concurrent
 * iterations around that place do not share it. */
KILN_MUST_USE kiln_status kiln_loop_eval(const kiln_program *p, const kiln_tensor *args,
                                         uint32_t arg_count);

#endif
