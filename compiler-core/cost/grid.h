/* Common to candidates for devices with groups of threads: which loops are groups and threads, and
 * which memory holds a buffer. Private to cost/. */
#ifndef KILN_COMPILER_CORE_COST_GRID_H
#define KILN_COMPILER_CORE_COST_GRID_H

#include "compiler-core/facts/facts.h"
#include "compiler-core/ir/device.h"

/* The memory that holds a buffer; agrees with lowering for temps of the device that stay inside one
 * group or thread. */
kiln_seen_by kiln_grid_seen_by(const kiln_facts *facts, kiln_buffer buffer);

/* The loops around a statement. */
typedef struct kiln_grid_loops {
    double groups, threads;
    double rounds; /* iterations of the other loops of a group; virtual threads multiply them */
} kiln_grid_loops;
kiln_grid_loops kiln_grid_loops_of(const kiln_facts *facts, const kiln_facts_statement *s);
/* Whether the access's indices depend on the loop's variable. */
bool kiln_grid_moves(const kiln_facts_access *a, kiln_var var);
/* Iterations of the virtual threads outside of `level` that touch memory of their own, or (false)
 * the same. */
double kiln_grid_virtual_threads(const kiln_facts *facts, const kiln_facts_statement *s,
                                 const kiln_facts_access *a, uint32_t level, bool own);

/* Groups of a cluster for which the access is the same. */
double kiln_grid_sharers(const kiln_facts *facts, const kiln_facts_statement *s,
                         const kiln_facts_access *a);
/* Whether a loop around the statement has the attribute. */
bool kiln_grid_has(const kiln_facts *facts, const kiln_facts_statement *s, kiln_attribute_id id);

#endif
