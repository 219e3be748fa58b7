/* The part of OpenCL 1.2 that Kiln uses: types, constants and functions, by the names of the
 * Khronos headers with Kiln's prefix, so that building needs no package. The functions are those of
 * libOpenCL.so.1, loaded when a device is opened (driver.h). Source: the Khronos OpenCL
 * specification, version 1.2.
 */
#ifndef KILN_DEPLOY_OPENCL_H
#define KILN_DEPLOY_OPENCL_H

#include <stddef.h>
#include <stdint.h>

typedef struct kiln_cl_platform *kiln_cl_platform;
typedef struct kiln_cl_device *kiln_cl_device;
typedef struct kiln_cl_context *kiln_cl_context;
typedef struct kiln_cl_queue *kiln_cl_queue;
typedef struct kiln_cl_mem *kiln_cl_mem;
typedef struct kiln_cl_program *kiln_cl_program;
typedef struct kiln_cl_kernel *kiln_cl_kernel;
typedef struct kiln_cl_event *kiln_cl_event;

enum {
    KILN_CL_SUCCESS = 0,
    KILN_CL_DEVICE_NOT_FOUND = -1,
    KILN_CL_DEVICE_NOT_AVAILABLE = -2,
    KILN_CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
    KILN_CL_OUT_OF_RESOURCES = -5,
    KILN_CL_OUT_OF_HOST_MEMORY = -6,
    KILN_CL_BUILD_PROGRAM_FAILURE = -11,
    KILN_CL_EXEC_STATUS_ERROR = -14,
    KILN_CL_INVALID_VALUE = -30,
    KILN_CL_INVALID_CONTEXT = -34,
    KILN_CL_INVALID_COMMAND_QUEUE = -36,
    KILN_CL_INVALID_BUFFER_SIZE = -61,
    KILN_CL_NO_PLATFORM = -1001,   /* cl_khr_icd */
    KILN_CL_ILLEGAL_ACCESS = -9999 /* NVIDIA's, undocumented */
};

enum {
    KILN_CL_FALSE = 0,
    KILN_CL_TRUE = 1,
    KILN_CL_PLATFORM_VERSION = 0x0901,
    KILN_CL_PLATFORM_NAME = 0x0902,
    KILN_CL_DEVICE_TYPE_CPU = 1 << 1,
    KILN_CL_DEVICE_TYPE = 0x1000,
    KILN_CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
    KILN_CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    KILN_CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    KILN_CL_DEVICE_MEM_BASE_ADDR_ALIGN = 0x1019, /* in bits */
    KILN_CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
    KILN_CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    KILN_CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    KILN_CL_DEVICE_NAME = 0x102B,
    KILN_CL_DRIVER_VERSION = 0x102D,
    KILN_CL_DEVICE_VERSION = 0x102F,
    KILN_CL_DEVICE_EXTENSIONS = 0x1030,
    KILN_CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT = 0x103A,
    KILN_CL_FP_FMA = 1 << 5,
    KILN_CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 1 << 7,
    KILN_CL_QUEUE_PROFILING_ENABLE = 1 << 1,
    KILN_CL_MEM_READ_WRITE = 1 << 0,
    KILN_CL_MEM_ALLOC_HOST_PTR = 1 << 4,
    KILN_CL_MAP_READ = 1 << 0,
    KILN_CL_MAP_WRITE = 1 << 1,
    KILN_CL_BUFFER_CREATE_TYPE_REGION = 0x1220,
    KILN_CL_PROGRAM_BUILD_LOG = 0x1183,
    KILN_CL_MEM_SIZE = 0x1102,
    KILN_CL_MEM_CONTEXT = 0x1106,
    KILN_CL_KERNEL_NUM_ARGS = 0x1191,
    KILN_CL_KERNEL_WORK_GROUP_SIZE = 0x11B0,
    KILN_CL_KERNEL_LOCAL_MEM_SIZE = 0x11B2,
    KILN_CL_PROFILING_COMMAND_END = 0x1283
};

typedef struct kiln_cl_region {
    size_t origin, size;
} kiln_cl_region;

/* X(result, name, parameters) */
#define KILN_CL_FUNCTIONS(X)                                                                       \
    X(int32_t, GetPlatformIDs, (uint32_t, kiln_cl_platform *, uint32_t *))                         \
    X(int32_t, GetPlatformInfo, (kiln_cl_platform, uint32_t, size_t, void *, size_t *))            \
    X(int32_t, GetDeviceIDs, (kiln_cl_platform, uint64_t, uint32_t, kiln_cl_device *, uint32_t *)) \
    X(int32_t, GetDeviceInfo, (kiln_cl_device, uint32_t, size_t, void *, size_t *))                \
    X(kiln_cl_context, CreateContext,                                                              \
      (const intptr_t *, uint32_t, const kiln_cl_device *,                                         \
       void (*)(const char *, const void *, size_t, void *), void *, int32_t *))                   \
    X(int32_t, ReleaseContext, (kiln_cl_context))                                                  \
    X(kiln_cl_queue, CreateCommandQueue, (kiln_cl_context, kiln_cl_device, uint64_t, int32_t *))   \
    X(int32_t, ReleaseCommandQueue, (kiln_cl_queue))                                               \
    X(kiln_cl_mem, CreateBuffer, (kiln_cl_context, uint64_t, size_t, void *, int32_t *))           \
    X(kiln_cl_mem, CreateSubBuffer, (kiln_cl_mem, uint64_t, uint32_t, const void *, int32_t *))    \
    X(int32_t, GetMemObjectInfo, (kiln_cl_mem, uint32_t, size_t, void *, size_t *))                \
    X(int32_t, ReleaseMemObject, (kiln_cl_mem))                                                    \
    X(kiln_cl_program, CreateProgramWithSource,                                                    \
      (kiln_cl_context, uint32_t, const char **, const size_t *, int32_t *))                       \
    X(int32_t, BuildProgram,                                                                       \
      (kiln_cl_program, uint32_t, const kiln_cl_device *, const char *,                            \
       void (*)(kiln_cl_program, void *), void *))                                                 \
    X(int32_t, GetProgramBuildInfo,                                                                \
      (kiln_cl_program, kiln_cl_device, uint32_t, size_t, void *, size_t *))                       \
    X(int32_t, ReleaseProgram, (kiln_cl_program))                                                  \
    X(kiln_cl_kernel, CreateKernel, (kiln_cl_program, const char *, int32_t *))                    \
    X(int32_t, ReleaseKernel, (kiln_cl_kernel))                                                    \
    X(int32_t, SetKernelArg, (kiln_cl_kernel, uint32_t, size_t, const void *))                     \
    X(int32_t, GetKernelInfo, (kiln_cl_kernel, uint32_t, size_t, void *, size_t *))                \
    X(int32_t, GetKernelWorkGroupInfo,                                                             \
      (kiln_cl_kernel, kiln_cl_device, uint32_t, size_t, void *, size_t *))                        \
    X(int32_t, EnqueueNDRangeKernel,                                                               \
      (kiln_cl_queue, kiln_cl_kernel, uint32_t, const size_t *, const size_t *, const size_t *,    \
       uint32_t, const kiln_cl_event *, kiln_cl_event *))                                          \
    X(int32_t, EnqueueReadBuffer,                                                                  \
      (kiln_cl_queue, kiln_cl_mem, uint32_t, size_t, size_t, void *, uint32_t,                     \
       const kiln_cl_event *, kiln_cl_event *))                                                    \
    X(int32_t, EnqueueWriteBuffer,                                                                 \
      (kiln_cl_queue, kiln_cl_mem, uint32_t, size_t, size_t, const void *, uint32_t,               \
       const kiln_cl_event *, kiln_cl_event *))                                                    \
    X(int32_t, EnqueueCopyBuffer,                                                                  \
      (kiln_cl_queue, kiln_cl_mem, kiln_cl_mem, size_t, size_t, size_t, uint32_t,                  \
       const kiln_cl_event *, kiln_cl_event *))                                                    \
    X(int32_t, EnqueueFillBuffer,                                                                  \
      (kiln_cl_queue, kiln_cl_mem, const void *, size_t, size_t, size_t, uint32_t,                 \
       const kiln_cl_event *, kiln_cl_event *))                                                    \
    X(void *, EnqueueMapBuffer,                                                                    \
      (kiln_cl_queue, kiln_cl_mem, uint32_t, uint64_t, size_t, size_t, uint32_t,                   \
       const kiln_cl_event *, kiln_cl_event *, int32_t *))                                         \
    X(int32_t, EnqueueUnmapMemObject,                                                              \
      (kiln_cl_queue, kiln_cl_mem, void *, uint32_t, const kiln_cl_event *, kiln_cl_event *))      \
    X(int32_t, EnqueueMarkerWithWaitList,                                                          \
      (kiln_cl_queue, uint32_t, const kiln_cl_event *, kiln_cl_event *))                           \
    X(int32_t, WaitForEvents, (uint32_t, const kiln_cl_event *))                                   \
    X(int32_t, GetEventProfilingInfo, (kiln_cl_event, uint32_t, size_t, void *, size_t *))         \
    X(int32_t, ReleaseEvent, (kiln_cl_event))                                                      \
    X(int32_t, Flush, (kiln_cl_queue))                                                             \
    X(int32_t, Finish, (kiln_cl_queue))

/* The functions by their names without "cl". */
typedef struct kiln_cl {
#define X(result, name, parameters) result(*name) parameters;
    KILN_CL_FUNCTIONS(X)
#undef X
} kiln_cl;

#endif
