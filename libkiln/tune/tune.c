/* The host's side of requests: starts the worker, hears it, finds out how it ended. */
#include "libkiln/tune/tune.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/opt.h"
#include "base/proc.h"
#include "base/text.h"
#include "base/vec.h"
#include "libkiln/tune/frame.h"

#define READ_BYTES 65536u
#define LAST_LINE_MAX 512u

struct kiln_request {
    kiln_request_options options;
    kiln_child child;
    int socket;
    kiln_strbuf heard; /* what came and is no whole frame yet */
    kiln_arena arena;  /* of the tasks' texts */
    kiln_arena event;  /* of the one that is handled */
    KILN_VEC(kiln_request_task) task;
    const char *job;
    uint32_t kernel_count;
    double elapsed_s;
    uint64_t elapsed_at_ns;   /* when that was said */
    char line[LAST_LINE_MAX]; /* the last whole one that the worker logged */
    kiln_strbuf logged;       /* behind it */
    atomic_bool cancelled;    /* by any thread */
    bool told;                /* it said how it ended: `status` */
    bool ended;
    kiln_status status;
};

/* ---- the program ----------------------------------------------------------------------------- */

/* Folder of the shared object, or of the program that this is linked into; NULL: not known. */
static char *own_folder(kiln_arena *arena) {
    Dl_info info;
    char resolved[PATH_MAX], *path = resolved;
    kiln_status st = KILN_OK;
    if (!dladdr((void *)(uintptr_t)kiln_request_start, &info) || !info.dli_fname) return NULL;
    if (strcmp(info.dli_fname, program_invocation_name) == 0) /* as it was typed */
        st = kiln_proc_self(arena, &path);
    else if (!realpath(info.dli_fname, resolved))
        return NULL;
    kiln_status_free(st); /* then it is looked for elsewhere */
    if (st || !strrchr(path, '/')) return NULL;
    return kiln_arena_printf(arena, "%.*s", (int)(strrchr(path, '/') - path), path);
}

/* Where the program is; one that is found on PATH alone is left to that. */
static kiln_status find_program(const char *programs, kiln_arena *arena, const char **out_path) {
    const char *bin = kiln_env("KILN_BIN"), *own = own_folder(arena);
    const char *tried[] = {
        programs ? kiln_arena_printf(arena, "%s/kiln", programs) : NULL,
        !programs && bin ? kiln_arena_printf(arena, "%s/kiln", bin) : NULL,
        !programs && bin ? kiln_arena_printf(arena, "%s/cli/kiln", bin) : NULL, /* a build folder */
        !programs && own ? kiln_arena_printf(arena, "%s/kiln", own) : NULL,
        !programs && own ? kiln_arena_printf(arena, "%s/../bin/kiln", own) : NULL,
        !programs && own ? kiln_arena_printf(arena, "%s/../../bin/kiln", own) : NULL, /* lib/ARCH */
        !programs && own ? kiln_arena_printf(arena, "%s/../cli/kiln", own) : NULL,
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(tried); i++) {
        if (!tried[i] || access(tried[i], X_OK) != 0) continue;
        *out_path = tried[i];
        return KILN_OK;
    }
    if (programs) return KILN_ERROR(NOT_FOUND, "there is no program %s/kiln", programs);
    *out_path = "kiln";
    return KILN_OK;
}

static kiln_status start_program(kiln_request *r, int socket) {
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    const char *argv[] = {NULL, KILN_WORKER_ARGUMENT, NULL};
    const kiln_child_options child = {
        .argv = argv, .input_fd = socket, .pipe_error = !r->options.shares_stderr};
    kiln_status st = find_program(r->options.programs, &arena, &argv[0]);
    if (!st) st = kiln_child_start(&child, &r->child);
    if (kiln_status_code(st) == KILN_NOT_FOUND && !r->options.programs)
        st = kiln_status_note(st, "it is neither in $KILN_BIN, nor installed with libkiln, nor on "
                                  "$PATH");
    kiln_arena_deinit(&arena);
    return st;
}

/* Everything of a request fits into the socket's buffer many times. */
static kiln_status send_request(const kiln_request *r) {
    kiln_frame_request request = {.version = KILN_VERSION,
                                  .what = r->options.what,
                                  .subject = r->options.subject,
                                  .setting =
                                      (kiln_request_setting *)(uintptr_t)r->options.settings};
    kiln_strbuf bytes = {0};
    kiln_status st = KILN_OK;
    while (request.setting && request.setting[request.setting_count].name) request.setting_count++;
    if (request.setting_count > KILN_FRAME_SETTINGS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "%u settings: at most %u", request.setting_count,
                          KILN_FRAME_SETTINGS_MAX);
    kiln_frame_write_request(&request, &bytes);
    for (size_t done = 0; !st && done < bytes.size;) {
        const ssize_t n = send(r->socket, bytes.data + done, bytes.size - done, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EPIPE) break; /* it has died: hearing finds out how */
        if (n < 0) st = KILN_ERROR(INTERNAL, "sending the request: %s", strerror(errno));
        if (n > 0) done += (size_t)n;
    }
    kiln_strbuf_deinit(&bytes);
    return st;
}

static kiln_status check_options(const kiln_request_options *o) {
    if (o->struct_bytes < sizeof *o)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "struct_bytes of the options is %zu; set it to sizeof "
                          "(kiln_request_options)",
                          o->struct_bytes);
    if (o->what < KILN_REQUEST_TUNE || o->what > KILN_REQUEST_ATTACH)
        return KILN_ERROR(INVALID_ARGUMENT, "there is no request %u", o->what);
    if (!o->subject && o->what != KILN_REQUEST_JOBS)
        return KILN_ERROR(INVALID_ARGUMENT, "the request has no subject: it wants %s",
                          o->what <= KILN_REQUEST_COMPILE ? "the path of a model"
                                                          : "the identity of a job");
    return KILN_OK;
}

static kiln_status start(kiln_request *r) {
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "no socket can be had: %s", strerror(errno));
    r->socket = ends[0];
    const int above = fcntl(ends[1], F_DUPFD_CLOEXEC, 3); /* in a host without standard input */
    close(ends[1]);
    if (above < 0)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "no descriptor can be had: %s", strerror(errno));
    kiln_status st = start_program(r, above);
    close(above);
    return st ? st : send_request(r);
}

int kiln_request_start(const kiln_request_options *options, kiln_request **out_request, char *error,
                       size_t error_bytes) {
    kiln_status st = check_options(options);
    if (st) return kiln_status_report(st, error, error_bytes);
    kiln_request *r = kiln_alloc(sizeof *r);
    *r = (kiln_request){.options = *options, .socket = -1, .job = ""};
    r->child.error_fd = -1;
    kiln_arena_init(&r->arena, 0);
    kiln_arena_init(&r->event, 0);
    st = start(r);
    r->options.settings = NULL; /* the caller's */
    r->options.subject = NULL;
    if (st)
        kiln_request_free(r);
    else
        *out_request = r;
    return kiln_status_report(st, error, error_bytes);
}

void kiln_request_free(kiln_request *r) {
    if (!r) return;
    kiln_child_destroy(&r->child);
    if (r->socket >= 0) close(r->socket);
    kiln_status_free(r->status);
    kiln_strbuf_deinit(&r->heard);
    kiln_strbuf_deinit(&r->logged);
    kiln_vec_deinit(&r->task);
    kiln_arena_deinit(&r->arena);
    kiln_arena_deinit(&r->event);
    kiln_free(r);
}

void kiln_request_cancel(kiln_request *r) {
    atomic_store(&r->cancelled, true);
    /* Nobody is there any more, or it has not taken a thousand of them yet: nothing is lost. */
    (void)!send(r->socket, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- what is heard --------------------------------------------------------------------------- */

static kiln_request_task *find_task(kiln_request *r, const char *key) {
    for (uint32_t i = 0; i < r->task.count; i++)
        if (strcmp(r->task.data[i].key, key) == 0) return &r->task.data[i];
    return NULL;
}

static const char *keep(kiln_request *r, const char *text) {
    return kiln_str_dup(&r->arena, kiln_str_from(text));
}

static void take_task(kiln_request *r, const kiln_request_task *from) {
    kiln_request_task *task = find_task(r, from->key);
    if (!task) {
        kiln_vec_push(&r->task, *from);
        task = &kiln_vec_last(&r->task);
        task->key = keep(r, from->key);
        task->label = keep(r, from->label);
        task->fault = "";
        return;
    }
    const kiln_request_task before = *task;
    *task = *from;
    task->key = before.key;
    task->label = before.label;
    task->fault = before.fault;
}

static void take_progress(kiln_request *r, const kiln_frame_event *e) {
    r->kernel_count = e->kernel_count;
    r->elapsed_s = e->elapsed_s;
    r->elapsed_at_ns = kiln_clock_ns();
    for (uint32_t i = 0; i < e->task_count; i++) take_task(r, &e->task[i]);
    for (uint32_t i = 0; i < e->fault_count; i++) {
        kiln_request_task *task = find_task(r, e->fault[i].key);
        if (task && !*task->fault) task->fault = keep(r, e->fault[i].text);
    }
}

static void take_event(kiln_request *r, const kiln_frame_event *e) {
    if (e->kind == KILN_FRAME_END) {
        kiln_code code = KILN_INTERNAL;
        r->told = true;
        if (e->code != KILN_OK && !kiln_code_from_wire(e->code, &code)) code = KILN_INTERNAL;
        if (e->code != KILN_OK)
            r->status = kiln_status_make(code, __FILE__, __LINE__, "%s", e->text);
        return;
    }
    if (*e->job && strcmp(r->job, e->job) != 0) r->job = keep(r, e->job);
    if (e->kind == KILN_REQUEST_PROGRESS) take_progress(r, e);
    const kiln_request_event event = {e->kind, e->text};
    if (r->options.heard) r->options.heard(r->options.context, r, &event);
}

/* Handles the whole frames that are there. */
static kiln_status take_frames(kiln_request *r) {
    kiln_str rest = kiln_strbuf_view(&r->heard);
    kiln_status st = KILN_OK;
    size_t size = 0;
    while (!st && rest.size >= KILN_FRAME_HEAD) {
        st = kiln_frame_size(rest.data, &size);
        if (st || rest.size < KILN_FRAME_HEAD + size) break;
        kiln_frame_event event;
        st = kiln_frame_read_event(kiln_str_slice(rest, KILN_FRAME_HEAD, KILN_FRAME_HEAD + size),
                                   &r->event, &event);
        if (!st) take_event(r, &event);
        kiln_arena_reset(&r->event);
        rest = kiln_str_slice(rest, KILN_FRAME_HEAD + size, rest.size);
    }
    memmove(r->heard.data, rest.data, rest.size);
    r->heard.size = rest.size;
    return st;
}

/* Keeps the last whole line of what the worker logs. */
static void hear_log(kiln_request *r) {
    char bytes[READ_BYTES];
    ssize_t n = 0;
    if (r->child.error_fd < 0) return;
    while ((n = read(r->child.error_fd, bytes, sizeof bytes)) > 0) {
        kiln_strbuf_append(&r->logged, bytes, (size_t)n);
        kiln_str rest = kiln_strbuf_view(&r->logged);
        while (kiln_str_find_char(rest, '\n') < rest.size) {
            const kiln_str line = kiln_str_trim(kiln_str_cut(&rest, '\n'));
            if (line.size) kiln_text_write(line, KILN_TEXT_LINE, r->line, sizeof r->line);
        }
        if (rest.size > LAST_LINE_MAX) rest.size = 0;
        memmove(r->logged.data, rest.data, rest.size);
        r->logged.size = rest.size;
    }
    if (n != 0) return;
    close(r->child.error_fd);
    r->child.error_fd = -1;
}

/* Of a worker that did not say how it ended, or ended otherwise. */
static kiln_status how_it_died(const kiln_request *r, kiln_child_exit how) {
    const char *said = r->line[0] ? r->line : "it left no message";
    if (r->cancelled && (how.signal == SIGINT || how.signal == SIGTERM))
        return KILN_ERROR(CANCELLED, "stopped before anything was measured");
    if (how.code == kiln_code_exit(KILN_RESOURCE_EXHAUSTED))
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%s", said);
    return KILN_ERROR(INTERNAL, "the program kiln %s %d: %s",
                      how.signal ? "died of signal" : "ended with",
                      how.signal ? how.signal : how.code, said);
}

static void end(kiln_request *r) {
    const kiln_child_exit how = kiln_child_wait(&r->child);
    const int expected = r->told ? kiln_code_exit(kiln_status_code(r->status)) : -1;
    hear_log(r);
    r->ended = true;
    if (r->told && (how.code == expected || how.code == 0)) return; /* 0: a host that reaps */
    kiln_status_free(r->status);
    r->status = how_it_died(r, how);
}

/* Takes in what there is. False: nothing, for now. */
static bool hear(kiln_request *r) {
    char bytes[READ_BYTES];
    ssize_t n;
    hear_log(r);
    do n = recv(r->socket, bytes, sizeof bytes, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) return false;
    kiln_status st = KILN_OK;
    if (n > 0) {
        kiln_strbuf_append(&r->heard, bytes, (size_t)n);
        st = take_frames(r);
    }
    if (st) kiln_child_destroy(&r->child); /* it is no worker */
    if (st) {
        r->ended = true;
        r->status = kiln_status_note(st, "what the program kiln says");
    } else if (n <= 0) {
        end(r);
    }
    return true;
}

int kiln_request_wait(kiln_request *r, int timeout_ms, int *out_ended, char *error,
                      size_t error_bytes) {
    bool heard = false;
    while (!r->ended && hear(r)) heard = true;
    if (!r->ended && !heard && timeout_ms != 0) {
        struct pollfd ready[] = {{.fd = r->socket, .events = POLLIN},
                                 {.fd = r->child.error_fd, .events = POLLIN}};
        const nfds_t count = r->child.error_fd >= 0 ? 2 : 1;
        if (poll(ready, count, timeout_ms) > 0)
            while (!r->ended && hear(r)) {}
    }
    *out_ended = r->ended;
    if (!r->ended || !r->status) return 0;
    return kiln_status_report(kiln_status_make(kiln_status_code(r->status), __FILE__, __LINE__,
                                               "%s", kiln_status_text(r->status)),
                              error, error_bytes);
}

int kiln_request_descriptor(const kiln_request *r) { return r->socket; }

/* ---- how far it is --------------------------------------------------------------------------- */

const char *kiln_request_job(const kiln_request *r) { return r->job; }
uint32_t kiln_request_task_count(const kiln_request *r) { return r->task.count; }
const kiln_request_task *kiln_request_task_at(const kiln_request *r, uint32_t index) {
    return &r->task.data[index];
}
uint32_t kiln_request_kernel_count(const kiln_request *r) { return r->kernel_count; }
double kiln_request_elapsed_s(const kiln_request *r) {
    if (!r->elapsed_at_ns) return 0;
    return r->elapsed_s + (double)(kiln_clock_ns() - r->elapsed_at_ns) / KILN_NS_PER_S;
}
