/* A partitioned boolean quadratic problem: every node takes one of its choices, so that the
 * sum of the choices' own costs and of what each edge charges for the pair at its ends is
 * least. Layouts of a network are one (assign.h): nodes are kernels, edges are values between them.
 *
 * Nodes of degree 0, 1 and 2 are taken out without loss (R0, R1, R2), which is all there is to do
 * on chains, trees and whatever is nested series and parallel. What remains gets the choice
 * that looks best beside its neighbours (RN), the node with most neighbours first; only then may
 * the answer be short of the optimum. Source: Scholz and Eckstein, "Register allocation for
 * irregular architectures" (LCTES'02). */
#ifndef KILN_COMPILER_CORE_LAYOUT_PBQP_H
#define KILN_COMPILER_CORE_LAYOUT_PBQP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct kiln_pbqp kiln_pbqp;

/* Empty; everything lives in `arena`. */
kiln_pbqp *kiln_pbqp_create(kiln_arena *arena);
/* Adds a node with `count` >= 1 choices; cost: [count], copied. Returns its number, from 0 on.
 */
uint32_t kiln_pbqp_add_node(kiln_pbqp *problem, uint32_t count, const double *cost);
/* Charges cost[i * (choices of b) + j] when `a` takes i and `b` takes j; copied. Edges between
 * the same two nodes add up. `a` and `b` differ. */
void kiln_pbqp_add_edge(kiln_pbqp *problem, uint32_t a, uint32_t b, const double *cost);
/* Solves, and uses the problem up. out_choice: [nodes]; of equal answers always the same one.
 * Returns whether no choice was made by RN: then the answer is optimal. Cost: O(nodes x
 * choices^3). */
bool kiln_pbqp_solve(kiln_pbqp *problem, uint32_t *out_choice);

#endif
