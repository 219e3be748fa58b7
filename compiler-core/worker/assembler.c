#include "compiler-core/worker/assembler.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/macros.h"

#define NOBODY 65534u /* the user that root changes to, as in base/isolated */

/* Before the bytes: of a request the sizes of both parts, of an answer a kiln_code and the size. */
typedef struct head {
    uint32_t first, size;
} head;

static bool read_bytes(int fd, void *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        const ssize_t got = read(fd, (char *)bytes + done, size - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += (size_t)got;
    }
    return true;
}

static bool write_bytes(int fd, const void *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        struct iovec part = {(char *)(uintptr_t)bytes + done, size - done};
        const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        const ssize_t put = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        done += (size_t)put;
    }
    return true;
}

/* ---- the process beside the worker ----------------------------------------------------------- */

static bool is_processor(kiln_str name) {
    for (size_t i = 0; i < name.size; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789_", name.data[i]) || !name.data[i])
            return false;
    return kiln_str_starts(name, "sm_");
}

static kiln_status answer(const char *program, kiln_str processor, kiln_str ptx, kiln_arena *arena,
                          kiln_str *out_text) {
    if (!is_processor(processor)) return KILN_ERROR(INVALID_ARGUMENT, "no processor's name");
    return kiln_ptxas_run(program, processor, ptx, NULL, arena, out_text);
}

/* Serves one request; false: it was the last. */
static bool serve(const char *program, int fd, kiln_arena *arena) {
    head sizes, sent = {0};
    char *processor, *ptx;
    kiln_str text = {0};
    if (!read_bytes(fd, &sizes, sizeof sizes) || sizes.first > KILN_ASSEMBLER_PROCESSOR_MAX ||
        sizes.size > KILN_ASSEMBLER_PTX_MAX)
        return false;
    processor = kiln_arena_alloc(arena, sizes.first + 1);
    ptx = kiln_arena_alloc(arena, sizes.size + (size_t)1);
    if (!read_bytes(fd, processor, sizes.first) || !read_bytes(fd, ptx, sizes.size)) return false;
    kiln_status st = answer(program, (kiln_str){processor, sizes.first},
                            (kiln_str){ptx, sizes.size}, arena, &text);
    if (st) text = kiln_str_copy(arena, kiln_str_from(kiln_status_text(st)));
    sent = (head){(uint32_t)kiln_status_code(st), (uint32_t)text.size};
    kiln_status_free(st);
    return write_bytes(fd, &sent, sizeof sent) && write_bytes(fd, text.data, text.size);
}

/* Drops the rights that it does not need. */
static bool lower_rights(void) {
    const struct rlimit none = {0, 0};
    clearenv();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        setrlimit(RLIMIT_CORE, &none) != 0)
        return false;
    if (geteuid() == 0 && setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0)
        return setresuid(NOBODY, NOBODY, NOBODY) == 0;
    return true;
}

/* Only the connection and standard error stay. */
static bool close_others(int fd) {
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool done = nothing >= 0 && dup2(nothing, STDIN_FILENO) == STDIN_FILENO &&
                dup2(nothing, STDOUT_FILENO) == STDOUT_FILENO;
    if (fd > STDERR_FILENO + 1)
        done = done && close_range(STDERR_FILENO + 1, (unsigned)fd - 1, 0) == 0;
    return done && close_range((unsigned)fd + 1, ~0U, 0) == 0;
}

static void run_beside(const char *program, int fd) {
    kiln_arena arena;
    kiln_arena_init(&arena, (size_t)1 << 20);
    bool goes_on = lower_rights() && close_others(fd);
    while (goes_on) {
        goes_on = serve(program, fd, &arena);
        kiln_arena_reset(&arena);
    }
    _exit(0);
}

bool kiln_assembler_start(int fd) {
    kiln_arena arena;
    int end[2];
    kiln_arena_init(&arena, 0);
    const char *program = kiln_ptxas_tool(KILN_PTXAS_VARIABLE, "ptxas", &arena);
    bool is_started = program && access(program, X_OK) == 0 &&
                      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, end) == 0;
    const pid_t pid = is_started ? fork() : -1;
    if (pid == 0) {
        close(end[0]);
        dup2(end[1], fd);
        run_beside(program, fd);
    }
    if (is_started) {
        is_started = pid > 0 && dup2(end[0], fd) == fd;
        for (int i = 0; i < 2; i++)
            if (end[i] != fd) close(end[i]);
    }
    kiln_arena_deinit(&arena);
    return is_started;
}

/* ---- in the worker ------------------------------------------------------------------------------
 */

kiln_status kiln_assembler_ask(int fd, kiln_str processor, kiln_str ptx, kiln_arena *arena,
                               kiln_ptxas_report *out_report) {
    const head sizes = {(uint32_t)processor.size, (uint32_t)ptx.size};
    head got = {0};
    kiln_code code = KILN_INTERNAL;
    if (ptx.size > KILN_ASSEMBLER_PTX_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "PTX of %zu bytes; at most %zu are passed to ptxas",
                          ptx.size, KILN_ASSEMBLER_PTX_MAX);
    bool works = write_bytes(fd, &sizes, sizeof sizes) &&
                 write_bytes(fd, processor.data, processor.size) &&
                 write_bytes(fd, ptx.data, ptx.size) && read_bytes(fd, &got, sizeof got) &&
                 got.size <= 2 * KILN_PTXAS_OUTPUT_MAX;
    char *text = works ? kiln_arena_alloc(arena, got.size + (size_t)1) : NULL;
    if (!works || !read_bytes(fd, text, got.size))
        return KILN_ERROR(UNAVAILABLE, "the process that runs ptxas is gone");
    if (got.first == KILN_OK)
        return kiln_ptxas_parse((kiln_str){text, got.size}, arena, out_report);
    if (!kiln_code_from_wire(got.first, &code)) code = KILN_INTERNAL;
    return kiln_status_make(code, __FILE__, __LINE__, "%.*s", (int)got.size, text);
}
