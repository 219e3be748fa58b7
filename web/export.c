/* GET /api/v1/records/export: all rows that a person may read as JSON lines, a page of a table at a
 * time, so that neither a transaction nor memory grows with the database. */
#include "base/alloc.h"
#include "web/records.h"

#define OK 200u
#define PAGE_ROWS 256u

typedef struct export_state {
    kiln_call *call; /* until `has_ended` */
    kiln_records *records;
    kiln_http_request *request;
    kiln_loop *loop;
    kiln_arena arena; /* of the projects */
    const kiln_db_projects *projects;
    kiln_db_page page;
    int64_t newest_record; /* -1: not asked for yet */
    kiln_strbuf chunk;
    kiln_status st;
    bool is_running, is_complete, has_ended;
} export_state;

static kiln_status print_row(void *context, kiln_db_table table, const void *row) {
    kiln_strbuf *out = context;
    kiln_db_row_print_json(table, row, out);
    kiln_strbuf_char(out, '\n');
    return KILN_OK;
}

/* Tables of records that others may have, in the order in which rows refer to each other. */
static bool is_exported(unsigned table) {
    return table < KILN_DB_TABLE_COUNT &&
           kiln_db_table_info_of((kiln_db_table)table)->kind == KILN_DB_RECORDS &&
           table != KILN_DB_TABLE_SIGNER;
}

static void begin_table(export_state *e, unsigned table) {
    while (table < KILN_DB_TABLE_COUNT && !is_exported(table)) table++;
    e->is_complete = table == KILN_DB_TABLE_COUNT;
    e->page.table = e->is_complete ? KILN_DB_TABLE_TASK : (kiln_db_table)table;
    e->page.after_row = 0;
    e->page.last_row = table == KILN_DB_TABLE_RECORD ? e->newest_record : INT64_MAX;
}

/* Until there is something to send, or nothing left. */
static kiln_status read_pages(export_state *e, kiln_db *db) {
    kiln_status st = KILN_OK;
    if (e->newest_record < 0) {
        st = kiln_db_newest_row(db, KILN_DB_TABLE_RECORD, &e->newest_record);
        if (!st) begin_table(e, 0);
    }
    while (!st && !e->is_complete && !e->chunk.size) {
        int64_t last = 0;
        st = kiln_db_visit_page(db, &e->page, print_row, &e->chunk, &last);
        if (last)
            e->page.after_row = last;
        else if (!st)
            begin_table(e, (unsigned)e->page.table + 1);
    }
    return st;
}

static void run(void *context) {
    export_state *e = context;
    kiln_db *db = NULL;
    e->st = kiln_records_take(e->records, &db);
    if (e->st) return;
    e->st = read_pages(e, db);
    kiln_records_put_back(e->records, db, e->st);
}

static void free_export(export_state *e) {
    kiln_status_free(e->st); /* told in the stream, or nobody is there to hear it */
    kiln_strbuf_deinit(&e->chunk);
    kiln_arena_deinit(&e->arena);
    kiln_free(e);
}

static void on_run(void *context) {
    export_state *e = context;
    e->is_running = false;
    if (e->has_ended)
        free_export(e);
    else
        kiln_http_wake(e->request);
}

/* An answer that has begun cannot become an error: a last line says that it is not whole. */
static void print_error(export_state *e, kiln_strbuf *out) {
    kiln_strbuf_text(out, "{\"error\":{\"code\":");
    kiln_db_text_print_json(kiln_str_from(kiln_code_name(kiln_status_code(e->st))), out);
    kiln_strbuf_text(out, ",\"message\":");
    kiln_db_text_print_json(kiln_str_from(kiln_status_text(e->st)), out);
    kiln_strbuf_text(out, "}}\n");
}

static kiln_http_step step(void *state, kiln_strbuf *out) {
    export_state *e = state;
    if (e->is_running) return KILN_HTTP_WAIT;
    if (e->st) {
        print_error(e, out);
        return KILN_HTTP_END;
    }
    const bool has_some = e->chunk.size > 0;
    kiln_strbuf_str(out, kiln_strbuf_view(&e->chunk));
    kiln_strbuf_reset(&e->chunk);
    if (e->is_complete) return KILN_HTTP_END;
    e->is_running = true;
    kiln_loop_work(e->loop, run, on_run, e);
    return has_some ? KILN_HTTP_MORE : KILN_HTTP_WAIT;
}

static void end(void *state) {
    export_state *e = state;
    e->has_ended = true;
    if (!e->is_running) free_export(e);
}

static void on_projects(void *context, const kiln_db_projects *projects, kiln_status st) {
    export_state *e = context;
    e->projects = e->page.projects = projects;
    if (st) {
        kiln_http_answer_error(e->request, st);
        free_export(e);
        return;
    }
    const kiln_http_stream stream = {
        .type = "application/jsonl", .state = e, .step = step, .end = end};
    kiln_http_set_deadline(e->request, UINT64_MAX);
    kiln_http_answer_stream(e->request, OK, &stream);
}

void kiln_web_records_export(kiln_call *call) {
    export_state *e = kiln_alloc(sizeof *e);
    *e = (export_state){.call = call,
                        .records = call->web->records,
                        .request = call->request,
                        .loop = call->web->loop,
                        .page = {.limit = PAGE_ROWS},
                        .newest_record = -1};
    kiln_arena_init(&e->arena, 0);
    kiln_records_find_projects(call, &e->arena, on_projects, e);
}
