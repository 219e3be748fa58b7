/* Boards: asking for them, keeping them busy, giving them back, and what they answer. */
#include <string.h>

#include "base/macros.h"
#include "base/reading.h"
#include "tuner/state.h"

/* Most trials end in a fraction of these deadlines, which bound the cost of a bad one. */
static const kiln_search_measure measures = {.policy = {.samples_min = 5,
                                                        .samples_max = 20,
                                                        .interval = 0.01,
                                                        .sample_ns = 1000000,
                                                        .total_ns = 50000000},
                                             .deadlines_ms = {.fetch = 30000,
                                                              .build = 20000,
                                                              .load = 10000,
                                                              .warm = 10000,
                                                              .run = 10000,
                                                              .check = 10000}};

/* An emulator takes about a hundred times as long, and its times say little: few samples are
 * enough, and deadlines are long so that no correct candidate is given up. */
static const kiln_search_measure emulated_measures = {.policy = {.samples_min = 2,
                                                                 .samples_max = 5,
                                                                 .interval = 0.05,
                                                                 .sample_ns = 1000000,
                                                                 .total_ns = 50000000},
                                                      .deadlines_ms = {.fetch = 30000,
                                                                       .build = 20000,
                                                                       .load = 60000,
                                                                       .warm = 120000,
                                                                       .run = 120000,
                                                                       .check = 60000}};

const kiln_search_measure *kiln_search_measure_of(bool emulated) {
    return emulated ? &emulated_measures : &measures;
}

static uint32_t in_flight(const kiln_tuner_job *job, const kiln_tuner_lease *lease) {
    uint32_t count = 0;
    for (uint32_t i = 0; lease->lease && i < job->trial.count; i++)
        count += job->trial.data[i]->state == KILN_TRIAL_SENT &&
                 job->trial.data[i]->lease == lease->lease;
    return count;
}

/* ---- Asking ---- */

/* Whether a lease of that board can take more trials. */
static bool has_room_on(const kiln_tuner_job *job, const char *node) {
    for (uint32_t i = 0; i < job->lease.count; i++) {
        const kiln_tuner_lease *lease = job->lease.data[i];
        if (lease->lease && lease->sent < lease->grant.trials &&
            kiln_str_is(lease->grant.board, node))
            return true;
    }
    return false;
}

/* The board that measures a task with trials left, if no lease of it has room: the task should go
 * on there. NULL: none. */
static const char *missing_home(const kiln_tuner_job *job) {
    for (uint32_t i = 0; i < job->trial.count; i++) {
        const kiln_tuner_trial *trial = job->trial.data[i];
        const char *home = job->task[trial->task].home;
        bool is_due = trial->state >= KILN_TRIAL_TO_BUILD && trial->state <= KILN_TRIAL_READY;
        if (is_due && home && !has_room_on(job, home)) return home;
    }
    return NULL;
}

static void ask(kiln_tuner_job *job, kiln_tuner_lease *lease) {
    const kiln_tuner_options *own = &job->tuner->options;
    kiln_msg_label builds = {KILN_STR(KILN_LABEL_BUILDS), kiln_str_from(own->codegen)};
    kiln_message message = {
        .type = KILN_MSG_LEASE_REQ,
        .lease_req = {.request = lease->request,
                      .job = kiln_str_from(job->id),
                      .target = job->spec.target,
                      .trials = KILN_TUNER_LEASE_TRIALS,
                      .ttl_ms = KILN_TUNER_LEASE_TTL_MS,
                      .board = kiln_str_from(missing_home(job))},
    };
    if (own->builders == 0) { /* on other boards trials would wait for ever */
        message.lease_req.labels.item = &builds;
        message.lease_req.labels.count = 1;
    }
    kiln_tuner_send(job->tuner, &message);
    lease->ask_ns = job->tuner->effects.now_ns + KILN_TUNER_RESEND_NS;
}

/* Number of boards that the trials without a result can keep busy. */
static uint32_t wanted(const kiln_tuner_job *job) {
    uint32_t open = 0;
    for (uint32_t i = 0; i < job->trial.count; i++)
        open += job->trial.data[i]->state >= KILN_TRIAL_TO_BUILD &&
                job->trial.data[i]->state <= KILN_TRIAL_SENT;
    uint32_t boards = (open + KILN_TUNER_BOARD_DEPTH - 1) / KILN_TUNER_BOARD_DEPTH;
    return KILN_MIN(boards, KILN_TUNER_LEASES_MAX);
}

/* Whether the job has more boards than it can keep busy. */
static bool is_surplus(const kiln_tuner_job *job) { return job->lease.count > wanted(job); }

static void ask_for_boards(kiln_tuner_job *job) {
    uint32_t useful = 0, need = wanted(job);
    for (uint32_t i = job->lease.count; i-- > 0;) {
        kiln_tuner_lease *lease = job->lease.data[i];
        bool waiting = lease->lease == 0;
        if (waiting && need == 0) {
            kiln_tuner_lease_release(job, lease);
            continue;
        }
        useful += waiting || lease->sent < lease->grant.trials;
        if (waiting && job->tuner->effects.now_ns >= lease->ask_ns) ask(job, lease);
    }
    for (; useful < need; useful++) {
        ask(job, kiln_tuner_lease_add(job, ++job->tuner->requests.last));
    }
}

static kiln_tuner_lease *find_request(kiln_tuner *t, uint64_t request, kiln_tuner_job **out_job) {
    for (uint32_t j = 0; j < t->job.count; j++)
        for (uint32_t i = 0; i < t->job.data[j]->lease.count; i++)
            if (t->job.data[j]->lease.data[i]->request == request) {
                *out_job = t->job.data[j];
                return t->job.data[j]->lease.data[i];
            }
    return NULL;
}

static kiln_tuner_lease *find_lease(kiln_tuner *t, uint64_t number, kiln_tuner_job **out_job) {
    for (uint32_t j = 0; number && j < t->job.count; j++)
        for (uint32_t i = 0; i < t->job.data[j]->lease.count; i++)
            if (t->job.data[j]->lease.data[i]->lease == number) {
                *out_job = t->job.data[j];
                return t->job.data[j]->lease.data[i];
            }
    return NULL;
}

void kiln_tuner_on_grant(kiln_tuner *t, const kiln_message *message) {
    kiln_tuner_job *job = NULL;
    kiln_tuner_lease *lease = find_request(t, message->lease_grant.request, &job);
    if (!lease || (lease->lease &&
                   lease->lease != message->lease_grant.lease)) { /* withdrawn, or granted twice */
        kiln_message back = {.type = KILN_MSG_LEASE_RELEASE,
                             .lease_release = {.lease = message->lease_grant.lease}};
        kiln_tuner_send(t, &back);
        return;
    }
    if (lease->lease) { /* the same grant again, perhaps for fewer trials */
        lease->grant.trials = KILN_MIN(lease->grant.trials, message->lease_grant.trials);
        return;
    }
    lease->grant = kiln_message_copy(message, &lease->arena).lease_grant;
    lease->lease = lease->grant.lease;
    lease->renew_ns = t->effects.now_ns + lease->grant.ttl_ms * UINT64_C(1000000) / 3;
    if (t->options.builders > 0 || kiln_tuner_board_builds(t, lease)) return;
    kiln_tuner_job_stop(job, KILN_FAILED_PRECONDITION,
                        KILN_STR("this tuner has no builders, and its tracker gave it a board that "
                                 "does not say that it builds: start kiln-tuner with --builders"));
}

/* ---- Sending ---- */

static void send_trial(kiln_tuner_job *job, const kiln_tuner_lease *lease,
                       const kiln_tuner_trial *trial) {
    const kiln_tuner_job_task *task = &job->task[trial->task];
    const bool final = trial->index == KILN_TUNER_FINAL;
    const bool early = task->final.state == KILN_TUNER_FINAL_EARLY;
    const bool emulated = job->emulated;
    const kiln_search_measure *measure = kiln_search_measure_of(emulated);
    kiln_msg_blob_ref rivals[KILN_TUNER_ARTEFACTS_MAX];
    memcpy(rivals, trial->artefact, sizeof rivals);
    kiln_message message = {
        .type = KILN_MSG_TRIAL,
        .trial = {.trial = kiln_str_from(trial->id),
                  .attempt = trial->attempt,
                  .lease = lease->lease,
                  .job = kiln_str_from(job->id),
                  .slot = lease->grant.slot,
                  .artefact = trial->artefact[0],
                  .rivals = {rivals + 1, KILN_MAX(trial->artefact_count, 1) - 1},
                  .reference = task->reference.ref,
                  .seed = task->given.input_seed,
                  .race_ns = final ? 0 : kiln_tuner_race_bound_ns(&task->race),
                  .policy = final && !emulated
                                ? early ? kiln_tuner_judge_policy : kiln_tuner_final_policy
                                : measure->policy,
                  .deadlines_ms = measure->deadlines_ms},
    };
    if (trial->by_recipe) message.trial.recipe = kiln_tuner_recipe_of(job, trial);
    kiln_tuner_send(job->tuner, &message);
}

static bool holds_board(const kiln_tuner_job *job, const char *node) {
    for (uint32_t i = 0; i < job->lease.count; i++)
        if (job->lease.data[i]->lease && kiln_str_is(job->lease.data[i]->grant.board, node))
            return true;
    return false;
}

/* How well the trial fits the board: 0: its task is measured there; 1: its task has no board yet;
 * 2: its task is measured on another board. */
static uint32_t distance(const kiln_tuner_job *job, const kiln_tuner_lease *lease,
                         const kiln_tuner_trial *trial) {
    const char *home = job->task[trial->task].home;
    if (!home) return 1;
    return kiln_str_is(lease->grant.board, home) ? 0 : 2;
}

static bool is_ready(const kiln_tuner_job *job, const kiln_tuner_trial *trial) {
    (void)job;
    return trial->state == KILN_TRIAL_READY;
}

/* The nearest of the trials that may go, the oldest of equals; NULL: none. */
static kiln_tuner_trial *nearest(kiln_tuner_job *job, const kiln_tuner_lease *lease,
                                 bool (*may_go)(const kiln_tuner_job *, const kiln_tuner_trial *)) {
    kiln_tuner_trial *best = NULL;
    uint32_t best_distance = UINT32_MAX;
    for (uint32_t i = 0; i < job->trial.count && best_distance > 0; i++) {
        kiln_tuner_trial *trial = job->trial.data[i];
        if (!may_go(job, trial)) continue;
        uint32_t far = distance(job, lease, trial);
        if (far >= best_distance) continue;
        best = trial;
        best_distance = far;
    }
    return best;
}

/* The trial for a free place on the lease's board. One board should measure all trials of a task,
 * so that their times compare well; but no board waits while there is work. */
static kiln_tuner_trial *next_trial(kiln_tuner_job *job, const kiln_tuner_lease *lease,
                                    uint32_t held) {
    kiln_tuner_trial *trial = nearest(job, lease, is_ready);
    if (trial || !kiln_tuner_wants_recipes(job, lease, held)) return trial;
    return nearest(job, lease, kiln_tuner_recipe_is_ready);
}

static void settle(kiln_tuner_job *job, const kiln_tuner_lease *lease, uint32_t task) {
    const char *home = job->task[task].home;
    if (!home || !holds_board(job, home))
        kiln_tuner_task_set_home(&job->task[task], kiln_str_dup(&job->arena, lease->grant.board));
}

static void send_trials(kiln_tuner_job *job, kiln_tuner_lease *lease) {
    kiln_tuner *t = job->tuner;
    for (uint32_t held = in_flight(job, lease);
         lease->sent < lease->grant.trials && held < KILN_TUNER_BOARD_DEPTH; held++) {
        kiln_tuner_trial *trial = next_trial(job, lease, held);
        if (!trial) return;
        settle(job, lease, trial->task);
        kiln_tuner_trial_sent(trial, lease->lease, t->effects.now_ns);
        lease->sent++;
        send_trial(job, lease, trial);
    }
}

/* The lease is gone: its trials are sent again, a limited number of times. */
static void take_back_trials(kiln_tuner_job *job, uint64_t number, bool board_lost) {
    for (uint32_t i = job->trial.count; i-- > 0;) { /* a final that fails is gone */
        kiln_tuner_trial *trial = job->trial.data[i];
        if (trial->state != KILN_TRIAL_SENT || trial->lease != number) continue;
        const bool fell = kiln_tuner_trial_lost(trial, board_lost);
        if (trial->falls == KILN_TUNER_ATTEMPTS_MAX) {
            kiln_tuner_trial_fail(job, trial, KILN_OUTCOME_BOARD_LOST,
                                  "the board went away in every attempt");
        } else if (trial->losses > KILN_TUNER_LOSSES_MAX) {
            kiln_tuner_trial_fail(job, trial, KILN_OUTCOME_INFRA,
                                  "its lease was lost again and again");
        } else if (fell) {
            kiln_tuner_trial_next_attempt(trial);
        }
    }
}

/* Whether a trial that was sent is silent for minutes: its board probably hangs. */
static bool is_silent(const kiln_tuner_job *job, const kiln_tuner_lease *lease) {
    for (uint32_t i = 0; i < job->trial.count; i++) {
        const kiln_tuner_trial *trial = job->trial.data[i];
        if (trial->state != KILN_TRIAL_SENT || trial->lease != lease->lease) continue;
        if (job->tuner->effects.now_ns - trial->news_ns >= KILN_TUNER_SILENCE_NS) return true;
    }
    return false;
}

static void tend(kiln_tuner_job *job, kiln_tuner_lease *lease) {
    kiln_tuner *t = job->tuner;
    send_trials(job, lease);
    if (is_silent(job, lease)) {
        uint64_t number = lease->lease;
        kiln_tuner_lease_release(job, lease);
        take_back_trials(job, number, false);
        return;
    }
    if (t->effects.now_ns >= lease->renew_ns) {
        kiln_message renew = {.type = KILN_MSG_LEASE_RENEW, .lease_renew = {.lease = lease->lease}};
        kiln_tuner_send(t, &renew);
        lease->renew_ns = t->effects.now_ns + lease->grant.ttl_ms * UINT64_C(1000000) / 3;
    }
    if (in_flight(job, lease)) {
        lease->idle_since_ns = 0;
        return;
    }
    if (!lease->idle_since_ns) lease->idle_since_ns = t->effects.now_ns;
    bool used_up = lease->sent >= lease->grant.trials;
    bool idle = is_surplus(job) && t->effects.now_ns - lease->idle_since_ns >= KILN_TUNER_IDLE_NS;
    if (used_up || idle) kiln_tuner_lease_release(job, lease);
}

void kiln_tuner_leases_advance(kiln_tuner_job *job) {
    if (!kiln_tuner_is_linked(job->tuner)) return;
    for (uint32_t i = job->lease.count; i-- > 0;)
        if (job->lease.data[i]->lease) tend(job, job->lease.data[i]);
    ask_for_boards(job);
}

/* Repeats all messages that the connection, or a tracker that restarted, may have lost. */
void kiln_tuner_leases_reconnected(kiln_tuner_job *job) {
    kiln_tuner *t = job->tuner;
    for (uint32_t i = 0; i < job->lease.count; i++) {
        kiln_tuner_lease *lease = job->lease.data[i];
        lease->ask_ns = lease->renew_ns = t->effects.now_ns;
    }
    for (uint32_t i = 0; i < job->trial.count; i++) {
        kiln_tuner_trial *trial = job->trial.data[i];
        kiln_tuner_job *owner = NULL;
        const kiln_tuner_lease *lease =
            trial->state == KILN_TRIAL_SENT ? find_lease(t, trial->lease, &owner) : NULL;
        if (lease) send_trial(job, lease, trial);
    }
}

uint64_t kiln_tuner_leases_next_ns(const kiln_tuner_job *job) {
    uint64_t next = UINT64_MAX;
    if (!kiln_tuner_is_linked(job->tuner)) return next;
    for (uint32_t i = 0; i < job->lease.count; i++) {
        const kiln_tuner_lease *lease = job->lease.data[i];
        uint64_t at = lease->lease ? lease->renew_ns : lease->ask_ns;
        next = KILN_MIN(next, at);
        if (lease->idle_since_ns && is_surplus(job))
            next = KILN_MIN(next, lease->idle_since_ns + KILN_TUNER_IDLE_NS);
    }
    for (uint32_t i = 0; i < job->trial.count; i++) {
        const kiln_tuner_trial *trial = job->trial.data[i];
        if (trial->state == KILN_TRIAL_SENT)
            next = KILN_MIN(next, trial->news_ns + KILN_TUNER_SILENCE_NS);
    }
    return next;
}

/* ---- Answers ---- */

void kiln_tuner_on_lost(kiln_tuner *t, const kiln_msg_lease_lost *lost) {
    kiln_tuner_job *job = NULL;
    kiln_tuner_lease *lease = find_lease(t, lost->lease, &job);
    if (!lease) return;
    kiln_tuner_lease_remove(job, lease);
    take_back_trials(job, lost->lease, lost->code == KILN_UNAVAILABLE);
}

/* The tracker refused something. A request that was refused is asked again later under a new
 * number; a job that the tracker does not know as ours is closed by JOB_CLOSE, not here. */
void kiln_tuner_on_error(kiln_tuner *t, const kiln_msg_error *error) {
    kiln_tuner_job *job = NULL;
    kiln_tuner_lease *lease = error->lease ? find_request(t, error->lease, &job) : NULL;
    if (!lease || lease->lease || !kiln_str_is(error->about, job->id)) return;
    lease->request = ++t->requests.last;
    lease->ask_ns = t->effects.now_ns + KILN_TUNER_RESEND_NS;
}

static kiln_tuner_trial *find_trial(kiln_tuner *t, kiln_str id, kiln_tuner_job **out_job) {
    for (uint32_t j = 0; j < t->job.count; j++)
        for (uint32_t i = 0; i < t->job.data[j]->trial.count; i++)
            if (kiln_str_is(id, t->job.data[j]->trial.data[i]->id)) {
                *out_job = t->job.data[j];
                return t->job.data[j]->trial.data[i];
            }
    return NULL;
}

void kiln_tuner_on_trial_event(kiln_tuner *t, const kiln_msg_trial_event *event) {
    kiln_tuner_job *job = NULL;
    kiln_tuner_trial *trial = find_trial(t, event->trial, &job);
    if (!trial || trial->state != KILN_TRIAL_SENT || trial->lease != event->lease) return;
    /* While it is built no code of it runs. */
    kiln_tuner_trial_heard(trial, t->effects.now_ns, event->phase != KILN_PHASE_BUILD);
}

/* Of one run; all zero without samples. */
static kiln_reading reading_of(const kiln_msg_trial_result *result, double flops) {
    double sample[1024];
    uint32_t count = KILN_MIN(result->samples_ns.count, (uint32_t)KILN_ARRAY_COUNT(sample));
    for (uint32_t i = 0; i < count; i++)
        sample[i] = (double)result->samples_ns.item[i] / (result->runs ? result->runs : 1);
    if (count == 0) return (kiln_reading){0};
    return kiln_reading_of(&(kiln_samples){.ns = sample,
                                           .count = count,
                                           .again = result->again,
                                           .drift = {result->drift, result->drift_memory},
                                           .flops = flops,
                                           .peak_flops = result->peak_flops});
}

static void record(kiln_tuner_job *job, kiln_tuner_trial *trial,
                   const kiln_msg_trial_result *result, const kiln_tuner_lease *lease) {
    kiln_arena *arena = kiln_tuner_step_arena(job->tuner);
    kiln_tuner_action *action = kiln_tuner_act_on(job, KILN_TUNER_RECORD, trial);
    kiln_msg_trial_result *kept = KILN_ARENA_NEW(arena, kiln_msg_trial_result);
    kiln_msg_lease_grant *grant = KILN_ARENA_NEW(arena, kiln_msg_lease_grant);
    *kept = kiln_message_copy(
                &(kiln_message){.type = KILN_MSG_TRIAL_RESULT, .trial_result = *result}, arena)
                .trial_result;
    *grant = kiln_message_copy(
                 &(kiln_message){.type = KILN_MSG_LEASE_GRANT, .lease_grant = lease->grant}, arena)
                 .lease_grant;
    action->outcome = trial->result.outcome;
    action->blame = (kiln_blame)result->blame;
    action->text = kiln_str_dup(arena, result->text);
    action->result = kept;
    action->grant = grant;
}

/* Whether there is no trustworthy measurement, through no fault of the candidate. */
static bool is_to_be_repeated(const kiln_tuner_job *job, const kiln_tuner_trial *trial,
                              const kiln_msg_trial_result *result) {
    bool disturbed = trial->index == KILN_TUNER_FINAL
                         ? kiln_tuner_final_is_disturbed(job, trial, result)
                         : result->out_of_band;
    bool spoilt = result->outcome == KILN_OUTCOME_OK && disturbed;
    return (spoilt || result->outcome == KILN_OUTCOME_INFRA) &&
           trial->repeats + 1 < KILN_TUNER_ATTEMPTS_MAX;
}

static bool has_time(uint32_t outcome, const kiln_u64s *samples_ns) {
    bool ok = outcome != KILN_OUTCOME_OK || samples_ns->count > 0;
    for (uint32_t i = 0; i < samples_ns->count; i++) ok = ok && samples_ns->item[i] > 0;
    return ok;
}

/* The database refuses other figures, and a refused record would end the whole job. */
static bool is_credible(const kiln_msg_trial_result *result) {
    bool ok = has_time(result->outcome, &result->samples_ns) && result->drift >= 0 &&
              result->drift_memory >= 0 && result->peak_flops >= 0;
    for (uint32_t i = 0; i < result->rivals.count; i++)
        ok = ok && has_time(result->rivals.item[i].outcome, &result->rivals.item[i].samples_ns);
    return ok;
}

static kiln_assembled assembled_of(const kiln_msg_assembled *said) {
    return (kiln_assembled){.registers = said->registers,
                            .spill_bytes = said->spill_bytes,
                            .stack_bytes = said->stack_bytes,
                            .shared_bytes = said->shared_bytes};
}

static kiln_tuner_result result_of(const kiln_tuner_job *job, const kiln_tuner_trial *trial,
                                   const kiln_msg_trial_result *said) {
    const bool ok = said->outcome == KILN_OUTCOME_OK;
    const double flops = job->task[trial->task].given.flops;
    const kiln_reading reading = ok ? reading_of(said, flops) : (kiln_reading){0};
    return (kiln_tuner_result){.outcome = (kiln_outcome)said->outcome,
                               .median_ns = reading.time_ns,
                               .least_ns = reading.least_ns,
                               .raced = said->stop == KILN_STOP_RACED,
                               .peak_flops = said->peak_flops,
                               .assembled = said->assembled.registers
                                                ? assembled_of(&said->assembled)
                                                : trial->result.assembled};
}

static void take_result(kiln_tuner *t, const kiln_msg_trial_result *result) {
    kiln_tuner_job *job = NULL, *owner = NULL;
    kiln_tuner_trial *trial = find_trial(t, result->trial, &job);
    const kiln_tuner_lease *lease = find_lease(t, result->lease, &owner);
    if (!lease) return; /* a stale lease: the fence */
    if (!trial || trial->state == KILN_TRIAL_RECORDED) {
        kiln_tuner_acknowledge(
            t, result->trial, result->attempt,
            result->lease); /* it is in the database; the first TRIAL_ACK got lost */
        return;
    }
    if (trial->state != KILN_TRIAL_SENT || trial->lease != result->lease ||
        trial->attempt != result->attempt)
        return;
    kiln_tuner_time_take(job, trial, &result->times_ns);
    if (is_to_be_repeated(job, trial, result)) {
        kiln_tuner_acknowledge(t, result->trial, result->attempt, result->lease);
        kiln_tuner_trial_repeat(trial);
        /* Its blobs may be missing at the tracker. */
        if (result->outcome == KILN_OUTCOME_INFRA)
            kiln_tuner_trial_reupload(job, trial);
        else
            kiln_tuner_trial_requeue(trial);
        return;
    }
    if (trial->index == KILN_TUNER_FINAL && !kiln_tuner_final_count(job, trial, result)) {
        kiln_tuner_acknowledge(t, result->trial, result->attempt, result->lease);
        kiln_tuner_final_end(job, trial);
        return;
    }
    const kiln_tuner_result measured = result_of(job, trial, result);
    kiln_tuner_trial_measured(trial, &measured);
    record(job, trial, result, lease);
}

void kiln_tuner_on_result(kiln_tuner *t, const kiln_msg_trial_result *result) {
    const kiln_msg_trial_result nothing = {
        .trial = result->trial,
        .attempt = result->attempt,
        .lease = result->lease,
        .outcome = KILN_OUTCOME_INFRA,
        .blame = KILN_BLAME_BOARD,
        .before = result->before,
        .text = KILN_STR("the board's figures cannot be: no time, or less than none")};
    take_result(t, is_credible(result) ? result : &nothing);
}
