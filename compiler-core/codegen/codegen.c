/* Choice of the backend. */
#include "compiler-core/codegen/codegen.h"

#include <string.h>

#include "compiler-core/codegen/backend.h"

static const struct backend_row {
    const char *name, *backend;
    kiln_target_kind kind;
    kiln_arch arch;
    kiln_backend_emit emit;
} backend_table[] = {
#define X(name, backend, kind, arch, function) \
    {#name, #backend, KILN_TARGET_##kind, arch, function},
#include "compiler-core/codegen/backends.def"
#undef X
};

/* Whether the row fits the target and the named back end. */
static bool fits(const struct backend_row *row, const kiln_target *target, const char *backend) {
    return target->kind == row->kind &&
           (target->arch == row->arch || row->arch == KILN_ARCH_OTHER) &&
           (!backend || strcmp(backend, row->backend) == 0);
}

bool kiln_codegen_makes(const char *backend, const kiln_target *target) {
    bool found = false;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(backend_table); i++)
        found = found || fits(&backend_table[i], target, backend);
    return found;
}

kiln_status kiln_codegen(const kiln_lowered *lowered, const kiln_target *target,
                         const kiln_codegen_options *options, kiln_arena *arena,
                         kiln_str *out_bytes, uint64_t *out_scratch, uint64_t *out_worker_scratch) {
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(backend_table); i++) {
        const struct backend_row *row = &backend_table[i];
        if (!fits(row, target, options->backend)) continue;
        kiln_codegen_output output;
        kiln_status st = row->emit(lowered, target, options, arena, &output);
        if (st) return st;
        *out_bytes = output.bytes;
        *out_scratch = output.scratch_bytes;
        *out_worker_scratch = output.worker_bytes;
        return KILN_OK;
    }
    kiln_strbuf known = {0};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(backend_table); i++)
        kiln_strbuf_printf(&known, " %s:%s", kiln_target_kind_name(backend_table[i].kind),
                           backend_table[i].name);
    kiln_status st =
        KILN_ERROR(UNIMPLEMENTED, "no backend%s%s for %s:%.*s; there are%s",
                   options->backend ? " " : "", options->backend ? options->backend : "",
                   kiln_target_kind_name(target->kind), KILN_STR_ARG(target->triple), known.data);
    kiln_strbuf_deinit(&known);
    return st;
}
