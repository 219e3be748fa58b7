#include "rpc-server/health.h"

#include <string.h>

#include "base/alloc.h"
#include "base/macros.h"

static void set_text(char **text, const char *to) {
    kiln_free(*text);
    *text = NULL;
    if (!to) return;
    size_t size = strlen(to) + 1;
    *text = memcpy(kiln_alloc(size), to, size);
}

/* Only the first reason sets the time, so that a failed check's retry is not moved forward. */
static void ask_for_check(kiln_health *health, uint64_t now_ns) {
    if (health->check_ns == 0 || health->check_due) return;
    health->check_due = true;
    health->check_at_ns = now_ns;
}

void kiln_health_init(kiln_health *health, uint64_t check_ns, uint64_t now_ns) {
    *health = (kiln_health){.check_ns = check_ns, .check_at_ns = UINT64_MAX};
    ask_for_check(health, now_ns);
}

void kiln_health_deinit(kiln_health *health) {
    set_text(&health->unwell, NULL);
    set_text(&health->ailment, NULL);
}

void kiln_health_reading(kiln_health *health, const char *failure) {
    set_text(&health->unwell, failure);
}

void kiln_health_stray(kiln_health *health, bool stray, uint64_t now_ns) {
    if (stray && !health->stray) health->stray_since_ns = now_ns;
    health->stray = stray;
}

void kiln_health_killed(kiln_health *health, uint64_t now_ns) { ask_for_check(health, now_ns); }

void kiln_health_ended(kiln_health *health, kiln_outcome outcome, kiln_blame blame,
                       uint64_t now_ns) {
    bool came_to_nothing = outcome == KILN_OUTCOME_CRASH || outcome == KILN_OUTCOME_TIMEOUT ||
                           blame == KILN_BLAME_BOARD;
    if (blame == KILN_BLAME_INFRA || blame == KILN_BLAME_CLIENT) return; /* not the board's fault */
    health->fault_run = came_to_nothing ? health->fault_run + 1 : 0;
    if (came_to_nothing && health->fault_run % KILN_HEALTH_FAULTS == 0)
        ask_for_check(health, now_ns);
}

void kiln_health_check_begun(kiln_health *health, uint64_t now_ns) {
    health->checking = true;
    health->check_until_ns = now_ns + health->check_ns;
}

bool kiln_health_check_is_over(kiln_health *health, uint64_t now_ns) {
    if (!health->checking || now_ns < health->check_until_ns) return false;
    health->check_until_ns = UINT64_MAX;
    kiln_health_stray(health, true, now_ns);
    return true;
}

void kiln_health_checked(kiln_health *health, const char *failure, uint64_t now_ns) {
    health->checking = health->stray = false;
    health->check_due = failure != NULL;
    if (failure) {
        uint32_t doublings = KILN_MIN(health->failed_checks, 10);
        if (health->failed_checks++ > 0) set_text(&health->ailment, failure);
        health->check_at_ns =
            now_ns + KILN_MIN(KILN_HEALTH_RETRY_NS << doublings, KILN_HEALTH_RETRY_MAX_NS);
    } else {
        health->failed_checks = 0;
        set_text(&health->ailment, NULL);
        health->check_at_ns = now_ns + KILN_HEALTH_PERIOD_NS;
    }
}

void kiln_health_cycled(kiln_health *health, uint64_t now_ns) {
    health->cycle_not_before_ns = now_ns + KILN_HEALTH_CYCLE_NS;
}

bool kiln_health_is_sick(const kiln_health *health) {
    return health->stray || health->unwell || health->ailment;
}

const char *kiln_health_text(const kiln_health *health) {
    if (health->stray) return "a killed child does not die";
    return health->unwell ? health->unwell : health->ailment;
}

bool kiln_health_may_start(const kiln_health *health) {
    return !kiln_health_is_sick(health) && !health->check_due && !health->checking;
}

bool kiln_health_wants_check(const kiln_health *health, uint64_t now_ns) {
    return health->check_ns > 0 && !health->checking && !health->stray &&
           now_ns >= health->check_at_ns;
}

/* From when only a power cycle may help; UINT64_MAX: not now. */
static uint64_t hopeless_ns(const kiln_health *health) {
    if (health->stray) return health->stray_since_ns + KILN_HEALTH_STRAY_NS;
    return health->failed_checks >= KILN_HEALTH_CHECKS ? 0 : UINT64_MAX;
}

bool kiln_health_wants_cycle(const kiln_health *health, uint64_t now_ns) {
    return now_ns >= hopeless_ns(health) && now_ns >= health->cycle_not_before_ns;
}

uint64_t kiln_health_next_ns(const kiln_health *health, uint64_t now_ns) {
    uint64_t next = UINT64_MAX;
    if (health->check_ns > 0 && !health->checking && !health->stray && health->check_at_ns > now_ns)
        next = health->check_at_ns;
    if (health->checking) next = KILN_MIN(next, health->check_until_ns);
    uint64_t hopeless = hopeless_ns(health);
    if (hopeless == UINT64_MAX) return next;
    uint64_t cycle = KILN_MAX(hopeless, health->cycle_not_before_ns);
    return cycle > now_ns ? KILN_MIN(next, cycle) : next;
}
