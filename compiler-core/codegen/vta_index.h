/* Indices of stores and loads as sums of multiples of loops, in elements and in tiles, and loops
 * over tiles as nests of vta/builder.h. Private to vta_match.c and vta_chain.c. A function that
 * returns false has set the reason. */
#ifndef KILN_COMPILER_CORE_CODEGEN_VTA_INDEX_H
#define KILN_COMPILER_CORE_CODEGEN_VTA_INDEX_H

#include "compiler-core/codegen/vta_match.h"

/* constant + the sum of factor[i] * loop i of the matching, each loop from 0 on. */
typedef struct kiln_vta_linear {
    int64_t constant, factor[KILN_VTA_CHAIN_LOOPS_MAX];
} kiln_vta_linear;

/* The loaded or stored element: its offset in the buffer's physical layout, in elements. */
typedef struct kiln_vta_access {
    kiln_buffer buffer;
    kiln_vta_linear at;
} kiln_vta_access;

/* Operand of a nest: tiles of a memory from `place` on; `at` NULL: none. */
typedef struct kiln_vta_operand_tiles {
    const kiln_vta_linear *at;
    uint32_t place;
} kiln_vta_operand_tiles;

/* Sets the reason and returns false. */
bool kiln_vta_refuse(kiln_vta_matching *m, const char *format, ...) KILN_PRINTF(2, 3);
/* The same for `count` elements of a tile ("elements of a tile") that no loops run over. A reason
 * set for the same store with more loops, some of them the tile's, is kept. */
bool kiln_vta_refuse_tile(kiln_vta_matching *m, uint32_t count, const char *what);

const kiln_expr_node *kiln_vta_node(const kiln_vta_matching *m, kiln_expr e);
kiln_expr kiln_vta_operand(const kiln_vta_matching *m, kiln_expr e, uint32_t i);
bool kiln_vta_is_load(const kiln_vta_matching *m, kiln_expr e, kiln_scope scope);
bool kiln_vta_is_cast(const kiln_vta_matching *m, kiln_expr e, kiln_dtype to, kiln_dtype from);

/* Iterations of the matching's loop. */
int64_t kiln_vta_loop_extent(const kiln_vta_matching *m, uint32_t loop);
bool kiln_vta_find_linear(kiln_vta_matching *m, const kiln_affine *a, kiln_vta_linear *out);
bool kiln_vta_find_load(kiln_vta_matching *m, kiln_expr load, kiln_vta_access *out);
bool kiln_vta_find_store(kiln_vta_matching *m, kiln_stmt store, kiln_vta_access *out);
bool kiln_vta_is_same(const kiln_vta_matching *m, const kiln_vta_linear *a,
                      const kiln_vta_linear *b);

/* The loops that run over the elements of a tile, each once: a bit for each. */
bool kiln_vta_find_tile_loops(kiln_vta_matching *m, const kiln_vta_linear *at, uint32_t elements,
                              uint32_t *out_loops);
/* From elements to tiles, without the loops of the tile. */
bool kiln_vta_make_tiles(kiln_vta_matching *m, uint32_t tile_loops, uint32_t elements,
                         kiln_vta_linear *at);
/* Both in tiles, whose elements lie in the same order; `*out_loops`: their loops over elements. */
bool kiln_vta_make_pair(kiln_vta_matching *m, uint32_t elements, kiln_vta_linear *a,
                        kiln_vta_linear *b, uint32_t *out_loops);
/* The loops that are not the tile's; two that run like one are joined. */
bool kiln_vta_nest_of(kiln_vta_matching *m, uint32_t tile_loops, kiln_vta_operand_tiles dst,
                      kiln_vta_operand_tiles src, kiln_vta_operand_tiles wgt, kiln_vta_nest *out);

#endif
