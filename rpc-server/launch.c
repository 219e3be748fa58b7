#include "rpc-server/launch.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"

static void fail(kiln_launch *launch, const char *why) {
    snprintf(launch->failure, sizeof launch->failure, "%s", why);
}

static kiln_launch_action reject(kiln_launch *launch, const char *why) {
    fail(launch, why);
    launch->state = KILN_LAUNCH_REJECTED;
    return KILN_LAUNCH_KILL;
}

void kiln_launch_ask(kiln_launch *launch, uint64_t number, uint64_t wait_ns) {
    if (launch->state != KILN_LAUNCH_RUNNING) return;
    launch->is_asked = true;
    launch->number = number;
    launch->wait_ns = wait_ns;
    launch->failure[0] = '\0';
}

kiln_launch_action kiln_launch_ended(kiln_launch *launch, const char *how) {
    const kiln_launch_state state = launch->state;
    const bool is_asked = launch->is_asked;
    char why[KILN_LAUNCH_TEXT_BYTES];
    launch->state = KILN_LAUNCH_RUNNING;
    launch->is_asked = false;
    if (state == KILN_LAUNCH_TRYING) {
        snprintf(why, sizeof why, "the new version %s before it had confirmed", how);
        fail(launch, why);
    }
    if (launch->is_stopping) return KILN_LAUNCH_EXIT;
    if (state != KILN_LAUNCH_RUNNING) return KILN_LAUNCH_RUN;
    return is_asked ? KILN_LAUNCH_INSTALL : KILN_LAUNCH_EXIT;
}

kiln_launch_action kiln_launch_installed(kiln_launch *launch, uint64_t now_ns,
                                         const char *failure) {
    if (launch->is_stopping) return KILN_LAUNCH_EXIT;
    if (failure) {
        fail(launch, failure);
        return KILN_LAUNCH_RUN;
    }
    launch->state = KILN_LAUNCH_TRYING;
    launch->until_ns = now_ns + launch->wait_ns;
    return KILN_LAUNCH_TRY;
}

kiln_launch_action kiln_launch_confirmed(kiln_launch *launch) {
    return launch->state == KILN_LAUNCH_TRYING ? KILN_LAUNCH_COMMIT : KILN_LAUNCH_NOTHING;
}

kiln_launch_action kiln_launch_committed(kiln_launch *launch, const char *failure) {
    if (failure) return reject(launch, failure);
    launch->state = KILN_LAUNCH_RUNNING;
    return KILN_LAUNCH_TELL;
}

kiln_launch_action kiln_launch_gave_up(kiln_launch *launch, const char *why) {
    return launch->state == KILN_LAUNCH_TRYING ? reject(launch, why) : KILN_LAUNCH_NOTHING;
}

kiln_launch_action kiln_launch_tick(kiln_launch *launch, uint64_t now_ns) {
    char why[KILN_LAUNCH_TEXT_BYTES];
    if (launch->state != KILN_LAUNCH_TRYING || now_ns < launch->until_ns)
        return KILN_LAUNCH_NOTHING;
    snprintf(why, sizeof why,
             "the new version did not connect and pass its self-check within %" PRIu64 " s",
             launch->wait_ns / KILN_NS_PER_S);
    return reject(launch, why);
}

uint64_t kiln_launch_next_ns(const kiln_launch *launch) {
    return launch->state == KILN_LAUNCH_TRYING ? launch->until_ns : UINT64_MAX;
}

void kiln_launch_stop(kiln_launch *launch) { launch->is_stopping = true; }
