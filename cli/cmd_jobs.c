/* kiln jobs: tuning jobs of a tracker, also those that nobody waits for. */
#include <stdio.h>

#include "base/clock.h"
#include "cli/display.h"
#include "cli/tracker_call.h"
#include "cli/tune.h"

#define WATCH_NS (UINT64_C(500) * KILN_NS_PER_MS)

static void print_job(const kiln_msg_job_row *j) {
    kiln_strbuf eta = {0};
    if (j->eta_ms) {
        kiln_strbuf_text(&eta, ", ");
        kiln_print_time((double)j->eta_ms * 1e6, &eta);
        kiln_strbuf_text(&eta, " left");
    }
    printf("%-32.*s %-9.*s %6u trials  %-20.*s %-8.*s %.*s of %.*s  %s%.*s%s\n",
           KILN_STR_ARG(j->job), KILN_STR_ARG(j->state), j->done, KILN_STR_ARG(j->model_name),
           KILN_STR_ARG(j->searcher), KILN_STR_ARG(j->user), KILN_STR_ARG(j->project),
           j->text.size ? "- " : "", KILN_STR_ARG(j->text), eta.size ? eta.data : "");
    kiln_strbuf_deinit(&eta);
}

static void print_jobs(const kiln_msg_answer *answer, bool json) {
    for (uint32_t i = 0; i < answer->jobs.count; i++) {
        const kiln_msg_job_row *j = &answer->jobs.item[i];
        if (json)
            kiln_print_record(KILN_RECORD_job_row, j);
        else
            print_job(j);
        for (uint32_t k = 0; !json && k < j->tasks.count; k++) {
            const kiln_msg_task_state *t = &j->tasks.item[k];
            printf("  %-35.*s %-26.*s %u of %u trials, %u failed, best %.3f ms\n",
                   KILN_STR_ARG(t->key), KILN_STR_ARG(t->op), t->done, t->planned, t->failed,
                   t->best_ns / 1e6);
        }
        for (uint32_t k = 0; !json && k < j->faults.count; k++)
            printf("  %-35.*s cannot be measured: %.*s\n", KILN_STR_ARG(j->faults.item[k].key),
                   KILN_STR_ARG(j->faults.item[k].text));
    }
    if (!json && answer->total == 0) printf("no jobs\n");
}

static kiln_status jobs_list(kiln_tracker_call *c) {
    return kiln_tracker_ask_pages(c, KILN_TOPIC_JOBS, print_jobs);
}

static kiln_status jobs_show(kiln_tracker_call *c) {
    return kiln_tracker_ask_pages(c, KILN_TOPIC_JOB, print_jobs);
}

static kiln_status jobs_cancel(kiln_tracker_call *c) {
    kiln_status st =
        kiln_tracker_ask_pages(c, KILN_TOPIC_JOB, kiln_print_nothing); /* there is such a job */
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
    kiln_display display;
    job_end *end;
} follower;

/* What the job has done goes to the display; at its end its row is printed. */
static void take_row(follower *f, const kiln_msg_job_row *job) {
    kiln_msg_job_event event = {.job = job->job,
                                .tasks = {job->tasks.item, job->tasks.count},
                                .faults = {job->faults.item, job->faults.count}};
    kiln_msg_answer answer = {.total = 1};
    job_end *end = f->end;
    f->display.start_ns = kiln_clock_ns() - job->age_ms * KILN_NS_PER_MS;
    kiln_display_update(&f->display, &event);
    if (!has_ended(job) || end->ended) return;
    end->ended = true;
    end->records = (kiln_tune_records){job->records, kiln_str_copy(f->call->process, job->signers),
                                       kiln_str_copy(f->call->process, job->project),
                                       kiln_str_copy(f->call->process, job->trusted)};
    end->text = kiln_str_dup(f->call->process, job->text);
    if (!kiln_code_from_wire(job->code, &end->code)) end->code = KILN_INTERNAL;
    kiln_display_finish(&f->display);
    kiln_msg_job_row row = *job;
    answer.jobs.item = &row;
    answer.jobs.count = 1;
    print_jobs(&answer, f->call->json);
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

/* Follows a job that somebody opened. Ctrl-C ends the watching, not the job. */
static kiln_status follow(kiln_tracker_call *c, job_end *end) {
    follower f = {.call = c, .end = end};
    kiln_display_init(&f.display, &(kiln_display_options){.json = c->json, .process = c->process});
    bool told = kiln_tracker_watch(c, KILN_TOPIC_JOB, on_change, &f);
    kiln_status st = told ? KILN_OK : look(&f);
    while (!st && !end->ended && !c->stopped && !ferror(stdout)) {
        kiln_display_tick(&f.display);
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
    st = kiln_tune_bring_records(c->client, &end.records, db, c->process);
    if (st || end.code == KILN_OK) return st;
    return kiln_status_make(end.code, __FILE__, __LINE__, "%s", end.text);
}

kiln_status kiln_cmd_jobs(kiln_arena *process, int argc, char **argv) {
    static const kiln_tracker_command actions[] = {
        {"list", false, jobs_list, false},    {"show", true, jobs_show, false},
        {"watch", true, jobs_watch, false},   {"attach", true, jobs_attach, false},
        {"cancel", true, jobs_cancel, false},
    };
    static const kiln_tracker_commands table = {
        .command = "jobs",
        .usage = "kiln jobs [list|show ID|watch ID|attach ID|cancel ID] [--tracker ADDR]",
        .summary =
            "Looks at tuning jobs: all, one, one until it ends, where attach also brings its "
            "records into --db; or ends it.",
        .action = actions,
        .count = KILN_ARRAY_COUNT(actions),
        .takes_db = true};
    return kiln_tracker_call_run(&table, process, argc, argv);
}
