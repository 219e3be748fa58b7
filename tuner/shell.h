/* The tuner's shell: carries out what kiln_tuner_step (tuner/tuner.h) decides. One loop thread;
 * LLVM and kernels run in workers (compiler-core/worker/builder.h).
 *
 * shell.c       the step, the connection, blobs, time
 * shell_jobs.c  the list of jobs, and what each has under way
 * prepare.c     a job from its model to its searchers: PREPARE, which prepared.c ends
 * open_tasks.c  its tasks, as the model's compilation has them, and their searchers
 * transfer.c    what the database already knows of its tasks
 * claims.c      which tuner works on a job, where tuners share a database
 * searching.c   the searchers, on a pool thread: PROPOSE, OBSERVE
 * builds.c      what builders make: REFERENCE, BUILD
 * final.c       the candidates of a task's final: GATHER
 * records.c     results to rows, committed in groups: RECORD
 * finish.c      EXPORT, FORGET
 * answer_records.c  questions of people about the database
 * io_thread.h   the thread of the database and of the blob store
 *
 * A struct is written by the files that its comment names; all may read it
 * (tests/check/check_owners.py). */
#ifndef KILN_TUNER_SHELL_H
#define KILN_TUNER_SHELL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/target.h"
#include "base/vec.h"
#include "compiler-core/worker/builder.h"
#include "db/db.h"
#include "proto/event_queue.h"
#include "proto/loop.h"
#include "proto/net.h"
#include "proto/signing.h"
#include "tuner/io_thread.h"
#include "tuner/search/searcher.h"
#include "tuner/tuner.h"

typedef struct kiln_shell kiln_shell;
typedef struct kiln_shell_job kiln_shell_job;
typedef struct kiln_shell_group kiln_shell_group; /* records.c */

typedef struct kiln_shell_options {
    kiln_addresses tracker;
    const char *home, *key_file; /* credentials, read at each dial; key_file may be NULL */
    bool insecure;
    const char *db_path, *state_folder, *program; /* program: path of kiln-tuner, for workers */
    const char *builder_cores;                    /* may be NULL */
    uint64_t model_memory_bytes;                  /* of a worker; 0: the default */
    uint32_t builder_count;                       /* 0: boards build the candidates */
    uint64_t seed;                                /* of dialling jitter */
    kiln_model_kind model;                        /* that searchers ask */
} kiln_shell_options;

/* Opens the database and the blob store and dials. Errors are those of kiln_db_open and
 * kiln_blob_store_open. */
KILN_MUST_USE kiln_status kiln_shell_create(const kiln_shell_options *options,
                                            kiln_shell **out_shell);
/* Until SIGINT or SIGTERM. */
void kiln_shell_run(kiln_shell *shell);
/* Commits what is pending and closes everything. NULL is fine. */
void kiln_shell_destroy(kiln_shell *shell);

/* ---- inside ---------------------------------------------------------------------------------- */

/* What BUILD made of a candidate. Written by builds.c. */
typedef struct kiln_built {
    kiln_digest artefact;
    kiln_str algorithm, layout_in, layout_out; /* algorithm empty: there is no artefact */
    kiln_assembled assembled;
    uint64_t build_ns;
} kiln_built;

/* A proposal between PROPOSE and OBSERVE. Written by searching.c. */
typedef struct kiln_candidate {
    uint32_t task, index;
    kiln_arena arena; /* owns the rest */
    kiln_str trace;   /* binary form */
    char hash[KILN_HASH128_TEXT];
    kiln_built built;
    uint64_t search_ns, train_ns;
    bool adopted; /* from a record of another target */
    bool by_hand; /* a person wrote it */
} kiln_candidate;

/* A stored record that the searchers learn from before they propose. Written by transfer.c. */
typedef struct kiln_transfer_record {
    uint32_t task;             /* of the job; its task_count: it is of another task */
    kiln_str key, text;        /* of that other task: key and program */
    const kiln_target *target; /* another than the job's, on which it was measured, or whose hint it
                                  is; NULL: a record of the job's that counts */
    bool adopted;              /* the fastest there: proposed here first, too */
    kiln_str trace, hash;
    kiln_assembled assembled;
    double latency_ns; /* 0: failed by its own fault */
} kiln_transfer_record;

/* An order for the searchers, in the order of the step's actions. Written by searching.c. */
typedef struct kiln_search_order {
    bool observes; /* else proposes */
    uint32_t task, index;
    kiln_outcome outcome;
    kiln_assembled assembled;
    double least_ns;
    kiln_candidate *candidate; /* the proposal; NULL: the space has no further candidate */
} kiln_search_order;

/* A candidate of a final. Written by final.c. */
typedef struct kiln_finalist {
    kiln_db_record
        row; /* as it was measured before, without its samples; views in the job's arena */
    kiln_msg_blob_ref artefact; /* size 0: it is not there (yet) */
} kiln_finalist;

/* The candidates of a task's final, after GATHER. Written by final.c. */
typedef struct kiln_shell_final {
    kiln_finalist *finalist;     /* [count] the default first */
    kiln_msg_blob_ref *artefact; /* room for one of each */
    uint32_t count, waiting;     /* waiting: for so many artefacts */
    bool early;                  /* of a judgement within the search */
    double alone_ns;             /* of the fastest that is in no final so far; 0: none */
} kiln_shell_final;

/* What is stored of a task (tuner/tuner.h). Written by transfer.c. */
typedef struct kiln_shell_known {
    uint32_t stored_count, repeat_count, by_hand_count;
    double best_ns, default_ns, peak_flops;
} kiln_shell_known;

/* Written by open_tasks.c. */
typedef struct kiln_shell_task {
    kiln_str key, op, text; /* program text */
    kiln_program *te;
    double flops, least_flops;
    uint32_t weight; /* tuner/tuner.h */
    kiln_shell_known known;
    kiln_searcher *searcher; /* NULL: nothing is proposed */
    kiln_str error;          /* why it cannot be searched; empty: it can */
    kiln_shell_final final;
} kiln_shell_task;

/* What PREPARE waits for, and what it found. Written by prepared.c. */
typedef struct kiln_shell_parts {
    uint32_t waiting; /* for so many */
    kiln_status failure;
    const kiln_tuner_result *stored; /* of this job, by an earlier run of this tuner */
    uint32_t stored_count;
    uint64_t spent_ns;
} kiln_shell_parts;

/* Written by claims.c. */
typedef struct kiln_shell_claim {
    bool wanted, asked, held;
} kiln_shell_claim;

/* Records and schedules that the searchers begin with; in the job's arena. Written by transfer.c.
 */
typedef struct kiln_shell_transfer {
    kiln_msg_hand_schedules by_hand;
    KILN_VEC(kiln_transfer_record) records;
} kiln_shell_transfer;

/* The job's searchers and what they proposed. While `running` the searchers, the model, the
 * transfer and `now` are a pool thread's. Written by searching.c. */
typedef struct kiln_shell_search {
    bool running, taught;
    KILN_VEC(kiln_search_order) order, now; /* waiting, under way */
    KILN_VEC(kiln_candidate *) candidate;
} kiln_shell_search;

/* Written by searching.c. */
typedef struct kiln_shell_searches {
    uint32_t running; /* jobs whose searchers are at work, forgotten ones too */
} kiln_shell_searches;

/* Written by records.c. */
typedef struct kiln_shell_records {
    kiln_shell_group *group; /* waits for its commit; NULL: there are none */
} kiln_shell_records;

/* Written by prepare.c, open_tasks.c and shell_jobs.c. */
typedef struct kiln_shell_job {
    kiln_shell *shell;
    kiln_shell_job *next;
    uint64_t handle;
    kiln_arena arena;
    const char *identity;
    kiln_msg_job_spec spec;    /* deep copy */
    kiln_accuracy accuracy;    /* of the spec */
    kiln_db_allowed allowed;   /* by it */
    kiln_db_trusting trusting; /* signers whose records count in it, beside those that count here */
    kiln_target target;
    uint64_t opened_wall_ns;
    kiln_shell_task *task;
    uint32_t task_count;
    kiln_tuner_alternative *alternative; /* [alternative_count] among the tasks */
    uint32_t alternative_count;
    bool wants_blobs;       /* its model is to be fetched when there is a tracker again */
    kiln_cost_model *model; /* NULL: the searcher asks none */
    kiln_shell_parts parts;
    kiln_shell_claim claim;
    kiln_shell_transfer transfer;
    kiln_shell_search search;
    uint32_t ios; /* under way: the job is freed after the last of them */
    bool forgotten;
} kiln_shell_job;

/* Written by shell.c and shell_jobs.c. */
typedef struct kiln_shell {
    kiln_loop *loop;
    kiln_tuner *tuner;
    kiln_tuner_actions actions;
    kiln_event_queue *events; /* of kiln_tuner_event; NULL: the shell is being destroyed */
    kiln_timer *commit, *claims;
    kiln_shell_options options;
    char node[KILN_HASH128_TEXT], boot[KILN_HASH128_TEXT];
    kiln_conn *conn;
    bool open;
    uint32_t said;     /* the reason that was last logged for having no connection */
    kiln_blobs *blobs; /* of conn; NULL while it is not open */
    kiln_blob_store *store;
    kiln_io_thread *io_thread;
    int lock_fd;            /* of the state folder, which is one tuner's; -1: not held */
    kiln_db *db;            /* the io_thread's, while there is one */
    kiln_signer *signer;    /* of records, likewise; NULL: this build has no signatures */
    kiln_sign_public signs; /* its public key; changes with a rotation before `signer` does */
    kiln_builders *builders;
    kiln_shell_job *jobs;
    kiln_shell_searches searches;
    kiln_shell_records records;
} kiln_shell;

/* What a job has done on the io_thread. */
typedef struct kiln_shell_io kiln_shell_io;
struct kiln_shell_io {
    kiln_shell_job *job;
    uint32_t task, index, place;
    bool early;                     /* of a GATHER */
    void (*run)(kiln_shell_io *io); /* on the io_thread */
    /* On the loop; not called when the job was forgotten. May be NULL. */
    void (*done)(kiln_shell_io *io);
    kiln_strbuf bytes; /* handed over, or brought back */
    const char *text;  /* lasts */
    kiln_digest digest, other_digest;
    bool yes;
    kiln_status status; /* of `run`; freed with the io unless it was taken */
};
/* Sends off a copy, which owns `bytes`. */
void kiln_shell_io_submit(const kiln_shell_io *io, const char *name);
/* The same with a copy of `bytes`. */
void kiln_shell_io_submit_bytes(kiln_shell_io io, kiln_str bytes, const char *name);
/* The status of its `run`, which is the caller's from here on. */
kiln_status kiln_shell_take_status(kiln_shell_io *io);

/* For `run`: puts `bytes` into the store, under `digest`. */
void kiln_shell_keep_artefact(kiln_shell_io *io);

/* What a callback of a builder or transfer finds its job by, which may be gone by then. */
typedef struct kiln_shell_ticket {
    kiln_shell *shell;
    uint64_t job;
    uint32_t task, index;
} kiln_shell_ticket;
void *kiln_shell_ticket_make(kiln_shell_job *job, uint32_t task, uint32_t index);
/* Frees the ticket; NULL when the job was forgotten meanwhile. */
kiln_shell_job *kiln_shell_ticket_use(void *ticket, kiln_shell_ticket *out);

/* Queues an event, whose texts are copied; the step sees it later, never from inside. */
void kiln_shell_post(kiln_shell *shell, const kiln_tuner_event *event);
kiln_shell_job *kiln_shell_find_job(kiln_shell *shell, uint64_t handle);

/* Actions by name (tuner/tuner.h). */
/* Goes on with the fetches that the end of the last connection broke off. */
void kiln_shell_fetch_again(kiln_shell *shell);
void kiln_shell_prepare(kiln_shell *shell, const kiln_tuner_action *action);
void kiln_shell_propose(kiln_shell *shell, const kiln_tuner_action *action);
void kiln_shell_reference(kiln_shell *shell, const kiln_tuner_action *action);
void kiln_shell_build(kiln_shell *shell, const kiln_tuner_action *action);
void kiln_shell_observe(kiln_shell *shell, const kiln_tuner_action *action);
void kiln_shell_gather(kiln_shell *shell, const kiln_tuner_action *action);
void kiln_shell_export(kiln_shell *shell, const kiln_tuner_action *action);
void kiln_shell_forget(kiln_shell *shell, const kiln_tuner_action *action);
void kiln_shell_record(kiln_shell *shell, const kiln_tuner_action *action);
/* Has a builder make the artefact of a trace of a task; `index` goes to the ticket of `done`. */
void kiln_shell_submit_build(kiln_shell_job *job, uint32_t task, kiln_str trace, uint32_t index,
                             kiln_builders_done done);
/* Answers RECORDS_ASK: reads the database on the io_thread, then sends RECORDS_PAGE. */
void kiln_shell_answer_records(kiln_shell *shell, const kiln_message *ask);
/* Writes the job's row, on the io_thread. */
KILN_MUST_USE kiln_status kiln_shell_store_job(kiln_shell_job *job, const char *state);
/* The tasks of the job as the step takes them, in its arena. */
kiln_tuner_task *kiln_shell_list_tasks(kiln_shell_job *job);
/* PREPARE waits for one part more; a part is done, or failed: the first failure counts. */
void kiln_shell_part_add(kiln_shell_job *job);
void kiln_shell_part_done(kiln_shell_job *job, kiln_status st);
/* Asks for, or renews, the claims of all jobs, and comes back in time (claims.c). */
void kiln_shell_claim_all(void *shell);
/* Asks for that of a job for the first time: a part of PREPARE. */
void kiln_shell_claim_begin(kiln_shell_job *job);
void kiln_shell_unclaim(kiln_shell_job *job);
/* Makes pending records durable and posts their RECORDED events. */
void kiln_shell_commit(void *shell);

/* Opens the tasks of a compilation that the job wants, each with a searcher, where it can be
 * searched (open_tasks.c). `bytes` are copied. NOT_FOUND: the job wants none of them, or there is
 * no such searcher. Errors of kiln_compilation_decode. */
KILN_MUST_USE kiln_status kiln_shell_open_tasks(kiln_shell_job *job, kiln_str bytes);
/* Frees the searchers of tasks that get no trials. */
void kiln_shell_close_tasks(kiln_shell_job *job);
/* Takes in the records that the job came with, held to the programs of its tasks, which we have
 * from the model. DATA_LOSS: they are damaged. Groups of other jobs are not affected. */
KILN_MUST_USE kiln_status kiln_shell_import(kiln_shell_job *job);
/* Reads what is to be learnt for the tasks of the job, which have their searchers (transfer.c). */
KILN_MUST_USE kiln_status kiln_shell_find_transfer(kiln_shell_job *job);
/* Teaches it; on the pool thread. */
void kiln_shell_teach(kiln_shell_job *job);

/* The candidate of that task and trial; NULL: it is gone. */
kiln_candidate *kiln_shell_find_candidate(kiln_shell_job *job, uint32_t task, uint32_t index);
/* Frees it and what it built. */
void kiln_candidate_destroy(kiln_candidate *candidate);
/* An empty one, in the list. */
kiln_shell_job *kiln_shell_job_create(kiln_shell *shell, uint64_t handle);
/* Takes the job out of the list, and frees it now or when what it has under way is done. */
void kiln_shell_job_destroy(kiln_shell_job *job);
/* Waits for the searchers of all jobs, also of those that were forgotten. */
void kiln_shell_search_wait(kiln_shell *shell);

#endif
