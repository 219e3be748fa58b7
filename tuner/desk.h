/* Work that waits for a disk or a database server, off the loop: one piece after another, in the
 * order in which it was handed in, on a thread of its own, which neither waits behind the training
 * of models nor gives way to kernels. The tuner's database handle and what it puts into its blob
 * store belong to this thread. Everything here is called on the loop's thread. */
#ifndef KILN_TUNER_DESK_H
#define KILN_TUNER_DESK_H

#include "proto/loop.h"

typedef struct kiln_desk kiln_desk;

/* Takes the loop's wake call (kiln_loop_on_wake). */
kiln_desk *kiln_desk_create(kiln_loop *loop);
/* Runs `run` on the desk's thread, then `done` on the loop. `context` is the desk's until then. */
void kiln_desk_hand_named(kiln_desk *desk, const char *name, void (*run)(void *context),
                          void (*done)(void *context), void *context);
#define kiln_desk_hand(desk, run, done, context) \
    kiln_desk_hand_named(desk, #run, run, done, context)
/* Waits for all that was handed in, and for what that hands in, and calls `done` of it. */
void kiln_desk_wait(kiln_desk *desk);
/* After kiln_desk_wait. NULL is fine. */
void kiln_desk_destroy(kiln_desk *desk);

#endif
