/* Processors that tests name. A test compiles for each that matters on every machine, and runs what
 * this machine runs; it never asks what this machine is (tests/check/check_native.py). */
#ifndef KILN_TESTS_SUPPORT_TARGETS_H
#define KILN_TESTS_SUPPORT_TARGETS_H

#include <stdbool.h>

#include "base/target.h"

#define TEST_LEVELS 4
/* "x86-64" to "x86-64-v4": vectors of 16, 16, 32 and 64 bytes. */
extern const char *const test_level[TEST_LEVELS];

/* A target by its text; the test fails when it is none. */
kiln_target target_of(kiln_arena *arena, const char *text);
/* Canonical text of a target, in `arena`. */
kiln_str text_of_target(const kiln_target *target, kiln_arena *arena);
/* The plainest processor of the architecture that tests are built for: what code runs everywhere
 * here, without a look at this machine. */
kiln_target plain_target(kiln_arena *arena);
/* Whether this machine, or the level that it is held to (./dev test --as), runs code for it. */
bool runs_here(const kiln_target *target, kiln_arena *arena);
/* Ends the test as skipped, and says why, where it does not. Comes before what has to be freed. For
 * programs that meson judges by their exit code: cmocka's line of a skipped case is a failure in
 * TAP. */
void skip_unless_runs_here(const char *target_text);

#endif
