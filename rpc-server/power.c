#include "rpc-server/power.h"

#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/child.h"
#include "base/log.h"
#include "base/str.h"

/* Between two looks at what was killed and is not gone. */
#define REST_RETRY_NS UINT64_C(10000000)

struct kiln_power {
    kiln_loop *loop;
    const char *command, *board;
    uint64_t limit_ns;
    kiln_child child;
    pid_t group; /* of the last command; outlives child.pid */
    int pidfd;
    kiln_watch *watch;
    kiln_timer *limit, *rest;
    bool timed_out;
};

static const kiln_child no_child = {.in_fd = -1, .out_fd = -1, .error_fd = -1};

static void clear(kiln_power *power) {
    kiln_watch_destroy(power->watch);
    power->watch = NULL;
    kiln_timer_stop(power->limit);
    if (power->pidfd >= 0) close(power->pidfd);
    power->pidfd = -1;
    kiln_child_destroy(&power->child);
    power->child = no_child;
}

/* What the command started comes to us when it has lost its parent (rpc-server/ward.h). */
static void reap_rest(void *context) {
    kiln_power *power = context;
    while (waitpid(-power->group, NULL, WNOHANG) > 0) {}
    if (kill(-power->group, 0) == 0) kiln_timer_start(power->rest, REST_RETRY_NS);
}

static void on_end(void *context, unsigned ready_for) {
    (void)ready_for;
    kiln_power *power = context;
    kiln_child_exit ended;
    power->group = power->child.pid;
    kill(-power->group, SIGKILL); /* what it started goes with it; it is not reaped yet */
    if (!kiln_child_ended(&power->child, &ended)) return;
    if (power->timed_out)
        kiln_log(KILN_LOG_ERROR, "the power cycle did not end in time: %s", power->command);
    else if (ended.code != 0)
        kiln_log(KILN_LOG_ERROR, "the power cycle failed (exit code %d, signal %d): %s", ended.code,
                 ended.signal, power->command);
    else
        kiln_log(KILN_LOG_INFO, "the power cycle is done: %s", power->command);
    clear(power);
    reap_rest(power);
}

static void on_limit(void *context) {
    kiln_power *power = context;
    power->timed_out = true;
    kill(-power->child.pid, SIGKILL);
}

kiln_power *kiln_power_create(kiln_loop *loop, const char *command, const char *board,
                              uint64_t limit_ns) {
    kiln_power *power = kiln_alloc(sizeof *power);
    *power = (kiln_power){.loop = loop,
                          .command = command,
                          .board = board,
                          .limit_ns = limit_ns,
                          .child = no_child,
                          .pidfd = -1};
    power->limit = kiln_timer_create(loop, on_limit, power);
    power->rest = kiln_timer_create(loop, reap_rest, power);
    return power;
}

static kiln_status start(kiln_power *power, const char *reason) {
    kiln_strbuf board = {0}, why = {0};
    kiln_strbuf_printf(&board, "KILN_BOARD=%s", power->board);
    kiln_strbuf_printf(&why, "KILN_REASON=%s", reason);
    const char *const argv[] = {"/bin/sh", "-c", power->command, NULL};
    const char *const env[] = {board.data, why.data, NULL};
    kiln_status st =
        kiln_child_start(&(kiln_child_options){.argv = argv, .env_extra = env}, &power->child);
    kiln_strbuf_deinit(&board);
    kiln_strbuf_deinit(&why);
    if (st) return st;
    power->pidfd = pidfd_open(power->child.pid, 0);
    if (power->pidfd < 0) return KILN_ERROR(RESOURCE_EXHAUSTED, "no descriptor is left");
    power->timed_out = false;
    power->watch = kiln_watch_create(power->loop, power->pidfd, KILN_WATCH_READ, on_end, power);
    kiln_timer_start(power->limit, power->limit_ns);
    return NULL;
}

void kiln_power_cycle(kiln_power *power, const char *reason) {
    if (!power->command) {
        kiln_log(KILN_LOG_ERROR,
                 "this board needs to be switched off and on (%s), and no "
                 "--power-cycle COMMAND says how",
                 reason);
        return;
    }
    if (kiln_power_is_busy(power)) return;
    kiln_log(KILN_LOG_WARN, "power cycle, because %s: %s", reason, power->command);
    kiln_status st = start(power, reason);
    if (!st) return;
    kiln_log(KILN_LOG_ERROR, "the power cycle did not start: %s", kiln_status_text(st));
    kiln_status_free(st);
    clear(power);
}

bool kiln_power_is_busy(const kiln_power *power) { return power->child.pid != 0; }

void kiln_power_destroy(kiln_power *power) {
    if (!power) return;
    clear(power);
    kiln_timer_destroy(power->limit);
    kiln_timer_destroy(power->rest);
    kiln_free(power);
}
