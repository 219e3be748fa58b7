/* One interface to whatever runs kernels: the processor of this machine, a GPU, an accelerator. A
 * kind of device is a row of devices.def and a file device_<name>.c with its vtable; kernel.h
 * (artefacts and their calls) and the module's runtime know devices only through this header.
 *
 * A device has one queue. Launches and copies enter it in the order of the calls and are done in
 * that order, maybe after the call has returned: its memory may be looked at after
 * kiln_device_wait. The processor's queue is always empty, because it does everything before it
 * returns.
 *
 * A device that can be told of many launches at once records them when they come for the first time
 * and repeats them later: kiln_device_begin, launches and copies within the device,
 * kiln_device_end, kiln_device_replay.
 *
 * A device is used by one thread at a time. What runs kernels (launch, copy, record, follow, wait)
 * allocates nothing and returns a kernel status; a text for the last failure is in
 * kiln_device_error. */
#ifndef KILN_DEPLOY_DEVICE_H
#define KILN_DEPLOY_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/kernel_abi.h"
#include "base/manifest.h"
#include "base/spaces.h"
#include "base/status.h"
#include "base/target.h"
#include "deploy/runtime/pages.h"

#define KILN_DEVICE_EVENTS 64u /* of each device, numbered from 0 */

typedef enum kiln_device_kind {
#define X(id, number, name, payload, memory, dlpack, counts, doc) KILN_DEVICE_##id = number,
#include "deploy/runtime/devices.def"
#undef X
} kiln_device_kind;

typedef struct kiln_device kiln_device;

/* Memory of a device. Zeroed is empty. */
typedef struct kiln_device_memory {
    kiln_memory_space space;
    size_t size_bytes;
    void *data; /* HOST: its bytes; otherwise what the row calls it, an address or a handle, never
                   to be followed */
    kiln_pages pages; /* HOST: the pages around `data` */
} kiln_device_memory;

/* Memory of the host that is made for copies from and to a device. Zeroed is empty. */
typedef struct kiln_host_memory {
    size_t size_bytes;
    void *data;
    void *handle; /* the row's own */
} kiln_host_memory;

/* Some place in a device's memory, or in memory of the host: as DLPack has it in `data` and
 * `byte_offset`. */
typedef struct kiln_device_place {
    void *data;
    uint64_t byte_offset; /* 0 where the space's addresses can be added to (pointers) */
} kiln_device_place;

typedef enum kiln_copy_direction {
    KILN_COPY_WITHIN,      /* both places are the device's */
    KILN_COPY_TO_DEVICE,   /* from memory of the host, which may be reused when the call returns */
    KILN_COPY_FROM_DEVICE, /* to memory of the host, complete after kiln_device_wait */
} kiln_copy_direction;

typedef struct kiln_device_setup {
    uint32_t index;            /* which device of this kind; 0: the first */
    const kiln_target *target; /* what the device is; NULL: the row finds out */
    const kiln_target *wanted; /* `index` counts the devices that run code for it; NULL: all */
} kiln_device_setup;

/* What is known of a device before it is opened. */
typedef struct kiln_device_facts {
    const char *name;       /* as its driver has it */
    const char *driver;     /* whose and which version */
    const char *management; /* its identity and state as the management library of its vendor has
                               them, or why that says nothing; NULL: there is no such library */
    kiln_target target;
    uint64_t memory_bytes; /* 0: main memory of this machine */
} kiln_device_facts;

/* A device's state now, as the management library of its vendor has it. 0: it does not say. */
typedef struct kiln_device_reading {
    uint64_t clock_khz, clock_max_khz; /* of what computes */
    uint64_t memory_clock_khz, memory_clock_max_khz;
    uint64_t temperature_mc; /* thousandths of a degree Celsius */
    uint64_t power_mw;
    uint64_t memory_used_bytes, memory_bytes; /* by everybody */
    uint32_t throttle_bits; /* the library's, of the reasons that are no doing of the work itself:
                               heat, supply */
} kiln_device_reading;

/* What a row of devices.def implements. `state` is what `open` made. All members are required but
 * those said to be optional. None but `list`, `open`, `allocate`, `allocate_host`, `check`, `load`
 * and `end` may allocate, and `launch` when it sees a place for the first time. A driver is loaded
 * by `list` and `open` alone. */
typedef struct kiln_device_vtable {
    /* The devices that are there, by index, without opening one: [*out_count], at least one; all of
     * it in `arena`. NOT_FOUND: there is no driver, or no device; the note says what to install.
     * UNIMPLEMENTED: this program cannot load drivers. */
    kiln_status (*list)(kiln_arena *arena, kiln_device_facts **out_facts, uint32_t *out_count);
    /* Finds the device and says in `out_target` (strings in `arena`, which lives as long as the
     * device) what it is, unless the setup did. Errors of `list`, and NOT_FOUND: there is no such
     * device, or none that runs what is wanted. */
    kiln_status (*open)(const kiln_device_setup *setup, kiln_arena *arena, kiln_target *out_target,
                        void **out_state);
    /* Adds to `out` what keeps devices from being found, in words for an error that says so;
     * nothing where there is nothing to say. Optional. */
    void (*explain_missing)(kiln_strbuf *out);
    void (*close)(void *state); /* everything of it is gone by then */
    /* Makes it another machine of its kind, as an FPGA can be, or the same anew where it was
     * broken. Optional: it stays what it is. */
    kiln_status (*reprogram)(void *state, const kiln_target *target);

    /* Zeroed memory of a space whose allocator is OWNER, aligned as the space says. `guard` is for
     * memory of the host; others may ignore it. RESOURCE_EXHAUSTED: there is no more; the note says
     * how much is left. */
    kiln_status (*allocate)(void *state, kiln_memory_space space, size_t size_bytes,
                            kiln_guard guard, kiln_device_memory *out_memory);
    void (*release)(void *state, kiln_device_memory *memory);
    /* The place `offset` bytes behind the beginning of an allocation. */
    kiln_device_place (*place)(void *state, const kiln_device_memory *memory, uint64_t offset);
    /* The place that a tensor of a caller has in memory of this device, `data` and `byte_offset` as
     * DLPack has them; the memory stays the caller's and is there as long as the place is used.
     * Optional: callers can have none. INVALID_ARGUMENT: it is no memory of the device, ends too
     * early, or is not aligned to KILN_KERNEL_ALIGNMENT. */
    kiln_status (*adopt)(void *state, void *data, uint64_t byte_offset, size_t size_bytes,
                         kiln_device_place *out_place);
    /* Memory of the host, zeroed, whose pages stay where they are, so that the device reads and
     * writes them itself: copies of other memory go through some of the driver's. It may be copied
     * as any memory of the host. Optional, both: all memory is alike. RESOURCE_EXHAUSTED: the
     * system keeps no more pages. */
    kiln_status (*allocate_host)(void *state, size_t size_bytes, kiln_host_memory *out_memory);
    void (*release_host)(void *state, kiln_host_memory *memory);
    /* Which one of those of `list` it is, and the driver's own context that memory of it must be
     * of, NULL where any will do. Both optional: 0, NULL. */
    uint32_t (*index)(void *state);
    void *(*context)(void *state);

    /* All that loading checks and can be checked without a device: of builders, and of
     * `kiln_module_verify`. */
    kiln_status (*check)(const kiln_artefact *artefact, const kiln_target *target);
    /* The payloads ready to be launched; `artefact` lives as long as the program. */
    kiln_status (*load)(void *state, const kiln_artefact *artefact, void **out_program);
    void (*unload)(void *state, void *program);

    /* Launch `launch` of the manifest with its arguments in its order. `services` are the host's
     * threads and scratch, with as much of the latter as the manifest says; a device that has its
     * own ignores them. */
    int32_t (*launch)(void *state, void *program, uint32_t launch, kiln_kernel_tensor *const *args,
                      const kiln_kernel_services *services);
    int32_t (*copy)(void *state, kiln_copy_direction direction, kiln_device_place to,
                    kiln_device_place from, size_t size_bytes);

    /* Marks the present end of the queue with an event and the device's own time; a later record
     * moves it. */
    int32_t (*record)(void *state, uint32_t event);
    /* Returns when everything before the event is done; an event that was never recorded is done.
     */
    int32_t (*wait)(void *state, uint32_t event);
    /* Between two events that are done, by the device's own clock, in ns. */
    uint64_t (*elapsed_ns)(void *state, uint32_t from_event, uint32_t to_event);

    /* From `begin` to `end`, launches and copies within the device are not done but recorded, with
     * the arguments that they have then; nothing else may be asked of the device meanwhile. `end`
     * follows `begin` whatever a launch returned, and has a recording when all went well. `replay`
     * enters all of it into the queue. What it refers to outlives a recording. `begin` fails where
     * the driver cannot record. All four are optional, together. */
    int32_t (*begin)(void *state);
    int32_t (*end)(void *state, void **out_recording);
    int32_t (*replay)(void *state, void *recording);
    void (*forget)(void *state, void *recording);

    /* The text of the last failure of the functions above that return a kernel status; optional. */
    const char *(*error)(void *state);
    /* Whether a failure spoilt the device for whoever has it open: nothing but closing it works any
     * more. Optional: that cannot be. */
    bool (*is_lost)(void *state);
    /* Whether it is lost by no doing of what ran on it: it fell off its bus, its memory is broken.
     * Optional: that cannot be told. */
    bool (*is_broken)(void *state);
    /* What its management library says now. False: there is none that knows the device. Optional.
     */
    bool (*read)(void *state, kiln_device_reading *out_reading);
    /* Where the code of a program lies in this process, for profilers; optional. */
    const void *(*code)(const void *program, size_t *out_bytes);
} kiln_device_vtable;

/* A row of devices.def. */
typedef struct kiln_device_row {
    kiln_device_kind kind;
    const char *name;
    kiln_payload_kind payload;
    kiln_memory_space memory;
    int32_t dlpack; /* what tensors of it say as their device_type */
    bool counts;    /* its times are counted from the work, not those that pass here */
    const char *doc;
    const kiln_device_vtable *vtable;
} kiln_device_row;

/* The rows of devices.def that are built in; `index` below their count. */
uint32_t kiln_device_row_count(void);
const kiln_device_row *kiln_device_row_at(uint32_t index);
/* NULL when there is none. */
const kiln_device_row *kiln_device_row_of(kiln_device_kind kind);
/* The row that runs such payloads; NULL when there is none. */
const kiln_device_row *kiln_device_row_for(kiln_payload_kind payload);

/* What `list` of the row says. UNIMPLEMENTED: the kind has no row here. */
KILN_MUST_USE kiln_status kiln_device_list(kiln_device_kind kind, kiln_arena *arena,
                                           kiln_device_facts **out_facts, uint32_t *out_count);
/* The same without the facts. */
KILN_MUST_USE kiln_status kiln_device_count(kiln_device_kind kind, uint32_t *out_count);
/* For rows that find devices by their facts: the index of the one that the setup means. NOT_FOUND:
 * there are fewer; or none that runs `wanted`, with the reason why the last one does not.
 * FAILED_PRECONDITION: several devices run `wanted`, which names none of them. */
KILN_MUST_USE kiln_status kiln_device_choose(const kiln_device_setup *setup,
                                             const kiln_device_facts *facts, uint32_t count,
                                             uint32_t *out_index);
/* The first device of the row that runs code for `wanted`, by its number among all. Errors of
 * `list` and of kiln_device_choose. */
KILN_MUST_USE kiln_status kiln_device_find(const kiln_device_row *row, const kiln_target *wanted,
                                           uint32_t *out_index);

/* `setup` may be NULL: the first device of the kind, whatever it is. Errors of the row, and
 * UNIMPLEMENTED  the kind has no row here */
KILN_MUST_USE kiln_status kiln_device_open(kiln_device_kind kind, const kiln_device_setup *setup,
                                           kiln_device **out_device);
/* Accepts NULL. All memory and programs of it must be gone. */
void kiln_device_close(kiln_device *device);

/* Makes the device the machine that code for `target` wants, where it is another one, or is broken,
 * and can become that; else nothing happens, and loading such code says why it does not run. Errors
 * of the row: then it is what it was, or broken. */
KILN_MUST_USE kiln_status kiln_device_reprogram(kiln_device *device, const kiln_target *target);
/* How often it became a machine. */
uint32_t kiln_device_reprogram_count(const kiln_device *device);

/* Valid until close, the target until the device becomes another machine. */
const kiln_device_row *kiln_device_row_in(const kiln_device *device);
const kiln_target *kiln_device_target(const kiln_device *device);
void *kiln_device_state(const kiln_device *device); /* what the vtable takes */

/* Memory for arguments of kernels, in the row's space. */
KILN_MUST_USE kiln_status kiln_device_allocate(kiln_device *device, size_t size_bytes,
                                               kiln_guard guard, kiln_device_memory *out_memory);
void kiln_device_release(kiln_device *device,
                         kiln_device_memory *memory); /* accepts empty memory */
kiln_device_place kiln_device_place_at(const kiln_device *device, const kiln_device_memory *memory,
                                       uint64_t offset);
/* Errors of the row, and INVALID_ARGUMENT: callers can have no memory of such devices. */
KILN_MUST_USE kiln_status kiln_device_adopt(kiln_device *device, void *data, uint64_t byte_offset,
                                            size_t size_bytes, kiln_device_place *out_place);
/* Errors of the row, and UNIMPLEMENTED: all memory of the host is alike. */
KILN_MUST_USE kiln_status kiln_device_allocate_host(kiln_device *device, size_t size_bytes,
                                                    kiln_host_memory *out_memory);
void kiln_device_release_host(kiln_device *device,
                              kiln_host_memory *memory); /* accepts empty memory */
uint32_t kiln_device_index(const kiln_device *device);
void *kiln_device_context(const kiln_device *device);
static inline kiln_device_place kiln_host_place(void *data) { return (kiln_device_place){data, 0}; }

/* KILN_KERNEL_OK, or why not in kiln_device_error. */
int32_t kiln_device_copy(kiln_device *device, kiln_copy_direction direction, kiln_device_place to,
                         kiln_device_place from, size_t size_bytes);
int32_t kiln_device_record(kiln_device *device, uint32_t event);
int32_t kiln_device_wait(kiln_device *device, uint32_t event);
uint64_t kiln_device_elapsed_ns(const kiln_device *device, uint32_t from_event, uint32_t to_event);
/* KILN_KERNEL_FAILED where the device records nothing; then, and after a failure of `end`, steps
 * are done one by one. Both may take as long as loading does. */
int32_t kiln_device_begin(kiln_device *device);
int32_t kiln_device_end(kiln_device *device, void **out_recording);
/* `recording` is one of kiln_device_end. */
int32_t kiln_device_replay(kiln_device *device, void *recording);
void kiln_device_forget(kiln_device *device, void *recording); /* accepts NULL */
/* Empty when nothing is known. */
const char *kiln_device_error(const kiln_device *device);
bool kiln_device_is_lost(const kiln_device *device);
bool kiln_device_is_broken(const kiln_device *device);
/* False: nothing tells; `*out_reading` is as it was. */
bool kiln_device_read(const kiln_device *device, kiln_device_reading *out_reading);

#endif
