#include "rpc-server/find_device.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "rpc-server/child_protocol.h"
#include "rpc-server/sandbox.h"

/* Copies a text of another process, which may lack its NUL. */
static kiln_str keep(const char text[KILN_CHILD_TEXT_BYTES], kiln_arena *arena) {
    const kiln_str whole = {text, strnlen(text, KILN_CHILD_TEXT_BYTES)};
    return (kiln_str){kiln_str_dup(arena, whole), whole.size};
}

static kiln_status ask(int socket, const kiln_executor *executor, uint32_t index, int folder,
                       kiln_arena *arena, kiln_found_device *out) {
    kiln_child_device device;
    uint32_t row = 0, fences = 0;
    while (kiln_executor_at(row) != executor) row++;
    kiln_status st = kiln_child_await_ready(socket, &fences);
    if (!st) st = kiln_child_ask_device(socket, folder, row, index, &device);
    if (st) return st;
    *out = (kiln_found_device){.index = index,
                               .target_text = keep(device.target, arena),
                               .name = keep(device.name, arena),
                               .driver = keep(device.driver, arena),
                               .management = keep(device.management, arena),
                               .memory_bytes = device.memory_bytes};
    return kiln_target_parse(out->target_text, arena, &out->target);
}

kiln_status kiln_find_device(kiln_helper *helper, const kiln_executor *executor, uint32_t index,
                             kiln_arena *arena, kiln_found_device *out_device) {
    kiln_held child = {.pidfd = -1};
    kiln_found_device found;
    char *folder = NULL;
    int socket = -1, folder_fd = -1;
    KILN_CHECK(executor->driver);
    kiln_status st = kiln_folder_hold_temp("kiln-device", PATH_MAX, arena, &folder, &folder_fd);
    if (st) return st;
    kiln_sandbox_let_write(folder_fd);
    st = kiln_helper_start(helper, executor->driver, &socket, &child);
    if (!st) st = ask(socket, executor, index, folder_fd, arena, &found);
    if (child.number) kiln_helper_release(helper, child.number);
    kiln_fd_close(&child.pidfd);
    kiln_fd_close(&socket);
    kiln_status_free(
        kiln_helper_remove_folder(helper, folder)); /* a later call removes what stays */
    close(folder_fd);
    if (st) return kiln_status_note(st, "device %u of --executor %s", index, executor->name);
    *out_device = found;
    return NULL;
}

/* Asks all devices in order, until one has the whole name. */
static kiln_status search(kiln_helper *helper, const kiln_executor *executor, kiln_str wanted,
                          kiln_arena *arena, kiln_strbuf *names, kiln_found_device *out_device) {
    kiln_found_device device, chosen;
    kiln_status st = NULL;
    uint32_t index = 0, fitting = 0;
    while (!(st = kiln_find_device(helper, executor, index, arena, &device))) {
        kiln_strbuf_printf(names, "%s%u \"%.*s\"", index ? ", " : "", index,
                           KILN_STR_ARG(device.name));
        if (kiln_str_equal(device.name, wanted)) {
            *out_device = device;
            return NULL;
        }
        index++;
        if (!memmem(device.name.data, device.name.size, wanted.data, wanted.size)) continue;
        chosen = device;
        fitting++;
    }
    if (index == 0 || kiln_status_code(st) != KILN_NOT_FOUND) return st;
    kiln_status_free(st); /* there are no more */
    if (fitting == 0)
        return KILN_ERROR(NOT_FOUND, "no device of --executor %s is named \"%.*s\"; there are: %s",
                          executor->name, KILN_STR_ARG(wanted), names->data);
    if (fitting > 1)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "%u devices of --executor %s are named \"%.*s\"; there are: %s", fitting,
                          executor->name, KILN_STR_ARG(wanted), names->data);
    *out_device = chosen;
    return NULL;
}

/* Finds the first device that runs code for `target`. */
static kiln_status search_for(kiln_helper *helper, const kiln_executor *executor,
                              const kiln_target *target, kiln_arena *arena,
                              kiln_found_device *out_device) {
    kiln_strbuf reason = {0};
    kiln_found_device device;
    kiln_status st = NULL;
    uint32_t index = 0;
    bool found = false;
    while (!found && !(st = kiln_find_device(helper, executor, index, arena, &device))) {
        kiln_strbuf_reset(&reason);
        found = kiln_target_runs_on(target, &device.target, &reason);
        index++;
    }
    if (found)
        *out_device = device;
    else if (index > 0 && kiln_status_code(st) == KILN_NOT_FOUND)
        st = kiln_status_note(st, "none of them is the wanted machine: %s", reason.data);
    kiln_strbuf_deinit(&reason);
    return st;
}

/* A simulated machine exists without opening a device. On a board, searches a device that can run
 * it. */
static kiln_status find_machine(kiln_helper *helper, const kiln_executor *executor, kiln_str text,
                                kiln_arena *arena, kiln_found_device *out_device) {
    kiln_target target;
    kiln_strbuf printed = {0};
    kiln_status st = kiln_target_parse(text, arena, &target);
    if (!st && !(kiln_target_is_software(&target) &&
                 strcmp(kiln_target_kind_executor(target.kind), executor->name) == 0))
        st = KILN_ERROR(INVALID_ARGUMENT, "'%.*s' is not a machine that --executor %s simulates",
                        KILN_STR_ARG(text), executor->name);
    if (st) return st;
    if (kiln_driver_has_files(executor->driver))
        return search_for(helper, executor, &target, arena, out_device);
    kiln_target_print(&target, &printed);
    const kiln_str canonical = kiln_strbuf_end(&printed, arena);
    *out_device = (kiln_found_device){
        .target = target,
        .target_text = canonical,
        .name = kiln_str_printf(arena, "simulated %.*s", KILN_STR_ARG(canonical)),
        .driver = KILN_STR("none")};
    return NULL;
}

static bool is_target_text(const kiln_executor *executor, kiln_str wanted) {
    kiln_str rest = wanted;
    return kiln_str_is(kiln_str_cut(&rest, ':'), executor->name) && rest.size;
}

kiln_status kiln_find_device_named(kiln_helper *helper, const kiln_executor *executor,
                                   kiln_str wanted, kiln_arena *arena,
                                   kiln_found_device *out_device) {
    uint64_t number = 0;
    if (kiln_str_to_u64(wanted, &number) && number <= UINT32_MAX)
        return kiln_find_device(helper, executor, (uint32_t)number, arena, out_device);
    if (is_target_text(executor, wanted))
        return find_machine(helper, executor, wanted, arena, out_device);
    kiln_strbuf names = {0};
    kiln_status st = search(helper, executor, wanted, arena, &names, out_device);
    kiln_strbuf_deinit(&names);
    return st;
}
