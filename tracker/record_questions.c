#include <string.h>

#include "base/vec.h"
#include "tracker/state.h"

/* ---- Which tuner ---- */

/* Of several pages a person gets the first: nobody has more tuners than fit one. */
static void list_tuners(kiln_tracker *t, const kiln_tracker_peer *person, uint32_t stream) {
    kiln_msg_named row[KILN_MESSAGES_PAGE];
    kiln_message page = {.type = KILN_MSG_RECORDS_PAGE, .stream = stream};
    for (uint32_t i = 0; i < t->peers.tuners.count; i++) {
        const kiln_tracker_peer *tuner = t->peers.tuners.data[i];
        if (tuner->closing || tuner->version < KILN_PROTO_ASKS_RECORDS ||
            page.records_page.tuners.count == KILN_MESSAGES_PAGE)
            continue;
        row[page.records_page.tuners.count++] =
            (kiln_msg_named){kiln_str_from(tuner->node), kiln_str_from(tuner->name)};
    }
    page.records_page.tuners.item = row;
    kiln_tracker_send(t, person, &page);
}

/* The connected tuner with this node or name. NOT_FOUND, INVALID_ARGUMENT: several have the name;
 * UNIMPLEMENTED: it is too old. */
static kiln_status find_tuner(const kiln_tracker *t, kiln_str text, kiln_tracker_peer **out_tuner) {
    kiln_tracker_peer *found = NULL;
    for (uint32_t i = 0; i < t->peers.tuners.count; i++) {
        kiln_tracker_peer *tuner = t->peers.tuners.data[i];
        if (tuner->closing ||
            !kiln_tracker_is_named(text, kiln_str_from(tuner->node), kiln_str_from(tuner->name)))
            continue;
        if (found)
            return KILN_ERROR(INVALID_ARGUMENT,
                              "several tuners are called %.*s: name one by its "
                              "node",
                              KILN_STR_ARG(text));
        found = tuner;
    }
    if (!found) return KILN_ERROR(NOT_FOUND, "no tuner %.*s is connected", KILN_STR_ARG(text));
    if (found->version < KILN_PROTO_ASKS_RECORDS)
        return KILN_ERROR(UNIMPLEMENTED, "tuner %.*s runs %s, which is too old to show its records",
                          KILN_STR_ARG(text), found->software);
    *out_tuner = found;
    return KILN_OK;
}

/* ---- Questions ---- */

static kiln_status refuse_too_many(kiln_tracker *t, const kiln_tracker_peer *person) {
    uint32_t own = 0;
    const kiln_tracker_record_questions *questions = &t->record_questions;
    for (uint32_t i = 0; i < questions->open.count; i++)
        own += kiln_tracker_is_same_person(questions->open.data[i].person, person);
    if (questions->open.count >= KILN_TRACKER_RECORD_QUESTIONS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "%u questions about records wait already",
                          questions->open.count);
    return kiln_tracker_quota_of_board_requests(t, own);
}

static bool may_read(kiln_tracker *t, const kiln_tracker_peer *person, kiln_str project) {
    return kiln_tracker_may(t, person, KILN_RIGHT_READ, project, NULL);
}

/* Fills in the projects whose records the person may read. */
static kiln_status set_readable(kiln_tracker *t, const kiln_tracker_peer *person,
                                kiln_msg_records_ask *ask,
                                kiln_msg_named project[KILN_MESSAGES_TASKS]) {
    const kiln_str usual = KILN_STR(KILN_PROJECT_DEFAULT);
    ask->all = person->is_owner || person->is_admin;
    ask->projects.item = project;
    ask->projects.count = 0;
    if (ask->all) return KILN_OK;
    if (!kiln_tracker_project_find(t, usual) && may_read(t, person, usual))
        project[ask->projects.count++] = (kiln_msg_named){.id = usual};
    for (uint32_t i = 0; i < t->projects.all.count; i++) {
        const kiln_str name = kiln_str_from(t->projects.all.data[i]->name);
        if (!may_read(t, person, name)) continue;
        if (ask->projects.count == KILN_MESSAGES_TASKS)
            return KILN_ERROR(RESOURCE_EXHAUSTED, "you may read more than %d projects",
                              KILN_MESSAGES_TASKS);
        project[ask->projects.count++] = (kiln_msg_named){.id = name};
    }
    return KILN_OK;
}

void kiln_tracker_records_ask(kiln_tracker *t, kiln_tracker_peer *person,
                              const kiln_message *message) {
    kiln_message ask = *message;
    kiln_msg_named project[KILN_MESSAGES_TASKS];
    kiln_tracker_peer *tuner = NULL;
    if (message->records_ask.tuner.size == 0) {
        list_tuners(t, person, message->stream);
        return;
    }
    kiln_status st = find_tuner(t, message->records_ask.tuner, &tuner);
    if (!st) st = refuse_too_many(t, person);
    if (!st) st = set_readable(t, person, &ask.records_ask, project);
    if (st) {
        kiln_tracker_send_status(t, person, message->stream, (kiln_str){0}, 0, st);
        return;
    }
    const kiln_tracker_record_question question = {.person = person,
                                                   .tuner = tuner,
                                                   .stream = message->stream,
                                                   .number = ++t->record_questions.last_number,
                                                   .asked_ns = t->effects.now_ns};
    kiln_vec_push(&t->record_questions.open, question);
    ask.stream = 0;
    ask.records_ask.tuner = (kiln_str){0};
    ask.records_ask.number = question.number;
    kiln_tracker_send(t, tuner, &ask);
}

static void remove_question(kiln_tracker *t, uint32_t index) {
    t->record_questions.open.data[index] =
        t->record_questions.open.data[--t->record_questions.open.count];
}

void kiln_tracker_records_page(kiln_tracker *t, kiln_tracker_peer *tuner,
                               const kiln_message *message) {
    for (uint32_t i = 0; i < t->record_questions.open.count; i++) {
        const kiln_tracker_record_question question = t->record_questions.open.data[i];
        if (question.number != message->records_page.number || question.tuner != tuner) continue;
        kiln_code code = KILN_INTERNAL;
        remove_question(t, i);
        if (message->records_page.code) {
            if (!kiln_code_from_wire(message->records_page.code, &code)) code = KILN_INTERNAL;
            kiln_tracker_send_error(t, question.person, question.stream, code, (kiln_str){0}, 0,
                                    "%.*s", KILN_STR_ARG(message->records_page.text));
            return;
        }
        kiln_message page = *message;
        page.stream = question.stream;
        page.records_page.number = 0;
        page.records_page.tuners.count = 0;
        kiln_tracker_send(t, question.person, &page);
        return;
    }
}

void kiln_tracker_record_questions_tick(kiln_tracker *t) {
    for (uint32_t i = t->record_questions.open.count; i-- > 0;) {
        const kiln_tracker_record_question question = t->record_questions.open.data[i];
        if (t->effects.now_ns - question.asked_ns < KILN_TRACKER_RECORD_QUESTION_NS) continue;
        kiln_tracker_send_error(t, question.person, question.stream, KILN_DEADLINE_EXCEEDED,
                                (kiln_str){0}, 0, "tuner %s did not answer in 30 s",
                                question.tuner->name);
        remove_question(t, i);
    }
}

void kiln_tracker_record_questions_peer_gone(kiln_tracker *t, const kiln_tracker_peer *peer) {
    for (uint32_t i = t->record_questions.open.count; i-- > 0;) {
        const kiln_tracker_record_question question = t->record_questions.open.data[i];
        if (question.person != peer && question.tuner != peer) continue;
        if (question.tuner == peer)
            kiln_tracker_send_error(t, question.person, question.stream, KILN_UNAVAILABLE,
                                    (kiln_str){0}, 0, "tuner %s was lost", peer->name);
        remove_question(t, i);
    }
}

void kiln_tracker_record_questions_free(kiln_tracker *t) {
    kiln_vec_deinit(&t->record_questions.open);
}
