/* Products of tiles on an accelerator whose memories are the scopes inp, wgt, acc and out: one
 * reduction of bytes, its follower, and the tiles into which both are cut. Shared by rules_vta.c
 * and the files vta_*.c. Private to rules/.
 *
 * The machine multiplies [batch][in] elements with [out][in] (base/vta_config.h). A part is the
 * contents of its accumulators at one time: some tiles of the result along three axes. Its sums are
 * made in steps, each of some tiles of the axis that is summed over. */
#ifndef KILN_COMPILER_CORE_RULES_VTA_H
#define KILN_COMPILER_CORE_RULES_VTA_H

#include "base/vta_config.h"
#include "compiler-core/rules/rules.h"

/* Axes of a tile; ROW and COLUMN are positions, such as those of an image. */
typedef enum kiln_vta_axis {
    KILN_VTA_AXIS_OUT, /* tiles of block_out */
    KILN_VTA_AXIS_ROW,
    KILN_VTA_AXIS_COLUMN,
    KILN_VTA_AXIS_IN, /* tiles of block_in, summed over */
    KILN_VTA_AXES
} kiln_vta_axis;
#define KILN_VTA_PART_AXES 3 /* those of the result */

/* Columns of the table of tiles: tiles of a part and of a step along the axes, virtual threads, and
 * places through which parts and steps rotate. */
enum {
    KILN_VTA_TILES,
    KILN_VTA_THREADS = KILN_VTA_TILES + KILN_VTA_AXES,
    KILN_VTA_STAGES,
    KILN_VTA_TILE_COLUMNS
};
#define KILN_VTA_ROWS_MAX 64
#define KILN_VTA_ADDENDS_MAX 4 /* buffers that the ALU reads in addition to the sums */

/* An operand of the reduction. */
typedef struct kiln_vta_operand {
    kiln_buffer buffer;
    uint32_t rank;
    int64_t coefficient[KILN_RANK_MAX]
                       [KILN_BLOCK_ITERS_MAX]; /* index d = sum of these * iterator */
} kiln_vta_operand;

/* Bits of the rule's options. */
enum {
    KILN_VTA_OUT_INSIDE = 1, /* parts follow one another along OUT first */
    /* The operand that consecutive parts share is loaded once for all of them. */
    KILN_VTA_STAYS = 2,
    /* Virtual threads: parts along OUT, or along positions, are interleaved. Else parts come one
     * after another, in rotating places. */
    KILN_VTA_OUT_BESIDE = 4,
    KILN_VTA_POSITIONS_BESIDE = 8,
};

typedef struct kiln_vta_tiling {
    kiln_sched *s;
    const kiln_vta_config *machine;
    uint32_t options;
    kiln_block sums, follower; /* the reduction, and the block that makes bytes of it */
    kiln_pattern pattern;      /* of the reduction */
    kiln_vta_operand data, weights;
    int iter[KILN_VTA_AXES]; /* of the reduction; -1: ROW or COLUMN is missing */
    int batch;               /* the iterator whose parts are a tile's rows */
    uint32_t operations;     /* of the ALU for each tile of results */
    uint32_t addends;        /* tiles that it reads in addition to the sums: loaded with each
                              * part, */
    bool has_bias;           /* and along OUT alone, loaded once */
    uint32_t products;       /* of the addends: bytes that are added by GEMM from inp */
    kiln_sched_sample tile;  /* a row of the table */
} kiln_vta_tiling;

/* The axis along which parts are interleaved; KILN_VTA_AXES: none. */
static inline kiln_vta_axis kiln_vta_beside(const kiln_vta_tiling *t) {
    if (t->options & KILN_VTA_OUT_BESIDE) return KILN_VTA_AXIS_OUT;
    if (!(t->options & KILN_VTA_POSITIONS_BESIDE)) return KILN_VTA_AXES;
    return t->iter[KILN_VTA_AXIS_ROW] < 0 ? KILN_VTA_AXIS_COLUMN : KILN_VTA_AXIS_ROW;
}
/* Whether elements of that type reach accumulators by a product with a unit matrix. */
static inline bool kiln_vta_by_product(const kiln_vta_tiling *t, kiln_dtype dtype) {
    return dtype == KILN_I8 && !kiln_vta_config_has(t->machine, KILN_VTA_BYTES);
}
/* Iterations of the iterator; 1 for none (-1). */
int64_t kiln_vta_extent(const kiln_vta_tiling *t, int iter);
/* The same in tiles of the machine along an axis. */
int64_t kiln_vta_tiles(const kiln_vta_tiling *t, kiln_vta_axis axis);
/* Tiles of a bias along OUT, in all groups. */
int64_t kiln_vta_bias_tiles(const kiln_vta_tiling *t);

/* vta_roles.c: splits channels that each read a group of data into two iterators, groups and
 * channels of a group, so that indices are sums. */
void kiln_vta_divide_groups(kiln_vta_tiling *t);
/* Chooses the iterators that are axes, and the operands that are data and weights. NULL, or why the
 * machine cannot compute such sums. */
const char *kiln_vta_choose_roles(kiln_vta_tiling *t);
/* vta_chain.c: counts the ALU's operations and operands to make bytes of the sums, from the value
 * of the follower. NULL, or why the ALU cannot. */
const char *kiln_vta_look_at_follower(kiln_vta_tiling *t);
/* Whether the follower, of that pattern, reads words of its operand from[from] along OUT alone. */
bool kiln_vta_is_bias(const kiln_vta_tiling *t, const kiln_pattern *follower, uint32_t from);
/* vta_sizes.c: samples a row of the table, whose rows all fit into the machine. Returns the
 * estimated cycles of the preferred one; 0: nothing fits. */
double kiln_vta_choose_tile(kiln_vta_tiling *t);
/* vta_nest.c: the block that pads the data with zeros while it is loaded; 0: none. */
kiln_block kiln_vta_padding_of(const kiln_vta_tiling *t);
/* Makes the nest. NULL, or why there is none; part of it may have been made then. */
const char *kiln_vta_make_nest(kiln_vta_tiling *t);

#endif
