/* Recorded trials of one task, from which searchers are compared without hardware. A log is text,
 * small because traces share their sketches:
 *
 *     kiln replay log 1
 *     op conv
 *     key v1:4841a332bebdca01c97dedf145095191
 *     target cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3,cores=2
 *     codegen 3/llvm-19.1.7
 *     program 5             as many lines of program text follow
 *     ...
 *     sketch 44             as many lines of trace text with open decisions follow
 *     ...
 *     trials 1080           the first is the default schedule
 *     ok 2431733 0 3 5 1,7 2    outcome, median ns of one run, sketch, then each sampler's decision
 */
#ifndef KILN_TESTS_REPLAY_LOG_H
#define KILN_TESTS_REPLAY_LOG_H

#include "base/outcome.h"
#include "compiler-core/core.h"
#include "db/db.h"

#define KILN_REPLAY_SKETCHES_MAX 64u
#define KILN_REPLAY_TRIALS_MAX 100000u

typedef struct kiln_replay_trial {
    kiln_outcome outcome;
    double median_ns; /* 0 unless ok */
    uint32_t sketch;
    kiln_trace trace; /* closed */
} kiln_replay_trial;

typedef struct kiln_replay_log {
    kiln_str op, key, target, codegen, program;
    uint32_t sketch_count, trial_count;
    kiln_trace *sketch; /* open */
    kiln_replay_trial *trial;
} kiln_replay_log;

/* The records of the task in a database whose outcome the candidate answers for, each trace once;
 * the default schedule first. NOT_FOUND: the task or its default schedule has no record. Any other
 * error is the database's. */
KILN_MUST_USE kiln_status kiln_replay_log_read(kiln_db *db, kiln_str task_key, kiln_arena *arena,
                                               kiln_replay_log *out_log);
void kiln_replay_log_print(const kiln_replay_log *log, kiln_strbuf *out);
/* INVALID_ARGUMENT naming the line. Views point into `text`. */
KILN_MUST_USE kiln_status kiln_replay_log_parse(kiln_str text, kiln_arena *arena,
                                                kiln_replay_log *out_log);

#endif
