#include "deploy/runtime/device_soft.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"

#define ALIGNMENT 256u
#define BYTES_MAX (UINT64_C(1) << 30) /* of an allocation */

kiln_soft_device *kiln_soft_device_create(void) { return kiln_alloc(sizeof(kiln_soft_device)); }

void kiln_soft_close(void *state) { kiln_free(state); }

/* ---- memory ---------------------------------------------------------------------------------- */

kiln_status kiln_soft_allocate(void *context, kiln_memory_space space, size_t size_bytes,
                               kiln_guard guard, kiln_device_memory *out_memory) {
    (void)guard; /* every access is checked */
    kiln_soft_device *state = context;
    uint32_t number = 0;
    while (number < KILN_SOFT_ALLOCATIONS_MAX && state->allocation[number].data) number++;
    if (number == KILN_SOFT_ALLOCATIONS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%u allocations are there already",
                          KILN_SOFT_ALLOCATIONS_MAX);
    if (size_bytes > BYTES_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%zu bytes at once; at most %llu", size_bytes,
                          (unsigned long long)BYTES_MAX);
    state->allocation[number].data = kiln_alloc_aligned(ALIGNMENT, size_bytes ? size_bytes : 1);
    state->allocation[number].size_bytes = size_bytes;
    *out_memory = (kiln_device_memory){
        .space = space, .size_bytes = size_bytes, .data = (void *)(uintptr_t)(number + 1)};
    return KILN_OK;
}

char *kiln_soft_bytes(const kiln_soft_device *state, const void *handle, uint64_t offset,
                      uint64_t size_bytes) {
    uintptr_t number = (uintptr_t)handle - 1;
    if (number >= KILN_SOFT_ALLOCATIONS_MAX || !state->allocation[number].data) return NULL;
    uint64_t size = state->allocation[number].size_bytes;
    if (offset > size || size_bytes > size - offset) return NULL;
    return state->allocation[number].data + offset;
}

void kiln_soft_release(void *context, kiln_device_memory *memory) {
    kiln_soft_device *state = context;
    uintptr_t number = (uintptr_t)memory->data - 1;
    KILN_CHECK(number < KILN_SOFT_ALLOCATIONS_MAX);
    kiln_free(state->allocation[number].data);
    state->allocation[number].data = NULL;
}

kiln_device_place kiln_soft_place(void *state, const kiln_device_memory *memory, uint64_t offset) {
    (void)state;
    return (kiln_device_place){memory->data, offset};
}

int32_t kiln_soft_fail(kiln_soft_device *state, const char *why) {
    state->error = why;
    return KILN_KERNEL_FAILED;
}

int32_t kiln_soft_copy(void *context, kiln_copy_direction direction, kiln_device_place to,
                       kiln_device_place from, size_t size_bytes) {
    kiln_soft_device *state = context;
    char *target = direction == KILN_COPY_FROM_DEVICE
                       ? (char *)to.data + to.byte_offset
                       : kiln_soft_bytes(state, to.data, to.byte_offset, size_bytes);
    const char *source = direction == KILN_COPY_TO_DEVICE
                             ? (const char *)from.data + from.byte_offset
                             : kiln_soft_bytes(state, from.data, from.byte_offset, size_bytes);
    if (!target || !source) return kiln_soft_fail(state, "a copy beyond the memory of the device");
    if (size_bytes > 0) memmove(target, source, size_bytes);
    return KILN_KERNEL_OK;
}

uint64_t kiln_soft_argument_bytes(const kiln_kernel_tensor *tensor) {
    uint64_t bytes = tensor->type_bits / 8;
    for (int32_t d = 0; d < tensor->ndim; d++) bytes *= (uint64_t)tensor->shape[d];
    return bytes;
}

/* ---- time ------------------------------------------------------------------------------------ */

int32_t kiln_soft_record(void *context, uint32_t event) {
    kiln_soft_device *state = context;
    state->event_ns[event] = state->clock_ns;
    return KILN_KERNEL_OK;
}

int32_t kiln_soft_wait(void *state, uint32_t event) {
    (void)state, (void)event;
    return KILN_KERNEL_OK;
}

uint64_t kiln_soft_elapsed_ns(void *context, uint32_t from_event, uint32_t to_event) {
    const kiln_soft_device *state = context;
    return state->event_ns[to_event] - state->event_ns[from_event];
}

const char *kiln_soft_error(void *context) {
    const kiln_soft_device *state = context;
    return state->error ? state->error : "";
}
