/* Trials on their way from tuner to board and back. */
#ifndef KILN_TRACKER_RELAY_H
#define KILN_TRACKER_RELAY_H

#include "tracker/blobs.h"
#include "tracker/board_service.h"

typedef struct kiln_tracker_relay {
    uint64_t results, stale_refused; /* counted */
} kiln_tracker_relay;

/* The lease's board is back after a restart of the tracker: it gets what came for it meanwhile. */
void kiln_tracker_lease_hand_over(kiln_tracker *t, kiln_tracker_lease *lease);
/* From tuner to board: TRIAL, TRIAL_ACK, CANCEL; from board to tuner: TRIAL_EVENT, TRIAL_RESULT. */
void kiln_tracker_trial_down(kiln_tracker *t, kiln_tracker_peer *tuner,
                             const kiln_message *message);
void kiln_tracker_trial_up(kiln_tracker *t, kiln_tracker_peer *board, const kiln_message *message);

#endif
