/* Small edits of statement trees that several primitives share. Private to sched/. */
#ifndef KILN_COMPILER_CORE_SCHED_NEST_H
#define KILN_COMPILER_CORE_SCHED_NEST_H

#include "base/status.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/ir.h"

#define ILLEGAL(...) KILN_ERROR(ILLEGAL_SCHEDULE, __VA_ARGS__)
/* Arguments of "%.*s" for the names of things. */
#define LOOP_NAME(p, loop) KILN_STR_ARG((p)->var.data[(p)->stmt.data[loop].var].name)
#define BLOCK_NAME(p, b) KILN_STR_ARG((p)->block.data[b].name)
#define BUFFER_NAME(p, u) KILN_STR_ARG((p)->buffer.data[u].name)

/* ---- tree ---- */
/* Inserts detached `stmt` into `parent` (SEQ, FOR, IF) directly before or after its child `at`. */
void kiln_nest_insert(kiln_program *p, kiln_stmt parent, kiln_stmt at, bool after, kiln_stmt stmt);
/* Takes `stmt` out; emptied parents go, loops that disappear free their names. */
void kiln_nest_remove(kiln_program *p, kiln_stmt stmt);

/* ---- rewriting ---- */
/* Table of replacements for kiln_expr_substitute with room for every variable; zeroed, from the
 * program's arena. */
kiln_expr *kiln_nest_replacements(kiln_program *p);
/* Rewrites bindings and predicates of all blocks, and conditions, below `stmt`. */
void kiln_nest_substitute(kiln_program *p, kiln_stmt stmt, const kiln_expr *replacement);
/* predicate = predicate and condition, unless the condition is known to hold. */
void kiln_block_require(kiln_program *p, kiln_block block, kiln_expr condition);

/* ---- blocks ---- */
/* NULL when the block stands alone below the root, whole, in a loop for each of its iterators. */
KILN_MUST_USE kiln_status kiln_block_check_whole(kiln_program *p, kiln_block block);
/* Replaces the loops of the block, which is whole, by new loops of its iterators. */
void kiln_block_renew_nest(kiln_program *p, kiln_block block);
/* Builds loops for the iterators in `order` around a new statement of the block: loop "BLOCK.ITER"
 * of extent[i], and sets binding = base[i] + loop variable (base 0: none). Returns the detached
 * nest. */
kiln_stmt kiln_block_make_nest(kiln_program *p, kiln_block block, const int64_t *extent,
                               const kiln_expr *base);

#endif
