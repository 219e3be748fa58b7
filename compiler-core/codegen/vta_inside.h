/* Conditions of paddings and of blocks whose loops are extended to whole tiles: in which rounds of
 * the matching's loops elements exist, and which tiles are partial. Private to the files of
 * vta_match.h. A function that returns false has set the reason. */
#ifndef KILN_COMPILER_CORE_CODEGEN_VTA_INSIDE_H
#define KILN_COMPILER_CORE_CODEGEN_VTA_INSIDE_H

#include "compiler-core/codegen/vta_index.h"

#define KILN_VTA_PARTS_MAX 2u /* along rows and lanes of a tile */

/* Tiles whose first elements along one of their loops are inside: `more` + 1 of them, a function of
 * the other loops. At least one always is. */
typedef struct kiln_vta_part {
    uint32_t loop;
    kiln_vta_linear more;
} kiln_vta_part;

typedef struct kiln_vta_inside {
    uint32_t tile_loops; /* over elements of a tile: bits */
    int64_t low[KILN_VTA_CHAIN_LOOPS_MAX],
        high[KILN_VTA_CHAIN_LOOPS_MAX]; /* rounds of each other loop, from and to */
    bool is_empty;                      /* everything is outside */
    uint32_t part_count;
    kiln_vta_part part[KILN_VTA_PARTS_MAX];
} kiln_vta_inside;

kiln_vta_inside kiln_vta_everywhere(const kiln_vta_matching *m, uint32_t tile_loops);
/* Narrows `at` to where the condition holds. */
bool kiln_vta_narrow(kiln_vta_matching *m, kiln_expr condition, kiln_vta_inside *at);
/* Whether the elements that the parts leave out all lie behind the end of a dimension of the
 * buffer, in the padding of its layout, which is never read. */
bool kiln_vta_parts_are_all(kiln_vta_matching *m, const kiln_vta_inside *at, kiln_buffer buffer,
                            const kiln_expr *index);
/* Whether the conditions around the current store leave out only positions of tiles that are no
 * elements of the buffer. A block makes each element once, so its conditions leave out only
 * positions behind the end; in main memory this is checked. */
bool kiln_vta_stores_tiles(kiln_vta_matching *m, uint32_t tile_loops);

#endif
