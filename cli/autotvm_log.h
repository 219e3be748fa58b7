/* AutoTVM's logs, version 0.2 (TVM from 0.7 on): a JSON object per line,
 *
 *     {"input": [TARGET, TEMPLATE, ARGUMENTS, {}],
 *      "config": {"index": N, "code_hash": ..., "entity": [[KNOB, KIND, VALUE], ...]},
 *      "result": [[SECONDS, ...], ERROR, ALL_SECONDS, TIMESTAMP], "version": 0.2, ...}
 *
 * A tensor among the arguments is ["TENSOR", SHAPE, TYPE]. A knob of kind "sp" has the sizes of a
 * split loop, the innermost last and -1 for one that follows from the others. */
#ifndef KILN_CLI_AUTOTVM_LOG_H
#define KILN_CLI_AUTOTVM_LOG_H

#include "compiler-core/core.h"

#define KILN_AUTOTVM_COSTS_MAX 64u

/* X(NAME, text): what a line is good for; the text follows a number of lines. */
#define KILN_AUTOTVM_USES(X)                                  \
    X(TAKEN, "can be used")                                   \
    X(FAILED, "failed there")                                 \
    X(NO_TEMPLATE, "of templates without a counterpart here") \
    X(NO_WORKLOAD, "of workloads without a counterpart here (types, layouts, groups)")

typedef enum kiln_autotvm_use {
#define X(NAME, text) KILN_AUTOTVM_##NAME,
    KILN_AUTOTVM_USES(X)
#undef X
        KILN_AUTOTVM_USE_COUNT
} kiln_autotvm_use;

typedef struct kiln_autotvm_line {
    kiln_autotvm_use use;
    kiln_foreign_work work; /* the rest: of a line that can be used */
    kiln_foreign_tile tile;
    uint32_t cost_count;
    double cost_ns[KILN_AUTOTVM_COSTS_MAX]; /* the first of them */
} kiln_autotvm_line;

/* INVALID_ARGUMENT: this is no such line, or no number in it can be true; says what and where in
 * the line. */
KILN_MUST_USE kiln_status kiln_autotvm_parse(kiln_str text, kiln_autotvm_line *out);

#endif
