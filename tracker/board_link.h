/* Messages in which boards describe themselves, and the effect on their leases. */
#ifndef KILN_TRACKER_BOARD_LINK_H
#define KILN_TRACKER_BOARD_LINK_H

#include "tracker/board_requests.h"
#include "tracker/relay.h"

void kiln_tracker_board_goaway(kiln_tracker *t, kiln_tracker_peer *peer,
                               const kiln_message *message);

/* Drops the connection of a board that uses the node or `name` of another board (empty: it has
 * named itself not yet), and notes that in the other's history. False: it uses its own. */
bool kiln_tracker_board_refuses(kiln_tracker *t, kiln_tracker_peer *peer, kiln_str name);
void kiln_tracker_board_up(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message);
void kiln_tracker_board_state(kiln_tracker *t, kiln_tracker_peer *peer,
                              const kiln_message *message);
void kiln_tracker_board_lost(kiln_tracker *t, kiln_tracker_board *board, const char *why);

#endif
