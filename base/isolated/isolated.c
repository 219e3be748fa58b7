/* A child process for one piece of work: starts it, answers its requests, and finds out how it
 * ended. */
#include "base/isolated/isolated.h"

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

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"

#define TEXT_MAX 16384    /* of a status, as base/status.c has it, a path and a question */
#define STEP_TEXT_MAX 256 /* of the name of a step */

/* Descriptors of the child. */
enum { CHILD_SOCKET = 0, CHILD_RESULT = 1, CHILD_ERROR = 2 };

/* Messages on the socket. The parent tells the child to begin. The child asks for a file or an
 * answer (also about bytes in its result file), which comes as a descriptor or an error; it names
 * its steps, and reports how its work ended. */
typedef enum talk_kind {
    TALK_BEGIN = 1,
    TALK_OPEN,
    TALK_ASK,
    TALK_SHOW,
    TALK_GIVEN,
    TALK_STEP,
    TALK_STATUS
} talk_kind;
typedef struct talk {
    uint32_t kind; /* talk_kind */
    uint32_t code; /* kiln_code */
    uint64_t size; /* of the given bytes */
    char text[TEXT_MAX];
} talk;
#define TALK_HEAD offsetof(talk, text)

/* Sends a message, with `fd` unless that is -1. False: the other end is closed. */
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

/* Receives a message; `*out_fd` is -1 if it has no descriptor. False: the other end is closed, or
 * the message is invalid. */
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

static kiln_status map_bytes(int fd, size_t size, kiln_mapping *out) {
    void *data = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    if (data == MAP_FAILED)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "no memory for %zu bytes: %s", size, strerror(errno));
    *out = (kiln_mapping){data, size};
    return KILN_OK;
}

static kiln_status write_bytes(int fd, kiln_str bytes) {
    for (size_t done = 0; done < bytes.size;) {
        ssize_t n = write(fd, bytes.data + done, bytes.size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return KILN_ERROR(RESOURCE_EXHAUSTED, "no memory for %zu bytes: %s", bytes.size,
                              strerror(errno));
        done += (size_t)n;
    }
    return KILN_OK;
}

static kiln_status status_of(const talk *t) {
    kiln_code code = KILN_INTERNAL;
    if (!kiln_code_from_wire(t->code, &code) || code == KILN_OK) code = KILN_INTERNAL;
    return kiln_status_make(code, __FILE__, __LINE__, "%s", t->text);
}

/* ---- the child ------------------------------------------------------------------------------- */

/* Asks for a file, or for an answer, which comes in a file. */
static kiln_status get(talk_kind kind, const char *text, size_t shown, int *out_fd,
                       size_t *out_size) {
    talk answer;
    if (!say(CHILD_SOCKET, kind, KILN_OK, shown, text, -1) ||
        !hear(CHILD_SOCKET, &answer, out_fd) || answer.kind != TALK_GIVEN)
        return KILN_ERROR(INTERNAL, "nobody answers: %s", text);
    if (answer.code != KILN_OK) return status_of(&answer);
    if (*out_fd < 0) return KILN_ERROR(RESOURCE_EXHAUSTED, "%s: no descriptor is left", text);
    *out_size = (size_t)answer.size;
    return KILN_OK;
}

kiln_status kiln_isolated_open(const char *path, int *out_fd, size_t *out_size) {
    return get(TALK_OPEN, path, 0, out_fd, out_size);
}

static kiln_status answer_here(const kiln_isolated_work *work, kiln_str question,
                               kiln_strbuf *out) {
    return work->answer ? work->answer(work->context, question, out)
                        : KILN_ERROR(PERMISSION_DENIED, "nothing is answered here");
}

/* Asks, and reads the answer's bytes. */
static kiln_status get_bytes(talk_kind kind, const char *text, size_t shown, kiln_arena *arena,
                             kiln_str *out_answer) {
    kiln_mapping given = {0};
    int fd = -1;
    size_t size = 0;
    kiln_status st = get(kind, text, shown, &fd, &size);
    if (!st) st = map_bytes(fd, size, &given);
    if (!st) *out_answer = kiln_str_copy(arena, (kiln_str){given.data, given.size});
    kiln_file_unmap(&given);
    kiln_fd_close(&fd);
    return st;
}

kiln_status kiln_isolated_ask(const kiln_isolated_work *work, const char *question,
                              kiln_arena *arena, kiln_str *out_answer) {
    kiln_strbuf bytes = {0};
    if (!work->in_process) return get_bytes(TALK_ASK, question, 0, arena, out_answer);
    kiln_status st = answer_here(work, kiln_str_from(question), &bytes);
    *out_answer = kiln_strbuf_end(&bytes, arena);
    return st;
}

static kiln_status write_result(int fd, const kiln_isolated_result *result) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < result->part_count; i++) st = write_bytes(fd, result->part[i]);
    return kiln_status_note(st, "what it gives");
}

static kiln_status look_here(const kiln_isolated_work *work, kiln_str bytes, kiln_strbuf *out) {
    return work->look ? work->look(work->context, bytes, out)
                      : KILN_ERROR(PERMISSION_DENIED, "nothing is looked at here");
}

kiln_status kiln_isolated_show(const kiln_isolated_work *work, const kiln_isolated_result *what,
                               kiln_arena *arena, kiln_str *out_answer) {
    kiln_strbuf all = {0}, bytes = {0};
    size_t size = 0;
    for (uint32_t i = 0; i < what->part_count; i++) size += what->part[i].size;
    if (!work->in_process) {
        kiln_status st = write_result(CHILD_RESULT, what);
        return st ? st : get_bytes(TALK_SHOW, "", size, arena, out_answer);
    }
    for (uint32_t i = 0; i < what->part_count; i++)
        kiln_strbuf_append(&all, what->part[i].data, what->part[i].size);
    kiln_status st = look_here(work, kiln_strbuf_view(&all), &bytes);
    *out_answer = kiln_strbuf_end(&bytes, arena);
    kiln_strbuf_deinit(&all);
    return st;
}

void kiln_isolated_step(const kiln_isolated_work *work, const char *name) {
    if (!work->in_process) say(CHILD_SOCKET, TALK_STEP, KILN_OK, 0, name, -1);
}

/* Closes the parent's descriptors except the child's ends, which become 0, 1 and 2. */
static bool take_ends(int socket, int result, int error) {
    int ends[] = {socket, result, error};
    for (int i = 0; i < 3; i++) /* moved above 2 first, so that none is overwritten */
        if ((ends[i] = fcntl(ends[i], F_DUPFD, 3)) < 0) return false;
    for (int i = 0; i < 3; i++)
        if (dup2(ends[i], i) < 0) return false;
    return true;
}

/* Runs the work; its result is in `fd`. */
static kiln_status do_work(const kiln_isolated_work *work, int fd) {
    kiln_arena arena;
    kiln_isolated_result out = {0};
    kiln_arena_init(&arena, 0);
    kiln_status st = work->run(work->context, &arena, &out);
    if (!st) st = write_result(fd, &out);
    kiln_arena_deinit(&arena);
    return st;
}

static bool may_begin(void) {
    talk t;
    int fd = -1;
    return hear(CHILD_SOCKET, &t, &fd) && t.kind == TALK_BEGIN;
}

KILN_NORETURN static void be_child(const kiln_isolated_work *work, pid_t parent, int socket,
                                   int result, int error) {
    kiln_isolated_limits limits = work->limits;
    if (!limits.cpu_s) limits.cpu_s = KILN_ISOLATED_CPU_S;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* set again after a change of user, which clears it */
    if (getppid() != parent || !take_ends(socket, result, error)) _exit(1);
    signal(SIGINT, SIG_IGN); /* its parent ends it when it is interrupted itself */
    signal(SIGTERM, SIG_IGN);
    kiln_status st = kiln_isolated_drop_rights(KILN_ISOLATED_PARSE, CHILD_ERROR, &limits);
    if (!may_begin()) _exit(1);
    if (!st) st = do_work(work, CHILD_RESULT);
    say(CHILD_SOCKET, TALK_STATUS, kiln_status_code(st), 0, kiln_status_text(st), -1);
    _exit(0);
}

/* ---- the parent ------------------------------------------------------------------------------ */

struct kiln_isolated_process {
    const kiln_isolated_work *work;
    pid_t pid;
    int socket, result, error; /* the parent's ends; -1: none */
    bool told;                 /* the child reported how its work ended */
    bool too_long;             /* the time limit was exceeded */
    bool step_too_long;        /* the limit of a step was exceeded */
    char step[STEP_TEXT_MAX];  /* the last step's name, printable */
    kiln_status status;
};

static kiln_status take_result(const kiln_isolated_process *c, kiln_mapping *out_result) {
    struct stat info;
    if (fstat(c->result, &info) != 0 || info.st_size < 0)
        return KILN_ERROR(INTERNAL, "%s: %s", c->work->what, strerror(errno));
    return kiln_status_note(map_bytes(c->result, (size_t)info.st_size, out_result), "%s",
                            c->work->what);
}

static void give(const kiln_isolated_process *c, kiln_status st, size_t size, int fd) {
    say(c->socket, TALK_GIVEN, kiln_status_code(st), size, st ? kiln_status_text(st) : "", fd);
    kiln_fd_close(&fd);
    kiln_status_free(st);
}

static void open_for(const kiln_isolated_process *c, const char *path) {
    int fd = -1;
    size_t size = 0;
    kiln_status st = c->work->folder
                         ? kiln_file_open_inside(c->work->folder, path, &fd, &size)
                         : KILN_ERROR(PERMISSION_DENIED, "%s: there are no files here", path);
    give(c, st, size, fd);
}

/* Sends the bytes of an answer, or `st`. */
static void give_bytes(const kiln_isolated_process *c, kiln_status st, kiln_strbuf *bytes) {
    int fd = -1;
    if (!st && (fd = memfd_create("kiln-isolated", MFD_CLOEXEC)) < 0)
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "no memory for an answer: %s", strerror(errno));
    if (!st) st = write_bytes(fd, kiln_strbuf_view(bytes));
    give(c, st, bytes->size, fd);
    kiln_strbuf_deinit(bytes);
}

static void answer_for(const kiln_isolated_process *c, const char *question) {
    kiln_strbuf bytes = {0};
    kiln_status st = answer_here(c->work, kiln_str_from(question), &bytes);
    give_bytes(c, st, &bytes);
}

/* Passes what the child wrote to `look`, and then empties the result file, whose offset both share.
 */
static void look_for(const kiln_isolated_process *c, uint64_t size) {
    kiln_mapping shown = {0};
    kiln_strbuf bytes = {0};
    kiln_status st = take_result(c, &shown);
    if (!st && shown.size != size)
        st = KILN_ERROR(DATA_LOSS, "%zu bytes are shown as %llu", shown.size,
                        (unsigned long long)size);
    if (!st) st = look_here(c->work, (kiln_str){shown.data, shown.size}, &bytes);
    kiln_file_unmap(&shown);
    const bool cleared = ftruncate(c->result, 0) == 0 && lseek(c->result, 0, SEEK_SET) == 0;
    if (!st && !cleared) st = KILN_ERROR(INTERNAL, "clearing what was shown: %s", strerror(errno));
    give_bytes(c, st, &bytes);
}

static uint32_t cpu_s_of(const kiln_isolated_process *c) {
    return c->work->limits.cpu_s ? c->work->limits.cpu_s : KILN_ISOLATED_CPU_S;
}

/* Answers the child until it ends or exceeds its time, because even a process without rights can
 * wait forever. */
static void serve(kiln_isolated_process *c) {
    const uint64_t step_ns = c->work->step_s ? c->work->step_s * KILN_NS_PER_S : UINT64_MAX / 2;
    uint64_t now_ns = kiln_clock_ns(), step_end_ns = now_ns + step_ns;
    const uint64_t end_ns = now_ns + 4 * cpu_s_of(c) * KILN_NS_PER_S;
    talk t;
    int fd = -1;
    for (;;) {
        struct pollfd ready = {.fd = c->socket, .events = POLLIN};
        now_ns = kiln_clock_ns();
        c->too_long = now_ns >= end_ns;
        c->step_too_long = now_ns >= step_end_ns;
        if (c->too_long || c->step_too_long) return;
        const uint64_t wait_ns = KILN_MIN(end_ns, step_end_ns) - now_ns;
        const int n = poll(&ready, 1, (int)(wait_ns / KILN_NS_PER_MS) + 1);
        if (n == 0 || (n < 0 && errno == EINTR)) continue;
        if (n < 0) return;
        const bool heard = hear(c->socket, &t, &fd);
        kiln_fd_close(&fd); /* no message to the parent has a descriptor */
        if (!heard) return;
        if (t.kind == TALK_OPEN) {
            open_for(c, t.text);
        } else if (t.kind == TALK_ASK) {
            answer_for(c, t.text);
        } else if (t.kind == TALK_SHOW) {
            look_for(c, t.size);
            step_end_ns = kiln_clock_ns() + step_ns;
        } else if (t.kind == TALK_STEP) {
            kiln_text_write(kiln_str_from(t.text), KILN_TEXT_LINE, c->step, sizeof c->step);
            step_end_ns = kiln_clock_ns() + step_ns;
        } else if (t.kind == TALK_STATUS) {
            c->told = true;
            if (t.code != KILN_OK) c->status = status_of(&t);
            return;
        }
    }
}

/* Matches the message of C++ programs without memory. */
static bool says_no_memory(const char *line) {
    return strstr(line, "std::bad_alloc") || strstr(line, "ut of memory");
}

/* Describes how the child died, with its first line of output. */
static kiln_status how_it_died(const kiln_isolated_process *c, int wait_status,
                               const char *subject) {
    char said[512], line[256] = "";
    const kiln_isolated_limits *limits = &c->work->limits;
    const uint64_t memory =
        limits->memory_bytes ? limits->memory_bytes : KILN_ISOLATED_MEMORY_BYTES;
    const int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
    const int number = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    ssize_t size = read(c->error, said, sizeof said);
    kiln_str text = {said, size > 0 ? (size_t)size : 0};
    kiln_text_write(kiln_str_cut(&text, '\n'), KILN_TEXT_LINE, line, sizeof line);
    if (code == kiln_code_exit(KILN_RESOURCE_EXHAUSTED) || number == SIGXFSZ ||
        says_no_memory(line))
        return KILN_ERROR(RESOURCE_EXHAUSTED,
                          "%s takes more than %llu MiB of memory (--model-memory allows more)",
                          subject, (unsigned long long)(memory >> 20));
    if (c->step_too_long)
        return KILN_ERROR(DEADLINE_EXCEEDED, "%s takes more than %u s", subject, c->work->step_s);
    if (c->too_long || number == SIGXCPU)
        return KILN_ERROR(DEADLINE_EXCEEDED, "%s takes more than %u s of processor time", subject,
                          cpu_s_of(c));
    return KILN_ERROR(INTERNAL, "%s: its process %s %d%s%s", subject,
                      number ? "died of signal" : "ended with", number ? number : code,
                      line[0] ? ": " : "", line);
}

static kiln_status start(kiln_isolated_process *c) {
    int sockets[2] = {-1, -1}, errors[2] = {-1, -1};
    const pid_t parent = getpid();
    c->result = memfd_create("kiln-isolated", MFD_CLOEXEC);
    if (c->work->in_process && c->result >= 0) return KILN_OK;
    if (c->result >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0 &&
        pipe2(errors, O_CLOEXEC | O_NONBLOCK) == 0)
        c->pid = fork();
    if (c->pid == 0) be_child(c->work, parent, sockets[1], c->result, errors[1]);
    const int error = errno;
    kiln_fd_close(&sockets[1]);
    kiln_fd_close(&errors[1]);
    c->socket = sockets[0];
    c->error = errors[0];
    return c->pid > 0 ? KILN_OK
                      : KILN_ERROR(RESOURCE_EXHAUSTED, "%s: no process can be had for it: %s",
                                   c->work->what, strerror(error));
}

kiln_status kiln_isolated_start(const kiln_isolated_work *work,
                                kiln_isolated_process **out_process) {
    kiln_isolated_process *c = kiln_alloc(sizeof *c);
    *c = (kiln_isolated_process){.work = work, .pid = -1, .socket = -1, .result = -1, .error = -1};
    kiln_status st = start(c);
    if (st)
        kiln_isolated_cancel(c);
    else
        *out_process = c;
    return st;
}

/* Ends the child, which may have ended already, and returns its wait status. */
static int end_child(kiln_isolated_process *c) {
    int wait_status = 0;
    if (c->pid <= 0) return 0;
    kill(c->pid, SIGKILL);
    while (waitpid(c->pid, &wait_status, 0) < 0 && errno == EINTR) {}
    c->pid = -1;
    return wait_status;
}

void kiln_isolated_cancel(kiln_isolated_process *c) {
    if (!c) return;
    end_child(c);
    kiln_fd_close(&c->socket);
    kiln_fd_close(&c->error);
    kiln_fd_close(&c->result);
    kiln_free(c);
}

/* The work's own errors already name the step. */
static kiln_status work_in_child(kiln_isolated_process *c) {
    say(c->socket, TALK_BEGIN, KILN_OK, 0, "", -1);
    serve(c);
    const int wait_status = end_child(c);
    if (c->told) return c->status;
    kiln_strbuf subject = {0};
    kiln_strbuf_printf(&subject, "%s%s%s", c->work->what, c->step[0] ? ": " : "", c->step);
    kiln_status st = how_it_died(c, wait_status, subject.data);
    kiln_strbuf_deinit(&subject);
    return st;
}

kiln_status kiln_isolated_finish(kiln_isolated_process *c, kiln_mapping *out_result) {
    kiln_status st = c->work->in_process ? do_work(c->work, c->result) : work_in_child(c);
    if (!st) st = take_result(c, out_result);
    kiln_isolated_cancel(c);
    return st;
}

kiln_status kiln_isolated_run(const kiln_isolated_work *work, kiln_mapping *out_result) {
    kiln_isolated_process *c = NULL;
    kiln_status st = kiln_isolated_start(work, &c);
    return st ? st : kiln_isolated_finish(c, out_result);
}
