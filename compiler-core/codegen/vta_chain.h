/* Operations of the ALU on accumulators, and outputs, which are made in the place of accumulators.
 * Private to vta_match.c. A function that returns false has set the reason and added no call. */
#ifndef KILN_COMPILER_CORE_CODEGEN_VTA_CHAIN_H
#define KILN_COMPILER_CORE_CODEGEN_VTA_CHAIN_H

#include "compiler-core/codegen/vta_index.h"

/* Operations one after the other. */
typedef struct kiln_vta_chain kiln_vta_chain;
struct kiln_vta_chain {
    uint32_t count;
    kiln_vta_operation operation[KILN_VTA_OPERATIONS_MAX];
    kiln_expr source[KILN_VTA_OPERATIONS_MAX]; /* a load of an accumulator; 0: the number */
    kiln_expr first;                           /* a load: what the first operation works on */
    uint32_t part_count; /* sources that are computed first, each in its own place */
    kiln_vta_chain *part[KILN_VTA_OPERATIONS_MAX];
};

/* Operations of which an output is made. */
typedef struct kiln_vta_output {
    kiln_vta_chain chain;
    kiln_vta_access from; /* the accumulators */
    bool saturates;       /* the store takes the nearest byte */
} kiln_vta_output;

void kiln_vta_add_call(kiln_vta_matching *m, kiln_vta_call call);
/* The same for a call that reads accumulators of the program, which must hold their values; `held`:
 * what the written accumulators hold then, bits of kiln_vta_held. */
bool kiln_vta_add_reading(kiln_vta_matching *m, const kiln_vta_call *call, uint8_t held);

/* An operation with a number, or with an accumulator that `source` loads. */
bool kiln_vta_chain_add(kiln_vta_matching *m, kiln_vta_chain *c, kiln_vta_alu_op op, int64_t number,
                        kiln_expr source);
/* Adds the calls, in passes with one source each, at the accumulators `to`. */
bool kiln_vta_add_chain(kiln_vta_matching *m, kiln_stmt store, const kiln_vta_chain *c,
                        const kiln_vta_access *to, uint8_t held);
/* acc = operations on itself. */
bool kiln_vta_match_alu(kiln_vta_matching *m, kiln_stmt store, kiln_expr value);

/* Finds the operations that bytes are cast from; adds nothing. */
bool kiln_vta_find_output(kiln_vta_matching *m, kiln_expr value, kiln_vta_output *out);
/* Adds the operations; without any the tiles hold accumulators and outputs. */
bool kiln_vta_add_output(kiln_vta_matching *m, kiln_stmt store, const kiln_vta_output *o);
/* out = operations on acc. */
bool kiln_vta_match_output(kiln_vta_matching *m, kiln_stmt store, kiln_expr value);
/* The accumulators that the outputs of a load are in, by the same loops; in elements. */
bool kiln_vta_find_accumulators(kiln_vta_matching *m, const kiln_vta_access *from,
                                kiln_vta_linear *out);

#endif
