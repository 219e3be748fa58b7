/* A reduction between transforms: what it reads is transformed, and its results are transformed
 * back, in groups of rows of tiles, so that a group stays in the second cache. */
#include "compiler-core/facts/loads.h"
#include "compiler-core/rules/tile.h"

#define SIZES_MAX 16

static double bytes_of(const kiln_tiling *t, kiln_buffer buffer) {
    const kiln_buffer_info *b = &t->s->program->buffer.data[buffer];
    return (double)kiln_shape_count(&b->shape) * (double)kiln_dtype_size(b->dtype);
}

/* Register tiles in the rows of a group. All rows are preferred where the weights come from beyond
 * the second cache, because each group reads them anew; else as many as leave half of it to other
 * data. */
static kiln_sched_sample sample_rows(kiln_tiling *t, kiln_buffer results, int64_t rows) {
    const double cache = t->s->target->l2_bytes,
                 row = (kiln_tile_operand_bytes(t, t->data) + bytes_of(t, results)) / (double)rows;
    const bool streams = kiln_tile_operand_bytes(t, t->weights) > 2 * cache;
    int64_t value[SIZES_MAX];
    uint32_t count = 0, preferred = 0;
    for (int64_t i = 1; i <= rows && count < SIZES_MAX; i++) {
        if (i > 4 && i < rows && (rows % i != 0 || count + 1 == SIZES_MAX)) continue;
        if (i == 1 || (streams ? i == rows : (double)i * row <= cache / 2)) preferred = count;
        value[count++] = i;
    }
    return kiln_sched_categorical(t->s, value, count, preferred);
}

/* Whether rows and columns of the register tile are those of tiles, the last of the results. */
static bool runs_over_tiles(const kiln_tiling *t) {
    const int rank = (int)kiln_tile_rank(t, &t->pattern.to);
    return t->mh >= 0 && t->mw >= 0 && t->pattern.to.dim_of[t->mh] == rank - 2 &&
           t->pattern.to.dim_of[t->mw] == rank - 1;
}

/* Whether an iterator of more than one value, a batch, runs over data alone beside the tile. */
static bool has_batch(const kiln_tiling *t) {
    const kiln_block_access *weights = &t->pattern.from[t->weights];
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (kiln_tile_has(t->pattern.spatial, i) && i != t->v && i != t->mh && i != t->mw &&
            weights->dim_of[i] < 0 && kiln_tile_extent(t, i) > 1)
            return true;
    return false;
}

bool kiln_tile_has_groups(const kiln_tiling *t, kiln_block copy, kiln_block follower) {
    kiln_program *p = t->s->program;
    const kiln_buffer results = p->block.data[follower].buffer;
    const kiln_block reader = kiln_sketch_transform_of(p, results);
    return t->s->target->threads == 1 && t->packs && runs_over_tiles(t) && !has_batch(t) && copy &&
           reader && kiln_sketch_picks(p, copy, NULL) && !kiln_block_reads(p, reader, results);
}

bool kiln_tile_group(kiln_tiling *t, kiln_block copy, kiln_block follower) {
    kiln_sched *s = t->s;
    const kiln_buffer results = s->program->block.data[follower].buffer;
    const kiln_block reader = kiln_sketch_transform_of(s->program, results);
    const kiln_sched_int rows = kiln_sched_times(
        kiln_sched_element(t->tile, 0),
        kiln_sched_element(sample_rows(t, results, kiln_tile_extent(t, t->mh)), 0));
    const kiln_sched_loop groups = kiln_sketch_transform_in_groups(s, reader, rows);
    return !kiln_sched_loop_is_none(groups) &&
           kiln_sched_compute_at(kiln_sched_try(s), follower, groups) &&
           kiln_sched_compute_at(kiln_sched_try(s), t->block, groups) &&
           kiln_sched_compute_at(kiln_sched_try(s), copy, groups) && kiln_sketch_transform(s, copy);
}
