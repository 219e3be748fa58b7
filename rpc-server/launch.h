/* What the launcher (rpc-server/launcher.h) decides. Pure: each event returns the next action,
 * whose end is the next event. */
#ifndef KILN_RPC_SERVER_LAUNCH_H
#define KILN_RPC_SERVER_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#define KILN_LAUNCH_TEXT_BYTES 256u

typedef enum kiln_launch_action {
    KILN_LAUNCH_NOTHING,
    KILN_LAUNCH_RUN,     /* remove a new program that is there, start the program */
    KILN_LAUNCH_INSTALL, /* check and unpack the new program; kiln_launch_installed follows */
    KILN_LAUNCH_TRY,     /* start the new program */
    KILN_LAUNCH_COMMIT,  /* put it in the place of the program; kiln_launch_committed follows */
    KILN_LAUNCH_TELL,    /* tell the server that it was put there */
    KILN_LAUNCH_KILL,    /* kill the server; kiln_launch_ended follows */
    KILN_LAUNCH_EXIT,    /* remove a new program that is there, end as the server did */
} kiln_launch_action;

typedef enum kiln_launch_state {
    KILN_LAUNCH_RUNNING,  /* the program */
    KILN_LAUNCH_TRYING,   /* the new program, which has not confirmed */
    KILN_LAUNCH_REJECTED, /* the new program, which is being killed */
} kiln_launch_state;

typedef struct kiln_launch {
    kiln_launch_state state;
    bool is_asked;                        /* the server asked for an upgrade, and is about to end */
    bool is_stopping;                     /* no server is started any more */
    uint64_t number;                      /* of the last upgrade; 0: there was none */
    uint64_t wait_ns, until_ns;           /* time of the new program; its end */
    char failure[KILN_LAUNCH_TEXT_BYTES]; /* why the last one failed; "": it did not */
} kiln_launch;

/* All zero at first; RUN is the first action. */

/* The running server asks for an upgrade; it will end. Ignored while another is on trial. */
void kiln_launch_ask(kiln_launch *launch, uint64_t number, uint64_t wait_ns);
/* The server has ended, or could not be started; `how`: in words. */
kiln_launch_action kiln_launch_ended(kiln_launch *launch, const char *how);
/* `failure`: NULL, or why. */
kiln_launch_action kiln_launch_installed(kiln_launch *launch, uint64_t now_ns, const char *failure);
kiln_launch_action kiln_launch_committed(kiln_launch *launch, const char *failure);
/* The server says that it is good, or why it is not. */
kiln_launch_action kiln_launch_confirmed(kiln_launch *launch);
kiln_launch_action kiln_launch_gave_up(kiln_launch *launch, const char *why);
kiln_launch_action kiln_launch_tick(kiln_launch *launch, uint64_t now_ns);
/* When it wants the next tick; UINT64_MAX: never. */
uint64_t kiln_launch_next_ns(const kiln_launch *launch);
/* Somebody asked the launcher to stop; the caller passes that on to the server. */
void kiln_launch_stop(kiln_launch *launch);

#endif
