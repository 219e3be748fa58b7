/* INSTALLED. Opens, inspects and runs a compiled model. C99, stable, needs only libc and threads.
 *
 * Functions that can fail return 0 or the number of an error in base/status.def (14 = the file is
 * damaged) and leave one line of text in `error` when it is not NULL. A module is native code:
 * checks find damage, they do not make an untrusted module safe to run.
 *
 * A handle is used by one thread at a time; several handles on one file share its weights. The file
 * is mapped: replace it by rename, never write into it, while it is open. */
#ifndef KILN_MODULE_H
#define KILN_MODULE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_MODULE_ERROR_BYTES 1024 /* enough for any error text */

typedef struct kiln_module kiln_module;

typedef struct kiln_module_options {
    uint32_t threads; /* maximum; 0 or a larger number: as many as the module was compiled for */
    const uint32_t
        *core; /* [threads] cores of the threads, the first entry unused; NULL: anywhere */
} kiln_module_options;

/* Element types, as numbered in base/dtype.def. */
enum {
    KILN_MODULE_F32 = 1,
    KILN_MODULE_F64 = 2,
    KILN_MODULE_F16 = 3,
    KILN_MODULE_BF16 = 4,
    KILN_MODULE_I8 = 5,
    KILN_MODULE_I16 = 6,
    KILN_MODULE_I32 = 7,
    KILN_MODULE_I64 = 8,
    KILN_MODULE_U8 = 9,
    KILN_MODULE_U16 = 10,
    KILN_MODULE_U32 = 11,
    KILN_MODULE_U64 = 12,
    KILN_MODULE_BOOL = 13,
    /* Floats of at most 8 bits, one in each byte. */
    KILN_MODULE_F8E4M3FN = 14,
    KILN_MODULE_F8E4M3FNUZ = 15,
    KILN_MODULE_F8E5M2 = 16,
    KILN_MODULE_F8E5M2FNUZ = 17,
    KILN_MODULE_F8E8M0 = 18, /* powers of two */
    KILN_MODULE_F4E2M1 = 19  /* in the lowest 4 bits */
};

/* An input or output: dense, row-major. */
typedef struct kiln_module_port {
    const char *name;
    uint32_t dtype;
    uint32_t rank;
    const int64_t *shape; /* [rank] */
    size_t size_bytes;
} kiln_module_port;

/* The last three occur in modules with further devices or loops: waiting for a device, repeating
 * the steps that follow, and passing a value to the next iteration. */
enum {
    KILN_MODULE_STEP_KERNEL = 1,
    KILN_MODULE_STEP_ALIAS = 2,
    KILN_MODULE_STEP_COPY = 3,
    KILN_MODULE_STEP_EVENT = 4,
    KILN_MODULE_STEP_LOOP = 5,
    KILN_MODULE_STEP_CARRY = 6
};

/* One step of a run, in order. */
typedef struct kiln_module_step {
    const char *name;      /* of the graph's node or group of nodes */
    const char *op;        /* "conv2d+relu", "reshape" */
    const char *task;      /* task key; "" when it is no kernel */
    const char *algorithm; /* of the kernel; "" when it is no kernel */
    uint32_t action;       /* calls a kernel, renames bytes (takes no time), or copies them */
    double flops;          /* of one run; in a loop: of one iteration */
    uint32_t body_count;   /* of a loop: number of steps behind it that are its body */
    uint64_t trip_max;     /* of a loop: maximum number of iterations */
    double times;          /* executions in one run of the module; 0: known at run time only */
} kiln_module_step;

/* `options` may be NULL. Loads and links every kernel and packs the weights: all slow work is done
 * here. */
int kiln_module_open(const char *path, const kiln_module_options *options, kiln_module **out_module,
                     char *error, size_t error_bytes);
/* The same on bytes in memory, aligned to 64, which stay the caller's and must outlive the module.
 */
int kiln_module_open_memory(const void *data, size_t size_bytes, const kiln_module_options *options,
                            kiln_module **out_module, char *error, size_t error_bytes);
/* Checks every byte of a module for any machine, without loading code. */
int kiln_module_verify(const char *path, char *error, size_t error_bytes);

/* Pointers live as long as the module. Indices must be below the counts. */
uint32_t kiln_module_input_count(const kiln_module *module);
uint32_t kiln_module_output_count(const kiln_module *module);
uint32_t kiln_module_step_count(const kiln_module *module);
uint32_t kiln_module_kernel_count(const kiln_module *module);
const kiln_module_port *kiln_module_input(const kiln_module *module, uint32_t index);
const kiln_module_port *kiln_module_output(const kiln_module *module, uint32_t index);
const kiln_module_step *kiln_module_step_at(const kiln_module *module, uint32_t index);
/* Where the code of a step's kernel lies in this process, for profilers; NULL and 0 when it is no
 * kernel. */
const void *kiln_module_step_code(const kiln_module *module, uint32_t index, size_t *out_bytes);
uint32_t kiln_module_threads(const kiln_module *module);
/* "model", "target", "codegen", ...; NULL when the module has no such entry. */
const char *kiln_module_metadata(const kiln_module *module, const char *key);
/* Bytes held: activations and scratch; packed weights; constants in the file. */
size_t kiln_module_arena_bytes(const kiln_module *module);
size_t kiln_module_packed_bytes(const kiln_module *module);
size_t kiln_module_constant_bytes(const kiln_module *module);

/* A module may have been compiled for several sizes of one dimension (docs/how-to/sizes.md): it has
 * kernels for each, its buckets. Its ports have the shapes of the current size, initially the
 * largest. If rows of the dimension are independent, it takes every size up to the largest, by
 * padding and splitting runs; else only those of its buckets. */
typedef struct kiln_module_size_info {
    const char *dim;  /* its name in the model; NULL: the module has one size, the rest is 0 */
    int64_t size;     /* current size */
    int64_t size_min; /* the smallest and largest that it takes */
    int64_t size_max;
    int takes_all; /* 1: every size between them; 0: only those of buckets */
    uint32_t bucket_count;
    const int64_t *bucket; /* [bucket_count] their sizes, ascending */
    int64_t bucket_runs;   /* size of the bucket that runs the current size, possibly several
                            * times */
} kiln_module_size_info;
kiln_module_size_info kiln_module_describe_sizes(const kiln_module *module);
/* Sets the size of later runs. Pointers to ports stay valid; their shapes and bytes change; steps
 * are those of the bucket that runs. Allocates nothing. OUT_OF_RANGE (11): the module does not take
 * that size; INVALID_ARGUMENT (3): it has one size; the text is in kiln_module_error.
 */
int kiln_module_set_size(kiln_module *module, int64_t size);
/* Shape [rank of the port] and bytes of a port in any size, not only the current one. May be
 * called while another thread runs. OUT_OF_RANGE: the module does not take that size. */
int kiln_module_port_at(const kiln_module *module, int is_output, uint32_t index, int64_t size,
                        int64_t *out_shape, size_t *out_bytes);
/* The size in which an input has this shape, which may be out of range; 0: no size, or all
 * sizes. */
int64_t kiln_module_size_of(const kiln_module *module, uint32_t input, uint32_t rank,
                            const int64_t *shape);

/* Called before (`done` 0) and after (`done` 1) each step, on the running thread; NULL turns it
 * off. Calls for steps of a loop's body come between the two calls of the loop, once per iteration.
 * A step's work on a device is finished before the call with `done` 1, so runs with a hook wait
 * more often. */
typedef void (*kiln_module_hook)(void *context, uint32_t step, int done);
void kiln_module_set_hook(kiln_module *module, kiln_module_hook hook, void *context);
/* In a hook call with `done` 1: ns of the step by the clock of its device; 0 if it ran on the
 * processor. The host's clock would add the time to wake the waiting host. */
uint64_t kiln_module_step_device_ns(const kiln_module *module);

/* The number of rows (of its first dimension) of an output in the last run. Fewer than in its shape
 * if they are stacked by a loop whose length is known at run time only: then zeros follow them, and
 * the number is 0 before the first run. */
int64_t kiln_module_output_rows(const kiln_module *module, uint32_t index);

/* Keeps state in the module between runs, such as a cache of keys and values or the state of a
 * recurrence: `output` of a run becomes `input` of the next one. Both must have one type and shape.
 * Afterwards both lie in memory of the module, twice their size, on its device if only that uses
 * them: kiln_module_run and kiln_module_run_tensors take NULL in their places. The state is zeros
 * at first. A run that fails does not change the state.
 *
 * INVALID_ARGUMENT (3): there is no such port, they differ in type or shape, one of them is kept
 * already, or its shape depends on the size of a module of several; FAILED_PRECONDITION (9): the
 * module cannot run; RESOURCE_EXHAUSTED (8): there is no memory for it. The text is in
 * kiln_module_error.
 */
int kiln_module_keep(kiln_module *module, uint32_t input, uint32_t output);
/* The output that is kept for an input, or the input for an output; -1: the port is not kept. */
int64_t kiln_module_kept_with(const kiln_module *module, int is_output, uint32_t index);
/* Sets all kept state to zeros. INTERNAL (2): a device failed, here and below. */
int kiln_module_reset(kiln_module *module);
/* Copies the state that the next run reads for a kept input, size_bytes, to the caller's memory, or
 * from it (NULL: zeros). INVALID_ARGUMENT: the input is not kept. */
int kiln_module_read_state(kiln_module *module, uint32_t input, void *data);
int kiln_module_write_state(kiln_module *module, uint32_t input, const void *data);

/* Runs once. `inputs` and `outputs` are arrays of pointers in the order of the ports, each to
 * size_bytes bytes, which may not overlap; pointers aligned to 64 bytes save a copy. Allocates
 * nothing. Fails only when a kernel fails, or a loop needs more iterations than its maximum; the
 * text is then in kiln_module_error. */
int kiln_module_run(kiln_module *module, const void *const *inputs, void *const *outputs);

/* Memory of size_bytes for an input or output, zeroed, that its device copies fastest (the system
 * keeps its pages in place). The caller reads and writes it, and passes it to kiln_module_run like
 * any other. Allocated by the first call for a port, which takes milliseconds; it lives as long as
 * the module. NULL: no device copies the port, all memory is equally fast, no more memory, or the
 * module keeps the port. */
void *kiln_module_input_memory(kiln_module *module, uint32_t index);
void *kiln_module_output_memory(kiln_module *module, uint32_t index);

/* A tensor of the caller. Laid out as DLPack's DLTensor (its versions 0.2 to 1), so that a pointer
 * to one may be cast. */
typedef struct kiln_module_tensor {
    void *data;          /* CUDA: an address of the device; OpenCL: a cl_mem */
    int32_t device_type; /* 1: memory of the process; 2: CUDA; 4: OpenCL */
    int32_t device_id;
    int32_t rank;
    uint8_t type_code; /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool */
    uint8_t type_bits;
    uint16_t type_lanes;  /* 1 */
    int64_t *shape;       /* [rank] */
    int64_t *strides;     /* [rank] in elements; NULL: row-major */
    uint64_t byte_offset; /* of the first element */
} kiln_module_tensor;

/* The device that a module's kernels run on; the first if there are several. */
typedef struct kiln_module_device_info {
    int32_t device_type, device_id; /* as in tensors; 1 and 0: the processor */
    void *context; /* OpenCL: the cl_context of the module's buffers, valid while the module is
                    * open; else NULL: CUDA works in the device's primary context */
} kiln_module_device_info;
kiln_module_device_info kiln_module_describe_device(const kiln_module *module);

/* The tensor of a port at `data` on a device. It refers to the port's shape. */
kiln_module_tensor kiln_module_tensor_at(const kiln_module_port *port, int32_t device_type,
                                         int32_t device_id, void *data);

/* Runs once, as kiln_module_run, on tensors each of which may lie in memory of the process or of
 * one of the module's devices. A tensor on the device that uses it is not copied, with few
 * exceptions (docs/reference/module.md). The caller's writes to it must be finished before the
 * call; the module's writes are finished when the call returns. If the device records launches, a
 * change of memory is recorded again in the following run.
 *
 * INVALID_ARGUMENT (3): a tensor lies on another device, is of another type, shape or strides, is
 * not aligned to 64 bytes (on a device), or is no memory of the device that it names; the text
 * names the tensor and the reason. Nothing has run then. */
int kiln_module_run_tensors(kiln_module *module, const kiln_module_tensor *const *inputs,
                            const kiln_module_tensor *const *outputs);
const char *kiln_module_error(const kiln_module *module);

/* Accepts NULL. */
void kiln_module_close(kiln_module *module);

#ifdef __cplusplus
}
#endif

#endif
