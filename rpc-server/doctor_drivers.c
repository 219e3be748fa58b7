#include "rpc-server/doctor_drivers.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "rpc-server/find_device.h"

static void print_device(const kiln_found_device *found, kiln_strbuf *out) {
    kiln_strbuf_printf(out, "%s%u: %.*s (%.*s, %.1f GiB) as %.*s", found->index > 0 ? "; " : "",
                       found->index, KILN_STR_ARG(found->name), KILN_STR_ARG(found->driver),
                       (double)found->memory_bytes / (double)(1u << 30),
                       KILN_STR_ARG(found->target_text));
    if (found->management.size) kiln_strbuf_printf(out, " (%.*s)", KILN_STR_ARG(found->management));
}

/* A machine without any driver is not at fault. */
static bool is_absent(const kiln_status st) {
    return kiln_status_code(st) == KILN_UNIMPLEMENTED ||
           (kiln_status_code(st) == KILN_NOT_FOUND &&
            strstr(kiln_status_text(st), "there is no driver"));
}

/* Lists the files of one folder whose paths begin with `prefix`. */
static bool name_closed_files(const char *prefix, kiln_arena *arena, kiln_strbuf *out) {
    const char *slash = strrchr(prefix, '/');
    const char *folder = kiln_str_dup(arena, (kiln_str){prefix, (size_t)(slash - prefix)});
    char **name = NULL;
    size_t count = 0;
    bool open = true;
    kiln_status st = kiln_folder_list(folder, arena, &name, &count);
    if (st) count = 0;
    kiln_status_free(st); /* without the folder there are no files */
    for (size_t i = 0; i < count; i++) {
        const char *path = kiln_arena_printf(arena, "%s/%s", folder, name[i]);
        if (strncmp(path, prefix, strlen(prefix)) != 0 || access(path, R_OK | W_OK) == 0) continue;
        kiln_strbuf_printf(out, "; this user may not open %s", path);
        open = false;
    }
    return open;
}

/* Prints devices 0, 1, ... until there is none. */
static kiln_status print_devices(kiln_helper *helper, const kiln_executor *executor,
                                 kiln_arena *arena, kiln_strbuf *out) {
    kiln_found_device found;
    kiln_status st = NULL;
    uint32_t index = 0;
    while (!(st = kiln_find_device(helper, executor, index, arena, &found))) {
        print_device(&found, out);
        index++;
    }
    if (index == 0 || kiln_status_code(st) != KILN_NOT_FOUND) return st;
    kiln_status_free(st); /* there are no more */
    return NULL;
}

bool kiln_doctor_drivers(kiln_helper *helper, const char *executor, const char *const *files,
                         kiln_arena *arena, kiln_strbuf *out) {
    kiln_status st = print_devices(helper, kiln_executor_find(kiln_str_from(executor)), arena, out);
    bool good = !st || is_absent(st);
    if (st) kiln_strbuf_printf(out, "%s%s", out->size ? "; " : "", kiln_status_text(st));
    for (; *files; files++) good &= name_closed_files(*files, arena, out);
    kiln_status_free(st);
    return good;
}
