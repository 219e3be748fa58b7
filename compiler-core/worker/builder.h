/* A pool of worker processes (worker.h) on the loop of the calling program. A request goes to a
 * free worker, or waits; a worker that dies or exceeds its deadline is replaced, and its request
 * fails. */
#ifndef KILN_COMPILER_CORE_WORKER_BUILDER_H
#define KILN_COMPILER_CORE_WORKER_BUILDER_H

#include <stdint.h>

#include "base/outcome.h"
#include "base/status.h"
#include "compiler-core/worker/worker.h"
#include "proto/loop.h"

typedef struct kiln_builders kiln_builders;

/* Result of a request. `reply` is valid until the callback returns. It is NULL when the worker was
 * lost: `outcome` is then CRASH, TIMEOUT, or INFRA when it could not be started, and `text` gives
 * the reason. */
typedef void (*kiln_builders_done)(void *context, const kiln_work_reply *reply,
                                   kiln_outcome outcome, const char *text);

typedef struct kiln_builders_options {
    const char *program;   /* path of this program */
    uint32_t worker_count; /* >= 1 */
    const char *cores;   /* --cores list for the workers ("1-3"), so that measurements keep theirs;
                            NULL: any */
    uint64_t memory_max; /* bytes of data that a worker may have; 0: KILN_ISOLATED_MEMORY_BYTES. A
                          * worker that needs more dies. */
} kiln_builders_options;

/* Workers start on first use. */
kiln_builders *kiln_builders_create(kiln_loop *loop, const kiln_builders_options *options);
/* Kills the workers; a worker that is just starting is killed in the next loop iteration. Pending
 * callbacks are not called. NULL is fine. */
void kiln_builders_destroy(kiln_builders *builders);
/* Requests are served in order, `urgent` ones first. `deadline_ns` is a duration counted from when
 * a worker takes it. `done` is called later, never from inside. */
void kiln_builders_submit(kiln_builders *builders, const kiln_work_request *request, bool urgent,
                          uint64_t deadline_ns, kiln_builders_done done, void *context);

/* Outcome of a finished BUILD: OK, BUILD_ERROR, LINK_ERROR, TIMEOUT or INFRA. */
kiln_outcome kiln_builders_outcome(const kiln_work_reply *reply, kiln_outcome outcome);
/* The status of an answer, or INTERNAL with `text` where there is none. */
KILN_MUST_USE kiln_status kiln_builders_status(const kiln_work_reply *reply, const char *text);

#endif
