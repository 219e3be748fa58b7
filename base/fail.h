/* Injected failures: tests kill the real programs at the worst moments, fill the disk, or make
 * memory fail. Tests set $KILN_FAIL, which main reads once:
 *
 *   NAME[:NTH][=kill|error]   the NTH time (1) that the point is passed (base/failpoints.def) the
 *                             process ends as by kill -9 (default), or the point returns an error
 *   NAME[:NTH]=look|grow|hang where a point can return an error: one that says which rights the
 *                             process has, all of its memory, all of its time
 *   io:NTH                    the NTH operation on a file fails: no space left on the device
 *   alloc:NTH                 the NTH allocation fails (base/alloc.h)
 *
 * A point that is not armed does nothing and costs a load and a branch. Any thread. */
#ifndef KILN_BASE_FAIL_H
#define KILN_BASE_FAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef enum kiln_failpoint {
#define X(name, program, effect, doc) KILN_FAIL_##name,
#include "base/failpoints.def"
#undef X
    KILN_FAILPOINT_COUNT
} kiln_failpoint;

typedef enum kiln_fail_effect {
    KILN_FAIL_EFFECT_KILL,
    KILN_FAIL_EFFECT_ERROR,
    KILN_FAIL_EFFECT_LOOK,
    KILN_FAIL_EFFECT_GROW,
    KILN_FAIL_EFFECT_HANG,
    KILN_FAIL_EFFECT_COUNT
} kiln_fail_effect;

typedef struct kiln_failpoint_info {
    const char *name, *program, *doc;
    kiln_fail_effect effect; /* KILL: the program can only be killed there; else ERROR */
} kiln_failpoint_info;

/* The point's row of failpoints.def; static. */
const kiln_failpoint_info *kiln_failpoint_info_of(kiln_failpoint point);

/* Arms the failures of `plan` (see above); NULL disarms. Called by main before threads start.
 * INVALID_ARGUMENT: no such point, no such effect there. */
KILN_MUST_USE kiln_status kiln_fail_arm(const char *plan);

/* Passes a point whose effect is ERROR. Returns RESOURCE_EXHAUSTED once if armed with "error";
 * "look": PERMISSION_DENIED. */
KILN_MUST_USE kiln_status kiln_fail_at(kiln_failpoint point);
/* Passes a point whose effect is KILL. */
void kiln_fail_pass(kiln_failpoint point);

/* Called before each operation on a file: `if (kiln_fail_io() || fsync(fd) != 0)`. True, with errno
 * set to ENOSPC, if this operation must fail. */
bool kiln_fail_io(void);
/* Operations so far in this process; tests compare two readings. */
uint64_t kiln_fail_io_count(void);
/* The `nth` operation from now (1 = the next) fails; 0 turns it off. For tests. */
void kiln_fail_io_nth(uint64_t nth);

#endif
