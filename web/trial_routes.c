/* Routes for the trials of a job or a task as columns, and for one trial. */
#include "web/record_rows.h"
#include "web/records.h"

#define TRIALS_DEFAULT 10000u

typedef struct columns {
    kiln_question *question;
    bool is_of_task; /* with what differs between schedules of one task */
    int64_t last_row;
    uint32_t count;
} columns;

/* Nine digits are more than a measurement has. */
static void add_number(kiln_strbuf *out, double value) {
    kiln_strbuf_printf(out, ",%.9g", value - value == 0 ? value : 0);
}

static void add_text(kiln_strbuf *out, kiln_str text) {
    kiln_strbuf_char(out, ',');
    kiln_db_text_print_json(text, out);
}

static void add_schedule(const kiln_db_trial *t, kiln_strbuf *out) {
    const double rate = t->median_ns > 0 ? t->flops / t->median_ns : 0; /* GFLOP/s */
    add_text(out, t->trial_id);
    add_text(out, t->job_id);
    add_text(out, t->algorithm);
    add_text(out, t->layout_in);
    add_text(out, t->layout_out);
    add_number(out, rate);
    add_number(out, t->peak_flops > 0 ? rate * 1e9 / t->peak_flops : 0);
    add_number(out, t->gain_low);
    add_number(out, t->relative_error);
    add_number(out, t->search_ns + t->train_ns);
    add_number(out, t->build_ns);
    add_number(out, t->board_ns);
    kiln_strbuf_printf(out, ",%lld,%lld,%lld,%lld", (long long)t->threads, (long long)t->registers,
                       (long long)t->spill_bytes, (long long)t->shared_bytes);
}

/* In the order of the names in print_head. */
static kiln_status add_trial(void *context, const kiln_db_trial *t) {
    columns *c = context;
    kiln_strbuf *out = &c->question->out;
    kiln_strbuf_printf(out, "%s[%lld", c->count++ ? "," : "", (long long)t->row);
    add_text(out, t->task_key);
    kiln_strbuf_printf(out, ",%lld,%lld", (long long)t->trial_index,
                       (long long)(t->stored_wall_ns / 1000000));
    add_text(out, t->outcome);
    add_number(out, t->is_checked ? t->median_ns : 0);
    kiln_strbuf_printf(out, ",%d,%d", t->is_raced, t->is_final);
    add_text(out, t->searcher);
    if (c->is_of_task)
        add_schedule(t, out);
    else
        add_number(out, t->board_ns);
    kiln_strbuf_char(out, ']');
    c->last_row = t->row;
    return KILN_OK;
}

/* Numbers of a task's trials over which they can be drawn. */
#define FEATURES                                                                               \
    "\"gflops\",\"share_of_peak\",\"gain_low\",\"relative_error\",\"search_ns\",\"build_ns\"," \
    "\"board_ns\",\"threads\",\"registers\",\"spill_bytes\",\"shared_bytes\""

static void print_head(const columns *c, kiln_strbuf *out) {
    kiln_strbuf_text(out, "{\"columns\":[\"row\",\"task\",\"trial\",\"time_ms\",\"outcome\","
                          "\"median_ns\",\"raced\",\"final\",\"searcher\"");
    if (c->is_of_task)
        kiln_strbuf_text(
            out, ",\"trial_id\",\"job\",\"algorithm\",\"layout_in\",\"layout_out\"," FEATURES
                 "],\"features\":[" FEATURES);
    else
        kiln_strbuf_text(out, ",\"board_ns\""); /* what the job has cost */
    kiln_strbuf_text(out, "],\"rows\":[");
}

static kiln_status answer_trials(kiln_db *db, kiln_question *q, kiln_db_trial_filter filter) {
    columns c = {.question = q, .is_of_task = filter.task_key.size > 0};
    filter.projects = q->projects;
    filter.after_row = (int64_t)kiln_call_u64(q->call, "since", 0);
    filter.limit = (uint32_t)kiln_call_u64(q->call, "limit", TRIALS_DEFAULT);
    c.last_row = filter.after_row;
    if (!filter.limit) return KILN_ERROR(INVALID_ARGUMENT, "limit is at least 1");
    print_head(&c, &q->out);
    kiln_status st = kiln_db_trials(db, &filter, add_trial, &c);
    kiln_strbuf_printf(&q->out, "],\"next\":%lld,\"more\":%s}", (long long)c.last_row,
                       c.count == filter.limit ? "true" : "false");
    return st;
}

static kiln_status answer_job_trials(kiln_db *db, kiln_question *q) {
    kiln_db_trial_filter filter = {0};
    kiln_status st =
        kiln_db_newest_run(db, kiln_call_text(q->call, "id"), &q->arena, &filter.job_id);
    return st ? st : answer_trials(db, q, filter);
}

static kiln_status answer_task_trials(kiln_db *db, kiln_question *q) {
    kiln_db_trial_filter filter = {.task_key = kiln_call_text(q->call, "key"),
                                   .target = kiln_call_text(q->call, "target"),
                                   .job_id = kiln_call_text(q->call, "job")};
    kiln_status st = KILN_OK;
    if (filter.job_id.size) st = kiln_db_newest_run(db, filter.job_id, &q->arena, &filter.job_id);
    return st ? st : answer_trials(db, q, filter);
}

void kiln_web_job_trials(kiln_call *call) { kiln_records_ask(call, answer_job_trials); }
void kiln_web_task_trials(kiln_call *call) { kiln_records_ask(call, answer_task_trials); }

static kiln_status answer_trial(kiln_db *db, kiln_question *q) {
    const kiln_db_filter filter = {.trial_id = kiln_call_text(q->call, "id"),
                                   .whose = KILN_DB_ANY,
                                   .order = KILN_DB_NEWEST,
                                   .limit = 1,
                                   .projects = q->projects};
    kiln_record_describer describer = {.db = db, .arena = &q->arena};
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    kiln_status st = kiln_db_records(db, &filter, &q->arena, &record, &count);
    if (!st && !count) st = KILN_ERROR(NOT_FOUND, "there is no such trial");
    return st ? st : kiln_record_print(&describer, record, &q->out);
}

void kiln_web_trial(kiln_call *call) { kiln_records_ask(call, answer_trial); }
