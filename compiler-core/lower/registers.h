/* REGISTER buffers: the conditions under which their elements become SSA values. Shared by
 * lowering, which checks them, and by the emitter, which relies on them. */
#ifndef KILN_COMPILER_CORE_LOWER_REGISTERS_H
#define KILN_COMPILER_CORE_LOWER_REGISTERS_H

#include "base/status.h"
#include "base/target.h"
#include "compiler-core/ir/ir.h"

/* Elements that one SSA value of the buffer holds: the most for which every vector access below
 * `scope` takes whole values; 1 when lanes never take consecutive elements. */
uint32_t kiln_register_width(kiln_program *p, kiln_stmt scope, kiln_buffer buffer);
/* Numbers the elements of each REGISTER buffer (its layout) so that lanes are neighbours, and
 * checks. ILLEGAL_SCHEDULE: an access whose element is not known once loops are unrolled, a buffer
 * that crosses into a parallel loop, or more registers than the target has: vectors, or for
 * threads, the 4-byte registers of one thread's share of its unit. `*out_registers`: of the region
 * with most. */
KILN_MUST_USE kiln_status kiln_registers_check(kiln_program *p, const kiln_target *target,
                                               bool by_threads, uint32_t *out_registers);
/* Whether a thread of the launch holds KILN_REGISTERS_MANY or more in REGISTER buffers and
 * multiplies without instructions of warps. Launches with instructions of warps keep the number of
 * registers that ptxas chooses. */
bool kiln_registers_many(kiln_program *p, kiln_stmt nest);

#endif
