/* A copy of the tracker's rows of one topic, for one person, in the order of their last changes.
 * Pure: no I/O and no clock. Used by web/copy.h; web/events.h walks it. */
#ifndef KILN_WEB_ROWS_H
#define KILN_WEB_ROWS_H

#include "base/map.h"
#include "proto/proto.h"

#define KILN_ROWS_MAX 65536u
#define KILN_ROWS_GONE_MAX 1024u /* removed rows that are remembered, for readers */

typedef enum kiln_rows_kind { KILN_ROWS_BOARDS, KILN_ROWS_JOBS, KILN_ROWS_KINDS } kiln_rows_kind;

typedef struct kiln_row {
    struct kiln_row *next, *before; /* by `seq`, ascending */
    char id[KILN_MESSAGES_TEXT + 1];
    uint64_t seq;         /* of its last change */
    uint64_t received_ns; /* when the row was as it is */
    uint64_t mark;        /* of the last kiln_rows_put */
    size_t size;
    char body[]; /* encoded: a board row is small like that, and there are thousands */
} kiln_row;

typedef struct kiln_row_gone {
    uint64_t seq;
    char id[KILN_MESSAGES_TEXT + 1];
} kiln_row_gone;

/* Zero-initialise, with the kind. */
typedef struct kiln_rows {
    kiln_rows_kind kind;
    uint64_t seq; /* of the last change of all */
    uint64_t mark;
    kiln_map by_id; /* to kiln_row * */
    kiln_row *first, *last;
    kiln_row_gone gone[KILN_ROWS_GONE_MAX]; /* a ring */
    uint32_t gone_count;                    /* ever */
} kiln_rows;

void kiln_rows_deinit(kiln_rows *rows);
uint32_t kiln_rows_count(const kiln_rows *rows);
/* Takes a board_row or job_row. `is_change` false: a row that is known stays as it is, and is only
 * marked as there. RESOURCE_EXHAUSTED: KILN_ROWS_MAX; errors of kiln_record_encode. */
KILN_MUST_USE kiln_status kiln_rows_put(kiln_rows *rows, const void *record, bool is_change,
                                        uint64_t now_ns);
/* Begins a pass over all rows; at its end those that were not put since are gone. */
void kiln_rows_begin_pass(kiln_rows *rows);
void kiln_rows_end_pass(kiln_rows *rows);
const kiln_row *kiln_rows_find(const kiln_rows *rows, kiln_str id);
/* The oldest change after `seq`; NULL: none. O(1) for recent ones. */
const kiln_row *kiln_rows_after(const kiln_rows *rows, uint64_t seq);
/* Whether every row that went after `seq` is still in the ring. */
bool kiln_rows_knows_gone(const kiln_rows *rows, uint64_t seq);
/* The row with its times as they are at `now_ns`: how long it is held, silent or open grows. */
void kiln_row_board(const kiln_row *row, uint64_t now_ns, kiln_arena *arena,
                    kiln_msg_board_row *out_board);
void kiln_row_job(const kiln_row *row, uint64_t now_ns, kiln_arena *arena,
                  kiln_msg_job_row *out_job);
/* Appends the row as JSON, as `kiln fleet --json` and `kiln jobs --json` have it. */
void kiln_row_print_json(kiln_rows_kind kind, const kiln_row *row, uint64_t now_ns,
                         kiln_arena *scratch, kiln_strbuf *out);

#endif
