#include "rpc-server/fpga.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

#define POLL_MS 1

/* Written in place: it is no file but an order. */
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

/* Until it operates. */
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

static kiln_status load(kiln_fpga *fpga, kiln_str bitstream, const kiln_digest *digest,
                        uint64_t timeout_ns, kiln_arena *arena) {
    char hash[KILN_DIGEST_TEXT];
    kiln_digest_print(digest, hash);
    const char *name = kiln_arena_printf(arena, "kiln-%s.bin", hash);
    const char *path = kiln_arena_printf(arena, "%s/%s", fpga->firmware, name);
    kiln_status st = kiln_file_exists(path) ? KILN_OK : kiln_file_write(path, bitstream, 0600);
    fpga->is_loaded = false;
    if (!st) st = write_order(kiln_arena_printf(arena, "%s/firmware", fpga->manager), name);
    if (!st) st = await(kiln_arena_printf(arena, "%s/state", fpga->manager), timeout_ns, arena);
    if (st) return kiln_status_note(st, "loading bitstream %s", hash);
    fpga->is_loaded = true;
    fpga->loaded = *digest;
    fpga->load_count++;
    return KILN_OK;
}

kiln_status kiln_fpga_load(kiln_fpga *fpga, kiln_str bitstream, uint64_t timeout_ns) {
    kiln_arena scratch;
    kiln_digest digest;
    kiln_digest_of(bitstream.data, bitstream.size, &digest);
    if (fpga->is_loaded && kiln_digest_equal(&fpga->loaded, &digest)) return KILN_OK;
    kiln_arena_init(&scratch, 0);
    kiln_status st = load(fpga, bitstream, &digest, timeout_ns, &scratch);
    kiln_arena_deinit(&scratch);
    return st;
}
