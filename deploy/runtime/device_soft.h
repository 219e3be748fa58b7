/* Common to devices in software: their own memory, which the host reaches by copies alone, and a
 * clock that their launches advance. A place is the number of an allocation and an offset, never an
 * address. All work is done when a call returns. For device_null.c and device_vta.c, whose vtables
 * name these functions; `state` is a kiln_soft_device. */
#ifndef KILN_DEPLOY_DEVICE_SOFT_H
#define KILN_DEPLOY_DEVICE_SOFT_H

#include "deploy/runtime/device.h"

#define KILN_SOFT_ALLOCATIONS_MAX 4096u

typedef struct kiln_soft_device {
    struct {
        char *data; /* NULL: free */
        uint64_t size_bytes;
    } allocation[KILN_SOFT_ALLOCATIONS_MAX];
    uint64_t clock_ns; /* since it was opened */
    uint64_t event_ns[KILN_DEVICE_EVENTS];
    const char *error; /* the last one; NULL: none yet */
    char text[256];    /* for errors with numbers in them */
} kiln_soft_device;

kiln_soft_device *kiln_soft_device_create(void); /* kiln_soft_close frees it */

/* The bytes from a place on; NULL when there are not so many. */
char *kiln_soft_bytes(const kiln_soft_device *state, const void *handle, uint64_t offset,
                      uint64_t size_bytes);
/* Bytes of an argument, from its shape. */
uint64_t kiln_soft_argument_bytes(const kiln_kernel_tensor *tensor);
/* KILN_KERNEL_FAILED; `why` lives as long as the device. */
int32_t kiln_soft_fail(kiln_soft_device *state, const char *why);

/* Members of a kiln_device_vtable. */
void kiln_soft_close(void *state);
kiln_status kiln_soft_allocate(void *state, kiln_memory_space space, size_t size_bytes,
                               kiln_guard guard, kiln_device_memory *out_memory);
void kiln_soft_release(void *state, kiln_device_memory *memory);
kiln_device_place kiln_soft_place(void *state, const kiln_device_memory *memory, uint64_t offset);
int32_t kiln_soft_copy(void *state, kiln_copy_direction direction, kiln_device_place to,
                       kiln_device_place from, size_t size_bytes);
int32_t kiln_soft_record(void *state, uint32_t event);
int32_t kiln_soft_wait(void *state, uint32_t event);
uint64_t kiln_soft_elapsed_ns(void *state, uint32_t from_event, uint32_t to_event);
const char *kiln_soft_error(void *state);

#endif
