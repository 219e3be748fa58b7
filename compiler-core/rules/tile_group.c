/* A reduction between transforms: its operand is transformed, and its results are transformed back,
 * in groups of rows of tiles, so that a group stays in the second cache. */
#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/rules/tile.h"

#define SIZES_MAX 16
#define NEAR_CACHES 4   /* share of one kernel in the third cache, in second caches */
#define WAITING_MAX 0.1 /* costs less than fetching from each other's caches */

static double bytes_of(const kiln_tiling *t, kiln_buffer buffer) {
    const kiln_buffer_info *b = &t->s->program->buffer.data[buffer];
    return (double)kiln_shape_count(&b->shape) * (double)kiln_dtype_size(b->dtype);
}

/* The iterator of the register tile that is divided into groups: rows of tiles, or of a matrix.
 */
static int rows_of(const kiln_tiling *t) { return t->mh >= 0 ? t->mh : t->mw; }

/* The same as an element of t->tile. */
static uint32_t rows_element(const kiln_tiling *t) { return t->mh >= 0 ? 0 : 1; }

/* Sizes of groups. */
typedef struct group_sizes {
    int64_t rows; /* of tiles, in an image */
    int64_t images;
    double row_bytes; /* transformed data and products of one row */
    bool shared;      /* threads share the groups */
} group_sizes;

/* How long threads wait at the end of groups of so many register tiles. */
static double waiting(const kiln_tiling *t, const group_sizes *g, int64_t tiles) {
    const int64_t rows = KILN_MAX(kiln_sched_decided(t->s, t->tile, rows_element(t)), 1) * tiles;
    const int64_t groups = (g->rows + rows - 1) / rows * g->images;
    return g->shared ? kiln_sketch_waiting(groups, t->s->target->threads) : 0;
}

/* With groups divided among threads, transformed data stays with its thread; with the inside of
 * groups divided, threads fetch a part of it from each other, but are equally busy with any number
 * of rows. Two threads: 55x55 16->64 95 and 185 us, 112x112 64->128 1.67 and 2.18 ms, 56x56x64 228
 * and 218 us; 28x28x128 (7 rows) 196 and 161 us. */
static bool shares_groups(const kiln_tiling *t, group_sizes g) {
    g.shared = true;
    return waiting(t, &g, 1) <= WAITING_MAX;
}

/* Whether a group stays in the second cache. */
static bool fits(const kiln_tiling *t, const group_sizes *g, int64_t tiles) {
    const double rows = (double)(KILN_MAX(kiln_sched_decided(t->s, t->tile, rows_element(t)), 1) *
                                 tiles),
                 caches = g->shared ? 1 : t->s->target->threads;
    return rows * g->row_bytes <= t->s->target->l2_bytes / 2.0 * caches;
}

/* Whether one group of all rows is better, because each group reads the weights again: from beyond
 * the second cache, if the third one surely holds the transformed data, or more than twice as many
 * bytes. In one group 512x512 by 512x512 takes 970 us by Strassen's products, in eight 1,017. */
static bool prefers_one(const kiln_tiling *t, const group_sizes *g) {
    const double weights = kiln_tile_operand_bytes(t, t->weights), l2 = t->s->target->l2_bytes;
    return weights > (g->row_bytes * (double)g->rows > NEAR_CACHES * l2 ? 2 * l2 : l2);
}

/* Register tiles in the rows of a group. As many rows as leave half of the second cache to other
 * data, unless groups cost too much. If groups are divided among threads, these should be equally
 * busy. */
static kiln_sched_sample sample_rows(kiln_tiling *t, const group_sizes *g) {
    int64_t value[SIZES_MAX];
    uint32_t count = 0, preferred = 0;
    const bool one = prefers_one(t, g);
    double least = 1;
    for (int64_t i = 1; i <= g->rows && count < SIZES_MAX; i++) {
        if (i > 4 && i < g->rows && (g->rows % i != 0 || count + 1 == SIZES_MAX)) continue;
        if (waiting(t, g, i) <= least && (i == 1 || one || fits(t, g, i))) {
            preferred = count;
            least = waiting(t, g, i);
        }
        value[count++] = i;
    }
    return kiln_sched_categorical(t->s, value, count, preferred);
}

/* Whether the last dimensions of the results are rows and columns of tiles, or a matrix. */
static bool runs_over_rows(const kiln_tiling *t) {
    const int rank = (int)kiln_tile_rank(t, &t->pattern.to), rows = rows_of(t),
              last = t->mh >= 0 ? t->mw : t->v;
    return rows >= 0 && t->pattern.to.dim_of[rows] == rank - 2 &&
           t->pattern.to.dim_of[last] == rank - 1;
}

/* Whether iterator i runs over images: it indexes data and results only, and is not in the tile. */
static bool is_batch(const kiln_tiling *t, int i) {
    return kiln_tile_has(t->pattern.spatial, i) && i != t->v && i != t->mh && i != t->mw &&
           !kiln_tile_has(t->pattern.from[t->weights].iters, i);
}

/* Images of a batch, each of which has its own groups. */
static int64_t images(const kiln_tiling *t) {
    int64_t count = 1;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (is_batch(t, i)) count *= kiln_tile_extent(t, i);
    return count;
}

/* Whether transforms have lanes over channels, not over a batch of the same length: then loops over
 * channels would be around the groups. */
static bool has_lanes_of_channels(const kiln_tiling *t) {
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (is_batch(t, i) && kiln_tile_extent(t, i) > 1 &&
            kiln_tile_extent(t, i) >=
                KILN_MIN(kiln_tile_extent(t, t->v), kiln_tile_extent(t, t->k)))
            return false;
    return true;
}

bool kiln_tile_has_groups(const kiln_tiling *t, kiln_block copy, kiln_block follower) {
    kiln_program *p = t->s->program;
    const kiln_buffer results = p->block.data[follower].buffer;
    const kiln_block reader = kiln_sketch_transform_of(p, results);
    return t->packs && runs_over_rows(t) && has_lanes_of_channels(t) && copy && reader &&
           kiln_sketch_picks(p, copy, NULL) &&
           (!kiln_block_reads(p, reader, results) || !kiln_sketch_has_borders(p, copy));
}

bool kiln_tile_group(kiln_tiling *t, kiln_block copy, kiln_block follower) {
    kiln_sched *s = t->s;
    const kiln_buffer results = s->program->block.data[follower].buffer;
    const kiln_block reader = kiln_sketch_transform_of(s->program, results);
    group_sizes g = {.rows = kiln_tile_extent(t, rows_of(t)), .images = images(t)};
    g.row_bytes =
        (kiln_tile_operand_bytes(t, t->data) + bytes_of(t, results)) / (double)(g.rows * g.images);
    g.shared = shares_groups(t, g) != t->options.other_shares;
    const kiln_sched_int rows = kiln_sched_times(kiln_sched_element(t->tile, rows_element(t)),
                                                 kiln_sched_element(sample_rows(t, &g), 0));
    t->groups = kiln_sketch_transform_in_groups(s, reader, rows, g.shared);
    if (kiln_sched_loop_is_none(t->groups) ||
        !kiln_sched_compute_at(kiln_sched_try(s), follower, t->groups) ||
        !kiln_sched_compute_at(kiln_sched_try(s), t->block, t->groups))
        return false;
    kiln_tile_pad_lanes(t); /* before, compute_at would have cut the padding off again */
    return kiln_sched_compute_at(kiln_sched_try(s), copy, t->groups) &&
           kiln_sketch_transform(s, copy, t->groups);
}
