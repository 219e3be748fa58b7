/* What tests of lowering share: programs from text, schedules from trace text, and lowered programs
 * run in the interpreter beside the expression that they came from. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_LOWER_SUPPORT_H
#define KILN_TESTS_UNIT_COMPILER_CORE_LOWER_SUPPORT_H

#include "base/target.h"
#include "compiler-core/lower/lower.h"
#include "tests/unit/compiler-core/ir/support.h"

/* Vectors of 16 bytes (v2), 32 (v3) or 64 (v4): level 2, 3 or 4; whatever this machine has. */
kiln_target x86_target(kiln_arena *arena, int level, uint32_t threads);

/* A tensor expression from text, and what a trace makes of it; both must be good. */
kiln_program *parse_in(kiln_arena *arena, const char *text);
kiln_program *replay_text(const kiln_program *te, const char *trace);
/* An expression as lowering takes it, without any schedule. */
kiln_program *unscheduled(const kiln_program *te);

/* Lowers and runs both programs in the interpreter, whose shadow memory looks at every access;
 * outputs must be within their bounds of what the expression gives. A refusal (ILLEGAL_SCHEDULE,
 * RESOURCE_EXHAUSTED) is returned, everything else fails the test. */
kiln_status lowered_equals(const kiln_program *te, const kiln_program *scheduled,
                           const kiln_target *target, uint64_t seed);

/* The same by groups of one work item. */
kiln_status items_equal(const kiln_program *te, const kiln_program *scheduled,
                        const kiln_target *target, uint64_t seed);

/* The same by launches of groups of threads; `*out_lowered` (or NULL) is what was run. */
kiln_status grid_equals(const kiln_program *te, const kiln_program *scheduled, uint64_t seed,
                        kiln_lowered *out_lowered);

/* By launches within the limits of that target. */
kiln_status grid_equals_on(const kiln_program *te, const kiln_program *scheduled,
                           const kiln_target *target, uint64_t seed, kiln_lowered *out_lowered);

/* Runs the program, which is at any stage of `te`; fails the test unless outputs are within bounds.
 */
void expect_computes(const kiln_program *te, const kiln_program *p, uint64_t seed);

/* Fork-join before barriers and unify, barriers behind: both compute the same, behind every pass of
 * a device with copies that land later. */
void expect_meaning_behind_every_pass(kiln_arena *arena, const kiln_program *te, const char *trace);

/* Text of both programs behind pass `after`; in the program's arena. */
const char *lowered_text(const kiln_program *scheduled, const kiln_target *target,
                         const char *after);
/* The statements of the launches behind pass `after`. */
void expect_grid_text(const kiln_program *scheduled, const char *after, const char *wanted);
/* The whole text is as given, or the difference is printed. */
void expect_lowered_text(const kiln_program *scheduled, const kiln_target *target,
                         const char *after, const char *wanted);

#endif
