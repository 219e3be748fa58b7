#include "tests/sim/fair.h"

#include "base/macros.h"

const char *const sim_project_name[SIM_PROJECTS] = {"even", "odd"};

#define FIRST_LEASE_NS 2e9 /* no lease is taken for shorter */

/* How far a project that waits may fall behind another, in leases of the greatest length: all slots
 * may be the other's when it comes; a few more are the credit of who paused, and what the tracker
 * expected of leases that lasted longer. The furthest of 1,000 histories was
 * 4.9 leases, with one slot. */
static double lag_max_ns(const sim_fair *fair, uint32_t slots) {
    return (slots + 6.0) * KILN_MAX(fair->longest_ns, FIRST_LEASE_NS);
}

static uint32_t index_of(kiln_str project) {
    uint32_t index = 0;
    while (index < SIM_PROJECTS && !kiln_str_is(project, sim_project_name[index])) index++;
    return index;
}

static uint32_t slots_of(const kiln_tracker_lease *lease) {
    const kiln_tracker_device *device = kiln_tracker_board_device(lease->board, lease->slot);
    return lease->whole && device ? device->reported->slots : 1;
}

/* ---- Time that was held ---- */

static sim_given *find_given(sim_fair *fair, uint64_t lease) {
    for (uint32_t i = 0; i < fair->given.count; i++)
        if (fair->given.data[i].lease == lease) return &fair->given.data[i];
    return NULL;
}

/* Charges a lease with the time since the last look. */
static void charge_lease(sim_fair *fair, const kiln_tracker_lease *lease, double passed_ns) {
    uint32_t project = lease->job ? index_of(lease->job->spec.project) : SIM_PROJECTS;
    if (project == SIM_PROJECTS || fair->share[project].weight == 0) return;
    const sim_given *given = find_given(fair, lease->lease);
    double served_ns = slots_of(lease) * passed_ns / fair->share[project].weight;
    fair->share[project].served_ns += served_ns;
    for (uint32_t i = 0; given && i < SIM_PROJECTS; i++)
        if (given->passed_over[i]) fair->share[i].passed_ns[project] += served_ns;
}

static void charge(sim_fair *fair, const kiln_tracker *t, uint64_t now_ns) {
    for (uint32_t i = 0; i < t->leases.all.count; i++) {
        const kiln_tracker_lease *lease = t->leases.all.data[i];
        double lasted_ns = slots_of(lease) * (double)(now_ns - lease->granted_ns);
        fair->longest_ns = KILN_MAX(fair->longest_ns, lasted_ns);
        charge_lease(fair, lease, (double)(now_ns - fair->seen_ns));
    }
    fair->seen_ns = now_ns;
}

/* ---- Between projects ---- */

typedef struct standing {
    uint32_t weight, waiting;
} standing;

static void take_stock(const kiln_tracker *t, standing out[SIM_PROJECTS]) {
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        const kiln_tracker_job *job = t->jobs.all.data[i];
        uint32_t project = index_of(job->spec.project);
        if (project == SIM_PROJECTS || !kiln_tracker_job_is_open(job)) continue;
        out[project].weight = KILN_MAX(out[project].weight, KILN_MAX(job->spec.weight, 1u));
        out[project].waiting += job->queue.requests.count;
    }
}

static uint32_t slots_in_all(const kiln_tracker *t) {
    uint32_t slots = 0;
    for (uint32_t i = 0; i < t->boards.all.count; i++)
        slots += kiln_tracker_board_slots(t->boards.all.data[i]);
    return slots;
}

/* No other project gets ahead of one that waits, but by what could not be known. */
static void check_lead(sim_fair *fair, sim_world *world, uint32_t project, double lag_max) {
    sim_share *share = &fair->share[project];
    for (uint32_t other = 0; other < SIM_PROJECTS; other++) {
        double lead_ns = share->passed_ns[other] - share->served_ns;
        share->least_ns[other] = KILN_MIN(share->least_ns[other], lead_ns);
        double lag_ns = lead_ns - share->least_ns[other];
        if (lag_ns > lag_max)
            sim_fail(world, "project %s waits and falls %.0f s behind %s",
                     sim_project_name[project], lag_ns / 1e9, sim_project_name[other]);
    }
}

static void begin_anew(sim_share *share) {
    for (uint32_t i = 0; i < SIM_PROJECTS; i++)
        share->least_ns[i] = share->passed_ns[i] - share->served_ns;
}

static void check_shares(sim_fair *fair, sim_world *world, const kiln_tracker *t) {
    standing now[SIM_PROJECTS] = {{0, 0}};
    bool anew = false;
    take_stock(t, now);
    for (uint32_t i = 0; i < SIM_PROJECTS; i++) {
        anew = anew || now[i].weight != fair->share[i].weight;
        fair->share[i].weight = now[i].weight;
        fair->share[i].waits = now[i].waiting > 0;
    }
    if (anew) fair->longest_ns = 0;
    double lag_max = lag_max_ns(fair, slots_in_all(t));
    for (uint32_t i = 0; i < SIM_PROJECTS; i++) {
        if (anew) begin_anew(&fair->share[i]);
        if (fair->share[i].waits && !world->options.quotas) check_lead(fair, world, i, lag_max);
    }
}

static bool is_labelled(const kiln_msg_board_up *board, const kiln_msg_label *label) {
    for (uint32_t i = 0; i < board->labels.count; i++)
        if (kiln_str_equal(board->labels.item[i].key, label->key) &&
            kiln_str_equal(board->labels.item[i].value, label->value))
            return true;
    return false;
}

/* Whether what was just given could have gone to a request that waits: keys are the same for all
 * here. */
static bool could_have(const kiln_tracker_request *request, const kiln_tracker_lease *lease) {
    const kiln_msg_lease_req *want = &request->asked;
    for (uint32_t i = 0; i < want->labels.count; i++)
        if (!is_labelled(&lease->board->up, &want->labels.item[i])) return false;
    const kiln_tracker_device *device = kiln_tracker_board_device(lease->board, lease->slot);
    if (!device || device->target.kind != request->required->target.kind) return false;
    return !want->exclusive || device->reported->busy == slots_of(lease);
}

static bool is_passed_over(const kiln_tracker *t, uint32_t project,
                           const kiln_tracker_lease *lease) {
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        const kiln_tracker_job *job = t->jobs.all.data[i];
        if (index_of(job->spec.project) != project || !kiln_tracker_job_is_open(job)) continue;
        for (uint32_t r = 0; r < job->queue.requests.count; r++)
            if (could_have(job->queue.requests.data[r], lease)) return true;
    }
    return false;
}

/* Notes of the leases that a step gave who was passed over, and forgets those that it ended. */
static void note_given(sim_fair *fair, kiln_tracker *t) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < fair->given.count; i++)
        if (kiln_tracker_lease_find(t, fair->given.data[i].lease))
            fair->given.data[kept++] = fair->given.data[i];
    fair->given.count = kept;
    for (uint32_t i = 0; i < t->leases.all.count; i++) {
        sim_given given = {.lease = t->leases.all.data[i]->lease};
        if (given.lease <= fair->epoch) continue;
        for (uint32_t p = 0; p < SIM_PROJECTS; p++)
            given.passed_over[p] = is_passed_over(t, p, t->leases.all.data[i]);
        kiln_vec_push(&fair->given, given);
    }
}

/* ---- In a project ---- */

static uint64_t urgency(const kiln_tracker_job *job, uint64_t since_ns, uint64_t now_ns) {
    return job->spec.priority + (now_ns - since_ns) / KILN_TRACKER_AGEING_NS;
}

/* Since when the job of a grant waited: until this step, or not at all. */
static uint64_t waited_since(const sim_fair *fair, const kiln_tracker_job *job, uint64_t now_ns) {
    for (uint32_t i = 0; i < fair->turn.count; i++)
        if (fair->turn.data[i].job == job) return fair->turn.data[i].since_ns;
    return now_ns;
}

/* Since when a job waits for the lease, or with NULL for any; UINT64_MAX: it does not. */
static uint64_t oldest_ns(const kiln_tracker_job *job, const kiln_tracker_lease *lease) {
    uint64_t since_ns = UINT64_MAX;
    for (uint32_t i = 0; i < job->queue.requests.count; i++)
        if (!lease || could_have(job->queue.requests.data[i], lease))
            since_ns = KILN_MIN(since_ns, job->queue.requests.data[i]->since_ns);
    return since_ns;
}

/* Nobody of the same project who could have had what was just given had more claim to it, by
 * priority and age. */
static void check_turn(sim_fair *fair, sim_world *world, const kiln_tracker *t,
                       const kiln_tracker_lease *lease, uint64_t now_ns) {
    if (!lease->job || world->options.quotas) return;
    uint64_t its = urgency(lease->job, waited_since(fair, lease->job, now_ns), now_ns);
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        const kiln_tracker_job *job = t->jobs.all.data[i];
        if (job == lease->job || job->project != lease->job->project) continue;
        uint64_t since_ns = oldest_ns(job, lease);
        if (since_ns != UINT64_MAX && urgency(job, since_ns, now_ns) > its)
            sim_fail(world, "job %s waits while one that is less urgent has a board", job->id);
    }
}

/* ---- Around a step ---- */

void sim_fair_before(sim_fair *fair, const kiln_tracker *t, uint64_t now_ns) {
    charge(fair, t, now_ns);
    fair->epoch = t->leases.epoch;
    fair->turn.count = 0;
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        sim_turn turn = {t->jobs.all.data[i], oldest_ns(t->jobs.all.data[i], NULL)};
        if (turn.job->queue.requests.count) kiln_vec_push(&fair->turn, turn);
    }
}

void sim_fair_after(sim_fair *fair, sim_world *world, kiln_tracker *t, uint64_t now_ns) {
    for (uint32_t i = 0; i < t->leases.all.count; i++)
        if (t->leases.all.data[i]->lease > fair->epoch)
            check_turn(fair, world, t, t->leases.all.data[i], now_ns);
    check_shares(fair, world, t);
    note_given(fair, t);
}

void sim_fair_break(sim_fair *fair) {
    for (uint32_t i = 0; i < SIM_PROJECTS; i++) begin_anew(&fair->share[i]);
    fair->given.count = 0;
}

void sim_fair_deinit(sim_fair *fair) {
    kiln_vec_deinit(&fair->turn);
    kiln_vec_deinit(&fair->given);
}
