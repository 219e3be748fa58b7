#include "web/rows.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"

static kiln_record_type type_of(kiln_rows_kind kind) {
    return kind == KILN_ROWS_BOARDS ? KILN_RECORD_board_row : KILN_RECORD_job_row;
}

static kiln_str id_of(kiln_rows_kind kind, const void *record) {
    return kind == KILN_ROWS_BOARDS ? ((const kiln_msg_board_row *)record)->node
                                    : ((const kiln_msg_job_row *)record)->job;
}

/* ---- The list ---- */

static void unlink_row(kiln_rows *rows, kiln_row *row) {
    if (row->before)
        row->before->next = row->next;
    else
        rows->first = row->next;
    if (row->next)
        row->next->before = row->before;
    else
        rows->last = row->before;
}

static void append_row(kiln_rows *rows, kiln_row *row) {
    row->seq = ++rows->seq;
    row->next = NULL;
    row->before = rows->last;
    if (rows->last)
        rows->last->next = row;
    else
        rows->first = row;
    rows->last = row;
}

static kiln_row *find(const kiln_rows *rows, kiln_str id) {
    uint64_t at = 0;
    return kiln_map_find(&rows->by_id, id, &at) ? (kiln_row *)(uintptr_t)at : NULL;
}

const kiln_row *kiln_rows_find(const kiln_rows *rows, kiln_str id) { return find(rows, id); }
uint32_t kiln_rows_count(const kiln_rows *rows) { return kiln_map_count(&rows->by_id); }

const kiln_row *kiln_rows_after(const kiln_rows *rows, uint64_t seq) {
    const kiln_row *row = rows->last;
    if (!row || row->seq <= seq) return NULL;
    if (rows->first->seq > seq) return rows->first;
    while (row->before && row->before->seq > seq) row = row->before;
    return row;
}

/* ---- Changes ---- */

static void replace(kiln_rows *rows, kiln_row *old, kiln_str id, kiln_str body, uint64_t now_ns) {
    kiln_row *row = kiln_alloc(sizeof *row + body.size);
    memcpy(row->id, id.data, id.size);
    memcpy(row->body, body.data, body.size);
    row->size = body.size;
    row->received_ns = now_ns;
    row->mark = rows->mark;
    if (old) unlink_row(rows, old);
    kiln_free(old);
    append_row(rows, row);
    kiln_map_put(&rows->by_id, id, (uint64_t)(uintptr_t)row);
}

kiln_status kiln_rows_put(kiln_rows *rows, const void *record, bool is_change, uint64_t now_ns) {
    const kiln_str id = id_of(rows->kind, record);
    kiln_strbuf body = {0};
    kiln_row *row = find(rows, id);
    if (row) row->mark = rows->mark;
    if (row && !is_change) return KILN_OK;
    if (!id.size || id.size > KILN_MESSAGES_TEXT)
        return KILN_ERROR(DATA_LOSS, "the tracker sent a row without an identity");
    if (!row && kiln_rows_count(rows) >= KILN_ROWS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "the tracker has more than %u rows", KILN_ROWS_MAX);
    kiln_status st = kiln_record_encode(type_of(rows->kind), record, &body);
    if (!st) replace(rows, row, id, kiln_strbuf_view(&body), now_ns);
    kiln_strbuf_deinit(&body);
    return st;
}

void kiln_rows_begin_pass(kiln_rows *rows) { rows->mark++; }

static void remove_row(kiln_rows *rows, kiln_row *row) {
    kiln_row_gone *gone = &rows->gone[rows->gone_count++ % KILN_ROWS_GONE_MAX];
    gone->seq = ++rows->seq;
    memcpy(gone->id, row->id, sizeof gone->id);
    unlink_row(rows, row);
    kiln_map_remove(&rows->by_id, kiln_str_from(row->id));
    kiln_free(row);
}

void kiln_rows_end_pass(kiln_rows *rows) {
    for (kiln_row *row = rows->first, *next = NULL; row; row = next) {
        next = row->next;
        if (row->mark != rows->mark) remove_row(rows, row);
    }
}

bool kiln_rows_knows_gone(const kiln_rows *rows, uint64_t seq) {
    if (rows->gone_count <= KILN_ROWS_GONE_MAX) return true;
    return rows->gone[rows->gone_count % KILN_ROWS_GONE_MAX].seq <= seq + 1;
}

void kiln_rows_deinit(kiln_rows *rows) {
    for (kiln_row *row = rows->first, *next = NULL; row; row = next) {
        next = row->next;
        kiln_free(row);
    }
    kiln_map_deinit(&rows->by_id);
    rows->first = rows->last = NULL;
}

/* ---- Reading ---- */

static void decode(kiln_rows_kind kind, const kiln_row *row, kiln_arena *arena, void *out) {
    kiln_status st =
        kiln_record_decode(type_of(kind), (kiln_str){row->body, row->size}, arena, out);
    KILN_CHECK(st == NULL); /* it was encoded here */
}

static uint64_t elapsed_ms(const kiln_row *row, uint64_t now_ns) {
    return now_ns > row->received_ns ? (now_ns - row->received_ns) / KILN_NS_PER_MS : 0;
}

/* An expectation that has passed is 1 ms: 0 would mean that nothing is known. */
static uint64_t left_ms(uint64_t eta_ms, uint64_t passed_ms) {
    if (eta_ms == 0) return 0;
    return eta_ms > passed_ms ? eta_ms - passed_ms : 1;
}

void kiln_row_board(const kiln_row *row, uint64_t now_ns, kiln_arena *arena,
                    kiln_msg_board_row *out_board) {
    const uint64_t passed_ms = elapsed_ms(row, now_ns);
    decode(KILN_ROWS_BOARDS, row, arena, out_board);
    if (out_board->job.size) out_board->held_ms += passed_ms;
    if (kiln_str_is(out_board->state, "lost")) out_board->silent_ms += passed_ms;
    out_board->eta_ms = left_ms(out_board->eta_ms, passed_ms);
}

void kiln_row_job(const kiln_row *row, uint64_t now_ns, kiln_arena *arena,
                  kiln_msg_job_row *out_job) {
    const uint64_t passed_ms = elapsed_ms(row, now_ns);
    decode(KILN_ROWS_JOBS, row, arena, out_job);
    out_job->age_ms += passed_ms;
    out_job->eta_ms = left_ms(out_job->eta_ms, passed_ms);
}

void kiln_row_print_json(kiln_rows_kind kind, const kiln_row *row, uint64_t now_ns,
                         kiln_arena *scratch, kiln_strbuf *out) {
    kiln_msg_board_row board;
    kiln_msg_job_row job;
    if (kind == KILN_ROWS_BOARDS) {
        kiln_row_board(row, now_ns, scratch, &board);
        kiln_record_print_json(KILN_RECORD_board_row, &board, out);
    } else {
        kiln_row_job(row, now_ns, scratch, &job);
        kiln_record_print_json(KILN_RECORD_job_row, &job, out);
    }
}
