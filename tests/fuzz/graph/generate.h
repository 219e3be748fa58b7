/* From a number to a graph. */
#ifndef KILN_TESTS_FUZZ_GRAPH_GENERATE_H
#define KILN_TESTS_FUZZ_GRAPH_GENERATE_H

#include "tests/fuzz/graph/graph.h"

/* What was drawn, over many graphs. */
typedef struct fuzz_counts {
    uint64_t drawn, ill_conditioned, unsupported, refused;
    uint64_t *drawn_of;  /* [fuzz_row_count()] */
    kiln_strbuf reasons; /* a line per refusal, the first few */
} fuzz_counts;

/* Rows of nodes.def: an operator since an opset. */
uint32_t fuzz_row_count(void);
const char *fuzz_row_name(uint32_t row, int *out_since);
/* The first operator of nodes.def without a row in graph/ops.def; NULL: there is none. */
const char *fuzz_missing_rule(void);

/* Draws graph number `number` into `g`: 5 to 20 nodes, one of them of row `number` modulo the rows.
 * Everything lives in `arena`. */
void fuzz_generate(uint64_t number, kiln_arena *arena, fuzz_graph *g, fuzz_counts *counts);

#endif
