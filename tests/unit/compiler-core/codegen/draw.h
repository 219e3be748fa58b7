/* Random schedules: primitives drawn one after another on a program's loops, those that are refused
 * left out. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_DRAW_H
#define KILN_TESTS_UNIT_COMPILER_CORE_CODEGEN_DRAW_H

#include "base/rand.h"
#include "base/target.h"
#include "compiler-core/ir/ir.h"

/* Applies up to `steps` primitives to a copy of `te` placed in loops. Same generator state, same
 * program. */
kiln_program *draw_schedule(const kiln_program *te, kiln_rand *rand, uint32_t steps);
/* What the rules of the target's space draw. */
kiln_program *draw_sample(const kiln_program *te, const kiln_target *target, kiln_rand *rand);
/* Whether the primitives themselves kept the meaning: that is for their own tests to find. */
bool schedule_is_sound(const kiln_program *te, const kiln_program *scheduled, uint64_t seed);

#endif
