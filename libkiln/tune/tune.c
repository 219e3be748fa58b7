/* The host's side of requests: starts the worker, reads its events, finds out how it ended. The
 * process belongs to an application: a failed allocation is an error, not an abort. */
#include "libkiln/tune/tune.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/opt.h"
#include "base/text.h"
#include "libkiln/tune/frame.h"

#define READ_BYTES 65536u
#define LINE_BYTES_MIN 32u /* room for a line: kiln_text_write, and its beginning */
#define NO_MEMORY "out of memory for the request's answers"
#define LOG_MAX 2048u /* bytes of a worker's log that are kept; limit of an error's text */

struct kiln_request {
    kiln_request_options options;
    kiln_child child;
    int socket;
    kiln_strbuf heard;       /* received bytes of an incomplete frame */
    kiln_request_task *task; /* with own copies of texts */
    uint32_t task_count, task_capacity;
    char *job; /* NULL: none yet */
    uint32_t kernel_count;
    double elapsed_s;
    uint64_t elapsed_at_ns; /* time of that event */
    char log[LOG_MAX];      /* the end of the worker's log */
    size_t log_size;
    bool log_is_cut;       /* the beginning is missing */
    atomic_bool cancelled; /* set by any thread */
    bool is_told;          /* the worker reported its end: `told` and `status` */
    kiln_code told;
    bool ended;
    kiln_status status;
};

/* ---- the program ----------------------------------------------------------------------------- */

/* Folder of the shared object, or of the program that this is linked into. False: not known. */
static bool find_own_folder(char out_folder[PATH_MAX]) {
    Dl_info info;
    if (!dladdr((void *)(uintptr_t)kiln_request_start, &info) || !info.dli_fname) return false;
    const bool is_typed = strcmp(info.dli_fname, program_invocation_name) == 0;
    if (!realpath(is_typed ? "/proc/self/exe" : info.dli_fname, out_folder)) return false;
    char *slash = strrchr(out_folder, '/');
    if (!slash) return false;
    *slash = '\0';
    return true;
}

/* Looks in "FOLDER/REST"; `folder` NULL: there is none. */
static bool is_there(const char *folder, const char *rest, char out_path[PATH_MAX]) {
    if (!folder) return false;
    const int size = snprintf(out_path, PATH_MAX, "%s/%s", folder, rest);
    return size < PATH_MAX && access(out_path, X_OK) == 0;
}

/* Finds the program; a program found only on PATH is not resolved. */
static kiln_status find_program(const char *programs, char out_path[PATH_MAX]) {
    char folder[PATH_MAX];
    if (programs) {
        if (is_there(programs, "kiln", out_path)) return KILN_OK;
        return KILN_ERROR(NOT_FOUND, "there is no program %s/kiln", programs);
    }
    const char *bin = kiln_env("KILN_BIN"), *own = find_own_folder(folder) ? folder : NULL;
    const struct {
        const char *folder, *rest;
    } place[] = {
        {bin, "kiln"},        {bin, "cli/kiln"},                             /* a build folder */
        {own, "kiln"},        {own, "../bin/kiln"}, {own, "../../bin/kiln"}, /* lib/ARCH */
        {own, "../cli/kiln"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(place); i++)
        if (is_there(place[i].folder, place[i].rest, out_path)) return KILN_OK;
    memcpy(out_path, "kiln", sizeof "kiln");
    return KILN_OK;
}

static kiln_status start_program(kiln_request *r, int socket) {
    char path[PATH_MAX];
    const char *argv[] = {path, KILN_WORKER_ARGUMENT, NULL};
    const kiln_child_options child = {
        .argv = argv, .input_fd = socket, .pipe_error = !r->options.shares_stderr};
    kiln_status st = find_program(r->options.programs, path);
    if (!st) st = kiln_child_start(&child, &r->child);
    if (kiln_status_code(st) == KILN_NOT_FOUND && !r->options.programs)
        st = kiln_status_note(st, "it is neither in $KILN_BIN, nor installed with libkiln, nor on "
                                  "$PATH");
    return st;
}

/* A request is far smaller than the socket's buffer. */
static kiln_status send_request(const kiln_request *r) {
    kiln_frame_request request = {.version = KILN_VERSION,
                                  .what = r->options.what,
                                  .subject = r->options.subject,
                                  .setting =
                                      (kiln_request_setting *)(uintptr_t)r->options.settings};
    kiln_strbuf bytes = {0};
    while (request.setting && request.setting[request.setting_count].name) request.setting_count++;
    if (request.setting_count > KILN_FRAME_SETTINGS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "%u settings: at most %u", request.setting_count,
                          KILN_FRAME_SETTINGS_MAX);
    kiln_status st = kiln_frame_write_request(&request, &bytes);
    for (size_t done = 0; !st && done < bytes.size;) {
        const ssize_t n = send(r->socket, bytes.data + done, bytes.size - done, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EPIPE) break; /* it has died: reading finds the reason */
        if (n < 0) st = KILN_ERROR(INTERNAL, "sending the request: %s", strerror(errno));
        if (n > 0) done += (size_t)n;
    }
    kiln_strbuf_deinit(&bytes);
    return st;
}

static const char *subject_of(uint32_t what) {
    if (what <= KILN_REQUEST_COMPILE) return "the path of a model";
    if (what == KILN_REQUEST_EXPLAIN) return "the identity of a trial";
    return what == KILN_REQUEST_COST_MODEL ? "a target" : "the identity of a job";
}

static kiln_status check_options(const kiln_request_options *o) {
    if (o->struct_bytes < sizeof *o)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "struct_bytes of the options is %zu; set it to sizeof "
                          "(kiln_request_options)",
                          o->struct_bytes);
    if (o->what < KILN_REQUEST_TUNE || o->what > KILN_REQUEST_COST_MODEL)
        return KILN_ERROR(INVALID_ARGUMENT, "there is no request %u", o->what);
    if (!o->subject && o->what != KILN_REQUEST_JOBS)
        return KILN_ERROR(INVALID_ARGUMENT, "the request has no subject: it needs %s",
                          subject_of(o->what));
    return KILN_OK;
}

static kiln_status start(kiln_request *r) {
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "no socket available: %s", strerror(errno));
    r->socket = ends[0];
    const int above = fcntl(ends[1], F_DUPFD_CLOEXEC, 3); /* the host has no standard input */
    close(ends[1]);
    if (above < 0)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "no file descriptor available: %s", strerror(errno));
    kiln_status st = start_program(r, above);
    close(above);
    return st ? st : send_request(r);
}

int kiln_request_start(const kiln_request_options *options, kiln_request **out_request, char *error,
                       size_t error_bytes) {
    kiln_status st = check_options(options);
    if (st) return kiln_status_report(st, error, error_bytes);
    kiln_request *r = kiln_try_alloc(sizeof *r);
    if (!r)
        return kiln_status_report(KILN_ERROR(RESOURCE_EXHAUSTED, NO_MEMORY), error, error_bytes);
    *r = (kiln_request){.options = *options, .socket = -1};
    r->child.error_fd = -1;
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
    for (uint32_t i = 0; i < r->task_count; i++) {
        kiln_free((char *)(uintptr_t)r->task[i].key);
        kiln_free((char *)(uintptr_t)r->task[i].label);
        if (*r->task[i].fault) kiln_free((char *)(uintptr_t)r->task[i].fault);
    }
    kiln_free(r->task);
    kiln_free(r->job);
    kiln_free(r);
}

void kiln_request_cancel(kiln_request *r) {
    atomic_store(&r->cancelled, true);
    /* The worker is gone, or has a thousand unread bytes: the failure can be ignored. */
    (void)!send(r->socket, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- events --------------------------------------------------------------------------- */

static kiln_request_task *find_task(kiln_request *r, const char *key) {
    for (uint32_t i = 0; i < r->task_count; i++)
        if (strcmp(r->task[i].key, key) == 0) return &r->task[i];
    return NULL;
}

/* NULL: not enough memory. */
static char *copy_of(const char *text) {
    const size_t size = strlen(text) + 1;
    char *copy = kiln_try_alloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

static kiln_status add_task(kiln_request *r, const kiln_request_task *from) {
    if (r->task_count == r->task_capacity) {
        const uint32_t capacity = r->task_capacity ? 2 * r->task_capacity : 16;
        kiln_request_task *grown = kiln_try_realloc(r->task, capacity * sizeof *grown);
        if (!grown) return KILN_ERROR(RESOURCE_EXHAUSTED, NO_MEMORY);
        r->task = grown;
        r->task_capacity = capacity;
    }
    char *key = copy_of(from->key), *label = copy_of(from->label);
    if (!key || !label) {
        kiln_free(key);
        kiln_free(label);
        return KILN_ERROR(RESOURCE_EXHAUSTED, NO_MEMORY);
    }
    kiln_request_task *task = &r->task[r->task_count++];
    *task = *from;
    task->key = key;
    task->label = label;
    task->fault = "";
    return KILN_OK;
}

static kiln_status take_task(kiln_request *r, const kiln_request_task *from) {
    kiln_request_task *task = find_task(r, from->key);
    if (!task) return add_task(r, from);
    const kiln_request_task before = *task;
    *task = *from;
    task->key = before.key;
    task->label = before.label;
    task->fault = before.fault;
    return KILN_OK;
}

static kiln_status take_fault(kiln_request *r, const kiln_frame_fault *from) {
    kiln_request_task *task = find_task(r, from->key);
    if (!task || *task->fault || !*from->text) return KILN_OK;
    const char *fault = copy_of(from->text);
    if (!fault) return KILN_ERROR(RESOURCE_EXHAUSTED, NO_MEMORY);
    task->fault = fault;
    return KILN_OK;
}

static kiln_status take_progress(kiln_request *r, const kiln_frame_event *e) {
    kiln_status st = KILN_OK;
    r->kernel_count = e->kernel_count;
    r->elapsed_s = e->elapsed_s;
    r->elapsed_at_ns = kiln_clock_ns();
    for (uint32_t i = 0; !st && i < e->task_count; i++) st = take_task(r, &e->task[i]);
    for (uint32_t i = 0; !st && i < e->fault_count; i++) st = take_fault(r, &e->fault[i]);
    return st;
}

static kiln_status take_job(kiln_request *r, const char *job) {
    if (!*job || (r->job && strcmp(r->job, job) == 0)) return KILN_OK;
    char *copy = copy_of(job);
    if (!copy) return KILN_ERROR(RESOURCE_EXHAUSTED, NO_MEMORY);
    kiln_free(r->job);
    r->job = copy;
    return KILN_OK;
}

static void take_end(kiln_request *r, const kiln_frame_event *e) {
    r->is_told = true;
    if (!kiln_code_from_wire(e->code, &r->told)) r->told = KILN_INTERNAL;
    kiln_status_free(r->status);
    r->status = r->told ? kiln_status_make(r->told, __FILE__, __LINE__, "%s", e->text) : KILN_OK;
}

static kiln_status take_event(kiln_request *r, const kiln_frame_event *e) {
    if (e->kind == KILN_FRAME_END) {
        take_end(r, e);
        return KILN_OK;
    }
    kiln_status st = take_job(r, e->job);
    if (!st && e->kind == KILN_REQUEST_PROGRESS) st = take_progress(r, e);
    const kiln_request_event event = {e->kind, e->text};
    if (!st && r->options.heard) r->options.heard(r->options.context, r, &event);
    return st;
}

/* Handles all complete frames. */
static kiln_status take_frames(kiln_request *r) {
    kiln_str rest = kiln_strbuf_view(&r->heard);
    kiln_status st = KILN_OK;
    size_t size = 0;
    while (!st && rest.size >= KILN_FRAME_HEAD) {
        st = kiln_frame_size(rest.data, &size);
        if (st || rest.size < KILN_FRAME_HEAD + size) break;
        kiln_frame_event event = {0};
        st = kiln_frame_read_event(kiln_str_slice(rest, KILN_FRAME_HEAD, KILN_FRAME_HEAD + size),
                                   &event);
        if (!st) st = take_event(r, &event);
        kiln_frame_event_deinit(&event);
        rest = kiln_str_slice(rest, KILN_FRAME_HEAD + size, rest.size);
    }
    memmove(r->heard.data, rest.data, rest.size);
    r->heard.size = rest.size;
    return st;
}

/* Keeps the last bytes of the log. */
static void keep_log(kiln_request *r, const char *bytes, size_t size) {
    const size_t taken = KILN_MIN(size, LOG_MAX), kept = KILN_MIN(r->log_size, LOG_MAX - taken);
    r->log_is_cut |= taken < size || kept < r->log_size;
    memmove(r->log, r->log + r->log_size - kept, kept);
    memcpy(r->log + kept, bytes + size - taken, taken);
    r->log_size = kept + taken;
}

static void hear_log(kiln_request *r) {
    char bytes[READ_BYTES];
    ssize_t n = 0;
    if (r->child.error_fd < 0) return;
    while ((n = read(r->child.error_fd, bytes, sizeof bytes)) > 0) keep_log(r, bytes, (size_t)n);
    if (n != 0) return;
    close(r->child.error_fd);
    r->child.error_fd = -1;
}

/* The log as text of an error: lines after the first begin with two spaces. */
static const char *log_text(const kiln_request *r, char out_text[2 * LOG_MAX]) {
    kiln_str rest = {r->log, r->log_size};
    size_t at = 0;
    if (r->log_is_cut && kiln_str_find_char(rest, '\n') < rest.size) kiln_str_cut(&rest, '\n');
    while (rest.size && 2 * LOG_MAX - at > LINE_BYTES_MIN) {
        const kiln_str line = kiln_str_trim(kiln_str_cut(&rest, '\n'));
        if (!line.size) continue;
        if (at) {
            memcpy(out_text + at, "\n  ", 3);
            at += 3;
        }
        at += kiln_text_write(line, KILN_TEXT_LINE, out_text + at, 2 * LOG_MAX - at);
    }
    return at ? out_text : "it left no message";
}

/* The error for a worker that did not report its end, or ended in another way. */
static kiln_status how_it_died(const kiln_request *r, kiln_child_exit how) {
    char text[2 * LOG_MAX];
    const char *said = log_text(r, text);
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
    const int expected = r->is_told ? kiln_code_exit(r->told) : -1;
    hear_log(r);
    r->ended = true;
    if (r->is_told && (how.code == expected || how.code == 0))
        return; /* 0: the host itself reaped
                 * the child */
    kiln_status_free(r->status);
    r->status = how_it_died(r, how);
}

/* Reads the available bytes. False: none at the moment. */
static bool hear(kiln_request *r) {
    char bytes[READ_BYTES];
    ssize_t n;
    hear_log(r);
    do n = recv(r->socket, bytes, sizeof bytes, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) return false;
    kiln_status st = KILN_OK;
    if (n > 0) {
        if (kiln_strbuf_try_reserve(&r->heard, (size_t)n)) {
            kiln_strbuf_append(&r->heard, bytes, (size_t)n);
            st = take_frames(r);
        } else {
            st = KILN_ERROR(RESOURCE_EXHAUSTED, NO_MEMORY);
        }
    }
    if (st) { /* it is no worker, or this process cannot read from it */
        kiln_child_destroy(&r->child);
        kiln_status_free(r->status);
        r->ended = true;
        r->status = kiln_status_note(st, "reading the answers of the program kiln");
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
    if (error && error_bytes) (void)snprintf(error, error_bytes, "%s", kiln_status_text(r->status));
    return (int)kiln_status_code(r->status);
}

int kiln_request_descriptor(const kiln_request *r) { return r->socket; }

/* ---- how far it is --------------------------------------------------------------------------- */

const char *kiln_request_job(const kiln_request *r) { return r->job ? r->job : ""; }
uint32_t kiln_request_task_count(const kiln_request *r) { return r->task_count; }
const kiln_request_task *kiln_request_task_at(const kiln_request *r, uint32_t index) {
    return &r->task[index];
}
uint32_t kiln_request_kernel_count(const kiln_request *r) { return r->kernel_count; }
double kiln_request_elapsed_s(const kiln_request *r) {
    if (!r->elapsed_at_ns) return 0;
    return r->elapsed_s + (double)(kiln_clock_ns() - r->elapsed_at_ns) / KILN_NS_PER_S;
}
