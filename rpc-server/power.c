#include "rpc-server/power.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"

/* Between two looks at a killed command that has not ended. */
#define REST_RETRY_NS UINT64_C(10000000)

struct kiln_power {
    kiln_loop *loop;
    kiln_helper *helper;
    uint64_t limit_ns;
    kiln_held command; /* number 0: none runs */
    kiln_watch *watch;
    kiln_timer *limit, *rest;
    bool timed_out;
};

static void clear(kiln_power *power) {
    kiln_watch_destroy(power->watch);
    power->watch = NULL;
    kiln_timer_stop(power->limit);
    kiln_timer_stop(power->rest);
    if (power->command.number) close(power->command.pidfd);
    kiln_helper_release(power->helper, power->command.number);
    power->command = (kiln_held){0};
}

/* Kills what the command started, and waits for its end. */
static void end_rest(void *context) {
    kiln_power *power = context;
    kiln_helper_kill(power->helper, power->command.number);
    if (kiln_helper_look(power->helper, power->command.number).gone)
        clear(power);
    else
        kiln_timer_start(power->rest, REST_RETRY_NS);
}

static void on_end(void *context, unsigned ready_for) {
    (void)ready_for;
    kiln_power *power = context;
    const kiln_helper_seen seen = kiln_helper_look(power->helper, power->command.number);
    if (!seen.ended) return;
    kiln_watch_set(power->watch, 0);
    kiln_timer_stop(power->limit);
    if (power->timed_out)
        kiln_log(KILN_LOG_ERROR, "the power cycle did not end in time");
    else if (seen.exit.code != 0)
        kiln_log(KILN_LOG_ERROR, "the power cycle failed (exit code %d, signal %d)", seen.exit.code,
                 seen.exit.signal);
    else
        kiln_log(KILN_LOG_INFO, "the power cycle is done");
    end_rest(power);
}

static void on_limit(void *context) {
    kiln_power *power = context;
    power->timed_out = true;
    kiln_helper_kill(power->helper, power->command.number);
}

kiln_power *kiln_power_create(kiln_loop *loop, kiln_helper *helper, uint64_t limit_ns) {
    kiln_power *power = kiln_alloc(sizeof *power);
    *power = (kiln_power){.loop = loop, .helper = helper, .limit_ns = limit_ns};
    power->limit = kiln_timer_create(loop, on_limit, power);
    power->rest = kiln_timer_create(loop, end_rest, power);
    return power;
}

void kiln_power_cycle(kiln_power *power, const char *reason) {
    if (kiln_power_is_busy(power)) return;
    kiln_status st = kiln_helper_power(power->helper, reason, &power->command);
    if (kiln_status_code(st) == KILN_NOT_FOUND)
        kiln_log(KILN_LOG_ERROR,
                 "this board needs to be switched off and on (%s), and no "
                 "--power-cycle COMMAND says how",
                 reason);
    else if (st)
        kiln_log(KILN_LOG_ERROR, "the power cycle did not start: %s", kiln_status_text(st));
    kiln_status_free(st); /* it is logged */
    if (!kiln_power_is_busy(power)) return;
    kiln_log(KILN_LOG_WARN, "power cycle, because %s", reason);
    power->timed_out = false;
    power->watch =
        kiln_watch_create(power->loop, power->command.pidfd, KILN_WATCH_READ, on_end, power);
    kiln_timer_start(power->limit, power->limit_ns);
}

bool kiln_power_is_busy(const kiln_power *power) { return power->command.number != 0; }

void kiln_power_destroy(kiln_power *power) {
    if (!power) return;
    clear(power);
    kiln_timer_destroy(power->limit);
    kiln_timer_destroy(power->rest);
    kiln_free(power);
}
