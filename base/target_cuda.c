/* Targets of kind cuda, "cuda:sm_90a[,mcpu=h200]": the architecture of the code, and the device
 * whose limits and figures are used. sm_90 runs on devices of 9.0 and later; sm_90a uses features
 * of 9.0 and runs only there. */
#include "base/macros.h"
#include "base/target_kind.h"

/* From this capability on there is also a specific architecture, sm_90a, that later devices do not
 * run. */
#define FIRST_SPECIFIC 90

static bool is_specific(const kiln_target *target) { return kiln_str_ends(target->triple, "a"); }

/* The generic row of the architecture, with or without the letter; NULL: none. */
static const kiln_gpu *find_generic(kiln_str head) {
    const bool specific = kiln_str_ends(head, "a");
    const kiln_gpu *gpu = kiln_gpu_find(kiln_str_slice(head, 0, head.size - specific));
    return gpu && gpu->is_generic && (!specific || gpu->capability >= FIRST_SPECIFIC) ? gpu : NULL;
}

/* Lists the names of all devices, or of all architectures. */
static void list_names(bool generic, kiln_strbuf *out) {
    for (uint32_t i = 0; i < kiln_gpu_count(); i++) {
        const kiln_gpu *gpu = kiln_gpu_at(i);
        if (!gpu->capability || gpu->is_generic != generic) continue;
        kiln_strbuf_printf(out, " %s", gpu->name);
        if (generic && gpu->capability >= FIRST_SPECIFIC)
            kiln_strbuf_printf(out, " %sa", gpu->name);
    }
}

static kiln_status parse_head(kiln_target *target) {
    if (find_generic(target->triple)) return KILN_OK;
    kiln_strbuf names = {0};
    list_names(true, &names);
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "'%.*s' is not a CUDA architecture; known:%s",
                                KILN_STR_ARG(target->triple), names.data);
    kiln_strbuf_deinit(&names);
    return st;
}

static kiln_status parse_device(kiln_str name, kiln_target *target) {
    const kiln_gpu *gpu = kiln_gpu_find(name);
    const uint32_t capability = find_generic(target->triple)->capability;
    if (!gpu || !gpu->capability || gpu->is_generic) {
        kiln_strbuf names = {0};
        list_names(false, &names);
        kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "unknown mcpu '%.*s'; known here:%s",
                                    KILN_STR_ARG(name), names.data);
        kiln_strbuf_deinit(&names);
        return st;
    }
    if (gpu->capability < capability || (is_specific(target) && gpu->capability != capability))
        return KILN_ERROR(INVALID_ARGUMENT, "mcpu=%s is a sm_%u and runs no code for %.*s",
                          gpu->name, gpu->capability, KILN_STR_ARG(target->triple));
    target->mcpu = kiln_str_from(gpu->name);
    return KILN_OK;
}

static kiln_status parse_part(kiln_str part, kiln_arena *arena, kiln_target *target) {
    (void)arena;
    kiln_str value = part;
    kiln_str key = kiln_str_cut(&value, '=');
    if (kiln_str_is(key, "mcpu")) return parse_device(value, target);
    return kiln_target_unknown_part(target, part);
}

static void print_parts(const kiln_target *target, kiln_strbuf *out) {
    if (target->mcpu.size) kiln_strbuf_printf(out, ",mcpu=%.*s", KILN_STR_ARG(target->mcpu));
}

static void derive(kiln_target *target) {
    const kiln_gpu *gpu =
        target->mcpu.size ? kiln_gpu_find(target->mcpu) : find_generic(target->triple);
    kiln_target_derive_gpu(target, gpu);
    target->cores = gpu->units;
    target->group_threads = gpu->group_threads;
    target->shared_bytes = gpu->group_shared_bytes;
    target->vector_bytes = gpu->load_bytes;
    target->vector_registers = gpu->thread_registers;
}

static bool runs_on(const kiln_target *wanted, const kiln_target *device, kiln_strbuf *out_reason) {
    const uint32_t code = find_generic(wanted->triple)->capability;
    const uint32_t capability = device->gpu->capability;
    if (capability < code || (is_specific(wanted) && capability != code)) {
        kiln_strbuf_printf(out_reason, "the device is sm_%u, not %.*s", capability,
                           KILN_STR_ARG(wanted->triple));
        return false;
    }
    return kiln_target_fits_gpu(wanted, device, out_reason);
}

const kiln_target_form kiln_target_form_cuda = {
    .parts = "mcpu=",
    .parse_head = parse_head,
    .parse_part = parse_part,
    .print_parts = print_parts,
    .derive = derive,
    .runs_on = runs_on,
};
