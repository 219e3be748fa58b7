/* Tensor intrinsics: instructions that compute a small piece of a loop nest, declared by what they
 * compute (intrinsics.def). The schedule primitive `tensorize` marks the two innermost loops of a
 * nest that is such a piece; the mark is an attribute, so to interpreters and passes the loops are
 * what they were, and code generation emits the instruction in their place.
 *
 * Used by sched/ (legality, rules), cost/, lower/ (does the target have it) and codegen/. */
#ifndef KILN_COMPILER_CORE_IR_INTRINSIC_H
#define KILN_COMPILER_CORE_IR_INTRINSIC_H

#include "base/target.h"
#include "compiler-core/ir/ir.h"

typedef enum kiln_intrinsic_id {
#define X(id, ...) KILN_INTRINSIC_##id,
#include "compiler-core/ir/intrinsics.def"
#undef X
    KILN_INTRINSIC_COUNT
} kiln_intrinsic_id;

#define KILN_INTRINSIC_OPERANDS 2
#define KILN_INTRINSIC_STEPS_MAX 8 /* powers of two; of those in tiles, a word's */

/* One row of intrinsics.def. */
typedef struct kiln_intrinsic {
    const char *name;
    kiln_arch arch;
    const char *feature;
    uint32_t rows, lanes, steps;
    kiln_dtype operand[KILN_INTRINSIC_OPERANDS];
    const char *value;
    const char *instruction;
    uint32_t operand_bits;
    bool accumulates;
    uint32_t bias;
} kiln_intrinsic;

/* Type of what it sums up in: f32 for products of halves, else i32. */
kiln_dtype kiln_intrinsic_sum(const kiln_intrinsic *intrinsic);
/* Whether its operands are bytes that become 16 bits before it takes them. */
bool kiln_intrinsic_widens(const kiln_intrinsic *intrinsic);

/* Rows of a tile; an instruction of so many works on tiles: it takes fewer rows as well, and fewer
 * steps, in whole words. */
#define KILN_INTRINSIC_TILE_ROWS 16
static inline bool kiln_intrinsic_in_tiles(const kiln_intrinsic *intrinsic) {
    return intrinsic->rows == KILN_INTRINSIC_TILE_ROWS;
}
/* Of AMX, in cycles (Intel's optimization manual; no machine at hand measured it): one product of
 * whole tiles begins every 16 cycles and takes 52, a tile is loaded in 8. */
#define KILN_INTRINSIC_TILE_CYCLES 16.0
#define KILN_INTRINSIC_TILE_LATENCY 52.0
#define KILN_INTRINSIC_TILE_LOAD_CYCLES 8.0
/* Steps of one lane that lie behind one another where operands are packed. */
static inline uint32_t kiln_intrinsic_word(const kiln_intrinsic *intrinsic) {
    return kiln_intrinsic_in_tiles(intrinsic) ? intrinsic->steps / KILN_INTRINSIC_TILE_ROWS
                                              : intrinsic->steps;
}

extern const kiln_intrinsic kiln_intrinsics[KILN_INTRINSIC_COUNT]; /* Rows of intrinsics.def. */

const kiln_intrinsic *kiln_intrinsic_find(kiln_str name); /* NULL: none */
bool kiln_intrinsic_runs_on(const kiln_intrinsic *intrinsic, const kiln_target *target);
/* What it computes, as a tensor expression over the inputs a and b and the output c. In `arena`. */
kiln_program *kiln_intrinsic_program(const kiln_intrinsic *intrinsic, kiln_arena *arena);
/* Whether `value` of `p` is the expression that `meaning`, an intrinsic's program, sums up, with
 * loads in the places of a and b, which are given in that order. Factors may be swapped. */
bool kiln_intrinsic_matches(const kiln_program *meaning, const kiln_program *p, kiln_expr value,
                            kiln_expr out_load[KILN_INTRINSIC_OPERANDS]);
/* The intrinsic that the loop is marked with; NULL: none. */
const kiln_intrinsic *kiln_intrinsic_of_loop(const kiln_program *p, kiln_stmt loop);

#endif
