#include "deploy/runtime/pages.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/integer.h"
#include "base/kernel_abi.h"

#define LARGE_PAGE_BYTES ((size_t)2 << 20) /* of x86-64, and of AArch64 with pages of 4 KiB */
#define SLACK_BYTE 0xa5                    /* fills the bytes between data and guard */

/* Large memory without guards lies on large pages where the system has them: fewer misses of the
 * address translation when weights stream through. This is only advice; its failure is ignored. */
static void *map_large(size_t *total) {
    *total = KILN_ALIGN_UP(*total, LARGE_PAGE_BYTES) + LARGE_PAGE_BYTES;
    void *mapping = mmap(NULL, *total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping != MAP_FAILED) (void)madvise(mapping, *total, MADV_HUGEPAGE);
    return mapping;
}

kiln_status kiln_pages_create(size_t size_bytes, kiln_guard guard, kiln_pages *out_buffer) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t guard_bytes = guard == KILN_GUARD_NONE ? 0 : page;
    if (size_bytes > SIZE_MAX / 2)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "a buffer of %zu bytes", size_bytes);
    size_t inner = size_bytes ? KILN_ALIGN_UP(size_bytes, page) : page;
    size_t total = inner + 2 * guard_bytes;
    bool large = guard == KILN_GUARD_NONE && size_bytes >= LARGE_PAGE_BYTES;
    uint8_t *mapping =
        large ? map_large(&total)
              : mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "a buffer of %zu bytes: %s", size_bytes,
                          strerror(errno));
    uint8_t *data = mapping + guard_bytes;
    if (large) data += KILN_ALIGN_UP((uintptr_t)data, LARGE_PAGE_BYTES) - (uintptr_t)data;
    if (guard == KILN_GUARD_AFTER) data += inner - KILN_ALIGN_UP(size_bytes, KILN_KERNEL_ALIGNMENT);
    kiln_pages buffer = {data, size_bytes, mapping, total, guard_bytes};
    if (guard != KILN_GUARD_NONE) {
        if (mprotect(mapping, guard_bytes, PROT_NONE) != 0 ||
            mprotect(mapping + guard_bytes + inner, guard_bytes, PROT_NONE) != 0) {
            kiln_status st = KILN_ERROR(RESOURCE_EXHAUSTED, "guard pages: %s", strerror(errno));
            kiln_pages_destroy(&buffer);
            return st;
        }
        uint8_t *begin = mapping + guard_bytes, *end = begin + inner;
        memset(begin, SLACK_BYTE, (size_t)(data - begin));
        memset(data + size_bytes, SLACK_BYTE, (size_t)(end - data) - size_bytes);
    }
    *out_buffer = buffer;
    return KILN_OK;
}

void kiln_pages_destroy(kiln_pages *buffer) {
    if (buffer->mapping) munmap(buffer->mapping, buffer->mapping_bytes);
    *buffer = (kiln_pages){0};
}

void kiln_pages_poison(kiln_pages *buffer, uint16_t pattern) {
    uint8_t *data = buffer->data;
    size_t even = buffer->size_bytes & ~(size_t)1;
    for (size_t i = 0; i < even; i += 2) memcpy(data + i, &pattern, 2);
    if (even < buffer->size_bytes) data[even] = (uint8_t)pattern;
}

static bool filled(const uint8_t *begin, const uint8_t *end) {
    for (const uint8_t *at = begin; at < end; at++)
        if (*at != SLACK_BYTE) return false;
    return true;
}

bool kiln_pages_intact(const kiln_pages *buffer) {
    if (buffer->guard_bytes == 0) return true;
    const uint8_t *begin = (const uint8_t *)buffer->mapping + buffer->guard_bytes;
    const uint8_t *end =
        (const uint8_t *)buffer->mapping + buffer->mapping_bytes - buffer->guard_bytes;
    const uint8_t *data = buffer->data;
    return filled(begin, data) && filled(data + buffer->size_bytes, end);
}
