#include <string.h>

#include "base/hash.h"
#include "tracker/state.h"

#define RUNS_MODULES 3u /* version of the protocol from which on boards run modules */

static kiln_tracker_sent *find_sent(kiln_tracker_lease *lease, uint64_t hash) {
    for (uint32_t i = 0; i < lease->trial.count; i++)
        if (lease->trial.data[i].hash == hash) return &lease->trial.data[i];
    return NULL;
}

/* The entry of a trial, which is added if need be; NULL: the lease has had all its trials. */
static kiln_tracker_sent *count_trial(kiln_tracker_lease *lease, kiln_str trial) {
    kiln_tracker_sent entry = {.hash = kiln_hash64(trial.data, trial.size, 0)};
    kiln_tracker_sent *sent = find_sent(lease, entry.hash);
    if (sent || lease->trial.count >= lease->trials) return sent;
    kiln_vec_push(&lease->trial, entry);
    return &kiln_vec_last(&lease->trial);
}

static uint64_t lease_in(const kiln_message *message) {
    if (message->type == KILN_MSG_TRIAL) return message->trial.lease;
    if (message->type == KILN_MSG_TRIAL_ACK) return message->trial_ack.lease;
    if (message->type == KILN_MSG_CANCEL) return message->cancel.lease;
    if (message->type == KILN_MSG_TRIAL_EVENT) return message->trial_event.lease;
    return message->trial_result.lease;
}

static void note(kiln_tracker *t, const kiln_tracker_lease *lease, kiln_tracker_happening what,
                 kiln_str trial, const char *text) {
    kiln_tracker_log(t,
                     &(kiln_tracker_note){.what = what,
                                          .job = kiln_str_from(lease->job ? lease->job->id : NULL),
                                          .board = kiln_str_from(lease->board->node),
                                          .trial = trial,
                                          .lease = lease->lease,
                                          .text = kiln_str_from(text)});
}

static void forward(kiln_tracker *t, const kiln_tracker_peer *to, const kiln_message *message) {
    kiln_message copy = *message;
    copy.stream = 0; /* streams belong to one connection */
    kiln_tracker_send(t, to, &copy);
}

/* Keeps a message for a board that may reconnect after the tracker's restart. Messages beyond the
 * bound are lost, as on an unreliable connection. */
static void hold_back(kiln_tracker_lease *lease, const kiln_message *message) {
    if (lease->held_back.messages.count == KILN_TRACKER_HELD_BACK_MAX) return;
    if (lease->held_back.messages.count == 0) kiln_arena_init(&lease->held_back.arena, 1024);
    kiln_message copy = kiln_message_copy(message, &lease->held_back.arena);
    kiln_vec_push(&lease->held_back.messages, copy);
}

void kiln_tracker_lease_hand_over(kiln_tracker *t, kiln_tracker_lease *lease) {
    lease->board_due_ns = 0;
    for (uint32_t i = 0; i < lease->held_back.messages.count; i++)
        forward(t, lease->board->peer, &lease->held_back.messages.data[i]);
    kiln_vec_deinit(&lease->held_back.messages);
    kiln_arena_deinit(&lease->held_back.arena);
}

/* Whether the board is too old for a blob of the trial: it would take the message for damaged. */
static bool is_too_large(const kiln_tracker_peer *board, const kiln_message *message) {
    if (message->type != KILN_MSG_TRIAL || !board) return false;
    const kiln_msg_trial *trial = &message->trial;
    uint64_t largest = KILN_MAX(trial->artefact.size, trial->reference.size);
    largest = KILN_MAX(largest, trial->recipe.program.size);
    for (uint32_t i = 0; i < trial->rivals.count; i++)
        largest = KILN_MAX(largest, trial->rivals.item[i].size);
    return largest > kiln_blob_bytes_max(board->version);
}

void kiln_tracker_trial_down(kiln_tracker *t, kiln_tracker_peer *tuner,
                             const kiln_message *message) {
    kiln_tracker_lease *lease = kiln_tracker_lease_own(t, tuner, lease_in(message));
    if (!lease) {
        t->relay.stale_refused += message->type == KILN_MSG_TRIAL;
        return;
    }
    if (message->type == KILN_MSG_TRIAL && !count_trial(lease, message->trial.trial)) {
        kiln_tracker_send_error(t, tuner, message->stream, KILN_RESOURCE_EXHAUSTED,
                                message->trial.trial, lease->lease, "lease %llu was for %u trials",
                                (unsigned long long)lease->lease, lease->trials);
        return;
    }
    const kiln_tracker_peer *board = lease->board->peer;
    if (message->type == KILN_MSG_TRIAL && message->trial.module.threads > 0 && board &&
        board->version < RUNS_MODULES) {
        kiln_tracker_send_error(t, tuner, message->stream, KILN_UNIMPLEMENTED, message->trial.trial,
                                lease->lease,
                                "board %.*s runs %s, which is too old to run modules: replace it",
                                KILN_STR_ARG(lease->board->up.key), board->software);
        return;
    }
    if (is_too_large(board, message)) {
        kiln_tracker_send_error(t, tuner, message->stream, KILN_UNIMPLEMENTED, message->trial.trial,
                                lease->lease,
                                "board %.*s runs %s, which is too old for blobs of more than 1 "
                                "GiB: replace it",
                                KILN_STR_ARG(lease->board->up.key), board->software);
        return;
    }
    if (message->type == KILN_MSG_TRIAL &&
        !kiln_tracker_trial_blobs(t, tuner, lease, &message->trial)) {
        kiln_tracker_count_refusal(t);
        kiln_tracker_send_error(t, tuner, message->stream, KILN_NOT_FOUND, message->trial.trial,
                                lease->lease, "a blob of the trial is not here from %s",
                                tuner->person);
        return;
    }
    if (lease->board_due_ns)
        hold_back(lease, message);
    else
        forward(t, board, message);
    if (message->type == KILN_MSG_TRIAL)
        note(t, lease, KILN_TRACKER_TRIAL_SENT, message->trial.trial, NULL);
}

/* An answer to a trial that was not sent: as the lease holds, the board only forgets the trial. */
static void drop_unasked(kiln_tracker *t, const kiln_tracker_peer *board,
                         const kiln_message *message) {
    const kiln_msg_trial_result *result = &message->trial_result;
    kiln_message ack = {
        .type = KILN_MSG_TRIAL_ACK,
        .trial_ack = {.trial = result->trial, .attempt = result->attempt, .lease = result->lease}};
    t->relay.stale_refused++;
    if (message->type == KILN_MSG_TRIAL_RESULT) kiln_tracker_send(t, board, &ack);
}

void kiln_tracker_trial_up(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message) {
    kiln_tracker_lease *lease = kiln_tracker_lease_find(t, lease_in(message));
    if (!lease || lease->board != peer->board) {
        t->relay.stale_refused++; /* the fence: the lease is over, or another board's */
        kiln_tracker_lease_deny(t, peer, lease_in(message));
        return;
    }
    bool is_result = message->type == KILN_MSG_TRIAL_RESULT;
    kiln_str trial = is_result ? message->trial_result.trial : message->trial_event.trial;
    kiln_tracker_sent *sent = lease->restored
                                  ? count_trial(lease, trial)
                                  : find_sent(lease, kiln_hash64(trial.data, trial.size, 0));
    if (!sent) {
        drop_unasked(t, peer, message);
        return;
    }
    /* A holder that is not connected gets the answer when the board repeats it. */
    kiln_tracker_peer *holder = kiln_tracker_holder_by_boot(t, lease->tuner);
    if (is_result) kiln_tracker_peer_add_output(holder, &message->trial_result.outputs.digest);
    forward(t, holder, message);
    if (!is_result || message->trial_result.attempt <= sent->attempt) return;
    sent->attempt = message->trial_result.attempt;
    t->relay.results++;
    note(t, lease, KILN_TRACKER_TRIAL_RESULT, trial,
         kiln_outcome_name((kiln_outcome)message->trial_result.outcome));
    kiln_tracker_board_judge(t, lease->board, &message->trial_result); /* it may end the lease */
}
