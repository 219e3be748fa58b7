/* A loop program as numbers: per statement its loops, operations and memory accesses, and per
 * access how much memory it touches while the loops from some depth inwards run. Everything is
 * counted from affine forms; nothing is executed. Private to cost/. */
#ifndef KILN_COMPILER_CORE_COST_PROFILE_H
#define KILN_COMPILER_CORE_COST_PROFILE_H

#include "base/target.h"
#include "compiler-core/cost/form.h"
#include "compiler-core/ir/intrinsic.h"

/* Accesses of one statement that are looked at. */
#define KILN_PROFILE_ACCESSES_MAX 24

/* Kinds of operations, in the order of their rows in features.def. */
typedef enum kiln_profile_op {
    KILN_PROFILE_F32_MAC,
    KILN_PROFILE_F32_ADD,
    KILN_PROFILE_F32_MUL,
    KILN_PROFILE_F32_DIV,
    KILN_PROFILE_F32_CALL,
    KILN_PROFILE_F64,
    KILN_PROFILE_F16,
    KILN_PROFILE_I8_MAC,
    KILN_PROFILE_INT_MAC,
    KILN_PROFILE_INT_OPS,
    KILN_PROFILE_CASTS,
    KILN_PROFILE_SELECTS,
    KILN_PROFILE_OP_COUNT
} kiln_profile_op;

/* loop[0] stands for the whole program and runs once; parents come before their children. */
typedef struct kiln_profile_loop {
    kiln_stmt stmt; /* 0: the program */
    kiln_var var;
    uint32_t parent, depth;
    int64_t extent;
    uint8_t kind; /* kiln_loop_kind */
    /* Memory that the statements of the run program inside touch, in whole cache lines: by all
     * iterations, and by one. Then what one needs of a cache that finds lines by their address:
     * more, where strides are multiples of large powers of two. */
    double bytes, body_bytes, body_crowd;
} kiln_profile_loop;

/* Levels count from 0 to the statement's depth: at level k the loops path[k] and inside it run. */
typedef struct kiln_profile_access {
    kiln_buffer buffer;
    bool loads, stores;
    bool conditional; /* within a select */
    bool in_memory;   /* not a register buffer */
    uint32_t element_bytes, rank;
    int64_t lane_stride; /* elements between neighbouring lanes; 0: the same for all */
    uint32_t home_level; /* temporaries: at this level and outside memory is used again */
    kiln_form *index;    /* [rank] */
    double *elements;    /* [depth + 1] distinct elements touched */
    double *lines;       /* [depth + 1] cache lines */
    double *crowding; /* [depth + 1] share of a cache's sets that they fall into, inverted: 1..64 */
    double *run;      /* [depth + 1] consecutive bytes */
} kiln_profile_access;

typedef struct kiln_profile_statement {
    kiln_block block;
    uint32_t nest; /* child of the root that it stands in */
    bool prepare;  /* depends on constants only: runs once, untimed */
    bool reduction, initial;
    uint32_t depth, *path; /* [depth] loop indices, outermost first; path[0] is the program */
    const kiln_intrinsic *intrinsic; /* that its two innermost loops are; NULL: none */
    bool *reduces;                   /* [depth] the loop takes part in choosing a reduce iterator */
    double iterations;               /* of all loops around it */
    double points;                   /* of these, those inside the domain */
    double domain;                   /* points of the domain */
    double ops[KILN_PROFILE_OP_COUNT]; /* of one point */
    uint32_t access_count;
    kiln_profile_access *access;
} kiln_profile_statement;

typedef struct kiln_profile {
    const kiln_program *p;
    const kiln_target *target;
    uint32_t loop_count, statement_count, nest_count;
    kiln_profile_loop *loop;
    kiln_profile_statement *statement;
    uint32_t *home;    /* [buffer count] innermost loop around all accesses of a temporary */
    kiln_shape *shape; /* [buffer count] extents in memory, temporaries cut to what lives */
    double bytes;      /* distinct memory touched by the run program */
} kiln_profile;

/* Everything lives in `arena`. */
kiln_profile *kiln_profile_create(const kiln_program *scheduled, const kiln_target *target,
                                  kiln_arena *arena);
/* Second half of it: homes, shapes, elements, lines, runs and the loops' bytes (footprint.c). */
void kiln_profile_measure(kiln_profile *profile, kiln_arena *arena);
/* Elements between the addresses of two neighbouring values of a loop variable. */
int64_t kiln_profile_stride(const kiln_profile *profile, const kiln_profile_access *access,
                            kiln_var var);

#endif
