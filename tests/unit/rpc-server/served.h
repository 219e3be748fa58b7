/* A board with one slot for a device whose child lives on: runs trials one after the other, and
 * sees which child serves them and that nothing else is left. The program that uses it is its own
 * helper and child: its main begins with kiln_helper_is_asked. */
#ifndef KILN_TESTS_UNIT_RPC_SERVER_SERVED_H
#define KILN_TESTS_UNIT_RPC_SERVER_SERVED_H

#include "rpc-server/golden.h"
#include "rpc-server/supervisor.h"
#include "tests/support/test.h"

typedef struct served {
    kiln_arena arena;
    kiln_loop *loop;
    kiln_helper *helper;
    kiln_supervisor *supervisor;
    kiln_timer *deadline;
    char *folder, *program;
    kiln_slots slots;
    uint64_t run;
    uint32_t idle;                   /* children of the helper before the first trial */
    bool is_killed_loaded, is_hasty; /* what is done to the run when it is loaded, or in WARM */
    bool ended, died;
    kiln_msg_trial_result result;
    const char *text;
} served;

/* `target`: of the slot's device; NULL: not told. It outlives the board. */
void served_open(served *f, kiln_target_kind kind, const kiln_target *target);
void served_close(served *f);

/* Runs a trial to its end. */
void served_run(served *f, const kiln_msg_trial *trial, const char *artefact,
                const char *reference);
/* How it ended: with that outcome, and that in its text. */
void served_expect(served *f, kiln_outcome outcome, kiln_blame blame, const char *text);

/* Runs the golden kernel of the target's payload, which must be right. */
void served_run_golden(served *f, const char *target, kiln_golden *out_golden);

/* Children of the helper that are alive or not yet reaped. */
uint32_t served_children(served *f);
/* The process that serves: the newest one. */
uint64_t served_by(served *f);
/* Kills a process and waits until it has ended. */
void served_kill(uint64_t pid);

#endif
