/* The compile service: a model, settings and targets in, a module for each target out. Each target
 * is a part of its own, named by the SHA-256 of the model's digest, the target, all settings and
 * the version of Kiln: the same question has the same answer, at once. Questions that are equal and
 * come at the same time share the work. Workers do it (web/workers.h); with a budget they tune on
 * the fleet as the person, so that the tracker applies rights and quotas.
 *
 * compile.c        parts, questions, and what runs
 * compile_store.c  modules on the disk
 * compile_ask.c    reads what is asked
 * compile_routes.c answers, and calls that wait
 *
 * Everything runs on the loop's thread. */
#ifndef KILN_WEB_COMPILE_H
#define KILN_WEB_COMPILE_H

#include "web/uploads.h"
#include "web/workers.h"

#define KILN_COMPILE_TARGETS_MAX 16u
#define KILN_COMPILE_DIMS_MAX 16u
#define KILN_COMPILE_OPEN_OF_PERSON_MAX 256u /* parts that wait or run */
#define KILN_COMPILE_QUESTIONS_MAX                                 \
    4096u /* remembered; then those that ended first are forgotten \
           */
#define KILN_COMPILE_STORE_BYTES (UINT64_C(8) << 30)

typedef struct kiln_compile_options {
    kiln_loop *loop;
    kiln_workers *workers;
    const char *state_folder, *db;
    const char *tracker, *key_file; /* as the command line has them; NULL: none given */
    bool insecure;
} kiln_compile_options;

/* Reads what was compiled before. Errors of files. */
KILN_MUST_USE kiln_status kiln_compile_create(const kiln_compile_options *options,
                                              kiln_compile **out_compile);
/* Nothing is told any more. After the workers are destroyed, before the uploads. NULL is fine. */
void kiln_compile_close(kiln_compile *compile);
/* After the loop is destroyed. NULL is fine. */
void kiln_compile_destroy(kiln_compile *compile);

/* What is asked. Texts are copied. */
typedef struct kiln_compile_ask {
    const char *person;
    kiln_model_file *model;
    kiln_digest digest;
    const char *target[KILN_COMPILE_TARGETS_MAX]; /* canonical */
    uint32_t target_count;
    const char *dim[KILN_COMPILE_DIMS_MAX]; /* "NAME=N" */
    uint32_t dim_count;
    const char *precision, *accuracy, *project; /* "": the default */
    const char *name;                           /* of the model, for people; "": none */
    bool exact;
    uint64_t trials; /* with seconds: both 0: nothing is measured */
    uint64_t seconds;
} kiln_compile_ask;

typedef enum kiln_part_state {
    KILN_PART_WAITING,
    KILN_PART_RUNNING,
    KILN_PART_DONE,
    KILN_PART_FAILED,
    KILN_PART_CANCELLED,
} kiln_part_state;

/* A model for a target. */
typedef struct kiln_part {
    struct kiln_part *next;
    kiln_compile *compile;
    char key[KILN_DIGEST_TEXT];
    char *target;
    kiln_part_state state;
    uint32_t questions, askers; /* that name it; that still want it */
    uint64_t used_s;
    /* While it waits and runs. */
    kiln_worker *worker;
    kiln_model_file *model;
    json_t *progress; /* of the last event */
    /* Of its end. */
    char job[128];
    kiln_digest module;
    uint64_t bytes;
    json_t *report; /* what the worker said of the module */
    kiln_code code;
    char *error;
} kiln_part;

/* What one person asked. */
typedef struct kiln_compile_question {
    struct kiln_compile_question *next;
    char id[KILN_DIGEST_TEXT];
    char person[KILN_PERSON_MAX + 1];
    kiln_part *part[KILN_COMPILE_TARGETS_MAX];
    uint32_t part_count;
    bool is_cancelled;
} kiln_compile_question;

/* The question, which may have its answer already. RESOURCE_EXHAUSTED: too much of the person's
 * work waits. */
KILN_MUST_USE kiln_status kiln_compile_begin(kiln_compile *compile, const kiln_compile_ask *ask,
                                             kiln_compile_question **out_question);
/* NULL: the person has asked no such question lately. */
kiln_compile_question *kiln_compile_find(kiln_compile *compile, const char *person, kiln_str id);
bool kiln_compile_has_ended(const kiln_compile_question *question);
/* The person no longer wants it. Work that others want goes on. */
void kiln_compile_cancel(kiln_compile_question *question);
/* `changed` is called whenever a part has ended. */
void kiln_compile_on_change(kiln_compile *compile, void (*changed)(void *context), void *context);

/* Adds the settings of `kiln tune` on the fleet, as the person: budget, project, and the tracker.
 * Their values are in `arena` or belong to `ask`. */
void kiln_compile_set_job(const kiln_compile *compile, const kiln_compile_ask *ask,
                          kiln_worker_settings *settings, kiln_arena *arena);

/* Path of a module's file in `arena`; NULL: there is none that `person` (NULL: anybody) asked for.
 */
const char *kiln_compile_module(kiln_compile *compile, const char *person,
                                const kiln_digest *digest, kiln_arena *arena);

/* The module that the call's parameter `digest` names; NULL: it was answered. */
const char *kiln_compile_module_of(kiln_call *call);
/* Answers with a question's state: now, or when it has ended, for at most the call's parameter
 * `wait` in seconds. */
void kiln_compile_answer(kiln_call *call, const kiln_compile_question *question);
/* Calls that wait for an end (web/compile_routes.c). Destroy it before the loop; NULL is fine. */
kiln_compile_waits *kiln_compile_waits_create(kiln_web *web);
void kiln_compile_waits_destroy(kiln_compile_waits *waits);

/* ---- web/compile_store.c ---- */

/* Path of a file in the folder of modules, in `arena`: NAME + ending. */
const char *kiln_store_path(const kiln_compile *compile, const char *name, const char *ending,
                            kiln_arena *arena);
/* On the pool: gives the worker's output its place, and writes what is known of it beside it. */
KILN_MUST_USE kiln_status kiln_store_put(const char *folder, kiln_part *part);
/* A part for each module that is there, the most recently used first. */
KILN_MUST_USE kiln_status kiln_store_read(kiln_compile *compile, const char *folder);
void kiln_store_remove(const kiln_compile *compile, const kiln_part *part, bool with_module);

/* A part that is in no question yet. */
kiln_part *kiln_part_create(kiln_compile *compile, const char *key, kiln_str target);

#endif
