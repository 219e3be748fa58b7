/* What a kernel finds around it in a WebAssembly module (runner.js): a heap, its services, copies
 * of memory. Freestanding; linked with one kernel at a time. */
#include "base/kernel_abi.h"

#define ARGS_MAX 64
#define EXPORT(name) __attribute__((export_name(name)))

extern unsigned char __heap_base;
static uintptr_t heap_end;
static kiln_kernel_tensor tensor[ARGS_MAX];
static kiln_kernel_tensor *args[ARGS_MAX];

static int32_t parallel_for(void *host, int64_t count, kiln_kernel_body body, void *context) {
    (void)host;
    return count > 0 ? body(context, 0, count, 0) : KILN_KERNEL_OK;
}

/* Aligned memory that is never given back; the caller has made the memory large enough. */
EXPORT("take") void *take(uint32_t bytes) {
    if (!heap_end) heap_end = (uintptr_t)&__heap_base;
    heap_end =
        (heap_end + KILN_KERNEL_ALIGNMENT - 1) / KILN_KERNEL_ALIGNMENT * KILN_KERNEL_ALIGNMENT;
    void *memory = (void *)heap_end;
    heap_end += bytes;
    return memory;
}

EXPORT("bind") void bind(uint32_t index, void *data) {
    tensor[index].data = data;
    args[index] = &tensor[index];
}

EXPORT("call") int32_t call(kiln_kernel_entry entry, void *scratch) {
    const kiln_kernel_services services = {.version = KILN_KERNEL_ABI_VERSION,
                                           .worker_count = 1,
                                           .parallel_for = parallel_for,
                                           .scratch = scratch};
    return entry(args, &services);
}

int32_t kiln_run(kiln_kernel_tensor *const *arguments, const kiln_kernel_services *services);
__attribute__((weak)) int32_t kiln_prepare(kiln_kernel_tensor *const *arguments,
                                           const kiln_kernel_services *services);

EXPORT("run") int32_t run(void *scratch) { return call(kiln_run, scratch); }
EXPORT("prepare") int32_t prepare(void *scratch) { return call(kiln_prepare, scratch); }
