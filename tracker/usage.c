/* Use of boards by projects: fair shares and time per day. Each project is charged the time for
 * which it holds slots, divided by its weight, and the project with the least charge comes first.
 * The cost of a lease is not known when it is granted; until it ends it counts as much as recent
 * leases of the project. (Start-time fair queueing, Goyal, Vin and Cheng 1996.) */
#include "base/check.h"
#include "base/clock.h"
#include "base/macros.h"
#include "tracker/state.h"

#define DAY_NS (UINT64_C(86400) * KILN_NS_PER_S)
#define FIRST_LEASE_NS 2e9 /* expected duration of a lease while none has ended */
#define LATELY 0.2         /* weight of the newest duration in the running mean */
#define CREDIT_LEASES                                                                           \
    3 /* leases that a project may catch up on after a pause; the time between two leases is no \
         pause */

/* ---- Time of boards by the day ---- */

double kiln_tracker_project_day_ns(const kiln_tracker *t, const kiln_tracker_project *project) {
    const uint64_t day = kiln_tracker_wall_ns(t) / DAY_NS,
                   passed_ns = t->effects.now_ns - project->charged_ns;
    if (day == project->day) return project->day_ns + (double)passed_ns * project->slots;
    return (double)KILN_MIN(kiln_tracker_wall_ns(t) % DAY_NS, passed_ns) *
           project->slots; /* since midnight */
}

void kiln_tracker_project_charge(kiln_tracker *t, kiln_tracker_project *project) {
    project->day_ns = kiln_tracker_project_day_ns(t, project);
    project->day = kiln_tracker_wall_ns(t) / DAY_NS;
    project->charged_ns = t->effects.now_ns;
}

static double limit_ns(const kiln_tracker_project *project) {
    return (double)project->setting[KILN_SETTING_BOARD_SECONDS] * (double)KILN_NS_PER_S;
}

bool kiln_tracker_project_is_used_up(const kiln_tracker *t, const kiln_tracker_project *project) {
    return project->setting[KILN_SETTING_BOARD_SECONDS] &&
           kiln_tracker_project_day_ns(t, project) >= limit_ns(project);
}

bool kiln_tracker_project_may_hold(const kiln_tracker *t, const kiln_tracker_project *project,
                                   uint32_t slots) {
    const uint64_t boards = project->setting[KILN_SETTING_BOARDS];
    return (!boards || project->slots + slots <= boards) &&
           !kiln_tracker_project_is_used_up(t, project);
}

void kiln_tracker_project_watch_time(kiln_tracker *t, const kiln_tracker_project *project) {
    if (!project->setting[KILN_SETTING_BOARD_SECONDS] || !project->slots) return;
    const double left_ns = limit_ns(project) - kiln_tracker_project_day_ns(t, project);
    /* Rounded down, so that the quota is not exceeded. */
    const uint64_t due_ns = left_ns > 0 ? (uint64_t)(left_ns / project->slots) : 0;
    kiln_tracker_wake_at(t, t->effects.now_ns + KILN_MAX(due_ns, 1u));
}

/* ---- Shares ---- */

static double expected_ns(const kiln_tracker *t, const kiln_tracker_project *project) {
    if (project->lease_ns > 0) return project->lease_ns;
    return t->projects.lease_ns > 0 ? t->projects.lease_ns : FIRST_LEASE_NS;
}

double kiln_tracker_project_claim(const kiln_tracker *t, const kiln_tracker_project *project) {
    return project->used + project->held * expected_ns(t, project) / project->weight;
}

void kiln_tracker_project_starts_waiting(kiln_tracker *t, kiln_tracker_project *project) {
    /* A project that paused does not get the missed time back. */
    double lease_ns = t->projects.lease_ns > 0 ? t->projects.lease_ns : FIRST_LEASE_NS;
    project->used = KILN_MAX(project->used, t->projects.shared - CREDIT_LEASES * lease_ns);
}

void kiln_tracker_project_granted(kiln_tracker *t, kiln_tracker_project *project, uint32_t slots) {
    double claim = kiln_tracker_project_claim(t, project);
    t->projects.shared = KILN_MAX(t->projects.shared, claim);
    kiln_tracker_project_charge(t, project);
    project->held++;
    project->slots += slots;
    kiln_tracker_project_watch_time(t, project);
}

static void update_mean(double *mean, double value) {
    *mean = *mean > 0 ? *mean + LATELY * (value - *mean) : value;
}

void kiln_tracker_project_ended(kiln_tracker *t, kiln_tracker_project *project, uint32_t slots,
                                uint64_t held_ns) {
    kiln_tracker_project_charge(t, project);
    project->held--;
    project->slots -= slots;
    project->used += (double)held_ns / project->weight;
    if (held_ns) {
        update_mean(&project->lease_ns, (double)held_ns);
        update_mean(&t->projects.lease_ns, (double)held_ns);
    }
}

/* ---- On disk: not with each lease, because leases end often ---- */

static kiln_tracker_row row_of(const kiln_tracker_project *project, kiln_strbuf *id) {
    kiln_strbuf_printf(id, KILN_TRACKER_SHARE_PREFIX "%s", project->name);
    return (kiln_tracker_row){.kind = KILN_TRACKER_ROW_SHARE, .id = kiln_strbuf_view(id)};
}

static void keep(kiln_tracker *t, kiln_tracker_project *project, double used) {
    kiln_tracker_project_charge(t, project);
    kiln_msg_kept_share kept = {.used = used,
                                .lease_ns = project->lease_ns,
                                .shared = t->projects.shared,
                                .day = project->day,
                                .day_ns = project->day_ns};
    kiln_strbuf id = {0};
    kiln_tracker_persist_record(t, row_of(project, &id), KILN_RECORD_kept_share, &kept);
    kiln_tracker_may_wait(t); /* if this fails, a later row replaces it */
    kiln_strbuf_deinit(&id);
    project->kept = used;
    project->kept_day_ns = project->day_ns;
    project->is_kept = true;
}

bool kiln_tracker_shares_begin(kiln_tracker *t) {
    if (t->effects.now_ns < t->projects.keep_ns) return false;
    t->projects.keep_ns = t->effects.now_ns + KILN_TRACKER_SHARE_NS;
    for (uint32_t i = 0; i < t->projects.all.count; i++) t->projects.all.data[i]->running = 0;
    return true;
}

void kiln_tracker_project_add_running(kiln_tracker_project *project, uint64_t cost_ns) {
    project->running += (double)cost_ns;
}

void kiln_tracker_shares_keep(kiln_tracker *t) {
    for (uint32_t i = 0; i < t->projects.all.count; i++) {
        kiln_tracker_project *project = t->projects.all.data[i];
        double used = project->used + project->running / project->weight;
        if (used != project->kept ||
            kiln_tracker_project_day_ns(t, project) != project->kept_day_ns)
            keep(t, project, used);
    }
}

void kiln_tracker_share_remove(kiln_tracker *t, const kiln_tracker_project *project) {
    if (!project->is_kept || !t->effects.actions) return;
    kiln_strbuf id = {0};
    kiln_tracker_row row = row_of(project, &id);
    row.removed = true;
    kiln_tracker_persist_later(t, &row, 1);
    kiln_strbuf_deinit(&id);
}
