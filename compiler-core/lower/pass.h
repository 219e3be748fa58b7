/* Private to lower/: shared by the passes. */
#ifndef KILN_COMPILER_CORE_LOWER_PASS_H
#define KILN_COMPILER_CORE_LOWER_PASS_H

#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/lower/lower.h"

/* The state of lowering. Before split_prepare everything is in `run`. */
typedef struct kiln_lowering {
    const kiln_target *target;
    kiln_arena *arena;
    kiln_program *run, *prepare; /* prepare: NULL when there is none */
    kiln_lower_list list;
    uint32_t registers;
} kiln_lowering;

typedef kiln_status (*kiln_lower_pass)(kiln_lowering *l);

#define X(name, function, lists) KILN_MUST_USE kiln_status function(kiln_lowering *l);
#include "compiler-core/lower/lower.def"
#undef X

/* ---- rewrite.c: walks that passes build on --------------------------------------------------- */

/* Applies `rewrite` to every expression of the tree: conditions, indices, values. */
typedef kiln_expr (*kiln_lower_rewriter)(kiln_program *p, kiln_expr e, void *context);
void kiln_lower_rewrite(kiln_program *p, kiln_stmt stmt, kiln_lower_rewriter rewrite,
                        void *context);
/* Replaces `from` by `to` in all of them. */
void kiln_lower_replace(kiln_program *p, kiln_stmt stmt, kiln_expr from, kiln_expr to);
/* Simplifies the tree below `stmt`, given the ranges of variables (`range`: [var count], or NULL
 * for their own): expressions, decided ifs, loops that run once or never, sequences of one. `stmt`
 * may be replaced or vanish. */
void kiln_lower_simplify_below(kiln_program *p, kiln_stmt stmt, const kiln_interval *range);
/* A copy of the tree with loops over new variables; `*var` (a free variable, or NULL) is replaced
 * by `with`. */
kiln_stmt kiln_lower_copy(kiln_program *p, kiln_stmt stmt, const kiln_var *var, kiln_expr with);
/* Puts a detached statement directly before `stmt`. */
void kiln_lower_put_before(kiln_program *p, kiln_stmt stmt, kiln_stmt added);
/* Replaces `buffer`, in all accesses of the tree, by a temp with an additional first dimension of
 * `extent` that is indexed by `at`. Returns it; 0: there is no room for a dimension. */
kiln_buffer kiln_lower_expand(kiln_program *p, kiln_stmt tree, kiln_buffer buffer, int64_t extent,
                              kiln_expr at);
/* Stores that the emitter will make of the tree: copies by unrolling counted. */
uint64_t kiln_lower_size(const kiln_program *p, kiln_stmt stmt);
/* Calls `visit` for every load from `buffer` (0: any) in the statement's own expressions (not its
 * children's). */
typedef void (*kiln_lower_load_visitor)(kiln_program *p, kiln_stmt stmt, kiln_expr load,
                                        void *context);
void kiln_lower_visit_loads(kiln_program *p, kiln_stmt stmt, kiln_buffer buffer,
                            kiln_lower_load_visitor visit, void *context);
/* Whether the expression has a load. */
bool kiln_lower_reads(const kiln_program *p, kiln_expr e);
/* Innermost loop over `var` around `stmt`; 0 when there is none. */
kiln_stmt kiln_lower_loop_of(const kiln_program *p, kiln_stmt stmt, kiln_var var);

/* ---- launches.c, barriers.c: programs of launches -------------------------------------------- */

/* [buffer count]: the smallest statement around all accesses to each buffer in the tree; 0: none.
 */
kiln_stmt *kiln_lower_homes(kiln_program *p, kiln_stmt stmt);
/* Bytes that the buffer takes in memory. */
uint64_t kiln_lower_bytes(const kiln_program *p, kiln_buffer buffer);
/* Whether a loop bound on that level stands in the tree. */
bool kiln_lower_has_level(const kiln_program *p, kiln_stmt stmt, kiln_axis_level level);
/* The body of each group of the launch: the statement inside its grid loops. */
kiln_stmt kiln_lower_group(const kiln_program *p, kiln_stmt launch);
/* Calls `visit` for every thread nest below `group`, and for every largest statement without one,
 * in order. The visitor may put another statement in its place. ILLEGAL_SCHEDULE: a condition
 * around nests depends on data, so it may differ between threads. */
typedef void (*kiln_lower_nest_visitor)(kiln_program *p, kiln_stmt nest, void *context);
KILN_MUST_USE kiln_status kiln_lower_visit_nests(kiln_program *p, kiln_stmt group,
                                                 kiln_lower_nest_visitor visit, void *context);

/* ---- place.c --------------------------------------------------------------------------------- */

/* Shrinks a temp to the region that one execution of the tree, which contains all its accesses,
 * touches. */
void kiln_lower_compact(kiln_program *p, kiln_buffer buffer, kiln_stmt tree);

/* ---- owner.c --------------------------------------------------------------------------------- */

/* An owner of elements: a thread's number on one axis, or the iteration of a loop. Only the first
 * `extent` values of the variable are active. */
typedef struct kiln_owner {
    kiln_var var;
    int64_t extent;
} kiln_owner;
/* Whether each element of the temp that the tree touches belongs to one value of each owner: its
 * index determines them, in the same way at every access. `home` contains all accesses; loops
 * inside of it may have any value. */
bool kiln_lower_tells(kiln_program *p, kiln_stmt tree, kiln_buffer buffer, kiln_stmt home,
                      const kiln_owner *owner, uint32_t owner_count);
/* Whether each element of the buffer is touched by only one thread of a group, in all nests below
 * `group`. */
bool kiln_lower_is_owned(kiln_program *p, kiln_stmt group, kiln_buffer buffer);

/* Most stores (copies counted) in one program; about 100 times a good kernel. */
#define KILN_LOWER_SIZE_MAX 16384u
/* Most stores in an unrolled loop nest; above, the outer loops of the nest become serial. */
#define KILN_LOWER_UNROLL_MAX 1024u
/* Most loops around a statement that are not unrolled; the limit of code generation. */
#define KILN_LOWER_DEPTH_MAX 60u

#endif
