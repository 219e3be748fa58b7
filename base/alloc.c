#include "base/alloc.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/status.h"

/* Process-wide on purpose: tests count and fail allocations of code that they cannot reach into. */
static atomic_uint_fast64_t allocations;
static atomic_uint_fast64_t fail_at; /* 0 = never */

/* The one end of a process without memory. Writes without allocating and skips atexit handlers,
 * which may allocate. */
static KILN_NORETURN void out_of_memory(size_t size_bytes) {
    char line[96];
    int length =
        snprintf(line, sizeof line, "kiln: out of memory (%zu bytes wanted)\n", size_bytes);
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)length);
    (void)ignored; /* a failure cannot be reported */
    _exit(kiln_code_exit(KILN_RESOURCE_EXHAUSTED));
}

/* Counts an allocation; false: a test makes it fail. */
static bool count_one(void) {
    uint64_t number = atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed) + 1;
    return number != atomic_load_explicit(&fail_at, memory_order_relaxed);
}

void *kiln_try_alloc(size_t size_bytes) {
    return count_one() ? calloc(1, size_bytes ? size_bytes : 1) : NULL;
}

void *kiln_try_realloc(void *memory, size_t size_bytes) {
    return count_one() ? realloc(memory, size_bytes ? size_bytes : 1) : NULL;
}

void *kiln_alloc(size_t size_bytes) {
    void *memory = kiln_try_alloc(size_bytes);
    if (!memory) out_of_memory(size_bytes);
    return memory;
}

void *kiln_realloc(void *memory, size_t size_bytes) {
    void *moved = kiln_try_realloc(memory, size_bytes);
    if (!moved) out_of_memory(size_bytes);
    return moved;
}

void kiln_free(void *memory) { free(memory); }

void kiln_wipe(void *memory, size_t size_bytes) {
    volatile uint8_t *byte = memory; /* C libraries differ in which call does this */
    for (size_t i = 0; i < size_bytes; i++) byte[i] = 0;
}

void *kiln_alloc_aligned(size_t alignment, size_t size_bytes) {
    KILN_CHECK(alignment > 0 && (alignment & (alignment - 1)) == 0);
    if (!count_one()) out_of_memory(size_bytes);
    void *memory = NULL;
    size_t at_least = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    if (posix_memalign(&memory, at_least, size_bytes ? size_bytes : 1) != 0)
        out_of_memory(size_bytes);
    return memset(memory, 0, size_bytes);
}

void kiln_alloc_trim(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

uint64_t kiln_alloc_count(void) { return atomic_load_explicit(&allocations, memory_order_relaxed); }

void kiln_alloc_fail_nth(uint64_t nth) {
    atomic_store_explicit(&fail_at, nth ? kiln_alloc_count() + nth : 0, memory_order_relaxed);
}
