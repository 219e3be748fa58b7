/* Inserts the waits between calls of an accelerator core, from which its tokens follow. For
 * vta_emit.c.
 *
 * In the order of the program every call finds what calls before it have written, and nothing that
 * it still needs is overwritten. Engines run at once, so where two calls of different engines meet
 * in a tile of the core, or in a buffer of main memory, and one of them writes, the second one
 * waits for the first, unless earlier waits of its engine imply it. The token is pushed directly
 * behind the first call, and passes every engine between the two.
 * Tiles are followed one by one, so engines run apart wherever virtual threads or stages have tiles
 * of their own. Waits stand in the order of the program: no order that engines take can deadlock.
 */
#ifndef KILN_COMPILER_CORE_CODEGEN_VTA_ORDER_H
#define KILN_COMPILER_CORE_CODEGEN_VTA_ORDER_H

#include "compiler-core/codegen/vta_calls.h"

typedef enum kiln_vta_step_kind {
    KILN_VTA_STEP_WAIT,   /* `engine` waits for `other` */
    KILN_VTA_STEP_CALL,   /* `engine` does `call` */
    KILN_VTA_STEP_SIGNAL, /* `engine` signals `other` that its earlier steps are done */
} kiln_vta_step_kind;

typedef struct kiln_vta_step {
    kiln_vta_step_kind kind;
    kiln_vta_engine engine, other;
    uint32_t call;
} kiln_vta_step;

typedef struct kiln_vta_steps {
    KILN_VEC(kiln_vta_step) step;
} kiln_vta_steps;

/* The calls in their order, with waits and signals between them; in `arena`. Where an engine passes
 * a token on, a piece of its next call becomes a call of its own, behind the others in `calls`. */
void kiln_vta_order(kiln_vta_calls *calls, kiln_arena *arena, kiln_vta_steps *out_steps);
#endif
