/* Questions of people about the records of this tuner (`kiln db best --tracker`). The tracker says
 * which projects they may read. No decision is needed, so that the step does not see them. */
#include "base/alloc.h"
#include "base/log.h"
#include "base/mpack.h"
#include "base/outcome.h"
#include "db/bundle.h"
#include "tuner/shell.h"

_Static_assert(KILN_OUTCOME_COUNT <= KILN_MESSAGES_OUTCOMES &&
                   KILN_DB_ORIGIN_COUNT <= KILN_MESSAGES_OUTCOMES,
               "counts of a page have room for each");

#define HISTORY_MAX 10000u /* rows that may be skipped: each costs as much as one that is sent */

/* A question under way. */
typedef struct question {
    kiln_shell *shell;
    kiln_arena arena;
    kiln_msg_records_ask ask; /* in the arena */
    kiln_msg_records_page page;
    kiln_strbuf rows;
    kiln_status status;
} question;

static bool is_listed(const kiln_str *seen, uint32_t count, kiln_str id) {
    for (uint32_t i = 0; i < count; i++)
        if (kiln_str_equal(seen[i], id)) return true;
    return false;
}

/* What a page has of the parents of its records. */
typedef struct page_writer {
    question *q;
    kiln_str task[KILN_MESSAGES_PAGE], job[KILN_MESSAGES_PAGE];
    uint32_t tasks, jobs, rows;
    kiln_strbuf bytes;
} page_writer;

static kiln_status write_task(page_writer *w, kiln_str key) {
    kiln_db_task task = {0};
    bool found = false;
    if (is_listed(w->task, w->tasks, key)) return KILN_OK;
    kiln_status st = kiln_db_find_task(w->q->shell->db, key, &w->q->arena, &task, &found);
    if (st) return st;
    w->task[w->tasks++] = key;
    if (found) kiln_bundle_row(KILN_DB_TABLE_TASK, &task, &w->bytes);
    w->rows += found;
    return KILN_OK;
}

static kiln_status write_job(page_writer *w, kiln_str id) {
    kiln_db_job job = {0};
    bool found = false;
    if (id.size == 0 || is_listed(w->job, w->jobs, id)) return KILN_OK;
    kiln_status st = kiln_db_find_job(w->q->shell->db, id, &w->q->arena, &job, &found);
    if (st) return st;
    w->job[w->jobs++] = id;
    if (found) kiln_bundle_row(KILN_DB_TABLE_JOB, &job, &w->bytes);
    w->rows += found;
    return KILN_OK;
}

/* As many records as fit one page; at least one. */
static kiln_status write_page(question *q, const kiln_db_record *record, uint32_t count) {
    page_writer w = {.q = q};
    kiln_status st = KILN_OK;
    size_t whole = 0; /* bytes up to the last record that fits, and rows */
    uint32_t whole_rows = 0;
    for (uint32_t i = 0; !st && i < count && i < KILN_MESSAGES_PAGE; i++) {
        st = write_task(&w, record[i].task_key);
        if (!st) st = write_job(&w, record[i].job_id);
        kiln_bundle_row(KILN_DB_TABLE_RECORD, &record[i], &w.bytes);
        w.rows++;
        if (w.bytes.size > KILN_MESSAGES_ROWS - 8) break;
        whole = w.bytes.size;
        whole_rows = w.rows;
        q->page.count = i + 1;
    }
    if (!st && count && q->page.count == 0)
        st = KILN_ERROR(RESOURCE_EXHAUSTED, "record %.*s is too large for a message",
                        KILN_STR_ARG(record[0].trial_id));
    kiln_mpack_write_array(&q->rows, whole_rows);
    kiln_strbuf_append(&q->rows, w.bytes.data, whole);
    q->page.rows = kiln_strbuf_view(&q->rows);
    q->page.more = q->page.count < count;
    kiln_strbuf_deinit(&w.bytes);
    return st;
}

static kiln_db_projects readable(question *q) {
    const uint32_t count = q->ask.projects.count;
    kiln_str *name = KILN_ARENA_ARRAY(&q->arena, kiln_str, count + 1);
    for (uint32_t i = 0; i < count; i++) name[i] = q->ask.projects.item[i].id;
    return (kiln_db_projects){name, count};
}

/* Records from `offset` on, one more than a page has, so that it is known whether more follow. */
static kiln_status answer_records(question *q, const kiln_db_projects *projects) {
    const kiln_msg_records_ask *ask = &q->ask;
    const uint32_t left = ask->limit ? ask->limit - KILN_MIN(ask->limit, ask->offset) : UINT32_MAX;
    kiln_db_filter filter = {.task_key = ask->task,
                             .target = ask->target,
                             .allowed = {ask->algorithms, ask->error_max},
                             .projects = projects,
                             .limit = KILN_MIN(left, KILN_MESSAGES_PAGE + 1u),
                             .offset = ask->offset};
    kiln_db_record *record = NULL;
    uint32_t count = 0;
    kiln_status st = KILN_OK;
    if (left == 0) return write_page(q, NULL, 0);
    if (ask->offset > HISTORY_MAX)
        return KILN_ERROR(OUT_OF_RANGE,
                          "at most %u records are shown from afar: name a task, or --limit",
                          HISTORY_MAX);
    if (ask->question == KILN_RECORDS_BEST) {
        filter.limit = filter.offset = 0;
        filter.order = KILN_DB_FASTEST;
        st = kiln_db_best(q->shell->db, &filter, &q->arena, &record, &count);
        const uint32_t skipped = KILN_MIN(count, ask->offset);
        if (!st) st = write_page(q, record + skipped, KILN_MIN(count - skipped, left));
        return st;
    }
    filter.order = ask->question == KILN_RECORDS_TOP ? KILN_DB_FASTEST : KILN_DB_OLDEST;
    if (ask->question == KILN_RECORDS_HISTORY) filter.whose = KILN_DB_ANY;
    st = kiln_db_records(q->shell->db, &filter, &q->arena, &record, &count);
    return st ? st : write_page(q, record, count);
}

static void add_count(kiln_msg_setting *list, uint32_t *count, const char *name, int64_t value) {
    if (value > 0) list[(*count)++] = (kiln_msg_setting){kiln_str_from(name), (uint64_t)value};
}

static kiln_msg_records_stat stat_row(question *q, const kiln_db_stat *stat) {
    kiln_msg_setting *outcome = KILN_ARENA_ARRAY(&q->arena, kiln_msg_setting, KILN_OUTCOME_COUNT),
                     *origin = KILN_ARENA_ARRAY(&q->arena, kiln_msg_setting, KILN_DB_ORIGIN_COUNT);
    kiln_msg_records_stat row = {.task = stat->task_key,
                                 .op = kiln_str_slice(stat->op, 0, KILN_MESSAGES_NAME),
                                 .target = stat->target,
                                 .records = (uint64_t)stat->record_count,
                                 .best_ns = stat->best_ns};
    for (unsigned i = 0; i < KILN_OUTCOME_COUNT; i++)
        add_count(outcome, &row.outcomes.count, kiln_outcome_name((kiln_outcome)i),
                  stat->outcome_count[i]);
    for (unsigned i = 0; i < KILN_DB_ORIGIN_COUNT; i++)
        add_count(origin, &row.origins.count, kiln_db_origin_name((kiln_db_origin)i),
                  stat->origin_count[i]);
    row.outcomes.item = outcome;
    row.origins.item = origin;
    return row;
}

static kiln_status answer_stats(question *q, const kiln_db_projects *projects) {
    kiln_db_stat *stat = NULL;
    uint32_t count = 0;
    kiln_status st = kiln_db_stats_of(q->shell->db, projects, &q->arena, &stat, &count);
    if (st) return st;
    kiln_msg_records_stat *row =
        KILN_ARENA_ARRAY(&q->arena, kiln_msg_records_stat, KILN_MESSAGES_STATS);
    const uint32_t first = KILN_MIN(q->ask.offset, count);
    q->page.count = KILN_MIN(count - first, KILN_MESSAGES_STATS);
    for (uint32_t i = 0; i < q->page.count; i++) row[i] = stat_row(q, &stat[first + i]);
    q->page.stats.item = row;
    q->page.stats.count = q->page.count;
    q->page.more = first + q->page.count < count;
    return KILN_OK;
}

/* On the io_thread. */
static void read_records(void *context) {
    question *q = context;
    const kiln_db_projects projects = readable(q);
    const kiln_db_projects *asked = q->ask.all ? NULL : &projects;
    q->status =
        q->ask.question == KILN_RECORDS_STATS ? answer_stats(q, asked) : answer_records(q, asked);
}

/* On the loop. */
static void send_page(void *context) {
    question *q = context;
    kiln_message message = {.type = KILN_MSG_RECORDS_PAGE, .records_page = q->page};
    if (q->status)
        message.records_page = (kiln_msg_records_page){
            .code = (uint32_t)kiln_status_code(q->status),
            .text =
                kiln_str_slice(kiln_str_from(kiln_status_text(q->status)), 0, KILN_MESSAGES_PROSE)};
    message.records_page.number = q->ask.number;
    kiln_status st = q->shell->open ? kiln_conn_send(q->shell->conn, &message) : KILN_OK;
    if (st) kiln_log(KILN_LOG_ERROR, "sending records: %s", kiln_status_text(st));
    kiln_status_free(st); /* the tracker ends the question after its time */
    kiln_status_free(q->status);
    kiln_strbuf_deinit(&q->rows);
    kiln_arena_deinit(&q->arena);
    kiln_free(q);
}

void kiln_shell_answer_records(kiln_shell *shell, const kiln_message *ask) {
    question *q = kiln_alloc(sizeof *q);
    *q = (question){.shell = shell};
    kiln_arena_init(&q->arena, 4096);
    q->ask = kiln_message_copy(ask, &q->arena).records_ask;
    kiln_io_thread_submit(shell->io_thread, read_records, send_page, q);
}
