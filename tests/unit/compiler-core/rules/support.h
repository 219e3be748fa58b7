/* What tests of rules share. */
#ifndef KILN_TESTS_UNIT_COMPILER_CORE_RULES_SUPPORT_H
#define KILN_TESTS_UNIT_COMPILER_CORE_RULES_SUPPORT_H

#include "compiler-core/rules/tile.h"
#include "tests/unit/compiler-core/sched/support.h"

/* Fails the test unless the lines of the schedule's trace from number `first` on (0 is the first)
 * are `lines`. */
void expect_lines(const kiln_sched *s, uint32_t first, const char *lines);
/* Fails the test when the schedule has a bug or is no program that the verifier takes. */
void expect_legal(kiln_sched *s);
/* The same, and when it computes anything else than `te`. */
void expect_sound(kiln_sched *s, const kiln_program *te);
/* The tiling of the schedule's block of that name, with its roles; fails the test when it has none.
 */
kiln_tiling tiling_of(kiln_sched *s, const char *block);
kiln_block block_of(const kiln_sched *s, const char *name);
kiln_buffer buffer_of(const kiln_sched *s, const char *name);
/* The buffer's layout as text. */
const char *layout_of(const kiln_sched *s, const char *buffer);

#endif
