/* A person's command: opens a job, waits for its end, comes back when the tracker was away, cancels
 * now and then. In some worlds it is the run of a module: the client leases a board and sends the
 * one trial itself. */
#include <string.h>

#include "base/alloc.h"
#include "tests/sim/fair.h"

#define GIVE_UP_NS (10 * SIM_S)
#define RUN_TTL_MS 10000u
#define RUN_PHASE_MS 10000u /* as tuners give */

typedef struct client_state {
    bool drawn, detach, cancels, done;
    uint64_t
        cancel_ns; /* when it has waited for long enough for boards that its project may not have */
    double seconds; /* budget; 0: trials alone */
    uint32_t project, weight, priority;
    char job[KILN_HASH128_TEXT];
    uint64_t lost_ns; /* since when there is no tracker; 0: there is one */
    uint64_t dial_ns, heard_ns, ping_ns;
    bool runs; /* a module */
    uint64_t request, lease;
    bool run_over; /* the tracker is told until it says that it knows */
    kiln_code run_code;
} client_state;

void *sim_client_state(void) { return kiln_alloc(sizeof(client_state)); }

void sim_client_free(void *memory) { kiln_free(memory); }

uint32_t sim_client_side(const sim_node *node) { return node->index % SIM_PROJECTS; }

bool sim_client_is_done(const sim_node *node) {
    const client_state *s = node->state;
    return s->drawn && (s->done || !node->alive);
}

static void finish(sim_node *node, const char *how) {
    client_state *s = node->state;
    s->done = true;
    sim_note(node->world, "client %u: %s", node->index, how);
    if (node->conn) sim_close(node, node->conn);
}

static void dial(sim_node *node) {
    client_state *s = node->state;
    s->dial_ns = 0;
    sim_dial(node);
}

static void start(sim_node *node) {
    client_state *s = node->state;
    sim_world *world = node->world;
    *s = (client_state){.drawn = true,
                        .lost_ns = world->now_ns,
                        .detach = sim_chance(world, 200),
                        .cancels = sim_chance(world, world->options.crowd ? 0 : 150),
                        .seconds = sim_chance(world, world->options.crowd ? 0 : 200) ? 5 : 0,
                        .project = world->options.crowd ? sim_client_side(node)
                                                        : (uint32_t)sim_chance(world, 500),
                        .priority = (uint32_t)sim_between(world, 0, 9)};
    if (world->options.quota[s->project].board_seconds) {
        s->detach = false;
        s->cancel_ns = world->now_ns + 1200 * SIM_S;
    }
    s->weight = world->options.crowd ? world->options.weight[s->project]
                                     : (uint32_t)sim_between(world, 0, 3);
    kiln_hash128_print((kiln_hash128){kiln_rand_u64(&world->rand), kiln_rand_u64(&world->rand)},
                       s->job);
    memcpy(world->last_job, s->job, sizeof world->last_job);
    dial(node);
    sim_tick_at(node, world->now_ns + SIM_S);
}

static void stop(sim_node *node) { (void)node; }

/* ---- A module's run ---- */

static bool runs_module(const sim_node *node) {
    const sim_options *o = &node->world->options;
    return o->seed % 16 == 15 && node->index % 2 == 1 && !o->crowd;
}

/* In every third world some jobs are for the target that not all boards have. */
static const char *target_of(const sim_node *node) {
    bool is_other = node->world->options.seed % 3 == 0 && node->index % 5 == 1;
    return is_other ? SIM_OTHER_TARGET : SIM_TARGET;
}

static void say_over(sim_node *node) {
    const client_state *s = node->state;
    kiln_message done = {.type = KILN_MSG_JOB_DONE,
                         .job_done = {.job = kiln_str_from(s->job), .code = (uint32_t)s->run_code}};
    if (s->run_over && node->conn) sim_send(node, node->conn, &done);
}

static void end_run(sim_node *node, kiln_code code) {
    client_state *s = node->state;
    if (!s->run_over) s->run_code = code;
    s->run_over = true;
    say_over(node);
}

static void ask_for_board(sim_node *node) {
    client_state *s = node->state;
    kiln_message want = {.type = KILN_MSG_LEASE_REQ,
                         .lease_req = {.request = ++s->request,
                                       .job = kiln_str_from(s->job),
                                       .target = kiln_str_from(target_of(node)),
                                       .trials = 1,
                                       .ttl_ms = RUN_TTL_MS,
                                       .exclusive = true}};
    sim_send(node, node->conn, &want);
}

static void send_module(sim_node *node, const kiln_msg_lease_grant *grant) {
    client_state *s = node->state;
    kiln_message trial = {.type = KILN_MSG_TRIAL,
                          .trial = {.trial = kiln_str_from(s->job),
                                    .attempt = 1,
                                    .lease = grant->lease,
                                    .slot = grant->slot,
                                    .job = kiln_str_from(s->job),
                                    .deadlines_ms = {.fetch = RUN_PHASE_MS,
                                                     .load = RUN_PHASE_MS,
                                                     .warm = RUN_PHASE_MS,
                                                     .run = RUN_PHASE_MS,
                                                     .check = RUN_PHASE_MS},
                                    .module = {.threads = 1, .output_bytes = 64}}};
    if (s->lease || s->run_over || grant->request != s->request) return;
    s->lease = grant->lease;
    kiln_digest_of(s->job, sizeof s->job, &trial.trial.artefact.digest);
    kiln_digest_of(s->job, sizeof s->job / 2, &trial.trial.reference.digest);
    trial.trial.artefact.size = trial.trial.reference.size = 64;
    sim_store_put(node->world, &trial.trial.artefact.digest);
    sim_store_put(node->world, &trial.trial.reference.digest);
    sim_send(node, node->conn, &trial);
}

static void take_result(sim_node *node, const kiln_msg_trial_result *result) {
    const client_state *s = node->state;
    kiln_message ack = {.type = KILN_MSG_TRIAL_ACK,
                        .trial_ack = {result->trial, result->attempt, result->lease}};
    if (result->lease != s->lease) return;
    sim_send(node, node->conn, &ack);
    end_run(node, result->outcome == KILN_OUTCOME_OK ? KILN_OK : KILN_INTERNAL);
}

static void run_on(sim_node *node, const kiln_message *message) {
    const client_state *s = node->state;
    switch ((int)message->type) {
    case KILN_MSG_JOB_ASSIGN:
        if (!s->request && !s->run_over) ask_for_board(node);
        break;
    case KILN_MSG_LEASE_GRANT: send_module(node, &message->lease_grant); break;
    case KILN_MSG_LEASE_LOST:
        if (message->lease_lost.lease == s->lease) end_run(node, KILN_UNAVAILABLE);
        break;
    case KILN_MSG_TRIAL_RESULT: take_result(node, &message->trial_result); break;
    default: break;
    }
}

/* What was under way is not when it is connected again. */
static void run_again(sim_node *node) {
    const client_state *s = node->state;
    if (s->request) end_run(node, KILN_UNAVAILABLE);
}

static void keep_run(sim_node *node) {
    const client_state *s = node->state;
    kiln_message renew = {.type = KILN_MSG_LEASE_RENEW, .lease_renew = {s->lease}};
    if (s->lease && !s->run_over && node->conn) sim_send(node, node->conn, &renew);
    say_over(node);
}

/* ---- The job ---- */

static void cancel(sim_node *node, uint64_t a, uint64_t b) {
    (void)a, (void)b;
    client_state *s = node->state;
    kiln_message message = {.type = KILN_MSG_CANCEL,
                            .stream = 3,
                            .cancel = {.scope = KILN_CANCEL_JOB, .id = kiln_str_from(s->job)}};
    if (!s->done && node->conn) sim_send(node, node->conn, &message);
}

static void opened(sim_node *node, sim_conn *conn, const kiln_msg_hello *hello) {
    (void)hello;
    client_state *s = node->state;
    sim_world *world = node->world;
    s->lost_ns = 0;
    s->heard_ns = s->ping_ns = world->now_ns;
    s->runs = runs_module(node);
    s->detach = s->detach && !s->runs;
    kiln_message open = {
        .type = KILN_MSG_JOB_OPEN,
        .stream = 1,
        .job_open = {.job = kiln_str_from(s->job),
                     .spec = {.target = kiln_str_from(target_of(node)),
                              .by_client = s->runs,
                              .searcher = KILN_STR("random"),
                              .trials = world->options.trials,
                              .seconds = s->seconds,
                              .detach = s->detach,
                              .project = kiln_str_from(sim_project_name[s->project]),
                              .weight = s->weight,
                              .priority = s->priority,
                              .seed = world->options.seed}},
    };
    sim_send(node, conn, &open);
    if (s->runs) run_again(node);
    if (s->cancels) sim_at(world, sim_between(world, 0, 20 * SIM_S), node, cancel, 0, 0);
}

/* The records that the job says it made are in the database of some tuner: nothing committed is
 * lost, nothing is counted twice. */
static void check_done(sim_node *node, const kiln_msg_job_done *done) {
    const client_state *s = node->state;
    sim_world *world = node->world;
    world->jobs_ended++;
    if (done->code != KILN_OK) return;
    world->jobs_ok++;
    if (s->runs) return;
    uint32_t planned = 0;
    for (uint32_t i = 0; i < done->tasks.count; i++) {
        const kiln_msg_task_state *task = &done->tasks.item[i];
        planned += task->planned;
        if (task->done != task->planned)
            sim_fail(world, "a job ends ok with %u of %u trials of a task", task->done,
                     task->planned);
    }
    if (done->trials != planned)
        sim_fail(world, "a job says %u trials, its tasks %u", done->trials, planned);
    for (uint32_t i = 0; i < world->node.count; i++) {
        sim_node *tuner = world->node.data[i];
        if (tuner->kind != SIM_TUNER) continue;
        uint32_t stored = sim_tuner_record_count(tuner, done->job);
        /* A tuner that came back when the time was up does not count what is there already, nor
         * does one that took over count what the other stored late. */
        bool more = s->seconds > 0 || world->options.share;
        if (stored == done->trials || (more && stored > done->trials)) return;
    }
    sim_fail(world, "no tuner has the %u records of a job that ended ok", done->trials);
}

static void on_message(sim_node *node, sim_conn *conn, const kiln_message *message) {
    client_state *s = node->state;
    s->heard_ns = node->world->now_ns;
    if (s->done) return;
    if (s->runs) run_on(node, message);
    if (message->type == KILN_MSG_JOB_DONE) {
        check_done(node, &message->job_done);
        kiln_message close = {.type = KILN_MSG_JOB_CLOSE,
                              .job_close = {.job = message->job_done.job}};
        sim_send(node, conn, &close);
        finish(node, kiln_code_name((kiln_code)message->job_done.code));
    } else if (message->type == KILN_MSG_ERROR) {
        finish(node, "refused");
    } else if (message->type == KILN_MSG_JOB_STATE && s->detach && message->stream == 1) {
        finish(node, "detached");
    }
}

static void closed(sim_node *node, sim_conn *conn) {
    (void)conn;
    client_state *s = node->state;
    if (s->done) return;
    if (!s->lost_ns) s->lost_ns = node->world->now_ns;
    s->dial_ns = node->world->now_ns + sim_between(node->world, 100 * SIM_MS, SIM_S);
    sim_tick_at(node, s->dial_ns);
}

static void tick(sim_node *node) {
    client_state *s = node->state;
    sim_world *world = node->world;
    if (s->done) return;
    if (node->conn && !s->lost_ns && world->now_ns - s->heard_ns > KILN_LINK_SILENCE_NS) {
        sim_close(node, node->conn);
        closed(node, NULL);
    }
    if (node->conn && !s->lost_ns && world->now_ns - s->ping_ns >= KILN_LINK_HEARTBEAT_NS) {
        s->ping_ns = world->now_ns;
        sim_send(node, node->conn, &(kiln_message){.type = KILN_MSG_PING});
    }
    if (s->lost_ns && world->now_ns - s->lost_ns > GIVE_UP_NS) {
        finish(node, "gives up: no tracker");
        return;
    }
    if (!node->conn && s->dial_ns && world->now_ns >= s->dial_ns) dial(node);
    if (s->runs) keep_run(node);
    if (s->cancel_ns && world->now_ns > s->cancel_ns && !s->lost_ns) {
        s->cancel_ns = world->now_ns + 10 * SIM_S;
        cancel(node, 0, 0);
    }
    sim_tick_at(node, world->now_ns + 500 * SIM_MS);
}

const sim_program sim_client_program = {start, stop, opened, on_message, closed, tick};
