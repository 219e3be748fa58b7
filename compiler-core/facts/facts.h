/* A scheduled loop program in numbers: its loops, and for each placed block the operations of a
 * point, the accesses, and how much memory each access touches while the loops from some depth
 * inwards run. Derived once, for features, the analytic model, text for people, and memory planning
 * of a scope. Everything is counted from linear forms (form.h); nothing is executed.
 *
 * Levels count from 0 to a statement's depth: at level k the loops path[k] and inside it run, and
 * those outside are fixed. So a footprint at level k is what the loops from there inwards touch:
 * one tile, one thread's work, the part of a buffer that must be in a near memory.
 *
 * Facts hold as long as the program is not changed. Make them again after a primitive. */
#ifndef KILN_COMPILER_CORE_FACTS_FACTS_H
#define KILN_COMPILER_CORE_FACTS_FACTS_H

#include "compiler-core/facts/form.h"
#include "compiler-core/ir/intrinsic.h"

/* Kinds of operations, in the order of their rows in cost/features.def. */
typedef enum kiln_op_kind {
    KILN_OPS_F32_MAC,
    KILN_OPS_F32_ADD,
    KILN_OPS_F32_MUL,
    KILN_OPS_F32_DIV,
    KILN_OPS_F32_CALL,
    KILN_OPS_F64,
    KILN_OPS_F16,
    KILN_OPS_I8_MAC,
    KILN_OPS_INT_MAC,
    KILN_OPS_INT_OPS,
    KILN_OPS_CASTS,
    KILN_OPS_SELECTS,
    KILN_OPS_COUNT
} kiln_op_kind;

/* loop[0] is the whole program and runs once; parents come before their children. */
typedef struct kiln_facts_loop {
    kiln_stmt stmt; /* 0: the program */
    kiln_var var;
    uint32_t parent, depth;
    int64_t extent;
    uint8_t kind;  /* kiln_loop_kind */
    uint8_t level; /* kiln_axis_level of its axis; none of loop[0] */
    /* Memory that the statements of the run program inside touch, in whole lines: in all
     * iterations, and in one. `body_crowd`: the cache that one iteration needs, which is more where
     * strides are multiples of large powers of two. */
    double bytes, body_bytes, body_crowd;
} kiln_facts_loop;

/* One index of an access, a kiln_form with the terms that it has. */
typedef struct kiln_facts_index {
    int64_t constant;
    uint32_t term_count;
    bool exact, data;
    const kiln_form_term *term; /* [term_count] */
} kiln_facts_index;

typedef struct kiln_facts_access {
    kiln_buffer buffer;
    bool loads, stores;
    bool conditional; /* within a select */
    bool in_memory;   /* not a register buffer */
    uint32_t element_bytes, rank;
    int64_t lane_stride;     /* elements between neighbouring lanes; 0: all lanes access one
                              * element */
    uint32_t home_level;     /* temporaries: their memory is reused at this level and outside */
    kiln_facts_index *index; /* [rank] */
    double *elements;        /* [depth + 1] distinct elements touched */
    double *lines;           /* [depth + 1] lines */
    double *crowding;        /* [depth + 1] cache sets over the sets that the lines fall into: 1..64
                              */
    double *run;             /* [depth + 1] consecutive bytes */
} kiln_facts_access;

/* The innermost loops of a statement that are unrolled or vectorized: they become one straight run
 * of instructions. */
typedef struct kiln_facts_tile {
    uint32_t level;                /* of the statement's path where it begins */
    double lanes, spatial, reduce; /* iterations of its loops, by the kind of iterator */
} kiln_facts_tile;

/* A placed block. */
typedef struct kiln_facts_statement {
    kiln_block block;
    kiln_stmt stmt; /* where it is placed */
    uint32_t nest;  /* the child of the root that contains it */
    bool prepare;   /* depends on constants only: runs once, untimed */
    bool reduction, initial;
    uint32_t depth, *path; /* [depth] loop indices, outermost first; path[0] is the program */
    /* The intrinsic that its two innermost loops are, three where threads share one; NULL: none. */
    const kiln_intrinsic *intrinsic;
    bool *reduces; /* [depth] the loop takes part in choosing a reduce iterator */
    kiln_facts_tile tile;
    double iterations;          /* of all loops around it */
    double points;              /* of these, those inside the domain */
    double domain;              /* points of the domain */
    double ops[KILN_OPS_COUNT]; /* of one point */
    uint32_t access_count;
    kiln_facts_access *access; /* [0] is the write */
} kiln_facts_statement;

typedef struct kiln_facts {
    const kiln_program *p;
    uint32_t line_bytes;
    uint32_t loop_count, statement_count;
    kiln_facts_loop *loop;
    kiln_facts_statement *statement;
    uint32_t *home;    /* [buffer count] innermost loop around all accesses of a temporary */
    kiln_shape *shape; /* [buffer count] extents in memory, temporaries cut to what lives */
    double bytes;      /* distinct memory touched by the run program */
} kiln_facts;

#define KILN_FACTS_NO_HOME UINT32_MAX /* of buffers without accesses */

/* Facts of a loop program as replay leaves it, all in `arena`. `line_bytes`: the unit in which
 * memory is moved, 1 for single elements. */
kiln_facts *kiln_facts_create(const kiln_program *scheduled, uint32_t line_bytes,
                              kiln_arena *arena);
/* Second half of kiln_facts_create: homes, shapes, elements, lines, runs and the loops' bytes
 * (footprint.c). */
void kiln_facts_measure(kiln_facts *facts, kiln_arena *arena);

/* Elements between the addresses of two neighbouring values of a loop variable: 0 where all
 * iterations share an address, 1 where neighbours are neighbours in memory. */
int64_t kiln_facts_stride(const kiln_facts *facts, const kiln_facts_access *access, kiln_var var);

#endif
