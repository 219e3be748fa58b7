/* A pool of worker processes (worker.h) on the loop of the program that wants their work. A request
 * goes to a free worker, or waits; a worker that dies or passes its deadline loses its request and
 * is replaced. */
#ifndef KILN_COMPILER_CORE_WORKER_BUILDER_H
#define KILN_COMPILER_CORE_WORKER_BUILDER_H

#include <stdint.h>

#include "base/outcome.h"
#include "base/status.h"
#include "compiler-core/worker/worker.h"
#include "proto/loop.h"

typedef struct kiln_builders kiln_builders;

/* How a request ended. `reply` lasts until the callback returns; NULL when the worker was lost, and
 * then `outcome` is CRASH, TIMEOUT, or INFRA when it could not be started, and `text` says how. */
typedef void (*kiln_builders_done)(void *context, const kiln_work_reply *reply,
                                   kiln_outcome outcome, const char *text);

typedef struct kiln_builders_options {
    const char *program;   /* path of this program */
    uint32_t worker_count; /* >= 1 */
    const char *cores;   /* --cores list for the workers ("1-3"), so that measurements keep theirs;
                            NULL: any */
    uint64_t memory_max; /* bytes of data that a worker may have; 0: KILN_CAGE_MEMORY_BYTES. One
                            that wants more dies. */
} kiln_builders_options;

/* Workers start on first use. */
kiln_builders *kiln_builders_create(kiln_loop *loop, const kiln_builders_options *options);
/* Kills the workers, one that just starts when the loop runs next; pending callbacks are not
 * called. NULL is fine. */
void kiln_builders_destroy(kiln_builders *builders);
/* Requests are served in order, `urgent` ones first. `deadline_ns` is a duration counted from when
 * a worker takes it. `done` is called later, never from inside. */
void kiln_builders_submit(kiln_builders *builders, const kiln_work_request *request, bool urgent,
                          uint64_t deadline_ns, kiln_builders_done done, void *context);

/* What a finished BUILD stands for: OK, BUILD_ERROR, LINK_ERROR, TIMEOUT or INFRA. */
kiln_outcome kiln_builders_outcome(const kiln_work_reply *reply, kiln_outcome outcome);
/* The status of an answer, or INTERNAL with `text` where there is none. */
KILN_MUST_USE kiln_status kiln_builders_status(const kiln_work_reply *reply, const char *text);

#endif
