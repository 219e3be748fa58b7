/* Which nests depend on constants alone: packing of weights, folded scales. They run once, before
 * anything is measured. Used by lowering, which makes a program of them, and by the facts of a
 * program. */
#ifndef KILN_COMPILER_CORE_FACTS_PREPARE_H
#define KILN_COMPILER_CORE_FACTS_PREPARE_H

#include "compiler-core/ir/ir.h"

typedef struct kiln_nests {
    uint32_t count;
    kiln_stmt *nest; /* [count] the root's children; the root itself when it is no sequence */
    bool *prepare;   /* [count] depends on constants alone */
    bool *constant;  /* [buffer count] a CONSTANT, or written by such nests alone */
} kiln_nests;

/* The largest set of nests that read only constants and results of nests of the set. All loads of a
 * nest count: in values, initial values, predicates and bindings. All in `arena`; holds until the
 * program changes. */
kiln_nests kiln_nests_of(const kiln_program *p, kiln_arena *arena);

#endif
