/* A fake board, and the template for new executors: copy this file, add a row to executors.def, and
 * replace each function by what your device does. Its times are made up from the manifest alone
 * (the floating operations at 1 GFLOP/s, plus a wobble that repeats), so a fleet can be tried and
 * tested without hardware. Its outputs are not real; the row says so, and its results can never
 * become best. */
#include <string.h>

#include "base/alloc.h"
#include "rpc-server/executor.h"

typedef struct null_program {
    double run_ns;
    uint64_t output_bytes;
    uint32_t calls;
} null_program;

static kiln_status null_open(const kiln_executor_setup *setup, void **out_device) {
    (void)setup;
    *out_device = kiln_alloc(1);
    return NULL;
}

static kiln_status null_load(void *device, kiln_str artefact, const kiln_manifest *manifest,
                             void **out_program) {
    (void)device, (void)artefact;
    null_program *program = kiln_alloc(sizeof *program);
    program->run_ns = manifest->flops > 0 ? manifest->flops : 1;
    program->output_bytes = kiln_executor_output_bytes(manifest);
    *out_program = program;
    return NULL;
}

static void null_fill(void *program, uint64_t seed) { (void)program, (void)seed; }

static kiln_ran null_prepare(void *program) {
    (void)program;
    return KILN_RAN_OK;
}

static kiln_ran null_run(void *context, uint32_t runs, uint64_t *out_ns) {
    null_program *program = context;
    double wobble =
        1 + 0.001 * (program->calls++ % 4); /* well inside any interval that a policy asks for */
    *out_ns = (uint64_t)(program->run_ns * runs * wobble);
    return KILN_RAN_OK;
}

static kiln_ran null_check(void *context, uint16_t poison, void *out_outputs, uint64_t *out_ns) {
    (void)poison;
    null_program *program = context;
    memset(out_outputs, 0, (size_t)program->output_bytes);
    return null_run(program, 1, out_ns);
}

static void null_unload(void *program) { kiln_free(program); }

static void null_close(void *device) { kiln_free(device); }

const kiln_executor_vtable kiln_executor_null = {
    .open = null_open,
    .load = null_load,
    .fill = null_fill,
    .prepare = null_prepare,
    .run = null_run,
    .check = null_check,
    .unload = null_unload,
    .close = null_close,
};
