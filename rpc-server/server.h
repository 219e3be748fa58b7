/* The rpc-server's decisions: which trial runs in which slot, which blob is fetched, when a phase
 * is over its deadline, which results are kept. Pure: `step` takes the time and one event, and
 * appends actions that the shell (rpc-server/shell.c) or the simulator carries out in order.
 *
 * Rules it keeps:
 * - A slot runs one trial at a time. Blobs of waiting trials are fetched meanwhile.
 * - Slots that disturb each other (rpc-server/slots.h) time one after the other: while a child
 * times, nothing is linked or timed in the slots that it disturbs. A linked child waits for its
 * turn without a deadline. A waiting child goes before trials that have not started.
 * - A trial is refused if its slot has seen a newer lease. A newer lease ends the trials of older
 * ones.
 * - A child that is over its deadline is killed. If it does not end within KILN_SERVER_KILL_NS the
 * board is sick: nothing is measured beside a stray process.
 * - The board checks itself (rpc-server/health.h) with nothing else running. No trial starts until
 * the check passes.
 * - A trial with a recipe instead of an artefact is built once its blobs are in the store, while
 * other trials are measured. It takes a slot only after the build.
 * - A result is kept, and sent again, until TRIAL_ACK, LEASE_LOST or a newer lease on its slot. */
#ifndef KILN_RPC_SERVER_SERVER_H
#define KILN_RPC_SERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/vec.h"
#include "proto/proto.h"

#define KILN_SERVER_SLOTS_MAX 16u
#define KILN_SERVER_TRIALS_MAX 256u /* waiting, running and kept, all slots together */
/* Killed children end within some milliseconds; with eighteen programs on two cores it took more
 * than half a second. */
#define KILN_SERVER_KILL_NS UINT64_C(2000000000)
#define KILN_SERVER_RESEND_NS UINT64_C(2000000000)
/* Deadlines of phases whose TRIAL says 0. */
#define KILN_SERVER_FETCH_MS 60000u
#define KILN_SERVER_LOAD_MS 10000u
#define KILN_SERVER_WARM_MS 10000u
#define KILN_SERVER_RUN_MS 10000u
#define KILN_SERVER_CHECK_MS 10000u
#define KILN_SERVER_BUILD_MS 20000u /* from when a builder takes it */

typedef struct kiln_server kiln_server;

/* What the launcher says of this run (rpc-server/launcher.h). All zero: nothing. */
typedef struct kiln_server_launch {
    uint64_t number;     /* of the upgrade that it is about */
    bool is_trial;       /* this is its new version, which has to confirm */
    const char *failure; /* why its new version was given up, and this one started again; NULL: it
                            was not */
} kiln_server_launch;

typedef struct kiln_server_options {
    const kiln_msg_board_up *board; /* what this board offers; copied. The step fills `running`. */
    const uint32_t
        *disturbs;     /* [slots of all targets] a bit per slot that it disturbs; NULL: all */
    uint64_t seed;     /* of the jitter between dials */
    uint64_t check_ns; /* kiln_health_init */
    const struct kiln_release_keys *release_keys; /* whose releases it takes; copied. NULL: none */
    const char *version;                          /* of this program; NULL with no keys */
    kiln_server_launch launch;
} kiln_server_options;

typedef enum kiln_server_event_kind {
    KILN_SERVER_OPENED,  /* the dialled connection is open */
    KILN_SERVER_CLOSED,  /* it closed, or could not be made */
    KILN_SERVER_MESSAGE, /* message from the tracker */
    KILN_SERVER_FETCHED, /* digest, failure: a FETCH action has ended */
    KILN_SERVER_BUILT, /* run, outcome, built, spent_ns, text: a BUILD has ended; on OK the artefact
                          is in the store */
    KILN_SERVER_LOADED,   /* slot, run: the child is linked and waits for TIME */
    KILN_SERVER_PHASE,    /* slot, run, phase: the child entered a phase */
    KILN_SERVER_VACATED,  /* slot, run: the child has ended; FINISHED or DIED follows */
    KILN_SERVER_FINISHED, /* slot, run, result: the child ended with a result */
    KILN_SERVER_DIED,     /* slot, run, text: the child ended without one (crash, KILL) */
    KILN_SERVER_CHECKED,  /* run, failure: a CHECK and its child have ended */
    KILN_SERVER_READING,  /* env: a reading for BOARD_STATE; failure: why the board is sick */
    KILN_SERVER_LAUNCHER, /* failure: the launcher's answer to RESTART (only if it failed), CONFIRM
                           */
    KILN_SERVER_TICK,     /* at kiln_server_next_ns, or more often */
} kiln_server_event_kind;

typedef struct kiln_server_event {
    kiln_server_event_kind kind;
    const kiln_message *message;
    kiln_digest digest;
    const char
        *failure; /* FETCHED: NULL if the blob is in the store. READING, CHECKED: NULL if healthy */
    uint32_t slot;
    uint64_t run; /* of START, BUILD, CHECK; events of older runs are ignored */
    kiln_phase phase;
    const kiln_msg_trial_result *result; /* the step fills trial, attempt, lease */
    const char *text; /* DIED: "signal 11 in kiln_run", ... BUILT: why it failed */
    kiln_outcome outcome;
    const kiln_msg_built *built;
    kiln_msg_assembled assembled; /* with BUILT, whatever its outcome */
    uint64_t spent_ns;
    const kiln_msg_env *env;
} kiln_server_event;

typedef enum kiln_server_action_kind {
    KILN_SERVER_DIAL,    /* connect to the tracker; OPENED or CLOSED follows */
    KILN_SERVER_HANG_UP, /* close the connection; CLOSED need not follow */
    KILN_SERVER_SEND,    /* message to the tracker; dropped when there is no connection */
    KILN_SERVER_FETCH,   /* fetch blob `digest` into the store; FETCHED always follows */
    KILN_SERVER_BUILD,   /* build the recipe of `trial` as `run`, within `deadline_ns` from when a
                            builder takes it; the program is in the store. BUILT always follows */
    KILN_SERVER_START, /* start the contained child for `trial` in `slot` as `run`; its blobs are in
                          the store. LOADED if it waits, PHASE events, perhaps VACATED, then
                          FINISHED or DIED follow */
    KILN_SERVER_TIME,  /* let `run` in `slot` run its candidate's code */
    KILN_SERVER_KILL,  /* kill the process group of `run` in `slot`; DIED or CHECKED follows once it
                          has ended */
    KILN_SERVER_CHECK, /* start the board's self-check in `slot` as `run`; CHECKED follows */
    KILN_SERVER_RESTART,     /* give the launcher statement `text` and archive `digest` of upgrade
                                `run`,     whose program has `deadline_ns` to confirm, and end */
    KILN_SERVER_CONFIRM,     /* tell the launcher that this version is good; LAUNCHER follows */
    KILN_SERVER_GIVE_UP,     /* tell the launcher that this version is not, because of `text` */
    KILN_SERVER_POWER_CYCLE, /* switch the board off and on, if a command for it was given */
} kiln_server_action_kind;

typedef struct kiln_server_action {
    kiln_server_action_kind kind;
    kiln_message message;
    kiln_digest digest;
    uint32_t slot;
    uint64_t run; /* unique number of this start */
    const kiln_msg_trial *trial;
    uint64_t deadline_ns;
    bool waits;       /* START: once linked, the child waits for TIME */
    const char *text; /* POWER_CYCLE: why */
} kiln_server_action;

typedef struct kiln_server_actions {
    kiln_arena arena;
    KILN_VEC(kiln_server_action) list;
} kiln_server_actions;

/* Copies the options. Never NULL; destroy accepts NULL. */
kiln_server *kiln_server_create(const kiln_server_options *options, uint64_t now_ns);
void kiln_server_destroy(kiln_server *server);
/* Handles one event. Appends to `actions`, which the caller owns and resets. `now_ns` never goes
 * back. */
void kiln_server_step(kiln_server *server, uint64_t now_ns, const kiln_server_event *event,
                      kiln_server_actions *actions);
uint64_t kiln_server_next_ns(const kiln_server *server);
/* Slots of all targets that a board offers. */
uint32_t kiln_board_up_slots(const kiln_msg_board_up *board);

/* Empties the list and keeps its memory; deinit frees it. */
void kiln_server_actions_reset(kiln_server_actions *actions);
void kiln_server_actions_deinit(kiln_server_actions *actions);

/* For tests and an orderly stop. */
typedef struct kiln_server_counts {
    uint32_t waiting, running, kept;
    bool sick;
} kiln_server_counts;
kiln_server_counts kiln_server_counts_of(const kiln_server *server);

#endif
