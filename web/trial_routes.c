/* Routes for the trials of a job or a task as columns, and for one trial. */
#include "base/map.h"
#include "web/record_rows.h"
#include "web/records.h"

#define TRIALS_DEFAULT 10000u

/* Texts that repeat, as numbers: in the answer they stand once. */
typedef struct word_list {
    kiln_map number;
    KILN_VEC(kiln_str) words;
} word_list;

static uint64_t number_of(word_list *list, kiln_str word, kiln_arena *arena) {
    uint64_t number = list->words.count;
    if (kiln_map_find(&list->number, word, &number)) return number;
    const kiln_str copy = kiln_str_copy(arena, word);
    kiln_vec_push_in(arena, &list->words, copy);
    kiln_map_put(&list->number, copy, number);
    return number;
}

static void print_words(const char *name, const word_list *list, kiln_strbuf *out) {
    kiln_strbuf_printf(out, ",\"%s\":[", name);
    for (uint32_t i = 0; i < list->words.count; i++) {
        if (i) kiln_strbuf_char(out, ',');
        kiln_db_text_print_json(list->words.data[i], out);
    }
    kiln_strbuf_char(out, ']');
}

typedef struct columns {
    kiln_question *question;
    bool is_of_task; /* with what differs between schedules of one task */
    int64_t last_row;
    uint32_t count;
    word_list tasks, targets, searchers, outcomes, algorithms, layouts;
} columns;

static void init_lists(columns *c) {
    kiln_map_init(&c->tasks.number);
    kiln_map_init(&c->targets.number);
    kiln_map_init(&c->searchers.number);
    kiln_map_init(&c->outcomes.number);
    kiln_map_init(&c->algorithms.number);
    kiln_map_init(&c->layouts.number);
}

static void deinit_lists(columns *c) {
    kiln_map_deinit(&c->tasks.number);
    kiln_map_deinit(&c->targets.number);
    kiln_map_deinit(&c->searchers.number);
    kiln_map_deinit(&c->outcomes.number);
    kiln_map_deinit(&c->algorithms.number);
    kiln_map_deinit(&c->layouts.number);
}

/* Nine digits are more than a measurement has. */
static void add_number(kiln_strbuf *out, double value) {
    kiln_strbuf_printf(out, ",%.9g", value - value == 0 ? value : 0);
}

static void add_word(columns *c, word_list *list, kiln_str word) {
    kiln_strbuf_printf(&c->question->out, ",%llu",
                       (unsigned long long)number_of(list, word, &c->question->arena));
}

/* In the order of the names in print_head. */
static kiln_status add_trial(void *context, const kiln_db_trial *t) {
    columns *c = context;
    kiln_strbuf *out = &c->question->out;
    kiln_strbuf_printf(out, "%s[%lld,", c->count++ ? "," : "", (long long)t->row);
    kiln_db_text_print_json(t->trial_id, out);
    add_word(c, &c->tasks, t->task_key);
    add_word(c, &c->targets, t->target);
    kiln_strbuf_printf(out, ",%lld", (long long)t->trial_index);
    add_word(c, &c->outcomes, t->outcome);
    add_number(out, t->is_checked || t->median_ns <= 0 ? t->median_ns : 0);
    kiln_strbuf_printf(out, ",%d,%d", t->is_raced, t->is_final);
    add_number(out, t->gain_low);
    add_word(c, &c->searchers, t->searcher);
    kiln_strbuf_printf(out, ",%lld", (long long)(t->stored_wall_ns / 1000000));
    add_number(out, t->search_ns + t->train_ns);
    add_number(out, t->build_ns);
    add_number(out, t->board_ns);
    if (c->is_of_task) {
        add_word(c, &c->algorithms, t->algorithm);
        add_word(c, &c->layouts, t->layout_in);
        add_word(c, &c->layouts, t->layout_out);
        kiln_strbuf_printf(out, ",%lld", (long long)t->threads);
        add_number(out, t->median_ns > 0 ? t->flops / t->median_ns : 0);
        add_number(out, t->median_ns > 0 && t->peak_flops > 0
                            ? t->flops / t->median_ns * 1e9 / t->peak_flops
                            : 0);
        add_number(out, t->relative_error);
        kiln_strbuf_printf(out, ",%lld,%lld,%lld", (long long)t->registers,
                           (long long)t->spill_bytes, (long long)t->shared_bytes);
    }
    kiln_strbuf_char(out, ']');
    c->last_row = t->row;
    return KILN_OK;
}

static void print_head(const columns *c, kiln_strbuf *out) {
    kiln_strbuf_text(out,
                     "{\"columns\":[\"row\",\"trial\",\"task\",\"target\",\"index\",\"outcome\","
                     "\"median_ns\",\"raced\",\"final\",\"gain_low\",\"searcher\",\"stored_ms\","
                     "\"search_ns\",\"build_ns\",\"board_ns\"");
    if (c->is_of_task)
        kiln_strbuf_text(out, ",\"algorithm\",\"layout_in\",\"layout_out\",\"threads\",\"gflops\","
                              "\"share_of_peak\",\"relative_error\",\"registers\",\"spill_bytes\","
                              "\"shared_bytes\"");
    kiln_strbuf_text(out, "],\"rows\":[");
}

static kiln_status answer_trials(kiln_db *db, kiln_question *q, kiln_db_trial_filter filter) {
    columns c = {.question = q, .is_of_task = filter.task_key.size > 0};
    filter.projects = q->projects;
    filter.after_row = (int64_t)kiln_call_u64(q->call, "since", 0);
    filter.limit = (uint32_t)kiln_call_u64(q->call, "limit", TRIALS_DEFAULT);
    c.last_row = filter.after_row;
    if (!filter.limit) return KILN_ERROR(INVALID_ARGUMENT, "limit is at least 1");
    init_lists(&c);
    print_head(&c, &q->out);
    kiln_status st = kiln_db_trials(db, &filter, add_trial, &c);
    kiln_strbuf_printf(&q->out, "],\"next\":%lld,\"more\":%s", (long long)c.last_row,
                       c.count == filter.limit ? "true" : "false");
    print_words("tasks", &c.tasks, &q->out);
    print_words("targets", &c.targets, &q->out);
    print_words("searchers", &c.searchers, &q->out);
    print_words("outcomes", &c.outcomes, &q->out);
    if (c.is_of_task) {
        print_words("algorithms", &c.algorithms, &q->out);
        print_words("layouts", &c.layouts, &q->out);
    }
    kiln_strbuf_char(&q->out, '}');
    deinit_lists(&c);
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
