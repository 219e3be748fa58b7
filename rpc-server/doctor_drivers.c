#include "rpc-server/doctor_drivers.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"

static void print_device(uint32_t index, const kiln_device_facts *facts, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "%s%u: %s (%s, %.1f GiB) as ", index > 0 ? "; " : "", index,
                       facts->name, facts->driver,
                       (double)facts->memory_bytes / (double)(1u << 30));
    kiln_target_print(&facts->target, out);
    if (facts->management) kiln_strbuf_printf(out, " (%s)", facts->management);
}

/* Where there is no driver at all that is no fault of the machine. */
static bool is_absent(const kiln_status st) {
    return kiln_status_code(st) == KILN_UNIMPLEMENTED ||
           (kiln_status_code(st) == KILN_NOT_FOUND &&
            strstr(kiln_status_text(st), "there is no driver"));
}

/* Those of one folder whose names begin as `prefix` does. */
static bool name_closed_files(const char *prefix, kiln_arena *arena, kiln_strbuf *out) {
    const char *slash = strrchr(prefix, '/');
    const char *folder = kiln_str_dup(arena, (kiln_str){prefix, (size_t)(slash - prefix)});
    char **name = NULL;
    size_t count = 0;
    bool open = true;
    kiln_status st = kiln_folder_list(folder, arena, &name, &count);
    if (st) count = 0;
    kiln_status_free(st); /* no such folder, no such files */
    for (size_t i = 0; i < count; i++) {
        const char *path = kiln_arena_printf(arena, "%s/%s", folder, name[i]);
        if (strncmp(path, prefix, strlen(prefix)) != 0 || access(path, R_OK | W_OK) == 0) continue;
        kiln_strbuf_printf(out, "; this user may not open %s", path);
        open = false;
    }
    return open;
}

bool kiln_doctor_drivers(kiln_device_kind kind, const char *const *files, kiln_arena *arena,
                         kiln_strbuf *out) {
    kiln_device_facts *facts;
    uint32_t count = 0;
    kiln_status st = kiln_device_list(kind, arena, &facts, &count);
    bool good = !st || is_absent(st);
    for (uint32_t i = 0; !st && i < count; i++) print_device(i, &facts[i], out);
    if (st) kiln_strbuf_text(out, kiln_status_text(st));
    for (; *files; files++) good &= name_closed_files(*files, arena, out);
    kiln_status_free(st);
    return good;
}
