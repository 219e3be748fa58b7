/* A thread for work that waits for a disk or a database server: one item after another, in the
 * order of submission. It is not of the loop's pool, where training of models would delay it, and
 * has a normal priority. The tuner's database handle and writes to its blob store belong to this
 * thread. Everything here is called on the loop's thread. */
#ifndef KILN_TUNER_IO_THREAD_H
#define KILN_TUNER_IO_THREAD_H

#include "proto/loop.h"

typedef struct kiln_io_thread kiln_io_thread;

/* Takes the loop's wake call (kiln_loop_on_wake). */
kiln_io_thread *kiln_io_thread_create(kiln_loop *loop);
/* Runs `run` on the thread, then `done` on the loop; `context` belongs to them until then. */
void kiln_io_thread_submit_named(kiln_io_thread *io_thread, const char *name,
                                 void (*run)(void *context), void (*done)(void *context),
                                 void *context);
#define kiln_io_thread_submit(io_thread, run, done, context) \
    kiln_io_thread_submit_named(io_thread, #run, run, done, context)
/* Waits for all that was submitted, also by `done` meanwhile. */
void kiln_io_thread_wait(kiln_io_thread *io_thread);
/* After kiln_io_thread_wait. NULL is fine. */
void kiln_io_thread_destroy(kiln_io_thread *io_thread);

#endif
