/* A child for one piece of work: starting it, serving it, finding out how it ended. */
#include "base/cage/cage.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"

#define TEXT_MAX 16384 /* of a status, as base/status.c has it, and of a path */

/* Descriptors of the child. */
enum { CHILD_SOCKET = 0, CHILD_RESULT = 1, CHILD_ERROR = 2 };

/* What goes over the socket, one message each. The child asks for a file, which comes with its
 * descriptor or an error, and says how its work ended. */
typedef enum talk_kind { TALK_OPEN = 1, TALK_OPENED, TALK_STATUS } talk_kind;
typedef struct talk {
    uint32_t kind; /* talk_kind */
    uint32_t code; /* kiln_code */
    uint64_t size; /* of an opened file */
    char text[TEXT_MAX];
} talk;
#define TALK_HEAD offsetof(talk, text)

/* Sends it with `fd` unless that is -1. False: nobody is there. */
static bool say(int socket, talk_kind kind, kiln_code code, uint64_t size, const char *text,
                int fd) {
    talk t = {.kind = kind, .code = (uint32_t)code, .size = size};
    const size_t length = KILN_MIN(strlen(text), sizeof t.text - 1);
    memcpy(t.text, text, length);
    struct iovec part = {&t, TALK_HEAD + length + 1};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } with = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = &with;
        message.msg_controllen = sizeof with;
        with.header = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&with.header), &fd, sizeof fd);
    }
    ssize_t sent;
    do sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)part.iov_len;
}

/* Receives one; `*out_fd` is -1 when none came with it. False: at the end, or it is none. */
static bool hear(int socket, talk *out, int *out_fd) {
    struct iovec part = {out, sizeof *out};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } with;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &with, .msg_controllen = sizeof with};
    ssize_t got;
    *out_fd = -1;
    do got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    for (struct cmsghdr *c = got < 0 ? NULL : CMSG_FIRSTHDR(&message); c;
         c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_type == SCM_RIGHTS) memcpy(out_fd, CMSG_DATA(c), sizeof *out_fd);
    if (got <= (ssize_t)TALK_HEAD) return false;
    out->text[(size_t)got - TALK_HEAD - 1] = '\0';
    return true;
}

static kiln_status status_of(const talk *t) {
    kiln_code code = KILN_INTERNAL;
    if (!kiln_code_from_wire(t->code, &code) || code == KILN_OK) code = KILN_INTERNAL;
    return kiln_status_make(code, __FILE__, __LINE__, "%s", t->text);
}

/* ---- the child ------------------------------------------------------------------------------- */

kiln_status kiln_cage_open(const char *path, int *out_fd, size_t *out_size) {
    talk answer;
    if (!say(CHILD_SOCKET, TALK_OPEN, KILN_OK, 0, path, -1) ||
        !hear(CHILD_SOCKET, &answer, out_fd) || answer.kind != TALK_OPENED)
        return KILN_ERROR(INTERNAL, "nobody opens %s", path);
    if (answer.code != KILN_OK) return status_of(&answer);
    if (*out_fd < 0) return KILN_ERROR(RESOURCE_EXHAUSTED, "%s: no descriptor is left", path);
    *out_size = (size_t)answer.size;
    return KILN_OK;
}

static kiln_status write_result(const kiln_cage_result *result) {
    for (uint32_t i = 0; i < result->part_count; i++) {
        for (size_t done = 0; done < result->part[i].size;) {
            ssize_t n =
                write(CHILD_RESULT, result->part[i].data + done, result->part[i].size - done);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0)
                return KILN_ERROR(RESOURCE_EXHAUSTED, "no memory for what it gives: %s",
                                  strerror(errno));
            done += (size_t)n;
        }
    }
    return KILN_OK;
}

/* Of the parent's descriptors only its own ends stay, as 0, 1 and 2. */
static bool take_ends(int socket, int result, int error) {
    int ends[] = {socket, result, error};
    for (int i = 0; i < 3; i++) /* none of them may be below 3 when they are moved there */
        if ((ends[i] = fcntl(ends[i], F_DUPFD, 3)) < 0) return false;
    for (int i = 0; i < 3; i++)
        if (dup2(ends[i], i) < 0) return false;
    return true;
}

KILN_NORETURN static void be_child(const kiln_cage_work *work, pid_t parent, int socket, int result,
                                   int error) {
    kiln_arena arena;
    kiln_cage_result out = {0};
    kiln_cage_limits limits = work->limits;
    if (!limits.cpu_s) limits.cpu_s = KILN_CAGE_CPU_S;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* and again where a change of user clears it */
    if (getppid() != parent || !take_ends(socket, result, error)) _exit(1);
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_cage_shut(KILN_CAGE_PARSE, CHILD_ERROR, &limits);
    if (!st) st = work->run(work->context, &arena, &out);
    if (!st) st = write_result(&out);
    say(CHILD_SOCKET, TALK_STATUS, kiln_status_code(st), 0, kiln_status_text(st), -1);
    _exit(0);
}

/* ---- the parent ------------------------------------------------------------------------------ */

typedef struct cage {
    const kiln_cage_work *work;
    pid_t pid;
    int socket, result, error; /* our ends; -1: none */
    bool told;                 /* it said how its work ended */
    bool too_long;             /* it was waited for long enough */
    kiln_status status;
} cage;

static void open_for(const cage *c, const char *path) {
    int fd = -1;
    size_t size = 0;
    kiln_status st = c->work->folder
                         ? kiln_file_open_inside(c->work->folder, path, &fd, &size)
                         : KILN_ERROR(PERMISSION_DENIED, "%s: there are no files here", path);
    say(c->socket, TALK_OPENED, kiln_status_code(st), size, st ? kiln_status_text(st) : "", fd);
    if (fd >= 0) close(fd);
    kiln_status_free(st);
}

/* Serves the child until it ends or hangs. A child without rights can still wait for ever. */
static void serve(cage *c) {
    const uint32_t cpu_s = c->work->limits.cpu_s ? c->work->limits.cpu_s : KILN_CAGE_CPU_S;
    const uint64_t end_ns = kiln_clock_ns() + 4 * cpu_s * KILN_NS_PER_S;
    talk t;
    int fd = -1;
    for (;;) {
        struct pollfd ready = {.fd = c->socket, .events = POLLIN};
        const uint64_t now_ns = kiln_clock_ns();
        c->too_long = now_ns >= end_ns;
        if (c->too_long) return;
        const int n = poll(&ready, 1, (int)((end_ns - now_ns) / KILN_NS_PER_MS) + 1);
        if (n == 0 || (n < 0 && errno == EINTR)) continue;
        if (n < 0) return;
        const bool heard = hear(c->socket, &t, &fd);
        if (fd >= 0) close(fd); /* nothing of it is wanted */
        if (!heard) return;
        if (t.kind == TALK_OPEN) {
            open_for(c, t.text);
        } else if (t.kind == TALK_STATUS) {
            c->told = true;
            if (t.code != KILN_OK) c->status = status_of(&t);
            return;
        }
    }
}

/* How it died, with the first line that it wrote. */
static kiln_status how_it_died(const cage *c, int wait_status) {
    char said[512], line[256] = "";
    const kiln_cage_limits *limits = &c->work->limits;
    const uint64_t memory = limits->memory_bytes ? limits->memory_bytes : KILN_CAGE_MEMORY_BYTES;
    ssize_t size = read(c->error, said, sizeof said);
    kiln_str text = {said, size > 0 ? (size_t)size : 0};
    kiln_text_write(kiln_str_cut(&text, '\n'), KILN_TEXT_LINE, line, sizeof line);
    if (WIFEXITED(wait_status) &&
        WEXITSTATUS(wait_status) == kiln_code_exit(KILN_RESOURCE_EXHAUSTED))
        return KILN_ERROR(RESOURCE_EXHAUSTED,
                          "%s takes more than %llu MiB of memory (--model-memory allows more)",
                          c->work->what, (unsigned long long)(memory >> 20));
    if (c->too_long || (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGXCPU))
        return KILN_ERROR(DEADLINE_EXCEEDED, "%s takes more than %u s of processor time",
                          c->work->what, limits->cpu_s ? limits->cpu_s : KILN_CAGE_CPU_S);
    if (WIFSIGNALED(wait_status))
        return KILN_ERROR(INTERNAL, "%s: its process died of signal %d%s%s", c->work->what,
                          WTERMSIG(wait_status), line[0] ? ": " : "", line);
    return KILN_ERROR(INTERNAL, "%s: its process ended with %d%s%s", c->work->what,
                      WEXITSTATUS(wait_status), line[0] ? ": " : "", line);
}

static void close_end(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Starts the child; `c` has our ends then. */
static kiln_status start(cage *c) {
    int sockets[2] = {-1, -1}, errors[2] = {-1, -1};
    const pid_t parent = getpid();
    c->result = memfd_create("kiln-cage", MFD_CLOEXEC);
    if (c->result >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0 &&
        pipe2(errors, O_CLOEXEC | O_NONBLOCK) == 0)
        c->pid = fork();
    if (c->pid == 0) be_child(c->work, parent, sockets[1], c->result, errors[1]);
    const int error = errno;
    close_end(&sockets[1]);
    close_end(&errors[1]);
    c->socket = sockets[0];
    c->error = errors[0];
    return c->pid > 0 ? KILN_OK
                      : KILN_ERROR(RESOURCE_EXHAUSTED, "%s: no process can be had for it: %s",
                                   c->work->what, strerror(error));
}

static kiln_status take_result(const cage *c, kiln_mapping *out_result) {
    struct stat info;
    if (fstat(c->result, &info) != 0 || info.st_size < 0)
        return KILN_ERROR(INTERNAL, "%s: %s", c->work->what, strerror(errno));
    const size_t size = (size_t)info.st_size;
    void *data = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, c->result, 0) : NULL;
    if (data == MAP_FAILED)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%s: %s", c->work->what, strerror(errno));
    *out_result = (kiln_mapping){data, size};
    return KILN_OK;
}

kiln_status kiln_cage_run(const kiln_cage_work *work, kiln_mapping *out_result) {
    cage c = {.work = work, .pid = -1, .socket = -1, .result = -1, .error = -1};
    int wait_status = 0;
    kiln_status st = start(&c);
    if (!st) {
        serve(&c);
        /* It has ended, is about to, or hangs. Who is ending already ends as it was going to. */
        kill(c.pid, SIGKILL);
        while (waitpid(c.pid, &wait_status, 0) < 0 && errno == EINTR) {}
        st = c.told ? c.status : how_it_died(&c, wait_status);
    }
    if (!st) st = take_result(&c, out_result);
    close_end(&c.socket);
    close_end(&c.error);
    close_end(&c.result);
    return st;
}
