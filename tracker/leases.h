/* Leases: grants that are on disk before they are sent, their end, and the fence. */
#ifndef KILN_TRACKER_LEASES_H
#define KILN_TRACKER_LEASES_H

#include "tracker/queue.h"

#define KILN_TRACKER_WAIT_BUCKETS 9u
#define KILN_TRACKER_EPOCHS 1024u /* lease numbers reserved at a time */

/* A trial that was sent under a lease. Written by relay.c. */
typedef struct kiln_tracker_sent {
    uint64_t hash;
    uint32_t attempt; /* last one that a result came of; 0: none */
} kiln_tracker_sent;

/* What came for a board that may come back after a restart of the tracker. Written by relay.c, too.
 */
typedef struct kiln_tracker_held_back {
    KILN_VEC(kiln_message) messages; /* in `arena` */
    kiln_arena arena;
} kiln_tracker_held_back;

/* Written by relay.c, too. */
typedef struct kiln_tracker_lease {
    uint64_t lease, request;
    uint64_t persist;  /* > 0: the grant waits for this */
    uint64_t reserves; /* with it lease numbers up to this are on disk; 0: it was not needed */
    uint32_t index;    /* in kiln_tracker_leases.all */
    kiln_tracker_board *board;
    uint32_t slot, trials, ttl_ms;
    bool whole;                   /* it has all slots of its device */
    uint32_t counted;             /* slots that it counts as for its project */
    uint64_t hold_until_ns;       /* its project may not hold it longer; 0: no bound */
    kiln_tracker_text tuner;      /* boot: a lease belongs to one run of its holder */
    kiln_tracker_text node;       /* of that holder */
    struct kiln_tracker_job *job; /* NULL: unknown, after a restart */
    uint64_t granted_ns, expires_ns;
    uint64_t
        board_due_ns; /* after a restart of the tracker: the board must be back by then; 0: it is */
    bool restored;    /* trials may have been sent before this tracker began */
    bool unclaimed;   /* so far its holder has not spoken of it since then */
    KILN_VEC(kiln_tracker_sent) trial;
    KILN_VEC(kiln_digest) blob; /* that the trials name: the board may have them */
    kiln_tracker_held_back held_back;
} kiln_tracker_lease;

typedef struct kiln_tracker_leases {
    KILN_VEC(kiln_tracker_lease *) all;
    uint32_t unclaimed;       /* of these */
    kiln_map of_number;       /* 8 bytes -> pointer */
    kiln_map of_request;      /* number, tuner's boot -> pointer */
    kiln_map of_persist;      /* 8 bytes -> pointer */
    uint64_t epoch;           /* last lease number given out */
    uint64_t epoch_durable;   /* up to here the disk says that they may have been */
    uint64_t grants, expired; /* counted */
    uint64_t waits[KILN_TRACKER_WAIT_BUCKETS], waited_ns; /* of requests that were granted */
} kiln_tracker_leases;

/* Bounds of `waits`, in seconds; the last bucket has none. */
extern const double kiln_tracker_wait_bound_s[KILN_TRACKER_WAIT_BUCKETS - 1];

void kiln_tracker_leases_init(kiln_tracker *t);
/* Lease numbers up to that of the row may have been given out. */
void kiln_tracker_epoch_restore(kiln_tracker *t, const kiln_tracker_row *row);
void kiln_tracker_leases_end_of_board(kiln_tracker *t, const kiln_tracker_board *board,
                                      const char *why);
void kiln_tracker_leases_end_of_project(kiln_tracker *t, const kiln_tracker_project *project,
                                        const char *why);
/* Its board may have the blob. */
void kiln_tracker_lease_add_blob(kiln_tracker_lease *lease, const kiln_digest *digest);
/* Tells each project what its leases have cost so far. */
void kiln_tracker_leases_tell_cost(kiln_tracker *t);

/* Takes the slot now and asks for the row to be written; the holder hears of it when that is done.
 * `request` is removed. */
void kiln_tracker_lease_grant(kiln_tracker *t, kiln_tracker_device *device, uint32_t slot,
                              kiln_tracker_request *request);
/* Whether the request was granted already; then its holder is told again, as the grant may have
 * got lost on the way. */
bool kiln_tracker_lease_repeat(kiln_tracker *t, const kiln_tracker_peer *tuner, uint64_t request);
void kiln_tracker_lease_renew(kiln_tracker *t, kiln_tracker_peer *tuner,
                              const kiln_message *message);
void kiln_tracker_lease_release(kiln_tracker *t, kiln_tracker_peer *tuner,
                                const kiln_message *message);
/* Whether it was about a lease. */
bool kiln_tracker_lease_persisted(kiln_tracker *t, uint64_t persist, const char *failure);
/* Time of slots that it took so far. */
uint64_t kiln_tracker_lease_cost(const kiln_tracker *t, const kiln_tracker_lease *lease);
kiln_tracker_lease *kiln_tracker_lease_find(kiln_tracker *t, uint64_t lease);
/* The lease that a tuner speaks of when it is its own; otherwise the tuner is told that it has
 * none. */
kiln_tracker_lease *kiln_tracker_lease_own(kiln_tracker *t, kiln_tracker_peer *tuner,
                                           uint64_t number);
/* Ends a lease: its holder is told, and its board if it knows of it; the slot is free, late results
 * are refused from here on. */
void kiln_tracker_lease_end(kiln_tracker *t, kiln_tracker_lease *lease, kiln_code code,
                            const char *why);
/* Tells a board that a lease number does not hold. */
void kiln_tracker_lease_deny(kiln_tracker *t, const kiln_tracker_peer *board, uint64_t number);
void kiln_tracker_leases_end_of_job(kiln_tracker *t, kiln_tracker_job *job);
/* A tuner came: what a former run of it held is free. */
void kiln_tracker_leases_tuner_up(kiln_tracker *t, const kiln_tracker_peer *tuner);
/* A tuner that is back after a restart of the tracker has said what it holds and asks for: the rest
 * of what it held, grants that it never heard of or leases it has given back, is free. */
void kiln_tracker_leases_tuner_settled(kiln_tracker *t, const kiln_tracker_peer *tuner);
/* Asks the holders of a board that shall rest to send no more trials than they have sent. */
void kiln_tracker_board_wind_down(kiln_tracker *t, const kiln_tracker_board *board);
void kiln_tracker_leases_tick(kiln_tracker *t);
KILN_MUST_USE kiln_status kiln_tracker_lease_restore(kiln_tracker *t, const kiln_tracker_row *row);
void kiln_tracker_leases_free(kiln_tracker *t);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_leases_check(const kiln_tracker *t);

#endif
