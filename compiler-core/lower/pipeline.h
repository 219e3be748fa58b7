/* Private to lower/: shared by pipelines whose threads fetch their own data (pipeline.c) and
 * pipelines with a producer (producer.c). */
#ifndef KILN_COMPILER_CORE_LOWER_PIPELINE_H
#define KILN_COMPILER_CORE_LOWER_PIPELINE_H

#include "base/status.h"
#include "compiler-core/ir/ir.h"

/* A loop whose iterations fetch, taken apart. */
typedef struct kiln_pipelining {
    kiln_program *p;
    kiln_stmt loop;
    bool *made;   /* [buffer count] stored to in the loop */
    bool *staged; /* [buffer count] shared temps of one iteration that a fetch fills */
    KILN_VEC(kiln_stmt) fetch;
    KILN_VEC(kiln_stmt) work;
} kiln_pipelining;

/* ---- pipeline.c ------------------------------------------------------------------------------ */

/* The loop's variable, counted from 0. */
kiln_expr kiln_pipeline_number(kiln_program *p, kiln_stmt loop);
/* Gives staged temps a dimension of `slots`, which iteration `number` indexes modulo their count.
 * ILLEGAL_SCHEDULE: one has no dimension left. */
KILN_MUST_USE kiln_status kiln_pipeline_expand(kiln_pipelining *l, int64_t slots, kiln_expr number);
/* Marks the stores below that may become copies of the token, and counts them. */
uint32_t kiln_pipeline_mark_copies(kiln_program *p, kiln_stmt stmt, uint8_t token);
/* Appends copies of the statements, with `with` in place of the variable. */
void kiln_pipeline_append(kiln_program *p, kiln_stmt to, const kiln_stmt *part, uint32_t count,
                          kiln_var var, kiln_expr with);

/* ---- producer.c ------------------------------------------------------------------------------ */

/* Replaces the loop by one whose fetches are done by extra threads, at most `stages` iterations
 * ahead. ILLEGAL_SCHEDULE: not possible; names the loop and the reason. */
KILN_MUST_USE kiln_status kiln_pipeline_by_producer(kiln_pipelining *l, int64_t stages);

#endif
