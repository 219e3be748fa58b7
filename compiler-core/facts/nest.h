/* Queries on statement trees: the loops around a statement, the order of statements.
 *
 * Used by schedule primitives, rules, lowering and features. Nothing here changes a program;
 * answers hold until the tree changes. */
#ifndef KILN_COMPILER_CORE_FACTS_NEST_H
#define KILN_COMPILER_CORE_FACTS_NEST_H

#include "compiler-core/ir/ir.h"

typedef struct kiln_loops {
    uint32_t count;
    kiln_stmt *loop; /* [count] FOR statements, outermost first; in the program's arena */
} kiln_loops;

/* The loops around `stmt`, itself not included. */
kiln_loops kiln_nest_loops(const kiln_program *p, kiln_stmt stmt);
/* The loops around the block's place; none when it is placed nowhere. */
kiln_loops kiln_block_loops(const kiln_program *p, kiln_block block);
/* The loop that steps iterator `iter` through its whole range and nothing else; 0: it was split,
 * fused or shrunk. */
kiln_stmt kiln_block_own_loop(const kiln_program *p, kiln_block block, uint32_t iter);

/* Lowest statement that contains both. */
kiln_stmt kiln_nest_common(const kiln_program *p, kiln_stmt a, kiln_stmt b);
/* Whether `a` runs before `b` within each iteration of their common loops; false when one contains
 * the other. */
bool kiln_nest_before(const kiln_program *p, kiln_stmt a, kiln_stmt b);
/* The child of `ancestor` on the way to `stmt`. */
kiln_stmt kiln_nest_child_towards(const kiln_program *p, kiln_stmt ancestor, kiln_stmt stmt);
/* Position of `child` among its parent's children. */
uint32_t kiln_nest_position(const kiln_program *p, kiln_stmt parent, kiln_stmt child);
/* The loop's only child seen through one-child sequences; 0 when there are several. */
kiln_stmt kiln_nest_only_child(const kiln_program *p, kiln_stmt stmt);

typedef void (*kiln_block_visitor)(kiln_program *p, kiln_block block, void *context);
/* Calls `visit` for each block at and below `stmt`, in the order of the tree. */
void kiln_nest_visit_blocks(kiln_program *p, kiln_stmt stmt, kiln_block_visitor visit,
                            void *context);

/* Blocks placed at and below `stmt`. */
uint32_t kiln_nest_block_count(const kiln_program *p, kiln_stmt stmt);

/* The home of a temp is the smallest statement around all its accesses; lowering allocates it
 * there. Adds one access to `home`, which is that of the accesses so far, 0 before the first. */
kiln_stmt kiln_home_add(const kiln_program *p, kiln_stmt home, kiln_stmt access);
/* Moves a home out of vectorized loops: lanes run at once, so each needs its own element. */
kiln_stmt kiln_home_outside_vectors(const kiln_program *p, kiln_stmt home);

/* Position of the iterator with this variable, or -1. */
int kiln_block_iter_of(const kiln_program *p, kiln_block block, kiln_expr var_expr);
/* Position of the iterator of that name, or -1. */
int kiln_block_find_iter(const kiln_program *p, kiln_block block, kiln_str name);
/* Kinds of iterators whose binding uses the variable. */
typedef struct kiln_reach {
    bool spatial, reduce;
} kiln_reach;
/* The kinds of iterators whose binding uses the variable. */
kiln_reach kiln_block_reach(const kiln_program *p, kiln_block block, kiln_var var);

#endif
