#include "base/check.h"
#include "tracker/state.h"

static void answer_boards(kiln_tracker *t, const kiln_tracker_peer *reader,
                          const kiln_msg_query *query, kiln_msg_answer *answer,
                          kiln_msg_board_row *page,
                          kiln_msg_board_event event[KILN_TRACKER_PAST_MAX]) {
    kiln_thread_walks(t->boards.all.count);
    for (uint32_t i = 0; i < t->boards.all.count; i++) {
        const kiln_tracker_board *board = t->boards.all.data[i];
        if (!board->known) continue;
        bool one = query->topic == KILN_TOPIC_BOARD;
        if (one && !kiln_tracker_is_named(query->id, kiln_str_from(board->node), board->up.key))
            continue;
        uint32_t index = answer->total++;
        if (index < query->offset || index - query->offset >= KILN_MESSAGES_PAGE) continue;
        page[answer->boards.count++] = one && index == 0
                                           ? kiln_tracker_long_board_row(t, board, reader, event)
                                           : kiln_tracker_board_row(t, board, reader);
    }
    answer->boards.item = page;
}

static void answer_jobs(kiln_tracker *t, const kiln_tracker_peer *reader,
                        const kiln_msg_query *query, kiln_msg_answer *answer,
                        kiln_msg_job_row *page, kiln_sign_public trusted[KILN_MESSAGES_TRUSTED]) {
    const bool one = query->topic == KILN_TOPIC_JOB;
    const kiln_tracker_job *asked = one ? kiln_tracker_job_latest(t, query->id) : NULL;
    kiln_thread_walks(t->jobs.all.count);
    for (uint32_t i = 0; i < t->jobs.all.count; i++) {
        const kiln_tracker_job *job = t->jobs.all.data[i];
        if (one && job != asked) continue;
        if (!kiln_tracker_sees(t, reader, job)) continue;
        uint32_t index = answer->total++;
        if (index < query->offset || index - query->offset >= KILN_MESSAGES_PAGE) continue;
        page[answer->jobs.count++] =
            one ? kiln_tracker_long_job_row(t, job, trusted) : kiln_tracker_job_row(t, job, false);
    }
    answer->jobs.item = page;
}

void kiln_tracker_query(kiln_tracker *t, kiln_tracker_peer *client, const kiln_message *message) {
    const kiln_msg_query *query = &message->query;
    kiln_message reply = {
        .type = KILN_MSG_ANSWER, .stream = message->stream, .answer = {.topic = query->topic}};
    kiln_msg_board_row boards[KILN_MESSAGES_PAGE];
    kiln_msg_board_event event[KILN_TRACKER_PAST_MAX];
    kiln_msg_job_row jobs[KILN_MESSAGES_PAGE];
    kiln_sign_public trusted[KILN_MESSAGES_TRUSTED];
    reply.answer.seq = t->effects.change;
    reply.answer.tuners = t->peers.tuners.count;
    switch ((kiln_topic)query->topic) {
    case KILN_TOPIC_FLEET:
    case KILN_TOPIC_BOARD: answer_boards(t, client, query, &reply.answer, boards, event); break;
    case KILN_TOPIC_JOBS:
    case KILN_TOPIC_JOB: answer_jobs(t, client, query, &reply.answer, jobs, trusted); break;
    case KILN_TOPIC_COUNT: break;
    }
    bool one = query->topic == KILN_TOPIC_BOARD || query->topic == KILN_TOPIC_JOB;
    if (one && reply.answer.total == 0)
        kiln_tracker_send_error(
            t, client, message->stream, KILN_NOT_FOUND, (kiln_str){0}, 0, "there is no %s %.*s",
            query->topic == KILN_TOPIC_BOARD ? "board" : "job", KILN_STR_ARG(query->id));
    else
        kiln_tracker_send(t, client, &reply);
}
