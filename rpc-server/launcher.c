#include "rpc-server/launcher.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/vec.h"
#include "rpc-server/cgroup.h"
#include "rpc-server/launch.h"
#include "rpc-server/launch_talk.h"

#define EXIT_OF_SIGNAL 128 /* as shells count */
#define EXIT_NOT_STARTED 1

typedef struct launcher {
    const kiln_launcher_options *options;
    kiln_launch launch;
    char *next; /* path of the new program */
    kiln_child child;
    kiln_child_exit exit; /* of the last server */
    int signal_fd;
    char statement[KILN_LAUNCH_MESSAGE_BYTES]; /* of the upgrade that was asked for */
    size_t statement_size;
    int archive_fd; /* -1: none */
} launcher;

/* ---- Actions ---- */

static void greet(launcher *l) {
    const bool has_failed = l->launch.failure[0] != '\0';
    const kiln_launch_message hello = {.saying = l->launch.state == KILN_LAUNCH_TRYING
                                                     ? KILN_LAUNCH_SAYS_TRIAL
                                                 : has_failed ? KILN_LAUNCH_SAYS_FAILED
                                                              : KILN_LAUNCH_SAYS_RUN,
                                       .number = l->launch.number,
                                       .text = kiln_str_from(l->launch.failure),
                                       .fd = -1};
    kiln_launch_say(l->child.in_fd, &hello); /* one that has ended is seen by its exit */
}

/* Starts the program at `path` with the server's arguments. */
static kiln_launch_action start(launcher *l, const char *path) {
    KILN_VEC(const char *) argv = {0};
    char how[KILN_LAUNCH_TEXT_BYTES];
    kiln_vec_push(&argv, path);
    kiln_vec_push(&argv, KILN_LAUNCHED);
    for (char **argument = l->options->argv; *argument; argument++) kiln_vec_push(&argv, *argument);
    kiln_vec_push(&argv, NULL);
    kiln_status st =
        kiln_child_start(&(kiln_child_options){.argv = argv.data, .socket_in = true}, &l->child);
    kiln_vec_deinit(&argv);
    if (!st) {
        greet(l);
        return KILN_LAUNCH_NOTHING;
    }
    kiln_log(KILN_LOG_ERROR, "starting %s: %s", path, kiln_status_text(st));
    snprintf(how, sizeof how, "could not be started: %.180s", kiln_status_text(st));
    kiln_status_free(st);
    l->exit = (kiln_child_exit){.code = EXIT_NOT_STARTED};
    return kiln_launch_ended(&l->launch, how);
}

static kiln_launch_action install(launcher *l) {
    kiln_release_keys keys;
    kiln_log(KILN_LOG_INFO, "installs the release of upgrade %llu",
             (unsigned long long)l->launch.number);
    kiln_status st = kiln_launcher_read_keys(l->options->release_keys, &keys);
    if (!st)
        st = kiln_launcher_install(l->options->program, l->next, &keys,
                                   (kiln_str){l->statement, l->statement_size}, l->archive_fd);
    kiln_fd_close(&l->archive_fd);
    const kiln_launch_action action =
        kiln_launch_installed(&l->launch, kiln_clock_ns(), st ? kiln_status_text(st) : NULL);
    kiln_status_free(st); /* the server reports it */
    return action;
}

static kiln_launch_action commit(launcher *l) {
    kiln_status st = kiln_launcher_commit(l->options->program, l->next);
    const kiln_launch_action action =
        kiln_launch_committed(&l->launch, st ? kiln_status_text(st) : NULL);
    kiln_status_free(st); /* the same */
    return action;
}

static void tell_confirmed(const launcher *l) {
    kiln_log(KILN_LOG_INFO, "%s was replaced; the old one is %s.previous", l->options->program,
             l->options->program);
    kiln_launch_say(l->child.in_fd,
                    &(kiln_launch_message){.saying = KILN_LAUNCH_SAYS_CONFIRMED, .fd = -1});
}

/* Carries out actions until one has to wait. False: the launcher ends. */
static bool carry_out(launcher *l, kiln_launch_action action) {
    while (action != KILN_LAUNCH_NOTHING) {
        switch (action) {
        case KILN_LAUNCH_NOTHING: break;
        case KILN_LAUNCH_RUN:
            if (l->launch.failure[0])
                kiln_log(KILN_LOG_ERROR, "goes back to the old version: %s", l->launch.failure);
            unlink(l->next);
            action = start(l, l->options->program);
            break;
        case KILN_LAUNCH_INSTALL: action = install(l); break;
        case KILN_LAUNCH_TRY: action = start(l, l->next); break;
        case KILN_LAUNCH_COMMIT: action = commit(l); break;
        case KILN_LAUNCH_TELL:
            tell_confirmed(l);
            action = KILN_LAUNCH_NOTHING;
            break;
        case KILN_LAUNCH_KILL:
            if (l->child.pid > 0) kill(-l->child.pid, SIGKILL);
            action = KILN_LAUNCH_NOTHING;
            break;
        case KILN_LAUNCH_EXIT: unlink(l->next); return false;
        }
    }
    return true;
}

/* ---- Events ---- */

static kiln_launch_action on_message(launcher *l, kiln_launch_message *message) {
    char why[KILN_LAUNCH_TEXT_BYTES];
    switch ((int)message->saying) {
    case KILN_LAUNCH_SAYS_TRY:
        if (message->fd < 0) return KILN_LAUNCH_NOTHING;
        kiln_fd_close(&l->archive_fd);
        l->archive_fd = message->fd;
        message->fd = -1;
        l->statement_size = message->text.size;
        memcpy(l->statement, message->text.data, message->text.size);
        kiln_launch_ask(&l->launch, message->number,
                        KILN_MIN(message->seconds, 3600) * KILN_NS_PER_S);
        return KILN_LAUNCH_NOTHING;
    case KILN_LAUNCH_SAYS_CONFIRM: return kiln_launch_confirmed(&l->launch);
    case KILN_LAUNCH_SAYS_FAIL:
        snprintf(why, sizeof why, "%.*s", KILN_STR_ARG(message->text));
        return kiln_launch_gave_up(&l->launch, why);
    default: return KILN_LAUNCH_NOTHING; /* of a later version */
    }
}

static kiln_launch_action hear(launcher *l) {
    char buffer[KILN_LAUNCH_MESSAGE_BYTES];
    kiln_launch_message message;
    if (!kiln_launch_hear(l->child.in_fd, buffer, &message)) {
        kiln_fd_close(&l->child.in_fd); /* it is about to end */
        l->child.in_fd = -1;
        return KILN_LAUNCH_NOTHING;
    }
    const kiln_launch_action action = on_message(l, &message);
    if (message.fd >= 0) close(message.fd);
    return action;
}

static kiln_launch_action on_ended(launcher *l) {
    char how[64];
    kiln_child_exit ended = {0};
    if (!kiln_child_ended(&l->child, &ended)) return KILN_LAUNCH_NOTHING;
    l->exit = ended;
    kiln_child_destroy(&l->child);
    l->child = (kiln_child){.in_fd = -1, .out_fd = -1, .error_fd = -1};
    if (ended.signal)
        snprintf(how, sizeof how, "was ended by signal %d", ended.signal);
    else
        snprintf(how, sizeof how, "ended with code %d", ended.code);
    return kiln_launch_ended(&l->launch, how);
}

static void on_signal(launcher *l) {
    struct signalfd_siginfo raised;
    if (read(l->signal_fd, &raised, sizeof raised) != (ssize_t)sizeof raised) return;
    if (raised.ssi_signo == SIGCHLD) return; /* seen below */
    kiln_launch_stop(&l->launch);
    if (l->child.pid) kill(l->child.pid, (int)raised.ssi_signo);
}

static int timeout_ms(const launcher *l) {
    const uint64_t next_ns = kiln_launch_next_ns(&l->launch), now_ns = kiln_clock_ns();
    if (next_ns == UINT64_MAX) return -1;
    return next_ns > now_ns ? (int)KILN_MIN((next_ns - now_ns) / KILN_NS_PER_MS + 1, 60000) : 0;
}

/* One event after the other. What the server said is heard before its end is. */
static void run(launcher *l) {
    bool runs = carry_out(l, KILN_LAUNCH_RUN);
    while (runs) {
        struct pollfd ready[] = {{.fd = l->signal_fd, .events = POLLIN},
                                 {.fd = l->child.in_fd, .events = POLLIN}};
        const int count = poll(ready, KILN_ARRAY_COUNT(ready), timeout_ms(l));
        if (count < 0 && errno != EINTR) return;
        if (count > 0 && ready[1].revents) {
            runs = carry_out(l, hear(l));
            continue;
        }
        if (count > 0 && ready[0].revents) on_signal(l);
        if (l->child.pid) runs = carry_out(l, on_ended(l));
        if (runs) runs = carry_out(l, kiln_launch_tick(&l->launch, kiln_clock_ns()));
    }
}

int kiln_launcher_run(const kiln_launcher_options *options, kiln_arena *process) {
    sigset_t signals;
    launcher l = {.options = options, .archive_fd = -1, .child = {.in_fd = -1}};
    l.next = kiln_arena_printf(process, "%s.next", options->program);
    kiln_cgroup_enter_launcher();
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    l.signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    run(&l);
    kiln_child_destroy(&l.child);
    kiln_fd_close(&l.archive_fd);
    kiln_fd_close(&l.signal_fd);
    return l.exit.signal ? EXIT_OF_SIGNAL + l.exit.signal : l.exit.code;
}
