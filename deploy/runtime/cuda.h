/* The part of the CUDA driver API that Kiln uses: types, constants and functions, by the names of
 * NVIDIA's header with Kiln's prefix, so that building needs no package. The functions are those of
 * libcuda.so.1, loaded when a device is opened (driver.h). Source: CUDA Driver API reference,
 * version 12; all of it exists since 11.0, unless a table says otherwise. */
#ifndef KILN_DEPLOY_CUDA_H
#define KILN_DEPLOY_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kiln_cu_context *kiln_cu_context;
typedef struct kiln_cu_module *kiln_cu_module;
typedef struct kiln_cu_function *kiln_cu_function;
typedef struct kiln_cu_stream *kiln_cu_stream;
typedef struct kiln_cu_event *kiln_cu_event;
typedef struct kiln_cu_graph *kiln_cu_graph;
typedef struct kiln_cu_graph_exec *kiln_cu_graph_exec;
typedef int kiln_cu_device;
typedef unsigned long long kiln_cu_pointer; /* to memory of a device */

enum {
    KILN_CU_SUCCESS = 0,
    KILN_CU_INVALID_VALUE = 1,
    KILN_CU_OUT_OF_MEMORY = 2,
    KILN_CU_NO_DEVICE = 100,
    KILN_CU_INVALID_PTX = 218,
    KILN_CU_UNSUPPORTED_PTX_VERSION = 222,
    KILN_CU_ILLEGAL_ADDRESS = 700
};

enum {
    KILN_CU_ATTRIBUTE_GROUP_THREADS = 1, /* MAX_THREADS_PER_BLOCK */
    KILN_CU_ATTRIBUTE_UNITS = 16,        /* MULTIPROCESSOR_COUNT */
    KILN_CU_ATTRIBUTE_MAJOR = 75,        /* COMPUTE_CAPABILITY_MAJOR */
    KILN_CU_ATTRIBUTE_MINOR = 76,        /* COMPUTE_CAPABILITY_MINOR */
    KILN_CU_ATTRIBUTE_GROUP_SHARED = 97, /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
    KILN_CU_POINTER_MEMORY = 2,          /* MEMORY_TYPE */
    KILN_CU_POINTER_DEVICE = 9,          /* DEVICE_ORDINAL */
    KILN_CU_MEMORY_DEVICE = 2,           /* MEMORYTYPE_DEVICE */
    KILN_CU_FUNCTION_THREADS = 0,        /* MAX_THREADS_PER_BLOCK */
    KILN_CU_FUNCTION_STATIC_SHARED = 1,  /* SHARED_SIZE_BYTES */
    KILN_CU_FUNCTION_DYNAMIC_SHARED = 8, /* MAX_DYNAMIC_SHARED_SIZE_BYTES */
    KILN_CU_JIT_ERROR_LOG = 5,           /* ERROR_LOG_BUFFER */
    KILN_CU_JIT_ERROR_LOG_BYTES = 6,     /* ERROR_LOG_BUFFER_SIZE_BYTES */
    KILN_CU_STREAM_NON_BLOCKING = 1,
    KILN_CU_EVENT_DEFAULT = 0,
    KILN_CU_CAPTURE_THREAD = 1 /* STREAM_CAPTURE_MODE_THREAD_LOCAL */
};

/* A tensor map (CUtensorMap), opaque: kernels get it by value. */
typedef struct kiln_cu_map {
    _Alignas(64) uint64_t word[16];
} kiln_cu_map;

/* What tensor maps are encoded with: TENSOR_MAP_*. */
enum {
    KILN_CU_MAP_UINT8 = 0, /* DATA_TYPE_* */
    KILN_CU_MAP_UINT16 = 1,
    KILN_CU_MAP_UINT32 = 2,
    KILN_CU_MAP_UINT64 = 4,
    KILN_CU_MAP_INTERLEAVE_NONE = 0,
    KILN_CU_MAP_SWIZZLE_NONE = 0,
    KILN_CU_MAP_SWIZZLE_128B = 3,      /* units of 16 bytes within 128 */
    KILN_CU_MAP_L2_PROMOTION_256B = 3, /* bytes that the L2 fetches at once */
    KILN_CU_MAP_FILL_ZEROS = 0         /* FLOAT_OOB_FILL_NONE */
};

/* X(name, symbol, parameters); every one returns a CUresult, an int. The symbol contains the
 * version of the interface where that changed. */
#define KILN_CU_FUNCTIONS(X)                                                                      \
    X(Init, "cuInit", (unsigned))                                                                 \
    X(DriverGetVersion, "cuDriverGetVersion", (int *))                                            \
    X(GetErrorName, "cuGetErrorName", (int, const char **))                                       \
    X(GetErrorString, "cuGetErrorString", (int, const char **))                                   \
    X(DeviceGetCount, "cuDeviceGetCount", (int *))                                                \
    X(DeviceGet, "cuDeviceGet", (kiln_cu_device *, int))                                          \
    X(DeviceGetName, "cuDeviceGetName", (char *, int, kiln_cu_device))                            \
    X(DeviceGetPCIBusId, "cuDeviceGetPCIBusId", (char *, int, kiln_cu_device))                    \
    X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *, kiln_cu_device))                          \
    X(DeviceGetAttribute, "cuDeviceGetAttribute", (int *, int, kiln_cu_device))                   \
    X(PrimaryRetain, "cuDevicePrimaryCtxRetain", (kiln_cu_context *, kiln_cu_device))             \
    X(PrimaryRelease, "cuDevicePrimaryCtxRelease_v2", (kiln_cu_device))                           \
    X(CtxSetCurrent, "cuCtxSetCurrent", (kiln_cu_context))                                        \
    X(StreamCreate, "cuStreamCreate", (kiln_cu_stream *, unsigned))                               \
    X(StreamDestroy, "cuStreamDestroy_v2", (kiln_cu_stream))                                      \
    X(StreamSynchronize, "cuStreamSynchronize", (kiln_cu_stream))                                 \
    X(EventCreate, "cuEventCreate", (kiln_cu_event *, unsigned))                                  \
    X(EventDestroy, "cuEventDestroy_v2", (kiln_cu_event))                                         \
    X(EventRecord, "cuEventRecord", (kiln_cu_event, kiln_cu_stream))                              \
    X(EventSynchronize, "cuEventSynchronize", (kiln_cu_event))                                    \
    X(EventElapsedTime, "cuEventElapsedTime", (float *, kiln_cu_event, kiln_cu_event))            \
    X(MemGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))                                        \
    X(MemAlloc, "cuMemAlloc_v2", (kiln_cu_pointer *, size_t))                                     \
    X(MemFree, "cuMemFree_v2", (kiln_cu_pointer))                                                 \
    X(MemHostAlloc, "cuMemHostAlloc", (void **, size_t, unsigned))                                \
    X(MemFreeHost, "cuMemFreeHost", (void *))                                                     \
    X(PointerGetAttribute, "cuPointerGetAttribute", (void *, int, kiln_cu_pointer))               \
    X(MemsetD8Async, "cuMemsetD8Async", (kiln_cu_pointer, unsigned char, size_t, kiln_cu_stream)) \
    X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                                    \
      (kiln_cu_pointer, const void *, size_t, kiln_cu_stream))                                    \
    X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *, kiln_cu_pointer, size_t, kiln_cu_stream)) \
    X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                                                    \
      (kiln_cu_pointer, kiln_cu_pointer, size_t, kiln_cu_stream))                                 \
    X(ModuleLoadDataEx, "cuModuleLoadDataEx",                                                     \
      (kiln_cu_module *, const void *, unsigned, int *, void **))                                 \
    X(ModuleUnload, "cuModuleUnload", (kiln_cu_module))                                           \
    X(ModuleGetFunction, "cuModuleGetFunction",                                                   \
      (kiln_cu_function *, kiln_cu_module, const char *))                                         \
    X(FuncGetAttribute, "cuFuncGetAttribute", (int *, int, kiln_cu_function))                     \
    X(FuncSetAttribute, "cuFuncSetAttribute", (kiln_cu_function, int, int))                       \
    X(LaunchKernel, "cuLaunchKernel",                                                             \
      (kiln_cu_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,    \
       kiln_cu_stream, void **, void **))

/* The same for graphs, since 11.4: without them each launch is a separate call. */
#define KILN_CU_GRAPH_FUNCTIONS(X)                                         \
    X(BeginCapture, "cuStreamBeginCapture_v2", (kiln_cu_stream, int))      \
    X(EndCapture, "cuStreamEndCapture", (kiln_cu_stream, kiln_cu_graph *)) \
    X(GraphInstantiate, "cuGraphInstantiateWithFlags",                     \
      (kiln_cu_graph_exec *, kiln_cu_graph, unsigned long long))           \
    X(GraphDestroy, "cuGraphDestroy", (kiln_cu_graph))                     \
    X(GraphLaunch, "cuGraphLaunch", (kiln_cu_graph_exec, kiln_cu_stream))  \
    X(GraphExecDestroy, "cuGraphExecDestroy", (kiln_cu_graph_exec))

/* The same for tensor maps, since 12.0. Map, type, rank, address, sizes, strides in bytes (rank -
 * 1), box, steps between elements, interleave, swizzle, promotion, fill. */
#define KILN_CU_MAP_VERSION 12000
#define KILN_CU_MAP_FUNCTIONS(X)                                                                   \
    X(TensorMapEncodeTiled, "cuTensorMapEncodeTiled",                                              \
      (kiln_cu_map *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *, \
       const uint32_t *, int, int, int, int))

/* The functions by their names without "cu". */
typedef struct kiln_cu {
#define X(name, symbol, parameters) int(*name) parameters;
    KILN_CU_FUNCTIONS(X)
    KILN_CU_GRAPH_FUNCTIONS(X)
    KILN_CU_MAP_FUNCTIONS(X)
#undef X
    bool has_graphs; /* the functions of graphs exist */
    bool has_maps;   /* that of tensor maps exists */
} kiln_cu;

#endif
