/* Serves what is asked of a tracker's jobs, also of those that nobody waits for. */
#include "base/clock.h"
#include "cli/common/records.h"
#include "cli/common/tracker_call.h"
#include "cli/worker/serve.h"
#include "cli/worker/tune.h"

#define WATCH_NS (UINT64_C(500) * KILN_NS_PER_MS)

typedef struct jobs_call {
    kiln_tracker_call tracker;
    kiln_events *events;
    const char *db; /* NULL: the default one */
} jobs_call;

static void say_job(kiln_events *events, const kiln_msg_job_row *job) {
    kiln_strbuf text = {0};
    kiln_record_print_json(KILN_RECORD_job_row, job, &text);
    kiln_events_result_text(events, text.data);
    kiln_strbuf_deinit(&text);
}

/* kiln_page_taker, with the events. */
static void say_jobs(void *events, const kiln_msg_answer *answer) {
    for (uint32_t i = 0; i < answer->jobs.count; i++) say_job(events, &answer->jobs.item[i]);
}

static kiln_status list(jobs_call *c) {
    return kiln_tracker_ask_pages(&c->tracker, KILN_TOPIC_JOBS, say_jobs, c->events);
}

static kiln_status show(jobs_call *c) {
    return kiln_tracker_ask_pages(&c->tracker, KILN_TOPIC_JOB, say_jobs, c->events);
}

static kiln_status cancel(jobs_call *c) {
    kiln_message answer, stop = {.type = KILN_MSG_CANCEL,
                                 .cancel = {.scope = KILN_CANCEL_JOB,
                                            .id = kiln_str_from(c->tracker.id),
                                            .reason = KILN_STR("kiln jobs cancel")}};
    kiln_status st = kiln_client_ask(c->tracker.client, &stop, c->tracker.process, &answer);
    return st ? st : show(c);
}

static bool has_ended(const kiln_msg_job_row *job) {
    return kiln_str_is(job->state, "done") || kiln_str_is(job->state, "failed") ||
           kiln_str_is(job->state, "cancelled");
}

/* What a job's end left. */
typedef struct job_end {
    bool ended;
    kiln_code code;
    kiln_tune_records records;
    char *text;
} job_end;

/* Somebody follows a job. */
typedef struct follower {
    jobs_call *call;
    job_end *end;
} follower;

/* Says what the job has done; at its end, its row. */
static void take_row(follower *f, const kiln_msg_job_row *job) {
    kiln_msg_job_event event = {.job = job->job,
                                .tasks = {job->tasks.item, job->tasks.count},
                                .faults = {job->faults.item, job->faults.count}};
    kiln_arena *process = f->call->tracker.process;
    job_end *end = f->end;
    kiln_events_progress(f->call->events, &event, job->age_ms * KILN_NS_PER_MS);
    if (!has_ended(job) || end->ended) return;
    end->ended = true;
    end->records = (kiln_tune_records){job->records, kiln_str_copy(process, job->signers),
                                       kiln_str_copy(process, job->project),
                                       kiln_str_copy(process, job->trusted)};
    end->text = kiln_str_dup(process, job->text);
    if (!kiln_code_from_wire(job->code, &end->code)) end->code = KILN_INTERNAL;
    say_job(f->call->events, job);
}

static void on_change(void *context, const kiln_msg_change *change) {
    for (uint32_t i = 0; i < change->jobs.count; i++) take_row(context, &change->jobs.item[i]);
}

/* One look at the job, where the tracker does not tell by itself. */
static kiln_status look(follower *f) {
    kiln_message question = {.type = KILN_MSG_QUERY,
                             .query = {KILN_TOPIC_JOB, kiln_str_from(f->call->tracker.id), 0}};
    kiln_message answer = {0};
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_client_ask(f->call->tracker.client, &question, &scratch, &answer);
    if (!st && (answer.type != KILN_MSG_ANSWER || answer.answer.jobs.count != 1))
        st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer.type));
    if (!st) take_row(f, &answer.answer.jobs.item[0]);
    kiln_arena_deinit(&scratch);
    return st;
}

/* Follows a job that somebody opened. SIGINT ends the watching, not the job. */
static kiln_status follow(jobs_call *c, job_end *end) {
    follower f = {.call = c, .end = end};
    kiln_tracker_call *tracker = &c->tracker;
    c->events->job = tracker->id;
    bool told = kiln_tracker_watch(tracker, KILN_TOPIC_JOB, on_change, &f);
    kiln_status st = told ? KILN_OK : look(&f);
    while (!st && !end->ended && !tracker->stopped) {
        st = kiln_tracker_watch_on(tracker, WATCH_NS);
        if (!st && !told && !tracker->stopped) st = look(&f);
    }
    tracker->change = NULL;
    return st;
}

static kiln_status watch(jobs_call *c) {
    job_end end = {0};
    return follow(c, &end);
}

/* What the person who detached would have got: the records, here, and how it ended. */
static kiln_status attach(jobs_call *c) {
    kiln_arena *process = c->tracker.process;
    job_end end = {0};
    const char *db = NULL;
    kiln_status st = kiln_db_path(c->db, process, &db);
    if (!st) st = follow(c, &end);
    if (st || !end.ended) return st;
    st = kiln_tune_bring_records(c->tracker.client, &end.records, db, c->events, process);
    if (st || end.code == KILN_OK) return st;
    return kiln_status_make(end.code, __FILE__, __LINE__, "%s", end.text);
}

static kiln_status serve(const kiln_served *served, kiln_status (*run)(jobs_call *call)) {
    bool json; /* a host's own matter */
    jobs_call c = {
        .tracker = {.client_options = {.waits = kiln_events_waits, .waits_context = served->events},
                    .process = served->process,
                    .id = *served->subject ? served->subject : NULL},
        .events = served->events};
    const kiln_opt option[] = {
        KILN_CLIENT_OPTIONS(&c.tracker.client_options),
        {"json", KILN_OPT_FLAG, &json, NULL, NULL},
        {"db", KILN_OPT_TEXT, &c.db, "PATH", NULL},
    };
    const kiln_opt_table table = {.option = option, .option_count = KILN_ARRAY_COUNT(option)};
    kiln_status st = kiln_served_options(served, &table);
    if (st) return st;
    st = kiln_tracker_call_open(&c.tracker);
    if (!st && c.tracker.id) st = kiln_tracker_complete_id(&c.tracker, KILN_TOPIC_JOB);
    if (!st) st = run(&c);
    kiln_tracker_call_close(&c.tracker);
    return st;
}

kiln_status kiln_serve_jobs(const kiln_served *served) { return serve(served, list); }
kiln_status kiln_serve_job(const kiln_served *served) { return serve(served, show); }
kiln_status kiln_serve_cancel(const kiln_served *served) { return serve(served, cancel); }
kiln_status kiln_serve_watch(const kiln_served *served) { return serve(served, watch); }
kiln_status kiln_serve_attach(const kiln_served *served) { return serve(served, attach); }
