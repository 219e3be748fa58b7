/* Legality of schedules: whether a reader's region is written before it reads, and whether two
 * iterations of a loop can write the same element. All answers are safe: "no" may mean "not
 * proved". Private to sched/. */
#ifndef KILN_COMPILER_CORE_SCHED_DEPENDENCE_H
#define KILN_COMPILER_CORE_SCHED_DEPENDENCE_H

#include "base/status.h"
#include "compiler-core/ir/ir.h"

/* ---- dependence.c ---- */
/* NULL when `writer` has written every element of `buffer` that `reader` reads, earlier within the
 * same iteration of their common loops; else the reason. */
const char *kiln_dependence_broken(kiln_program *p, kiln_block writer, kiln_block reader,
                                   kiln_buffer buffer);
/* Checks all dependences of `block` as reader and as writer. ILLEGAL_SCHEDULE names the other block
 * and the reason. */
KILN_MUST_USE kiln_status kiln_dependences_check(kiln_program *p, kiln_block block);

/* ---- iterations.c ---- */
/* Whether the element that `block` writes determines the value of the loop's variable, given the
 * loops around it: then no two of its iterations touch the same element. */
bool kiln_element_determines(kiln_program *p, kiln_block block, kiln_stmt loop);
/* Checks that two different iterations of `loop` never write the same element of a buffer that
 * lives outside the loop, for all blocks below; lanes of a vectorized loop may if all are combined
 * into one. ILLEGAL_SCHEDULE names the block and the reason. */
KILN_MUST_USE kiln_status kiln_iterations_check(kiln_program *p, kiln_stmt loop);
/* The same for each concurrent loop of the program: moving a reader can move a buffer out of such a
 * loop. */
KILN_MUST_USE kiln_status kiln_iterations_check_all(kiln_program *p);

#endif
