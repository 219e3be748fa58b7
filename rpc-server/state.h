/* The state of the rpc-server's decisions. Only the files of the step include it. */
#ifndef KILN_RPC_SERVER_STATE_H
#define KILN_RPC_SERVER_STATE_H

#include "rpc-server/health.h"
#include "rpc-server/server.h"
#include "rpc-server/upgrade.h"

typedef enum kiln_server_entry_state {
    KILN_ENTRY_FETCHING, /* blobs are missing */
    KILN_ENTRY_BUILDING, /* its recipe is being built */
    KILN_ENTRY_READY,    /* waits for a free slot */
    KILN_ENTRY_RUNNING,
    KILN_ENTRY_KILLING, /* its child was sent a kill and has not ended yet */
    KILN_ENTRY_JUDGING, /* its child has ended; the shell is computing the outcome */
    KILN_ENTRY_KEPT,    /* has a result that the tuner has not acknowledged */
} kiln_server_entry_state;

/* Blobs of a trial: the reference, the artefact (or the program of the recipe), the rivals. */
#define KILN_ENTRY_BLOBS_MAX (2u + KILN_MESSAGES_RIVALS)

/* A trial that this board received and may not forget. */
typedef struct kiln_server_entry {
    kiln_server_entry_state state;
    kiln_arena arena; /* of trial and result */
    kiln_msg_trial trial;
    bool is_void; /* its lease is over: its result is not sent */
    bool have[KILN_ENTRY_BLOBS_MAX], fetching[KILN_ENTRY_BLOBS_MAX];
    uint8_t fetch_failures[KILN_ENTRY_BLOBS_MAX]; /* on this connection */
    uint64_t fetch_again_ns;                      /* 0: not due */
    uint64_t run;                                 /* number of its build, then of its child */
    kiln_msg_built built;
    kiln_msg_assembled assembled;
    kiln_phase phase;
    bool waits;                              /* RUNNING: linked, TIME has not been sent yet */
    uint64_t phase_since_ns, phase_until_ns; /* deadline of the phase; when KILLING, of the kill */
    uint64_t began_ns;                       /* when TRIAL arrived */
    kiln_msg_phases spent_ns;
    kiln_outcome kill_outcome; /* its outcome if the kill ends it */
    const char *kill_text;
    kiln_msg_trial_result result;
    uint64_t resend_ns;
} kiln_server_entry;

struct kiln_server {
    kiln_link link;
    kiln_arena arena; /* of board */
    kiln_msg_board_up board;
    uint32_t slots;                             /* of all its targets */
    uint64_t slot_lease[KILN_SERVER_SLOTS_MAX]; /* newest lease each slot has seen */
    uint32_t disturbs[KILN_SERVER_SLOTS_MAX];   /* a bit per other slot */
    KILN_VEC(kiln_server_entry *) entry;        /* in order of arrival */
    uint64_t last_run, check_run;
    kiln_msg_env env;
    kiln_health health;
    kiln_server_upgrade upgrade;
    bool told_sick; /* the state that the tracker was told last */
    /* Valid during a step only. */
    uint64_t now_ns;
    kiln_server_actions *actions;
};

/* effects.c */
kiln_server_action *kiln_server_act(kiln_server *s, kiln_server_action_kind kind);
/* Sends a deep copy, when there is a connection. */
void kiln_server_send(kiln_server *s, const kiln_message *message);

/* trials.c */
kiln_server_entry *kiln_server_find(kiln_server *s, kiln_str trial, uint32_t attempt,
                                    uint64_t lease);
bool kiln_server_has_child(const kiln_server_entry *e);
/* Adds a new TRIAL and starts to fetch its blobs. If `why` is not NULL the trial cannot run on this
 * board and ends at once with that text. */
void kiln_server_take(kiln_server *s, const kiln_message *message, const char *why);
void kiln_server_forget(kiln_server *s, kiln_server_entry *e);
/* Fetches the blobs that are missing and not being fetched. */
void kiln_server_fetch(kiln_server *s, kiln_server_entry *e);
/* Resets the counts of failed fetches, because the connection changed or closed. */
void kiln_server_excuse_fetches(kiln_server_entry *e);
void kiln_server_on_fetched(kiln_server *s, const kiln_server_event *event);
void kiln_server_on_built(kiln_server *s, const kiln_server_event *event);
/* Lets waiting children time when it is their turn. Starts ready trials in free slots while the
 * board is healthy, and the board's self-check when it is due. */
void kiln_server_start(kiln_server *s);
void kiln_server_on_loaded(kiln_server *s, const kiln_server_event *event);
void kiln_server_on_phase(kiln_server *s, const kiln_server_event *event);
/* VACATED, FINISHED or DIED: the child has ended. */
void kiln_server_on_gone(kiln_server *s, const kiln_server_event *event);
/* `text` must live as long as the entry. */
void kiln_server_kill(kiln_server *s, kiln_server_entry *e, kiln_outcome outcome, const char *text);
/* Ends a trial that did not run, or whose child has ended. */
void kiln_server_fail(kiln_server *s, kiln_server_entry *e, kiln_outcome outcome, const char *text);
void kiln_server_send_result(kiln_server *s, kiln_server_entry *e);
/* Ends a trial whose lease is over: kills its child if there is one, otherwise forgets it now. */
void kiln_server_void(kiln_server *s, kiln_server_entry *e);
void kiln_server_void_lease(kiln_server *s, uint64_t lease);
void kiln_server_tick_entry(kiln_server *s, kiln_server_entry *e);
uint64_t kiln_server_entry_next_ns(const kiln_server *s, const kiln_server_entry *e);

#endif
