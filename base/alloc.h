/* The one place that asks libc for memory. Running out ends the process with one clear line and
 * exit code 16 (docs/decisions/0002), unless the caller tries only: every size that an outsider can
 * choose is bounded at the edge, and every program's durable state survives a kill. Tests make the
 * N-th allocation fail. */
#ifndef KILN_BASE_ALLOC_H
#define KILN_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* Never NULL; zeroed. `size_bytes` may be 0. */
void *kiln_alloc(size_t size_bytes);
/* Never NULL; new bytes are not zeroed. */
void *kiln_realloc(void *memory, size_t size_bytes);
void kiln_free(void *memory);
/* The same of both where the process is somebody else's (libkiln/tune): NULL when it cannot be had,
 * and then what `memory` has stays. */
void *kiln_try_alloc(size_t size_bytes);
void *kiln_try_realloc(void *memory, size_t size_bytes);
/* Overwrites a secret with zeros; no compiler leaves that out. */
void kiln_wipe(void *memory, size_t size_bytes);
/* Zeroed, aligned to a power of two; release with kiln_free. */
void *kiln_alloc_aligned(size_t alignment, size_t size_bytes);

/* Gives what is free back to the system, where the libc can. Some milliseconds: for when a crowd
 * has gone. */
void kiln_alloc_trim(void);

/* Number of allocations so far in this process (all threads); tests compare two readings. */
uint64_t kiln_alloc_count(void);
/* The `nth` allocation from now (1 = the next) fails; 0 turns it off. For tests. */
void kiln_alloc_fail_nth(uint64_t nth);

#endif
