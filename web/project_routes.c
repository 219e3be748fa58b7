/* Routes about projects. */
#include "web/lists.h"

typedef struct listing {
    kiln_call *call;
    kiln_list list;
    kiln_message question;
} listing;

static void on_page(void *context, const kiln_message *answer, kiln_status st) {
    listing *l = context;
    if (!st && answer->type != KILN_MSG_PROJECTS)
        st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer->type));
    if (st) {
        kiln_strbuf_deinit(&l->list.body);
        kiln_http_answer_error(l->call->request, st);
        return;
    }
    const kiln_msg_projects *page = &answer->projects;
    for (uint32_t i = 0; i < page->projects.count; i++)
        if (kiln_list_add(&l->list))
            kiln_record_print_json(KILN_RECORD_project_row, &page->projects.item[i], &l->list.body);
    l->question.project_query.offset += page->projects.count;
    if (page->projects.count && l->question.project_query.offset < page->total)
        kiln_person_ask(l->call->person, &l->question, on_page, l);
    else
        kiln_list_answer(&l->list, l->call);
}

void kiln_web_list_projects(kiln_call *call) {
    listing *l = kiln_arena_alloc(kiln_call_arena(call), sizeof *l);
    *l = (listing){
        .call = call, .list = kiln_list_of(call), .question = {.type = KILN_MSG_PROJECT_QUERY}};
    kiln_person_ask(call->person, &l->question, on_page, l);
}

void kiln_web_show_project(kiln_call *call) {
    const kiln_message question = {.type = KILN_MSG_PROJECT_QUERY,
                                   .project_query = {.project = kiln_call_text(call, "id")}};
    kiln_web_answer_row(call, &question);
}
