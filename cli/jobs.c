/* Serves `kiln jobs`: tuning jobs of a tracker, also those that nobody waits for. */
#include "cli/jobs.h"

#include "base/clock.h"
#include "cli/serve.h"
#include "cli/tune.h"

#define WATCH_NS (UINT64_C(500) * KILN_NS_PER_MS)

static void say_job(kiln_tracker_call *c, const kiln_msg_job_row *job) {
    kiln_strbuf text = {0};
    kiln_record_print_json(KILN_RECORD_job_row, job, &text);
    kiln_events_result_text(c->events, text.data);
    kiln_strbuf_deinit(&text);
}

static void say_jobs(kiln_tracker_call *c, const kiln_msg_answer *answer) {
    for (uint32_t i = 0; i < answer->jobs.count; i++) say_job(c, &answer->jobs.item[i]);
}

static void say_nothing(kiln_tracker_call *c, const kiln_msg_answer *answer) {
    (void)c;
    (void)answer; /* that there is one is all that was asked */
}

static kiln_status jobs_list(kiln_tracker_call *c) {
    return kiln_tracker_ask_pages(c, KILN_TOPIC_JOBS, say_jobs);
}

static kiln_status jobs_show(kiln_tracker_call *c) {
    return kiln_tracker_ask_pages(c, KILN_TOPIC_JOB, say_jobs);
}

static kiln_status jobs_cancel(kiln_tracker_call *c) {
    kiln_status st =
        kiln_tracker_ask_pages(c, KILN_TOPIC_JOB, say_nothing); /* there is such a job */
    if (st) return st;
    kiln_message answer, stop = {.type = KILN_MSG_CANCEL,
                                 .cancel = {.scope = KILN_CANCEL_JOB,
                                            .id = kiln_str_from(c->id),
                                            .reason = KILN_STR("kiln jobs cancel")}};
    st = kiln_client_ask(c->client, &stop, c->process, &answer);
    return st ? st : jobs_show(c);
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
    kiln_tracker_call *call;
    job_end *end;
} follower;

/* Says what the job has done; at its end, its row. */
static void take_row(follower *f, const kiln_msg_job_row *job) {
    kiln_msg_job_event event = {.job = job->job,
                                .tasks = {job->tasks.item, job->tasks.count},
                                .faults = {job->faults.item, job->faults.count}};
    job_end *end = f->end;
    kiln_events_progress(f->call->events, &event, job->age_ms * KILN_NS_PER_MS);
    if (!has_ended(job) || end->ended) return;
    end->ended = true;
    end->records = (kiln_tune_records){job->records, kiln_str_copy(f->call->process, job->signers),
                                       kiln_str_copy(f->call->process, job->project),
                                       kiln_str_copy(f->call->process, job->trusted)};
    end->text = kiln_str_dup(f->call->process, job->text);
    if (!kiln_code_from_wire(job->code, &end->code)) end->code = KILN_INTERNAL;
    say_job(f->call, job);
}

static void on_change(void *context, const kiln_msg_change *change) {
    for (uint32_t i = 0; i < change->jobs.count; i++) take_row(context, &change->jobs.item[i]);
}

/* One look at the job, where the tracker does not tell by itself. */
static kiln_status look(follower *f) {
    kiln_message question = {.type = KILN_MSG_QUERY,
                             .query = {KILN_TOPIC_JOB, kiln_str_from(f->call->id), 0}};
    kiln_message answer = {0};
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_status st = kiln_client_ask(f->call->client, &question, &scratch, &answer);
    if (!st && (answer.type != KILN_MSG_ANSWER || answer.answer.jobs.count != 1))
        st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer.type));
    if (!st) take_row(f, &answer.answer.jobs.item[0]);
    kiln_arena_deinit(&scratch);
    return st;
}

/* Follows a job that somebody opened. SIGINT ends the watching, not the job. */
static kiln_status follow(kiln_tracker_call *c, job_end *end) {
    follower f = {.call = c, .end = end};
    c->events->job = c->id;
    bool told = kiln_tracker_watch(c, KILN_TOPIC_JOB, on_change, &f);
    kiln_status st = told ? KILN_OK : look(&f);
    while (!st && !end->ended && !c->stopped) {
        st = kiln_tracker_watch_on(c, WATCH_NS);
        if (!st && !told && !c->stopped) st = look(&f);
    }
    c->change = NULL;
    return st;
}

static kiln_status jobs_watch(kiln_tracker_call *c) {
    job_end end = {0};
    return follow(c, &end);
}

/* What the person who detached would have got: the records, here, and how it ended. */
static kiln_status jobs_attach(kiln_tracker_call *c) {
    job_end end = {0};
    const char *db = NULL;
    kiln_status st = kiln_db_path(c->db, c->process, &db);
    if (!st) st = follow(c, &end);
    if (st || !end.ended) return st;
    st = kiln_tune_bring_records(c->client, &end.records, db, c->events, c->process);
    if (st || end.code == KILN_OK) return st;
    return kiln_status_make(end.code, __FILE__, __LINE__, "%s", end.text);
}

static const kiln_tracker_command actions[] = {
    {"list", false, jobs_list, false},    {"show", true, jobs_show, false},
    {"watch", true, jobs_watch, false},   {"attach", true, jobs_attach, false},
    {"cancel", true, jobs_cancel, false},
};
const kiln_tracker_commands kiln_jobs_commands = {
    .command = "jobs",
    .usage = "kiln jobs [list|show ID|watch ID|attach ID|cancel ID] [--tracker ADDR]",
    .summary = "Looks at tuning jobs: all, one, one until it ends, where attach also brings its "
               "records into --db; or ends it.",
    .action = actions,
    .count = KILN_ARRAY_COUNT(actions),
    .takes_db = true};

kiln_status kiln_serve_jobs(const kiln_served *served) {
    kiln_tracker_call call;
    const kiln_tracker_command *action = NULL;
    kiln_status st = kiln_tracker_call_parse(&kiln_jobs_commands, served->process, served->argc,
                                             served->argv, &call, &action);
    if (st || !action) return st;
    call.events = served->events;
    return kiln_tracker_call_run(&call, action);
}
