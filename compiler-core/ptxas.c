#include "compiler-core/ptxas.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/opt.h"
#include "base/proc.h"
#include "base/vec.h"

#define LINES_SHOWN 3 /* of its messages about text that it refuses */

const char *kiln_ptxas_tool(const char *variable, const char *name, kiln_arena *arena) {
    const char *named = kiln_env(variable);
    if (named && *named) return kiln_str_dup(arena, kiln_str_from(named));
    kiln_str rest = kiln_str_from(kiln_env("PATH"));
    while (rest.size) {
        const kiln_str folder = kiln_str_cut(&rest, ':');
        if (!folder.size) continue;
        const char *path = kiln_arena_printf(arena, "%.*s/%s", KILN_STR_ARG(folder), name);
        if (access(path, X_OK) == 0) return path;
    }
    return NULL;
}

/* ---- what it prints -------------------------------------------------------------------------- */

/* The number in front of `unit`, somewhere in the line; false: there is none. */
static bool number_before(kiln_str line, const char *unit, uint64_t *out) {
    const size_t size = strlen(unit);
    for (size_t at = 0; at + size <= line.size; at++) {
        size_t first = at;
        if (memcmp(line.data + at, unit, size) != 0) continue;
        while (first > 0 && line.data[first - 1] >= '0' && line.data[first - 1] <= '9') first--;
        return kiln_str_to_u64(kiln_str_slice(line, first, at), out);
    }
    return false;
}

static bool contains(kiln_str line, const char *part) {
    const size_t size = strlen(part);
    for (size_t at = 0; at + size <= line.size; at++)
        if (memcmp(line.data + at, part, size) == 0) return true;
    return false;
}

/* ptxas info    : Compiling entry function 'run_0' for 'sm_90a' */
static kiln_str compiled_entry(kiln_str line) {
    kiln_str rest = line;
    if (!contains(line, "Compiling entry function '")) return (kiln_str){0};
    kiln_str_cut(&rest, '\'');
    return kiln_str_cut(&rest, '\'');
}

static bool read_entry(kiln_str line, kiln_ptxas_entry *e) {
    number_before(line, " bytes smem", &e->shared_bytes);
    return number_before(line, " registers", &e->registers) ||
           (number_before(line, " bytes stack frame", &e->stack_bytes) &&
            number_before(line, " bytes spill stores", &e->spill_store_bytes) &&
            number_before(line, " bytes spill loads", &e->spill_load_bytes));
}

kiln_status kiln_ptxas_parse(kiln_str text, kiln_arena *arena, kiln_ptxas_report *out_report) {
    KILN_VEC(kiln_ptxas_entry) entry = {0};
    kiln_ptxas_report report = {0};
    uint32_t known = 0; /* lines about entries */
    while (text.size) {
        const kiln_str line = kiln_str_cut(&text, '\n'), name = compiled_entry(line);
        if (name.size) kiln_vec_push_in(arena, &entry, (kiln_ptxas_entry){.name = name});
        if (contains(line, "Performance Loss") && !report.note.size)
            report.note = kiln_str_trim(line);
        if (entry.count) known += read_entry(line, &entry.data[entry.count - 1]);
    }
    if (!entry.count || known != 2 * entry.count)
        return KILN_ERROR(DATA_LOSS, "ptxas printed %u entries and %u lines about them",
                          entry.count, known);
    report.entry_count = entry.count;
    report.entry = entry.data;
    *out_report = report;
    return KILN_OK;
}

static uint32_t larger(uint32_t most, uint64_t own) {
    return (uint32_t)KILN_MAX(most, KILN_MIN(own, KILN_ASSEMBLED_MAX));
}

kiln_assembled kiln_ptxas_assembled(const kiln_ptxas_report *report) {
    kiln_assembled all = {0};
    for (uint32_t i = 0; i < report->entry_count; i++) {
        const kiln_ptxas_entry *e = &report->entry[i];
        all.registers = larger(all.registers, e->registers);
        all.spill_bytes = larger(all.spill_bytes, e->spill_store_bytes + e->spill_load_bytes);
        all.stack_bytes = larger(all.stack_bytes, e->stack_bytes);
        all.shared_bytes = larger(all.shared_bytes, e->shared_bytes);
    }
    return all;
}

kiln_status kiln_ptxas_check_spills(const kiln_ptxas_report *report) {
    for (uint32_t i = 0; i < report->entry_count; i++) {
        const kiln_ptxas_entry *e = &report->entry[i];
        if (e->spill_store_bytes + e->spill_load_bytes == 0) continue;
        return KILN_ERROR(ILLEGAL_SCHEDULE,
                          "%.*s spills: %llu registers, %llu bytes stored and %llu loaded beside "
                          "them (ptxas)",
                          KILN_STR_ARG(e->name), (unsigned long long)e->registers,
                          (unsigned long long)e->spill_store_bytes,
                          (unsigned long long)e->spill_load_bytes);
    }
    return KILN_OK;
}

/* ---- running it ------------------------------------------------------------------------------ */

static kiln_str first_lines(kiln_str text, kiln_arena *arena) {
    kiln_strbuf all = {0};
    for (uint32_t i = 0; i < LINES_SHOWN && text.size; i++) {
        if (all.size) kiln_strbuf_text(&all, "; ");
        kiln_strbuf_str(&all, kiln_str_cut(&text, '\n'));
    }
    return kiln_strbuf_end(&all, arena);
}

kiln_status kiln_ptxas_run(const char *program, kiln_str processor, kiln_str ptx,
                           const char *cubin_path, kiln_arena *arena, kiln_str *out_text) {
    const char *const argv[] = {program,      "-v",
                                "-arch",      kiln_str_dup(arena, processor),
                                "-o",         cubin_path ? cubin_path : "/dev/null",
                                "/dev/stdin", NULL};
    kiln_proc_result result;
    kiln_status st =
        kiln_proc_run(&(kiln_proc_options){.argv = argv,
                                           .input = ptx,
                                           .deadline_ns = KILN_PTXAS_SECONDS * KILN_NS_PER_S,
                                           .output_max = KILN_PTXAS_OUTPUT_MAX},
                      arena, &result);
    if (st) return kiln_status_note(st, "running %s", program);
    if (result.timed_out)
        return KILN_ERROR(DEADLINE_EXCEEDED, "ptxas took more than %d s", KILN_PTXAS_SECONDS);
    if (result.exit_code == 0) {
        *out_text = result.err.size ? result.err : result.out;
        return KILN_OK;
    }
    const kiln_str why = first_lines(result.err.size ? result.err : result.out, arena);
    if (result.signal)
        return KILN_ERROR(ILLEGAL_SCHEDULE, "ptxas died of signal %d", result.signal);
    return KILN_ERROR(ILLEGAL_SCHEDULE, "ptxas refuses it: %.*s", KILN_STR_ARG(why));
}
