/* A tuner's shell, played: a searcher that checks when it is asked, builders, and a database whose
 * commits take time and may be lost by a kill. Where tuners share it, each claims a job before it
 * reads what is stored of it, as tuner/claims.c does. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/stats.h"
#include "tests/sim/forged.h"
#include "tuner/tuner.h"

#define CLAIM_NS (10 * SIM_S) /* how long a claim holds that is not renewed */
#define CLAIM_ASK_NS (250 * SIM_MS)
#define CLAIM_RENEW_NS KILN_LINK_HEARTBEAT_NS
#define OUTSIDER UINT32_MAX /* a tuner of the same records, of another tracker's */

#define JOB_TEXT (2 * KILN_HASH128_TEXT) /* identity of a job, and its run */

typedef struct db_record {
    char job[JOB_TEXT];
    uint32_t tuner; /* that measured it */
    uint32_t task, index;
    kiln_outcome outcome;
    double median_ns, least_ns;
    bool from_board; /* which waits for TRIAL_ACK */
    uint32_t attempt;
    char trial[KILN_MESSAGES_TEXT + 1];
} db_record;

typedef struct claim {
    char job[JOB_TEXT];
    uint32_t tuner;
    uint64_t since_ns, until_ns; /* by the database's clock */
} claim;

/* Of one tuner, or of all. */
struct sim_records {
    KILN_VEC(db_record) row;
    KILN_VEC(claim) claim;
    uint64_t full_until_ns;
    sim_ledger *ledger; /* NULL: nobody forges here */
};

sim_records *sim_records_create(void) { return kiln_alloc(sizeof(sim_records)); }

void sim_records_destroy(sim_records *records) {
    kiln_vec_deinit(&records->row);
    kiln_vec_deinit(&records->claim);
    sim_ledger_destroy(records->ledger);
    kiln_free(records);
}

/* What the shell holds of a job while it runs. */
typedef struct shell_job {
    uint64_t handle;
    char id[JOB_TEXT];
    kiln_msg_job_spec spec; /* views not used */
    uint32_t proposed[8], observed[8], space[8];
    uint64_t history; /* hash of all proposals and observations so far, with their results */
    bool claimed;     /* it has, or had, the claim */
    uint32_t read;    /* so many records were there when it read what is stored */
} shell_job;

typedef struct upload {
    kiln_digest digest;
    uint64_t number, begun_ns;
} upload;

typedef struct tuner_state {
    kiln_tuner *machine;
    KILN_VEC(shell_job) jobs;
    KILN_VEC(upload) uploads;
    KILN_VEC(db_record) pending; /* with handles below */
    KILN_VEC(uint64_t) pending_job;
    uint32_t durable; /* so many of `pending` are in the database, and not yet told of */
    uint64_t last_upload;
    bool commit_due;
    kiln_map sent;    /* trial -> lease it was last sent under */
    uint64_t acks;    /* TRIAL_ACKs sent */
    uint64_t gone_ns; /* since when it does not reach the tracker; 0: it does */
    /* Disk. */
    sim_records *own, *db; /* db: its own, or what all share */
    kiln_map decided;      /* job and history -> what was proposed next: for the checks only */
} tuner_state;

void *sim_tuner_state(void) {
    tuner_state *s = kiln_alloc(sizeof *s);
    kiln_map_init(&s->sent);
    kiln_map_init(&s->decided);
    s->db = s->own = sim_records_create();
    return s;
}

void sim_tuner_free(void *memory) {
    tuner_state *s = memory;
    kiln_vec_deinit(&s->jobs);
    kiln_vec_deinit(&s->uploads);
    kiln_vec_deinit(&s->pending);
    kiln_vec_deinit(&s->pending_job);
    sim_records_destroy(s->own);
    kiln_map_deinit(&s->sent);
    kiln_map_deinit(&s->decided);
    kiln_free(s);
}

static void run_step(sim_node *node, const kiln_tuner_event *event);

static shell_job *find_job(tuner_state *s, uint64_t handle) {
    for (uint32_t i = 0; i < s->jobs.count; i++)
        if (s->jobs.data[i].handle == handle) return &s->jobs.data[i];
    return NULL;
}

/* ---- Claims ---- */

static claim *find_claim(sim_records *db, const char *job) {
    for (uint32_t i = 0; i < db->claim.count; i++)
        if (strcmp(db->claim.data[i].job, job) == 0) return &db->claim.data[i];
    return NULL;
}

/* Takes or renews it; false: another tuner has it. A tuner's own database grants every claim. */
static bool take_claim(sim_node *node, const char *job) {
    tuner_state *s = node->state;
    claim *held = find_claim(s->db, job);
    uint64_t now_ns = node->world->now_ns;
    if (held && held->tuner != node->index && held->until_ns > now_ns) return false;
    if (!held) {
        kiln_vec_push(&s->db->claim, (claim){0});
        held = &kiln_vec_last(&s->db->claim);
        memcpy(held->job, job, strlen(job) + 1);
    }
    if (held->tuner != node->index) held->since_ns = now_ns;
    held->tuner = node->index;
    held->until_ns = now_ns + CLAIM_NS;
    return true;
}

static void leave_claim(sim_node *node, const char *job) {
    tuner_state *s = node->state;
    claim *held = find_claim(s->db, job);
    if (held && held->tuner == node->index) held->until_ns = 0;
}

static bool another_claims(const sim_node *node, const char *job) {
    const tuner_state *s = node->state;
    const claim *held = find_claim(s->db, job);
    return held && held->tuner != node->index && held->until_ns > node->world->now_ns;
}

/* A claim does not outlive what its holder hears from the tracker. */
static void check_claim(const sim_node *node, const char *job) {
    const tuner_state *s = node->state;
    sim_world *world = node->world;
    const claim *held = find_claim(s->db, job);
    for (uint32_t i = 0; held && i < world->node.count; i++) {
        const sim_node *other = world->node.data[i];
        if (other->kind != SIM_TUNER || other->index != held->tuner) continue;
        uint64_t gone_ns = ((const tuner_state *)other->state)->gone_ns;
        if (gone_ns && world->now_ns > gone_ns + CLAIM_NS + SIM_S)
            sim_fail(world, "tuner %u claims a job and is gone", other->index);
    }
}

/* Who does not hear from the tracker lets its claims run out; who lost one stops. */
static bool keep_claim(sim_node *node, const shell_job *job) {
    if (!node->conn || !node->conn->shaken || take_claim(node, job->id)) return true;
    sim_note(node->world, "tuner %u lost its claim", node->index);
    run_step(node, &(kiln_tuner_event){.kind = KILN_TUNER_CLAIM_LOST, .job = job->handle});
    return false;
}

static void renew_claim(sim_node *node, uint64_t handle, uint64_t b) {
    (void)b;
    const shell_job *job = find_job(node->state, handle);
    if (job && keep_claim(node, job))
        sim_at(node->world, CLAIM_RENEW_NS, node, renew_claim, handle, 0);
}

/* It may have been away for longer than its claims last. */
static void keep_claims(sim_node *node) {
    const tuner_state *s = node->state;
    for (uint32_t i = s->jobs.count; i-- > 0;)
        if (s->jobs.data[i].claimed) keep_claim(node, &s->jobs.data[i]);
}

void sim_tuner_lose_claim(sim_node *node, uint64_t until_ns) {
    const tuner_state *s = node->state;
    if (s->jobs.count == 0) return;
    claim *held = find_claim(s->db, s->jobs.data[0].id);
    if (!held) return;
    sim_note(node->world, "an outsider claims a job until %llu", (unsigned long long)until_ns);
    *held = (claim){.tuner = OUTSIDER, .since_ns = node->world->now_ns, .until_ns = until_ns};
    memcpy(held->job, s->jobs.data[0].id, sizeof held->job);
}

/* ---- Ledger ---- */

/* In the ledger. */
static double time_of(const db_record *record) { return KILN_MAX(record->median_ns, 1000.0); }

/* Finals come first. */
static void check_ledger(sim_node *node) {
    const tuner_state *s = node->state;
    double best_ns[SIM_TASKS_MAX] = {0};
    bool final[SIM_TASKS_MAX] = {false};
    if (!s->db->ledger) return;
    for (uint32_t i = 0; i < s->db->row.count; i++) {
        const db_record *r = &s->db->row.data[i];
        const bool is_final = r->index == KILN_TUNER_FINAL;
        double *best = &best_ns[r->task];
        if (r->outcome != KILN_OUTCOME_OK || is_final < final[r->task]) continue;
        *best = *best == 0 || is_final > final[r->task] ? time_of(r) : KILN_MIN(*best, time_of(r));
        final[r->task] = is_final;
    }
    sim_ledger_check(s->db->ledger, node->world, s->db->row.count, best_ns);
}

/* ---- PREPARE ---- */

static kiln_digest digest_of(const char *text, uint64_t number) {
    kiln_strbuf line = {0};
    kiln_digest digest;
    kiln_strbuf_printf(&line, "%s %llu", text, (unsigned long long)number);
    kiln_digest_of(line.data, line.size, &digest);
    kiln_strbuf_deinit(&line);
    return digest;
}

static uint32_t find_stored(sim_node *node, const char *id, kiln_tuner_result **out_results) {
    tuner_state *s = node->state;
    *out_results = KILN_ARENA_ARRAY(&node->world->scratch, kiln_tuner_result, s->db->row.count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->db->row.count; i++) {
        const db_record *r = &s->db->row.data[i];
        if (strcmp(r->job, id) != 0 || r->index == KILN_TUNER_FINAL) continue;
        (*out_results)[count++] = (kiln_tuner_result){.task = r->task,
                                                      .index = r->index,
                                                      .outcome = r->outcome,
                                                      .median_ns = r->median_ns,
                                                      .least_ns = r->least_ns};
    }
    if (s->db->ledger && sim_ledger_measured(s->db->ledger, id) != count)
        sim_fail(node->world, "forged records stand for trials of a job");
    return count;
}

static void prepared(sim_node *node, uint64_t handle, uint64_t b) {
    (void)b;
    tuner_state *s = node->state;
    shell_job *job = find_job(s, handle);
    if (!job) return;
    kiln_tuner_event event = {.kind = KILN_TUNER_PREPARED, .job = handle};
    kiln_tuner_task *tasks = KILN_ARENA_ARRAY(&node->world->scratch, kiln_tuner_task, 4);
    event.task_count = node->world->options.tasks;
    for (uint32_t i = 0; i < event.task_count; i++) {
        tasks[i] = (kiln_tuner_task){.key = kiln_str_from(sim_task_key[i]),
                                     .op = KILN_STR("conv2d"),
                                     .weight = 1,
                                     .flops = 1e6,
                                     .least_flops = 1e6};
        /* The third task has a small space: what it yields depends on nothing but the job. */
        job->space[i] = i == 2 ? 5 : UINT32_MAX;
    }
    event.task_list = tasks;
    kiln_tuner_result *stored = NULL;
    if (s->db->ledger) sim_ledger_import(s->db->ledger, node->world, job->id);
    check_ledger(node);
    event.stored_count = find_stored(node, job->id, &stored);
    job->read = s->db->row.count;
    event.stored = stored;
    run_step(node, &event);
}

/* The rest waits for the claim. */
static void ask_for_claim(sim_node *node, uint64_t handle, uint64_t b) {
    shell_job *job = find_job(node->state, handle);
    if (!job) return;
    bool is_open = node->conn && node->conn->shaken;
    if (!is_open || !take_claim(node, job->id)) {
        if (is_open) check_claim(node, job->id);
        sim_at(node->world, CLAIM_ASK_NS, node, ask_for_claim, handle, b);
        return;
    }
    job->claimed = !another_claims(node, job->id);
    sim_at(node->world, CLAIM_RENEW_NS, node, renew_claim, handle, 0);
    prepared(node, handle, 0);
}

static void begin_prepare(sim_node *node, const kiln_tuner_action *action) {
    tuner_state *s = node->state;
    shell_job job = {.handle = action->job, .spec = *action->spec};
    KILN_CHECK(strlen(action->text) < sizeof job.id);
    memcpy(job.id, action->text, strlen(action->text) + 1);
    kiln_vec_push(&s->jobs, job);
    sim_at(node->world, sim_between(node->world, 10 * SIM_MS, 2 * SIM_S), node, ask_for_claim,
           action->job, 0);
}

/* ---- Search ---- */

static void proposed(sim_node *node, uint64_t handle, uint64_t task_and_index) {
    tuner_state *s = node->state;
    shell_job *job = find_job(s, handle);
    if (!job) return;
    uint32_t task = (uint32_t)(task_and_index >> 32), index = (uint32_t)task_and_index;
    run_step(node,
             &(kiln_tuner_event){.kind = KILN_TUNER_PROPOSED,
                                 .job = handle,
                                 .task = task,
                                 .index = index,
                                 .trace = {(const char *)&task_and_index, sizeof task_and_index},
                                 .exhausted = index >= job->space[task]});
}

static void remember(shell_job *job, char what, const kiln_tuner_action *action) {
    uint64_t line[] = {job->history,  (uint64_t)what,  action->task,
                       action->index, action->outcome, (uint64_t)action->least_ns};
    job->history = kiln_hash64(line, sizeof line, 0);
}

/* The same history of a job leads to the same next proposal, also after a kill: what is asked of
 * the searchers is a function of the seed and the results. */
static void check_decision(sim_node *node, const shell_job *job, const kiln_tuner_action *action) {
    tuner_state *s = node->state;
    uint64_t decision = (uint64_t)action->task << 32 | action->index, before = 0;
    kiln_strbuf key = {0};
    kiln_strbuf_printf(&key, "%s %llx", job->id, (unsigned long long)job->history);
    if (kiln_map_find(&s->decided, kiln_strbuf_view(&key), &before) && before != decision)
        sim_fail(node->world,
                 "with the same results, trial %u of task %u is proposed where it was %u of %u",
                 action->index, action->task, (uint32_t)before, (uint32_t)(before >> 32));
    kiln_map_put(&s->decided, kiln_strbuf_view(&key), decision);
    kiln_strbuf_deinit(&key);
}

static void begin_propose(sim_node *node, const kiln_tuner_action *action) {
    tuner_state *s = node->state;
    shell_job *job = find_job(s, action->job);
    uint32_t told = job->observed[action->task];
    if (job->proposed[action->task] != action->index)
        sim_fail(node->world, "proposal %u of a task is asked for after %u", action->index,
                 job->proposed[action->task]);
    /* Past the end of the space nothing is observed any more. */
    if (action->index <= job->space[action->task] &&
        told + kiln_tuner_lag(action->index) <= action->index)
        sim_fail(node->world, "proposal %u is asked for after %u results", action->index, told);
    check_decision(node, job, action);
    remember(job, 'p', action);
    job->proposed[action->task] = action->index + 1;
    sim_at(node->world, sim_between(node->world, 0, SIM_MS), node, proposed, action->job,
           (uint64_t)action->task << 32 | action->index);
}

static void observe(sim_node *node, const kiln_tuner_action *action) {
    tuner_state *s = node->state;
    shell_job *job = find_job(s, action->job);
    /* What no board had when the time was up is left out. */
    bool gap = job->spec.seconds > 0 && job->observed[action->task] < action->index;
    if (job->observed[action->task] != action->index && !gap)
        sim_fail(node->world, "result %u of a task is told after %u", action->index,
                 job->observed[action->task]);
    remember(job, 'o', action);
    job->observed[action->task] = action->index + 1;
}

/* ---- REFERENCE, BUILD, UPLOAD ---- */

static void referenced(sim_node *node, uint64_t handle, uint64_t task) {
    run_step(node, &(kiln_tuner_event){.kind = KILN_TUNER_REFERENCED,
                                       .job = handle,
                                       .task = (uint32_t)task,
                                       .artefact = {digest_of("reference", task), 64},
                                       .program = {digest_of("program", task), 32}});
}

static void built(sim_node *node, uint64_t handle, uint64_t task_and_index) {
    sim_world *world = node->world;
    kiln_tuner_event event = {
        .kind = KILN_TUNER_BUILT,
        .job = handle,
        .task = (uint32_t)(task_and_index >> 32),
        .index = (uint32_t)task_and_index,
        .outcome = sim_chance(world, world->options.crash_permille) ? KILN_OUTCOME_BUILD_ERROR
                                                                    : KILN_OUTCOME_OK,
        .text = "",
    };
    event.artefact = (kiln_msg_blob_ref){digest_of("artefact", task_and_index), 4096};
    run_step(node, &event);
}

static void uploaded(sim_node *node, uint64_t number, uint64_t failed) {
    tuner_state *s = node->state;
    for (uint32_t i = 0; i < s->uploads.count; i++) {
        if (s->uploads.data[i].number != number) continue;
        kiln_digest digest = s->uploads.data[i].digest;
        if (!failed && node->conn && node->conn->silent)
            return; /* ends when the connection is given up */
        sim_world *world = node->world;
        uint64_t moved = sim_blob_moved(world, world->now_ns - s->uploads.data[i].begun_ns);
        s->uploads.data[i] = kiln_vec_pop(&s->uploads);
        if (!failed)
            sim_store_put(world, &digest);
        else if (moved)
            sim_store_bring(world, &digest, sim_store_held(world, &digest) + moved);
        run_step(node, &(kiln_tuner_event){.kind = KILN_TUNER_UPLOADED,
                                           .digest = digest,
                                           .code = failed ? KILN_UNAVAILABLE : KILN_OK,
                                           .failure = failed ? "the connection closed" : NULL});
        return;
    }
}

static void begin_upload(sim_node *node, const kiln_digest *digest) {
    tuner_state *s = node->state;
    sim_world *world = node->world;
    upload u = {.digest = *digest, .number = ++s->last_upload, .begun_ns = world->now_ns};
    kiln_vec_push(&s->uploads, u);
    uint64_t time_ns = sim_between(world, SIM_MS, 50 * SIM_MS);
    if (node->conn && !sim_store_has(world, digest))
        time_ns += sim_blob_time_ns(world, digest, sim_store_held(world, digest));
    sim_at(world, time_ns, node, uploaded, u.number, !node->conn);
}

static void fail_uploads(sim_node *node) {
    tuner_state *s = node->state;
    while (s->uploads.count) uploaded(node, s->uploads.data[0].number, 1);
}

/* ---- RECORD, GATHER ---- */

static const uint32_t nowhere = UINT32_MAX;

/* Finals of a task are told apart by what stood in them. */
static bool is_same_trial(const db_record *a, const db_record *b) {
    return a->task == b->task && a->index == b->index && strcmp(a->job, b->job) == 0 &&
           (a->index != KILN_TUNER_FINAL || strcmp(a->trial, b->trial) == 0);
}

/* Where a record of the same trial is. */
static uint32_t find_record(const tuner_state *s, const db_record *record) {
    for (uint32_t i = s->db->row.count; i-- > 0;) {
        const db_record *r = &s->db->row.data[i];
        if (is_same_trial(r, record)) return i;
    }
    return nowhere;
}

/* The record of a trial is stored once. */
static void store(sim_node *node, const db_record *record) {
    tuner_state *s = node->state;
    if (find_record(s, record) != nowhere) return;
    kiln_vec_push(&s->db->row, *record);
    if (s->db->ledger)
        sim_ledger_store(s->db->ledger, node->world,
                         &(sim_entry){.job = record->job,
                                      .trial = record->trial,
                                      .task = record->task,
                                      .index = record->index,
                                      .attempt = record->attempt,
                                      .outcome = record->outcome,
                                      .median_ns = time_of(record)});
}

static uint32_t count_finals(const tuner_state *s, const shell_job *job, uint32_t task) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->db->row.count; i++) {
        const db_record *r = &s->db->row.data[i];
        count += r->task == task && r->index == KILN_TUNER_FINAL && strcmp(r->job, job->id) == 0;
    }
    return count;
}

/* Others stand in each final of a task. At its end nobody, where a judgement still holds. */
static void gathered(sim_node *node, uint64_t handle, uint64_t task_and_early) {
    tuner_state *s = node->state;
    shell_job *job = find_job(s, handle);
    if (!job) return;
    const uint32_t task = (uint32_t)(task_and_early >> 1);
    const bool early = task_and_early & 1;
    const uint64_t before = count_finals(s, job, task);
    kiln_msg_blob_ref finalist[1 + KILN_TUNER_FINALISTS];
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(finalist); i++)
        finalist[i] = (kiln_msg_blob_ref){
            digest_of("artefact", (uint64_t)task << 32 | (i ? before << 8 | i : 0)), 4096};
    const bool over = !early && before > 0 && sim_chance(node->world, 500);
    const uint32_t count = early ? KILN_TUNER_JUDGED_LEAST : KILN_ARRAY_COUNT(finalist);
    run_step(node, &(kiln_tuner_event){.kind = KILN_TUNER_GATHERED,
                                       .job = handle,
                                       .task = task,
                                       .finalist = finalist,
                                       .finalist_count = over ? 0 : count});
}

/* Tells the machine that a record is stored; its board must hear of it at once. */
static void recorded(sim_node *node, const db_record *record, uint64_t handle, bool full) {
    tuner_state *s = node->state;
    uint64_t acks = s->acks;
    bool due =
        !full && record->from_board && find_job(s, handle) && node->conn && node->conn->shaken;
    run_step(node, &(kiln_tuner_event){.kind = KILN_TUNER_RECORDED,
                                       .job = handle,
                                       .task = record->task,
                                       .index = record->index,
                                       .failure = full ? "the disk is full" : NULL});
    if (due && s->acks == acks) sim_fail(node->world, "a stored result is not acknowledged");
}

/* How long a group is open, and on its way to the disk. */
static uint64_t commit_ns(sim_node *node) {
    sim_world *world = node->world;
    uint64_t time_ns = sim_between(world, SIM_MS, 20 * SIM_MS);
    if (world->now_ns < world->slow_disk_until_ns) time_ns += sim_between(world, 0, 8 * SIM_S);
    return time_ns;
}

static void committed(sim_node *node, uint64_t a, uint64_t b) {
    (void)a, (void)b;
    tuner_state *s = node->state;
    s->commit_due = false;
    uint32_t count = s->pending.count;
    bool full = node->world->now_ns < s->db->full_until_ns;
    for (uint32_t i = 0; i < count && !full; i++) store(node, &s->pending.data[i]);
    s->durable = full ? 0 : count;
    for (uint32_t i = 0; i < count; i++) {
        db_record record = s->pending.data[i];
        recorded(node, &record, s->pending_job.data[i], full);
    }
    memmove(s->pending.data, s->pending.data + count,
            (s->pending.count - count) * sizeof s->pending.data[0]);
    memmove(s->pending_job.data, s->pending_job.data + count,
            (s->pending_job.count - count) * sizeof(uint64_t));
    s->pending.count -= count;
    s->pending_job.count -= count;
    s->durable = 0;
    if (s->pending.count && !s->commit_due) {
        s->commit_due = true;
        sim_at(node->world, commit_ns(node), node, committed, 0, 0);
    }
}

/* As the database derives it. */
static kiln_stats stats_of(const kiln_msg_trial_result *result) {
    double sample[64];
    uint32_t count = 0;
    while (result && result->outcome == KILN_OUTCOME_OK && count < result->samples_ns.count &&
           count < KILN_ARRAY_COUNT(sample)) {
        sample[count] = (double)result->samples_ns.item[count] / (result->runs ? result->runs : 1);
        count++;
    }
    return count ? kiln_stats_of(sample, count) : (kiln_stats){0};
}

static void begin_record(sim_node *node, const kiln_tuner_action *action) {
    tuner_state *s = node->state;
    sim_world *world = node->world;
    shell_job *job = find_job(s, action->job);
    kiln_stats stats = stats_of(action->result);
    db_record record = {.task = action->task,
                        .index = action->index,
                        .outcome = action->outcome,
                        .median_ns = stats.median,
                        .least_ns = stats.minimum,
                        .from_board = action->result,
                        .tuner = node->index};
    memcpy(record.job, job->id, sizeof record.job);
    record.attempt = action->result ? action->result->attempt : 0;
    memcpy(record.trial, action->trial, strlen(action->trial) + 1);
    if (action->result && kiln_str_is(action->result->text, "a lie"))
        sim_fail(world, "a lie is recorded");
    /* One that lost its claim may go on for a beat: what both measure is stored once. */
    if (action->result && another_claims(node, job->id) &&
        (!job->claimed || find_claim(s->db, job->id)->since_ns + CLAIM_RENEW_NS < world->now_ns))
        sim_fail(world, "tuner %u measures what another one claimed", node->index);
    /* Another that had the job before may store late what it measured, after we read. */
    uint32_t before = find_record(s, &record);
    bool twice =
        before != nowhere && (before < job->read || s->db->row.data[before].tuner == node->index);
    for (uint32_t i = 0; i < s->pending.count; i++)
        twice |= is_same_trial(&s->pending.data[i], &record);
    if (twice) sim_fail(world, "trial %u of task %u is recorded twice", record.index, record.task);
    uint64_t lease = 0;
    if (action->result && (!kiln_map_find(&s->sent, kiln_str_from(action->trial), &lease) ||
                           lease != action->result->lease))
        sim_fail(world, "a result under lease %llu is recorded for a trial sent under %llu",
                 (unsigned long long)action->result->lease, (unsigned long long)lease);
    if (action->result && action->result->out_of_band && action->outcome == KILN_OUTCOME_OK &&
        action->result->attempt < KILN_TUNER_ATTEMPTS_MAX)
        sim_fail(world, "samples out of band are recorded after %u attempts",
                 action->result->attempt);
    world->records++;
    kiln_vec_push(&s->pending, record);
    kiln_vec_push(&s->pending_job, action->job);
    if (s->commit_due) return;
    s->commit_due = true;
    sim_at(world, commit_ns(node), node, committed, 0, 0);
}

/* ---- The program ---- */

static void exported(sim_node *node, uint64_t handle, uint64_t b) {
    (void)b;
    run_step(node, &(kiln_tuner_event){.kind = KILN_TUNER_EXPORTED,
                                       .job = handle,
                                       .digest = digest_of("records", handle)});
}

/* What is not stored yet is, before the job is free for others. */
static void forget(sim_node *node, uint64_t handle) {
    tuner_state *s = node->state;
    for (uint32_t i = 0; i < s->jobs.count; i++) {
        if (s->jobs.data[i].handle != handle) continue;
        for (uint32_t k = 0; k < s->pending.count; k++)
            if (s->pending_job.data[k] == handle) store(node, &s->pending.data[k]);
        check_ledger(node);
        leave_claim(node, s->jobs.data[i].id);
        s->jobs.data[i] = kiln_vec_pop(&s->jobs);
        return;
    }
}

/* What is acknowledged is on disk, or will never be stored. */
static void check_ack(sim_node *node, const kiln_msg_trial_ack *ack) {
    tuner_state *s = node->state;
    s->acks++;
    for (uint32_t i = s->durable; i < s->pending.count; i++)
        if (s->pending.data[i].attempt == ack->attempt &&
            kiln_str_is(ack->trial, s->pending.data[i].trial))
            sim_fail(node->world, "a result is acknowledged before it is stored");
}

/* Whatever job ends well, awaited or not, has its records here, each once. */
static void check_records(sim_node *node, const kiln_msg_job_done *done) {
    if (done->code != KILN_OK) return;
    uint32_t stored = sim_tuner_record_count(node, done->job);
    if (stored >= done->trials) return;
    node->world->lost += done->trials - stored;
    sim_fail(node->world, "a job ends ok with %u of its %u records", stored, done->trials);
}

static void send_message(sim_node *node, const kiln_message *message) {
    tuner_state *s = node->state;
    if (message->type == KILN_MSG_JOB_DONE) check_records(node, &message->job_done);
    if (message->type == KILN_MSG_TRIAL)
        kiln_map_put(&s->sent, message->trial.trial, message->trial.lease);
    if (message->type == KILN_MSG_TRIAL_ACK) check_ack(node, &message->trial_ack);
    if (node->conn) sim_send(node, node->conn, message);
}

static void lose_tracker(sim_node *node) {
    tuner_state *s = node->state;
    if (!s->gone_ns) s->gone_ns = node->world->now_ns;
}

static void carry_out(sim_node *node, const kiln_tuner_action *action) {
    uint64_t trial = (uint64_t)action->task << 32 | action->index;
    switch (action->kind) {
    case KILN_TUNER_DIAL: sim_dial(node); break;
    case KILN_TUNER_HANG_UP:
        if (node->conn) sim_close(node, node->conn);
        lose_tracker(node);
        fail_uploads(node);
        break;
    case KILN_TUNER_SEND: send_message(node, &action->message); break;
    case KILN_TUNER_PREPARE: begin_prepare(node, action); break;
    case KILN_TUNER_PROPOSE: begin_propose(node, action); break;
    case KILN_TUNER_REFERENCE:
        sim_at(node->world, sim_between(node->world, 5 * SIM_MS, SIM_S), node, referenced,
               action->job, action->task);
        break;
    case KILN_TUNER_BUILD:
        sim_at(node->world, sim_between(node->world, 5 * SIM_MS, 200 * SIM_MS), node, built,
               action->job, trial);
        break;
    case KILN_TUNER_UPLOAD: begin_upload(node, &action->digest); break;
    case KILN_TUNER_RECORD: begin_record(node, action); break;
    case KILN_TUNER_OBSERVE: observe(node, action); break;
    case KILN_TUNER_GATHER:
        sim_at(node->world, sim_between(node->world, 0, 300 * SIM_MS), node, gathered, action->job,
               (uint64_t)action->task << 1 | action->early);
        break;
    case KILN_TUNER_EXPORT: sim_at(node->world, 10 * SIM_MS, node, exported, action->job, 0); break;
    case KILN_TUNER_FORGET: forget(node, action->job); break;
    }
}

static void run_step(sim_node *node, const kiln_tuner_event *event) {
    tuner_state *s = node->state;
    kiln_tuner_actions actions = {0};
    kiln_arena_init(&actions.arena, 0);
    const kiln_thread_work before = *kiln_thread_work_here();
    kiln_tuner_step(s->machine, sim_clock(node), event, &actions);
    kiln_tuner_check(s->machine);
    sim_check_work(node, &before);
    for (uint32_t i = 0; i < actions.list.count; i++) carry_out(node, &actions.list.data[i]);
    kiln_tuner_actions_deinit(&actions);
    sim_tick_at(node, kiln_tuner_next_ns(s->machine));
}

static void start(sim_node *node) {
    tuner_state *s = node->state;
    s->db = node->world->shared ? node->world->shared : s->own;
    if (sim_has_forgers(node->world) && !s->db->ledger)
        s->db->ledger = sim_ledger_create(node->world->options.seed);
    s->machine = kiln_tuner_create(&(kiln_tuner_options){.builders = node->world->options.builders,
                                                         .codegen = SIM_CODEGEN,
                                                         .seed = kiln_rand_u64(&node->world->rand)},
                                   sim_clock(node));
    sim_tick_at(node, sim_clock(node));
}

static void stop(sim_node *node) {
    tuner_state *s = node->state;
    kiln_tuner_destroy(s->machine);
    s->machine = NULL;
    /* A commit is whole or not at all. */
    if (sim_chance(node->world, 500))
        for (uint32_t i = 0; i < s->pending.count; i++) store(node, &s->pending.data[i]);
    s->pending.count = s->pending_job.count = s->jobs.count = s->uploads.count = 0;
    s->commit_due = false;
    s->durable = 0;
    lose_tracker(node);
    kiln_map_reset(&s->sent);
}

static void opened(sim_node *node, sim_conn *conn, const kiln_msg_hello *hello) {
    (void)conn, (void)hello;
    ((tuner_state *)node->state)->gone_ns = 0;
    run_step(node, &(kiln_tuner_event){.kind = KILN_TUNER_OPENED});
    keep_claims(node);
}

static void on_message(sim_node *node, sim_conn *conn, const kiln_message *message) {
    (void)conn;
    if (message->type == KILN_MSG_TRIAL_RESULT) node->world->results++;
    run_step(node, &(kiln_tuner_event){.kind = KILN_TUNER_MESSAGE, .message = message});
}

static void closed(sim_node *node, sim_conn *conn) {
    (void)conn;
    lose_tracker(node);
    fail_uploads(node);
    run_step(node, &(kiln_tuner_event){.kind = KILN_TUNER_CLOSED});
}

static void tick(sim_node *node) { run_step(node, &(kiln_tuner_event){.kind = KILN_TUNER_TICK}); }

const sim_program sim_tuner_program = {start, stop, opened, on_message, closed, tick};

/* Whether that is the identity of (a run of) the job. */
static bool is_of(const char *identity, kiln_str job) {
    return strncmp(identity, job.data, job.size) == 0 &&
           (identity[job.size] == 0 || identity[job.size] == '.');
}

uint32_t sim_tuner_record_count(const sim_node *node, kiln_str job) {
    const tuner_state *s = node->state;
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->db->row.count; i++)
        count += is_of(s->db->row.data[i].job, job) && s->db->row.data[i].index != KILN_TUNER_FINAL;
    return count;
}

void sim_tuner_fill_disk(sim_node *node, uint64_t until_ns) {
    tuner_state *s = node->state;
    s->db->full_until_ns = until_ns;
}

static void check_repeated(sim_node *node) {
    const tuner_state *s = node->state;
    kiln_map seen;
    kiln_map_init(&seen);
    for (uint32_t i = 0; i < s->db->row.count; i++) {
        const db_record *r = &s->db->row.data[i];
        char *name = kiln_arena_printf(&node->world->scratch, "%s %u %u %s", r->job, r->task,
                                       r->index, r->index == KILN_TUNER_FINAL ? r->trial : "");
        if (!kiln_map_put(&seen, kiln_str_from(name), 1)) node->world->repeated++;
    }
    kiln_map_deinit(&seen);
    if (node->world->repeated) sim_fail(node->world, "tuner %u has records twice", node->index);
}

void sim_tuner_check_rest(sim_node *node) {
    tuner_state *s = node->state;
    check_repeated(node);
    check_ledger(node);
    if (s->jobs.count)
        sim_fail(node->world, "tuner %u still has %u jobs", node->index, s->jobs.count);
}
