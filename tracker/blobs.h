/* Who put which blob, and who may have it. */
#ifndef KILN_TRACKER_BLOBS_H
#define KILN_TRACKER_BLOBS_H

#include "tracker/access.h"

#define KILN_TRACKER_PUTS_MAX 65536u /* blobs of which it is known who put them */
#define KILN_TRACKER_PUT_BYTES_A_DAY ((uint64_t)8 << 30) /* of a person: half of what is kept */

/* A blob that a person or a program put. */
typedef struct kiln_tracker_put {
    kiln_digest digest;
    uint64_t who; /* hash of its name */
    struct kiln_tracker_person
        *person;                    /* NULL: a program, or nobody that is known: it has no row */
    uint64_t size, put_ms, used_ms; /* of the wall clock; used: put again, or named by a job */
    bool changed;                   /* it is in kiln_tracker_blobs.changed */
    struct kiln_tracker_put *same;  /* the same blob, by somebody else */
    struct kiln_tracker_put *older, *newer; /* by use */
} kiln_tracker_put;
/* What a row may have to be written or removed for. */
typedef struct kiln_tracker_put_change {
    kiln_digest digest;
    struct kiln_tracker_person *person;
} kiln_tracker_put_change;

typedef struct kiln_tracker_blobs {
    kiln_map of_digest;                /* 32 bytes -> the first of kiln_tracker_put.same */
    kiln_tracker_put *oldest, *newest; /* by use */
    uint32_t count;
    KILN_VEC(kiln_tracker_put_change) changed;
    uint64_t bytes_of_person_max; /* 0: no bound */
} kiln_tracker_blobs;

void kiln_tracker_blobs_init(kiln_tracker *t);

/* blobs.c */
/* What the peer put; NULL: it did not, or long ago. */
kiln_tracker_put *kiln_tracker_put_find(const kiln_tracker *t, const kiln_tracker_peer *peer,
                                        const kiln_digest *digest);
void kiln_tracker_put_add(kiln_tracker *t, const kiln_tracker_peer *peer, const kiln_digest *digest,
                          uint64_t size);
/* Whether so many bytes more leave room for what jobs and leases need of the person. */
bool kiln_tracker_put_fits(kiln_tracker *t, kiln_tracker_person *person, uint64_t size);
/* A job names it. */
void kiln_tracker_put_use(kiln_tracker *t, kiln_tracker_put *put);
void kiln_tracker_puts_tick(kiln_tracker *t);
KILN_MUST_USE kiln_status kiln_tracker_put_restore(kiln_tracker *t, const kiln_tracker_row *row);
/* After the last of them. */
void kiln_tracker_puts_restored(kiln_tracker *t);
void kiln_tracker_puts_free(kiln_tracker *t);

/* blob_access.c */
uint64_t kiln_tracker_project_blob_bytes(const kiln_tracker *t,
                                         const kiln_tracker_project *project);
/* 0 where the peer did not put it. */
uint64_t kiln_tracker_put_size(const kiln_tracker *t, const kiln_tracker_peer *peer,
                               const kiln_digest *digest);
/* NOT_FOUND: the client has no right to a blob that the job names. RESOURCE_EXHAUSTED: quota. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_blobs(kiln_tracker *t,
                                                      const kiln_tracker_peer *client,
                                                      const kiln_msg_job_spec *spec);
/* RESOURCE_EXHAUSTED: with so many bytes of results of this job its project would have more than
 * its quota. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_results(kiln_tracker *t,
                                                        const kiln_tracker_job *job,
                                                        uint64_t bytes);
/* The board may have what the trial names. False: a person names what it may not have itself. */
bool kiln_tracker_trial_blobs(kiln_tracker *t, const kiln_tracker_peer *sender,
                              kiln_tracker_lease *lease, const kiln_msg_trial *trial);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_blobs_check(const kiln_tracker *t);

#endif
