/* Matches one store and the loops around it with a call of the machine. Private to vta_calls.c. */
#ifndef KILN_COMPILER_CORE_CODEGEN_VTA_MATCH_H
#define KILN_COMPILER_CORE_CODEGEN_VTA_MATCH_H

#include "compiler-core/codegen/vta_calls.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/ir/interp.h"

#define KILN_VTA_CHAIN_LOOPS_MAX 24u
#define KILN_VTA_GUARDS_MAX 4u
#define KILN_VTA_NO_PLACE UINT32_MAX

/* The kind of value in an accumulator. */
typedef enum kiln_vta_held {
    KILN_VTA_HELD_ACC = 1,      /* the value of the program's accumulator */
    KILN_VTA_HELD_OUT = 2,      /* that of its output */
    KILN_VTA_HELD_SATURATE = 4, /* the output is the nearest byte */
    KILN_VTA_HELD_PART = 8,     /* a part of a value that is being computed */
    KILN_VTA_HELD_SPENT = 16,   /* remains of a part that has been used */
} kiln_vta_held;

typedef struct kiln_vta_matching {
    kiln_program *p;
    kiln_arena *arena;
    kiln_vta_calls *calls;
    kiln_interp interp; /* values of the loops that run */
    bool *runs;         /* [var count] whether the variable has a value in `interp` */
    uint32_t *place;    /* [buffer count] the buffer's first tile, if it is in the core; not of
                         * outputs */
    uint32_t **output;  /* [buffer count] of outputs: [tiles] the accumulator of each */
    uint32_t *number;   /* [buffer count] of arguments: the builder's */
    uint8_t *held;      /* [accumulators] bits of kiln_vta_held */
    /* The loops of the current match, from the outermost to the store; each runs from 0 on. */
    uint32_t loop_count;
    kiln_stmt loop[KILN_VTA_CHAIN_LOOPS_MAX];
    uint32_t guard_count; /* conditions between these loops and the store */
    kiln_expr guard[KILN_VTA_GUARDS_MAX];
    /* Of tiles that lie in inp: their first steps that were loaded, behind which anything may lie;
     * in wgt: those behind which zeros lie. */
    uint16_t *known, *used;
    bool has_unknown; /* some data has fewer than all */
    /* Offsets in elements, by store and by load; made once. */
    kiln_affine **store_offset, **load_offset;
    uint32_t load_count;
    kiln_stmt store;        /* the current one */
    kiln_stmt reason_store; /* of the last match that failed, */
    uint32_t reason_loops;  /* with so many loops, */
    char reason[160];       /* and why */
} kiln_vta_matching;

/* Bytes and elements of a tile of the scope's memory: rows and lanes. */
kiln_vta_memory kiln_vta_memory_of(kiln_scope scope);
uint32_t kiln_vta_tile_elements(const kiln_vta_config *config, kiln_vta_memory memory);
/* Tiles that the buffer takes in the core. */
uint64_t kiln_vta_tiles_of(const kiln_vta_matching *m, kiln_buffer buffer);
/* Adds the calls for the store with these loops. False, with the reason and no call: no call
 * matches, or only with fewer loops. */
bool kiln_vta_match(kiln_vta_matching *m, kiln_stmt store);

#endif
