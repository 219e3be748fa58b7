/* Forwards trials from tuners to boards, and results back. */
#ifndef KILN_TRACKER_RELAY_H
#define KILN_TRACKER_RELAY_H

#include "tracker/blobs.h"
#include "tracker/board_service.h"

typedef struct kiln_tracker_relay {
    uint64_t results, stale_refused; /* counted */
} kiln_tracker_relay;

/* Sends the messages that were held back to the board, which has reconnected after a restart of the
 * tracker. */
void kiln_tracker_lease_hand_over(kiln_tracker *t, kiln_tracker_lease *lease);
/* `down`, from tuner to board: TRIAL, TRIAL_ACK, CANCEL. `up`, from board to tuner: TRIAL_EVENT,
 * TRIAL_RESULT. */
void kiln_tracker_trial_down(kiln_tracker *t, kiln_tracker_peer *tuner,
                             const kiln_message *message);
void kiln_tracker_trial_up(kiln_tracker *t, kiln_tracker_peer *board, const kiln_message *message);

#endif
