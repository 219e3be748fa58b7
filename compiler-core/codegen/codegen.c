/* Choice of the backend. */
#include "compiler-core/codegen/codegen.h"

#include "compiler-core/codegen/backend.h"

static const struct backend_row {
    const char *name;
    kiln_target_kind kind;
    kiln_arch arch;
    kiln_backend_emit emit;
} backend_table[] = {
#define X(name, kind, arch, function) {#name, KILN_TARGET_##kind, arch, function},
#include "compiler-core/codegen/backends.def"
#undef X
};

kiln_status kiln_codegen(const kiln_lowered *lowered, const kiln_target *target,
                         const kiln_codegen_options *options, kiln_arena *arena,
                         kiln_str *out_bytes, uint64_t *out_scratch, uint64_t *out_worker_scratch) {
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(backend_table); i++) {
        const struct backend_row *row = &backend_table[i];
        if (target->kind != row->kind || target->arch != row->arch) continue;
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
        KILN_ERROR(UNIMPLEMENTED, "no backend for %s:%.*s; there are%s",
                   kiln_target_kind_name(target->kind), KILN_STR_ARG(target->triple), known.data);
    kiln_strbuf_deinit(&known);
    return st;
}
