#include "cli/vta_file.h"

#include "base/file.h"
#include "base/manifest.h"
#include "base/vec.h"
#include "deploy/format.h"
#include "deploy/runtime/module_open.h"

#define PROGRAM_MAGIC "KILNVTA\n"

typedef struct finder {
    kiln_arena *process;
    KILN_VEC(kiln_vta_file_program) found;
} finder;

/* What the first step says that calls the kernel. */
static kiln_str name_of(const kiln_module_plan *plan, uint32_t kernel) {
    for (uint32_t s = 0; s < plan->step_count; s++)
        if (plan->step[s].action == KILN_ACTION_KERNEL && plan->step[s].kernel == kernel)
            return plan->step[s].op;
    return (kiln_str){0};
}

static kiln_status find_in_kernel(finder *f, const kiln_module_plan *plan, uint32_t kernel) {
    kiln_artefact artefact;
    kiln_status st = kiln_artefact_decode(plan->kernel[kernel], f->process, &artefact);
    for (uint32_t i = 0; !st && i < artefact.manifest.payload_count; i++) {
        kiln_vta_file_program found = {.name = name_of(plan, kernel)};
        if (artefact.manifest.payload[i].kind != KILN_PAYLOAD_VTA) continue;
        st = kiln_vta_program_decode(kiln_artefact_payload(&artefact, i), f->process,
                                     &found.program);
        if (!st) kiln_vec_push_in(f->process, &f->found, found);
    }
    return kiln_status_note(st, "kernel %u", kernel);
}

/* Of the largest size, where there are several. */
static kiln_status find_in_module(finder *f, kiln_str bytes) {
    kiln_module *module = NULL;
    kiln_status st = kiln_module_inspect(bytes, 0, &module);
    if (st) return st;
    const kiln_module_sizes *sizes = kiln_module_sizes_of(module);
    const kiln_module_plan *plan = &sizes->bucket[sizes->bucket_count - 1].plan;
    for (uint32_t k = 0; !st && k < plan->kernel_count; k++) st = find_in_kernel(f, plan, k);
    if (!st && f->found.count == 0)
        st = KILN_ERROR(NOT_FOUND, "no kernel of the module is for an accelerator (kiln compile "
                                   "--target vta:CONFIG makes such)");
    for (uint32_t i = 0; i < f->found.count; i++)
        f->found.data[i].name = kiln_str_copy(f->process, f->found.data[i].name);
    kiln_module_close(module);
    return st;
}

static kiln_status find_alone(finder *f, kiln_str bytes) {
    kiln_vta_file_program found = {0};
    kiln_status st = kiln_str_starts(bytes, PROGRAM_MAGIC)
                         ? kiln_vta_program_decode(bytes, f->process, &found.program)
                         : kiln_vta_program_parse(bytes, f->process, &found.program);
    if (!st) kiln_vec_push_in(f->process, &f->found, found);
    return st;
}

kiln_status kiln_vta_file_read(const char *path, kiln_arena *process,
                               kiln_vta_file_program **out_found, uint32_t *out_count) {
    finder f = {.process = process};
    kiln_mapping file; /* until the program ends: constants are in it */
    kiln_status st = kiln_file_map(path, &file);
    if (st) return st;
    const kiln_str bytes = {file.data, file.size};
    st = kiln_str_starts(bytes, KILN_MODULE_MAGIC) ? find_in_module(&f, bytes)
                                                   : find_alone(&f, bytes);
    if (st) {
        kiln_file_unmap(&file);
        return kiln_status_note(st, "%s", path);
    }
    *out_found = f.found.data;
    *out_count = f.found.count;
    return KILN_OK;
}
