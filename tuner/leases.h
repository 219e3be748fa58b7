/* Leases that a job holds or asks for: each is a board for some of its trials. */
#ifndef KILN_TUNER_LEASES_H
#define KILN_TUNER_LEASES_H

#include "tuner/effects.h"

/* Written by boards.c, too. */
typedef struct kiln_tuner_lease {
    uint64_t request, lease; /* lease 0: not granted yet */
    uint64_t ask_ns;         /* request: when to repeat it */
    kiln_arena arena;        /* of grant */
    kiln_msg_lease_grant grant;
    uint32_t sent;                    /* trials so far, of K */
    uint64_t renew_ns, idle_since_ns; /* idle 0: it has work */
} kiln_tuner_lease;

typedef struct kiln_tuner_leases {
    KILN_TUNER_LIST(kiln_tuner_lease *);
} kiln_tuner_leases;

/* Written by boards.c. */
typedef struct kiln_tuner_requests {
    uint64_t last; /* number of the newest, over all jobs */
} kiln_tuner_requests;

/* Appends a lease that is to be asked for, with the number of its request. */
kiln_tuner_lease *kiln_tuner_lease_add(kiln_tuner_job *job, uint64_t request);
void kiln_tuner_lease_remove(kiln_tuner_job *job, kiln_tuner_lease *lease);
/* Returns the lease to the tracker and removes it; `drop`: all leases of the job. */
void kiln_tuner_lease_release(kiln_tuner_job *job, kiln_tuner_lease *lease);
void kiln_tuner_leases_drop(kiln_tuner_job *job);
/* Invariants (kiln_tuner_check). */
void kiln_tuner_leases_check(const kiln_tuner_job *job);

#endif
