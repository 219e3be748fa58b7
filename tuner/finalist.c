#include "tuner/finalist.h"

#include <string.h>

#include "base/alloc.h"
#include "base/macros.h"
#include "base/reading.h"
#include "tuner/state.h"

/* ---- Standings ---- */

#define SAMPLES_MAX 1024u

/* Samples as times of one run. */
static uint32_t runs_of(const kiln_u64s *samples, uint32_t runs, double *out_ns) {
    uint32_t count = KILN_MIN(samples->count, SAMPLES_MAX);
    for (uint32_t i = 0; i < count; i++) out_ns[i] = (double)samples->item[i] / KILN_MAX(runs, 1u);
    return count;
}

static double time_of(const double *ns, uint32_t count) {
    return kiln_reading_of(&(kiln_samples){.ns = ns, .count = count}).time_ns;
}

kiln_tuner_standing kiln_tuner_standing_of(const kiln_msg_trial_result *result, uint32_t place) {
    double base[SAMPLES_MAX], own[SAMPLES_MAX], gain[SAMPLES_MAX];
    uint32_t count = runs_of(&result->samples_ns, result->runs, base);
    kiln_tuner_standing none = {0};
    if (count == 0 || result->outcome != KILN_OUTCOME_OK) return none;
    if (place == 0) return (kiln_tuner_standing){time_of(base, count), 1};
    const kiln_msg_rival_result *rival = &result->rivals.item[place - 1];
    if (rival->outcome != KILN_OUTCOME_OK) return none;
    if (runs_of(&rival->samples_ns, rival->runs, own) != count) return none;
    /* Pair by pair: what slows the machine down for longer than a round slows both. */
    for (uint32_t i = 0; i < count; i++) gain[i] = own[i] > 0 ? base[i] / own[i] : 0;
    return (kiln_tuner_standing){time_of(own, count), kiln_reading_gain_low(gain, count)};
}

/* ---- Finals of a job ---- */

/* With fifteen pairs three odd ones do not move the interval across the median. */
const kiln_msg_policy kiln_tuner_final_policy = {.samples_min = 15,
                                                 .samples_max = 40,
                                                 .interval = 0.005,
                                                 .sample_ns = 1000000,
                                                 .total_ns = 150000000};
#define KERNEL_NS 20e6   /* of a finalist beside its runs: brought, loaded, its output compared */
#define DISTURBED 1.06   /* identical artefacts differ by less on a quiet machine: ./dev bench aa */
#define CHECKED_RUNS 4.0 /* before the first sample and after the last */

static bool was_measured(const kiln_tuner_job_task *task) { return task->done > task->failed; }

/* Of a board, for all that stand in it: each kernel is brought, warmed up, checked and sampled,
 * each sample behind an untimed run. */
static double cost_ns(const kiln_tuner_job_task *task) {
    const kiln_msg_policy *policy = &kiln_tuner_final_policy;
    double sample_ns = KILN_MAX((double)policy->sample_ns, task->best_ns);
    double samples_ns = KILN_MIN(policy->samples_max * sample_ns, (double)policy->total_ns);
    samples_ns = KILN_MAX(samples_ns, policy->samples_min * sample_ns);
    const double untimed_ns = samples_ns / sample_ns * task->best_ns;
    return (1 + KILN_TUNER_FINALISTS_FASTEST) *
           (samples_ns + untimed_ns + CHECKED_RUNS * task->best_ns + KERNEL_NS);
}

static uint32_t count_boards(const kiln_tuner_job *job) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->lease.count; i++) count += job->lease.data[i]->lease != 0;
    return KILN_MAX(count, 1u);
}

/* Of all finals in that state, on the boards that are there. */
static double costs_ns(const kiln_tuner_job *job, kiln_tuner_final_state state) {
    double sum = 0;
    for (uint32_t i = 0; i < job->task_count; i++)
        if (job->task[i].final == state && was_measured(&job->task[i]))
            sum += cost_ns(&job->task[i]);
    return sum / count_boards(job);
}

uint64_t kiln_tuner_finals_reserve_ns(const kiln_tuner_job *job) {
    double share = job->spec.seconds * 1e9 * KILN_TUNER_FINALS_SHARE;
    return (uint64_t)KILN_MIN(costs_ns(job, KILN_TUNER_FINAL_NONE), share);
}

/* What the network is faster by, should the task's final confirm its best. */
static double promise_ns(const kiln_tuner_job_task *task) {
    return KILN_MAX(task->given.weight, 1u) * KILN_MAX(task->given.default_ns - task->best_ns, 0);
}

/* The one to begin next, which has time; NULL: none. */
static kiln_tuner_job_task *next_final(const kiln_tuner_job *job) {
    uint64_t end_ns = kiln_tuner_job_end_ns(job), now_ns = job->tuner->now_ns;
    double left_ns = end_ns > now_ns ? (double)(end_ns - now_ns) : 0;
    kiln_tuner_job_task *best = NULL;
    left_ns -= costs_ns(job, KILN_TUNER_FINAL_OPEN);
    for (uint32_t i = 0; i < job->task_count; i++) {
        kiln_tuner_job_task *task = &job->task[i];
        bool due = task->final == KILN_TUNER_FINAL_NONE && was_measured(task);
        if (!due || cost_ns(task) > left_ns) continue;
        if (!best || promise_ns(task) > promise_ns(best)) best = task;
    }
    return best;
}

static uint32_t count_open(const kiln_tuner_job *job) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->task_count; i++)
        count += job->task[i].final == KILN_TUNER_FINAL_OPEN;
    return count;
}

/* No board has them and the time is up. */
static void drop_late(kiln_tuner_job *job) {
    if (job->tuner->now_ns < kiln_tuner_job_end_ns(job)) return;
    for (uint32_t i = job->trial.count; i-- > 0;)
        if (job->trial.data[i]->state < KILN_TRIAL_SENT)
            kiln_tuner_final_end(job, job->trial.data[i]);
}

/* There is no time for what remains. */
static void give_up_rest(kiln_tuner_job *job) {
    for (uint32_t i = 0; i < job->task_count; i++) {
        kiln_tuner_job_task *task = &job->task[i];
        if (task->final != KILN_TUNER_FINAL_NONE || !was_measured(task)) continue;
        task->final = KILN_TUNER_FINAL_DONE;
        task->rest = KILN_REST_NO_FINAL;
        task->changed = true;
    }
}

bool kiln_tuner_finals_advance(kiln_tuner_job *job) {
    uint32_t most = KILN_TUNER_BOARD_DEPTH * count_boards(job);
    drop_late(job);
    for (uint32_t open = count_open(job); open < most; open++) {
        kiln_tuner_job_task *task = next_final(job);
        if (!task) break;
        task->final = KILN_TUNER_FINAL_OPEN;
        kiln_tuner_act_on(job, KILN_TUNER_GATHER, NULL)->task = (uint32_t)(task - job->task);
    }
    if (count_open(job) > 0) return true;
    give_up_rest(job);
    return false;
}

void kiln_tuner_final_gathered(kiln_tuner_job *job, const kiln_tuner_event *event) {
    if (event->task >= job->task_count || job->state != KILN_TUNER_JOB_RUNNING) return;
    kiln_tuner_job_task *task = &job->task[event->task];
    if (task->final != KILN_TUNER_FINAL_OPEN) return;
    if (event->finalist_count < 2 || event->finalist_count > KILN_TUNER_ARTEFACTS_MAX) {
        task->final = KILN_TUNER_FINAL_DONE; /* the default has nobody to stand against */
        return;
    }
    kiln_tuner_trial *trial = kiln_alloc(sizeof *trial);
    trial->state = KILN_TRIAL_UPLOADING;
    trial->task = event->task;
    trial->index = KILN_TUNER_FINAL;
    trial->attempt = 1;
    trial->artefact_count = event->finalist_count;
    memcpy(trial->artefact, event->finalist, event->finalist_count * sizeof trial->artefact[0]);
    kiln_trial_identity(kiln_str_from(job->identity), task->given.key, trial->index, trial->id);
    kiln_vec_push(&job->trial, trial);
}

void kiln_tuner_final_end(kiln_tuner_job *job, kiln_tuner_trial *trial) {
    job->task[trial->task].final = KILN_TUNER_FINAL_DONE;
    kiln_tuner_trial_remove(job, trial);
}

/* All of it: the default took clearly longer than in the search. First finals go before second
 * ones. */
bool kiln_tuner_final_is_disturbed(const kiln_tuner_job *job, const kiln_tuner_trial *trial,
                                   const kiln_msg_trial_result *result) {
    const kiln_tuner_job_task *task = &job->task[trial->task];
    uint64_t end_ns = kiln_tuner_job_end_ns(job), now_ns = job->tuner->now_ns;
    double base_ns = kiln_tuner_standing_of(result, 0).median_ns;
    double others_ns = costs_ns(job, KILN_TUNER_FINAL_NONE) + costs_ns(job, KILN_TUNER_FINAL_OPEN);
    bool has_time = end_ns > now_ns && (double)(end_ns - now_ns) > others_ns + cost_ns(task);
    return has_time && task->given.default_ns > 0 && base_ns > DISTURBED * task->given.default_ns;
}

/* What the task is said to have reached from here on is what its final says. */
bool kiln_tuner_final_count(kiln_tuner_job *job, const kiln_tuner_trial *trial,
                            const kiln_msg_trial_result *result) {
    kiln_tuner_job_task *task = &job->task[trial->task];
    kiln_tuner_standing base = kiln_tuner_standing_of(result, 0);
    if (base.median_ns <= 0 || result->rivals.count != trial->artefact_count - 1) return false;
    task->given.default_ns = task->best_ns = base.median_ns;
    task->gain_low = 1;
    for (uint32_t place = 1; place < trial->artefact_count; place++) {
        kiln_tuner_standing standing = kiln_tuner_standing_of(result, place);
        if (standing.median_ns <= 0 || standing.gain_low < 1) continue;
        if (standing.median_ns >= task->best_ns) continue;
        task->best_ns = standing.median_ns;
        task->gain_low = standing.gain_low;
    }
    task->changed = true;
    return true;
}
