/* Boards in and out of service. */
#ifndef KILN_TRACKER_BOARD_SERVICE_H
#define KILN_TRACKER_BOARD_SERVICE_H

#include "tracker/rows.h"

typedef struct kiln_tracker_board_service {
    uint32_t orders;      /* about boards, that are not on disk yet */
    uint64_t quarantines; /* counted */
} kiln_tracker_board_service;

void kiln_tracker_board_order(kiln_tracker *t, kiln_tracker_peer *client,
                              const kiln_message *message);
void kiln_tracker_order_persisted(kiln_tracker *t, uint64_t persist, const char *failure);
/* Counts a result for or against its board. */
void kiln_tracker_board_judge(kiln_tracker *t, kiln_tracker_board *board,
                              const kiln_msg_trial_result *result);
/* Counts a fault of the board itself; too many in a row quarantine it. */
void kiln_tracker_board_fault(kiln_tracker *t, kiln_tracker_board *board, const char *why);
void kiln_tracker_board_service_tick(kiln_tracker *t);

#endif
