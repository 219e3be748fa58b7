/* Work on models, in processes without rights (base/isolated). One reads the file, others make of
 * its graph what a command wants: passes, schedules, machine code. The command opens its database
 * after it has started them, so that none of them sees it: they ask for the records of a task.
 *
 *     kiln_model_read ─> bytes of a graph ─> kiln_model_start ─ (database) ─ kiln_model_finish
 *
 * With KILN_NO_ISOLATION in the environment all of it happens in the command itself. */
#ifndef KILN_CLI_COMMON_MODEL_WORK_H
#define KILN_CLI_COMMON_MODEL_WORK_H

#include "base/isolated/isolated.h"
#include "base/opt.h"
#include "cli/common/stage.h"
#include "deploy/pack/pack.h"

#define KILN_MODEL_CPU_S 3600u /* processor time of all kernels of a model */
#define KILN_MODEL_STEP_S 300u /* by the clock; the slowest kernel known takes 3 s */

/* A model as a graph's canonical bytes. */
typedef struct kiln_model {
    const char *path;
    kiln_str graph;     /* a part of `bytes`; not checked yet */
    kiln_mapping bytes; /* until the program ends */
    uint64_t memory_bytes;
} kiln_model;

/* Reads a file; `options` may be NULL. Errors of kiln_read_isolated. */
KILN_MUST_USE kiln_status kiln_model_read(const char *path, const kiln_import_options *options,
                                          kiln_arena *process, kiln_model *out_model);
void kiln_model_deinit(kiln_model *model);

typedef struct kiln_model_call kiln_model_call;

/* Runs in the child; gives back bytes. `call` is for the functions below. */
typedef kiln_status (*kiln_model_function)(const kiln_model_call *call, kiln_graph *graph,
                                           kiln_arena *arena, kiln_isolated_result *out_result);

typedef struct kiln_model_work {
    const kiln_model *model;
    const char *doing; /* "compiling": in front of the model's path in errors */
    kiln_model_function run;
    /* In the command: answers kiln_model_show. NULL: nothing is shown. */
    kiln_status (*look)(void *context, kiln_str bytes, kiln_strbuf *out_answer);
    void *context;
    kiln_precision precision; /* INT8 is refused where nothing of the model is quantised */
    bool has_db;              /* there will be one in kiln_model_finish */
    bool judged; /* until then: of measured schedules it has those that won a final only */
} kiln_model_work;

struct kiln_model_call {
    const kiln_model_work *work;
    kiln_isolated_work isolated_work;
    kiln_isolated_process *process;
    kiln_db *db; /* in the command only */
};

/* Starts a process that waits; `work` and `out_call` stay where they are until the end. */
KILN_MUST_USE kiln_status kiln_model_start(const kiln_model_work *work, kiln_arena *process,
                                           kiln_model_call *out_call);
/* `db` is NULL where there is none. Errors of `run` and of kiln_isolated_finish. */
KILN_MUST_USE kiln_status kiln_model_finish(kiln_model_call *call, kiln_db *db,
                                            kiln_mapping *out_result);
/* After kiln_model_start, in place of kiln_model_finish; a zeroed one is fine. */
void kiln_model_cancel(kiln_model_call *call);
/* Start and finish with the database at `db_path` opened in between; NULL: without one. */
KILN_MUST_USE kiln_status kiln_model_run(kiln_model_work *work, const char *db_path,
                                         kiln_arena *process, kiln_mapping *out_result);

/* Reads a model and runs work on it whose context is a copy of `options`, with their database.
 * Errors of kiln_model_read and kiln_model_run. */
KILN_MUST_USE kiln_status kiln_model_explain(const char *path, const kiln_stage_options *options,
                                             kiln_model_function explain, kiln_arena *process,
                                             kiln_mapping *out_result);

/* What a module says of its model and of the records that it is made from. Reads the model's file
 * (its errors); text in `process`. `dim`: options NAME=N, as given; NULL: none. `db_path` NULL: no
 * records. */
KILN_MUST_USE kiln_status kiln_model_provenance(const char *path, const kiln_opt_list *dim,
                                                const char *db_path, kiln_arena *process,
                                                kiln_pack_provenance *out_provenance);

/* ---- for `run` ---- */
/* The records of the command's database; `find` is NULL where there is none. */
kiln_pack_stored kiln_model_stored(const kiln_model_call *call);
/* kiln_pack_options.step, with the call as context: errors name it. */
KILN_MUST_USE kiln_status kiln_model_step(void *call, const char *name);
/* Shows the command bytes, the parts one after the other; what its `look` says to them. */
KILN_MUST_USE kiln_status kiln_model_show(const kiln_model_call *call,
                                          const kiln_isolated_result *what, kiln_arena *arena,
                                          kiln_str *out_answer);
/* One piece of bytes. */
kiln_isolated_result kiln_model_result(kiln_str bytes, kiln_arena *arena);

/* Tasks alone: a compilation without its graph. RESOURCE_EXHAUSTED: more than are tuned. */
KILN_MUST_USE kiln_status kiln_model_give_tasks(const kiln_compilation *compilation,
                                                kiln_arena *arena,
                                                kiln_isolated_result *out_result);

/* Runs work that gives tasks, and takes them. Errors of kiln_model_run. */
KILN_MUST_USE kiln_status kiln_model_take_tasks(kiln_model_work *work, kiln_arena *process,
                                                kiln_compilation **out_compilation);

#endif
