#include "cli/db_remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/outcome.h"
#include "base/target.h"
#include "db/bundle.h"

#define TOP_ROWS 10u

/* What tuners answered. */
typedef struct remote_rows {
    const kiln_db_call *call;
    kiln_client *client;
    kiln_db *db; /* tasks and jobs of the records, in memory */
    KILN_VEC(kiln_db_record) records;
    KILN_VEC(kiln_db_stat) stats;
    uint32_t tuners; /* that answered */
} remote_rows;

/* ---- one page ---- */

/* kiln_db_visit */
static kiln_status take_row(void *context, kiln_db_table table, const void *row) {
    remote_rows *rows = context;
    if (table == KILN_DB_TABLE_RECORD) {
        const kiln_db_record *record = row;
        kiln_vec_push_in(rows->call->process, &rows->records, *record);
        return KILN_OK;
    }
    if (table == KILN_DB_TABLE_TASK) return kiln_db_put(rows->db, table, row);
    if (table != KILN_DB_TABLE_JOB) return KILN_OK;
    const kiln_db_target target = {((const kiln_db_job *)row)->target};
    kiln_status st = kiln_db_put_target(rows->db, &target);
    return st ? st : kiln_db_put(rows->db, table, row);
}

static bool is_origin(kiln_str name, kiln_db_origin *out_origin) {
    for (int i = 0; i < KILN_DB_ORIGIN_COUNT; i++) {
        if (!kiln_str_is(name, kiln_db_origin_name((kiln_db_origin)i))) continue;
        *out_origin = (kiln_db_origin)i;
        return true;
    }
    return false;
}

/* Counts of the same task and target are added up. */
static void take_stat(remote_rows *rows, const kiln_msg_records_stat *row) {
    uint32_t at = 0;
    while (at < rows->stats.count && !(kiln_str_equal(rows->stats.data[at].task_key, row->task) &&
                                       kiln_str_equal(rows->stats.data[at].target, row->target)))
        at++;
    if (at == rows->stats.count) {
        const kiln_db_stat fresh = {.task_key = row->task, .op = row->op, .target = row->target};
        kiln_vec_push_in(rows->call->process, &rows->stats, fresh);
    }
    kiln_db_stat *stat = &rows->stats.data[at];
    stat->record_count += (int64_t)row->records;
    if (row->best_ns > 0 && (stat->best_ns <= 0 || row->best_ns < stat->best_ns))
        stat->best_ns = row->best_ns;
    for (uint32_t i = 0; i < row->outcomes.count; i++) {
        kiln_outcome outcome;
        if (kiln_outcome_find(row->outcomes.item[i].name, &outcome))
            stat->outcome_count[outcome] += (int64_t)row->outcomes.item[i].value;
    }
    for (uint32_t i = 0; i < row->origins.count; i++) {
        kiln_db_origin origin;
        if (is_origin(row->origins.item[i].name, &origin))
            stat->origin_count[origin] += (int64_t)row->origins.item[i].value;
    }
}

static kiln_status take_page(remote_rows *rows, const kiln_msg_records_page *page) {
    kiln_status st = KILN_OK;
    if (page->rows.size) st = kiln_bundle_each(page->rows, rows->call->process, take_row, rows);
    for (uint32_t i = 0; !st && i < page->stats.count; i++) take_stat(rows, &page->stats.item[i]);
    return st;
}

/* ---- asking ---- */

static kiln_status ask(remote_rows *rows, const kiln_msg_records_ask *what,
                       kiln_msg_records_page *out_page) {
    const kiln_message question = {.type = KILN_MSG_RECORDS_ASK, .records_ask = *what};
    kiln_message answer = {0};
    kiln_status st = kiln_client_ask(rows->client, &question, rows->call->process, &answer);
    if (!st && answer.type != KILN_MSG_RECORDS_PAGE)
        st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer.type));
    if (!st) *out_page = answer.records_page;
    return st;
}

/* Asks a tuner for all its pages. */
static kiln_status ask_tuner(remote_rows *rows, const kiln_msg_records_ask *what, kiln_str tuner) {
    kiln_msg_records_ask next = *what;
    kiln_msg_records_page page = {.more = true};
    kiln_status st = KILN_OK;
    next.tuner = tuner;
    while (!st && page.more) {
        st = ask(rows, &next, &page);
        if (!st) st = take_page(rows, &page);
        if (!st && page.more && page.count == 0)
            st = KILN_ERROR(DATA_LOSS, "an empty page that has a next one");
        next.offset += page.count;
    }
    rows->tuners++;
    return kiln_status_note(st, "records of tuner %.*s", KILN_STR_ARG(tuner));
}

static kiln_status ask_all(remote_rows *rows, const kiln_msg_records_ask *what) {
    kiln_msg_records_page page = {0};
    kiln_status st = ask(rows, what, &page);
    if (!st && page.tuners.count == 0)
        st = KILN_ERROR(NOT_FOUND, "no tuner that shows its records is connected to the tracker");
    for (uint32_t i = 0; !st && i < page.tuners.count; i++)
        st = ask_tuner(rows, what, page.tuners.item[i].id);
    return st;
}

/* ---- joining ---- */

static int by_text(kiln_str a, kiln_str b) {
    const int order = memcmp(a.data, b.data, KILN_MIN(a.size, b.size));
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static int by_speed(const void *left, const void *right) {
    const kiln_db_record *a = left, *b = right;
    if (a->final != b->final) return a->final ? -1 : 1;
    if (a->median_ns != b->median_ns) return a->median_ns < b->median_ns ? -1 : 1;
    return by_text(a->trial_id, b->trial_id);
}

static int by_task(const void *left, const void *right) {
    const kiln_db_record *a = left, *b = right;
    int order = by_text(a->task_key, b->task_key);
    if (!order) order = by_text(a->target, b->target);
    return order ? order : by_speed(a, b);
}

static int by_time(const void *left, const void *right) {
    const kiln_db_record *a = left, *b = right;
    if (a->stored_wall_ns != b->stored_wall_ns)
        return a->stored_wall_ns < b->stored_wall_ns ? -1 : 1;
    return by_text(a->trial_id, b->trial_id);
}

/* Tuners that share a database have the same records. */
static bool is_same(const kiln_db_record *a, const kiln_db_record *b) {
    return kiln_str_equal(a->trial_id, b->trial_id) && a->attempt == b->attempt &&
           kiln_str_equal(a->signer, b->signer);
}

static bool is_same_pair(const kiln_db_record *a, const kiln_db_record *b) {
    return kiln_str_equal(a->task_key, b->task_key) && kiln_str_equal(a->target, b->target);
}

/* The answer of one tuner is in order already. */
static void join(remote_rows *rows, kiln_records_question question, uint32_t limit) {
    static int (*const order[KILN_RECORDS_QUESTION_COUNT])(const void *, const void *) = {
        [KILN_RECORDS_BEST] = by_task,
        [KILN_RECORDS_TOP] = by_speed,
        [KILN_RECORDS_HISTORY] = by_time};
    kiln_db_record *record = rows->records.data;
    uint32_t kept = 0;
    if (rows->tuners < 2 || rows->records.count == 0) return;
    qsort(record, rows->records.count, sizeof *record, order[question]);
    for (uint32_t i = 0; i < rows->records.count; i++) {
        const bool is_repeated =
            kept && (question == KILN_RECORDS_BEST ? is_same_pair(&record[kept - 1], &record[i])
                                                   : is_same(&record[kept - 1], &record[i]));
        if (!is_repeated) record[kept++] = record[i];
    }
    rows->records.count = limit ? KILN_MIN(kept, limit) : kept;
}

static kiln_status print(remote_rows *rows, kiln_records_question question) {
    const kiln_db_call *c = rows->call;
    if (question != KILN_RECORDS_STATS)
        return kiln_db_list_records(rows->db, c->form, rows->records.data, rows->records.count,
                                    c->process);
    kiln_db_call_print_stats(c, rows->stats.data, rows->stats.count);
    return KILN_OK;
}

/* ---- all ---- */

static kiln_status canonical(const kiln_db_call *c, kiln_str *out_text) {
    kiln_target target;
    kiln_strbuf text = {0};
    *out_text = (kiln_str){0};
    if (!c->target) return KILN_OK;
    kiln_status st = kiln_target_parse(kiln_str_from(c->target), c->process, &target);
    if (!st) kiln_target_print(&target, &text);
    if (!st) *out_text = kiln_str_copy(c->process, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return st;
}

kiln_status kiln_db_call_remote(const kiln_db_call *c, const kiln_db_remote *remote,
                                kiln_records_question question) {
    remote_rows rows = {.call = c};
    const uint32_t usual = question == KILN_RECORDS_TOP ? TOP_ROWS : 0;
    kiln_msg_records_ask what = {.question = (uint32_t)question,
                                 .task = kiln_str_from(c->task),
                                 .algorithms = c->allowed.algorithms,
                                 .error_max = c->allowed.error_max,
                                 .limit =
                                     c->limit ? (uint32_t)KILN_MIN(c->limit, UINT32_MAX) : usual};
    kiln_status st = canonical(c, &what.target);
    if (!st) st = kiln_db_open(":memory:", KILN_DB_RECORDS, KILN_DB_WRITE, &rows.db);
    if (!st) st = kiln_client_open(&remote->client, c->process, &rows.client);
    if (!st)
        st = remote->tuner ? ask_tuner(&rows, &what, kiln_str_from(remote->tuner))
                           : ask_all(&rows, &what);
    kiln_client_close(rows.client);
    if (!st) join(&rows, question, what.limit);
    if (!st) st = print(&rows, question);
    kiln_db_close(rows.db);
    return st;
}
