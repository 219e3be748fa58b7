/* Opens, follows, cancels and ends jobs. */
#ifndef KILN_TRACKER_JOB_LIFE_H
#define KILN_TRACKER_JOB_LIFE_H

#include "tracker/availability.h"
#include "tracker/blobs.h"

/* A cancellation, or a changed priority, that is not on disk yet. */
typedef struct kiln_tracker_cancel {
    uint64_t persist, peer;
    uint32_t stream;
    kiln_job_state state; /* of the job when the order came */
    kiln_tracker_text job;
    bool is_priority; /* the order changed its priority */
} kiln_tracker_cancel;

typedef struct kiln_tracker_cancels {
    KILN_VEC(kiln_tracker_cancel) waiting;
} kiln_tracker_cancels;

void kiln_tracker_cancels_free(kiln_tracker *t);

void kiln_tracker_job_open(kiln_tracker *t, kiln_tracker_peer *client, const kiln_message *message);
void kiln_tracker_job_event(kiln_tracker *t, kiln_tracker_peer *tuner, const kiln_message *message);
void kiln_tracker_job_done(kiln_tracker *t, kiln_tracker_peer *tuner, const kiln_message *message);
void kiln_tracker_job_close(kiln_tracker *t, kiln_tracker_peer *client,
                            const kiln_message *message);
void kiln_tracker_job_cancel(kiln_tracker *t, kiln_tracker_peer *client,
                             const kiln_message *message);
/* Answers JOB_ORDER. */
void kiln_tracker_job_order(kiln_tracker *t, kiln_tracker_peer *client,
                            const kiln_message *message);
void kiln_tracker_job_persisted(kiln_tracker *t, uint64_t persist, const char *failure);
void kiln_tracker_cancel_persisted(kiln_tracker *t, uint64_t persist, const char *failure);
void kiln_tracker_jobs_peer_gone(kiln_tracker *t, kiln_tracker_peer *peer);
/* Stops a job: its tuner hands in its results; without a tuner it ends at once. */
void kiln_tracker_job_stop(kiln_tracker *t, kiln_tracker_job *job, kiln_code code,
                           const char *text);
/* Ends a job without its tuner. */
void kiln_tracker_job_end(kiln_tracker *t, kiln_tracker_job *job, kiln_code code, const char *text);

#endif
