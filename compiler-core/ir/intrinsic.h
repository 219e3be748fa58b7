/* Tensor intrinsics: instructions that compute a small loop nest, declared by their tensor
 * expression (intrinsics.def). The schedule primitive `tensorize` marks the two innermost loops of
 * a matching nest; the mark is an attribute, so interpreters and passes see ordinary loops, and
 * code generation emits the instruction in their place.
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
#define KILN_INTRINSIC_STEPS_MAX 16 /* powers of two; for instructions on tiles, of a word */

typedef enum kiln_intrinsic_owner {
    KILN_INTRINSIC_LANES, /* a vector in one thread */
    KILN_INTRINSIC_TILE,  /* tiles of a matrix unit */
    KILN_INTRINSIC_WARP,  /* all threads of a warp */
    KILN_INTRINSIC_GROUP, /* all threads of four warps */
    KILN_INTRINSIC_CORE,  /* an accelerator core; rows, lanes and steps are 0: the target's */
} kiln_intrinsic_owner;

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
    kiln_intrinsic_owner owner;
    uint32_t capability; /* of CUDA, with owners WARP and GROUP */
} kiln_intrinsic;

/* Whether `tensorize` takes a loop of rows around lanes and steps. */
static inline bool kiln_intrinsic_has_rows(const kiln_intrinsic *intrinsic) {
    return intrinsic->rows != 1;
}
/* Rows, lanes and steps of the target's instruction; all 0: the target lacks it. */
typedef struct kiln_intrinsic_extents {
    uint32_t rows, lanes, steps;
} kiln_intrinsic_extents;
kiln_intrinsic_extents kiln_intrinsic_on(const kiln_intrinsic *intrinsic,
                                         const kiln_target *target);

/* Type of the sums: f32 for products of floats, else i32. */
kiln_dtype kiln_intrinsic_sum(const kiln_intrinsic *intrinsic);
/* Whether it takes f32 rounded to tf32: the rounding is part of its expression, and code generation
 * emits it. */
bool kiln_intrinsic_rounds(const kiln_intrinsic *intrinsic);
/* Instructions to round one word, by ptxas 12.9; the tensor instruction itself truncates. */
#define KILN_ROUNDING_INSTRUCTIONS 3
/* Whether its operands are bytes that must be widened to 16 bits first. */
bool kiln_intrinsic_widens(const kiln_intrinsic *intrinsic);

/* Rows of a tile. An instruction with so many rows works on tiles: it also takes fewer rows, and
 * fewer steps, in whole words. */
#define KILN_INTRINSIC_TILE_ROWS 16
static inline bool kiln_intrinsic_in_tiles(const kiln_intrinsic *intrinsic) {
    return intrinsic->owner == KILN_INTRINSIC_TILE;
}
/* Costs of AMX in cycles (Intel's optimization manual; not measured): one product of whole tiles
 * begins every 16 cycles and takes 52, a tile is loaded in 8. */
#define KILN_INTRINSIC_TILE_CYCLES 16.0
#define KILN_INTRINSIC_TILE_LATENCY 52.0
#define KILN_INTRINSIC_TILE_LOAD_CYCLES 8.0
/* Whether several threads execute it together, each holding a part of the operands. */
static inline bool kiln_intrinsic_of_threads(const kiln_intrinsic *intrinsic) {
    return intrinsic->owner == KILN_INTRINSIC_WARP || intrinsic->owner == KILN_INTRINSIC_GROUP;
}
/* Consecutive steps of one lane in packed operands; for operands of a warp those in four bytes. */
uint32_t kiln_intrinsic_word(const kiln_intrinsic *intrinsic);
/* With owner LANES: the words of four bytes in which it takes the steps of one lane. */
uint32_t kiln_intrinsic_words(const kiln_intrinsic *intrinsic);

/* ---- owner WARP ----
 * The 32 iterations of the thread loop around a piece are the warp. Each thread sums up the
 * elements that it holds of the result, two rows of two columns, over all steps: so the piece is
 * three loops in each thread, over rows, columns and steps, and to interpreters and passes nothing
 * else. */
#define KILN_WARP_LANES 32
#define KILN_WARP_GROUP 4   /* threads that hold a row of sums between them: threadID_in_group */
#define KILN_WARP_ROWS 2    /* of the sums of a thread */
#define KILN_WARP_COLUMNS 2 /* the same */
#define KILN_WARP_REGISTERS 4

/* ---- owner GROUP ----
 * The same with four warps, the iterations of the loop on thread.y, each of which has a fourth of
 * the rows. Row r is in warp r / 16, thread group r % 8, iteration r / 8 % 2; column c is in place
 * c / 2 % 4, iteration c / 8 * 2 + c % 2 (PTX ISA, "wgmma: Register Fragments"). So the nest of a
 * thread has two rows and a fourth of the columns. Groups are on thread.z. */
#define KILN_GROUP_WARPS 4
#define KILN_GROUP_COLUMNS 8      /* columns are a multiple of it */
#define KILN_GROUP_COLUMNS_MIN 64 /* with fewer, memory is slower than products */
/* Operands lie in shared memory in rows of 128 bytes, whose units of 16 are permuted from row to
 * row in 8 ways, aligned to 8 such rows. */
#define KILN_GROUP_UNIT_BYTES 16
#define KILN_GROUP_WAYS 8
#define KILN_GROUP_ROW_BYTES (KILN_GROUP_UNIT_BYTES * KILN_GROUP_WAYS)
#define KILN_GROUP_BYTES_MAX (1 << 18) /* distances in a descriptor are below it */
#define KILN_GROUP_ATOM_BYTES (KILN_GROUP_ROW_BYTES * KILN_GROUP_WAYS)

typedef enum kiln_fragment_id {
#define X(id, ...) KILN_FRAGMENT_##id,
#include "compiler-core/ir/fragments.def"
#undef X
    KILN_FRAGMENT_COUNT
} kiln_fragment_id;

/* Factors of l / 4, l % 4, r % 2 and r / 2. */
typedef struct kiln_fragment {
    uint32_t registers;
    uint32_t outer[4], word[4];
} kiln_fragment;
extern const kiln_fragment kiln_fragments[KILN_FRAGMENT_COUNT]; /* Rows of fragments.def. */

extern const kiln_intrinsic kiln_intrinsics[KILN_INTRINSIC_COUNT]; /* Rows of intrinsics.def. */

const kiln_intrinsic *kiln_intrinsic_find(kiln_str name); /* NULL: none */
bool kiln_intrinsic_runs_on(const kiln_intrinsic *intrinsic, const kiln_target *target);
/* Its tensor expression over the inputs a and b and the output c; with owner CORE, of one row, lane
 * and step. In `arena`. */
kiln_program *kiln_intrinsic_program(const kiln_intrinsic *intrinsic, kiln_arena *arena);
/* Whether `value` of `p` equals the summed expression of `meaning`, an intrinsic's program; returns
 * the loads in the places of a and b, in that order. Factors may be swapped. */
bool kiln_intrinsic_matches(
    const kiln_program *meaning, const kiln_program *p, kiln_expr value,
    kiln_expr
        out_load[KILN_INTRINSIC_OPERANDS]); /* Whether `e` depends on `lane`, a thread's number in
                                             * its warp, only through its group (by_group) or its
                                             * place in the group: each use is a quotient, or a
                                             * remainder, by KILN_WARP_GROUP. */
bool kiln_intrinsic_asks_lane(const kiln_program *p, kiln_expr e, kiln_var lane, bool by_group);
/* The intrinsic that the loop is marked with; NULL: none. */
const kiln_intrinsic *kiln_intrinsic_of_loop(const kiln_program *p, kiln_stmt loop);

#endif
