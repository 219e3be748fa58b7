/* Leases: grants, which are on disk before they are sent, and their ends. */
#ifndef KILN_TRACKER_LEASES_H
#define KILN_TRACKER_LEASES_H

#include "tracker/queue.h"

#define KILN_TRACKER_WAIT_BUCKETS 9u
#define KILN_TRACKER_EPOCHS 1024u /* lease numbers reserved at a time */

/* A trial that was sent to the board under a lease. Written by relay.c. */
typedef struct kiln_tracker_sent {
    uint64_t hash;
    uint32_t attempt; /* last attempt with a result; 0: none */
} kiln_tracker_sent;

/* Messages for a board that may reconnect after the tracker's restart. Written by relay.c, too. */
typedef struct kiln_tracker_held_back {
    KILN_VEC(kiln_message) messages; /* in `arena` */
    kiln_arena arena;
} kiln_tracker_held_back;

/* Written by relay.c, too. */
typedef struct kiln_tracker_lease {
    uint64_t lease, request;
    uint64_t persist;  /* > 0: PERSIST that the grant waits for */
    uint64_t reserves; /* the highest lease number that its PERSIST reserves; 0: it reserves none */
    uint32_t index;    /* in kiln_tracker_leases.all */
    kiln_tracker_board *board;
    uint32_t slot, trials, ttl_ms;
    bool whole;                   /* it holds all slots of its device */
    uint32_t counted;             /* slots charged to its project */
    uint64_t hold_until_ns;       /* its project may hold it until then; 0: no bound */
    kiln_tracker_text tuner;      /* boot of the holder: a lease belongs to one run of it */
    kiln_tracker_text node;       /* of the holder */
    struct kiln_tracker_job *job; /* NULL: unknown, after a restart */
    uint64_t granted_ns, expires_ns;
    uint64_t board_due_ns; /* after a restart of the tracker the board must reconnect by then; 0: it
                              is connected */
    bool restored;  /* it was granted before this tracker started, which may have sent trials */
    bool unclaimed; /* its holder has not mentioned it since the restart */
    KILN_VEC(kiln_tracker_sent) trial;
    KILN_VEC(kiln_digest) blob; /* named by its trials: the board may get them */
    kiln_tracker_held_back held_back;
} kiln_tracker_lease;

typedef struct kiln_tracker_leases {
    KILN_VEC(kiln_tracker_lease *) all;
    uint32_t unclaimed;       /* of these */
    kiln_map of_number;       /* 8 bytes -> pointer */
    kiln_map of_request;      /* number, tuner's boot -> pointer */
    kiln_map of_persist;      /* 8 bytes -> pointer */
    uint64_t epoch;           /* last lease number given out */
    uint64_t epoch_durable;   /* lease numbers up to this are reserved on disk */
    uint64_t grants, expired; /* counted */
    uint64_t waits[KILN_TRACKER_WAIT_BUCKETS], waited_ns; /* waiting times of granted requests */
} kiln_tracker_leases;

/* Upper bounds of the buckets `waits`, in seconds; the last has none. */
extern const double kiln_tracker_wait_bound_s[KILN_TRACKER_WAIT_BUCKETS - 1];

void kiln_tracker_leases_init(kiln_tracker *t);
/* Lease numbers up to that of the row count as given out. */
void kiln_tracker_epoch_restore(kiln_tracker *t, const kiln_tracker_row *row);
void kiln_tracker_leases_end_of_board(kiln_tracker *t, const kiln_tracker_board *board,
                                      const char *why);
void kiln_tracker_leases_end_of_project(kiln_tracker *t, const kiln_tracker_project *project,
                                        const char *why);
/* Lets its board get the blob. */
void kiln_tracker_lease_add_blob(kiln_tracker_lease *lease, const kiln_digest *digest);
/* Adds to each project the cost of its leases so far. */
void kiln_tracker_leases_tell_cost(kiln_tracker *t);

/* Takes the slot and writes the lease's row; the grant is sent when that is durable. Removes
 * `request`. */
void kiln_tracker_lease_grant(kiln_tracker *t, kiln_tracker_device *device, uint32_t slot,
                              kiln_tracker_request *request);
/* Returns whether the request was granted already; then the grant is sent again, because it may
 * have been lost. */
bool kiln_tracker_lease_repeat(kiln_tracker *t, const kiln_tracker_peer *tuner, uint64_t request);
void kiln_tracker_lease_renew(kiln_tracker *t, kiln_tracker_peer *tuner,
                              const kiln_message *message);
void kiln_tracker_lease_release(kiln_tracker *t, kiln_tracker_peer *tuner,
                                const kiln_message *message);
/* Returns whether the PERSIST was that of a lease. */
bool kiln_tracker_lease_persisted(kiln_tracker *t, uint64_t persist, const char *failure);
/* Slot time that it used so far, in ns. */
uint64_t kiln_tracker_lease_cost(const kiln_tracker *t, const kiln_tracker_lease *lease);
kiln_tracker_lease *kiln_tracker_lease_find(kiln_tracker *t, uint64_t lease);
/* The lease of this number if the tuner holds it. Otherwise sends LEASE_LOST and returns NULL. */
kiln_tracker_lease *kiln_tracker_lease_own(kiln_tracker *t, kiln_tracker_peer *tuner,
                                           uint64_t number);
/* Ends a lease: tells its holder, and its board if trials were sent; frees the slot. Late results
 * are refused from now on. */
void kiln_tracker_lease_end(kiln_tracker *t, kiln_tracker_lease *lease, kiln_code code,
                            const char *why);
/* Tells a board that a lease number does not hold. */
void kiln_tracker_lease_deny(kiln_tracker *t, const kiln_tracker_peer *board, uint64_t number);
void kiln_tracker_leases_end_of_job(kiln_tracker *t, kiln_tracker_job *job);
/* Ends the leases of earlier runs of a tuner that connects. */
void kiln_tracker_leases_tuner_up(kiln_tracker *t, const kiln_tracker_peer *tuner);
/* Ends restored leases that the tuner did not mention: grants that never reached it, or leases that
 * it gave back. Called when the tuner has had time to report what it holds. */
void kiln_tracker_leases_tuner_settled(kiln_tracker *t, const kiln_tracker_peer *tuner);
/* Asks the holders of a board's leases to send no more trials than they have sent. */
void kiln_tracker_board_wind_down(kiln_tracker *t, const kiln_tracker_board *board);
void kiln_tracker_leases_tick(kiln_tracker *t);
KILN_MUST_USE kiln_status kiln_tracker_lease_restore(kiln_tracker *t, const kiln_tracker_row *row);
void kiln_tracker_leases_free(kiln_tracker *t);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_leases_check(const kiln_tracker *t);

#endif
