/* Checks of a whole program without its data, before it leaves the compiler and on the board.
 *
 * Tokens: queues between engines are first-in first-out and engines take instructions in order, so
 * whether a program ends does not depend on speeds (Kahn, 1974); one run decides it. Hazards: an
 * instruction happens before later ones of its engine, and before instructions that wait for its
 * token; two accesses to a tile, or to a byte of main memory, of which one writes, must be ordered
 * by this. Micro-ops and factors are followed, so accesses are exact. */
#ifndef KILN_VTA_CHECK_H
#define KILN_VTA_CHECK_H

#include "vta/program.h"

/* kiln_vta_program_check, then DEADLOCK, TOKENS_LEFT, FINISH_EARLY, HAZARD, ACC_DISTANCE (a GEMM
 * that uses an accumulator again less than `pipe` micro-ops behind), UNINITIALISED (tiles,
 * micro-ops and scratch), ACC_UNSTORED (a result of the ALU or GEMM that is reset or loaded over
 * and was never read). False with the first one. `uops` that the program loads must be its own
 * buffer's. */
bool kiln_vta_check(const kiln_vta_program *program, kiln_vta_fault *out_fault);

/* Redundant tokens: pairs of a push and its pop without which the program still passes the check.
 * Returns their number, and up to `most` pushing instructions. The program must pass the check.
 * Costs a check for each pair. */
uint32_t kiln_vta_redundant_tokens(const kiln_vta_program *program, uint32_t *out_instruction,
                                   uint32_t most);

#endif
