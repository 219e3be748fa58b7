/* Routes about sessions: signing in and out, and who one is. */
#include "base/version.h"
#include "web/routes.h"

#define OK 200u
#define NO_CONTENT 204u

/* ---- GET /api/v1/me ---- */

typedef struct me {
    kiln_call *call;
    kiln_session session;
    kiln_person *person;
    json_t *projects;
    kiln_message question;
} me;

static void ask_for_projects(me *m);

static void answer_me(me *m, kiln_status st) {
    kiln_http_request *r = m->call->request;
    json_t *value = NULL;
    kiln_person_release(m->person);
    if (!st)
        value = json_pack("{s:s, s:b, s:s, s:O, s:s}", "person", m->session.who.name, "admin",
                          (int)m->session.who.is_admin, "csrf", m->session.csrf, "projects",
                          m->projects, "version", KILN_VERSION);
    json_decref(m->projects);
    if (st)
        kiln_http_answer_error(r, st);
    else
        kiln_http_answer_json(r, OK, value);
}

static void on_projects(void *context, const kiln_message *answer, kiln_status st) {
    me *m = context;
    if (!st && answer->type != KILN_MSG_PROJECTS)
        st = KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer->type));
    if (st) {
        answer_me(m, st);
        return;
    }
    const kiln_msg_projects *page = &answer->projects;
    for (uint32_t i = 0; i < page->projects.count; i++) {
        const kiln_msg_project_row *row = &page->projects.item[i];
        json_array_append_new(m->projects, json_pack("{s:s%, s:s}", "project", row->project.data,
                                                     row->project.size, "role",
                                                     kiln_member_name((kiln_member)row->role)));
    }
    m->question.project_query.offset += page->projects.count;
    if (page->projects.count && m->question.project_query.offset < page->total)
        ask_for_projects(m);
    else
        answer_me(m, KILN_OK);
}

static void ask_for_projects(me *m) { kiln_person_ask(m->person, &m->question, on_projects, m); }

/* Takes the hold on the person. */
static void begin_me(kiln_call *call, const kiln_session *session, kiln_person *person) {
    me *m = kiln_arena_alloc(kiln_call_arena(call), sizeof *m);
    *m = (me){.call = call,
              .session = *session,
              .person = person,
              .projects = json_array(),
              .question = {.type = KILN_MSG_PROJECT_QUERY}};
    ask_for_projects(m);
}

void kiln_web_me(kiln_call *call) {
    kiln_person *person = NULL;
    kiln_status st = kiln_person_get(call->web->people, &call->session.who, &person);
    if (st)
        kiln_http_answer_error(call->request, st);
    else
        begin_me(call, &call->session, person);
}

/* ---- POST and DELETE /api/v1/session ---- */

static void on_signed_in(void *context, const kiln_session *found, kiln_status st) {
    kiln_call *call = context;
    kiln_session session = {0};
    kiln_person *person = NULL;
    if (!st) {
        session = *found;
        st = kiln_sessions_begin(call->web->sessions, call->request, &session);
    }
    if (!st) st = kiln_person_get(call->web->people, &session.who, &person);
    if (st)
        kiln_http_answer_error(call->request, st);
    else
        begin_me(call, &session, person);
}

void kiln_web_sign_in(kiln_call *call) {
    kiln_sessions_sign_in(call->web->sessions, call->request, kiln_call_text(call, "token"),
                          on_signed_in, call);
}

static void on_signed_out(void *context, kiln_status st) {
    const kiln_call *call = context;
    if (st)
        kiln_http_answer_error(call->request, st);
    else
        kiln_http_answer_empty(call->request, NO_CONTENT);
}

void kiln_web_sign_out(kiln_call *call) {
    kiln_sessions_end(call->web->sessions, call->request, &call->session, on_signed_out, call);
}
