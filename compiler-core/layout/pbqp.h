/* A partitioned boolean quadratic problem: every node takes one of its choices, so that the sum of
 * the choices' own costs and of each edge's cost for the pair of choices at its ends is least. The
 * layouts of a network are such a problem (assign.h): nodes are kernels, edges are values between
 * them.
 *
 * Nodes of degree 0, 1 and 2 are eliminated exactly (R0, R1, R2), which solves chains, trees and
 * series-parallel graphs. The remaining nodes get the choice that is cheapest with their neighbours
 * (RN), the node with most neighbours first; only then may the answer not be optimal. Source:
 * Scholz and Eckstein, "Register allocation for irregular architectures" (LCTES'02). */
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
/* Adds the cost cost[i * (choices of b) + j] when `a` takes i and `b` takes j; copied. Edges
 * between the same two nodes add up. `a` and `b` differ. */
void kiln_pbqp_add_edge(kiln_pbqp *problem, uint32_t a, uint32_t b, const double *cost);
/* Solves the problem and destroys its contents. out_choice: [nodes]; deterministic among equal
 * answers. Returns true if RN made no choice: then the answer is optimal. Cost: O(nodes x
 * choices^3). */
bool kiln_pbqp_solve(kiln_pbqp *problem, uint32_t *out_choice);

#endif
