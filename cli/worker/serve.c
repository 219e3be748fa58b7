#include "cli/worker/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "libkiln/tune/frame.h"

#define ENDED_BY_HOST 1 /* exit code that nobody sees */

typedef struct request_row {
    bool wants_subject;
    kiln_status (*serve)(const kiln_served *served);
} request_row;

static const request_row request_table[] = {
#define X(what, wants_subject, function) [KILN_REQUEST_##what] = {wants_subject, function},
#include "cli/worker/requests.def"
#undef X
};

bool kiln_serve_is_asked(int argc, char **argv) {
    return argc == 2 && strcmp(argv[1], KILN_WORKER_ARGUMENT) == 0;
}

/* Takes the socket away from where other programs and libraries read and print. What else the host
 * had open is none of theirs. */
static int take_socket(void) {
    close_range(STDERR_FILENO + 1, ~0u, 0);
    const int socket = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    if (nothing > STDERR_FILENO) close(nothing);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    return socket;
}

static bool read_all(int socket, void *out, size_t size) {
    char *at = out;
    while (size) {
        const ssize_t n = read(socket, at, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static kiln_status read_request(int socket, kiln_arena *process, kiln_frame_request *out_request) {
    char head[KILN_FRAME_HEAD];
    size_t size = 0;
    if (!read_all(socket, head, sizeof head))
        return KILN_ERROR(DATA_LOSS, "there is no request: programs start workers, by libkiln");
    kiln_status st = kiln_frame_size(head, &size);
    if (st) return st;
    char *body = KILN_ARENA_ARRAY(process, char, size);
    if (!read_all(socket, body, size)) return KILN_ERROR(DATA_LOSS, "the request is cut off");
    return kiln_frame_read_request((kiln_str){body, size}, out_request);
}

/* Waits for the host: a byte asks for the end, once more for it at once; the end of the socket is
 * that of the host. Uses no lock, as the program forks (base/isolated). */
static void *watch_host(void *context) {
    const int socket = (int)(intptr_t)context;
    char byte;
    int number = SIGINT;
    for (;;) {
        const ssize_t n = read(socket, &byte, 1);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(ENDED_BY_HOST);
        kill(getpid(), number);
        number = SIGTERM; /* two of one number may become one */
    }
}

static void start_watching(int socket) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the other thread's */
    KILN_CHECK(pthread_create(&thread, NULL, watch_host, (void *)(intptr_t)socket) == 0);
    pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Every request has this setting, whatever its table. */
static kiln_status set_log_level(const char *word) {
    kiln_log_level level;
    if (!word || !kiln_log_level_find(word, &level))
        return KILN_ERROR(INVALID_ARGUMENT, "log-level is error, warn, info or debug");
    kiln_log_init("kiln", level);
    return KILN_OK;
}

kiln_status kiln_served_options(const kiln_served *served, const kiln_opt_table *table) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < served->setting_count; i++) {
        const kiln_opt_given given = {served->setting[i].name, served->setting[i].value};
        st = strcmp(given.name, "log-level") == 0 ? set_log_level(given.value)
                                                  : kiln_opt_set(table, &given, served->process);
    }
    return st;
}

static kiln_status serve(const kiln_served *served, const kiln_frame_request *request) {
    if (strcmp(request->version, KILN_VERSION) != 0)
        return KILN_ERROR(FAILED_PRECONDITION,
                          "libkiln is of version %s and the program kiln of " KILN_VERSION
                          ": install both anew",
                          request->version);
    if (request->what >= KILN_ARRAY_COUNT(request_table) || !request_table[request->what].serve)
        return KILN_ERROR(INVALID_ARGUMENT, "there is no request %u", request->what);
    if (request_table[request->what].wants_subject && !*served->subject)
        return KILN_ERROR(INVALID_ARGUMENT, "request %u has no subject", request->what);
    return request_table[request->what].serve(served);
}

kiln_status kiln_serve(kiln_arena *process, bool *out_is_said) {
    kiln_frame_request request;
    kiln_events events = {.socket = take_socket()};
    kiln_status st = read_request(events.socket, process, &request);
    if (st) return st;
    const kiln_served served = {.process = process,
                                .events = &events,
                                .subject = request.subject,
                                .setting = request.setting,
                                .setting_count = request.setting_count};
    start_watching(events.socket);
    st = serve(&served, &request);
    kiln_events_end(&events, st);
    kiln_frame_request_deinit(&request);
    *out_is_said = true;
    return st;
}
