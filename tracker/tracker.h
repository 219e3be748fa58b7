/* The tracker's decisions about connections, boards, leases and jobs. Pure: `step` gets the time
 * and one event, and leaves actions for the shell (tracker/shell.c) or the simulator (tests/sim) to
 * carry out in order. No clock, no socket, no file, no randomness.
 *
 * Rules it keeps:
 * - A slot of a board has at most one lease. Numbers of leases only grow, over restarts too. A
 *   lease is on disk before anybody is told of it. Messages with an older number are refused.
 * - A job, its tuner and its end are on disk before anybody is told of them.
 * - A peer is lost when it is silent for KILN_LINK_SILENCE_NS or its connection closes. The leases
 *   of a lost board end at once, those of a lost tuner when they are not renewed, and the jobs of a
 *   lost client when it does not return within KILN_TRACKER_CLIENT_GRACE_NS.
 * - Every job ends and every request is answered. A job fails with UNAVAILABLE, naming what is
 *   missing, when no tuner or no board can serve it for KILN_TRACKER_WAIT_NS. A job for a board
 *   that was never seen fails with NOT_FOUND at once. Detached jobs wait instead.
 * - Projects share the boards' time by weight. Jobs of one project are served by priority, which
 *   rises while they wait, so that no job waits forever.
 * - A board out of service gets no lease. A board that fails KILN_TRACKER_FAULTS_MAX times in a row
 *   is put out of service for KILN_TRACKER_PROBATION_NS. */
#ifndef KILN_TRACKER_TRACKER_H
#define KILN_TRACKER_TRACKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/vec.h"
#include "proto/keys.h"
#include "proto/proto.h"

#define KILN_TRACKER_WAIT_NS \
    UINT64_C(10000000000) /* for a tuner or a fitting board; after a restart for all peers */
#define KILN_TRACKER_CLIENT_GRACE_NS \
    UINT64_C(500000000) /* time in which a client that lost its connection has to dial again */
#define KILN_TRACKER_TUNER_GRACE_NS \
    UINT64_C(5000000000) /* after this time another tuner gets the jobs of a lost one */
#define KILN_TRACKER_LEASE_TTL_MAX_MS 60000u
#define KILN_TRACKER_BOARDS_MAX 16384u
#define KILN_TRACKER_JOBS_MAX 4096u /* open ones */
#define KILN_TRACKER_TUNER_JOBS \
    48u /* most jobs of one tuner at a time; it refuses more than 64, ended ones included */
#define KILN_TRACKER_JOBS_KEPT \
    256u /* ended ones, for `kiln jobs list` and clients that come back */
#define KILN_TRACKER_REQUESTS_MAX 4096u      /* lease requests in the queue */
#define KILN_TRACKER_REQUESTS_OF_JOB_MAX 64u /* of these */
#define KILN_TRACKER_AGEING_NS \
    UINT64_C(2000000000)           /* waiting this long raises the priority by one */
#define KILN_TRACKER_SLICE_NS 20e9 /* about how long a lease lasts while others wait */
#define KILN_TRACKER_FAULTS_MAX 3u
#define KILN_TRACKER_SHARE_NS \
    UINT64_C(2000000000)                /* a kill loses at most this much of a project's use */
#define KILN_TRACKER_HELD_BACK_MAX 256u /* messages kept for a board that may reconnect */
#define KILN_TRACKER_ROW_ID_MAX (KILN_MESSAGES_NAME + 8u) /* bytes: "project/" and a name */
#define KILN_TRACKER_PROBATION_NS (UINT64_C(600) * 1000000000)

typedef struct kiln_tracker kiln_tracker;

/* A row of what must survive the tracker. (kind, id) identifies it. Texts are views. */
typedef enum kiln_tracker_row_kind {
    KILN_TRACKER_ROW_PERSON,
    KILN_TRACKER_ROW_PROJECT,
    KILN_TRACKER_ROW_MEMBER,
    KILN_TRACKER_ROW_QUOTA,
    KILN_TRACKER_ROW_SIGNER,
    KILN_TRACKER_ROW_FIGURES,
    KILN_TRACKER_ROW_BLOB,
    KILN_TRACKER_ROW_JOB,
    KILN_TRACKER_ROW_SHARE,
    KILN_TRACKER_ROW_BOARD,
    KILN_TRACKER_ROW_UPGRADE,
    KILN_TRACKER_ROW_CALENDAR,
    KILN_TRACKER_ROW_LEASE,
    KILN_TRACKER_ROW_EPOCH,
    KILN_TRACKER_ROW_KIND_COUNT
} kiln_tracker_row_kind;
typedef struct kiln_tracker_row {
    kiln_tracker_row_kind kind;
    bool removed;   /* the row is deleted */
    kiln_str id;    /* person, project: its name; member: "PROJECT/PERSON"; quota: its project;
                     * signer: "PROJECT/PUBLIC"; figures: text of a target;
                     * blob: "DIGEST/PERSON"; job: identity; share: "project/" and its name; board:
                     * node; upgrade: "upgrade", or "board/NODE" for a board of it; lease: its board
                     * and slot, "NODE/0"; epoch: "epoch"
                     */
    kiln_str state; /* job: kiln_job_state_name */
    kiln_str body;  /* all but lease and epoch: the encoded record `kept_job`, `kept_share`, ... of
                       messages.def; figures: as base/figures.h encodes them */
    kiln_str board, tuner, node,
        job;          /* lease: node of the board, boot and node of the holder, job */
    uint64_t epoch;   /* lease: its number; epoch: highest number that may have been given out */
    uint64_t request; /* lease: the holder's request that it answers; 0: not known */
    uint32_t slot, trials, ttl_ms; /* lease */
    bool whole;                    /* lease: it holds all slots of the device */
} kiln_tracker_row;

/* A copy whose texts lie in `arena`. */
kiln_tracker_row kiln_tracker_row_copy(const kiln_tracker_row *row, kiln_arena *arena);

typedef enum kiln_tracker_event_kind {
    KILN_TRACKER_CONNECTED, /* peer, hello, who */
    KILN_TRACKER_CLOSED,    /* peer: the connection is gone (also after the CLOSE action) */
    KILN_TRACKER_MESSAGE,   /* peer, message */
    KILN_TRACKER_PERSISTED, /* persist, failure: a PERSIST action is done */
    KILN_TRACKER_TICK,      /* at kiln_tracker_next_ns, or more often */
} kiln_tracker_event_kind;

/* What the tracker knows of a peer besides its own HELLO. All zero: a peer that proved nothing, of
 * a tracker that accepts anybody. */
typedef struct kiln_tracker_who {
    bool is_owner;      /* the tracker's own user, or root: has every right */
    bool is_admin;      /* holds an `admin` key: has every right */
    bool is_proven;     /* its identity is proven by a key, or by the system on this machine */
    bool has_key;       /* its key is for the node that HELLO names */
    const char *person; /* the person whose rights it has; NULL or "": a program, or not proven */
} kiln_tracker_who;

typedef struct kiln_tracker_event {
    kiln_tracker_event_kind kind;
    uint64_t peer; /* kiln_conn_id: never reused while the program runs */
    const kiln_msg_hello *hello;
    kiln_tracker_who who; /* CONNECTED */
    const kiln_message *message;
    uint64_t persist;
    const char *failure; /* PERSISTED: NULL when all of it is durable, else why none of it is */
} kiln_tracker_event;

/* What happened, a row of journal.def, and what it is about. Fields that do not apply are empty. */
typedef enum kiln_tracker_happening {
#define X(NAME, level, text, trace, phase, id) KILN_TRACKER_##NAME,
#include "tracker/journal.def"
#undef X
} kiln_tracker_happening;
typedef struct kiln_tracker_note {
    kiln_tracker_happening what;
    kiln_str job, board, trial, tuner, text;
    uint64_t lease, peer;
} kiln_tracker_note;

typedef enum kiln_tracker_action_kind {
    KILN_TRACKER_SEND,      /* message to peer */
    KILN_TRACKER_CLOSE,     /* send code and text to peer and close it; CLOSED follows */
    KILN_TRACKER_PERSIST,   /* write `row` in one transaction, then report PERSISTED with `persist`.
                               The loop goes on meanwhile. Transactions are carried out in order;
                               several may share a commit. */
    KILN_TRACKER_LOG,       /* write `note` to the log and the trace */
    KILN_TRACKER_DROP_BLOB, /* delete the file of `blob`, unless a job pins it */
} kiln_tracker_action_kind;

typedef struct kiln_tracker_action {
    kiln_tracker_action_kind kind;
    uint64_t peer;
    kiln_message message;
    kiln_code code;
    const char *text;
    uint64_t persist;
    const kiln_tracker_row *row;
    uint32_t row_count;
    bool may_wait; /* PERSIST: nobody waits for it, so that it may be written with a later one */
    const kiln_tracker_note *note;
    kiln_digest blob;
} kiln_tracker_action;

/* Filled by step. The shell owns it and resets it when the actions are carried out. */
typedef struct kiln_tracker_actions {
    kiln_arena arena; /* what the actions point to */
    KILN_VEC(kiln_tracker_action) list;
} kiln_tracker_actions;

/* Makes a tracker from the rows that the last one left, in any order. Leases hold for their time to
 * live from `now_ns`, so that board and tuner can reconnect. DATA_LOSS: a row does not decode; the
 * note names it. */
KILN_MUST_USE kiln_status kiln_tracker_create(const kiln_tracker_row *row, uint32_t row_count,
                                              uint64_t now_ns, kiln_tracker **out_tracker);
void kiln_tracker_destroy(kiln_tracker *tracker);

/* Sets the wall clock, by which events of boards are dated. */
void kiln_tracker_set_wall(kiln_tracker *tracker, uint64_t wall_ns);
/* Gives no work to boards whose BOARD_UP lacks one of `fences` (a bit per kiln_fence). Called
 * before the first event. */
void kiln_tracker_require_fences(kiln_tracker *tracker, uint32_t fences);

/* A signing key of the tracker's key list. */
typedef struct kiln_tracker_known_key {
    char node[KILN_KEY_NAME_BYTES]; /* "tuner/bench-1" */
    kiln_sign_public half;          /* its public half */
} kiln_tracker_known_key;
/* Finds a key in force by its node (empty: any) and its public half, or the half that it replaced
 * (NULL: any). */
typedef bool (*kiln_tracker_find_key)(void *context, kiln_str node, const kiln_sign_public *half,
                                      kiln_tracker_known_key *out_key);
/* Gives the tracker a key list. Called before the first event. */
void kiln_tracker_know_keys(kiln_tracker *tracker, kiln_tracker_find_key find_key, void *context);

/* A token with which a person signed in at a web server. */
typedef struct kiln_tracker_token {
    char name[KILN_KEY_NAME_BYTES]; /* "client/ann/web/1" */
    bool is_admin;                  /* the person has every right */
} kiln_tracker_token;
/* Finds the token of the person with this secret. False: it has none that is in force. */
typedef bool (*kiln_tracker_find_token)(void *context, kiln_str person, kiln_str secret,
                                        kiln_tracker_token *out_token);
/* Gives the tracker the tokens of a key list. Called before the first event. */
void kiln_tracker_know_tokens(kiln_tracker *tracker, kiln_tracker_find_token find_token,
                              void *context);
/* Whether the person was added to a project. */
bool kiln_tracker_is_member(const kiln_tracker *tracker, kiln_str person);

/* Forgets boards that were lost for `lost_ns`, except those that an order put out of service; 0:
 * never. */
void kiln_tracker_forget_boards_after(kiln_tracker *tracker, uint64_t lost_ns);

/* Bounds the bytes of a person's blobs: blobs that no job and no lease needs are dropped, the least
 * recently used first. 0: no bound. */
void kiln_tracker_limit_blobs(kiln_tracker *tracker, uint64_t bytes_of_person);

#define KILN_TRACKER_JOB_BLOBS_MAX 3u
/* The blobs that a kept job needs: while it is open its model and the records and schedules that it
 * starts from, afterwards its own records. Returns how many; 0: there is no such job. */
uint32_t kiln_tracker_job_blobs(kiln_tracker *tracker, kiln_str id,
                                kiln_digest out_digest[KILN_TRACKER_JOB_BLOBS_MAX]);

/* Decides about one event; appends to `actions`. `now_ns` never decreases. Any message of a peer is
 * answered or refused here; none ends the tracker. Cost: O(1) per message, O(jobs that wait for a
 * board) per grant. */
void kiln_tracker_step(kiln_tracker *tracker, uint64_t now_ns, const kiln_tracker_event *event,
                       kiln_tracker_actions *actions);
/* Checks the invariants of all owners between two steps, and aborts when one does not hold. Cost:
 * O(size of the state), so that fleets of more than KILN_TRACKER_CHECKED_BOARDS boards are not
 * checked. For tests, the simulator and debug builds. */
#define KILN_TRACKER_CHECKED_BOARDS 256u
void kiln_tracker_check(const kiln_tracker *tracker);
/* What a connected peer may do with blobs (kiln_blob_guard of proto/net.h). A peer that may not get
 * a blob is told that it does not exist. `kiln_tracker_may_put`: PERMISSION_DENIED,
 * RESOURCE_EXHAUSTED. */
bool kiln_tracker_may_get(kiln_tracker *tracker, uint64_t peer, const kiln_digest *digest);
KILN_MUST_USE kiln_status kiln_tracker_may_put(kiln_tracker *tracker, uint64_t peer, uint64_t size);
void kiln_tracker_was_put(kiln_tracker *tracker, uint64_t peer, const kiln_digest *digest,
                          uint64_t size);
/* Forgets blobs whose files are gone. */
void kiln_tracker_blobs_gone(kiln_tracker *tracker, const kiln_digest *digest, uint32_t count);
/* Visits each blob of known origin, with the wall-clock time of its last use. */
void kiln_tracker_each_blob(const kiln_tracker *tracker,
                            void (*visit)(void *context, const kiln_digest *digest,
                                          uint64_t used_ms),
                            void *context);
/* When the next TICK is due. */
uint64_t kiln_tracker_next_ns(const kiln_tracker *tracker);

/* Empties the list and keeps its memory; deinit frees it. */
void kiln_tracker_actions_reset(kiln_tracker_actions *actions);
void kiln_tracker_actions_deinit(kiln_tracker_actions *actions);

/* Counts for metrics and tests: the rows of counts.def. */
typedef struct kiln_tracker_counts {
#define X(type, name, kind, doc) type name;
#include "tracker/counts.def"
#undef X
} kiln_tracker_counts;
kiln_tracker_counts kiln_tracker_counts_of(const kiln_tracker *tracker);

/* Pages about all boards and jobs, printed in slices, so that a large fleet makes no handler long.
 * A page shows each board and job once, as it is when its slice is printed; those that come or go
 * while the page is printed may be left out. The counts are those of the beginning. */
#define KILN_TRACKER_SLICE_BYTES ((size_t)64 << 10) /* the last row may exceed it */
#define KILN_TRACKER_SLICE_ROWS 256u                /* 1 ms of JSON */
typedef enum kiln_tracker_page_kind {
    KILN_TRACKER_PAGE_METRICS, /* for Prometheus: the counts, values per board and project, and how
                                  long requests waited */
    KILN_TRACKER_PAGE_STATE,   /* {"counts":{...},"boards":[...],"jobs":[...]}, rows as in `kiln
                                  fleet --json` and `kiln jobs --json` */
} kiln_tracker_page_kind;
typedef struct kiln_tracker_page kiln_tracker_page;
/* The tracker outlives the page and may step between two slices. */
kiln_tracker_page *kiln_tracker_page_create(kiln_tracker *tracker, kiln_tracker_page_kind kind);
/* Appends the next slice to `out`, which is the same in each call; false: the page is complete. */
bool kiln_tracker_page_step(kiln_tracker_page *page, kiln_strbuf *out);
void kiln_tracker_page_destroy(kiln_tracker_page *page); /* NULL is fine */

#endif
