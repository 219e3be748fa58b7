/* What the parts that serve `kiln tune` share:
 *
 * tune_request.c the order of things
 * tune_job.c     the job: its fleet, its progress, its records
 * tune_report.c  what came of it
 * tune_module.c  the module */
#ifndef KILN_CLI_WORKER_TUNE_H
#define KILN_CLI_WORKER_TUNE_H

#include "cli/common/client.h"
#include "cli/common/model_work.h"
#include "cli/common/tune_options.h"
#include "cli/worker/events.h"
#include "cli/worker/private_fleet.h"

typedef struct kiln_tune_turns kiln_tune_turns;

typedef struct kiln_tune {
    const kiln_tune_options *options;
    kiln_arena *process;
    const char *db_path;
    kiln_target target;
    const char *target_text;    /* canonical */
    kiln_import_options import; /* sizes of open dimensions */
    kiln_accuracy accuracy;
    kiln_model model;                /* as it was read */
    kiln_compilation *compilation;   /* of the model for the target */
    kiln_msg_hand_schedules by_hand; /* of --schedule */
    kiln_pack_provenance provenance;
    kiln_model_work packing; /* with --out: a process that has waited since before there were a
                                database and keys */
    kiln_model_call packer;
    kiln_strbuf *bytes;     /* of one of several sizes: gets the module, in place of the file */
    kiln_tune_turns *turns; /* while the module is packed and judged */
    bool judges;            /* whole modules, here or on a board */
    kiln_target in_double;  /* of the module that they are compared with, which runs here */
    kiln_private_fleet *fleet;
    kiln_client *client;
    kiln_events *events;
    char job[KILN_HASH128_TEXT];
    kiln_message open;   /* JOB_OPEN, repeated after a reconnect */
    uint32_t interrupts; /* how often the host asked to stop */
    bool cancel_sent, done;
    bool stopped;              /* by the host: what no final has judged is not packed */
    kiln_msg_job_done end;     /* views in process */
    uint64_t start_ns, end_ns; /* of the job */
    uint64_t measuring_ns;     /* since when: the model was read before */
} kiln_tune;

/* What a job's end says of its records: JOB_DONE, or the job's row. */
typedef struct kiln_tune_records {
    kiln_digest blob; /* zero: there are none */
    kiln_str signers; /* as in JOB_DONE: these tuners are trusted from here on */
    kiln_str project,
        trusted; /* whose job it was; as in JOB_DONE: on its word their records count */
} kiln_tune_records;
/* Takes them from the tracker into the database at `db_path`, and says when not all of them count.
 */
KILN_MUST_USE kiln_status kiln_tune_bring_records(kiln_client *client,
                                                  const kiln_tune_records *records,
                                                  const char *db_path, kiln_events *events,
                                                  kiln_arena *process);
/* Runs the job to its end, or with --detach until the tracker has it, with its own fleet unless a
 * tracker is named; afterwards the records are in db_path. CANCELLED: stopped by the person; what
 * was measured is kept all the same. */
KILN_MUST_USE kiln_status kiln_tune_run_job(kiln_tune *tune);
/* Says what each task and all of them came to, from the database. */
KILN_MUST_USE kiln_status kiln_tune_summarise(kiln_tune *tune);
/* Starts `packer`; db_path is known by then, and not open. */
KILN_MUST_USE kiln_status kiln_tune_start_packer(kiln_tune *tune);
/* Time of --seconds that is left for judging the module. */
double kiln_tune_kept_s(const kiln_tune *tune);
/* Writes the module. With a tracker on one of its boards, else here where the target is this
 * machine's, default and tuned module run in turns, choices that lose inside of the module are
 * taken back until the whole is fastest, and the default schedules are written unless the tuned
 * ones are faster beyond noise. Else the tuned ones are. */
KILN_MUST_USE kiln_status kiln_tune_pack(kiln_tune *tune);
/* What the model takes as the sum of its kernels, one after the other, as they were measured. */
KILN_MUST_USE kiln_status kiln_tune_sum_kernels(kiln_tune *tune, kiln_db *db,
                                                double *out_default_ns, double *out_tuned_ns);

#endif
