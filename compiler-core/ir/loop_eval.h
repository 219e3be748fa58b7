/* The interpreter of loop and lowered programs, used to check schedules, lowering and hand-written
 * programs. Arguments are those of kiln_te_eval (eval.h). Slow, with many checks. */
#ifndef KILN_COMPILER_CORE_IR_LOOP_EVAL_H
#define KILN_COMPILER_CORE_IR_LOOP_EVAL_H

#include "base/status.h"
#include "compiler-core/ir/ir.h"

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
