#include "cli/host.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define TICK_MS 200
#define ERROR_BYTES 16384

static void print_result(kiln_host *host, const char *text) {
    json_t *result = json_loads(text, 0, NULL);
    if (result) host->print(host->context, result);
    json_decref(result);
}

static void heard(void *context, kiln_request *request, const kiln_request_event *event) {
    kiln_host *host = context;
    if (event->kind == KILN_REQUEST_PROGRESS) kiln_display_update(&host->display, request);
    if (event->kind == KILN_REQUEST_TEXT && !host->is_unread)
        kiln_display_say(&host->display, event->text);
    if (event->kind == KILN_REQUEST_WAITING) kiln_waits_show(&host->display.waits, event->text);
    if (event->kind == KILN_REQUEST_RESULT) kiln_display_finish(&host->display);
    const bool is_object =
        event->kind == KILN_REQUEST_PROGRESS || event->kind == KILN_REQUEST_RESULT;
    if (host->json && is_object) {
        puts(event->text);
        fflush(stdout);
    } else if (event->kind == KILN_REQUEST_RESULT) {
        print_result(host, event->text);
    }
}

static kiln_status start(kiln_host *host, uint32_t what, const char *subject,
                         const kiln_opt_given_list *given) {
    char error[ERROR_BYTES] = "";
    kiln_request_setting *setting =
        KILN_ARENA_ARRAY(host->process, kiln_request_setting, given->count + 2);
    for (uint32_t i = 0; i < given->count; i++)
        setting[i] = (kiln_request_setting){given->data[i].name, given->data[i].value};
    setting[given->count] =
        (kiln_request_setting){"log-level", kiln_log_level_name(kiln_log_level_now())};
    setting[given->count + 1] = (kiln_request_setting){0};
    const kiln_request_options options = {.struct_bytes = sizeof options,
                                          .what = what,
                                          .subject = subject,
                                          .settings = setting,
                                          .heard = heard,
                                          .context = host,
                                          .shares_stderr = 1};
    const int code = kiln_request_start(&options, &host->request, error, sizeof error);
    return code ? kiln_status_make((kiln_code)code, __FILE__, __LINE__, "%s", error) : KILN_OK;
}

/* Waits for an event or a signal. How often the person, or a reader who has gone, wants no more. */
static uint32_t count_interrupts(kiln_host *host, int signals) {
    struct pollfd ready[] = {{.fd = kiln_request_descriptor(host->request), .events = POLLIN},
                             {.fd = signals, .events = POLLIN}};
    struct signalfd_siginfo info;
    uint32_t count = 0;
    if (poll(ready, 2, TICK_MS) > 0 && ready[1].revents)
        while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) count++;
    if (ferror(stdout) && !host->is_unread) {
        host->is_unread = true;
        count++;
    }
    return count;
}

static kiln_status follow(kiln_host *host, int signals) {
    char error[ERROR_BYTES] = "";
    int ended = 0, code = 0;
    while (!ended) {
        code = kiln_request_wait(host->request, 0, &ended, error, sizeof error);
        if (ended) break;
        kiln_display_tick(&host->display);
        for (uint32_t n = count_interrupts(host, signals); n > 0; n--)
            kiln_request_cancel(host->request);
    }
    return code ? kiln_status_make((kiln_code)code, __FILE__, __LINE__, "%s", error) : KILN_OK;
}

kiln_status kiln_host_run(kiln_host *host, uint32_t what, const char *subject,
                          const kiln_opt_given_list *given) {
    sigset_t stopping, before;
    kiln_display_init(&host->display, &(kiln_display_options){.json = host->json,
                                                              .seconds = host->seconds,
                                                              .process = host->process});
    sigemptyset(&stopping);
    sigaddset(&stopping, SIGINT);
    sigaddset(&stopping, SIGTERM);
    sigprocmask(SIG_BLOCK, &stopping, &before);
    const int signals = signalfd(-1, &stopping, SFD_CLOEXEC | SFD_NONBLOCK);
    kiln_status st = start(host, what, subject, given);
    if (!st) st = follow(host, signals);
    kiln_display_finish(&host->display);
    if (signals >= 0) close(signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return st;
}
