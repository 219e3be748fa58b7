/* The analytic model: cycles of each statement, term by term, from its facts. Private to cost/.
 */
#ifndef KILN_COMPILER_CORE_COST_ESTIMATE_H
#define KILN_COMPILER_CORE_COST_ESTIMATE_H

#include "base/target.h"
#include "compiler-core/facts/facts.h"

/* Terms in the order of their rows in features.def. */
typedef enum kiln_term {
    KILN_TERM_PORTS,
    KILN_TERM_LATENCY,
    KILN_TERM_LOADS,
    KILN_TERM_STORES,
    KILN_TERM_ISSUE,
    KILN_TERM_SPILL,
    KILN_TERM_OVERHEAD,
    KILN_TERM_L1,
    KILN_TERM_L2,
    KILN_TERM_L3,
    KILN_TERM_FORK,
    KILN_TERM_COUNT
} kiln_term;

/* A statement's purpose, in the order of the rows cycles_of. */
typedef enum kiln_cost_part {
    KILN_COST_PART_MAIN,
    KILN_COST_PART_INITS,
    KILN_COST_PART_PRODUCERS,
    KILN_COST_PART_WRITES,
    KILN_COST_PART_COUNT
} kiln_cost_part;

#define KILN_CACHE_LEVELS 3

/* Time of one execution of a statement's tile, with every point inside the domain. */
typedef struct kiln_tile_use {
    kiln_facts_tile of;
    double registers_per_vector;
    double fill;         /* lanes used of the registers that hold a vector */
    double accumulators; /* vector registers */
    double operands;     /* vector registers of loads that one reduce step uses */
    double steps;        /* vector executions of the statement */
    double vector_loads, broadcasts, gathers, stores;
    double code;  /* instructions */
    double count; /* executions of the tile */
} kiln_tile_use;

typedef struct kiln_estimate {
    const kiln_facts *facts;
    const kiln_target *target;
    uint32_t main;                         /* statement with most work */
    kiln_tile_use *tile;                   /* [statement count] */
    double (**traffic)[KILN_CACHE_LEVELS]; /* [statement count][access count] lines */
    double *cycles_of;                     /* [statement count] */
    double term[KILN_TERM_COUNT];
    double part[KILN_COST_PART_COUNT];
    double cycles, peak_cycles; /* of the program; of its arithmetic alone at full rate */
    double workers, imbalance;
    double registers; /* vector registers of register buffers that live at once */
} kiln_estimate;

kiln_cost_part kiln_cost_part_of(const kiln_estimate *estimate, uint32_t statement);
void kiln_estimate_make(const kiln_facts *facts, const kiln_target *target, kiln_arena *arena,
                        kiln_estimate *out);

#endif
