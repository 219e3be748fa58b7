/* NVIDIA's GPUs behind their driver, loaded when a device is listed or opened. Payloads are PTX,
 * which the driver translates; a place is an address of the device. Kiln uses the device's primary
 * context, like other code in the process, and its own stream. The driver may not be open when a
 * process forks. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/macros.h"
#include "deploy/runtime/cuda.h"
#include "deploy/runtime/cuda_check.h"
#include "deploy/runtime/cuda_maps.h"
#include "deploy/runtime/device.h"
#include "deploy/runtime/driver.h"
#include "deploy/runtime/nvml.h"
#include "deploy/runtime/text_payload.h"

#define DEVICES_MAX 64
#define NAME_BYTES 128
#define PCI_BYTES 32 /* "00000000:19:00.0" */
#define ERROR_BYTES 400u
#define LOG_BYTES 4096u
#define VERSION_MIN 11000         /* the first that translates PTX for sm_80 */
#define PLAIN_SHARED_BYTES 49152u /* the limit unless the function's attribute is raised */

static const kiln_driver_library library = {
    .file = "libcuda.so.1",
    .variable = "KILN_CUDA_LIBRARY",
    .install = "install NVIDIA's driver on a machine with one of its GPUs"};

typedef struct cuda_state {
    kiln_cu cu;
    kiln_cu_device device;
    uint32_t index; /* among those that the driver shows */
    kiln_cu_context context;
    kiln_cu_stream stream;
    kiln_cu_event event[KILN_DEVICE_EVENTS];
    bool is_recorded[KILN_DEVICE_EVENTS];
    const kiln_target *target;
    kiln_nvml nvml;
    kiln_nvml_device managed; /* NULL: no management library knows it */
    int version;              /* 12040 for 12.4 */
    bool is_lost, is_broken;
    char error[ERROR_BYTES];
} cuda_state;

typedef struct cuda_launch {
    kiln_cu_function function;
    uint32_t grid[3], group[3], shared_bytes, arg_count;
    bool has_scratch;
    kiln_cuda_maps maps;
} cuda_launch;

typedef struct cuda_program {
    uint32_t payload_count, launch_count;
    kiln_cu_module *payload; /* [payload_count] */
    cuda_launch *launch;     /* [launch_count] */
    kiln_cu_pointer scratch; /* for the launch that needs most; 0: none needs it */
} cuda_program;

/* ---- errors ---------------------------------------------------------------------------------- */

static void print_code(const kiln_cu *cu, int code, char *out, size_t out_bytes) {
    const char *name = NULL, *text = NULL;
    (void)cu->GetErrorName(code, &name);
    (void)cu->GetErrorString(code, &text);
    (void)snprintf(out, out_bytes, "%s (%s, %d)", text ? text : "an error of the driver",
                   name ? name : "CUDA", code);
}

static kiln_status refuse(const kiln_cu *cu, const char *what, int code) {
    char text[ERROR_BYTES];
    print_code(cu, code, text, sizeof text);
    return KILN_ERROR(INTERNAL, "%s: %s", what, text);
}

/* Errors after which every call on the context fails (CUDA Driver API, CUresult: "the context
 * cannot be used" or "the process must be terminated"). */
static bool spoils_context(int code) {
    switch (code) {
    case 4:   /* DEINITIALIZED */
    case 46:  /* DEVICE_UNAVAILABLE */
    case 201: /* INVALID_CONTEXT */
    case 214: /* ECC_UNCORRECTABLE */
    case 220: /* NVLINK_UNCORRECTABLE */
    case 226: /* CONTAINED */
    case 700: /* ILLEGAL_ADDRESS */
    case 702: /* LAUNCH_TIMEOUT */
    case 709: /* CONTEXT_IS_DESTROYED */
    case 710: /* ASSERT */
    case 714: /* HARDWARE_STACK_ERROR */
    case 715: /* ILLEGAL_INSTRUCTION */
    case 716: /* MISALIGNED_ADDRESS */
    case 717: /* INVALID_ADDRESS_SPACE */
    case 718: /* INVALID_PC */
    case 719: /* LAUNCH_FAILED */
    case 721: /* TENSOR_MEMORY_LEAK */
    case 999: /* UNKNOWN */ return true;
    default: return false;
    }
}

/* Those of these errors that no kernel causes. */
static bool breaks_device(int code) {
    return code == 46 || code == 214 || code == 220; /* unavailable, memory, links */
}

static int32_t fail(cuda_state *s, const char *what, int code) {
    char text[ERROR_BYTES - 64];
    s->is_lost |= spoils_context(code);
    s->is_broken |= breaks_device(code);
    print_code(&s->cu, code, text, sizeof text);
    (void)snprintf(s->error, sizeof s->error, "%s: %s%s", what, text,
                   s->is_lost ? "; the device is lost" : "");
    return KILN_KERNEL_FAILED;
}

/* ---- finding devices ------------------------------------------------------------------------- */

/* Only later drivers have them. */
static void load_graphs(kiln_cu *cu) {
    const kiln_driver_function function[] = {
#define X(name, symbol, parameters) {symbol, &cu->name},
        KILN_CU_GRAPH_FUNCTIONS(X)
#undef X
    };
    kiln_status st = kiln_driver_load(&library, function, KILN_ARRAY_COUNT(function));
    cu->has_graphs = !st;
    kiln_status_free(st);
}

static void load_maps(kiln_cu *cu, int version) {
    const kiln_driver_function function[] = {
#define X(name, symbol, parameters) {symbol, &cu->name},
        KILN_CU_MAP_FUNCTIONS(X)
#undef X
    };
    kiln_status st = kiln_driver_load(&library, function, KILN_ARRAY_COUNT(function));
    cu->has_maps = !st && version >= KILN_CU_MAP_VERSION;
    kiln_status_free(st);
}

static kiln_status load_driver(kiln_cu *cu, int *out_version) {
    const kiln_driver_function function[] = {
#define X(name, symbol, parameters) {symbol, &cu->name},
        KILN_CU_FUNCTIONS(X)
#undef X
    };
    kiln_status st = kiln_driver_load(&library, function, KILN_ARRAY_COUNT(function));
    if (st) return st;
    load_graphs(cu);
    int code = cu->DriverGetVersion(out_version);
    if (code) return refuse(cu, "asking for the driver's version", code);
    load_maps(cu, *out_version);
    if (*out_version < VERSION_MIN)
        return KILN_ERROR(FAILED_PRECONDITION,
                          "the driver is too old: it supports CUDA %d.%d, Kiln needs %d.%d",
                          *out_version / 1000, *out_version % 1000 / 10, VERSION_MIN / 1000,
                          VERSION_MIN % 1000 / 10);
    code = cu->Init(0);
    if (code == KILN_CU_NO_DEVICE)
        return KILN_ERROR(NOT_FOUND, "NVIDIA's driver is there, but no device of it; look at the "
                                     "rights on /dev/nvidia*");
    return code ? refuse(cu, "starting the driver", code) : KILN_OK;
}

static int attribute(const kiln_cu *cu, int which, kiln_cu_device device) {
    int value = 0;
    return cu->DeviceGetAttribute(&value, which, device) ? 0 : value;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Whether `word`, in lower case, is a word of a name such as "NVIDIA H200". */
static bool has_word(const char *name, const char *word) {
    const size_t size = strlen(word);
    for (const char *at = name; *at; at++) {
        size_t i = 0;
        if (at > name && is_letter(at[-1])) continue;
        while (i < size && (at[i] >= 'A' && at[i] <= 'Z' ? at[i] - 'A' + 'a' : at[i]) == word[i])
            i++;
        if (i == size && !is_letter(at[i])) return true;
    }
    return false;
}

/* The row for exactly this device: variants of one name differ in units and memory. */
static const kiln_gpu *find_device_row(const char *name, uint32_t capability, uint32_t units,
                                       uint64_t memory_bytes) {
    for (uint32_t i = 0; i < kiln_gpu_count(); i++) {
        const kiln_gpu *gpu = kiln_gpu_at(i);
        if (!gpu->is_generic && gpu->capability == capability && gpu->units == units &&
            memory_bytes > gpu->memory_bytes / 10 * 9 &&
            memory_bytes < gpu->memory_bytes / 10 * 11 && has_word(name, gpu->name))
            return gpu;
    }
    return NULL;
}

/* The row for all devices of the newest capability that this one runs. */
static const kiln_gpu *find_generic_row(uint32_t capability) {
    const kiln_gpu *best = NULL;
    for (uint32_t i = 0; i < kiln_gpu_count(); i++) {
        const kiln_gpu *gpu = kiln_gpu_at(i);
        if (gpu->is_generic && gpu->capability > 0 && gpu->capability <= capability &&
            (!best || gpu->capability > best->capability))
            best = gpu;
    }
    return best;
}

static kiln_status describe_target(const kiln_cu *cu, kiln_cu_device device, const char *name,
                                   uint64_t memory_bytes, kiln_arena *arena,
                                   kiln_target *out_target) {
    const uint32_t major = (uint32_t)attribute(cu, KILN_CU_ATTRIBUTE_MAJOR, device),
                   minor = (uint32_t)attribute(cu, KILN_CU_ATTRIBUTE_MINOR, device),
                   units = (uint32_t)attribute(cu, KILN_CU_ATTRIBUTE_UNITS, device),
                   group = (uint32_t)attribute(cu, KILN_CU_ATTRIBUTE_GROUP_THREADS, device),
                   shared = (uint32_t)attribute(cu, KILN_CU_ATTRIBUTE_GROUP_SHARED, device),
                   capability = 10 * major + minor;
    const kiln_gpu *own = find_device_row(name, capability, units, memory_bytes),
                   *generic = find_generic_row(capability);
    if (!generic)
        return KILN_ERROR(UNIMPLEMENTED, "it is a sm_%u, older than any that Kiln knows",
                          capability);
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "cuda:sm_%u%s", generic->capability,
                       generic->capability == capability && capability >= 90 ? "a" : "");
    if (own) kiln_strbuf_printf(&text, ",mcpu=%s", own->name);
    kiln_status st = kiln_target_parse(kiln_strbuf_view(&text), arena, out_target);
    kiln_strbuf_deinit(&text);
    if (st) return st;
    /* Devices between two rows have less than the row states. */
    out_target->group_threads = KILN_MIN(out_target->group_threads, group);
    out_target->shared_bytes = KILN_MIN(out_target->shared_bytes, shared);
    out_target->cores = units;
    return KILN_OK;
}

static kiln_status describe(const kiln_cu *cu, int index, int version, kiln_arena *arena,
                            kiln_cu_device *out_device, kiln_device_facts *out) {
    size_t memory_bytes = 0;
    char name[NAME_BYTES] = "", driver[32];
    int code = cu->DeviceGet(out_device, index);
    if (!code) code = cu->DeviceGetName(name, sizeof name, *out_device);
    if (!code) code = cu->DeviceTotalMem(&memory_bytes, *out_device);
    if (code) return refuse(cu, "querying the device", code);
    (void)snprintf(driver, sizeof driver, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    out->name = kiln_str_dup(arena, kiln_str_from(name));
    out->driver = kiln_str_dup(arena, kiln_str_from(driver));
    out->memory_bytes = memory_bytes;
    return kiln_status_note(
        describe_target(cu, *out_device, name, memory_bytes, arena, &out->target), "%s", name);
}

static kiln_status find_all(kiln_cu *cu, kiln_arena *arena, int *out_version,
                            kiln_cu_device *out_device, kiln_device_facts **out_facts,
                            uint32_t *out_count) {
    int count = 0;
    kiln_status st = load_driver(cu, out_version);
    if (st) return st;
    int code = cu->DeviceGetCount(&count);
    if (code) return refuse(cu, "counting devices", code);
    count = KILN_MIN(count, DEVICES_MAX);
    if (count <= 0) return KILN_ERROR(NOT_FOUND, "NVIDIA's driver has no device");
    *out_facts = KILN_ARENA_ARRAY(arena, kiln_device_facts, (size_t)count);
    *out_count = (uint32_t)count;
    for (int i = 0; !st && i < count; i++)
        st = kiln_status_note(
            describe(cu, i, *out_version, arena, &out_device[i], &(*out_facts)[i]), "device %d", i);
    return st;
}

static kiln_status find_managed(const kiln_cu *cu, const kiln_nvml *nvml, kiln_cu_device device,
                                kiln_nvml_device *out_managed) {
    char pci[PCI_BYTES] = "";
    const int code = cu->DeviceGetPCIBusId(pci, sizeof pci, device);
    return code ? refuse(cu, "querying the device's PCI address", code)
                : kiln_nvml_find(nvml, pci, out_managed);
}

static const char *explain_unmanaged(const kiln_status why, kiln_arena *arena) {
    return kiln_arena_printf(arena, "its state is not known: %s", kiln_status_text(why));
}

static void describe_managed(const kiln_cu *cu, const kiln_nvml *nvml, kiln_cu_device device,
                             kiln_arena *arena, kiln_device_facts *facts) {
    kiln_nvml_device managed;
    kiln_strbuf text = {0}, driver = {0};
    kiln_status st = find_managed(cu, nvml, device, &managed);
    if (st)
        kiln_strbuf_text(&text, explain_unmanaged(st, arena));
    else
        kiln_nvml_print(nvml, managed, &text);
    kiln_status_free(st); /* the text has it already */
    kiln_strbuf_printf(&driver, "%s, ", facts->driver);
    kiln_nvml_print_version(nvml, &driver);
    facts->driver = kiln_str_dup(arena, kiln_strbuf_view(&driver));
    facts->management = kiln_str_dup(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&driver);
    kiln_strbuf_deinit(&text);
}

static kiln_status cuda_list(kiln_arena *arena, kiln_device_facts **out_facts,
                             uint32_t *out_count) {
    kiln_cu cu;
    kiln_nvml nvml;
    kiln_cu_device device[DEVICES_MAX];
    int version;
    kiln_status st = find_all(&cu, arena, &version, device, out_facts, out_count);
    if (st) return st;
    kiln_status unmanaged = kiln_nvml_open(&nvml);
    for (uint32_t i = 0; i < *out_count; i++)
        if (unmanaged)
            (*out_facts)[i].management = explain_unmanaged(unmanaged, arena);
        else
            describe_managed(&cu, &nvml, device[i], arena, &(*out_facts)[i]);
    if (!unmanaged) kiln_nvml_close(&nvml);
    kiln_status_free(unmanaged); /* the reason is shown with each device */
    return KILN_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The current context belongs to the thread, and different threads may use a device one after
 * another. */
static void enter(const cuda_state *s) { (void)s->cu.CtxSetCurrent(s->context); }

static void cuda_close(void *context) {
    cuda_state *s = context;
    if (s->context) {
        enter(s);
        for (uint32_t i = 0; i < KILN_DEVICE_EVENTS; i++)
            if (s->event[i]) (void)s->cu.EventDestroy(s->event[i]);
        if (s->stream) (void)s->cu.StreamDestroy(s->stream);
        (void)s->cu.CtxSetCurrent(NULL);
        (void)s->cu.PrimaryRelease(s->device);
    }
    if (s->managed) kiln_nvml_close(&s->nvml);
    kiln_free(s);
}

/* A device works without a management library. */
static void find_management(cuda_state *s) {
    kiln_status st = kiln_nvml_open(&s->nvml);
    if (st) {
        kiln_status_free(st);
        return;
    }
    st = find_managed(&s->cu, &s->nvml, s->device, &s->managed);
    if (!st) return;
    s->managed = NULL;
    kiln_nvml_close(&s->nvml);
    kiln_status_free(st);
}

static kiln_status make_stream(cuda_state *s) {
    int code = s->cu.PrimaryRetain(&s->context, s->device);
    if (code) return refuse(&s->cu, "opening the device", code);
    code = s->cu.CtxSetCurrent(s->context);
    if (!code) code = s->cu.StreamCreate(&s->stream, KILN_CU_STREAM_NON_BLOCKING);
    for (uint32_t i = 0; !code && i < KILN_DEVICE_EVENTS; i++)
        code = s->cu.EventCreate(&s->event[i], KILN_CU_EVENT_DEFAULT);
    return code ? refuse(&s->cu, "making a queue", code) : KILN_OK;
}

static kiln_status cuda_open(const kiln_device_setup *setup, kiln_arena *arena,
                             kiln_target *out_target, void **out_state) {
    cuda_state *s = kiln_alloc(sizeof *s);
    kiln_cu_device device[DEVICES_MAX];
    kiln_device_facts *facts = NULL;
    uint32_t count, index = 0;
    kiln_status st = find_all(&s->cu, arena, &s->version, device, &facts, &count);
    if (!st) st = kiln_device_choose(setup, facts, count, &index);
    if (!st) {
        s->device = device[index];
        s->index = index;
        st = make_stream(s);
    }
    if (st) {
        cuda_close(s);
        return st;
    }
    find_management(s);
    if (!setup->target) *out_target = facts[index].target;
    s->target = out_target;
    *out_state = s;
    return KILN_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static kiln_status make_memory(cuda_state *s, uint64_t size_bytes, kiln_cu_pointer *out_pointer) {
    size_t left = 0, all = 0;
    enter(s);
    int code = size_bytes > SIZE_MAX ? KILN_CU_OUT_OF_MEMORY
                                     : s->cu.MemAlloc(out_pointer, (size_t)KILN_MAX(size_bytes, 1));
    if (code == KILN_CU_OUT_OF_MEMORY) {
        (void)s->cu.MemGetInfo(&left, &all);
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%llu bytes on a device with %zu left of %zu",
                          (unsigned long long)size_bytes, left, all);
    }
    if (code) return refuse(&s->cu, "taking memory", code);
    code = s->cu.MemsetD8Async(*out_pointer, 0, (size_t)size_bytes, s->stream);
    if (!code) return KILN_OK;
    (void)s->cu.MemFree(*out_pointer);
    return refuse(&s->cu, "clearing memory", code);
}

static kiln_status cuda_allocate(void *context, kiln_memory_space space, size_t size_bytes,
                                 kiln_guard guard, kiln_device_memory *out_memory) {
    (void)guard;
    kiln_cu_pointer pointer;
    kiln_status st = make_memory(context, size_bytes, &pointer);
    if (!st)
        *out_memory = (kiln_device_memory){
            .space = space, .size_bytes = size_bytes, .data = (void *)(uintptr_t)pointer};
    return st;
}

/* The driver's free waits for the device, so the memory is unused when this returns. */
static void cuda_release(void *context, kiln_device_memory *memory) {
    cuda_state *s = context;
    enter(s);
    (void)s->cu.MemFree((uintptr_t)memory->data);
}

static kiln_device_place cuda_place(void *state, const kiln_device_memory *memory,
                                    uint64_t offset) {
    (void)state;
    return (kiln_device_place){(void *)((uintptr_t)memory->data + (uintptr_t)offset), 0};
}

/* Addresses of all devices differ, so the driver knows the device of a pointer. */
static kiln_status cuda_adopt(void *context, void *data, uint64_t byte_offset, size_t size_bytes,
                              kiln_device_place *out_place) {
    cuda_state *s = context;
    const kiln_cu_pointer pointer = (uintptr_t)data + byte_offset;
    unsigned memory = 0;
    int device = -1;
    enter(s);
    if (size_bytes > 0 && (s->cu.PointerGetAttribute(&memory, KILN_CU_POINTER_MEMORY, pointer) ||
                           s->cu.PointerGetAttribute(&device, KILN_CU_POINTER_DEVICE, pointer) ||
                           memory != KILN_CU_MEMORY_DEVICE || device != s->device))
        return KILN_ERROR(INVALID_ARGUMENT, "its address is not in the device's memory");
    if (pointer % KILN_KERNEL_ALIGNMENT != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "its address is not aligned to %u bytes",
                          KILN_KERNEL_ALIGNMENT);
    *out_place = (kiln_device_place){(void *)(uintptr_t)pointer, 0};
    return KILN_OK;
}

static kiln_status cuda_allocate_host(void *context, size_t size_bytes,
                                      kiln_host_memory *out_memory) {
    cuda_state *s = context;
    void *data = NULL;
    enter(s);
    const int code = s->cu.MemHostAlloc(&data, KILN_MAX(size_bytes, 1), 0);
    if (code == KILN_CU_OUT_OF_MEMORY)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%zu bytes of the host that stay in place",
                          size_bytes);
    if (code) return refuse(&s->cu, "taking memory of the host", code);
    memset(data, 0, size_bytes);
    *out_memory = (kiln_host_memory){.size_bytes = size_bytes, .data = data};
    return KILN_OK;
}

static void cuda_release_host(void *context, kiln_host_memory *memory) {
    cuda_state *s = context;
    enter(s);
    (void)s->cu.StreamSynchronize(s->stream); /* a copy may still use it */
    (void)s->cu.MemFreeHost(memory->data);
}

static uint32_t cuda_index(void *state) { return ((const cuda_state *)state)->index; }

static kiln_cu_pointer pointer_of(kiln_device_place place) {
    return (uintptr_t)place.data + place.byte_offset;
}

static int32_t cuda_copy(void *context, kiln_copy_direction direction, kiln_device_place to,
                         kiln_device_place from, size_t size_bytes) {
    cuda_state *s = context;
    int code = 0;
    enter(s);
    switch (direction) {
    case KILN_COPY_WITHIN:
        code = s->cu.MemcpyDtoDAsync(pointer_of(to), pointer_of(from), size_bytes, s->stream);
        break;
    case KILN_COPY_TO_DEVICE: /* pinned memory may be read after the call has returned */
        code = s->cu.MemcpyHtoDAsync(pointer_of(to), (const uint8_t *)from.data + from.byte_offset,
                                     size_bytes, s->stream);
        if (!code) code = s->cu.StreamSynchronize(s->stream);
        break;
    case KILN_COPY_FROM_DEVICE:
        code = s->cu.MemcpyDtoHAsync((uint8_t *)to.data + to.byte_offset, pointer_of(from),
                                     size_bytes, s->stream);
        break;
    }
    return code ? fail(s, "a copy", code) : KILN_KERNEL_OK;
}

/* ---- programs -------------------------------------------------------------------------------- */

static void cuda_unload(void *context, void *loaded) {
    cuda_state *s = context;
    cuda_program *program = loaded;
    enter(s);
    (void)s->cu.StreamSynchronize(s->stream);
    for (uint32_t i = 0; i < program->payload_count; i++)
        if (program->payload[i]) (void)s->cu.ModuleUnload(program->payload[i]);
    for (uint32_t i = 0; i < program->launch_count; i++)
        kiln_cuda_maps_deinit(&program->launch[i].maps);
    if (program->scratch) (void)s->cu.MemFree(program->scratch);
    kiln_free(program->launch);
    kiln_free(program->payload);
    kiln_free(program);
}

static kiln_status refuse_text(const cuda_state *s, int code, const char *log) {
    kiln_arena scratch;
    kiln_status st;
    char text[ERROR_BYTES];
    kiln_arena_init(&scratch, 0);
    print_code(&s->cu, code, text, sizeof text);
    if (code == KILN_CU_UNSUPPORTED_PTX_VERSION)
        st = KILN_ERROR(FAILED_PRECONDITION,
                        "the driver is too old for this code: it supports CUDA %d.%d: %s",
                        s->version / 1000, s->version % 1000 / 10, text);
    else if (code == KILN_CU_OUT_OF_MEMORY)
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "%s", text);
    else if (spoils_context(code))
        st = KILN_ERROR(INTERNAL, "%s", text);
    else
        st = KILN_ERROR(INVALID_ARGUMENT, "the code does not compile: %s\n%s", text,
                        kiln_text_payload_log(log, &scratch));
    kiln_arena_deinit(&scratch);
    return st;
}

static kiln_status build(cuda_state *s, kiln_str text, kiln_cu_module *out_module) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    char *log = KILN_ARENA_ARRAY(&scratch, char, LOG_BYTES + 1);
    int option[] = {KILN_CU_JIT_ERROR_LOG, KILN_CU_JIT_ERROR_LOG_BYTES};
    void *value[] = {log, (void *)(uintptr_t)LOG_BYTES};
    int code = s->cu.ModuleLoadDataEx(out_module, kiln_str_dup(&scratch, text),
                                      KILN_ARRAY_COUNT(option), option, value);
    kiln_status st = code ? refuse_text(s, code, log) : KILN_OK;
    kiln_arena_deinit(&scratch);
    return st;
}

/* The driver's compiler may use more registers or memory than the launch allows. */
static kiln_status check_function(cuda_state *s, const cuda_launch *made) {
    int threads = 0, shared = 0;
    const uint64_t wanted = (uint64_t)made->group[0] * made->group[1] * made->group[2];
    int code = s->cu.FuncGetAttribute(&threads, KILN_CU_FUNCTION_THREADS, made->function);
    if (!code)
        code = s->cu.FuncGetAttribute(&shared, KILN_CU_FUNCTION_STATIC_SHARED, made->function);
    if (code) return refuse(&s->cu, "asking for limits", code);
    if (wanted > (uint64_t)threads)
        return KILN_ERROR(FAILED_PRECONDITION,
                          "a group of %llu threads; with these registers the device runs %d",
                          (unsigned long long)wanted, threads);
    if ((uint64_t)shared + made->shared_bytes > s->target->shared_bytes)
        return KILN_ERROR(FAILED_PRECONDITION, "%llu bytes shared by a group; the device has %u",
                          (unsigned long long)((uint64_t)shared + made->shared_bytes),
                          s->target->shared_bytes);
    if (made->shared_bytes <= PLAIN_SHARED_BYTES) return KILN_OK;
    code = s->cu.FuncSetAttribute(made->function, KILN_CU_FUNCTION_DYNAMIC_SHARED,
                                  (int)made->shared_bytes);
    return code ? refuse(&s->cu, "asking for shared memory", code) : KILN_OK;
}

static kiln_status make_launch(cuda_state *s, const kiln_manifest_launch *launch,
                               kiln_cu_module payload, cuda_launch *made) {
    char entry[KILN_TEXT_ENTRY_BYTES_MAX + 1];
    (void)snprintf(entry, sizeof entry, "%.*s", KILN_STR_ARG(launch->entry));
    memcpy(made->grid, launch->grid, sizeof made->grid);
    memcpy(made->group, launch->group, sizeof made->group);
    made->arg_count = launch->arg_count;
    made->shared_bytes = (uint32_t)launch->scratch_bytes[KILN_MEMORY_SHARED];
    made->has_scratch = launch->scratch_bytes[KILN_MEMORY_DEVICE] > 0;
    kiln_cuda_maps_init(&made->maps, launch);
    int code = s->cu.ModuleGetFunction(&made->function, payload, entry);
    return code ? refuse(&s->cu, entry, code) : check_function(s, made);
}

static kiln_status make_scratch(cuda_state *s, const kiln_manifest *manifest,
                                cuda_program *program) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < manifest->launch_count; i++)
        most = KILN_MAX(most, manifest->launch[i].scratch_bytes[KILN_MEMORY_DEVICE]);
    if (most == 0) return KILN_OK;
    return kiln_status_note(make_memory(s, most, &program->scratch), "scratch");
}

/* Clusters need no check: a driver that does not know them refuses the code. */
static kiln_status check_driver(const cuda_state *s, const kiln_manifest *manifest) {
    for (uint32_t i = 0; !s->cu.has_maps && i < manifest->launch_count; i++)
        if (manifest->launch[i].map_count > 0)
            return KILN_ERROR(
                FAILED_PRECONDITION,
                "launch %u has tensor maps, which drivers make since CUDA %d.%d; this "
                "one supports CUDA %d.%d: install a newer driver",
                i, KILN_CU_MAP_VERSION / 1000, KILN_CU_MAP_VERSION % 1000 / 10, s->version / 1000,
                s->version % 1000 / 10);
    return KILN_OK;
}

static kiln_status cuda_load(void *context, const kiln_artefact *artefact, void **out_program) {
    cuda_state *s = context;
    const kiln_manifest *manifest = &artefact->manifest;
    kiln_status st = kiln_cuda_check(artefact, s->target);
    if (!st) st = check_driver(s, manifest);
    if (st) return st;
    enter(s);
    cuda_program *program = kiln_alloc(sizeof *program);
    program->payload_count = manifest->payload_count;
    program->launch_count = manifest->launch_count;
    program->payload = kiln_alloc(manifest->payload_count * sizeof *program->payload);
    program->launch = kiln_alloc(manifest->launch_count * sizeof *program->launch);
    for (uint32_t i = 0; !st && i < manifest->payload_count; i++)
        st = kiln_status_note(build(s, kiln_artefact_payload(artefact, i), &program->payload[i]),
                              "payload %u", i);
    if (!st) st = make_scratch(s, manifest, program);
    for (uint32_t i = 0; !st && i < manifest->launch_count; i++) {
        const kiln_manifest_launch *launch = &manifest->launch[i];
        st = kiln_status_note(
            make_launch(s, launch, program->payload[launch->payload], &program->launch[i]),
            "launch %u", i);
    }
    if (st)
        cuda_unload(s, program);
    else
        *out_program = program;
    return st;
}

static int32_t cuda_launch_run(void *context, void *loaded, uint32_t index,
                               kiln_kernel_tensor *const *args,
                               const kiln_kernel_services *services) {
    (void)services;
    cuda_state *s = context;
    cuda_program *program = loaded;
    cuda_launch *launch = &program->launch[index];
    kiln_cu_pointer pointer[KILN_MANIFEST_ARGS_MAX + 1];
    void *parameter[KILN_MANIFEST_ARGS_MAX + 1 + KILN_LAUNCH_MAPS_MAX];
    const uint32_t count = launch->arg_count + launch->has_scratch;
    for (uint32_t i = 0; i < launch->arg_count; i++)
        pointer[i] = (uintptr_t)args[i]->data + args[i]->byte_offset;
    pointer[launch->arg_count] = program->scratch;
    for (uint32_t i = 0; i < count; i++) parameter[i] = &pointer[i];
    enter(s);
    int code = kiln_cuda_maps_encode(&launch->maps, &s->cu, pointer);
    if (code) return fail(s, "encoding a tensor map", code);
    for (uint32_t i = 0; i < launch->maps.count; i++)
        parameter[count + i] = kiln_cuda_maps_at(&launch->maps, i);
    code = s->cu.LaunchKernel(launch->function, launch->grid[0], launch->grid[1], launch->grid[2],
                              launch->group[0], launch->group[1], launch->group[2],
                              launch->shared_bytes, s->stream, parameter, NULL);
    return code ? fail(s, "a launch", code) : KILN_KERNEL_OK;
}

/* ---- recordings: graphs ---------------------------------------------------------------------- */

static int32_t cuda_begin(void *context) {
    cuda_state *s = context;
    if (!s->cu.has_graphs) return KILN_KERNEL_FAILED;
    enter(s);
    const int code = s->cu.BeginCapture(s->stream, KILN_CU_CAPTURE_THREAD);
    return code ? fail(s, "beginning a recording", code) : KILN_KERNEL_OK;
}

/* A capture in which something failed ends with an error and has no graph. */
static int32_t cuda_end(void *context, void **out_recording) {
    cuda_state *s = context;
    kiln_cu_graph graph = NULL;
    kiln_cu_graph_exec made = NULL;
    enter(s);
    int code = s->cu.EndCapture(s->stream, &graph);
    if (!code) code = s->cu.GraphInstantiate(&made, graph, 0);
    if (graph) (void)s->cu.GraphDestroy(graph);
    if (code) return fail(s, "making a recording", code);
    *out_recording = made;
    return KILN_KERNEL_OK;
}

static int32_t cuda_replay(void *context, void *recording) {
    cuda_state *s = context;
    enter(s);
    const int code = s->cu.GraphLaunch(recording, s->stream);
    return code ? fail(s, "repeating a recording", code) : KILN_KERNEL_OK;
}

/* The recording may still be running. */
static void cuda_forget(void *context, void *recording) {
    cuda_state *s = context;
    enter(s);
    (void)s->cu.StreamSynchronize(s->stream);
    (void)s->cu.GraphExecDestroy(recording);
}

/* ---- time ------------------------------------------------------------------------------------ */

static int32_t cuda_record(void *context, uint32_t event) {
    cuda_state *s = context;
    enter(s);
    int code = s->cu.EventRecord(s->event[event], s->stream);
    if (code) return fail(s, "an event", code);
    s->is_recorded[event] = true;
    return KILN_KERNEL_OK;
}

static int32_t cuda_wait(void *context, uint32_t event) {
    cuda_state *s = context;
    if (!s->is_recorded[event]) return KILN_KERNEL_OK;
    enter(s);
    int code = s->cu.EventSynchronize(s->event[event]);
    return code ? fail(s, "waiting", code) : KILN_KERNEL_OK;
}

static uint64_t cuda_elapsed_ns(void *context, uint32_t from_event, uint32_t to_event) {
    cuda_state *s = context;
    float ms = 0;
    enter(s);
    if (!s->is_recorded[from_event] || !s->is_recorded[to_event] ||
        s->cu.EventElapsedTime(&ms, s->event[from_event], s->event[to_event]) || ms <= 0)
        return 0;
    return (uint64_t)((double)ms * 1e6);
}

static const char *cuda_error(void *context) { return ((const cuda_state *)context)->error; }
static bool cuda_is_broken(void *context) { return ((const cuda_state *)context)->is_broken; }
static bool cuda_is_lost(void *context) { return ((const cuda_state *)context)->is_lost; }

static bool cuda_read(void *context, kiln_device_reading *out_reading) {
    const cuda_state *s = context;
    if (s->managed) *out_reading = kiln_nvml_read(&s->nvml, s->managed);
    return s->managed != NULL;
}

const kiln_device_vtable kiln_device_cuda = {
    .runs_clusters = true,
    .list = cuda_list,
    .open = cuda_open,
    .close = cuda_close,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .place = cuda_place,
    .adopt = cuda_adopt,
    .allocate_host = cuda_allocate_host,
    .release_host = cuda_release_host,
    .index = cuda_index,
    .check = kiln_cuda_check,
    .load = cuda_load,
    .unload = cuda_unload,
    .launch = cuda_launch_run,
    .copy = cuda_copy,
    .record = cuda_record,
    .wait = cuda_wait,
    .elapsed_ns = cuda_elapsed_ns,
    .begin = cuda_begin,
    .end = cuda_end,
    .replay = cuda_replay,
    .forget = cuda_forget,
    .error = cuda_error,
    .is_lost = cuda_is_lost,
    .is_broken = cuda_is_broken,
    .read = cuda_read,
};
