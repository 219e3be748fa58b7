#include "rpc-server/doctor_drivers.h"

#include <string.h>

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

bool kiln_doctor_drivers(kiln_helper *helper, const char *name, kiln_arena *arena,
                         kiln_strbuf *out) {
    const kiln_executor *executor = kiln_executor_find(kiln_str_from(name));
    kiln_status st = print_devices(helper, executor, arena, out);
    bool good = !st || is_absent(st);
    if (st) kiln_strbuf_printf(out, "%s%s", out->size ? "; " : "", kiln_status_text(st));
    good &= kiln_driver_print_closed(executor->driver, arena, out) == 0;
    kiln_status_free(st);
    return good;
}
