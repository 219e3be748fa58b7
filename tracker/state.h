/* What a tracker holds, shared by the files of tracker/ and nobody else. */
#ifndef KILN_TRACKER_STATE_H
#define KILN_TRACKER_STATE_H

#include "base/map.h"
#include "base/target.h"
#include "tracker/tracker.h"

#define KILN_TRACKER_TICK_NS UINT64_C(250000000)
#define KILN_TRACKER_SLOTS_MAX 16u
#define KILN_TRACKER_ARENA_BYTES ((size_t)2 << 10) /* first chunk of a board, request or job */

typedef char kiln_tracker_text[KILN_MESSAGES_TEXT + 1]; /* an identity, NUL-terminated */

/* A connection. */
typedef struct kiln_tracker_peer {
    uint64_t id;
    kiln_peer_role role;
    kiln_tracker_text node, boot;
    uint64_t heard_ns;
    bool closing;                     /* CLOSE was emitted; nothing from it counts any more */
    struct kiln_tracker_board *board; /* of a board, after BOARD_UP */
} kiln_tracker_peer;

/* A board that was here since the tracker started, or that a lease waits for. */
typedef struct kiln_tracker_board {
    kiln_tracker_text node;
    kiln_arena arena; /* of `up` and `target`; renewed by each BOARD_UP */
    kiln_msg_board_up up;
    kiln_target target;
    bool known;              /* `up` and `target` hold */
    kiln_tracker_peer *peer; /* NULL: lost */
    uint64_t lost_ns;        /* when peer is NULL */
    bool sick, leaving;
    kiln_msg_env env; /* last reading; no views but `governor`, which is left out */
    uint64_t results;
    uint64_t slot[KILN_TRACKER_SLOTS_MAX]; /* lease, 0: free */
} kiln_tracker_board;

typedef struct kiln_tracker_request {
    kiln_arena arena;
    kiln_msg_lease_req want;
    kiln_target target;
    kiln_tracker_text tuner, node; /* of the tuner: its run and itself */
} kiln_tracker_request;

typedef struct kiln_tracker_lease {
    uint64_t lease, request;
    uint64_t persist; /* > 0: the grant waits for this */
    kiln_tracker_board *board;
    uint32_t slot, trials, ttl_ms;
    kiln_tracker_text tuner; /* boot: a lease belongs to one run of a tuner */
    kiln_tracker_text node;  /* of that tuner */
    kiln_tracker_text job;
    uint64_t expires_ns;
    uint64_t
        board_due_ns; /* after a restart of the tracker: the board must be back by then; 0: it is */
    KILN_VEC(uint64_t) trial; /* hashes of the trials sent under it */
} kiln_tracker_lease;

typedef struct kiln_tracker_job {
    kiln_tracker_text id;
    kiln_arena arena; /* of spec, target and tasks */
    kiln_msg_job_spec spec;
    kiln_target target;
    kiln_job_state state;
    uint32_t leases; /* held for it */
    uint64_t opened_ns, assigned_ns;
    kiln_tracker_text tuner; /* node, empty: none */
    uint64_t tuner_lost_ns;  /* since when that tuner is not connected; 0: it is */
    kiln_tracker_peer *client;
    uint32_t client_stream;  /* of JOB_OPEN, while its answer is due */
    uint64_t client_lost_ns; /* 0: there is one, or none is needed */
    uint64_t unserved_ns;    /* since when tuner or board is missing; 0: served */
    uint64_t ending_ns;      /* since when the tuner was told to stop; 0: it was not */
    kiln_code ending_code;
    char *ending_text;      /* in arena */
    kiln_msg_job_done done; /* once ended; also holds the task states while it runs */
    uint64_t persist;       /* > 0: its opening or its end waits for this */
} kiln_tracker_job;

struct kiln_tracker {
    KILN_VEC(kiln_tracker_peer *) peer;
    KILN_VEC(kiln_tracker_peer *) tuner; /* those of `peer` that are one */
    kiln_map peer_of_id;                 /* 8 bytes of id -> pointer */
    KILN_VEC(kiln_tracker_board *) board;
    kiln_map board_of_node;
    KILN_VEC(kiln_tracker_request *) request; /* oldest first */
    KILN_VEC(kiln_tracker_lease *) lease;
    kiln_map lease_of_number;         /* 8 bytes -> pointer */
    KILN_VEC(kiln_tracker_job *) job; /* oldest first */
    kiln_map job_of_id;
    uint64_t epoch;   /* last lease number given out */
    uint64_t persist; /* last PERSIST */
    uint64_t next_tick_ns;
    bool fleet_changed; /* boards or tuners: jobs are looked at again */
    bool slots_changed; /* boards, leases or requests: grants are looked at again */
    uint64_t grants, results, stale_refused;
    /* Of the step under way. */
    uint64_t now_ns;
    kiln_tracker_actions *actions;
};

/* tracker.c */
/* Sends a deep copy of `message`; a NULL peer swallows it. */
void kiln_tracker_send(kiln_tracker *t, const kiln_tracker_peer *peer, const kiln_message *message);
void kiln_tracker_send_error(kiln_tracker *t, const kiln_tracker_peer *peer, uint32_t stream,
                             kiln_code code, kiln_str about, uint64_t lease, const char *format,
                             ...) KILN_PRINTF(7, 8);
/* Tells the peer why and has its connection closed. What it held is dropped when CLOSED comes. */
void kiln_tracker_drop(kiln_tracker *t, kiln_tracker_peer *peer, kiln_code code, const char *text);
/* Emits a PERSIST of `row` (copied) and returns its number. */
uint64_t kiln_tracker_persist(kiln_tracker *t, const kiln_tracker_row *row, uint32_t count);
/* The connected tuner with this boot, or node; NULL. */
kiln_tracker_peer *kiln_tracker_tuner_by_boot(kiln_tracker *t, const char *boot);
kiln_tracker_peer *kiln_tracker_tuner_by_node(kiln_tracker *t, const char *node);
void kiln_tracker_set_text(kiln_tracker_text out, kiln_str text);

/* device.c */
kiln_tracker_board *kiln_tracker_board_find(kiln_tracker *t, kiln_str node);
/* Makes an empty entry when there is none. */
kiln_tracker_board *kiln_tracker_board_get(kiln_tracker *t, kiln_str node);
void kiln_tracker_board_up(kiln_tracker *t, kiln_tracker_peer *peer, const kiln_message *message);
void kiln_tracker_board_state(kiln_tracker *t, kiln_tracker_peer *peer,
                              const kiln_message *message);
void kiln_tracker_board_lost(kiln_tracker *t, kiln_tracker_board *board, const char *why);
/* Whether it is here, well, and runs code for the target. */
bool kiln_tracker_board_fits(const kiln_tracker_board *board, const kiln_target *target,
                             const kiln_msg_lease_req *want);
void kiln_tracker_board_free(kiln_tracker_board *board);

/* queue.c */
void kiln_tracker_lease_req(kiln_tracker *t, kiln_tracker_peer *tuner, const kiln_message *message);
/* A waiting request; NULL. */
kiln_tracker_request *kiln_tracker_request_find(kiln_tracker *t, const char *tuner,
                                                uint64_t number);
void kiln_tracker_request_remove(kiln_tracker *t, kiln_tracker_request *request);
void kiln_tracker_requests_end_of_job(kiln_tracker *t, const char *job);
/* A tuner came: what a former run of it asked for is forgotten. */
void kiln_tracker_requests_tuner_up(kiln_tracker *t, const kiln_tracker_peer *tuner);
void kiln_tracker_requests_free(kiln_tracker *t);
/* Grants what can be granted. */
void kiln_tracker_grant(kiln_tracker *t);

/* lease.c */
/* Takes the slot now and asks for the row to be written; the holder hears of it when that is done.
 * `request` is removed. */
void kiln_tracker_lease_grant(kiln_tracker *t, kiln_tracker_board *board, uint32_t slot,
                              kiln_tracker_request *request);
/* Whether the request was granted already; then its holder is told again, as the grant may have
 * got lost on the way. */
bool kiln_tracker_lease_repeat(kiln_tracker *t, const kiln_tracker_peer *tuner, uint64_t request);
void kiln_tracker_lease_renew(kiln_tracker *t, kiln_tracker_peer *tuner,
                              const kiln_message *message);
void kiln_tracker_lease_release(kiln_tracker *t, kiln_tracker_peer *tuner,
                                const kiln_message *message);
void kiln_tracker_lease_persisted(kiln_tracker *t, uint64_t persist, const char *failure);
kiln_tracker_lease *kiln_tracker_lease_find(kiln_tracker *t, uint64_t lease);
/* The lease that a tuner speaks of when it is its own; otherwise the tuner is told that it has
 * none. */
kiln_tracker_lease *kiln_tracker_lease_own(kiln_tracker *t, kiln_tracker_peer *tuner,
                                           uint64_t number);
/* Ends a lease: board and holder are told, the slot is free, late results are refused from here on.
 */
void kiln_tracker_lease_end(kiln_tracker *t, kiln_tracker_lease *lease, kiln_code code,
                            const char *why);
void kiln_tracker_leases_end_of_job(kiln_tracker *t, const char *job);
/* A tuner came: what a former run of it held is free. */
void kiln_tracker_leases_tuner_up(kiln_tracker *t, const kiln_tracker_peer *tuner);
void kiln_tracker_leases_tick(kiln_tracker *t);
KILN_MUST_USE kiln_status kiln_tracker_lease_restore(kiln_tracker *t, const kiln_tracker_row *row);
void kiln_tracker_leases_free(kiln_tracker *t);

/* relay.c */
/* From tuner to board: TRIAL, TRIAL_ACK, CANCEL; from board to tuner: TRIAL_EVENT, TRIAL_RESULT. */
void kiln_tracker_trial_down(kiln_tracker *t, kiln_tracker_peer *tuner,
                             const kiln_message *message);
void kiln_tracker_trial_up(kiln_tracker *t, kiln_tracker_peer *board, const kiln_message *message);

/* job.c */
void kiln_tracker_job_open(kiln_tracker *t, kiln_tracker_peer *client, const kiln_message *message);
void kiln_tracker_job_event(kiln_tracker *t, kiln_tracker_peer *tuner, const kiln_message *message);
void kiln_tracker_job_done(kiln_tracker *t, kiln_tracker_peer *tuner, const kiln_message *message);
void kiln_tracker_job_close(kiln_tracker *t, kiln_tracker_peer *client,
                            const kiln_message *message);
void kiln_tracker_job_cancel(kiln_tracker *t, kiln_tracker_peer *client,
                             const kiln_message *message);
void kiln_tracker_job_persisted(kiln_tracker *t, uint64_t persist, const char *failure);
void kiln_tracker_jobs_tuner_up(kiln_tracker *t, kiln_tracker_peer *tuner);
void kiln_tracker_jobs_peer_gone(kiln_tracker *t, kiln_tracker_peer *peer);
/* Assigns, notices what is missing, ends what waited too long. */
void kiln_tracker_jobs_tick(kiln_tracker *t);
kiln_tracker_job *kiln_tracker_job_find(kiln_tracker *t, kiln_str id);
bool kiln_tracker_job_is_open(const kiln_tracker_job *job);
KILN_MUST_USE kiln_status kiln_tracker_job_restore(kiln_tracker *t, const kiln_tracker_row *row);
void kiln_tracker_jobs_free(kiln_tracker *t);

/* query.c */
void kiln_tracker_query(kiln_tracker *t, kiln_tracker_peer *client, const kiln_message *message);

#endif
