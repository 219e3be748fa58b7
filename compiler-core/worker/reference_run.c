#include "compiler-core/worker/reference_run.h"

#include "base/hash.h"
#include "base/macros.h"
#include "base/reference.h"
#include "deploy/runtime/kernel.h"

/* Runs before anything is allocated: a few bytes of a model can declare any number of elements. */
static kiln_status check_bytes(const kiln_kernel *kernel) {
    const kiln_manifest *manifest = kiln_kernel_manifest(kernel);
    double all = 0, outputs = 0; /* with their bounds, which are outputs of this kernel */
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        if (kiln_role_is_owned(manifest->arg[i].role)) continue;
        const double bytes = (double)kiln_kernel_arg_bytes(kernel, i);
        all += bytes;
        if (manifest->arg[i].role == KILN_ROLE_OUTPUT) outputs += bytes;
    }
    if (outputs > KILN_REFERENCE_BYTES_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED,
                          "its outputs and their bounds take %.0f MiB, at most %zu are compared",
                          outputs / 0x1p20, KILN_REFERENCE_BYTES_MAX >> 20);
    if (all > KILN_CHECKED_BYTES_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "its arguments take %.0f MiB, at most %zu are tried",
                          all / 0x1p20, KILN_CHECKED_BYTES_MAX >> 20);
    return KILN_OK;
}

/* Buffers of every argument but those that the call owns, inputs and constants filled as boards
 * fill them. */
static kiln_status bind_args(const kiln_kernel *kernel, kiln_call *call, uint64_t seed,
                             kiln_arena *arena, void **data) {
    const kiln_manifest *manifest = kiln_kernel_manifest(kernel);
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < manifest->arg_count; i++) {
        const kiln_manifest_arg *arg = &manifest->arg[i];
        if (kiln_role_is_owned(arg->role)) continue;
        size_t size = kiln_kernel_arg_bytes(kernel, i);
        data[i] = kiln_arena_alloc_aligned(arena, KILN_KERNEL_ALIGNMENT, size);
        if (arg->role == KILN_ROLE_INPUT || arg->role == KILN_ROLE_CONSTANT)
            kiln_manifest_arg_fill(arg, kiln_input_seed(seed, i), data[i]);
        st = kiln_call_bind(call, i, data[i], size);
    }
    return st;
}

/* Outputs come in the order of kiln_te_reference: each float output is followed by its bound. */
static kiln_status collect_outputs(const kiln_manifest *manifest, void **data,
                                   kiln_reference *out_reference) {
    *out_reference = (kiln_reference){0};
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        const kiln_manifest_arg *arg = &manifest->arg[i];
        if (arg->role != KILN_ROLE_OUTPUT) continue;
        if (out_reference->output_count == KILN_REFERENCE_OUTPUTS_MAX)
            return KILN_ERROR(RESOURCE_EXHAUSTED, "a task with more than %u outputs",
                              KILN_REFERENCE_OUTPUTS_MAX);
        kiln_reference_output *output = &out_reference->output[out_reference->output_count++];
        *output =
            (kiln_reference_output){.dtype = arg->dtype, .shape = arg->shape, .value = data[i]};
        if (kiln_dtype_is_float(arg->dtype)) output->bound = data[++i];
    }
    return KILN_OK;
}

#define COMPARED_MAX 200u        /* elements of each output that are interpreted as well */
#define COMPARED_POINTS 1000000u /* in all: some 50 ms */

/* Candidates are compared with this kernel, and both are lowered by the same code: an error of that
 * code on real sizes shows only when a part is interpreted. */
static kiln_status compare_sample(const kiln_program *te, const kiln_kernel *kernel, uint64_t seed,
                                  kiln_arena *arena, void **data) {
    const kiln_manifest *manifest = kiln_kernel_manifest(kernel);
    kiln_tensor arg[KILN_MANIFEST_ARGS_MAX];
    const float *bound[KILN_MANIFEST_ARGS_MAX] = {0};
    uint32_t count = 0, compared = 0;
    for (uint32_t i = 0; i < manifest->arg_count; i++) {
        const kiln_manifest_arg *from = &manifest->arg[i];
        bool value = from->role == KILN_ROLE_OUTPUT && kiln_dtype_is_float(from->dtype);
        if (kiln_role_is_owned(from->role)) continue;
        arg[count] = (kiln_tensor){from->dtype, from->shape, data[i]};
        bool is_bound = value && count > 0 && bound[count - 1];
        if (value && !is_bound) bound[count] = data[i + 1];
        count++;
    }
    kiln_rand rand;
    kiln_te_sample *sample = NULL;
    kiln_rand_init(&rand, seed);
    kiln_status st =
        kiln_te_sample_create(kiln_te_reference(te, arena), arg, count, COMPARED_POINTS, &sample);
    if (!st) st = kiln_te_sample_compare(sample, &rand, COMPARED_MAX, bound, &compared);
    kiln_te_sample_destroy(sample);
    return st;
}

kiln_status kiln_reference_run(const kiln_program *te, kiln_str artefact, uint64_t seed,
                               kiln_arena *arena, kiln_strbuf *bytes) {
    kiln_call *call = NULL;
    kiln_reference reference;
    void *data[KILN_MANIFEST_ARGS_MAX];
    kiln_kernel *kernel = NULL;
    kiln_services services;
    kiln_status st = kiln_kernel_load(artefact, NULL, &kernel);
    if (st) return st;
    st = check_bytes(kernel);
    if (st) {
        kiln_kernel_unload(kernel);
        return st;
    }
    size_t scratch_bytes = kiln_services_scratch_bytes(kiln_kernel_manifest(kernel), 1);
    kiln_services_init(&services, NULL, 1,
                       kiln_arena_alloc_aligned(arena, KILN_KERNEL_ALIGNMENT, scratch_bytes));
    st = kiln_call_create(kernel, KILN_GUARD_NONE, &call);
    if (!st) st = bind_args(kernel, call, seed, arena, data);
    if (!st) st = kiln_call_prepare(call, &services);
    if (!st && kiln_call_run(call, &services) != KILN_KERNEL_OK)
        st = KILN_ERROR(INTERNAL, "the reference kernel failed");
    if (!st) st = compare_sample(te, kernel, seed, arena, data);
    if (!st) st = collect_outputs(kiln_kernel_manifest(kernel), data, &reference);
    if (!st) kiln_reference_encode(&reference, bytes);
    kiln_call_destroy(call);
    kiln_kernel_unload(kernel);
    return st;
}
