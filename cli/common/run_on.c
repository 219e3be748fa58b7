#include "cli/common/run_on.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/opt.h"
#include "base/rand.h"
#include "cli/common/boards.h"
#include "cli/common/names.h"
#include "cli/common/options.h"
#include "deploy/run/parcel.h"

#define LEASE_TTL_MS 10000u
#define RENEW_NS (UINT64_C(2) * KILN_NS_PER_S)
#define MOMENT_NS (UINT64_C(500) * KILN_NS_PER_MS)
#define PARTING_NS KILN_NS_PER_S /* for the tracker to say that it knows of the end */
#define REQUEST UINT64_C(1)      /* the only one of this command */

typedef struct errand {
    const kiln_run_on_options *options;
    kiln_run *run;
    kiln_arena *process;
    kiln_client *client;
    kiln_parcel parcel;
    uint64_t *samples;      /* [input] */
    uint64_t wait_until_ns; /* 0: for ever */
    kiln_msg_trial trial;
    char job[KILN_HASH128_TEXT];
    kiln_str target; /* that the board must run */
    /* What came. */
    const char *waits_for; /* what there is of boards; NULL: it was said, or not told yet */
    bool assigned, granted, answered, stopped;
    kiln_msg_lease_grant grant; /* once granted */
    kiln_msg_trial_result result;
    kiln_phase phase;
    bool over;           /* the job is, at the tracker */
    kiln_status failure; /* why nothing will come of it */
} errand;

/* ---- what comes from outside ----------------------------------------------------------------- */

/* The first that goes wrong says why. `why` is owned. */
static void fail(errand *e, kiln_status why) {
    if (e->failure)
        kiln_status_free(why);
    else
        e->failure = why;
}

static void on_job_over(errand *e, const kiln_msg_job_done *done) {
    kiln_code code = KILN_INTERNAL;
    e->over = true;
    if (done->code == KILN_OK || !kiln_code_from_wire(done->code, &code)) return;
    fail(e, kiln_status_make(code, __FILE__, __LINE__, "%.*s", KILN_STR_ARG(done->text)));
}

static void on_lost(errand *e, const kiln_msg_lease_lost *lost) {
    if (!e->granted || lost->lease != e->grant.lease || e->answered) return;
    fail(e, KILN_ERROR(UNAVAILABLE, "board %.*s was lost while the module was in phase %s: %.*s",
                       KILN_STR_ARG(e->grant.key), kiln_phase_name(e->phase),
                       KILN_STR_ARG(lost->text)));
}

static void on_result(errand *e, const kiln_message *message) {
    if (message->trial_result.lease != e->grant.lease || e->answered) return;
    e->result = kiln_message_copy(message, e->process).trial_result;
    e->answered = true;
}

static void on_message(void *context, const kiln_message *message) {
    errand *e = context;
    if (!message) { /* connected again, but what was under way is not */
        fail(e, KILN_ERROR(UNAVAILABLE,
                           "the connection to the tracker was lost while the module ran"));
        return;
    }
    switch ((int)message->type) {
    case KILN_MSG_JOB_STATE:
        if (!e->waits_for) e->waits_for = kiln_str_dup(e->process, message->job_state.text);
        break;
    case KILN_MSG_JOB_ASSIGN: e->assigned = true; break;
    case KILN_MSG_JOB_DONE: on_job_over(e, &message->job_done); break;
    case KILN_MSG_LEASE_GRANT:
        if (!e->granted) e->grant = kiln_message_copy(message, e->process).lease_grant;
        e->granted = true;
        break;
    case KILN_MSG_LEASE_LOST: on_lost(e, &message->lease_lost); break;
    case KILN_MSG_TRIAL_EVENT: e->phase = (kiln_phase)message->trial_event.phase; break;
    case KILN_MSG_TRIAL_RESULT: on_result(e, message); break;
    case KILN_MSG_ERROR: fail(e, kiln_status_from_error(&message->error)); break;
    default: return;
    }
    kiln_client_wake(e->client);
}

static void on_stop(void *context, int number) {
    (void)number;
    errand *e = context;
    e->stopped = true;
    kiln_client_stop(e->client);
}

/* Who waits for a board longer than a moment hears what for. */
static void say_what_for(errand *e) {
    if (!e->waits_for || e->granted) return;
    const kiln_client_options *client = &e->options->client;
    if (client->waits)
        client->waits(client->waits_context,
                      kiln_arena_printf(e->process, "waiting for a board; %s", e->waits_for));
    e->waits_for = NULL;
}

/* From here on the time counts that a board may take to be free: what is sent before takes its own.
 */
static void begin_waiting(errand *e) {
    const uint64_t wait_s = e->options->wait_s;
    e->wait_until_ns = wait_s ? kiln_clock_ns() + wait_s * KILN_NS_PER_S : 0;
}

/* Waits until `*fact` is true, or nothing will come of it. A lease is kept meanwhile. */
static kiln_status wait_for(errand *e, const bool *fact) {
    kiln_status st = KILN_OK;
    uint64_t renew_ns = 0;
    while (!st && !*fact && !e->failure && !e->stopped) {
        kiln_message renew = {.type = KILN_MSG_LEASE_RENEW, .lease_renew = {e->grant.lease}};
        if (e->granted && kiln_clock_ns() >= renew_ns) {
            kiln_client_send(e->client, &renew);
            renew_ns = kiln_clock_ns() + RENEW_NS;
        }
        const uint64_t until_ns = kiln_clock_ns() + MOMENT_NS;
        st = kiln_client_wait(e->client, MOMENT_NS);
        if (!*fact && kiln_clock_ns() >= until_ns) say_what_for(e);
        if (!st && !e->granted && e->wait_until_ns && kiln_clock_ns() >= e->wait_until_ns)
            fail(e, KILN_ERROR(DEADLINE_EXCEEDED, "no board was free for %llu s",
                               (unsigned long long)e->options->wait_s));
    }
    if (!st && e->failure) {
        st = e->failure;
        e->failure = NULL;
    }
    if (!st && !*fact) st = KILN_ERROR(CANCELLED, "stopped; the board is free");
    return st;
}

/* ---- what is sent ---------------------------------------------------------------------------- */

static kiln_status prepare(errand *e) {
    const kiln_run *run = e->run;
    const uint32_t count = kiln_module_input_count(run->module);
    e->samples = KILN_ARENA_ARRAY(e->process, uint64_t, count);
    for (uint32_t i = 0; i < count; i++) e->samples[i] = run->feed[i].samples;
    kiln_hash128 identity;
    kiln_status st = kiln_rand_system(&identity, sizeof identity);
    if (!st) st = kiln_parcel_measure(run->module, e->samples, e->options->bench, &e->parcel);
    if (st) return st;
    kiln_hash128_print(identity, e->job);
    const uint64_t limit_s = e->options->limit_s ? e->options->limit_s : KILN_RUN_ON_LIMIT_S;
    const uint64_t limit_ms = KILN_MIN(limit_s, KILN_RUN_ON_LIMIT_MAX_S) * 1000;
    e->trial = (kiln_msg_trial){
        .trial = kiln_str_from(e->job),
        .attempt = 1,
        .job = kiln_str_from(e->job),
        .deadlines_ms = {.fetch = KILN_RUN_ON_LIMIT_MAX_S * 1000,
                         .load = limit_ms,
                         .warm = limit_ms,
                         .run = limit_ms,
                         .check = limit_ms},
        .module = {.samples = {e->samples, count},
                   .output_bytes = e->parcel.output_bytes,
                   .threads = kiln_module_threads(run->module),
                   .bench = e->options->bench,
                   .size = (uint64_t)kiln_module_describe_sizes(run->module).size},
    };
    return KILN_OK;
}

/* Looks whether there is such a board, sends the module, and opens the job. */
static kiln_status open_job(errand *e, bool *out_emulated) {
    const kiln_str module = e->options->module;
    const char *text = kiln_module_metadata(e->run->module, "target");
    kiln_target target;
    kiln_message open = {
        .type = KILN_MSG_JOB_OPEN,
        .job_open = {.job = kiln_str_from(e->job),
                     .spec = {.model_name = kiln_model_title(NULL, e->options->name, e->process),
                              .target = kiln_str_from(text),
                              .searcher = KILN_STR("run"),
                              .by_client = true,
                              .user = kiln_str_from(kiln_user_name(e->process))}}};
    if (!text)
        return KILN_ERROR(INVALID_ARGUMENT, "%s does not say what it was compiled for",
                          e->options->name);
    kiln_msg_job_spec *spec = &open.job_open.spec;
    kiln_status st = kiln_target_parse(kiln_str_from(text), e->process, &target);
    if (!st) st = kiln_boards_parse_on(e->options->on, e->process, spec);
    if (!st) st = kiln_boards_settle(e->client, &target, spec, e->process, out_emulated);
    if (!st) st = kiln_client_put(e->client, module, &spec->model);
    if (st) return st;
    e->target = spec->target;
    e->trial.artefact = (kiln_msg_blob_ref){spec->model, module.size};
    begin_waiting(e);
    kiln_client_send(e->client, &open);
    return wait_for(e, &e->assigned);
}

static kiln_status put_inputs(errand *e) {
    kiln_str inputs = {kiln_arena_alloc_aligned(e->process, 64, (size_t)e->parcel.input_bytes),
                       (size_t)e->parcel.input_bytes};
    char *bytes = (char *)(uintptr_t)inputs.data; /* just made */
    memset(bytes, 0, inputs.size);
    kiln_parcel_write_inputs(e->run, bytes);
    e->trial.reference.size = inputs.size;
    return kiln_client_put(e->client, inputs, &e->trial.reference.digest);
}

static kiln_status take_lease(errand *e) {
    kiln_message want = {.type = KILN_MSG_LEASE_REQ,
                         .lease_req = {.request = REQUEST,
                                       .job = kiln_str_from(e->job),
                                       .target = e->target,
                                       .trials = 1,
                                       .ttl_ms = LEASE_TTL_MS,
                                       .exclusive = true}};
    begin_waiting(e);
    kiln_client_send(e->client, &want);
    kiln_status st = wait_for(e, &e->granted);
    const kiln_client_options *client = &e->options->client;
    if (client->waits) client->waits(client->waits_context, "");
    return st;
}

/* ---- what comes back ------------------------------------------------------------------------- */

static kiln_code code_of(const kiln_msg_trial_result *result) {
    if (result->outcome == KILN_OUTCOME_TIMEOUT) return KILN_DEADLINE_EXCEEDED;
    if (result->outcome == KILN_OUTCOME_CRASH) return KILN_INTERNAL;
    return result->outcome == KILN_OUTCOME_LINK_ERROR ? KILN_DATA_LOSS : KILN_FAILED_PRECONDITION;
}

static kiln_status judge(const errand *e) {
    const kiln_msg_trial_result *result = &e->result;
    if (result->outcome == KILN_OUTCOME_OK) return KILN_OK;
    return kiln_status_make(code_of(result), __FILE__, __LINE__, "%s on board %.*s: %s: %.*s",
                            e->options->name, KILN_STR_ARG(e->grant.key),
                            kiln_outcome_name((kiln_outcome)result->outcome),
                            KILN_STR_ARG(result->text));
}

static kiln_status read_outputs(errand *e, kiln_run_times *out_times) {
    kiln_str content = {0};
    kiln_status st = kiln_client_get(e->client, &e->result.outputs.digest, e->process, &content);
    if (!st && content.size != e->parcel.output_bytes)
        st = KILN_ERROR(DATA_LOSS, "the board sent %zu bytes of outputs, not %llu", content.size,
                        (unsigned long long)e->parcel.output_bytes);
    if (st) return st;
    kiln_parcel_read_outputs(&e->parcel, content.data, e->run);
    if (!e->parcel.bench) return KILN_OK;
    char *bytes = kiln_arena_alloc_aligned(e->process, 64, content.size);
    memcpy(bytes, content.data, content.size);
    return kiln_parcel_read_times(e->run->module, &e->parcel, bytes, e->process, out_times);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Up to the result. */
static kiln_status run_there(errand *e, bool *out_emulated) {
    kiln_status st = open_job(e, out_emulated);
    if (!st) st = put_inputs(e);
    if (!st) st = take_lease(e);
    if (st) return st;
    e->trial.lease = e->grant.lease;
    e->trial.slot = e->grant.slot;
    kiln_client_send(e->client, &(kiln_message){.type = KILN_MSG_TRIAL, .trial = e->trial});
    return wait_for(e, &e->answered);
}

/* Tells the tracker how it went, so that the board is free: at once when it was stopped. */
static void part(errand *e, kiln_status st) {
    kiln_message ack = {.type = KILN_MSG_TRIAL_ACK,
                        .trial_ack = {e->trial.trial, e->trial.attempt, e->grant.lease}};
    kiln_message done = {.type = KILN_MSG_JOB_DONE,
                         .job_done = {.job = kiln_str_from(e->job),
                                      .code = (uint32_t)kiln_status_code(st),
                                      .text = kiln_str_from(st ? kiln_status_text(st) : NULL),
                                      .trials = e->answered}};
    kiln_message close = {.type = KILN_MSG_JOB_CLOSE, .job_close = {.job = kiln_str_from(e->job)}};
    if (e->answered) kiln_client_send(e->client, &ack);
    if (!e->over) kiln_client_send(e->client, &done);
    const uint64_t until_ns = kiln_clock_ns() + PARTING_NS;
    kiln_status waited = KILN_OK;
    while (!waited && !e->over && kiln_clock_ns() < until_ns)
        waited = kiln_client_wait(e->client, until_ns - kiln_clock_ns());
    kiln_status_free(waited); /* a tracker that is gone ends the job when it is back */
    kiln_client_send(e->client, &close);
}

static kiln_status check_version(const errand *e) {
    if (kiln_client_version(e->client) >= kiln_message_since(KILN_MSG_PROBE)) return KILN_OK;
    return KILN_ERROR(UNIMPLEMENTED, "the tracker is too old to run modules: replace it");
}

kiln_status kiln_run_on(const kiln_run_on_options *options, kiln_run *run, kiln_arena *process,
                        kiln_run_on_done *out_done) {
    errand e = {.options = options, .run = run, .process = process};
    kiln_run_on_done done = {0};
    kiln_client_options client = options->client;
    client.message = on_message;
    client.context = &e;
    kiln_status st = prepare(&e);
    if (!st) st = kiln_client_open(&client, process, &e.client);
    if (st) return st;
    kiln_loop_on_signal(kiln_client_loop(e.client), SIGINT, on_stop, &e);
    st = check_version(&e);
    if (!st) {
        st = run_there(&e, &done.emulated);
        if (!st) st = judge(&e);
        part(&e, st);
    }
    if (!st) st = read_outputs(&e, &done.times);
    if (done.emulated) done.times.peak_flops = 0; /* what it does in a second bounds nothing */
    if (e.granted) done.board = kiln_str_dup(process, e.grant.key);
    if (!st) *out_done = done;
    kiln_client_close(e.client);
    kiln_status_free(e.failure);
    return st;
}
