/* The rule "tile": one large reduction, in a tile of registers. Convolutions, matrix products,
 * pooling and depthwise convolutions are distinguished by access patterns only.
 *
 * Its schedule (measured to reach library speed): lanes of a vector run over an output iterator v
 * along which one operand ("weights") is packed, or which all operands share. A tile of mh x mw
 * output points times several vectors accumulates in registers over the whole reduction. Weights
 * are packed in the order in which they are read; inputs and outputs are blocked so that lanes and
 * steps of the reduction are contiguous.
 *
 * rule_tile.c calls the functions below in this order. Private to rules/. */
#ifndef KILN_COMPILER_CORE_RULES_TILE_H
#define KILN_COMPILER_CORE_RULES_TILE_H

#include "compiler-core/rules/rules.h"

/* X(NAME, field, text): options of its sketches; the first is bit 0 of a rule's options.
 *
 * vectors_innermost  all vectors of one point come before the next point, instead of the reverse
 *
 * taps_outside       blocks of k run inside of the reduction's other loops, instead of around them
 *
 * copy_elsewhere     the padded copy of the data is made at the place that is not preferred
 *                    (tile_pad.c)
 *
 * whole              the reduction is not cut into parts where its weights exceed the second cache
 *
 * plain              no tensor intrinsic is used where there is one
 *
 * no_tiles           no tensor intrinsic on tiles of a matrix unit is used where there is one
 *
 * padded_copy        the data is copied with its padding, even if lowering could avoid the copy
 *
 * apart              transforms around the reduction have their own nests, not groups with it
 *                    (tile_group.c)
 *
 * other_shares       threads share the loops inside of groups instead of the groups, or the reverse
 *
 * packed             weights are packed even if an instruction could take them unpacked */
#define KILN_TILE_OPTIONS(X)                                     \
    X(VECTORS_INNERMOST, vectors_innermost, "vectors innermost") \
    X(TAPS_OUTSIDE, taps_outside, "taps outside")                \
    X(COPY_ELSEWHERE, copy_elsewhere, "copy elsewhere")          \
    X(WHOLE, whole, "whole")                                     \
    X(PLAIN, plain, "plain")                                     \
    X(NO_TILES, no_tiles, "no tiles")                            \
    X(PADDED_COPY, padded_copy, "padded copy")                   \
    X(APART, apart, "apart")                                     \
    X(OTHER_SHARES, other_shares, "other shares")                \
    X(PACKED, packed, "packed")

typedef struct kiln_tile_options {
#define X(NAME, field, text) bool field;
    KILN_TILE_OPTIONS(X)
#undef X
} kiln_tile_options;

/* The loops of one tiled iterator, from the outside: all rounds, the tiles of a round, the points
 * of a tile. */
typedef struct kiln_tile_loops {
    kiln_sched_loop rounds, tiles, points;
} kiln_tile_loops;

typedef struct kiln_tiling {
    kiln_sched *s;
    kiln_tile_options options;
    kiln_block block; /* the reduction */
    int given_v;      /* required v, or -1 */
    /* rule_stack.c: placed in a loop of its reader. Its loops may run over a part of its
     * iterators. */
    bool within;
    /* rule_stack.c: earlier reductions are computed in its rounds of rows, which are outermost
     * then. */
    bool carries;
    int64_t rounds; /* with `carries`: preferred number of rounds */

    /* tile_roles.c. Iterators of the block, or -1. */
    kiln_pattern pattern;
    int weights, data; /* positions in pattern.from, or -1 */
    int v;             /* the iterator of the lanes */
    int mh, mw;        /* rows and columns of the tile */
    int k;             /* reduced in blocks */
    int tap;           /* slides over the columns, where data is loaded as vectors */
    int row_tap;       /* slides over the rows, where `dot` takes steps of the tap */
    uint32_t planes;   /* bit i: iterator i runs over the planes of bits of one operand */
    int64_t lanes;
    bool packs; /* v belongs to `weights` alone: broadcast data, packed weights */
    /* The tensor intrinsic: takes a vector of weights and several steps of k, or of the tap where
     * all operands share the lanes; NULL: none. */
    const kiln_intrinsic *dot;
    int64_t dot_steps; /* its steps here; 1 without an intrinsic */
    kiln_block stored; /* in tiles: the block that copies them to memory */

    /* tile_sizes.c. */
    /* (points of mh, of mw, vectors of v); points of mw are whole rows of `dot`; in tiles also the
     * rows of one
     */
    kiln_sched_sample tile;
    /* (block of k, unrolled steps, lanes of the padded copy); with `dot` also the block in words of
     * consecutive steps. */
    kiln_sched_sample steps;

    /* tile_nest.c. None for iterators that are -1. */
    kiln_tile_loops row, column, vector;
    kiln_sched_loop lane;                          /* inside of vector.points */
    kiln_sched_loop k_blocks, k_steps, k_unrolled; /* of k, from the outside */
    kiln_sched_loop row_tap_loop, tap_loop;
    kiln_sched_loop dot_loop; /* of k or of the tap, inside of them: the steps of `dot` */
    kiln_sched_loop dot_rows; /* of mw, around the lanes: the rows of `dot`, if it has several */
    kiln_sched_loop round;    /* with `carries`: the loop over rounds of rows */
    kiln_sched_loop groups;   /* around the reduction (tile_group.c); none: there are none */
} kiln_tiling;

/* ---- the whole rule: rule_tile.c ---- */

/* Tiles t->block: all steps below, in this order. */
kiln_sketch_result kiln_tile_reduction(kiln_tiling *t);

/* tile_sizes.c. The preferred block of so many channels. */
kiln_sched_int kiln_tile_channels(const kiln_tiling *t, int64_t channels);

/* ---- roles of iterators: tile_roles.c ---- */

/* Preferred vectors of the data that are computed at once, where the reduction's lanes are also
 * those of its data: enough for their own register tile. */
#define KILN_TILE_SHARED_VECTORS 4

/* Fills in the first part for t->block; false when no iterator can be lanes. */
bool kiln_tile_choose_roles(kiln_tiling *t);
/* Whether v alone indexes its dimension of the output, so that padding v pads the buffer. With
 * groups of channels it does not; then partial vectors need masks. */
bool kiln_tile_can_pad(const kiln_tiling *t);
/* Position of the follower's iterator that runs along v, when it reads the reduction's result; -1:
 * none. */
int kiln_tile_lanes_of(const kiln_tiling *t, const kiln_pattern *follower);

static inline bool kiln_tile_has(uint32_t mask, int i) { return i >= 0 && (mask >> i & 1); }
/* Extent of the iterator; 1 for none (-1). */
static inline int64_t kiln_tile_extent(const kiln_tiling *t, int i) {
    return i < 0 ? 1 : t->s->program->block.data[t->block].iter[i].extent;
}
/* Dimensions of the buffer that is accessed. */
static inline uint32_t kiln_tile_rank(const kiln_tiling *t, const kiln_block_access *a) {
    return t->s->program->buffer.data[a->buffer].shape.rank;
}
/* Extent of an iterator's loop before it is split; with `within` a part of the iterator.
 */
int64_t kiln_tile_span(const kiln_tiling *t, int i);
/* Its role. */
static inline kiln_role kiln_tile_role(const kiln_tiling *t, const kiln_block_access *a) {
    return t->s->program->buffer.data[a->buffer].role;
}
/* Steps of k that one instruction takes. */
static inline int64_t kiln_tile_stride(const kiln_tiling *t) { return t->packs ? t->dot_steps : 1; }
/* Whether the reduction is summed up in tiles of a matrix unit. */
static inline bool kiln_tile_in_tiles(const kiln_tiling *t) {
    return t->dot && kiln_intrinsic_in_tiles(t->dot);
}

/* Points of mw that one instruction takes; in tiles the maximum. */
static inline int64_t kiln_tile_dot_rows(const kiln_tiling *t) { return t->dot ? t->dot->rows : 1; }

/* ---- candidate sizes: tile_sizes.c ---- */

/* Samplers; the first decision is the preferred one unless stated. */
kiln_sched_sample kiln_tile_sample_registers(kiln_tiling *t); /* t->tile; none: no tile fits */
kiln_sched_sample kiln_tile_sample_steps(kiln_tiling *t);     /* t->steps */
kiln_sched_sample kiln_tile_sample_parts(kiln_tiling *t);     /* (steps, parts) of k */
/* Blocks of output channels: the preferred one, whole vectors that divide, all channels. */
kiln_sched_sample kiln_tile_sample_block(kiln_tiling *t, int64_t extent);
/* Splits a loop over tiles into rounds without remainder, preferably of `preferred` tiles. */
kiln_tile_loops kiln_tile_split_rounds(kiln_tiling *t, kiln_sched_loop tiles, int64_t preferred);

/* The same where earlier reductions are computed in the rounds: any number of tiles, preferably
 * those that make t->rounds of them. */
kiln_tile_loops kiln_tile_split_rows(kiln_tiling *t, kiln_sched_loop tiles);

/* Whether a panel of weights exceeds the second cache, so that a reduction in parts pays: a part of
 * the panel stays there while all tiles use it. */
bool kiln_tile_wants_parts(const kiln_tiling *t);
/* Whether all weights fit into the second cache and the data does not: then each row of outputs is
 * finished, with all weights, before the next, so that the data is fetched once. Otherwise the
 * panels of weights are the outer loop. */
bool kiln_tile_keeps_weights(const kiln_tiling *t);
/* Whether the weights come from beyond the second cache, so that fetching them ahead pays. */
bool kiln_tile_fetches_ahead(const kiln_tiling *t);
/* Preferred number of row tiles in a round; `rows` runs over all of them. */
int64_t kiln_tile_rows_a_round(const kiln_tiling *t, kiln_sched_loop rows);
/* Bytes of an operand (position in pattern.from); 0 for -1. */
double kiln_tile_operand_bytes(const kiln_tiling *t, int operand);

/* ---- layouts: tile_pack.c ---- */

/* Consecutive steps of each lane of `dot` in a packed word. */
static inline uint32_t kiln_tile_word(const kiln_tiling *t) {
    return t->dot ? kiln_intrinsic_word(t->dot) : 1;
}
/* One panel: all vectors of a tile. */
kiln_sched_int kiln_tile_panel(const kiln_tiling *t);
/* Whether weights that change from run to run can be read in place: lanes are contiguous, and the
 * instruction's steps are joined in registers, which is faster than a copy. */
bool kiln_tile_reads_in_place(const kiln_tiling *t);
/* Pads the results to whole panels. */
void kiln_tile_pad_lanes(kiln_tiling *t);
/* Packed copy of the weights in reading order; tails of v are zeros. 0: none is made. */
kiln_buffer kiln_tile_pack_weights(kiln_tiling *t);
/* Gives the data, and the argument of which it is a copy, blocks of `size` along iterator `iter`.
 * Returns the block that makes the padded copy; 0: the data is no copy. */
kiln_block kiln_tile_block_data(kiln_tiling *t, int iter, kiln_sched_int size);
/* The same along v for the follower's result, and for other arguments that it reads element by
 * element. `size` NULL: one is sampled. */
void kiln_tile_block_output(kiln_tiling *t, kiln_block follower, const kiln_sched_int *size);
/* In tiles: the results become a copy of the reduction's tiles. False: impossible. */
bool kiln_tile_store_tiles(kiln_tiling *t);
/* The accumulators become registers, or tiles: lanes innermost, so that each vector is one
 * register.
 */
void kiln_tile_place_accumulators(kiln_tiling *t);

/* ---- the nest: tile_nest.c ---- */

/* Splits the reduction's loops and orders them. Returns the loops outside of the reduction.
 */
kiln_sched_loops kiln_tile_make_nest(kiln_tiling *t);
/* The outermost loop of the reduction, before which its results are initialised. */
kiln_sched_loop kiln_tile_first_reduce_loop(const kiln_tiling *t);
/* Vectorises lanes, and unrolls points and steps. */
void kiln_tile_unroll(kiln_tiling *t);
/* Makes lanes and their steps the instruction, and vectorises the initial values. `init`: the block
 * that decompose_reduction made. */
void kiln_tile_tensorize(kiln_tiling *t, kiln_block init);
/* Prefetches weights: while tiles use one panel, each block of steps fetches a share of the next,
 * or each step does, where the taps around them will be cut. */
void kiln_tile_fetch_ahead(kiln_tiling *t, kiln_buffer packed, bool cuts_taps);

/* ---- the padded copy of the data: tile_pad.c ---- */

/* Whether data can be read in place, so that the sketch with a copy is a separate one. */
bool kiln_tile_reads_source(const kiln_tiling *t, kiln_block copy);
/* `outer_count`: loops outside of the reduction. */
void kiln_tile_place_copy(kiln_tiling *t, kiln_block copy, uint32_t outer_count);

/* ---- transforms around the reduction: tile_group.c ---- */

/* Whether `copy`, which makes the data, and the reader of the results of `follower` are transforms
 * in two blocks each, of rows and columns of tiles. */
bool kiln_tile_has_groups(const kiln_tiling *t, kiln_block copy, kiln_block follower);
/* Puts the reduction, `copy` and `follower` into a loop over groups of rows of tiles, so that
 * transformed data stays in the second cache. Call it before the nest is made. False:
 * impossible. */
bool kiln_tile_group(kiln_tiling *t, kiln_block copy, kiln_block follower);

/* ---- readers of the reduction: tile_follow.c ---- */

/* Places the follower at the tile: lanes contiguous, the rest unrolled because registers have no
 * address. False: impossible. */
bool kiln_tile_place_follower(kiln_tiling *t, kiln_block follower, kiln_sched_loop at);
/* Places the copy from tiles before it, tile by tile. False: as above. */
bool kiln_tile_place_stored(kiln_tiling *t, kiln_sched_loop at);

#endif
