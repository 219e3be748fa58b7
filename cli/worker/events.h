/* What a request says while it is served: frames of libkiln/tune/frame.h to the host that made it.
 * A host that hears nothing lets it wait; one that is gone has ended this program
 * (cli/worker/serve.h). */
#ifndef KILN_CLI_WORKER_EVENTS_H
#define KILN_CLI_WORKER_EVENTS_H

#include <jansson.h>

#include "base/status.h"
#include "base/str.h"
#include "compiler-core/core.h"
#include "proto/proto.h"

typedef struct kiln_events {
    int socket;
    const kiln_tasks
        *tasks;      /* for labels with extents; NULL: the operators as the tuner says them */
    const char *job; /* identity of the job; NULL: none yet */
} kiln_events;

/* A line for people. */
void kiln_events_text(kiln_events *events, const char *format, ...) KILN_PRINTF(2, 3);
/* kiln_client_options.waits, with the events as context. */
void kiln_events_waits(void *events, const char *text);
/* Something that was asked for; frees it. */
void kiln_events_result(kiln_events *events, json_t *object);
void kiln_events_result_text(kiln_events *events, const char *object); /* its text */
/* What changed of a job whose measuring began `age_ns` ago. */
void kiln_events_progress(kiln_events *events, const kiln_msg_job_event *event, uint64_t age_ns);
/* The last event: how it ended. */
void kiln_events_end(kiln_events *events, kiln_status status);

#endif
