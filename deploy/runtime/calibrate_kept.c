#include "deploy/runtime/calibrate_kept.h"

#include <string.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/opt.h"
#include "base/target.h"
#include "deploy/runtime/calibrate.h"

#define NAME "calibration"
#define FILE_BYTES_MAX 4096u
#define PROCESSOR_BYTES_MAX 256u

bool kiln_calibration_is_wanted(void) {
    const char *word = kiln_env(KILN_CALIBRATION_VARIABLE);
    return kiln_target_native_limit() == 0 && !(word && strcmp(word, KILN_CALIBRATION_NONE) == 0);
}

/* Whether the line of /proc/cpuinfo identifies the processor. */
static bool tells_model(kiln_str key) {
    static const char *const name[] = {"model name",  "cpu family",      "model",    "stepping",
                                       "Hardware",    "CPU implementer", "CPU part", "CPU revision",
                                       "CPU variant", "uarch",           "isa"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(name); i++)
        if (kiln_str_is(key, name[i])) return true;
    return false;
}

kiln_str kiln_calibration_processor(const char *cpuinfo_path, kiln_arena *arena) {
    kiln_str text = {0}, seen[32];
    size_t count = 0;
    kiln_strbuf found = {0};
    kiln_status_free(kiln_file_read_system(cpuinfo_path, arena, &text)); /* then the processor has
                                                                          * no name */
    while (text.size && count < KILN_ARRAY_COUNT(seen)) {
        const kiln_str line = kiln_str_cut(&text, '\n');
        kiln_str value = line;
        bool again = !tells_model(kiln_str_trim(kiln_str_cut(&value, ':')));
        for (size_t i = 0; i < count; i++) again |= kiln_str_equal(seen[i], line);
        if (again) continue; /* the same line of another core */
        seen[count++] = line;
        if (found.size) kiln_strbuf_char(&found, ' ');
        kiln_strbuf_str(&found, kiln_str_trim(value));
    }
    const kiln_str name = kiln_str_slice(kiln_strbuf_view(&found), 0, PROCESSOR_BYTES_MAX);
    const kiln_str kept = {kiln_str_dup(arena, name), name.size};
    kiln_strbuf_deinit(&found);
    return kept;
}

static const char *path_in(const char *folder, kiln_arena *arena) {
    return kiln_arena_printf(arena, "%s/" NAME, folder);
}

/* [version, processor, figures] */
static void code(kiln_mpack_coder *m, kiln_str processor, kiln_figures *calibration) {
    uint64_t version = KILN_CALIBRATE_VERSION;
    kiln_str of = processor;
    kiln_mpack_code_fields(m, 3);
    kiln_mpack_code_u64(m, &version);
    kiln_mpack_code_str(m, &of);
    kiln_figures_code(m, calibration);
    if (!m->st && (version != KILN_CALIBRATE_VERSION || !kiln_str_equal(of, processor)))
        m->st = KILN_ERROR(NOT_FOUND, "of another processor or version");
}

kiln_status kiln_calibration_keep(const char *folder, const kiln_figures *calibration,
                                  kiln_arena *arena) {
    kiln_strbuf bytes = {0};
    kiln_figures copy = *calibration;
    kiln_mpack_coder m = {.out = &bytes};
    code(&m, kiln_calibration_processor("/proc/cpuinfo", arena), &copy);
    kiln_status st = m.st;
    if (!st) st = kiln_file_write(path_in(folder, arena), kiln_strbuf_view(&bytes), 0600);
    kiln_strbuf_deinit(&bytes);
    return st;
}

kiln_figures kiln_calibration_kept(const char *folder, kiln_arena *arena) {
    const kiln_figures none = {0};
    kiln_figures found = {0};
    kiln_str bytes = {0};
    kiln_mpack_coder m = {0};
    m.st = kiln_file_read(path_in(folder, arena), FILE_BYTES_MAX, arena, &bytes);
    if (!m.st) {
        kiln_mpack_reader_init(&m.in, bytes.data, bytes.size);
        code(&m, kiln_calibration_processor("/proc/cpuinfo", arena), &found);
    }
    if (!m.st) return found;
    kiln_status_free(m.st); /* the table's figures are used */
    return none;
}
