/* The route for the readings of one board over time. */
#include "web/lists.h"
#include "web/record_rows.h"
#include "web/records.h"

#define READINGS_DEFAULT 5000u
#define NS_PER_MS INT64_C(1000000)

static kiln_status print_readings(kiln_db *db, kiln_question *q) {
    const kiln_str device = kiln_str_from(q->call->user);
    const uint32_t limit = (uint32_t)kiln_call_u64(q->call, "limit", READINGS_DEFAULT);
    kiln_db_reading *reading = NULL;
    uint32_t count = 0;
    if (!limit) return KILN_ERROR(INVALID_ARGUMENT, "limit is at least 1");
    kiln_status st = kiln_db_readings(db, device, q->projects, limit, &q->arena, &reading, &count);
    if (st) return st;
    kiln_strbuf_text(
        &q->out, "{\"columns\":[\"time_ms\",\"drift\",\"drift_memory\",\"throttled\"],\"rows\":[");
    for (uint32_t i = 0; i < count; i++) {
        const kiln_db_reading *one = &reading[i];
        kiln_strbuf_printf(&q->out, "%s[%lld,", i ? "," : "",
                           (long long)(one->stored_wall_ns / NS_PER_MS));
        kiln_db_real_print_json(one->drift, &q->out);
        kiln_strbuf_char(&q->out, ',');
        kiln_db_real_print_json(one->drift_memory, &q->out);
        kiln_strbuf_printf(&q->out, ",%d]", one->is_throttled);
    }
    kiln_strbuf_text(&q->out, "]}");
    return KILN_OK;
}

/* Records name a board by its node; the call may name it by its key. */
static void on_board(kiln_call *call, const kiln_message *answer, kiln_status st) {
    if (!st && (answer->type != KILN_MSG_ANSWER || answer->answer.boards.count != 1))
        st = KILN_ERROR(NOT_FOUND, "the tracker knows no such board");
    if (st) {
        kiln_http_answer_error(call->request, st);
        return;
    }
    call->user = kiln_str_dup(kiln_call_arena(call), answer->answer.boards.item[0].node);
    kiln_records_ask(call, print_readings);
}

void kiln_web_board_drift(kiln_call *call) {
    const kiln_message question = {
        .type = KILN_MSG_QUERY,
        .query = {.topic = KILN_TOPIC_BOARD, .id = kiln_call_text(call, "id")}};
    kiln_web_ask(call, &question, on_board);
}
