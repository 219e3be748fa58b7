/* What people ask of boards themselves, through the tracker. */
#ifndef KILN_TRACKER_BOARD_REQUESTS_H
#define KILN_TRACKER_BOARD_REQUESTS_H

#include "tracker/rows.h"

#define KILN_TRACKER_BOARD_REQUESTS_MAX 256u /* pings, and readers of logs */

/* Somebody who wants to know whether boards are there. */
typedef struct kiln_tracker_probe {
    kiln_tracker_peer *peer;
    uint32_t stream;
    uint64_t number;  /* what its PINGs carry */
    uint64_t sent_ns; /* when they went */
    uint32_t wait_ms;
    KILN_VEC(kiln_tracker_board *) waits; /* for their PONG; connected ones */
} kiln_tracker_probe;

/* Somebody who reads the log of a connected board. */
typedef struct kiln_tracker_log_reader {
    kiln_tracker_peer *peer;
    uint32_t stream;
    uint64_t reader; /* what the board calls it */
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
/* An asker went, or a board that was asked. */
void kiln_tracker_board_requests_peer_gone(kiln_tracker *t, const kiln_tracker_peer *peer);
void kiln_tracker_board_requests_free(kiln_tracker *t);

#endif
