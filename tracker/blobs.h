/* Blobs: which peer uploaded which, and which peer may get them. */
#ifndef KILN_TRACKER_BLOBS_H
#define KILN_TRACKER_BLOBS_H

#include "tracker/access.h"

#define KILN_TRACKER_PUTS_MAX 65536u /* blobs whose uploader is remembered */
#define KILN_TRACKER_PUT_BYTES_A_DAY \
    ((uint64_t)8 << 30) /* of a person: half of what the store keeps */

/* An upload of a blob by a person or a program. */
typedef struct kiln_tracker_put {
    kiln_digest digest;
    uint64_t who;                       /* hash of its name */
    struct kiln_tracker_person *person; /* NULL: a program, or not known: then there is no row */
    uint64_t size, put_ms,
        used_ms;                   /* by the wall clock; a use: uploaded again, or named by a job */
    bool changed;                  /* listed in kiln_tracker_blobs.changed */
    struct kiln_tracker_put *same; /* the same blob, uploaded by another */
    struct kiln_tracker_put *older, *newer; /* by use */
} kiln_tracker_put;
/* An upload whose row has to be written or removed. */
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
/* The peer's upload of the blob; NULL: none is remembered. */
kiln_tracker_put *kiln_tracker_put_find(const kiln_tracker *t, const kiln_tracker_peer *peer,
                                        const kiln_digest *digest);
void kiln_tracker_put_add(kiln_tracker *t, const kiln_tracker_peer *peer, const kiln_digest *digest,
                          uint64_t size);
/* Whether `size` more bytes fit beside those of the person's blobs that jobs and leases need. */
bool kiln_tracker_put_fits(kiln_tracker *t, kiln_tracker_person *person, uint64_t size);
/* Notes a use. */
void kiln_tracker_put_use(kiln_tracker *t, kiln_tracker_put *put);
void kiln_tracker_puts_tick(kiln_tracker *t);
KILN_MUST_USE kiln_status kiln_tracker_put_restore(kiln_tracker *t, const kiln_tracker_row *row);
/* Called after the last kiln_tracker_put_restore. */
void kiln_tracker_puts_restored(kiln_tracker *t);
void kiln_tracker_puts_free(kiln_tracker *t);

/* blob_access.c */
uint64_t kiln_tracker_project_blob_bytes(const kiln_tracker *t,
                                         const kiln_tracker_project *project);
/* 0: the peer did not upload it. */
uint64_t kiln_tracker_put_size(const kiln_tracker *t, const kiln_tracker_peer *peer,
                               const kiln_digest *digest);
/* Checks the blobs that a new job names. NOT_FOUND: the client has no right to one.
 * RESOURCE_EXHAUSTED: the project's quota. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_blobs(kiln_tracker *t,
                                                      const kiln_tracker_peer *client,
                                                      const kiln_msg_job_spec *spec);
/* RESOURCE_EXHAUSTED: `bytes` of results of this job would exceed its project's quota. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_results(kiln_tracker *t,
                                                        const kiln_tracker_job *job,
                                                        uint64_t bytes);
/* Lets the board get the blobs that the trial names. False: a person names one that it may not get
 * itself. */
bool kiln_tracker_trial_blobs(kiln_tracker *t, const kiln_tracker_peer *sender,
                              kiln_tracker_lease *lease, const kiln_msg_trial *trial);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_blobs_check(const kiln_tracker *t);

#endif
