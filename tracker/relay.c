/* Trials on their way from tuner to board and back: let through only under a lease that holds. */
#include <string.h>

#include "base/hash.h"
#include "tracker/state.h"

/* False when the lease has sent its K trials and this is another one. */
static bool count_trial(kiln_tracker_lease *lease, kiln_str trial) {
    uint64_t hash = kiln_hash64(trial.data, trial.size, 0);
    for (uint32_t i = 0; i < lease->trial.count; i++)
        if (lease->trial.data[i] == hash) return true;
    if (lease->trial.count >= lease->trials) return false;
    kiln_vec_push(&lease->trial, hash);
    return true;
}

static uint64_t lease_in(const kiln_message *message) {
    if (message->type == KILN_MSG_TRIAL) return message->trial.lease;
    if (message->type == KILN_MSG_TRIAL_ACK) return message->trial_ack.lease;
    if (message->type == KILN_MSG_CANCEL) return message->cancel.lease;
    if (message->type == KILN_MSG_TRIAL_EVENT) return message->trial_event.lease;
    return message->trial_result.lease;
}

static void forward(kiln_tracker *t, const kiln_tracker_peer *to, const kiln_message *message) {
    kiln_message copy = *message;
    copy.stream = 0; /* streams belong to one connection */
    kiln_tracker_send(t, to, &copy);
}

void kiln_tracker_trial_down(kiln_tracker *t, kiln_tracker_peer *tuner,
                             const kiln_message *message) {
    kiln_tracker_lease *lease = kiln_tracker_lease_own(t, tuner, lease_in(message));
    if (!lease) {
        t->stale_refused += message->type == KILN_MSG_TRIAL;
        return;
    }
    if (message->type == KILN_MSG_TRIAL && !count_trial(lease, message->trial.trial)) {
        kiln_tracker_send_error(t, tuner, message->stream, KILN_RESOURCE_EXHAUSTED,
                                message->trial.trial, lease->lease, "lease %llu was for %u trials",
                                (unsigned long long)lease->lease, lease->trials);
        return;
    }
    forward(t, lease->board->peer, message);
}

void kiln_tracker_trial_up(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message) {
    uint64_t number = lease_in(message);
    kiln_tracker_lease *lease = kiln_tracker_lease_find(t, number);
    if (!lease ||
        lease->board != peer->board) { /* the fence: a late answer under a lease that is over */
        t->stale_refused++;
        kiln_message lost = {.type = KILN_MSG_LEASE_LOST,
                             .lease_lost = {.lease = number, .code = KILN_ABORTED}};
        kiln_tracker_send(t, peer, &lost);
        return;
    }
    if (message->type == KILN_MSG_TRIAL_RESULT) {
        lease->board->results++;
        t->results++;
    }
    /* A holder that is away gets it when the board sends it again. */
    forward(t, kiln_tracker_tuner_by_boot(t, lease->tuner), message);
}
