/* Requests of people that boards answer through the tracker: pings and logs. */
#ifndef KILN_TRACKER_BOARD_REQUESTS_H
#define KILN_TRACKER_BOARD_REQUESTS_H

#include "tracker/rows.h"

#define KILN_TRACKER_BOARD_REQUESTS_MAX 256u /* of each kind */

/* A ping of boards by a person. */
typedef struct kiln_tracker_probe {
    kiln_tracker_peer *peer;
    uint32_t stream;
    uint64_t number;  /* carried by its PINGs */
    uint64_t sent_ns; /* when these were sent */
    uint32_t wait_ms;
    KILN_VEC(kiln_tracker_board *) waits; /* connected boards whose PONG is awaited */
} kiln_tracker_probe;

/* A person who reads the log of a connected board. */
typedef struct kiln_tracker_log_reader {
    kiln_tracker_peer *peer;
    uint32_t stream;
    uint64_t reader; /* its number for the board */
    kiln_tracker_board *board;
} kiln_tracker_log_reader;

typedef struct kiln_tracker_board_requests {
    KILN_VEC(kiln_tracker_probe *) probes;
    KILN_VEC(kiln_tracker_log_reader *) log_readers;
    uint64_t last_number; /* of a probe or a reader */
} kiln_tracker_board_requests;

void kiln_tracker_probe_boards(kiln_tracker *t, kiln_tracker_peer *client,
                               const kiln_message *message);
void kiln_tracker_pong(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message);
void kiln_tracker_log_request(kiln_tracker *t, kiln_tracker_peer *client,
                              const kiln_message *message);
void kiln_tracker_log_lines(kiln_tracker *t, kiln_tracker_peer *board, const kiln_message *message);
void kiln_tracker_board_requests_tick(kiln_tracker *t);
/* A person who asks, or a board that is asked, has disconnected. */
void kiln_tracker_board_requests_peer_gone(kiln_tracker *t, const kiln_tracker_peer *peer);
void kiln_tracker_board_requests_free(kiln_tracker *t);

#endif
