#include "tuner/finalist.h"

#include "base/check.h"
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

/* The times of one in a final; 0: it did not run right. */
static uint32_t times_of(const kiln_msg_trial_result *result, uint32_t place, double *out_ns) {
    const kiln_msg_rival_result *rival = place ? &result->rivals.item[place - 1] : NULL;
    if ((rival ? rival->outcome : result->outcome) != KILN_OUTCOME_OK) return 0;
    return rival ? runs_of(&rival->samples_ns, rival->runs, out_ns)
                 : runs_of(&result->samples_ns, result->runs, out_ns);
}

kiln_tuner_standing kiln_tuner_standing_beside(const kiln_msg_trial_result *result, uint32_t place,
                                               uint32_t other) {
    double base[SAMPLES_MAX], own[SAMPLES_MAX], gain[SAMPLES_MAX];
    uint32_t count = times_of(result, place, own);
    kiln_tuner_standing none = {0};
    if (count == 0 || times_of(result, other, base) != count) return none;
    if (place == other) return (kiln_tuner_standing){time_of(own, count), 1};
    /* Pair by pair: a disturbance that lasts longer than a round slows both. */
    for (uint32_t i = 0; i < count; i++) gain[i] = own[i] > 0 ? base[i] / own[i] : 0;
    return (kiln_tuner_standing){time_of(own, count), kiln_reading_gain_low(gain, count)};
}

kiln_tuner_standing kiln_tuner_standing_of(const kiln_msg_trial_result *result, uint32_t place) {
    return kiln_tuner_standing_beside(result, place, 0);
}

uint32_t kiln_tuner_winner(const kiln_msg_trial_result *result) {
    uint32_t winner = 0;
    double least_ns = kiln_tuner_standing_of(result, 0).median_ns;
    for (uint32_t place = 1; place <= result->rivals.count; place++) {
        kiln_tuner_standing standing = kiln_tuner_standing_of(result, place);
        if (standing.median_ns <= 0 || standing.gain_low < 1) continue;
        if (standing.median_ns >= least_ns) continue;
        least_ns = standing.median_ns;
        winner = place;
    }
    return winner;
}

/* ---- What is known to be best ---- */

/* Whether a candidate that was in no final looks faster than the judged best by more than `step`.
 */
static bool is_challenged(const kiln_tuner_finals *final, double step) {
    return final->judged_ns > 0 && final->alone_ns > 0 &&
           final->alone_ns < final->judged_ns * (1 - step);
}

static bool is_settled(const kiln_tuner_job_task *task) {
    return task->final.judged_ns > 0 && !is_challenged(&task->final, 0);
}

/* The judged gain is reported until another candidate looks clearly faster. */
static void tell_best(kiln_tuner_job_task *task) {
    kiln_tuner_finals *final = &task->final;
    const bool judged = final->judged_ns > 0 && !is_challenged(final, KILN_TUNER_CLEAR_STEP);
    final->best_ns = judged ? final->judged_ns : final->alone_ns;
    final->gain_low = judged ? final->judged_gain_low : 0;
    kiln_tuner_task_set_changed(task);
}

/* 0: there is none. */
static double least_of(double a_ns, double b_ns) {
    return a_ns <= 0 ? b_ns : b_ns <= 0 ? a_ns : KILN_MIN(a_ns, b_ns);
}

void kiln_tuner_best_take(kiln_tuner_job_task *task, double median_ns) {
    if (!(median_ns > 0)) return;
    task->final.alone_ns = least_of(task->final.alone_ns, median_ns);
    task->final.late_ns = least_of(task->final.late_ns, median_ns);
    tell_best(task);
}

/* ---- Finals of a job ---- */

/* With fifteen pairs, three outliers do not move the interval across the median. */
const kiln_msg_policy kiln_tuner_final_policy = {.samples_min = 15,
                                                 .samples_max = 40,
                                                 .interval = 0.005,
                                                 .sample_ns = 1000000,
                                                 .total_ns = 150000000};
const kiln_msg_policy kiln_tuner_judge_policy = {.samples_min = 15,
                                                 .samples_max = 20,
                                                 .interval = 0.005,
                                                 .sample_ns = 1000000,
                                                 .total_ns = 75000000};
#define KERNEL_NS                                                                                 \
    20e6               /* of a finalist beside its runs: transfer, load, comparison of its output \
                        */
#define DISTURBED 1.06 /* identical artefacts differ by less on a quiet machine: ./dev bench aa */
#define CHECKED_RUNS 4.0 /* before the first sample and after the last */

static bool was_measured(const kiln_tuner_job_task *task) { return task->done > task->failed; }

/* Time on the board for one finalist: transfer, warm-up, check and samples, each sample after an
 * untimed run. */
static double kernel_cost_ns(const kiln_tuner_job_task *task, const kiln_msg_policy *policy) {
    double sample_ns = KILN_MAX((double)policy->sample_ns, task->final.best_ns);
    double samples_ns = KILN_MIN(policy->samples_max * sample_ns, (double)policy->total_ns);
    samples_ns = KILN_MAX(samples_ns, policy->samples_min * sample_ns);
    const double untimed_ns = samples_ns / sample_ns * task->final.best_ns;
    return samples_ns + untimed_ns + CHECKED_RUNS * task->final.best_ns + KERNEL_NS;
}

/* Expected time of the final at the end of the task. */
static double cost_ns(const kiln_tuner_job_task *task) {
    if (is_settled(task)) return 0;
    return (1 + KILN_TUNER_FINALISTS_FASTEST) * kernel_cost_ns(task, &kiln_tuner_final_policy);
}

static uint32_t count_boards(const kiln_tuner_job *job) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->lease.count; i++) count += job->lease.data[i]->lease != 0;
    return KILN_MAX(count, 1u);
}

/* Expected time of all final measurements of tasks in that state, on the boards that the job has.
 */
static double costs_ns(const kiln_tuner_job *job, kiln_tuner_final_state state) {
    double sum = 0;
    for (uint32_t i = 0; i < job->task_count; i++)
        if (job->task[i].final.state == state && was_measured(&job->task[i]))
            sum += cost_ns(&job->task[i]);
    return sum / count_boards(job);
}

/* Expected time of all finals that have not begun. */
static double rest_costs_ns(const kiln_tuner_job *job) {
    return costs_ns(job, KILN_TUNER_FINAL_NONE) + costs_ns(job, KILN_TUNER_FINAL_EARLY);
}

uint64_t kiln_tuner_finals_reserve_ns(const kiln_tuner_job *job) {
    double share = job->spec.seconds * 1e9 * KILN_TUNER_FINALS_SHARE;
    return (uint64_t)KILN_MIN(rest_costs_ns(job), share);
}

/* Time saved per inference if the task's final confirms its best. */
static double promise_ns(const kiln_tuner_job_task *task) {
    return KILN_MAX(task->given.weight, 1u) *
           KILN_MAX(task->given.default_ns - task->final.best_ns, 0);
}

/* The task whose final begins next, if there is time for it; NULL: none. */
static kiln_tuner_job_task *next_final(const kiln_tuner_job *job) {
    uint64_t end_ns = kiln_tuner_job_end_ns(job), now_ns = job->tuner->effects.now_ns;
    double left_ns = end_ns > now_ns ? (double)(end_ns - now_ns) : 0;
    kiln_tuner_job_task *best = NULL;
    left_ns -= costs_ns(job, KILN_TUNER_FINAL_OPEN);
    for (uint32_t i = 0; i < job->task_count; i++) {
        kiln_tuner_job_task *task = &job->task[i];
        bool due = task->final.state == KILN_TUNER_FINAL_NONE && was_measured(task);
        if (!due || left_ns <= 0 || cost_ns(task) > left_ns) continue;
        if (!best || promise_ns(task) > promise_ns(best)) best = task;
    }
    return best;
}

static uint32_t count_open(const kiln_tuner_job *job) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->task_count; i++)
        count += job->task[i].final.state == KILN_TUNER_FINAL_OPEN ||
                 job->task[i].final.state == KILN_TUNER_FINAL_EARLY;
    return count;
}

/* Ends finals that no board has when the time is up. */
static void drop_late(kiln_tuner_job *job) {
    if (job->tuner->effects.now_ns < kiln_tuner_job_end_ns(job)) return;
    for (uint32_t i = job->trial.count; i-- > 0;)
        if (job->trial.data[i]->state < KILN_TRIAL_SENT)
            kiln_tuner_final_end(job, job->trial.data[i]);
}

void kiln_tuner_finals_give_up(kiln_tuner_job *job) {
    for (uint32_t i = 0; i < job->task_count; i++) {
        kiln_tuner_job_task *task = &job->task[i];
        if (task->final.state == KILN_TUNER_FINAL_DONE || !was_measured(task)) continue;
        task->final.state = KILN_TUNER_FINAL_DONE;
        if (is_settled(task)) continue;
        kiln_tuner_task_set_rest(task, KILN_REST_NO_FINAL);
    }
}

/* Asks the shell for the candidates. */
static void begin_final(kiln_tuner_job *job, kiln_tuner_job_task *task, bool early) {
    task->final.state = early ? KILN_TUNER_FINAL_EARLY : KILN_TUNER_FINAL_OPEN;
    task->final.judged_done = task->done;
    task->final.late_ns = 0;
    kiln_tuner_action *action = kiln_tuner_act_on(job, KILN_TUNER_GATHER, NULL);
    action->task = (uint32_t)(task - job->task);
    action->early = early;
}

bool kiln_tuner_finals_advance(kiln_tuner_job *job) {
    uint32_t most = KILN_TUNER_BOARD_DEPTH * count_boards(job);
    drop_late(job);
    for (uint32_t open = count_open(job); open < most; open++) {
        kiln_tuner_job_task *task = next_final(job);
        if (!task) break;
        begin_final(job, task, false);
    }
    if (count_open(job) > 0) return true;
    kiln_tuner_finals_give_up(job);
    return false;
}

/* ---- Judgements ---- */

void kiln_tuner_time_take(kiln_tuner_job *job, const kiln_tuner_trial *trial,
                          const kiln_msg_phases *spent_ns) {
    double *sum = &job->spent.trials_ns;
    if (trial->index == KILN_TUNER_FINAL &&
        job->task[trial->task].final.state == KILN_TUNER_FINAL_OPEN)
        return; /* the finals at the end have a time budget of their own */
    if (trial->index == KILN_TUNER_FINAL) sum = &job->spent.judging_ns;
    *sum += (double)spent_ns->load + (double)spent_ns->warm + (double)spent_ns->run +
            (double)spent_ns->check;
}

static bool may_spend(const kiln_tuner_job *job, const kiln_tuner_job_task *task,
                      uint32_t kernels) {
    double cost_ns = kernels * kernel_cost_ns(task, &kiln_tuner_judge_policy);
    return job->spent.judging_ns + cost_ns <= KILN_TUNER_JUDGE_SHARE * job->spent.trials_ns;
}

/* Whether a judgement could change what the best is. */
static bool is_doubtful(const kiln_tuner_job_task *task) {
    if (task->given.default_ns <= 0 || task->error) return false;
    if (task->final.judged_ns > 0) return is_challenged(&task->final, KILN_TUNER_JUDGE_STEP);
    return task->final.alone_ns > 0 && task->final.alone_ns < task->given.default_ns;
}

static bool is_its_moment(const kiln_tuner_job *job, const kiln_tuner_job_task *task) {
    const uint32_t since = task->done - task->final.judged_done;
    const uint32_t part = kiln_tuner_job_expects(job, task) / KILN_TUNER_JUDGE_PARTS;
    if (task->closed || task->rest != KILN_REST_NONE) return since > 0;
    return since >= KILN_MAX(part, KILN_TUNER_JUDGE_TRIALS);
}

void kiln_tuner_judge(kiln_tuner_job *job) {
    /* When no trial is left, finals follow. Times of an emulator say too little. */
    kiln_tuner_job_task *best = NULL;
    if (job->searched || kiln_tuner_job_proposed(job) >= job->budget || job->emulated ||
        count_open(job))
        return;
    for (uint32_t i = 0; i < job->task_count; i++) {
        kiln_tuner_job_task *task = &job->task[i];
        bool due = is_doubtful(task) && is_its_moment(job, task);
        if (!due || !may_spend(job, task, KILN_TUNER_JUDGED_LEAST)) continue;
        if (!best || promise_ns(task) > promise_ns(best)) best = task;
    }
    if (best) begin_final(job, best, true);
}

/* ---- One final ---- */

/* Time of the fastest candidate that may still replace the judged best; none after the final at the
 * end, which decides. */
static double left_alone_ns(const kiln_tuner_job_task *task) {
    return task->final.state == KILN_TUNER_FINAL_EARLY
               ? least_of(task->final.late_ns, task->final.rest_ns)
               : 0;
}

/* Whether there are too few candidates, or too little time is left. */
static bool cannot_begin(const kiln_tuner_job *job, const kiln_tuner_job_task *task,
                         uint32_t finalists) {
    if (finalists < KILN_TUNER_JUDGED_LEAST || finalists > KILN_TUNER_ARTEFACTS_MAX) return true;
    return task->final.state == KILN_TUNER_FINAL_EARLY &&
           (job->searched || !may_spend(job, task, finalists));
}

/* There is no other candidate: those that looked faster were judged already, or came after GATHER.
 */
static void judgement_holds(kiln_tuner_job_task *task) {
    if (task->final.judged_ns <= 0) return;
    task->final.alone_ns = left_alone_ns(task);
    tell_best(task);
}

static void end_final(kiln_tuner_job_task *task) {
    task->final.state =
        task->final.state == KILN_TUNER_FINAL_EARLY ? KILN_TUNER_FINAL_NONE : KILN_TUNER_FINAL_DONE;
}

/* From the artefacts that are measured: each final of a task has its own identity. */
static void identify(const kiln_tuner_job *job, const kiln_tuner_event *event,
                     char out_id[KILN_HASH128_TEXT]) {
    char digest[KILN_DIGEST_TEXT];
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "final 2\n%s\n%.*s\n", job->identity,
                       KILN_STR_ARG(job->task[event->task].given.key));
    for (uint32_t i = 0; i < event->finalist_count; i++) {
        kiln_digest_print(&event->finalist[i].digest, digest);
        kiln_strbuf_printf(&text, "%s\n", digest);
    }
    kiln_hash128_print(kiln_hash128_of(text.data, text.size), out_id);
    kiln_strbuf_deinit(&text);
}

void kiln_tuner_final_gathered(kiln_tuner_job *job, const kiln_tuner_event *event) {
    if (event->task >= job->task_count || job->state != KILN_TUNER_JOB_RUNNING) return;
    kiln_tuner_job_task *task = &job->task[event->task];
    if (task->final.state != KILN_TUNER_FINAL_OPEN && task->final.state != KILN_TUNER_FINAL_EARLY)
        return;
    task->final.rest_ns = event->alone_ns;
    if (cannot_begin(job, task, event->finalist_count)) {
        if (event->finalist_count < KILN_TUNER_JUDGED_LEAST) judgement_holds(task);
        end_final(task);
        return;
    }
    char id[KILN_HASH128_TEXT];
    identify(job, event, id);
    kiln_tuner_trial *trial = kiln_tuner_trial_add(job, event->task, KILN_TUNER_FINAL, id);
    kiln_tuner_trial_set_artefacts(trial, event->finalist, event->finalist_count);
}

void kiln_tuner_final_end(kiln_tuner_job *job, kiln_tuner_trial *trial) {
    end_final(&job->task[trial->task]);
    kiln_tuner_trial_remove(job, trial);
}

/* The board says so, or everything is slow: the default took clearly longer than during the search.
 * First finals go before repeated ones. */
bool kiln_tuner_final_is_disturbed(const kiln_tuner_job *job, const kiln_tuner_trial *trial,
                                   const kiln_msg_trial_result *result) {
    const kiln_tuner_job_task *task = &job->task[trial->task];
    uint64_t end_ns = kiln_tuner_job_end_ns(job), now_ns = job->tuner->effects.now_ns;
    double base_ns = kiln_tuner_standing_of(result, 0).median_ns;
    double others_ns = rest_costs_ns(job) + costs_ns(job, KILN_TUNER_FINAL_OPEN);
    bool has_time = end_ns > now_ns && (double)(end_ns - now_ns) > others_ns + cost_ns(task);
    if (task->final.state == KILN_TUNER_FINAL_EARLY) return false; /* another one comes anyway */
    return result->out_of_band ||
           (has_time && task->given.default_ns > 0 && base_ns > DISTURBED * task->given.default_ns);
}

static bool is_spoilt_judgement(const kiln_tuner_job_task *task,
                                const kiln_msg_trial_result *result) {
    return task->final.state == KILN_TUNER_FINAL_EARLY && result->out_of_band;
}

/* From here on the task's best is what its final says. */
bool kiln_tuner_final_count(kiln_tuner_job *job, const kiln_tuner_trial *trial,
                            const kiln_msg_trial_result *result) {
    kiln_tuner_job_task *task = &job->task[trial->task];
    if (result->rivals.count != trial->artefact_count - 1) return false;
    kiln_tuner_standing base = kiln_tuner_standing_of(result, 0);
    if (base.median_ns <= 0 || is_spoilt_judgement(task, result)) return false;
    kiln_tuner_standing best = kiln_tuner_standing_of(result, kiln_tuner_winner(result));
    task->final.judged_ns = best.median_ns;
    task->final.judged_gain_low = best.gain_low;
    task->final.alone_ns = left_alone_ns(task);
    kiln_tuner_task_judged(task, base.median_ns, best.median_ns);
    tell_best(task);
    return true;
}

void kiln_tuner_finals_check(const kiln_tuner_job *job) {
    for (uint32_t i = 0; i < job->task_count && job->state == KILN_TUNER_JOB_RUNNING; i++) {
        const kiln_tuner_finals *final = &job->task[i].final;
        const bool open =
            final->state == KILN_TUNER_FINAL_OPEN || final->state == KILN_TUNER_FINAL_EARLY;
        KILN_CHECK(final->judged_done <= job->task[i].done);
        for (uint32_t k = 0; k < job->trial.count && !open; k++)
            KILN_CHECK(job->trial.data[k]->task != i ||
                       job->trial.data[k]->index != KILN_TUNER_FINAL);
    }
}
