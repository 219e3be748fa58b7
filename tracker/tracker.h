/* The tracker's decisions: who is connected, which board is whose, which job runs where. Pure:
 * `step` gets the time and one event, and leaves actions for the shell (tracker/shell.c) or the
 * simulator (tests/sim) to carry out in order. No clock, no socket, no file, no randomness.
 *
 * Rules it keeps:
 * - A slot of a board has at most one lease. A lease is one number that only grows, over restarts
 *   too, and is on disk before anybody hears of it; whatever carries an older number is refused.
 * - A job, its tuner and its end are on disk before anybody hears of them.
 * - A peer that is silent for KILN_LINK_SILENCE_NS, or whose connection closes, is lost at once: a
 *   board's leases end, a tuner's end when they are not renewed, a client's jobs when it does not
 *   come back in KILN_TRACKER_CLIENT_GRACE_NS.
 * - Every job ends, every request is answered. A job that no tuner or no board can serve for
 *   KILN_TRACKER_WAIT_NS fails with UNAVAILABLE naming what is missing, and one for a board that
 *   nobody ever saw with NOT_FOUND at once, unless it is detached: then it waits.
 * - Projects share the boards' time by weight; a project's jobs go by priority, which waiting
 *   raises, so that nobody waits for ever.
 * - A board out of service gets no lease. One that fails KILN_TRACKER_FAULTS_MAX times without a
 * good result between is put there for KILN_TRACKER_PROBATION_NS. */
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
    UINT64_C(10000000000) /* for a tuner or a fitting board; after a restart for everybody */
#define KILN_TRACKER_CLIENT_GRACE_NS \
    UINT64_C(500000000) /* a client that lost its connection dials again within this */
#define KILN_TRACKER_TUNER_GRACE_NS \
    UINT64_C(5000000000) /* a lost tuner's jobs wait so long for it before another gets them */
#define KILN_TRACKER_LEASE_TTL_MAX_MS 60000u
#define KILN_TRACKER_BOARDS_MAX 16384u
#define KILN_TRACKER_JOBS_MAX 4096u /* open ones */
#define KILN_TRACKER_TUNER_JOBS \
    48u /* of one tuner at a time, others wait; it refuses more than 64, ended ones included */
#define KILN_TRACKER_JOBS_KEPT \
    256u /* ended ones, for `kiln jobs list` and clients that come back */
#define KILN_TRACKER_REQUESTS_MAX 4096u             /* lease requests in the queue */
#define KILN_TRACKER_REQUESTS_OF_JOB_MAX 64u        /* of these */
#define KILN_TRACKER_AGEING_NS UINT64_C(2000000000) /* waiting so long is worth one of priority */
#define KILN_TRACKER_SLICE_NS 20e9 /* about so long a lease lasts while others wait */
#define KILN_TRACKER_FAULTS_MAX 3u
#define KILN_TRACKER_SHARE_NS \
    UINT64_C(2000000000)                /* of a project's use, so much may be forgotten by a kill */
#define KILN_TRACKER_HELD_BACK_MAX 256u /* messages for a board that may come back */
#define KILN_TRACKER_ROW_ID_MAX (KILN_MESSAGES_NAME + 8u) /* bytes: "project/" and a name */
#define KILN_TRACKER_PROBATION_NS (UINT64_C(600) * 1000000000)

typedef struct kiln_tracker kiln_tracker;

/* What must survive the tracker, one row at a time. Identity: (kind, id). Texts are views. */
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
    KILN_TRACKER_ROW_LEASE,
    KILN_TRACKER_ROW_EPOCH,
    KILN_TRACKER_ROW_KIND_COUNT
} kiln_tracker_row_kind;
typedef struct kiln_tracker_row {
    kiln_tracker_row_kind kind;
    bool removed;   /* the row goes away */
    kiln_str id;    /* person, project: its name; member: "PROJECT/PERSON"; quota: its project;
                     * signer: "PROJECT/PUBLIC"; figures: text of a target;
                     * blob: "DIGEST/PERSON"; job: identity; share: "project/" and its name; board:
                     * node; lease: its board and    slot, "NODE/0"; epoch: "epoch"
                     */
    kiln_str state; /* job: kiln_job_state_name */
    kiln_str body;  /* but of lease and epoch: record `kept_job`, `kept_share`, ... of messages.def,
                       encoded; of figures: theirs (base/figures.h) */
    kiln_str board, tuner, node,
        job;          /* lease: node of the board, boot and node of the holder, job */
    uint64_t epoch;   /* lease: its number; epoch: highest number that may have been given out */
    uint64_t request; /* lease: of its holder, that it answers; 0: not known */
    uint32_t slot, trials, ttl_ms; /* lease */
    bool whole;                    /* lease: it has all slots */
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

/* What is known of a peer beside what it says itself. All zero: anybody, of a tracker that lets in
 * anybody. */
typedef struct kiln_tracker_who {
    bool is_owner;      /* the user that the tracker runs as, or root: every right */
    bool is_admin;      /* holds an `admin` key: every right */
    bool is_proven;     /* by a key, or by the system on this machine */
    bool has_key;       /* HELLO's node is that of its key */
    const char *person; /* whose rights it has; NULL or "": a program, or nobody proved it */
} kiln_tracker_who;

typedef struct kiln_tracker_event {
    kiln_tracker_event_kind kind;
    uint64_t peer; /* kiln_conn_id: never reused while the program runs */
    const kiln_msg_hello *hello;
    kiln_tracker_who who; /* CONNECTED */
    const kiln_message *message;
    uint64_t persist;
    const char *
        failure; /* PERSISTED: NULL when it is durable, else why it is not (and nothing of it is) */
} kiln_tracker_event;

/* What happened, with whom: a row of journal.def. Empty fields do not apply. */
typedef enum kiln_tracker_happening {
#define X(NAME, level, text, trace, phase, id) KILN_TRACKER_##NAME,
#include "tracker/journal.def"
#undef X
} kiln_tracker_happening;
typedef struct kiln_tracker_note {
    kiln_tracker_happening what;
    kiln_str job, board, trial, tuner, text;
    uint64_t lease;
} kiln_tracker_note;

typedef enum kiln_tracker_action_kind {
    KILN_TRACKER_SEND,      /* message to peer */
    KILN_TRACKER_CLOSE,     /* close peer, telling it code and text; CLOSED follows */
    KILN_TRACKER_PERSIST,   /* make `row` durable in one transaction, then PERSISTED with `persist`;
                               the loop goes on meanwhile. Transactions are done in order; a shell may
                               join several into one commit. */
    KILN_TRACKER_LOG,       /* `note`, for the log and the trace */
    KILN_TRACKER_DROP_BLOB, /* remove `blob`, unless a job pins it */
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
    bool may_wait; /* PERSIST: nobody waits for it, so that it may go with a later one */
    const kiln_tracker_note *note;
    kiln_digest blob;
} kiln_tracker_action;

/* Filled by step; the shell owns it, and resets both parts when it has carried the actions out. */
typedef struct kiln_tracker_actions {
    kiln_arena arena; /* what the actions point to */
    KILN_VEC(kiln_tracker_action) list;
} kiln_tracker_actions;

/* A tracker with what the last one left: `row` in any order. Leases are kept for their time to live
 * from `now_ns`, so that board and tuner can come back to them. DATA_LOSS: a row does not decode;
 * the note names it. */
KILN_MUST_USE kiln_status kiln_tracker_create(const kiln_tracker_row *row, uint32_t row_count,
                                              uint64_t now_ns, kiln_tracker **out_tracker);
void kiln_tracker_destroy(kiln_tracker *tracker);

/* What the wall clock says now: the time of events in the boards' histories. */
void kiln_tracker_set_wall(kiln_tracker *tracker, uint64_t wall_ns);
/* Boards whose BOARD_UP does not tell of each of `fences` (a bit per kiln_fence) get no work;
 * before the first event. */
void kiln_tracker_require_fences(kiln_tracker *tracker, uint32_t fences);

/* A key of the tracker's list whose node signs. */
typedef struct kiln_tracker_known_key {
    char node[KILN_KEY_NAME_BYTES]; /* "tuner/bench-1" */
    kiln_sign_public half;          /* of what it signs with */
} kiln_tracker_known_key;
/* Looks for one that is in force, by its node (empty: any) and its public half or the one that this
 * took the place of (NULL: any). */
typedef bool (*kiln_tracker_find_key)(void *context, kiln_str node, const kiln_sign_public *half,
                                      kiln_tracker_known_key *out_key);
/* Before the first event; without it the tracker has no list of keys. */
void kiln_tracker_know_keys(kiln_tracker *tracker, kiln_tracker_find_key find_key, void *context);

/* Boards that are lost for so long, none of them out of service by an order, are forgotten; 0:
 * never. */
void kiln_tracker_forget_boards_after(kiln_tracker *tracker, uint64_t lost_ns);

/* Blobs that a person put and no job and lease needs are dropped, the least used first, so that it
 * has at most so many bytes of them; 0: no bound. */
void kiln_tracker_limit_blobs(kiln_tracker *tracker, uint64_t bytes_of_person);

#define KILN_TRACKER_JOB_BLOBS_MAX 3u
/* Blobs that a job needs while it is kept: its model and what it begins with, or once it has ended
 * its records. Returns how many, 0 for no such job. */
uint32_t kiln_tracker_job_blobs(kiln_tracker *tracker, kiln_str id,
                                kiln_digest out_digest[KILN_TRACKER_JOB_BLOBS_MAX]);

/* Decides. Appends to `actions`. `now_ns` never goes back. Whatever a peer sends is answered or
 * refused here and never ends the tracker. Cost: O(1) in messages, O(jobs that wait for a board)
 * per grant. */
void kiln_tracker_step(kiln_tracker *tracker, uint64_t now_ns, const kiln_tracker_event *event,
                       kiln_tracker_actions *actions);
/* Aborts where what one owner holds contradicts itself or another's, between two steps. Cost: O(all
 * that there is), so that fleets of more than KILN_TRACKER_CHECKED_BOARDS are left out. For tests,
 * the simulator and debug builds. */
#define KILN_TRACKER_CHECKED_BOARDS 256u
void kiln_tracker_check(const kiln_tracker *tracker);
/* What a connected peer may do with blobs (kiln_blob_guard of proto/net.h). To one that may not get
 * a blob it is not there. `kiln_tracker_may_put`: PERMISSION_DENIED, RESOURCE_EXHAUSTED. */
bool kiln_tracker_may_get(kiln_tracker *tracker, uint64_t peer, const kiln_digest *digest);
KILN_MUST_USE kiln_status kiln_tracker_may_put(kiln_tracker *tracker, uint64_t peer, uint64_t size);
void kiln_tracker_was_put(kiln_tracker *tracker, uint64_t peer, const kiln_digest *digest,
                          uint64_t size);
/* These blobs are no longer there: what is known of them is forgotten. */
void kiln_tracker_blobs_gone(kiln_tracker *tracker, const kiln_digest *digest, uint32_t count);
/* Each blob that somebody is known to have put, and when it was last used, by the wall clock. */
void kiln_tracker_each_blob(const kiln_tracker *tracker,
                            void (*visit)(void *context, const kiln_digest *digest,
                                          uint64_t used_ms),
                            void *context);
/* When the next TICK is due. */
uint64_t kiln_tracker_next_ns(const kiln_tracker *tracker);

/* Empties the list and keeps its memory; deinit frees it. */
void kiln_tracker_actions_reset(kiln_tracker_actions *actions);
void kiln_tracker_actions_deinit(kiln_tracker_actions *actions);

/* Numbers for metrics and tests: the rows of counts.def. */
typedef struct kiln_tracker_counts {
#define X(type, name, kind, doc) type name;
#include "tracker/counts.def"
#undef X
} kiln_tracker_counts;
kiln_tracker_counts kiln_tracker_counts_of(const kiln_tracker *tracker);

/* Pages about all boards and jobs, printed a slice at a time, so that a large fleet makes no
 * handler long. A page has each board and job that is there from its beginning to its end, once, as
 * it is when its slice is printed; the counts are those of its beginning, and what comes later is
 * left out. */
#define KILN_TRACKER_SLICE_BYTES ((size_t)64 << 10) /* the last row may go beyond */
#define KILN_TRACKER_SLICE_ROWS 256u                /* 1 ms of JSON */
typedef enum kiln_tracker_page_kind {
    KILN_TRACKER_PAGE_METRICS, /* the counts and more for Prometheus: per board and project, and how
                                  long requests waited */
    KILN_TRACKER_PAGE_STATE,   /* {"counts":{...},"boards":[...],"jobs":[...]}, rows as in `kiln
                                  fleet --json` and `kiln jobs --json` */
} kiln_tracker_page_kind;
typedef struct kiln_tracker_page kiln_tracker_page;
/* The tracker outlives it, and may step between its slices. */
kiln_tracker_page *kiln_tracker_page_create(kiln_tracker *tracker, kiln_tracker_page_kind kind);
/* Appends the next slice to `out`, the same one each time; false: the page is whole. */
bool kiln_tracker_page_step(kiln_tracker_page *page, kiln_strbuf *out);
void kiln_tracker_page_destroy(kiln_tracker_page *page); /* NULL is fine */

#endif
