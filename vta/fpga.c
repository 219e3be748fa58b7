#include "vta/fpga.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

#define POLL_MS 1

/* Written in place, because it is a command, not a file. */
static kiln_status write_order(const char *path, const char *name) {
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    const size_t bytes = strlen(name);
    if (file < 0)
        return kiln_status_make(kiln_code_from_errno(errno), __FILE__, __LINE__, "opening %s: %s",
                                path, strerror(errno));
    const ssize_t written = write(file, name, bytes);
    const int error = errno;
    close(file);
    if (written == (ssize_t)bytes) return KILN_OK;
    return kiln_status_make(kiln_code_from_errno(written < 0 ? error : EIO), __FILE__, __LINE__,
                            "writing %s to %s: %s", name, path,
                            written < 0 ? strerror(error) : "cut short");
}

/* Waits until the FPGA operates. */
static kiln_status await(const char *path, uint64_t timeout_ns, kiln_arena *arena) {
    const uint64_t begin = kiln_clock_ns();
    for (;;) {
        kiln_str content;
        kiln_status st = kiln_file_read_system(path, arena, &content);
        const kiln_str state = st ? (kiln_str){0} : kiln_str_trim(content);
        if (st || kiln_str_is(state, "operating")) return st;
        if (kiln_str_ends(state, "error"))
            return KILN_ERROR(UNAVAILABLE, "the FPGA's state is '%.*s'", KILN_STR_ARG(state));
        if (kiln_clock_ns() - begin >= timeout_ns)
            return KILN_ERROR(DEADLINE_EXCEEDED, "the FPGA's state is still '%.*s'",
                              KILN_STR_ARG(state));
        (void)poll(NULL, 0, POLL_MS);
    }
}

kiln_status kiln_vta_fpga_load(const char *manager, const char *bitstream, uint64_t timeout_ns) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = write_order(kiln_arena_printf(&scratch, "%s/firmware", manager), bitstream);
    if (!st) st = await(kiln_arena_printf(&scratch, "%s/state", manager), timeout_ns, &scratch);
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "loading bitstream %s", bitstream);
}
