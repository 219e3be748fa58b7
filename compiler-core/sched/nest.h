/* Questions about statement trees and small edits that several primitives share. Private to sched/.
 */
#ifndef KILN_COMPILER_CORE_SCHED_NEST_H
#define KILN_COMPILER_CORE_SCHED_NEST_H

#include "base/status.h"
#include "compiler-core/ir/ir.h"

#define KILN_LOOPS_MAX (KILN_BLOCK_ITERS_MAX * 4)
#define KILN_LOADS_MAX 64

#define ILLEGAL(...) KILN_ERROR(ILLEGAL_SCHEDULE, __VA_ARGS__)
/* Arguments of "%.*s" for the names of things. */
#define LOOP_NAME(p, loop) KILN_STR_ARG((p)->var.data[(p)->stmt.data[loop].var].name)
#define BLOCK_NAME(p, b) KILN_STR_ARG((p)->block.data[b].name)
#define BUFFER_NAME(p, u) KILN_STR_ARG((p)->buffer.data[u].name)

/* ---- tree ---- */
/* Loops from the outermost down to `stmt` (itself not included): out [KILN_LOOPS_MAX]. */
uint32_t kiln_nest_loops(const kiln_program *p, kiln_stmt stmt, kiln_stmt *out);
/* Lowest statement that contains both. */
kiln_stmt kiln_nest_common(const kiln_program *p, kiln_stmt a, kiln_stmt b);
/* Whether `a` runs before `b` within each iteration of their common loops; false when one contains
 * the other. */
bool kiln_nest_before(const kiln_program *p, kiln_stmt a, kiln_stmt b);
/* The child of `ancestor` on the way to `stmt`. */
kiln_stmt kiln_nest_child_towards(const kiln_program *p, kiln_stmt ancestor, kiln_stmt stmt);
/* The loop's only child seen through one-child sequences; 0 when there are several. */
kiln_stmt kiln_nest_only_child(const kiln_program *p, kiln_stmt stmt);
/* Inserts detached `stmt` into `parent` (SEQ, FOR, IF) directly before or after its child `at`. */
void kiln_nest_insert(kiln_program *p, kiln_stmt parent, kiln_stmt at, bool after, kiln_stmt stmt);
/* Takes `stmt` out; emptied parents go, loops that disappear free their names. */
void kiln_nest_remove(kiln_program *p, kiln_stmt stmt);

typedef void (*kiln_block_visitor)(kiln_program *p, kiln_block block, void *context);
void kiln_nest_visit_blocks(kiln_program *p, kiln_stmt stmt, kiln_block_visitor visit,
                            void *context);

/* ---- rewriting ---- */
/* Table of replacements for kiln_expr_substitute with room for every variable; zeroed, from the
 * program's arena. */
kiln_expr *kiln_nest_replacements(kiln_program *p);
/* Rewrites bindings and predicates of all blocks, and conditions, below `stmt`. */
void kiln_nest_substitute(kiln_program *p, kiln_stmt stmt, const kiln_expr *replacement);
/* predicate = predicate and condition, unless the condition is known to hold. */
void kiln_block_require(kiln_program *p, kiln_block block, kiln_expr condition);

/* ---- blocks ---- */
/* Distinct loads of value and init: out [KILN_LOADS_MAX]; further ones are left out and counted. */
uint32_t kiln_block_loads(kiln_program *p, kiln_block block, kiln_expr *out);
bool kiln_block_reads(kiln_program *p, kiln_block block, kiln_buffer buffer);
/* Blocks that read `buffer`, in table order: out [count of blocks]. */
uint32_t kiln_buffer_readers(kiln_program *p, kiln_buffer buffer, kiln_block *out);
/* Position of the iterator with this variable, or -1. */
int kiln_block_iter_of(const kiln_program *p, kiln_block block, kiln_expr var_expr);
/* Position of the iterator of that name, or -1. */
int kiln_block_find_iter(const kiln_program *p, kiln_block block, kiln_str name);
/* The loop that steps iterator `iter` through its whole range and nothing else; 0: it was split,
 * fused or shrunk. */
kiln_stmt kiln_block_own_loop(const kiln_program *p, kiln_block block, uint32_t iter);
/* Kinds of iterators whose binding uses the variable. */
typedef struct kiln_reach {
    bool spatial, reduce;
} kiln_reach;
kiln_reach kiln_block_reach(const kiln_program *p, kiln_block block, kiln_var var);
/* Builds loops for the iterators in `order` around a new statement of the block: loop "BLOCK.ITER"
 * of extent[i], and sets binding = base[i] + loop variable (base 0: none). Returns the detached
 * nest. */
kiln_stmt kiln_block_make_nest(kiln_program *p, kiln_block block, const int64_t *extent,
                               const kiln_expr *base);

#endif
