/* What boards say of themselves, and what that does to their leases. */
#ifndef KILN_TRACKER_BOARD_LINK_H
#define KILN_TRACKER_BOARD_LINK_H

#include "tracker/board_requests.h"
#include "tracker/relay.h"

void kiln_tracker_board_goaway(kiln_tracker *t, kiln_tracker_peer *peer,
                               const kiln_message *message);

/* Drops a board's peer that has another's node or `name` (empty: it has said none yet), and notes
 * it in the history of the other. False: it is none. */
bool kiln_tracker_board_refuses(kiln_tracker *t, kiln_tracker_peer *peer, kiln_str name);
void kiln_tracker_board_up(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message);
void kiln_tracker_board_state(kiln_tracker *t, kiln_tracker_peer *peer,
                              const kiln_message *message);
void kiln_tracker_board_lost(kiln_tracker *t, kiln_tracker_board *board, const char *why);

#endif
