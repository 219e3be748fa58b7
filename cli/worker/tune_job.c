#include "cli/common/names.h"
#include "cli/common/records.h"
#include "cli/worker/tune.h"

#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/rand.h"
#include "cli/common/boards.h"
#include "db/bundle.h"
#include "db/trust.h"
#include "tuner/plausible.h"

#define TICK_NS (UINT64_C(200) * KILN_NS_PER_MS)

/* ---- what comes from outside ----------------------------------------------------------------- */

static uint64_t age_ns(const kiln_tune *t) { return kiln_clock_ns() - t->measuring_ns; }

static void on_done(kiln_tune *t, const kiln_message *message) {
    t->end = kiln_message_copy(message, t->process).job_done;
    t->done = true;
    kiln_msg_job_event last = {.job = t->end.job,
                               .tasks = {t->end.tasks.item, t->end.tasks.count},
                               .faults = {t->end.faults.item, t->end.faults.count}};
    kiln_events_progress(t->events, &last, age_ns(t));
    kiln_client_wake(t->client);
}

static void on_event(kiln_tune *t, const kiln_msg_job_event *event) {
    if (event->tasks.count || event->faults.count)
        kiln_events_progress(t->events, event, age_ns(t));
    if (event->text.size) kiln_events_text(t->events, "%.*s", KILN_STR_ARG(event->text));
}

static void on_message(void *context, const kiln_message *message) {
    kiln_tune *t = context;
    if (!message) { /* connected again: the tracker attaches us to the job, if it is open */
        if (t->open.type == KILN_MSG_JOB_OPEN) kiln_client_send(t->client, &t->open);
        t->cancel_sent = false;
        return;
    }
    if (message->type == KILN_MSG_JOB_EVENT)
        on_event(t, &message->job_event);
    else if (message->type == KILN_MSG_JOB_DONE && !t->done)
        on_done(t, message);
}

static void on_signal(void *context, int signal) {
    (void)signal;
    kiln_tune *t = context;
    if (t->interrupts++ == 0)
        kiln_events_text(t->events, "stopping; measurements are kept (again: stop at once)");
    if (t->open.type != KILN_MSG_JOB_OPEN || t->interrupts > 1)
        kiln_client_stop(t->client); /* nothing is measured yet; or nobody waits for records */
    else
        kiln_client_wake(t->client);
}

/* Tells the tracker, once per connection, that the person wants no more. */
static void cancel(kiln_tune *t) {
    if (t->cancel_sent) return;
    kiln_message message = {.type = KILN_MSG_CANCEL,
                            .cancel = {.scope = KILN_CANCEL_JOB,
                                       .id = kiln_str_from(t->job),
                                       .reason = KILN_STR("stopped by the user")}};
    kiln_client_send(t->client, &message);
    t->cancel_sent = true;
}

/* ---- the job --------------------------------------------------------------------------------- */

/* What is known about the tasks already, for a tuner that keeps another database. */
static kiln_status send_records(kiln_tune *t, kiln_digest *out_digest) {
    kiln_db *db = NULL;
    kiln_strbuf bytes = {0};
    kiln_db_filter *filter =
        KILN_ARENA_ARRAY(t->process, kiln_db_filter, t->compilation->searched.count);
    for (uint32_t i = 0; i < t->compilation->searched.count; i++)
        filter[i] = (kiln_db_filter){.task_key = t->compilation->searched.task[i].key,
                                     .target = kiln_str_from(t->target_text),
                                     .whose = KILN_DB_ANY};
    kiln_status st = kiln_db_open(t->db_path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    if (!st) st = kiln_bundle_export(db, filter, t->compilation->searched.count, &bytes);
    if (!st) st = kiln_client_put(t->client, kiln_strbuf_view(&bytes), out_digest);
    kiln_strbuf_deinit(&bytes);
    kiln_db_close(db);
    return st;
}

static kiln_status send_schedules(kiln_tune *t, kiln_digest *out_digest) {
    kiln_strbuf bytes = {0};
    if (!t->by_hand.items.count) return KILN_OK;
    kiln_status st = kiln_record_encode(KILN_RECORD_hand_schedules, &t->by_hand, &bytes);
    if (!st) st = kiln_client_put(t->client, kiln_strbuf_view(&bytes), out_digest);
    kiln_strbuf_deinit(&bytes);
    return kiln_status_note(st, "sending schedules");
}

/* What is left of the budget when the job begins: reading the model took some of it. */
static double seconds_left(const kiln_tune *t) {
    const double spent_s = (double)(kiln_clock_ns() - t->start_ns) / 1e9 + kiln_tune_kept_s(t);
    return t->options->seconds > 0 ? KILN_MAX(t->options->seconds - spent_s, 1e-3) : 0;
}

static kiln_status settle_target(kiln_tune *t, kiln_msg_job_spec *spec) {
    bool emulated = false;
    if (t->fleet) return KILN_OK;
    kiln_status st = kiln_boards_settle(t->client, &t->target, spec, t->process, &emulated);
    if (st || !emulated) return st;
    kiln_events_text(t->events, "only emulated boards can run it: times are labelled emulated");
    t->target_text = kiln_str_dup(t->process, spec->target);
    return KILN_OK;
}

/* The graph, or of a tracker that does not know graphs yet the model's file as it is. */
static kiln_status send_model(kiln_tune *t, kiln_msg_job_spec *spec) {
    const char *path = t->options->model;
    uint32_t version = kiln_client_version(t->client);
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = KILN_OK;
    if (version && version < KILN_PROTO_TAKES_GRAPHS) {
        kiln_str bytes = {0};
        spec->form = KILN_MODEL_FORM_ONNX;
        if (t->import.dim_count || t->import.loop_max)
            st = KILN_ERROR(UNIMPLEMENTED,
                            "the tracker speaks version %u of the protocol; --dim and --loop-max "
                            "need %u",
                            version, KILN_PROTO_TAKES_GRAPHS);
        if (!st) st = kiln_file_read(path, KILN_MODEL_FILE_BYTES_MAX, &scratch, &bytes);
        if (!st) st = kiln_client_put(t->client, bytes, &spec->model);
    } else {
        spec->form = KILN_MODEL_FORM_GRAPH;
        st = kiln_client_put_parts(t->client, &t->model.graph, 1, &spec->model);
    }
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "sending %s", path);
}

static kiln_status open_job(kiln_tune *t) {
    const kiln_tune_options *o = t->options;
    kiln_hash128 identity;
    kiln_msg_job_spec spec = {.model_name = kiln_model_title(o->model_name, o->model, t->process),
                              .target = kiln_str_from(t->target_text),
                              .searcher = kiln_str_from(o->search),
                              .trials = o->trials == KILN_TUNE_TRIALS_UNSAID
                                            ? 0
                                            : (uint32_t)KILN_MIN(o->trials, 100000000u),
                              .seed = o->seed,
                              .tasks = kiln_str_from(o->tasks),
                              .project = kiln_str_from(o->project),
                              .priority = (uint32_t)o->priority,
                              .weight = (uint32_t)o->weight,
                              .detach = o->detach,
                              .precision = (uint32_t)t->accuracy.precision,
                              .error_max = t->accuracy.error_max,
                              .exact = t->accuracy.exact,
                              .user = kiln_str_from(kiln_user_name(t->process))};
    kiln_strbuf calibration = {0};
    kiln_figures_encode(&t->target.calibration, &calibration);
    spec.figures = kiln_strbuf_end(&calibration, t->process);
    kiln_status st = kiln_boards_parse_on(o->on, t->process, &spec);
    if (!st) st = settle_target(t, &spec);
    if (!st) st = send_model(t, &spec);
    if (!st && !t->fleet) st = send_records(t, &spec.records);
    if (!st) st = send_schedules(t, &spec.by_hand);
    if (!st) st = kiln_rand_system(&identity, sizeof identity);
    if (st) return st;
    /* The same command means the same job, however long it took to read the model. */
    spec.seconds = o->job ? o->seconds - kiln_tune_kept_s(t) : seconds_left(t);
    if (o->job)
        memcpy(t->job, o->job, strlen(o->job) + 1);
    else
        kiln_hash128_print(identity, t->job);
    t->open = (kiln_message){.type = KILN_MSG_JOB_OPEN, .job_open = {kiln_str_from(t->job), spec}};
    kiln_message answer;
    st = kiln_client_ask(t->client, &t->open, t->process, &answer);
    /* A job of this name that ended runs anew, as NAME.RUN. */
    if (!st && o->detach && answer.type == KILN_MSG_JOB_STATE &&
        answer.job_state.job.size < sizeof t->job)
        memcpy(t->job, kiln_str_dup(t->process, answer.job_state.job),
               answer.job_state.job.size + 1);
    return st;
}

static kiln_status how_it_ended(const kiln_tune *t) {
    kiln_code code = KILN_INTERNAL;
    if (!t->done) return KILN_ERROR(CANCELLED, "stopped at once");
    if (t->end.code == 0) return KILN_OK;
    if (!kiln_code_from_wire(t->end.code, &code)) code = KILN_INTERNAL;
    return kiln_status_make(code, __FILE__, __LINE__, "%.*s", KILN_STR_ARG(t->end.text));
}

/* Follows the job to its end. The tracker itself ends jobs that nobody can serve. */
static kiln_status follow(kiln_tune *t) {
    kiln_status st = KILN_OK;
    while (!st && !t->done && t->interrupts < 2) {
        st = kiln_client_wait(t->client, TICK_NS);
        if (t->interrupts) cancel(t);
        if (t->fleet && (st || !t->done)) {
            kiln_status dead = kiln_private_fleet_check(t->fleet);
            if (dead) {
                kiln_status_free(st);
                st = dead;
            }
        }
    }
    if (!st) st = how_it_ended(t);
    return kiln_status_note(st, "job %s", t->job);
}

/* The tracker answers for the tuners that it gave our job to; a person's word goes before. */
static kiln_status trust_tuners(kiln_db *db, const kiln_db_trusting *tuners) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < tuners->count; i++)
        st = kiln_db_set_trust(db, tuners->signer[i], KILN_STR("tuner of a job"),
                               KILN_DB_TRUST_TRACKER, (int64_t)kiln_clock_wall_ns());
    return st;
}

kiln_status kiln_tune_bring_records(kiln_client *client, const kiln_tune_records *records,
                                    const char *db_path, kiln_events *events, kiln_arena *process) {
    kiln_db_import_counts counts = {0};
    kiln_str bytes = {0};
    kiln_db *db = NULL;
    if (kiln_digest_is_none(&records->blob)) return KILN_OK;
    const kiln_db_trusting tuners = kiln_db_trusting_read(records->signers, process);
    const kiln_db_project_trust word = {records->project,
                                        kiln_db_trusting_read(records->trusted, process)};
    const kiln_db_import_options options = {.now_wall_ns = (int64_t)kiln_clock_wall_ns(),
                                            .implausible = kiln_plausible_why_not,
                                            .context = kiln_plausible_create(),
                                            .project = &word};
    kiln_status st = kiln_client_get(client, &records->blob, process, &bytes);
    if (!st) st = kiln_db_open(db_path, KILN_DB_RECORDS, KILN_DB_WRITE, &db);
    if (!st) st = kiln_trust_own(db, process);
    if (!st) st = trust_tuners(db, &tuners);
    if (!st) st = kiln_db_limit_project_trust(db, &word);
    if (!st) st = kiln_bundle_import(db, bytes, &options, &counts);
    if (!st && counts.trusted < counts.records) {
        kiln_strbuf text = {0};
        kiln_db_import_print(&counts, &text);
        kiln_events_text(events, "the job brought %s", text.data);
        kiln_strbuf_deinit(&text);
    }
    kiln_db_close(db);
    kiln_plausible_destroy(options.context);
    return kiln_status_note(st, "importing the job's records");
}

/* The records come home, unless the fleet wrote them here itself. Also after a job that was
 * stopped. */
static kiln_status bring_records(kiln_tune *t) {
    if (t->fleet || !t->done) return KILN_OK;
    const kiln_str project = t->open.job_open.spec.project;
    const kiln_tune_records records = {t->end.records, t->end.signers,
                                       project.size ? project : KILN_STR(KILN_PROJECT_DEFAULT),
                                       t->end.trusted};
    return kiln_status_note(
        kiln_tune_bring_records(t->client, &records, t->db_path, t->events, t->process), "job %s",
        t->job);
}

static void close_job(kiln_tune *t) {
    if (!t->done) return;
    kiln_message close = {.type = KILN_MSG_JOB_CLOSE, .job_close = {kiln_str_from(t->job)}};
    kiln_client_send(t->client, &close);
}

static void stop_fleet(kiln_tune *t) {
    const char *crashed = kiln_private_fleet_stop(t->fleet);
    if (crashed) kiln_events_text(t->events, KILN_FLEET_CRASHED, crashed);
}

kiln_status kiln_tune_run_job(kiln_tune *t) {
    const kiln_tune_options *o = t->options;
    t->events->job = t->job;
    const kiln_private_fleet_options fleet = {.db_path = t->db_path, .target = &t->target};
    kiln_status st = o->tracker ? KILN_OK : kiln_private_fleet_start(&fleet, t->process, &t->fleet);
    kiln_client_options client = {.tracker = o->tracker ? o->tracker
                                             : t->fleet ? kiln_private_fleet_address(t->fleet)
                                                        : NULL,
                                  .key_file = o->key_file,
                                  .person = o->person,
                                  .insecure = o->insecure,
                                  .quiet = t->fleet != NULL,
                                  .waits = kiln_events_waits,
                                  .waits_context = t->events,
                                  .message = on_message,
                                  .context = t};
    if (!st) st = kiln_client_open(&client, t->process, &t->client);
    if (!st) {
        kiln_loop_on_signal(kiln_client_loop(t->client), SIGINT, on_signal, t);
        kiln_loop_on_signal(kiln_client_loop(t->client), SIGTERM, on_signal, t);
        st = open_job(t);
    }
    if (!st) kiln_fail_pass(KILN_FAIL_CLIENT_OPENED);
    if (!st && o->detach)
        kiln_events_result(t->events, json_pack("{s:s, s:s}", "event", "detached", "job", t->job));
    if (!st && !o->detach) st = follow(t);
    if (t->done) kiln_fail_pass(KILN_FAIL_CLIENT_DONE);
    kiln_status home = t->client ? bring_records(t) : KILN_OK;
    if (t->done) kiln_fail_pass(KILN_FAIL_CLIENT_KEPT);
    if (st)
        kiln_status_free(home); /* the first error is the one to show */
    else
        st = home;
    if (t->client) close_job(t);
    kiln_client_close(t->client);
    stop_fleet(t);
    t->end_ns = kiln_clock_ns();
    return st;
}
