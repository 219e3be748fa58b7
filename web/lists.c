#include "web/lists.h"

#define OK 200u

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c; }

static bool begins_with(const char *text, kiln_str part) {
    for (size_t i = 0; i < part.size; i++)
        if (lower(text[i]) != lower(part.data[i])) return false;
    return true;
}

bool kiln_text_contains(kiln_str text, kiln_str part) {
    if (!part.size) return true;
    for (size_t i = 0; i + part.size <= text.size; i++)
        if (begins_with(text.data + i, part)) return true;
    return false;
}

/* ---- Lists ---- */

kiln_list kiln_list_of(const kiln_call *call) {
    return (kiln_list){.limit = kiln_call_u64(call, "limit", KILN_LIST_MAX),
                       .offset = kiln_call_u64(call, "offset", 0)};
}

bool kiln_list_add(kiln_list *list) {
    const uint64_t at = list->total++;
    if (at < list->offset || at - list->offset >= list->limit) return false;
    if (list->body.size) kiln_strbuf_char(&list->body, ',');
    return true;
}

void kiln_list_answer(kiln_list *list, kiln_call *call) {
    kiln_strbuf body = {0};
    kiln_strbuf_reserve(&body, list->body.size + 64);
    kiln_strbuf_printf(&body, "{\"total\":%llu,\"items\":[", (unsigned long long)list->total);
    kiln_strbuf_str(&body, kiln_strbuf_view(&list->body));
    kiln_strbuf_text(&body, "]}");
    kiln_strbuf_deinit(&list->body);
    kiln_http_answer(call->request, OK, "application/json", &body);
}

/* ---- One row ---- */

typedef struct asked {
    kiln_call *call;
    void (*done)(kiln_call *call, const kiln_message *answer, kiln_status st);
} asked;

static void on_asked(void *context, const kiln_message *answer, kiln_status st) {
    asked *a = context;
    a->done(a->call, answer, st);
}

void kiln_web_ask(kiln_call *call, const kiln_message *question,
                  void (*done)(kiln_call *call, const kiln_message *answer, kiln_status st)) {
    asked *a = kiln_arena_alloc(kiln_call_arena(call), sizeof *a);
    *a = (asked){call, done};
    kiln_person_ask(call->person, question, on_asked, a);
}

static bool print_row(const kiln_message *answer, kiln_strbuf *out) {
    if (answer->type == KILN_MSG_ANSWER && answer->answer.boards.count == 1)
        kiln_record_print_json(KILN_RECORD_board_row, answer->answer.boards.item, out);
    else if (answer->type == KILN_MSG_ANSWER && answer->answer.jobs.count == 1)
        kiln_record_print_json(KILN_RECORD_job_row, answer->answer.jobs.item, out);
    else if (answer->type == KILN_MSG_PROJECTS && answer->projects.projects.count == 1)
        kiln_record_print_json(KILN_RECORD_project_row, answer->projects.projects.item, out);
    return out->size > 0;
}

static void on_row(kiln_call *call, const kiln_message *answer, kiln_status st) {
    kiln_strbuf body = {0};
    if (!st && !print_row(answer, &body))
        st = KILN_ERROR(NOT_FOUND, "the tracker knows no such row");
    if (st)
        kiln_http_answer_error(call->request, st);
    else
        kiln_http_answer(call->request, OK, "application/json", &body);
}

void kiln_web_answer_row(kiln_call *call, const kiln_message *question) {
    kiln_web_ask(call, question, on_row);
}
