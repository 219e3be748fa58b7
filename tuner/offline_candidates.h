/* Candidates of a model's tasks for boards that no tracker reaches: proposed, built and checked as
 * those of a tuner are, with the records of earlier measurements as all that is known. Used by
 * `kiln batch`. */
#ifndef KILN_TUNER_OFFLINE_CANDIDATES_H
#define KILN_TUNER_OFFLINE_CANDIDATES_H

#include "compiler-core/core.h"
#include "db/db.h"
#include "proto/proto.h"
#include "tuner/search/searcher.h"

typedef struct kiln_offline_candidates_options {
    const kiln_compilation *compilation;
    const kiln_target *target;
    kiln_accuracy accuracy;
    kiln_searcher_kind searcher;
    uint64_t seed;       /* of the searchers, and of the inputs */
    uint32_t candidates; /* of each task, at most */
    const char *tasks;   /* part of a key or of operators; NULL: all tasks */
    kiln_db *db;         /* whose records are known: not drawn again, and learnt from; NULL: none */
    const char *program; /* path of kiln-tuner, for workers */
    uint32_t builder_count;
} kiln_offline_candidates_options;

/* All required; in the order of the tasks, of each its reference first. An error ends the call.
 */
typedef struct kiln_offline_candidates_sink {
    kiln_status (*reference)(void *context, const kiln_task *task, kiln_str reference);
    /* `record`: what the candidate's record has before it is measured; its outcome and detail say
     * why there is no `artefact` (empty). */
    kiln_status (*candidate)(void *context, const kiln_task *task, const kiln_db_record *record,
                             kiln_str artefact);
    /* Nothing of the task can be measured. */
    void (*refused)(void *context, const kiln_task *task, const char *why);
    void *context;
} kiln_offline_candidates_sink;

/* Errors of the sink and of the database. NOT_FOUND: no task matches. */
KILN_MUST_USE kiln_status kiln_offline_candidates_make(
    const kiln_offline_candidates_options *options, const kiln_offline_candidates_sink *sink);

#endif
