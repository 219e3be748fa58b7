#include "cli/common/tracker_call.h"

#include <signal.h>

#include "base/identity.h"

kiln_status kiln_tracker_ask_pages(kiln_tracker_call *c, kiln_topic topic, kiln_page_taker take,
                                   void *context) {
    uint32_t offset = 0;
    for (bool more = true; more;) {
        kiln_message question = {.type = KILN_MSG_QUERY,
                                 .query = {topic, kiln_str_from(c->id), offset}};
        kiln_message answer = {0};
        kiln_status st = kiln_client_ask(c->client, &question, c->process, &answer);
        if (st) return st;
        if (answer.type != KILN_MSG_ANSWER)
            return KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(answer.type));
        take(context, &answer.answer);
        uint32_t rows = answer.answer.boards.count + answer.answer.jobs.count;
        offset += rows;
        more = rows > 0 && offset < answer.answer.total;
    }
    return KILN_OK;
}

kiln_status kiln_projects_ask(kiln_client *client, const kiln_message *question,
                              kiln_arena *process, kiln_message *out_answer) {
    const uint32_t version = kiln_client_version(client);
    if (version && version < kiln_message_since(question->type))
        return KILN_ERROR(UNIMPLEMENTED, "the tracker is too old for projects: update it");
    kiln_status st = kiln_client_ask(client, question, process, out_answer);
    if (st || out_answer->type == KILN_MSG_PROJECTS) return st;
    return KILN_ERROR(DATA_LOSS, "the tracker answered %s", kiln_message_name(out_answer->type));
}

kiln_status kiln_projects_list(kiln_client *client, kiln_arena *process, kiln_projects_taker take,
                               void *context) {
    kiln_message question = {.type = KILN_MSG_PROJECT_QUERY}, answer = {0};
    for (bool more = true; more;) {
        kiln_status st = kiln_projects_ask(client, &question, process, &answer);
        if (st) return st;
        const kiln_msg_projects *page = &answer.projects;
        take(context, page);
        question.project_query.offset += page->projects.count;
        more = page->projects.count > 0 && question.project_query.offset < page->total;
    }
    return KILN_OK;
}

/* ---- Identities ---- */

/* kiln_page_taker; a board has a name beside its identity. */
static void try_ids(void *search, const kiln_msg_answer *page) {
    for (uint32_t i = 0; i < page->boards.count; i++)
        kiln_identity_try(search, page->boards.item[i].node, page->boards.item[i].key);
    for (uint32_t i = 0; i < page->jobs.count; i++)
        kiln_identity_try(search, page->jobs.item[i].job, (kiln_str){0});
}

static void take_nothing(void *context, const kiln_msg_answer *answer) {
    (void)context;
    (void)answer;
}

kiln_status kiln_tracker_complete_id(kiln_tracker_call *c, kiln_topic topic) {
    const bool is_board = topic == KILN_TOPIC_BOARD;
    kiln_identity_search search = {.typed = kiln_str_from(c->id), .arena = c->process};
    kiln_str id = {0};
    kiln_status st = kiln_tracker_ask_pages(c, topic, take_nothing, NULL);
    if (kiln_status_code(st) != KILN_NOT_FOUND) return st; /* the tracker knows it as it is */
    kiln_status_free(st);
    st = kiln_tracker_ask_pages(c, is_board ? KILN_TOPIC_FLEET : KILN_TOPIC_JOBS, try_ids, &search);
    if (!st) st = kiln_identity_found(&search, is_board ? "board" : "job", &id);
    if (!st) c->id = kiln_str_dup(c->process, id);
    return st;
}

/* ---- Watching ---- */

static void ask_for_changes(kiln_tracker_call *c, uint64_t since) {
    kiln_message watch = {.type = KILN_MSG_WATCH,
                          .stream = c->stream,
                          .watch = {.topic = c->topic, .id = kiln_str_from(c->id), .since = since}};
    kiln_client_send(c->client, &watch);
}

static void begin(kiln_tracker_call *c) {
    c->stream = kiln_client_stream(c->client);
    ask_for_changes(c, 0);
}

static void on_message(void *context, const kiln_message *message) {
    kiln_tracker_call *c = context;
    if (!c->change && !c->heard) return;
    if (!message && c->heard) {
        c->stream = kiln_client_stream(c->client);
        c->heard(c->context, NULL);
    } else if (!message) {
        begin(c); /* another connection, perhaps another tracker */
    } else if (message->stream != c->stream) {
        return;
    } else if (c->heard && message->type != KILN_MSG_ERROR) {
        c->heard(c->context, message);
        kiln_client_wake(c->client);
    } else if (message->type == KILN_MSG_CHANGE) {
        c->change(c->context, &message->change);
        ask_for_changes(c, message->change.seq);
        kiln_client_wake(c->client);
    } else if (message->type == KILN_MSG_ERROR) {
        kiln_status_free(c->failure);
        c->failure = kiln_status_from_error(&message->error);
        kiln_client_wake(c->client);
    }
}

static void on_stop(void *context, int number) {
    (void)number;
    kiln_tracker_call *c = context;
    c->stopped = true;
    kiln_client_stop(c->client);
}

bool kiln_tracker_watch(kiln_tracker_call *c, kiln_topic topic, kiln_tracker_change change,
                        void *context) {
    kiln_loop_on_signal(kiln_client_loop(c->client), SIGINT, on_stop, c);
    if (kiln_client_version(c->client) < kiln_message_since(KILN_MSG_WATCH)) return false;
    c->topic = topic;
    c->change = change;
    c->context = context;
    begin(c);
    return true;
}

void kiln_tracker_listen(kiln_tracker_call *c,
                         void (*heard)(void *context, const kiln_message *message), void *context) {
    kiln_loop_on_signal(kiln_client_loop(c->client), SIGINT, on_stop, c);
    c->stream = kiln_client_stream(c->client);
    c->heard = heard;
    c->context = context;
}

kiln_status kiln_tracker_watch_on(kiln_tracker_call *c, uint64_t wait_ns) {
    kiln_status st = kiln_client_wait(c->client, wait_ns);
    if (st) return st;
    st = c->failure;
    c->failure = NULL;
    return st;
}

kiln_status kiln_tracker_call_open(kiln_tracker_call *c) {
    c->client_options.message = on_message;
    c->client_options.context = c;
    return kiln_client_open(&c->client_options, c->process, &c->client);
}

void kiln_tracker_call_close(kiln_tracker_call *c) {
    c->change = NULL;
    c->heard = NULL;
    kiln_client_close(c->client);
    kiln_status_free(c->failure);
}
