/* The only code that gets memory from libc. If there is none the process ends with one clear line
 * and exit code 16 (docs/decisions/0002), except in the `try` functions: every size that an
 * outsider can choose is bounded where it enters, and every program's durable state survives a
 * kill. Tests make the N-th allocation fail. */
#ifndef KILN_BASE_ALLOC_H
#define KILN_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* Never NULL; zeroed. `size_bytes` may be 0. */
void *kiln_alloc(size_t size_bytes);
/* Never NULL; new bytes are not zeroed. */
void *kiln_realloc(void *memory, size_t size_bytes);
void kiln_free(void *memory);
/* The same for libraries in other programs' processes (libkiln/tune): NULL if there is no memory;
 * `memory` then stays valid. */
void *kiln_try_alloc(size_t size_bytes);
void *kiln_try_realloc(void *memory, size_t size_bytes);
/* Overwrites a secret with zeros; compilers cannot remove that. */
void kiln_wipe(void *memory, size_t size_bytes);
/* Zeroed, aligned to a power of two; release with kiln_free. */
void *kiln_alloc_aligned(size_t alignment, size_t size_bytes);

/* Returns free memory to the system, if libc can. Takes some milliseconds; for use after many peers
 * have left. */
void kiln_alloc_trim(void);

/* Number of allocations so far in this process (all threads); tests compare two readings. */
uint64_t kiln_alloc_count(void);
/* The `nth` allocation from now (1 = the next) fails; 0 turns it off. For tests. */
void kiln_alloc_fail_nth(uint64_t nth);

#endif
