/* One interface to everything that runs kernels: the processor of this machine, a GPU, an
 * accelerator. A kind of device is a row of devices.def and a file device_<name>.c with its vtable;
 * kernel.h (artefacts and their calls) and the module's runtime know devices only through this
 * header.
 *
 * A device has one queue. Launches and copies enter it in the order of the calls and are done in
 * that order, possibly after the call has returned: the results may be read after kiln_device_wait.
 * The processor's queue is always empty, because each call is done when it returns.
 *
 * A device that can replay many launches at once records them the first time and repeats them
 * later: kiln_device_begin, launches and copies within the device, kiln_device_end,
 * kiln_device_replay.
 *
 * A device is used by one thread at a time. Functions that run kernels (launch, copy, record,
 * follow, wait) allocate nothing and return a kernel status; the text of the last failure is in
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
    void *data; /* HOST: its bytes; otherwise an address or a handle of the row, which must not be
                 * dereferenced */
    kiln_pages pages; /* HOST: the pages around `data` */
} kiln_device_memory;

/* Memory of the host allocated for copies from and to a device. Zeroed is empty. */
typedef struct kiln_host_memory {
    size_t size_bytes;
    void *data;
    void *handle; /* a handle of the row */
} kiln_host_memory;

/* A place in a device's memory, or in memory of the host, like DLPack's `data` and
 * `byte_offset`. */
typedef struct kiln_device_place {
    void *data;
    uint64_t byte_offset; /* 0 if the space's addresses are pointers, to which offsets can be
                           * added */
} kiln_device_place;

typedef enum kiln_copy_direction {
    KILN_COPY_WITHIN,      /* both places are the device's */
    KILN_COPY_TO_DEVICE,   /* from memory of the host, which may be reused when the call returns */
    KILN_COPY_FROM_DEVICE, /* to memory of the host, complete after kiln_device_wait */
} kiln_copy_direction;

typedef struct kiln_device_setup {
    uint32_t index;            /* which device of this kind; 0: the first */
    const kiln_target *target; /* the device's target; NULL: the row finds it */
    const kiln_target *wanted; /* `index` counts the devices that run code for it; NULL: all */
} kiln_device_setup;

/* Facts about a device before it is opened. */
typedef struct kiln_device_facts {
    const char *name;       /* from its driver */
    const char *driver;     /* vendor and version */
    const char *management; /* its identity and state from the management library of its vendor, or
                             * why they are unknown; NULL: there is no such library */
    kiln_target target;
    uint64_t memory_bytes; /* 0: main memory of this machine */
} kiln_device_facts;

/* A device's current state, from the management library of its vendor. 0: unknown. */
typedef struct kiln_device_reading {
    uint64_t clock_khz, clock_max_khz; /* of the cores */
    uint64_t memory_clock_khz, memory_clock_max_khz;
    uint64_t temperature_mc; /* thousandths of a degree Celsius */
    uint64_t power_mw;
    uint64_t memory_used_bytes, memory_bytes; /* by all processes */
    uint32_t throttle_bits; /* the library's bits for reasons other than the work itself: heat,
                             * supply */
} kiln_device_reading;

/* The functions of a row of devices.def. `state` is the result of `open`. All members are required
 * unless marked optional. Only `list`, `open`, `allocate`, `allocate_host`, `check`, `load` and
 * `end` may allocate, and `launch` when it sees a place for the first time. Only `list` and `open`
 * load a driver. */
typedef struct kiln_device_vtable {
    /* Launches may have clusters and tensor maps. Without it artefacts that have them are refused
     * before `check` and `load`. */
    bool runs_clusters;
    /* The existing devices, by index, without opening one: [*out_count], at least one; all of
     * it in `arena`. NOT_FOUND: there is no driver, or no device; the note says what to install.
     * UNIMPLEMENTED: this program cannot load drivers. */
    kiln_status (*list)(kiln_arena *arena, kiln_device_facts **out_facts, uint32_t *out_count);
    /* Finds the device and sets `out_target` (strings in `arena`, which lives as long as the
     * device), unless the setup has the target. Errors of `list`, and NOT_FOUND: there is no such
     * device, or none that runs the wanted code. */
    kiln_status (*open)(const kiln_device_setup *setup, kiln_arena *arena, kiln_target *out_target,
                        void **out_state);
    /* Adds to `out` the reason why devices are not found, for an error message; may add nothing.
     * Optional. */
    void (*explain_missing)(kiln_strbuf *out);
    void (*close)(void *state); /* all its memory and programs are released before */
    /* Makes it another machine of its kind, as for an FPGA, or repairs a broken one by loading the
     * same again. Optional: without it the device cannot change. */
    kiln_status (*reprogram)(void *state, const kiln_target *target);

    /* Zeroed memory of a space whose allocator is OWNER, aligned as the space says. `guard` is for
     * memory of the host; others may ignore it. RESOURCE_EXHAUSTED: not enough memory; the note
     * says how much is left. */
    kiln_status (*allocate)(void *state, kiln_memory_space space, size_t size_bytes,
                            kiln_guard guard, kiln_device_memory *out_memory);
    void (*release)(void *state, kiln_device_memory *memory);
    /* The place at `offset` bytes in an allocation. */
    kiln_device_place (*place)(void *state, const kiln_device_memory *memory, uint64_t offset);
    /* The place of a caller's tensor in memory of this device, `data` and `byte_offset` as in
     * DLPack; the memory stays the caller's and must live as long as the place is used. Optional:
     * without it callers cannot pass such memory. INVALID_ARGUMENT: it is no memory of the device,
     * is too short, or is not aligned to KILN_KERNEL_ALIGNMENT. */
    kiln_status (*adopt)(void *state, void *data, uint64_t byte_offset, size_t size_bytes,
                         kiln_device_place *out_place);
    /* Pinned memory of the host, zeroed, which the device reads and writes directly: copies of
     * other memory go through buffers of the driver. It can be copied like any memory of the host.
     * Both optional: without them all memory is equally fast. RESOURCE_EXHAUSTED: the system pins
     * no more pages. */
    kiln_status (*allocate_host)(void *state, size_t size_bytes, kiln_host_memory *out_memory);
    void (*release_host)(void *state, kiln_host_memory *memory);
    /* Its index in `list`, and the driver's context that its memory must belong to, NULL: any. Both
     * optional: 0, NULL. */
    uint32_t (*index)(void *state);
    void *(*context)(void *state);

    /* All checks of loading that need no device: for builders and `kiln_module_verify`. */
    kiln_status (*check)(const kiln_artefact *artefact, const kiln_target *target);
    /* Makes the payloads ready to be launched; `artefact` must live as long as the program. */
    kiln_status (*load)(void *state, const kiln_artefact *artefact, void **out_program);
    void (*unload)(void *state, void *program);

    /* Launch `launch` of the manifest with its arguments in its order. `services` are the host's
     * threads and scratch, of the size in the manifest; a device that has its own ignores them. */
    int32_t (*launch)(void *state, void *program, uint32_t launch, kiln_kernel_tensor *const *args,
                      const kiln_kernel_services *services);
    int32_t (*copy)(void *state, kiln_copy_direction direction, kiln_device_place to,
                    kiln_device_place from, size_t size_bytes);

    /* Marks the current end of the queue with an event and the device's time; a later record moves
     * it. */
    int32_t (*record)(void *state, uint32_t event);
    /* Returns when everything before the event is done; an event that was never recorded is done.
     */
    int32_t (*wait)(void *state, uint32_t event);
    /* Time between two finished events, by the device's clock, in ns. */
    uint64_t (*elapsed_ns)(void *state, uint32_t from_event, uint32_t to_event);

    /* From `begin` to `end`, launches and copies within the device are recorded, with their current
     * arguments, instead of done; no other call is allowed in between. `end` must follow `begin`
     * even if a launch failed, and returns a recording if all succeeded. `replay` enters all of it
     * into the queue. Memory and programs that it uses must outlive the recording. `begin` fails if
     * the driver cannot record. All four are optional, together. */
    int32_t (*begin)(void *state);
    int32_t (*end)(void *state, void **out_recording);
    int32_t (*replay)(void *state, void *recording);
    void (*forget)(void *state, void *recording);

    /* The text of the last failure of the functions above that return a kernel status; optional. */
    const char *(*error)(void *state);
    /* Whether a failure made the open device unusable: only closing it works. Optional: this never
     * happens. */
    bool (*is_lost)(void *state);
    /* Whether it was lost for reasons other than the code that ran on it: it fell off its bus, its
     * memory is broken. Optional: unknown. */
    bool (*is_broken)(void *state);
    /* The current reading of its management library. False: no library knows the device. Optional.
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
    int32_t dlpack; /* the device_type of its tensors */
    bool counts;    /* its times are computed from the work, not measured by the host's clock */
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

/* Calls `list` of the row. UNIMPLEMENTED: the kind has no row in this program. */
KILN_MUST_USE kiln_status kiln_device_list(kiln_device_kind kind, kiln_arena *arena,
                                           kiln_device_facts **out_facts, uint32_t *out_count);
/* The same without the facts. */
KILN_MUST_USE kiln_status kiln_device_count(kiln_device_kind kind, uint32_t *out_count);
/* For rows that find devices by their facts: the index of the device that the setup asks for.
 * NOT_FOUND: there are fewer devices, or none that runs `wanted`, with the reason of the last one.
 * FAILED_PRECONDITION: several devices run `wanted`, which names none of them. */
KILN_MUST_USE kiln_status kiln_device_choose(const kiln_device_setup *setup,
                                             const kiln_device_facts *facts, uint32_t count,
                                             uint32_t *out_index);
/* The first device of the row that runs code for `wanted`, as an index into `list`. Errors of
 * `list` and of kiln_device_choose. */
KILN_MUST_USE kiln_status kiln_device_find(const kiln_device_row *row, const kiln_target *wanted,
                                           uint32_t *out_index);

/* `setup` may be NULL: the first device of the kind, with any target. Errors of the row, and
 * UNIMPLEMENTED: the kind has no row in this program. */
KILN_MUST_USE kiln_status kiln_device_open(kiln_device_kind kind, const kiln_device_setup *setup,
                                           kiln_device **out_device);
/* Accepts NULL. All its memory and programs must be released before. */
void kiln_device_close(kiln_device *device);

/* Makes the device the machine for code of `target`, if it is another one or broken, and can
 * change; otherwise does nothing, and loading such code fails with the reason. Errors of the row:
 * the device is then unchanged or broken. */
KILN_MUST_USE kiln_status kiln_device_reprogram(kiln_device *device, const kiln_target *target);
/* How often it was reprogrammed. */
uint32_t kiln_device_reprogram_count(const kiln_device *device);

/* Valid until close, the target until the device becomes another machine. */
const kiln_device_row *kiln_device_row_in(const kiln_device *device);
const kiln_target *kiln_device_target(const kiln_device *device);
void *kiln_device_state(const kiln_device *device); /* the argument of the vtable's functions */

/* Memory for arguments of kernels, in the row's space. */
KILN_MUST_USE kiln_status kiln_device_allocate(kiln_device *device, size_t size_bytes,
                                               kiln_guard guard, kiln_device_memory *out_memory);
void kiln_device_release(kiln_device *device,
                         kiln_device_memory *memory); /* accepts empty memory */
kiln_device_place kiln_device_place_at(const kiln_device *device, const kiln_device_memory *memory,
                                       uint64_t offset);
/* Errors of the row, and INVALID_ARGUMENT: callers cannot pass memory of such devices. */
KILN_MUST_USE kiln_status kiln_device_adopt(kiln_device *device, void *data, uint64_t byte_offset,
                                            size_t size_bytes, kiln_device_place *out_place);
/* Errors of the row, and UNIMPLEMENTED: all memory of the host is equally fast. */
KILN_MUST_USE kiln_status kiln_device_allocate_host(kiln_device *device, size_t size_bytes,
                                                    kiln_host_memory *out_memory);
void kiln_device_release_host(kiln_device *device,
                              kiln_host_memory *memory); /* accepts empty memory */
uint32_t kiln_device_index(const kiln_device *device);
void *kiln_device_context(const kiln_device *device);
static inline kiln_device_place kiln_host_place(void *data) { return (kiln_device_place){data, 0}; }

/* KILN_KERNEL_OK, or a failure whose text is in kiln_device_error. */
int32_t kiln_device_copy(kiln_device *device, kiln_copy_direction direction, kiln_device_place to,
                         kiln_device_place from, size_t size_bytes);
int32_t kiln_device_record(kiln_device *device, uint32_t event);
int32_t kiln_device_wait(kiln_device *device, uint32_t event);
uint64_t kiln_device_elapsed_ns(const kiln_device *device, uint32_t from_event, uint32_t to_event);
/* KILN_KERNEL_FAILED if the device cannot record; then, and after a failure of `end`, steps must be
 * done one by one. Both may take as long as loading does. */
int32_t kiln_device_begin(kiln_device *device);
int32_t kiln_device_end(kiln_device *device, void **out_recording);
/* `recording` is a result of kiln_device_end. */
int32_t kiln_device_replay(kiln_device *device, void *recording);
void kiln_device_forget(kiln_device *device, void *recording); /* accepts NULL */
/* Empty when there is no text. */
const char *kiln_device_error(const kiln_device *device);
bool kiln_device_is_lost(const kiln_device *device);
bool kiln_device_is_broken(const kiln_device *device);
/* False: unknown; `*out_reading` is unchanged. */
bool kiln_device_read(const kiln_device *device, kiln_device_reading *out_reading);

#endif
