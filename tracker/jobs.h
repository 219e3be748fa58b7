/* Jobs: their table and their rows. */
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
    uint64_t number; /* ascending in kiln_tracker_jobs.all */
    kiln_tracker_text id;
    kiln_tracker_text owner; /* the person that opened it; empty: not known */
    kiln_arena arena;        /* of spec and tasks */
    kiln_msg_job_spec spec;  /* `project` is never empty; `user` is the owner, if there is one */
    kiln_tracker_requirement *required; /* while it is open */
    kiln_tracker_project *project;      /* while it is open */
    kiln_job_state state;
    uint32_t leases; /* held for it */
    kiln_tracker_job_queue queue;
    uint64_t opened_ns, assigned_ns;
    kiln_tracker_text
        run; /* names the run of a job that is opened repeatedly; empty: `id` says it */
    kiln_tracker_text opener; /* boot of the peer that opened it last; empty after a restart */
    kiln_tracker_text
        tuner; /* node of its tuner, or of its client if that works itself; empty: none */
    kiln_sign_public signer[KILN_TRACKER_SIGNERS]; /* the last tuners that worked on it */
    uint32_t signer_count;
    uint64_t tuner_until_ns; /* the tuner must reconnect by then; 0: it is connected */
    kiln_tracker_peer *client;
    uint32_t client_stream; /* of JOB_OPEN, while its answer is due */
    uint64_t
        client_until_ns; /* its client must reconnect by then; 0: it is connected, or none is needed
                          */
    bool abandoned;      /* it was stopped because its client did not reconnect */
    uint64_t unserved_ns;  /* since when a tuner or a board is missing; 0: none is */
    char *held;            /* why the calendar keeps it from boards; NULL: it does not */
    uint64_t held_look_ns; /* when that is looked at next */
    uint64_t ending_ns;    /* when the tuner was told to stop; 0: it was not */
    kiln_code ending_code;
    char *ending_text;      /* in arena */
    kiln_msg_job_done done; /* the end; `tasks` are also kept while it runs */
    uint32_t task_capacity;
    uint64_t blob_bytes; /* of its model and records, as far as known */
    uint64_t persist;    /* > 0: PERSIST that its opening or its end waits for */
    uint64_t assigning;  /* > 0: PERSIST after which its tuner gets the job */
    uint64_t changed;    /* kiln_tracker_effects.change of the last change of its row */
} kiln_tracker_job;

typedef struct kiln_tracker_jobs {
    KILN_VEC(kiln_tracker_job *) all; /* oldest first */
    kiln_map of_id;
    uint32_t open;
    uint32_t unkept; /* PERSISTs that jobs wait for: `persist` and `assigning` */
} kiln_tracker_jobs;

#define KILN_TRACKER_RUN_DIGITS 8u /* of the opener's boot, which is random */

void kiln_tracker_jobs_init(kiln_tracker *t);
/* Adds an empty, waiting job. `remove` frees it after kiln_tracker_job_leave. */
kiln_tracker_job *kiln_tracker_job_add(kiln_tracker *t, kiln_str id);
void kiln_tracker_job_remove(kiln_tracker *t, kiln_tracker_job *job);
/* Enters an open job into its project and looks up its requirement; `leave` undoes that. */
KILN_MUST_USE kiln_status kiln_tracker_job_enter(kiln_tracker *t, kiln_tracker_job *job);
void kiln_tracker_job_leave(kiln_tracker *t, kiln_tracker_job *job);
/* Counts the leases held for the job. */
void kiln_tracker_job_add_lease(kiln_tracker *t, kiln_tracker_job *job);
void kiln_tracker_job_remove_lease(kiln_tracker *t, kiln_tracker_job *job);
/* Replaces the reason why the calendar keeps it from boards; NULL: it does not. Whether that is
 * another one. */
bool kiln_tracker_job_set_held(kiln_tracker *t, kiln_tracker_job *job, const char *why);
/* Its client no longer follows it. */
void kiln_tracker_job_drop_client(kiln_tracker_job *job);
/* Its signers as JOB_DONE carries them; a view of the job. */
kiln_str kiln_tracker_job_signers(const kiln_tracker_job *job);
/* The text, cut to what a message holds. */
kiln_str kiln_tracker_prose(const char *text);
/* Write the job's row: the job waits until `kept` is called; its assignment waits until it is on
 * disk, which calls `unassign`. */
void kiln_tracker_job_persist_and_wait(kiln_tracker *t, kiln_tracker_job *job);
void kiln_tracker_job_kept(kiln_tracker *t, kiln_tracker_job *job);
void kiln_tracker_job_persist_assignment(kiln_tracker *t, kiln_tracker_job *job);
/* Updates the weight of the project after its jobs or settings changed. */
void kiln_tracker_jobs_weigh(kiln_tracker *t, kiln_tracker_project *project);

/* Writes the job's row; returns the number of the PERSIST. */
uint64_t kiln_tracker_job_persist(kiln_tracker *t, kiln_tracker_job *job);
/* Adds the tuner's signer to those that JOB_DONE names. */
void kiln_tracker_job_add_signer(kiln_tracker_job *job, const kiln_tracker_peer *tuner);
/* Tells a tuner to stop the job, which is ending. */
void kiln_tracker_job_send_cancel(kiln_tracker *t, const kiln_tracker_job *job,
                                  const kiln_tracker_peer *tuner);
void kiln_tracker_job_tell(kiln_tracker *t, kiln_tracker_job *job, const kiln_tracker_peer *client,
                           uint32_t stream, const char *text);
kiln_tracker_job *kiln_tracker_job_find(kiln_tracker *t, kiln_str id);
/* Finds a job by the name that a person gives: of the job NAME and its later runs NAME.RUN the open
 * one, else the newest. NULL: there is none. */
kiln_tracker_job *kiln_tracker_job_latest(kiln_tracker *t, kiln_str name);
/* The connected peer that works on a running job: its tuner, or its client; NULL: it is not
 * connected. */
kiln_tracker_peer *kiln_tracker_job_worker(kiln_tracker *t, const kiln_tracker_job *job);
bool kiln_tracker_job_is_open(const kiln_tracker_job *job);
KILN_MUST_USE kiln_status kiln_tracker_job_restore(kiln_tracker *t, const kiln_tracker_row *row);
void kiln_tracker_jobs_free(kiln_tracker *t);
/* Ends the wait for the assignment's PERSIST. */
void kiln_tracker_job_unassign(kiln_tracker *t, kiln_tracker_job *job);
/* Invariants (kiln_tracker_check). */
void kiln_tracker_jobs_check(const kiln_tracker *t);

#endif
