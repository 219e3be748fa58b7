/* Routes about boards. */
#include "base/figures.h"
#include "web/lists.h"

#define OK 200u

/* ---- The list ---- */

static bool has_target(const kiln_msg_board_row *b, kiln_str part) {
    if (kiln_text_contains(b->target, part)) return true;
    for (uint32_t i = 0; i < b->targets.count; i++)
        if (kiln_text_contains(b->targets.item[i].target, part)) return true;
    return false;
}

/* "KEY:VALUE" */
static bool has_label(const kiln_msg_board_row *b, kiln_str wanted) {
    kiln_str value = wanted;
    const kiln_str key = kiln_str_cut(&value, ':');
    for (uint32_t i = 0; i < b->labels.count; i++)
        if (kiln_str_equal(b->labels.item[i].key, key) &&
            kiln_str_equal(b->labels.item[i].value, value))
            return true;
    return false;
}

static bool mentions(const kiln_msg_board_row *b, kiln_str part) {
    const kiln_str text[] = {b->key, b->node, b->device, b->user, b->job, b->project, b->text};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        if (kiln_text_contains(text[i], part)) return true;
    return has_target(b, part);
}

/* An absent filter fits everything. */
static bool is_or_any(const kiln_call *call, const char *name, kiln_str text) {
    const kiln_param *param = kiln_call_param(call, name);
    return !param->is_given || kiln_str_equal(param->text, text);
}

static bool fits(const kiln_call *call, const kiln_msg_board_row *b) {
    const kiln_param *labels = kiln_call_param(call, "label");
    for (uint32_t i = 0; i < labels->text_count; i++)
        if (!has_label(b, labels->texts[i])) return false;
    return is_or_any(call, "state", b->state) && is_or_any(call, "key", b->key) &&
           is_or_any(call, "job", b->job) && is_or_any(call, "project", b->project) &&
           has_target(b, kiln_call_text(call, "target")) && mentions(b, kiln_call_text(call, "q"));
}

static void on_boards(void *context, const kiln_rows *rows, kiln_status st) {
    kiln_call *call = context;
    if (st) {
        kiln_http_answer_error(call->request, st);
        return;
    }
    kiln_list list = kiln_list_of(call);
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    const uint64_t now_ns = kiln_loop_now_ns(call->web->loop);
    uint32_t cursor = 0;
    uint64_t at = 0;
    kiln_str id;
    while (kiln_map_next(&rows->by_id, &cursor, &id, &at)) {
        kiln_msg_board_row board;
        kiln_row_board((const kiln_row *)(uintptr_t)at, now_ns, &scratch, &board);
        if (fits(call, &board) && kiln_list_add(&list))
            kiln_record_print_json(KILN_RECORD_board_row, &board, &list.body);
        kiln_arena_reset(&scratch);
    }
    kiln_arena_deinit(&scratch);
    kiln_list_answer(&list, call);
}

void kiln_web_list_boards(kiln_call *call) {
    kiln_copy_get(call->web->loop, call->person, KILN_ROWS_BOARDS, on_boards, call);
}

/* ---- One board ---- */

/* [{"name","value","unit"}] of the figures that its processor was measured to have. */
static void print_figures(kiln_str encoded, kiln_strbuf *out) {
    kiln_figures figures = {0};
    const char *separator = "";
    kiln_status unknown = kiln_figures_decode(encoded, &figures);
    kiln_status_free(unknown); /* of a later version */
    kiln_strbuf_char(out, '[');
    for (kiln_figure i = 0; i < KILN_FIGURE_COUNT; i++) {
        const kiln_figure_info *info = kiln_figure_info_of(i);
        if (!(figures.figure[i] > 0)) continue;
        kiln_strbuf_printf(out, "%s{\"name\":\"%s\",\"value\":%.9g,\"unit\":\"%s\"}", separator,
                           info->name, figures.figure[i], info->unit);
        separator = ",";
    }
    kiln_strbuf_char(out, ']');
}

static void on_board(kiln_call *call, const kiln_message *answer, kiln_status st) {
    kiln_strbuf body = {0};
    if (!st && (answer->type != KILN_MSG_ANSWER || answer->answer.boards.count != 1))
        st = KILN_ERROR(NOT_FOUND, "the tracker knows no such board");
    if (st) {
        kiln_http_answer_error(call->request, st);
        return;
    }
    kiln_msg_board_row board = answer->answer.boards.item[0];
    const kiln_str figures = board.figures;
    board.figures = (kiln_str){0}; /* printed otherwise */
    kiln_record_print_json(KILN_RECORD_board_row, &board, &body);
    body.size--; /* its brace */
    kiln_strbuf_text(&body, ",\"figures\":");
    print_figures(figures, &body);
    kiln_strbuf_char(&body, '}');
    kiln_http_answer(call->request, OK, "application/json", &body);
}

void kiln_web_show_board(kiln_call *call) {
    const kiln_message question = {
        .type = KILN_MSG_QUERY,
        .query = {.topic = KILN_TOPIC_BOARD, .id = kiln_call_text(call, "id")}};
    kiln_web_ask(call, &question, on_board);
}

static void order(kiln_call *call, kiln_board_service service) {
    const kiln_message question = {.type = KILN_MSG_BOARD_ORDER,
                                   .board_order = {.board = kiln_call_text(call, "id"),
                                                   .service = (uint32_t)service,
                                                   .text = kiln_call_text(call, "reason")}};
    kiln_web_answer_row(call, &question);
}

void kiln_web_drain_board(kiln_call *call) { order(call, KILN_BOARD_DRAINED); }
void kiln_web_quarantine_board(kiln_call *call) { order(call, KILN_BOARD_QUARANTINED); }
void kiln_web_release_board(kiln_call *call) { order(call, KILN_BOARD_IN_SERVICE); }

/* ---- Its log ---- */

/* A line is "level time program text", as base/log.c writes it. */
static void print_line(const kiln_msg_log_line *line, kiln_strbuf *out) {
    kiln_str text = line->text;
    const kiln_str level = kiln_str_cut(&text, ' ');
    const kiln_str time = kiln_str_cut(&text, ' ');
    kiln_str_cut(&text, ' ');
    kiln_strbuf_printf(out, "{\"number\":%llu,\"time\":", (unsigned long long)line->seq);
    kiln_json_print_text(time, out);
    kiln_strbuf_text(out, ",\"level\":");
    kiln_json_print_text(level, out);
    kiln_strbuf_text(out, ",\"text\":");
    kiln_json_print_text(text, out);
    kiln_strbuf_char(out, '}');
}

static void on_lines(kiln_call *call, const kiln_message *answer, kiln_status st) {
    kiln_strbuf body = {0};
    if (!st && answer->type != KILN_MSG_LINES)
        st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer->type));
    if (st) {
        kiln_http_answer_error(call->request, st);
        return;
    }
    const kiln_msg_lines *lines = &answer->lines;
    kiln_strbuf_text(&body, "{\"lines\":[");
    for (uint32_t i = 0; i < lines->lines.count; i++) {
        if (i) kiln_strbuf_char(&body, ',');
        print_line(&lines->lines.item[i], &body);
    }
    kiln_strbuf_printf(&body, "],\"newest\":%llu}", (unsigned long long)lines->newest);
    kiln_http_answer(call->request, OK, "application/json", &body);
}

void kiln_web_board_log(kiln_call *call) {
    const kiln_message question = {
        .type = KILN_MSG_TAIL,
        .tail = {.board = kiln_call_text(call, "id"), .since = kiln_call_u64(call, "since", 0)}};
    kiln_web_ask(call, &question, on_lines);
}
