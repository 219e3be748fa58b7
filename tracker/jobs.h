/* Jobs: the table of them, and their rows. */
#ifndef KILN_TRACKER_JOBS_H
#define KILN_TRACKER_JOBS_H

#include "tracker/boards.h"
#include "tracker/projects.h"

#define KILN_TRACKER_SIGNERS (KILN_MESSAGES_SIGNERS / KILN_MESSAGES_SIGNER) /* of one job */

/* Its requests in the queue, oldest first. Written by queue.c. */
typedef struct kiln_tracker_job_queue {
    KILN_VEC(struct kiln_tracker_request *) requests;
} kiln_tracker_job_queue;

/* Written by job_life.c and job_assign.c, too. */
typedef struct kiln_tracker_job {
    uint64_t number; /* grows from job to job, as they stand in kiln_tracker_jobs.all */
    kiln_tracker_text id;
    kiln_tracker_text owner; /* the person that opened it; empty: nobody that was known */
    kiln_arena arena;        /* of spec and tasks */
    kiln_msg_job_spec spec;  /* `project` is never empty, `user` is the owner where there is one */
    kiln_tracker_requirement *required; /* while it is open */
    kiln_tracker_project *project;      /* while it is open */
    kiln_job_state state;
    uint32_t leases; /* held for it */
    kiln_tracker_job_queue queue;
    uint64_t opened_ns, assigned_ns;
    kiln_tracker_text run;    /* which run of its name it is; empty: its name says so */
    kiln_tracker_text opener; /* boot of who opened it last; empty after a restart */
    kiln_tracker_text tuner;  /* node of who works on it, empty: nobody */
    kiln_sign_public signer[KILN_TRACKER_SIGNERS]; /* of all who worked on it, the last ones */
    uint32_t signer_count;
    uint64_t tuner_until_ns; /* that tuner must be back by then; 0: it is here */
    kiln_tracker_peer *client;
    uint32_t client_stream;   /* of JOB_OPEN, while its answer is due */
    uint64_t client_until_ns; /* its client must be back by then; 0: there is one, or none is needed
                               */
    bool abandoned;           /* it was stopped because its client did not come back */
    uint64_t unserved_ns;     /* since when tuner or board is missing; 0: served */
    uint64_t ending_ns;       /* since when the tuner was told to stop; 0: it was not */
    kiln_code ending_code;
    char *ending_text;      /* in arena */
    kiln_msg_job_done done; /* once ended; also holds the task states while it runs */
    uint32_t task_capacity;
    uint64_t blob_bytes; /* of its model and records, as far as it is known */
    uint64_t persist;    /* > 0: its opening or its end waits for this */
    uint64_t assigning;  /* > 0: its tuner hears of it when this is durable */
    uint64_t changed;    /* kiln_tracker_effects.change when its row last did */
} kiln_tracker_job;

typedef struct kiln_tracker_jobs {
    KILN_VEC(kiln_tracker_job *) all; /* oldest first */
    kiln_map of_id;
    uint32_t open;
    uint32_t unkept; /* how often jobs wait for the disk: `persist` and `assigning` */
} kiln_tracker_jobs;

#define KILN_TRACKER_RUN_DIGITS 8u /* of the opener's boot, which is random */

void kiln_tracker_jobs_init(kiln_tracker *t);
/* An empty one, waiting; it goes with `remove`, when it is in no project any more. */
kiln_tracker_job *kiln_tracker_job_add(kiln_tracker *t, kiln_str id);
void kiln_tracker_job_remove(kiln_tracker *t, kiln_tracker_job *job);
/* An open job stands in its project, and knows what it requires of a board. */
KILN_MUST_USE kiln_status kiln_tracker_job_enter(kiln_tracker *t, kiln_tracker_job *job);
void kiln_tracker_job_leave(kiln_tracker *t, kiln_tracker_job *job);
/* A lease is held for it, or no longer. */
void kiln_tracker_job_add_lease(kiln_tracker *t, kiln_tracker_job *job);
void kiln_tracker_job_remove_lease(kiln_tracker *t, kiln_tracker_job *job);
/* Whoever followed it does not any more. */
void kiln_tracker_job_drop_client(kiln_tracker_job *job);
/* As JOB_DONE carries them; a view of the job. */
kiln_str kiln_tracker_job_signers(const kiln_tracker_job *job);
/* As much of a text as a message holds. */
kiln_str kiln_tracker_prose(const char *text);
/* Has the row written; the job waits for that, until it is kept. Its tuner waits for an assignment,
 * until that is on disk or `unassign` takes it back. */
void kiln_tracker_job_persist_and_wait(kiln_tracker *t, kiln_tracker_job *job);
void kiln_tracker_job_kept(kiln_tracker *t, kiln_tracker_job *job);
void kiln_tracker_job_persist_assignment(kiln_tracker *t, kiln_tracker_job *job);
/* The project's jobs or settings changed. */
void kiln_tracker_jobs_weigh(kiln_tracker *t, kiln_tracker_project *project);

/* Has the job's row written, and returns the number of that. */
uint64_t kiln_tracker_job_persist(kiln_tracker *t, kiln_tracker_job *job);
/* Notes whose signature the records of this tuner carry: JOB_DONE names them. */
void kiln_tracker_job_add_signer(kiln_tracker_job *job, const kiln_tracker_peer *tuner);
/* Tells a tuner to stop the job, which is ending. */
void kiln_tracker_job_send_cancel(kiln_tracker *t, const kiln_tracker_job *job,
                                  const kiln_tracker_peer *tuner);
void kiln_tracker_job_tell(kiln_tracker *t, kiln_tracker_job *job, const kiln_tracker_peer *client,
                           uint32_t stream, const char *text);
kiln_tracker_job *kiln_tracker_job_find(kiln_tracker *t, kiln_str id);
/* The job of this name or the newest of its later runs, which are called NAME.RUN; one that is open
 * before those that ended. NULL: there is none. For what people ask. */
kiln_tracker_job *kiln_tracker_job_latest(kiln_tracker *t, kiln_str name);
/* Who works on a running job, when it is connected: its tuner, or its client itself; NULL. */
kiln_tracker_peer *kiln_tracker_job_worker(kiln_tracker *t, const kiln_tracker_job *job);
bool kiln_tracker_job_is_open(const kiln_tracker_job *job);
KILN_MUST_USE kiln_status kiln_tracker_job_restore(kiln_tracker *t, const kiln_tracker_row *row);
void kiln_tracker_jobs_free(kiln_tracker *t);
/* An assignment that is not on disk yet does not count any more. */
void kiln_tracker_job_unassign(kiln_tracker *t, kiln_tracker_job *job);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_jobs_check(const kiln_tracker *t);

#endif
