/* Cuts the first and the last calls of a program for an accelerator core into pieces, so that its
 * engines begin, and end, soon after one another. For vta_emit.c, before vta_order.h.
 *
 * In the middle of a program GEMMs run while other operands are loaded, and results are processed
 * and stored. At the ends there is no such overlap: the first GEMM waits for all of its operands,
 * and the last store for all results. */
#ifndef KILN_COMPILER_CORE_CODEGEN_VTA_ENDS_H
#define KILN_COMPILER_CORE_CODEGEN_VTA_ENDS_H

#include "compiler-core/codegen/vta_calls.h"

/* Cuts the first GEMM and the load of one of its operands: a piece is multiplied while the next one
 * is loaded. All stays where no loop of the GEMM goes through one operand alone. */
void kiln_vta_cut_begin(kiln_vta_calls *calls, kiln_arena *arena);
/* Cuts the last store and the operations of the ALU in front of it: a piece is stored while the
 * next one is in the ALU. All stays where they do not go through the same accumulators in the same
 * order. Their GEMM stays whole: an ALU that is an engine waits where GEMM works (vta/csim.h). */
void kiln_vta_cut_end(kiln_vta_calls *calls, kiln_arena *arena);

#endif
