/* Devices behind an OpenCL driver: any version from 1.2 on, loaded when a device is listed or
 * opened. Payloads are OpenCL C; a place is a buffer of the driver (cl_mem) and an offset. There is
 * no arithmetic on buffers in OpenCL 1.2, so an argument that begins inside of one is a sub-buffer
 * with exactly the argument's bytes, made at the first launch that meets it and kept until the
 * buffer goes (docs/decisions/0058-drivers-at-run-time.md). Events are markers in the queue. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/macros.h"
#include "base/map.h"
#include "deploy/runtime/device.h"
#include "deploy/runtime/driver.h"
#include "deploy/runtime/opencl.h"
#include "deploy/runtime/opencl_vendors.h"
#include "deploy/runtime/text_payload.h"

#define PLATFORMS_MAX 16u
#define DEVICES_MAX 64u
#define ERROR_BYTES 400u

static const kiln_driver_library library = {
    .file = "libOpenCL.so.1",
    .variable = "KILN_OPENCL_LIBRARY",
    .install = "install ocl-icd-libopencl1 and a driver (pocl-opencl-icd runs on processors)"};

typedef struct opencl_state {
    kiln_cl cl;
    kiln_cl_device device;
    uint32_t index; /* among all that the loader shows */
    kiln_cl_context context;
    kiln_cl_queue queue;
    const kiln_target *target;
    const char *options; /* of the compiler */
    uint64_t memory_bytes, buffer_bytes_max, taken_bytes;
    uint64_t alignment; /* of sub-buffers */
    kiln_map view;      /* of view_key: sub-buffers */
    uint64_t releases;  /* releases of buffers so far: older kernel arguments are stale */
    kiln_cl_event event[KILN_DEVICE_EVENTS];
    bool is_lost, is_broken;
    char error[ERROR_BYTES];
} opencl_state;

typedef struct view_key {
    kiln_cl_mem parent;
    uint64_t offset, size_bytes;
} view_key;

typedef struct opencl_launch {
    kiln_cl_kernel kernel;
    uint32_t arg_count;       /* of the manifest; scratch comes behind them */
    kiln_cl_mem *told;        /* [arg_count] arguments set in the kernel */
    uint64_t releases;        /* when they were set */
    size_t grid[3], group[3]; /* both in threads */
} opencl_launch;

typedef struct opencl_program {
    uint32_t payload_count, launch_count;
    kiln_cl_program *payload; /* [payload_count] */
    opencl_launch *launch;    /* [launch_count] */
    kiln_cl_mem scratch;      /* for the launch that needs most; NULL: none needs it */
    uint64_t scratch_bytes;
} opencl_program;

/* ---- errors ---------------------------------------------------------------------------------- */

static const char *text_of(int32_t code) {
    switch (code) {
#define X(number, text) \
    case number: return text;
#include "deploy/runtime/opencl_errors.def"
#undef X
    default: return "an error of the driver";
    }
}

static kiln_status refuse(const char *what, int32_t code) {
    return KILN_ERROR(INTERNAL, "%s: %s (OpenCL %d)", what, text_of(code), code);
}

/* Codes after which a queue is dead. OpenCL has no code for a kernel that accessed foreign memory:
 * drivers end such a queue with one of these. */
static bool ends_device(int32_t code) {
    return code == KILN_CL_DEVICE_NOT_AVAILABLE || code == KILN_CL_INVALID_CONTEXT ||
           code == KILN_CL_INVALID_COMMAND_QUEUE || code == KILN_CL_ILLEGAL_ACCESS;
}

static int32_t fail(opencl_state *s, const char *what, int32_t code) {
    s->is_lost |= ends_device(code);
    s->is_broken |= code == KILN_CL_DEVICE_NOT_AVAILABLE;
    (void)snprintf(s->error, sizeof s->error, "%s: %s (OpenCL %d)%s", what, text_of(code), code,
                   s->is_lost ? "; the device is lost" : "");
    return KILN_KERNEL_FAILED;
}

/* For calls that wait: a failure there belongs to an earlier command, after which the queue's state
 * is unknown. */
static int32_t fail_waiting(opencl_state *s, const char *what, int32_t code) {
    s->is_lost |= code == KILN_CL_OUT_OF_RESOURCES || code == KILN_CL_EXEC_STATUS_ERROR;
    return fail(s, what, code);
}

/* ---- finding devices ------------------------------------------------------------------------- */

static kiln_status load_functions(kiln_cl *cl) {
    const kiln_driver_function function[] = {
#define X(result, name, parameters) {"cl" #name, &cl->name},
        KILN_CL_FUNCTIONS(X)
#undef X
    };
    return kiln_driver_load(&library, function, KILN_ARRAY_COUNT(function));
}

static const char *device_text(const kiln_cl *cl, kiln_cl_device device, uint32_t what,
                               kiln_arena *arena) {
    size_t size = 0;
    if (cl->GetDeviceInfo(device, what, 0, NULL, &size) || size == 0) return "";
    char *text = KILN_ARENA_ARRAY(arena, char, size + 1);
    if (cl->GetDeviceInfo(device, what, size, text, NULL)) return "";
    return text;
}

/* A number of any width that the driver uses; 0 when unknown. */
static uint64_t device_number(const kiln_cl *cl, kiln_cl_device device, uint32_t what) {
    union {
        uint32_t narrow;
        uint64_t wide;
    } value = {.wide = 0};
    size_t size = 0;
    if (cl->GetDeviceInfo(device, what, sizeof value, &value, &size)) return 0;
    return size == sizeof value.narrow ? value.narrow : value.wide;
}

static kiln_status find_devices(const kiln_cl *cl, kiln_cl_device *out_device,
                                uint32_t *out_count) {
    kiln_cl_platform platform[PLATFORMS_MAX];
    uint32_t platform_count = 0, count = 0;
    int32_t failed = 0, code = cl->GetPlatformIDs(PLATFORMS_MAX, platform, &platform_count);
    if (code == KILN_CL_NO_PLATFORM || (!code && platform_count == 0))
        return KILN_ERROR(NOT_FOUND, "libOpenCL.so.1 knows no driver; install one "
                                     "(pocl-opencl-icd runs on processors), or look into "
                                     "/etc/OpenCL/vendors");
    if (code) return refuse("looking for drivers", code);
    for (uint32_t i = 0; i < KILN_MIN(platform_count, PLATFORMS_MAX) && count < DEVICES_MAX; i++) {
        uint32_t more = 0;
        code = cl->GetDeviceIDs(platform[i], UINT32_MAX, DEVICES_MAX - count, out_device + count,
                                &more);
        if (!code) count += KILN_MIN(more, DEVICES_MAX - count);
        if (code && code != KILN_CL_DEVICE_NOT_FOUND)
            failed = code; /* other platforms may have
                            * devices */
    }
    if (count == 0 && failed) return refuse("looking for devices", failed);
    if (count == 0) return KILN_ERROR(NOT_FOUND, "the installed OpenCL drivers have no device");
    *out_count = count;
    return KILN_OK;
}

/* The limit of a target's text. */
#define GROUP_THREADS_MAX 1024u
#define SHARED_BYTES_MAX (1u << 20)
#define UNITS_MAX 4096u

static uint64_t clamp(uint64_t value, uint64_t most) {
    return value == 0 ? 1 : KILN_MIN(value, most);
}

static kiln_status describe_target(const kiln_cl *cl, kiln_cl_device device, kiln_arena *arena,
                                   kiln_target *out_target) {
    const uint64_t group = device_number(cl, device, KILN_CL_DEVICE_MAX_WORK_GROUP_SIZE),
                   shared = device_number(cl, device, KILN_CL_DEVICE_LOCAL_MEM_SIZE),
                   units = device_number(cl, device, KILN_CL_DEVICE_MAX_COMPUTE_UNITS),
                   lanes = device_number(cl, device, KILN_CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
    const bool is_cpu = device_number(cl, device, KILN_CL_DEVICE_TYPE) & KILN_CL_DEVICE_TYPE_CPU;
    const char *extensions = device_text(cl, device, KILN_CL_DEVICE_EXTENSIONS, arena);
    const bool has_f16 = strstr(extensions, "cl_khr_fp16"),
               has_f64 = strstr(extensions, "cl_khr_fp64");
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "opencl:");
    kiln_target_spell_device(kiln_str_from(device_text(cl, device, KILN_CL_DEVICE_NAME, arena)),
                             &text);
    kiln_strbuf_printf(&text, ",group=%llu,shared=%llu,units=%llu",
                       (unsigned long long)clamp(group, GROUP_THREADS_MAX),
                       (unsigned long long)clamp(shared, SHARED_BYTES_MAX),
                       (unsigned long long)clamp(units, UNITS_MAX));
    if (has_f16 || !has_f64)
        kiln_strbuf_printf(&text, ",features=%s%s", has_f16 ? "+f16" : "", has_f64 ? "" : "-f64");
    if (is_cpu)
        kiln_strbuf_printf(&text, ",vector=%llu,emulated",
                           (unsigned long long)(lanes >= 16  ? 64
                                                : lanes >= 8 ? 32
                                                             : 16));
    kiln_status st = kiln_target_parse(kiln_strbuf_view(&text), arena, out_target);
    kiln_strbuf_deinit(&text);
    return st;
}

static kiln_status describe(const kiln_cl *cl, kiln_cl_device device, kiln_arena *arena,
                            kiln_device_facts *out) {
    kiln_strbuf driver = {0};
    out->name = device_text(cl, device, KILN_CL_DEVICE_NAME, arena);
    kiln_strbuf_printf(&driver, "%s, driver %s",
                       device_text(cl, device, KILN_CL_DEVICE_VERSION, arena),
                       device_text(cl, device, KILN_CL_DRIVER_VERSION, arena));
    out->driver = kiln_strbuf_end(&driver, arena).data;
    out->memory_bytes = device_number(cl, device, KILN_CL_DEVICE_GLOBAL_MEM_SIZE);
    return kiln_status_note(describe_target(cl, device, arena, &out->target), "OpenCL device %s",
                            out->name);
}

static kiln_status find_all(kiln_cl *cl, kiln_arena *arena, kiln_cl_device *out_device,
                            kiln_device_facts **out_facts, uint32_t *out_count) {
    uint32_t count = 0;
    kiln_status st = load_functions(cl);
    if (!st) st = find_devices(cl, out_device, &count);
    kiln_device_facts *facts = KILN_ARENA_ARRAY(arena, kiln_device_facts, count);
    for (uint32_t i = 0; !st && i < count; i++) st = describe(cl, out_device[i], arena, &facts[i]);
    *out_facts = facts;
    *out_count = count;
    return st;
}

static kiln_status opencl_list(kiln_arena *arena, kiln_device_facts **out_facts,
                               uint32_t *out_count) {
    kiln_cl cl;
    kiln_cl_device device[DEVICES_MAX];
    return find_all(&cl, arena, device, out_facts, out_count);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void opencl_close(void *context) {
    opencl_state *s = context;
    if (s->queue) (void)s->cl.Finish(s->queue);
    KILN_CHECK(kiln_map_count(&s->view) == 0);
    kiln_map_deinit(&s->view);
    for (uint32_t i = 0; i < KILN_DEVICE_EVENTS; i++)
        if (s->event[i]) (void)s->cl.ReleaseEvent(s->event[i]);
    if (s->queue) (void)s->cl.ReleaseCommandQueue(s->queue);
    if (s->context) (void)s->cl.ReleaseContext(s->context);
    kiln_free(s);
}

static kiln_status make_queue(opencl_state *s) {
    int32_t code = 0;
    s->context = s->cl.CreateContext(NULL, 1, &s->device, NULL, NULL, &code);
    if (!s->context) return refuse("opening the device", code);
    s->queue =
        s->cl.CreateCommandQueue(s->context, s->device, KILN_CL_QUEUE_PROFILING_ENABLE, &code);
    return s->queue ? KILN_OK : refuse("making a queue", code);
}

static kiln_status opencl_open(const kiln_device_setup *setup, kiln_arena *arena,
                               kiln_target *out_target, void **out_state) {
    opencl_state *s = kiln_alloc(sizeof *s);
    kiln_cl_device device[DEVICES_MAX];
    kiln_device_facts *facts;
    uint32_t count, index = 0;
    kiln_map_init(&s->view);
    kiln_status st = find_all(&s->cl, arena, device, &facts, &count);
    if (!st) st = kiln_device_choose(setup, facts, count, &index);
    if (!st) {
        const uint64_t floats =
            device_number(&s->cl, device[index], KILN_CL_DEVICE_SINGLE_FP_CONFIG);
        s->device = device[index];
        s->index = index;
        s->memory_bytes = facts[index].memory_bytes;
        s->buffer_bytes_max = device_number(&s->cl, s->device, KILN_CL_DEVICE_MAX_MEM_ALLOC_SIZE);
        s->alignment =
            KILN_MAX(device_number(&s->cl, s->device, KILN_CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8, 1);
        s->options = kiln_arena_printf(
            arena, "-cl-std=CL1.2%s%s",
            floats & KILN_CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
                ? " -cl-fp32-correctly-rounded-divide-sqrt"
                : "",
            floats & KILN_CL_FP_FMA ? "" : " -DKILN_NO_FMA"); /* generated code asks for it */
        st = make_queue(s);
    }
    if (st) {
        opencl_close(s);
        return st;
    }
    if (!setup->target) *out_target = facts[index].target;
    s->target = out_target;
    *out_state = s;
    return KILN_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static kiln_status no_memory(const opencl_state *s, size_t size_bytes, int32_t code) {
    return KILN_ERROR(
        RESOURCE_EXHAUSTED,
        "%zu bytes on a device of %llu, of which Kiln has %llu and gives at most %llu "
        "at once: %s (OpenCL %d)",
        size_bytes, (unsigned long long)s->memory_bytes, (unsigned long long)s->taken_bytes,
        (unsigned long long)s->buffer_bytes_max, text_of(code), code);
}

/* Drivers may allocate at the first use: writing the zeros forces it. */
static kiln_status make_buffer(opencl_state *s, size_t size_bytes, kiln_cl_mem *out_buffer) {
    const uint32_t zero = 0;
    const size_t rounded =
        (KILN_MAX(size_bytes, sizeof zero) + sizeof zero - 1) / sizeof zero * sizeof zero;
    int32_t code = KILN_CL_INVALID_BUFFER_SIZE;
    kiln_cl_mem buffer = NULL;
    if (rounded >= size_bytes)
        buffer = s->cl.CreateBuffer(s->context, KILN_CL_MEM_READ_WRITE, rounded, NULL, &code);
    if (!buffer) return no_memory(s, size_bytes, code);
    code = s->cl.EnqueueFillBuffer(s->queue, buffer, &zero, sizeof zero, 0, rounded, 0, NULL, NULL);
    if (!code) code = s->cl.Finish(s->queue);
    if (code) {
        (void)s->cl.ReleaseMemObject(buffer);
        return no_memory(s, size_bytes, code);
    }
    s->taken_bytes += size_bytes;
    *out_buffer = buffer;
    return KILN_OK;
}

static kiln_status opencl_allocate(void *context, kiln_memory_space space, size_t size_bytes,
                                   kiln_guard guard, kiln_device_memory *out_memory) {
    (void)guard;
    kiln_cl_mem buffer;
    kiln_status st = make_buffer(context, size_bytes, &buffer);
    if (!st)
        *out_memory =
            (kiln_device_memory){.space = space, .size_bytes = size_bytes, .data = buffer};
    return st;
}

static void release_views(opencl_state *s, kiln_cl_mem parent) {
    uint32_t cursor = 0;
    uint64_t view;
    kiln_str key;
    while (kiln_map_next(&s->view, &cursor, &key, &view)) {
        view_key of;
        memcpy(&of, key.data, sizeof of);
        if (of.parent != parent) continue;
        (void)s->cl.ReleaseMemObject((kiln_cl_mem)(uintptr_t)view);
        (void)kiln_map_remove(&s->view, (kiln_str){(const char *)&of, sizeof of});
    }
}

static void release_buffer(opencl_state *s, kiln_cl_mem buffer, uint64_t size_bytes) {
    (void)s->cl.Finish(s->queue); /* commands may still use it */
    release_views(s, buffer);
    (void)s->cl.ReleaseMemObject(buffer);
    s->taken_bytes -= size_bytes;
    s->releases++;
}

static void opencl_release(void *context, kiln_device_memory *memory) {
    release_buffer(context, memory->data, memory->size_bytes);
}

static kiln_device_place opencl_place(void *state, const kiln_device_memory *memory,
                                      uint64_t offset) {
    (void)state;
    return (kiln_device_place){memory->data, offset};
}

/* A handle may name another buffer than in the last run: kernel arguments are stale.
 */
static kiln_status opencl_adopt(void *context, void *data, uint64_t byte_offset, size_t size_bytes,
                                kiln_device_place *out_place) {
    opencl_state *s = context;
    kiln_cl_context of = NULL;
    size_t all = 0;
    if (s->cl.GetMemObjectInfo(data, KILN_CL_MEM_CONTEXT, sizeof of, &of, NULL) ||
        s->cl.GetMemObjectInfo(data, KILN_CL_MEM_SIZE, sizeof all, &all, NULL) || of != s->context)
        return KILN_ERROR(INVALID_ARGUMENT, "it is no buffer of the context that the module uses");
    if (byte_offset > all || size_bytes > all - byte_offset)
        return KILN_ERROR(INVALID_ARGUMENT, "%zu bytes from byte %llu on; the buffer has %zu",
                          size_bytes, (unsigned long long)byte_offset, all);
    if (byte_offset % KILN_KERNEL_ALIGNMENT != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "its byte offset is not a multiple of %u",
                          KILN_KERNEL_ALIGNMENT);
    s->releases++;
    *out_place = (kiln_device_place){data, byte_offset};
    return KILN_OK;
}

/* A buffer that drivers put into pinned memory (OpenCL 1.2, 5.3.1), mapped during its life. It is
 * not counted as memory of the device. */
static kiln_status opencl_allocate_host(void *context, size_t size_bytes,
                                        kiln_host_memory *out_memory) {
    opencl_state *s = context;
    const size_t size = KILN_MAX(size_bytes, 1);
    int32_t code = 0;
    void *data = NULL;
    kiln_cl_mem buffer = s->cl.CreateBuffer(
        s->context, KILN_CL_MEM_READ_WRITE | KILN_CL_MEM_ALLOC_HOST_PTR, size, NULL, &code);
    if (buffer)
        data = s->cl.EnqueueMapBuffer(s->queue, buffer, KILN_CL_TRUE,
                                      KILN_CL_MAP_READ | KILN_CL_MAP_WRITE, 0, size, 0, NULL, NULL,
                                      &code);
    if (!data) {
        if (buffer) (void)s->cl.ReleaseMemObject(buffer);
        return KILN_ERROR(RESOURCE_EXHAUSTED,
                          "%zu bytes of the host that stay in place: %s (OpenCL %d)", size_bytes,
                          text_of(code), code);
    }
    memset(data, 0, size_bytes);
    *out_memory = (kiln_host_memory){.size_bytes = size_bytes, .data = data, .handle = buffer};
    return KILN_OK;
}

static void opencl_release_host(void *context, kiln_host_memory *memory) {
    opencl_state *s = context;
    (void)s->cl.EnqueueUnmapMemObject(s->queue, memory->handle, memory->data, 0, NULL, NULL);
    (void)s->cl.Finish(s->queue);
    (void)s->cl.ReleaseMemObject(memory->handle);
}

static uint32_t opencl_index(void *state) { return ((const opencl_state *)state)->index; }
static void *opencl_context(void *state) { return ((const opencl_state *)state)->context; }

static int32_t opencl_copy(void *context, kiln_copy_direction direction, kiln_device_place to,
                           kiln_device_place from, size_t size_bytes) {
    opencl_state *s = context;
    int32_t code = 0;
    if (size_bytes == 0) return KILN_KERNEL_OK;
    switch (direction) {
    case KILN_COPY_WITHIN:
        code = s->cl.EnqueueCopyBuffer(s->queue, from.data, to.data, (size_t)from.byte_offset,
                                       (size_t)to.byte_offset, size_bytes, 0, NULL, NULL);
        break;
    case KILN_COPY_TO_DEVICE:
        code = s->cl.EnqueueWriteBuffer(s->queue, to.data, KILN_CL_TRUE, (size_t)to.byte_offset,
                                        size_bytes, (const uint8_t *)from.data + from.byte_offset,
                                        0, NULL, NULL);
        break;
    case KILN_COPY_FROM_DEVICE:
        code =
            s->cl.EnqueueReadBuffer(s->queue, from.data, KILN_CL_FALSE, (size_t)from.byte_offset,
                                    size_bytes, (uint8_t *)to.data + to.byte_offset, 0, NULL, NULL);
        break;
    }
    return code ? fail(s, "a copy", code) : KILN_KERNEL_OK;
}

/* ---- programs -------------------------------------------------------------------------------- */

static kiln_status opencl_check(const kiln_artefact *artefact, const kiln_target *target) {
    return kiln_text_payload_check(artefact, target, KILN_PAYLOAD_OPENCL, "void");
}

static void opencl_unload(void *context, void *loaded) {
    opencl_state *s = context;
    opencl_program *program = loaded;
    (void)s->cl.Finish(s->queue);
    for (uint32_t i = 0; i < program->launch_count; i++) {
        if (program->launch[i].kernel) (void)s->cl.ReleaseKernel(program->launch[i].kernel);
        kiln_free(program->launch[i].told);
    }
    for (uint32_t i = 0; i < program->payload_count; i++)
        if (program->payload[i]) (void)s->cl.ReleaseProgram(program->payload[i]);
    if (program->scratch) release_buffer(s, program->scratch, program->scratch_bytes);
    kiln_free(program->launch);
    kiln_free(program->payload);
    kiln_free(program);
}

static kiln_status refuse_text(const opencl_state *s, kiln_cl_program program, int32_t code) {
    kiln_arena scratch;
    size_t size = 0;
    kiln_arena_init(&scratch, 0);
    (void)s->cl.GetProgramBuildInfo(program, s->device, KILN_CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *log = KILN_ARENA_ARRAY(&scratch, char, size + 1);
    (void)s->cl.GetProgramBuildInfo(program, s->device, KILN_CL_PROGRAM_BUILD_LOG, size, log, NULL);
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "%s (OpenCL %d):\n%s", text_of(code), code,
                                kiln_text_payload_log(log, &scratch));
    kiln_arena_deinit(&scratch);
    return st;
}

static kiln_status build(opencl_state *s, kiln_str text, kiln_cl_program *out_program) {
    int32_t code = 0;
    *out_program = s->cl.CreateProgramWithSource(s->context, 1, &text.data, &text.size, &code);
    if (!*out_program) return refuse("taking a program", code);
    code = s->cl.BuildProgram(*out_program, 1, &s->device, s->options, NULL, NULL);
    return code ? refuse_text(s, *out_program, code) : KILN_OK;
}

/* The compiler may use more registers or memory than the text allows. */
static kiln_status check_kernel(opencl_state *s, const kiln_manifest_launch *launch,
                                const opencl_launch *made) {
    size_t threads = 0;
    uint64_t shared = 0;
    uint32_t arg_count = 0;
    const uint32_t wanted_count =
        launch->arg_count + (launch->scratch_bytes[KILN_MEMORY_DEVICE] > 0);
    const size_t wanted = made->group[0] * made->group[1] * made->group[2];
    int32_t code = s->cl.GetKernelInfo(made->kernel, KILN_CL_KERNEL_NUM_ARGS, sizeof arg_count,
                                       &arg_count, NULL);
    if (!code)
        code = s->cl.GetKernelWorkGroupInfo(made->kernel, s->device, KILN_CL_KERNEL_WORK_GROUP_SIZE,
                                            sizeof threads, &threads, NULL);
    if (!code)
        code = s->cl.GetKernelWorkGroupInfo(made->kernel, s->device, KILN_CL_KERNEL_LOCAL_MEM_SIZE,
                                            sizeof shared, &shared, NULL);
    if (code) return refuse("asking for limits", code);
    if (arg_count != wanted_count)
        return KILN_ERROR(DATA_LOSS, "the code has %u arguments, the launch %u", arg_count,
                          wanted_count);
    if (wanted > threads)
        return KILN_ERROR(FAILED_PRECONDITION,
                          "a group of %zu threads; with these registers the device runs %zu",
                          wanted, threads);
    if (shared > s->target->shared_bytes)
        return KILN_ERROR(FAILED_PRECONDITION, "%llu bytes shared by a group; the device has %u",
                          (unsigned long long)shared, s->target->shared_bytes);
    return KILN_OK;
}

static kiln_status make_launch(opencl_state *s, const kiln_manifest *manifest, uint32_t index,
                               opencl_program *program) {
    const kiln_manifest_launch *launch = &manifest->launch[index];
    opencl_launch *made = &program->launch[index];
    char entry[KILN_TEXT_ENTRY_BYTES_MAX + 1];
    (void)snprintf(entry, sizeof entry, "%.*s", KILN_STR_ARG(launch->entry));
    made->arg_count = launch->arg_count;
    made->told = kiln_alloc(launch->arg_count * sizeof *made->told);
    for (uint32_t axis = 0; axis < 3; axis++) {
        const uint64_t threads = (uint64_t)launch->grid[axis] * launch->group[axis];
        if (threads > SIZE_MAX)
            return KILN_ERROR(OUT_OF_RANGE, "launch %u has %llu threads along an axis", index,
                              (unsigned long long)threads);
        made->group[axis] = launch->group[axis];
        made->grid[axis] = (size_t)threads;
    }
    int32_t code = 0;
    made->kernel = s->cl.CreateKernel(program->payload[launch->payload], entry, &code);
    kiln_status st = made->kernel ? check_kernel(s, launch, made) : refuse("taking a kernel", code);
    if (!st && launch->scratch_bytes[KILN_MEMORY_DEVICE] > 0) {
        code = s->cl.SetKernelArg(made->kernel, made->arg_count, sizeof(kiln_cl_mem),
                                  &program->scratch);
        if (code) st = refuse("setting scratch", code);
    }
    return kiln_status_note(st, "launch %u", index);
}

static kiln_status make_scratch(opencl_state *s, const kiln_manifest *manifest,
                                opencl_program *program) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < manifest->launch_count; i++)
        most = KILN_MAX(most, manifest->launch[i].scratch_bytes[KILN_MEMORY_DEVICE]);
    if (most == 0) return KILN_OK;
    if (most > SIZE_MAX) return no_memory(s, SIZE_MAX, KILN_CL_INVALID_BUFFER_SIZE);
    program->scratch_bytes = most;
    return kiln_status_note(make_buffer(s, (size_t)most, &program->scratch), "scratch");
}

static kiln_status opencl_load(void *context, const kiln_artefact *artefact, void **out_program) {
    opencl_state *s = context;
    const kiln_manifest *manifest = &artefact->manifest;
    kiln_status st = opencl_check(artefact, s->target);
    if (st) return st;
    opencl_program *program = kiln_alloc(sizeof *program);
    program->payload_count = manifest->payload_count;
    program->launch_count = manifest->launch_count;
    program->payload = kiln_alloc(manifest->payload_count * sizeof *program->payload);
    program->launch = kiln_alloc(manifest->launch_count * sizeof *program->launch);
    for (uint32_t i = 0; !st && i < manifest->payload_count; i++)
        st = kiln_status_note(build(s, kiln_artefact_payload(artefact, i), &program->payload[i]),
                              "payload %u", i);
    if (!st) st = make_scratch(s, manifest, program);
    for (uint32_t i = 0; !st && i < manifest->launch_count; i++)
        st = make_launch(s, manifest, i, program);
    if (st)
        opencl_unload(s, program);
    else
        *out_program = program;
    return st;
}

/* The sub-buffer of an argument that begins inside of a buffer; NULL when the driver refuses it. */
static kiln_cl_mem view_of(opencl_state *s, const kiln_kernel_tensor *tensor, int32_t *out_code) {
    view_key key;
    uint64_t found;
    memset(&key, 0, sizeof key); /* its padding is part of the key */
    key.parent = tensor->data;
    key.offset = tensor->byte_offset;
    key.size_bytes = tensor->type_bits / 8;
    for (int32_t d = 0; d < tensor->ndim; d++) key.size_bytes *= (uint64_t)tensor->shape[d];
    const kiln_str bytes = {(const char *)&key, sizeof key};
    if (kiln_map_find(&s->view, bytes, &found)) return (kiln_cl_mem)(uintptr_t)found;
    const kiln_cl_region region = {(size_t)key.offset, (size_t)key.size_bytes};
    kiln_cl_mem view = s->cl.CreateSubBuffer(key.parent, KILN_CL_MEM_READ_WRITE,
                                             KILN_CL_BUFFER_CREATE_TYPE_REGION, &region, out_code);
    if (view) (void)kiln_map_put(&s->view, bytes, (uintptr_t)view);
    return view;
}

/* Reports an error that some drivers do not: they use the address rounded down to the multiple. */
static int32_t fail_alignment(opencl_state *s, uint64_t offset) {
    (void)snprintf(
        s->error, sizeof s->error,
        "an argument begins at byte %llu of a buffer; this device needs multiples of %llu",
        (unsigned long long)offset, (unsigned long long)s->alignment);
    return KILN_KERNEL_FAILED;
}

static int32_t set_arguments(opencl_state *s, opencl_launch *launch,
                             kiln_kernel_tensor *const *args) {
    const bool stale = launch->releases != s->releases;
    int32_t code = 0;
    for (uint32_t i = 0; i < launch->arg_count; i++) {
        kiln_cl_mem buffer = args[i]->data;
        if (args[i]->byte_offset % s->alignment != 0)
            return fail_alignment(s, args[i]->byte_offset);
        if (args[i]->byte_offset > 0) buffer = view_of(s, args[i], &code);
        if (!buffer) return fail(s, "an argument", code);
        if (buffer == launch->told[i] && !stale) continue;
        launch->told[i] = NULL;
        code = s->cl.SetKernelArg(launch->kernel, i, sizeof buffer, &buffer);
        if (code) return fail(s, "an argument", code);
        launch->told[i] = buffer;
    }
    launch->releases = s->releases;
    return KILN_KERNEL_OK;
}

static int32_t opencl_launch_run(void *context, void *loaded, uint32_t index,
                                 kiln_kernel_tensor *const *args,
                                 const kiln_kernel_services *services) {
    (void)services;
    opencl_state *s = context;
    opencl_launch *launch = &((opencl_program *)loaded)->launch[index];
    int32_t status = set_arguments(s, launch, args);
    if (status) return status;
    int32_t code = s->cl.EnqueueNDRangeKernel(s->queue, launch->kernel, 3, NULL, launch->grid,
                                              launch->group, 0, NULL, NULL);
    return code ? fail(s, "a launch", code) : KILN_KERNEL_OK;
}

/* ---- time ------------------------------------------------------------------------------------ */

static int32_t opencl_record(void *context, uint32_t event) {
    opencl_state *s = context;
    kiln_cl_event marker = NULL;
    int32_t code = s->cl.EnqueueMarkerWithWaitList(s->queue, 0, NULL, &marker);
    if (!code) code = s->cl.Flush(s->queue); /* the device may begin */
    if (code) return fail(s, "an event", code);
    if (s->event[event]) (void)s->cl.ReleaseEvent(s->event[event]);
    s->event[event] = marker;
    return KILN_KERNEL_OK;
}

static int32_t opencl_wait(void *context, uint32_t event) {
    opencl_state *s = context;
    if (!s->event[event]) return KILN_KERNEL_OK;
    int32_t code = s->cl.WaitForEvents(1, &s->event[event]);
    return code ? fail_waiting(s, "waiting", code) : KILN_KERNEL_OK;
}

static uint64_t ended_ns(const opencl_state *s, uint32_t event) {
    uint64_t ns = 0;
    if (s->event[event])
        (void)s->cl.GetEventProfilingInfo(s->event[event], KILN_CL_PROFILING_COMMAND_END, sizeof ns,
                                          &ns, NULL);
    return ns;
}

static uint64_t opencl_elapsed_ns(void *context, uint32_t from_event, uint32_t to_event) {
    const opencl_state *s = context;
    const uint64_t from = ended_ns(s, from_event), to = ended_ns(s, to_event);
    return to > from ? to - from : 0;
}

static const char *opencl_error(void *context) { return ((const opencl_state *)context)->error; }
static bool opencl_is_broken(void *context) { return ((const opencl_state *)context)->is_broken; }
static bool opencl_is_lost(void *context) { return ((const opencl_state *)context)->is_lost; }

const kiln_device_vtable kiln_device_opencl = {
    .list = opencl_list,
    .open = opencl_open,
    .explain_missing = kiln_opencl_vendors_describe,
    .close = opencl_close,
    .allocate = opencl_allocate,
    .release = opencl_release,
    .place = opencl_place,
    .adopt = opencl_adopt,
    .allocate_host = opencl_allocate_host,
    .release_host = opencl_release_host,
    .index = opencl_index,
    .context = opencl_context,
    .check = opencl_check,
    .load = opencl_load,
    .unload = opencl_unload,
    .launch = opencl_launch_run,
    .copy = opencl_copy,
    .record = opencl_record,
    .wait = opencl_wait,
    .elapsed_ns = opencl_elapsed_ns,
    .error = opencl_error,
    .is_lost = opencl_is_lost,
    .is_broken = opencl_is_broken,
};
