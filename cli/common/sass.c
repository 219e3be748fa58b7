#include "cli/common/sass.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "compiler-core/ptxas.h"

#define NVDISASM_VARIABLE "KILN_NVDISASM"
#define OUTPUT_MAX ((size_t)256 << 20)
#define TASK "# task "

kiln_status kiln_sass_find(kiln_arena *arena, kiln_sass_tools *out_tools) {
    const kiln_sass_tools tools = {kiln_ptxas_tool(KILN_PTXAS_VARIABLE, "ptxas", arena),
                                   kiln_ptxas_tool(NVDISASM_VARIABLE, "nvdisasm", arena)};
    if (!tools.ptxas || !tools.nvdisasm)
        return KILN_ERROR(
            FAILED_PRECONDITION,
            "the stage sass wants ptxas and nvdisasm of the CUDA toolkit; missing:%s%s. "
            "Install them (pip: nvidia-cuda-nvcc-cu12, nvidia-cuda-nvdisasm) and put "
            "them on PATH, or name them in " KILN_PTXAS_VARIABLE " and " NVDISASM_VARIABLE,
            tools.ptxas ? "" : " ptxas", tools.nvdisasm ? "" : " nvdisasm");
    *out_tools = tools;
    return KILN_OK;
}

static kiln_status disassemble(const char *nvdisasm, const char *cubin, kiln_arena *arena,
                               kiln_strbuf *out) {
    const char *const argv[] = {nvdisasm, "-c", cubin, NULL};
    kiln_proc_result result;
    kiln_status st =
        kiln_proc_run(&(kiln_proc_options){.argv = argv,
                                           .deadline_ns = KILN_PTXAS_SECONDS * KILN_NS_PER_S,
                                           .output_max = OUTPUT_MAX},
                      arena, &result);
    if (!st && result.exit_code != 0)
        st = KILN_ERROR(UNIMPLEMENTED, "nvdisasm does not take what ptxas wrote: %.*s",
                        KILN_STR_ARG(kiln_str_trim(result.err)));
    if (!st) kiln_strbuf_str(out, result.out);
    return st;
}

static kiln_status print_one(const kiln_sass_tools *tools, kiln_str processor, kiln_str ptx,
                             const char *cubin, kiln_arena *arena, kiln_strbuf *out) {
    kiln_str printed;
    kiln_ptxas_report report;
    kiln_status st = kiln_ptxas_run(tools->ptxas, processor, ptx, cubin, arena, &printed);
    if (!st) st = kiln_ptxas_parse(printed, arena, &report);
    if (st) return st;
    for (uint32_t i = 0; i < report.entry_count; i++) {
        const kiln_ptxas_entry *e = &report.entry[i];
        kiln_strbuf_printf(out, "# %.*s: %llu registers, %llu bytes of spills, %llu of stack\n",
                           KILN_STR_ARG(e->name), (unsigned long long)e->registers,
                           (unsigned long long)(e->spill_store_bytes + e->spill_load_bytes),
                           (unsigned long long)e->stack_bytes);
    }
    if (report.note.size) kiln_strbuf_printf(out, "# %.*s\n", KILN_STR_ARG(report.note));
    return disassemble(tools->nvdisasm, cubin, arena, out);
}

/* Up to the next task, or the end. */
static kiln_str cut_task(kiln_str *rest) {
    kiln_str all = *rest;
    while (rest->size && !kiln_str_starts(*rest, TASK)) kiln_str_cut(rest, '\n');
    return kiln_str_slice(all, 0, all.size - rest->size);
}

kiln_status kiln_sass_print(const kiln_sass_tools *tools, kiln_str processor, kiln_str text,
                            kiln_arena *arena, kiln_strbuf *out) {
    char *folder = NULL;
    kiln_status st = kiln_folder_create_temp("kiln-sass", arena, &folder);
    if (st) return st;
    const char *cubin = kiln_arena_printf(arena, "%s/code", folder);
    cut_task(&text);
    while (!st && text.size) {
        const kiln_str title = kiln_str_cut(&text, '\n'), ptx = cut_task(&text);
        kiln_strbuf_printf(out, "%s%.*s\n", out->size ? "\n" : "", KILN_STR_ARG(title));
        st = print_one(tools, processor, ptx, cubin, arena, out);
        if (st)
            st = kiln_status_note(st, "%.*s", KILN_STR_ARG(kiln_str_slice(title, 2, title.size)));
    }
    kiln_status removed = kiln_folder_remove(folder);
    if (st) kiln_status_free(removed); /* the first error counts */
    return st ? st : removed;
}
