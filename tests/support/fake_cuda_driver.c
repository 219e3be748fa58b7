#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/runtime/cuda.h"
#include "tests/support/fake_cuda.h"

#define LIVE_MAX 4096

/* The kernel of a board's self-check (rpc-server/golden_texts.def). */
static void multiply_squares(const uint32_t grid[3], const uint32_t group[3], void **parameter) {
    const uint32_t *x = *(uint32_t **)parameter[0], *w = *(uint32_t **)parameter[1];
    uint32_t *y = *(uint32_t **)parameter[2];
    for (uint32_t i = 0; i < grid[0]; i++)
        for (uint32_t j = 0; j < group[0]; j++) {
            y[i * 64 + j] = 0;
            for (uint32_t k = 0; k < 64; k++) y[i * 64 + j] += x[i * 64 + k] * w[k * 64 + j];
        }
}

fake_cuda fake_cuda_state = {
    .version = 12040,
    .launch_us = 10,
    .device_count = 1,
    .device = {{"NVIDIA H200", 9, 0, 132, 1024, 232448, (size_t)143771 << 20}},
    .kernel = {[FAKE_CUDA_KERNELS_MAX - 1] = {"run_0", multiply_squares}},
};

#define NODES_MAX 64
#define PARAMETERS_MAX 40
#define MAPS_MAX 8

enum { CONTEXT = 1, STREAM, EVENT, MODULE, FUNCTION, GRAPH, GRAPH_EXEC };
enum { CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901 };

/* A launch or a copy, as it was captured. */
typedef struct node {
    struct thing *function; /* NULL: a copy */
    uint32_t grid[3], group[3];
    unsigned shared_bytes;
    kiln_cu_pointer parameter[PARAMETERS_MAX], to, from;
    uint8_t map[MAPS_MAX][FAKE_CUDA_MAP_BYTES]; /* the last parameters */
    size_t size_bytes;
} node;

typedef struct nodes {
    node node[NODES_MAX];
    int count;
} nodes;

/* Everything with a handle, and memory. */
typedef struct thing {
    int kind;
    int calls;        /* of events: the clock when it was recorded, plus 1 */
    int device, uses; /* of contexts: its holders have one of each device */
    char entry[128];  /* of functions */
    struct thing *of; /* of functions: the module */
    char *text;       /* of modules */
    int dynamic_shared;
    nodes *nodes;  /* of graphs; of streams while they capture */
    int is_broken; /* of such a stream: the capture failed */
} thing;

static struct {
    uint8_t *data;
    size_t size_bytes;
    int device;
} memory[LIVE_MAX], host_memory[LIVE_MAX];
static thing *alive[LIVE_MAX];
static thing *current;
static int clock_us;

#define S fake_cuda_state

static int complain(const char *function, const char *what) {
    if (S.complaints++ == 0)
        (void)snprintf(S.complaint, sizeof S.complaint, "%s: %s", function, what);
    fprintf(stderr, "fake CUDA: %s: %s\n", function, what);
    return KILN_CU_INVALID_VALUE;
}

static int is_sticky(int code) { return code >= 700 && code < 720 && code != 701; }

static thing *capturing; /* the stream that does */

static int refuse_capture(void) {
    capturing->is_broken = 1;
    return CAPTURE_UNSUPPORTED;
}

/* What a call returns before it does anything: what a test wants, or what came before. */
static int begin(const char *symbol, int needs_context) {
    if (S.fail_symbol && strcmp(S.fail_symbol, symbol) == 0 && --S.fail_at == 0) {
        if (is_sticky(S.fail_code)) S.spoilt = S.fail_code;
        return S.fail_code;
    }
    if (S.inits == 0) return complain(symbol, "called before cuInit");
    if (needs_context && !current) return complain(symbol, "no context is current");
    return needs_context ? S.spoilt : 0;
}
#define BEGIN(symbol, needs_context)              \
    do {                                          \
        int began = begin(symbol, needs_context); \
        if (began) return began;                  \
    } while (0)

static thing *make(int kind) {
    for (int i = 0; i < LIVE_MAX; i++) {
        if (alive[i]) continue;
        alive[i] = calloc(1, sizeof *alive[i]);
        alive[i]->kind = kind;
        return alive[i];
    }
    abort();
}

static int is_alive(const void *handle, int kind) {
    for (int i = 0; i < LIVE_MAX; i++)
        if (alive[i] && alive[i] == handle) return alive[i]->kind == kind;
    return 0;
}

static void destroy(void *handle) {
    for (int i = 0; i < LIVE_MAX; i++) {
        if (alive[i] != handle) continue;
        free(alive[i]->text);
        free(alive[i]->nodes);
        free(alive[i]);
        alive[i] = NULL;
    }
}

/* Whether so many bytes from there on are one allocation's. */
static int is_memory(kiln_cu_pointer pointer, size_t size_bytes) {
    for (int i = 0; i < LIVE_MAX; i++) {
        uintptr_t begins = (uintptr_t)memory[i].data;
        if (!memory[i].data || pointer < begins || pointer > begins + memory[i].size_bytes)
            continue;
        return size_bytes <= memory[i].size_bytes - (pointer - begins);
    }
    return 0;
}

/* The functions; each is declared by its first line, as the driver's header would. */
#define EXPORT(symbol, ...)  \
    int symbol(__VA_ARGS__); \
    int symbol(__VA_ARGS__)

EXPORT(cuInit, unsigned flags) {
    if (flags) return complain("cuInit", "flags");
    S.inits++;
    int code = begin("cuInit", 0);
    if (code) S.inits--;
    if (!code && S.device_count == 0) return KILN_CU_NO_DEVICE;
    return code;
}

EXPORT(cuDriverGetVersion, int *out) {
    *out = S.version;
    return 0;
}

EXPORT(cuGetErrorName, int code, const char **out) {
    *out = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
           : code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY"
                       : "CUDA_ERROR";
    return 0;
}

EXPORT(cuGetErrorString, int code, const char **out) {
    *out = code == 700 ? "an illegal memory access was encountered" : "an error of the fake driver";
    return 0;
}

EXPORT(cuDeviceGetCount, int *out) {
    BEGIN("cuDeviceGetCount", 0);
    *out = S.device_count;
    return 0;
}

EXPORT(cuDeviceGet, kiln_cu_device *out, int index) {
    BEGIN("cuDeviceGet", 0);
    if (index < 0 || index >= S.device_count) return complain("cuDeviceGet", "no such device");
    *out = index;
    return 0;
}

EXPORT(cuDeviceGetName, char *out, int out_bytes, kiln_cu_device device) {
    BEGIN("cuDeviceGetName", 0);
    (void)snprintf(out, (size_t)out_bytes, "%s", S.device[device].name);
    return 0;
}

EXPORT(cuDeviceGetPCIBusId, char *out, int out_bytes, kiln_cu_device device) {
    BEGIN("cuDeviceGetPCIBusId", 0);
    (void)snprintf(out, (size_t)out_bytes, "0000:%02x:00.0", (unsigned)device + 1);
    return 0;
}

EXPORT(cuDeviceTotalMem_v2, size_t *out, kiln_cu_device device) {
    BEGIN("cuDeviceTotalMem_v2", 0);
    *out = S.device[device].memory_bytes;
    return 0;
}

EXPORT(cuDeviceGetAttribute, int *out, int which, kiln_cu_device device) {
    BEGIN("cuDeviceGetAttribute", 0);
    const fake_cuda_device *d = &S.device[device];
    switch (which) {
    case KILN_CU_ATTRIBUTE_GROUP_THREADS: *out = d->group_threads; return 0;
    case KILN_CU_ATTRIBUTE_UNITS: *out = d->units; return 0;
    case KILN_CU_ATTRIBUTE_MAJOR: *out = d->major; return 0;
    case KILN_CU_ATTRIBUTE_MINOR: *out = d->minor; return 0;
    case KILN_CU_ATTRIBUTE_GROUP_SHARED: *out = d->group_shared; return 0;
    default: return complain("cuDeviceGetAttribute", "an attribute that it does not have");
    }
}

static thing *context_of(int device) {
    for (int i = 0; i < LIVE_MAX; i++)
        if (alive[i] && alive[i]->kind == CONTEXT && alive[i]->device == device) return alive[i];
    return NULL;
}

EXPORT(cuDevicePrimaryCtxRetain, kiln_cu_context *out, kiln_cu_device device) {
    BEGIN("cuDevicePrimaryCtxRetain", 0);
    thing *context = context_of(device);
    if (!context) context = make(CONTEXT);
    context->device = device;
    context->uses++;
    S.contexts++;
    *out = (kiln_cu_context)context;
    return 0;
}

EXPORT(cuDevicePrimaryCtxRelease_v2, kiln_cu_device device) {
    BEGIN("cuDevicePrimaryCtxRelease_v2", 0);
    thing *context = context_of(device);
    if (!context) return complain("cuDevicePrimaryCtxRelease_v2", "released too often");
    S.contexts--;
    if (--context->uses > 0) return 0;
    destroy(context);
    if (S.contexts > 0) return 0;
    if (S.streams || S.events || S.modules || S.allocations || S.graphs)
        (void)complain("cuDevicePrimaryCtxRelease_v2", "something of it is left");
    S.spoilt = 0;
    return 0;
}

EXPORT(cuCtxSetCurrent, kiln_cu_context context) {
    BEGIN("cuCtxSetCurrent", 0);
    if (context && !is_alive(context, CONTEXT)) return complain("cuCtxSetCurrent", "no context");
    current = (thing *)context;
    return 0;
}

EXPORT(cuStreamCreate, kiln_cu_stream *out, unsigned flags) {
    BEGIN("cuStreamCreate", 1);
    if (flags > 1) return complain("cuStreamCreate", "flags");
    S.streams++;
    *out = (kiln_cu_stream)make(STREAM);
    return 0;
}

EXPORT(cuStreamDestroy_v2, kiln_cu_stream stream) {
    if (!is_alive(stream, STREAM)) return complain("cuStreamDestroy_v2", "no stream");
    S.streams--;
    destroy(stream);
    return 0;
}

static int on_stream(const char *symbol, kiln_cu_stream stream) {
    BEGIN(symbol, 1);
    return is_alive(stream, STREAM) ? 0 : complain(symbol, "no stream");
}

/* For calls that a capture does not take. */
static int on_quiet_stream(const char *symbol, kiln_cu_stream stream) {
    const int wrong = on_stream(symbol, stream);
    return !wrong && capturing == (thing *)stream ? refuse_capture() : wrong;
}
#define ON_STREAM(symbol, stream)              \
    do {                                       \
        int wrong = on_stream(symbol, stream); \
        if (wrong) return wrong;               \
    } while (0)
#define ON_QUIET_STREAM(symbol, stream)              \
    do {                                             \
        int wrong = on_quiet_stream(symbol, stream); \
        if (wrong) return wrong;                     \
    } while (0)

EXPORT(cuStreamSynchronize, kiln_cu_stream stream) {
    ON_QUIET_STREAM("cuStreamSynchronize", stream);
    return 0;
}

EXPORT(cuEventCreate, kiln_cu_event *out, unsigned flags) {
    BEGIN("cuEventCreate", 1);
    if (flags) return complain("cuEventCreate", "flags: it would have no time");
    S.events++;
    *out = (kiln_cu_event)make(EVENT);
    return 0;
}

EXPORT(cuEventDestroy_v2, kiln_cu_event event) {
    if (!is_alive(event, EVENT)) return complain("cuEventDestroy_v2", "no event");
    S.events--;
    destroy(event);
    return 0;
}

EXPORT(cuEventRecord, kiln_cu_event event, kiln_cu_stream stream) {
    ON_QUIET_STREAM("cuEventRecord", stream);
    if (!is_alive(event, EVENT)) return complain("cuEventRecord", "no event");
    ((thing *)event)->calls = clock_us + 1;
    return 0;
}

EXPORT(cuEventSynchronize, kiln_cu_event event) {
    BEGIN("cuEventSynchronize", 1);
    if (capturing) return refuse_capture();
    return is_alive(event, EVENT) ? 0 : complain("cuEventSynchronize", "no event");
}

EXPORT(cuEventElapsedTime, float *out, kiln_cu_event from, kiln_cu_event to) {
    BEGIN("cuEventElapsedTime", 1);
    if (!is_alive(from, EVENT) || !is_alive(to, EVENT) || !((thing *)from)->calls ||
        !((thing *)to)->calls)
        return complain("cuEventElapsedTime", "an event that was not recorded");
    *out = (float)(((thing *)to)->calls - ((thing *)from)->calls) / 1000;
    return 0;
}

EXPORT(cuMemGetInfo_v2, size_t *out_left, size_t *out_all) {
    BEGIN("cuMemGetInfo_v2", 1);
    *out_all = S.device[0].memory_bytes;
    *out_left = *out_all - S.allocated_bytes;
    return 0;
}

EXPORT(cuMemAlloc_v2, kiln_cu_pointer *out, size_t size_bytes) {
    BEGIN("cuMemAlloc_v2", 1);
    if (capturing) return refuse_capture();
    if (size_bytes == 0) return complain("cuMemAlloc_v2", "no bytes");
    if (size_bytes > S.device[0].memory_bytes - S.allocated_bytes) return KILN_CU_OUT_OF_MEMORY;
    for (int i = 0; i < LIVE_MAX; i++) {
        if (memory[i].data) continue;
        memory[i].size_bytes = size_bytes;
        memory[i].device = current->device;
        memory[i].data = aligned_alloc(256, (size_bytes + 511) / 256 * 256);
        memset(memory[i].data, 0xa5, size_bytes); /* what it held before */
        S.allocations++;
        S.allocated_bytes += size_bytes;
        *out = (uintptr_t)memory[i].data;
        return 0;
    }
    return KILN_CU_OUT_OF_MEMORY;
}

EXPORT(cuMemFree_v2, kiln_cu_pointer pointer) {
    for (int i = 0; i < LIVE_MAX; i++) {
        if (!memory[i].data || (uintptr_t)memory[i].data != pointer) continue;
        S.allocations--;
        S.allocated_bytes -= memory[i].size_bytes;
        free(memory[i].data);
        memory[i].data = NULL;
        return S.spoilt;
    }
    return complain("cuMemFree_v2", "no allocation begins there");
}

EXPORT(cuMemHostAlloc, void **out, size_t size_bytes, unsigned flags) {
    BEGIN("cuMemHostAlloc", 1);
    if (capturing) return refuse_capture();
    if (size_bytes == 0 || flags != 0) return complain("cuMemHostAlloc", "no bytes, or flags");
    for (int i = 0; i < LIVE_MAX; i++) {
        if (host_memory[i].data) continue;
        host_memory[i].size_bytes = size_bytes;
        host_memory[i].data = aligned_alloc(4096, (size_bytes + 4095) / 4096 * 4096);
        memset(host_memory[i].data, 0xa5, size_bytes); /* what it held before */
        S.host_allocations++;
        *out = host_memory[i].data;
        return 0;
    }
    return KILN_CU_OUT_OF_MEMORY;
}

EXPORT(cuMemFreeHost, void *data) {
    for (int i = 0; i < LIVE_MAX; i++) {
        if (!data || host_memory[i].data != data) continue;
        S.host_allocations--;
        free(data);
        host_memory[i].data = NULL;
        return S.spoilt;
    }
    return complain("cuMemFreeHost", "no allocation begins there");
}

static void count_copy(const void *host, size_t size_bytes) {
    S.copies++;
    for (int i = 0; i < LIVE_MAX; i++) {
        const uintptr_t begins = (uintptr_t)host_memory[i].data, at = (uintptr_t)host;
        S.host_copies += begins && at >= begins && size_bytes <= host_memory[i].size_bytes &&
                         at - begins <= host_memory[i].size_bytes - size_bytes;
    }
}

EXPORT(cuPointerGetAttribute, void *out, int which, kiln_cu_pointer pointer) {
    BEGIN("cuPointerGetAttribute", 1);
    for (int i = 0; i < LIVE_MAX; i++) {
        const uintptr_t begins = (uintptr_t)memory[i].data;
        if (!memory[i].data || pointer < begins || pointer >= begins + memory[i].size_bytes)
            continue;
        if (which == KILN_CU_POINTER_MEMORY)
            *(unsigned *)out = KILN_CU_MEMORY_DEVICE;
        else if (which == KILN_CU_POINTER_DEVICE)
            *(int *)out = memory[i].device;
        else
            return complain("cuPointerGetAttribute", "an attribute that it does not have");
        return 0;
    }
    return KILN_CU_INVALID_VALUE; /* the driver never heard of it */
}

static int keep(const node *n) {
    nodes *all = capturing->nodes;
    if (all->count == NODES_MAX) abort();
    all->node[all->count++] = *n;
    return 0;
}

EXPORT(cuMemsetD8Async, kiln_cu_pointer pointer, unsigned char value, size_t size_bytes,
       kiln_cu_stream stream) {
    ON_QUIET_STREAM("cuMemsetD8Async", stream);
    if (!is_memory(pointer, size_bytes)) return complain("cuMemsetD8Async", "beyond an allocation");
    memset((void *)(uintptr_t)pointer, value, size_bytes);
    return 0;
}

EXPORT(cuMemcpyHtoDAsync_v2, kiln_cu_pointer to, const void *from, size_t size_bytes,
       kiln_cu_stream stream) {
    ON_QUIET_STREAM("cuMemcpyHtoDAsync_v2", stream);
    if (!is_memory(to, size_bytes)) return complain("cuMemcpyHtoDAsync_v2", "beyond an allocation");
    memcpy((void *)(uintptr_t)to, from, size_bytes);
    count_copy(from, size_bytes);
    return 0;
}

EXPORT(cuMemcpyDtoHAsync_v2, void *to, kiln_cu_pointer from, size_t size_bytes,
       kiln_cu_stream stream) {
    ON_QUIET_STREAM("cuMemcpyDtoHAsync_v2", stream);
    if (!is_memory(from, size_bytes))
        return complain("cuMemcpyDtoHAsync_v2", "beyond an allocation");
    memcpy(to, (const void *)(uintptr_t)from, size_bytes);
    count_copy(to, size_bytes);
    return 0;
}

EXPORT(cuMemcpyDtoDAsync_v2, kiln_cu_pointer to, kiln_cu_pointer from, size_t size_bytes,
       kiln_cu_stream stream) {
    ON_STREAM("cuMemcpyDtoDAsync_v2", stream);
    if (!is_memory(from, size_bytes) || !is_memory(to, size_bytes))
        return complain("cuMemcpyDtoDAsync_v2", "beyond an allocation");
    if (capturing == (thing *)stream)
        return keep(&(node){.to = to, .from = from, .size_bytes = size_bytes});
    S.copies++;
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size_bytes);
    return 0;
}

/* Text that has the word `nonsense` does not compile. */
EXPORT(cuModuleLoadDataEx, kiln_cu_module *out, const void *image, unsigned count, int *option,
       void **value) {
    BEGIN("cuModuleLoadDataEx", 1);
    if (capturing) return refuse_capture();
    if (strstr(image, "nonsense")) {
        char *log = NULL;
        size_t log_bytes = 0;
        for (unsigned i = 0; i < count; i++) {
            if (option[i] == KILN_CU_JIT_ERROR_LOG) log = value[i];
            if (option[i] == KILN_CU_JIT_ERROR_LOG_BYTES) log_bytes = (uintptr_t)value[i];
        }
        if (log)
            (void)snprintf(
                log, log_bytes,
                "ptxas application ptx input, line 3; fatal : Parsing error near 'nonsense'\n");
        return KILN_CU_INVALID_PTX;
    }
    thing *made = make(MODULE);
    made->text = strdup(image);
    S.modules++;
    *out = (kiln_cu_module)made;
    return 0;
}

EXPORT(cuModuleUnload, kiln_cu_module module) {
    if (!is_alive(module, MODULE)) return complain("cuModuleUnload", "no module");
    for (int i = 0; i < LIVE_MAX; i++)
        if (alive[i] && alive[i]->of == (thing *)module) destroy(alive[i]);
    S.modules--;
    destroy(module);
    return S.spoilt;
}

EXPORT(cuModuleGetFunction, kiln_cu_function *out, kiln_cu_module module, const char *name) {
    BEGIN("cuModuleGetFunction", 1);
    if (!is_alive(module, MODULE)) return complain("cuModuleGetFunction", "no module");
    if (!strstr(((thing *)module)->text, name)) return 500; /* NOT_FOUND */
    thing *made = make(FUNCTION);
    made->of = (thing *)module;
    (void)snprintf(made->entry, sizeof made->entry, "%s", name);
    *out = (kiln_cu_function)made;
    return 0;
}

EXPORT(cuFuncGetAttribute, int *out, int which, kiln_cu_function function) {
    BEGIN("cuFuncGetAttribute", 1);
    if (!is_alive(function, FUNCTION)) return complain("cuFuncGetAttribute", "no function");
    *out = which == KILN_CU_FUNCTION_THREADS
               ? S.function_threads ? S.function_threads : S.device[0].group_threads
               : 0;
    return 0;
}

EXPORT(cuFuncSetAttribute, kiln_cu_function function, int which, int value) {
    BEGIN("cuFuncSetAttribute", 1);
    if (!is_alive(function, FUNCTION)) return complain("cuFuncSetAttribute", "no function");
    if (which != KILN_CU_FUNCTION_DYNAMIC_SHARED || value > S.device[0].group_shared)
        return complain("cuFuncSetAttribute", "more shared memory than the device has");
    S.dynamic_shared = ((thing *)function)->dynamic_shared = value;
    return 0;
}

/* ---- tensor maps ----------------------------------------------------------------------------- */

_Static_assert(sizeof(fake_cuda_map) <= FAKE_CUDA_MAP_BYTES, "what kernels get");
_Static_assert(sizeof(kiln_cu_map) == FAKE_CUDA_MAP_BYTES, "CUDA's size");

static const char *what_is_wrong(const kiln_cu_map *map, int type, uint32_t rank,
                                 const uint32_t *step, int interleave, int swizzle, int promotion,
                                 int fill) {
    if (!map || (uintptr_t)map % 64 != 0) return "the map's address";
    if (type < 0 || type > 12) return "the type";
    if (rank < 1 || rank > 5) return "the rank";
    for (uint32_t d = 0; d < rank; d++)
        if (step[d] < 1 || step[d] > 8) return "a step";
    if (interleave != 0) return "the interleave, which wants three dimensions";
    if (swizzle < 0 || swizzle > 6) return "the swizzle";
    if (promotion < 0 || promotion > 3) return "the promotion";
    return fill == 0 ? NULL : "the fill, which only floats have";
}

static size_t bytes_of_type(int type) {
    static const uint8_t bytes[13] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    return bytes[type];
}

/* Of sizes, strides and box; NULL: nothing, and `out_bytes` is how far the map reaches. */
static const char *what_is_wrong_in(uint32_t rank, size_t element, const uint64_t *size,
                                    const uint64_t *stride, const uint32_t *box, int swizzle,
                                    size_t *out_bytes) {
    *out_bytes = element;
    for (uint32_t d = 0; d < rank; d++) {
        if (size[d] < 1 || size[d] > UINT64_C(1) << 32) return "a size";
        if (box[d] < 1 || box[d] > 256) return "a box";
        if (d > 0 && (stride[d - 1] % 16 != 0 || stride[d - 1] >= UINT64_C(1) << 40))
            return "a stride";
        *out_bytes += (size[d] - 1) * (d > 0 ? stride[d - 1] : element);
    }
    if (box[0] * element % 16 != 0) return "the box's row";
    static const uint32_t row_bytes[7] = {UINT32_MAX, 32, 64, 128, 128, 128, 128};
    return box[0] * element <= row_bytes[swizzle] ? NULL : "the box's row, wider than the swizzle";
}

EXPORT(cuTensorMapEncodeTiled, kiln_cu_map *map, int type, uint32_t rank, void *address,
       const uint64_t *size, const uint64_t *stride, const uint32_t *box, const uint32_t *step,
       int interleave, int swizzle, int promotion, int fill) {
    BEGIN("cuTensorMapEncodeTiled", 1);
    size_t bytes = 0;
    if (S.version < 12000) return complain("cuTensorMapEncodeTiled", "called before there was one");
    const char *wrong = what_is_wrong(map, type, rank, step, interleave, swizzle, promotion, fill);
    if (!wrong)
        wrong = what_is_wrong_in(rank, bytes_of_type(type), size, stride, box, swizzle, &bytes);
    if (wrong) return complain("cuTensorMapEncodeTiled", wrong);
    if ((uintptr_t)address % 16 != 0 || !is_memory((uintptr_t)address, bytes))
        return complain("cuTensorMapEncodeTiled", "the address, or the map reaches beyond memory");
    fake_cuda_map made = {.mark = FAKE_CUDA_MAP_MARK,
                          .address = (uintptr_t)address,
                          .rank = (uint8_t)rank,
                          .type = (uint8_t)type,
                          .swizzle = (uint8_t)swizzle,
                          .promotion = (uint8_t)promotion};
    for (uint32_t d = 0; d < rank; d++) {
        made.size[d] = (uint32_t)size[d];
        made.box[d] = (uint16_t)box[d];
        if (d > 0) made.stride_bytes[d - 1] = stride[d - 1];
    }
    memset(map, 0, sizeof *map);
    memcpy(map, &made, sizeof made);
    S.maps++;
    return 0;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* What a function's text declares: pointers, then maps. */
typedef struct signature {
    int pointers, maps;
    unsigned cluster;
} signature;

static signature signature_of(const thing *function) {
    signature s = {.cluster = 1};
    const char *at = strstr(function->of->text, function->entry);
    const char *end = at ? strchr(at, ')') : NULL, *body = end ? strchr(end, '{') : NULL;
    for (; at && (at = strstr(at, ".param")) && at < end; at++) {
        const char *next = strchr(at, ','), *array = strchr(at, '[');
        if (!next || next > end) next = end;
        s.maps += array && array < next;
        s.pointers += !array || array >= next;
    }
    const char *cluster = end ? strstr(end, ".reqnctapercluster ") : NULL;
    if (cluster && cluster < body) (void)sscanf(cluster, ".reqnctapercluster %u", &s.cluster);
    return s;
}

static int is_map(const void *parameter) {
    fake_cuda_map map;
    if (!parameter) return 0;
    memcpy(&map, parameter, sizeof map);
    return map.mark == FAKE_CUDA_MAP_MARK && is_memory(map.address, 1);
}

/* There are as many as the text declares. */
static int check_parameters(const thing *function, void **parameter) {
    const signature s = signature_of(function);
    for (int i = 0; i < s.pointers; i++)
        if (!parameter[i] || !is_memory(*(kiln_cu_pointer *)parameter[i], 1)) return 0;
    for (int i = 0; i < s.maps; i++)
        if (!is_map(parameter[s.pointers + i])) return 0;
    return 1;
}

static void run(const thing *function, const uint32_t grid[3], const uint32_t group[3],
                void **parameter) {
    clock_us += S.launch_us;
    for (int i = 0; i < FAKE_CUDA_KERNELS_MAX; i++)
        if (S.kernel[i].entry && strcmp(S.kernel[i].entry, function->entry) == 0)
            S.kernel[i].run(grid, group, parameter);
}

static int keep_launch(thing *function, const uint32_t grid[3], const uint32_t group[3],
                       unsigned shared_bytes, void **parameter) {
    node n = {.function = function, .shared_bytes = shared_bytes};
    memcpy(n.grid, grid, sizeof n.grid);
    memcpy(n.group, group, sizeof n.group);
    const signature s = signature_of(function);
    for (int i = 0; i < s.pointers; i++) n.parameter[i] = *(kiln_cu_pointer *)parameter[i];
    for (int i = 0; i < s.maps; i++)
        memcpy(n.map[i], parameter[s.pointers + i], FAKE_CUDA_MAP_BYTES);
    return keep(&n);
}

EXPORT(cuLaunchKernel, kiln_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
       unsigned group_x, unsigned group_y, unsigned group_z, unsigned shared_bytes,
       kiln_cu_stream stream, void **parameter, void **extra) {
    ON_STREAM("cuLaunchKernel", stream);
    const uint32_t grid[3] = {grid_x, grid_y, grid_z}, group[3] = {group_x, group_y, group_z};
    thing *of = (thing *)function;
    if (!is_alive(function, FUNCTION)) return complain("cuLaunchKernel", "no function");
    if (extra || grid_x * grid_y * grid_z == 0 || group_x * group_y * group_z == 0 ||
        group_x * group_y * group_z > (unsigned)S.device[0].group_threads)
        return complain("cuLaunchKernel", "a grid or a group");
    if (shared_bytes > 49152 && (int)shared_bytes > of->dynamic_shared)
        return complain("cuLaunchKernel", "shared memory that the function was not allowed");
    if (!check_parameters(of, parameter))
        return complain("cuLaunchKernel", "a parameter that is no memory of the device, or no map");
    const unsigned cluster = signature_of(of).cluster;
    if (cluster == 0 || grid_x % cluster != 0)
        return complain("cuLaunchKernel", "a grid that is no multiple of the cluster");
    if (capturing == (thing *)stream) return keep_launch(of, grid, group, shared_bytes, parameter);
    S.launch_shared = (int)shared_bytes;
    S.launch_cluster = (int)cluster;
    S.launches++;
    run(of, grid, group, parameter);
    return 0;
}

EXPORT(cuStreamBeginCapture_v2, kiln_cu_stream stream, int mode) {
    ON_STREAM("cuStreamBeginCapture_v2", stream);
    if (mode < 0 || mode > 2) return complain("cuStreamBeginCapture_v2", "mode");
    if (capturing) return complain("cuStreamBeginCapture_v2", "a capture is under way");
    capturing = (thing *)stream;
    capturing->nodes = calloc(1, sizeof *capturing->nodes);
    capturing->is_broken = 0;
    S.captures++;
    return 0;
}

EXPORT(cuStreamEndCapture, kiln_cu_stream stream, kiln_cu_graph *out) {
    if (capturing != (thing *)stream) return complain("cuStreamEndCapture", "nothing is captured");
    nodes *taken = capturing->nodes;
    const int is_broken = capturing->is_broken;
    capturing->nodes = NULL;
    capturing = NULL;
    int code = begin("cuStreamEndCapture", 1);
    if (!code && is_broken) code = CAPTURE_INVALIDATED;
    if (code) {
        free(taken);
        *out = NULL;
        return code;
    }
    thing *made = make(GRAPH);
    made->nodes = taken;
    S.graphs++;
    *out = (kiln_cu_graph)made;
    return 0;
}

EXPORT(cuGraphInstantiateWithFlags, kiln_cu_graph_exec *out, kiln_cu_graph graph,
       unsigned long long flags) {
    BEGIN("cuGraphInstantiateWithFlags", 1);
    if (flags || !is_alive(graph, GRAPH))
        return complain("cuGraphInstantiateWithFlags", "no graph, or flags");
    thing *made = make(GRAPH_EXEC);
    made->nodes = malloc(sizeof *made->nodes);
    *made->nodes = *((thing *)graph)->nodes;
    S.graphs++;
    *out = (kiln_cu_graph_exec)made;
    return 0;
}

static int destroy_graph(const char *symbol, void *graph, int kind) {
    if (!is_alive(graph, kind)) return complain(symbol, "no graph");
    S.graphs--;
    destroy(graph);
    return S.spoilt;
}

EXPORT(cuGraphDestroy, kiln_cu_graph graph) {
    return destroy_graph("cuGraphDestroy", graph, GRAPH);
}

EXPORT(cuGraphExecDestroy, kiln_cu_graph_exec graph) {
    return destroy_graph("cuGraphExecDestroy", graph, GRAPH_EXEC);
}

/* What it was given must still be there. */
static int run_node(const node *n) {
    void *parameter[PARAMETERS_MAX];
    if (!n->function) {
        if (!is_memory(n->from, n->size_bytes) || !is_memory(n->to, n->size_bytes))
            return complain("cuGraphLaunch", "a copy of memory that is gone");
        memmove((void *)(uintptr_t)n->to, (const void *)(uintptr_t)n->from, n->size_bytes);
        return 0;
    }
    if (!is_alive(n->function, FUNCTION))
        return complain("cuGraphLaunch", "a function that is gone");
    const signature s = signature_of(n->function);
    for (int i = 0; i < s.pointers; i++) parameter[i] = (void *)(uintptr_t)&n->parameter[i];
    for (int i = 0; i < s.maps; i++) parameter[s.pointers + i] = (void *)(uintptr_t)n->map[i];
    if (!check_parameters(n->function, parameter))
        return complain("cuGraphLaunch", "memory that is gone");
    run(n->function, n->grid, n->group, parameter);
    return 0;
}

EXPORT(cuGraphLaunch, kiln_cu_graph_exec graph, kiln_cu_stream stream) {
    ON_QUIET_STREAM("cuGraphLaunch", stream);
    if (!is_alive(graph, GRAPH_EXEC)) return complain("cuGraphLaunch", "no graph");
    const nodes *all = ((thing *)graph)->nodes;
    S.graph_launches++;
    for (int i = 0; i < all->count; i++) {
        const int wrong = run_node(&all->node[i]);
        if (wrong) return wrong;
    }
    return 0;
}

static void read_number(const char *variable, int *out) {
    const char *text = getenv(variable);
    if (text) (void)sscanf(text, "%d", out);
}

/* Programs that no test looks into are told by their environment. */
__attribute__((constructor)) static void read_environment(void) {
    const char *fail = getenv("KILN_CUDA_FAKE_FAIL");
    static char symbol[64];
    if (fail && sscanf(fail, "%63[^:]:%d:%d", symbol, &S.fail_at, &S.fail_code) == 3)
        S.fail_symbol = symbol;
    const char *count = getenv("KILN_CUDA_FAKE_DEVICES");
    if (count && count[0] >= '0' && count[0] <= '0' + FAKE_CUDA_DEVICES_MAX)
        S.device_count = count[0] - '0';
    read_number("KILN_CUDA_FAKE_VERSION", &S.version);
    read_number("KILN_CUDA_FAKE_MAJOR", &S.device[0].major);
    read_number("KILN_CUDA_FAKE_THREADS", &S.device[0].group_threads);
    read_number("KILN_CUDA_FAKE_SHARED", &S.device[0].group_shared);
    int memory_mib = 0;
    read_number("KILN_CUDA_FAKE_MEMORY_MIB", &memory_mib);
    if (memory_mib > 0) S.device[0].memory_bytes = (size_t)memory_mib << 20;
    for (int i = 1; i < S.device_count; i++) S.device[i] = S.device[0];
}
