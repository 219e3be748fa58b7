/* Page-backed memory for kernel arguments and scratch. With a guard, an inaccessible page lies
 * directly before or after the data, so that a kernel that strays faults at once; bytes between
 * data and guard, left by alignment, are filled and can be checked. Poison shows results that were
 * never written. */
#ifndef KILN_DEPLOY_REGION_H
#define KILN_DEPLOY_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum kiln_guard {
    KILN_GUARD_NONE,   /* plain memory */
    KILN_GUARD_AFTER,  /* guard pages on both sides, data ends at the guard behind it (as close as
                          KILN_KERNEL_ALIGNMENT lets it) */
    KILN_GUARD_BEFORE, /* guard pages on both sides, data begins at the guard before it */
} kiln_guard;

/* Zeroed is empty. */
typedef struct kiln_pages {
    void *data; /* aligned to KILN_KERNEL_ALIGNMENT; not NULL even when size_bytes is 0 */
    size_t size_bytes;
    void *mapping;
    size_t mapping_bytes, guard_bytes;
} kiln_pages;

/* Zeroed memory; pages are taken from the system when first touched. RESOURCE_EXHAUSTED: the system
 * refuses. */
KILN_MUST_USE kiln_status kiln_pages_create(size_t size_bytes, kiln_guard guard,
                                            kiln_pages *out_buffer);
void kiln_pages_destroy(kiln_pages *buffer); /* accepts an empty one */

/* Repeating 16-bit patterns that are NaN in f16, bf16, f32 and f64, and differ in every byte, so
 * that a stale or unwritten element cannot pass as a result twice. */
#define KILN_POISON_FIRST UINT16_C(0x7ff1)
#define KILN_POISON_LAST UINT16_C(0xfffe)
void kiln_pages_poison(kiln_pages *buffer, uint16_t pattern);

/* False when a byte between the data and its guard pages was written (always true without guard).
 */
bool kiln_pages_intact(const kiln_pages *buffer);

#endif
