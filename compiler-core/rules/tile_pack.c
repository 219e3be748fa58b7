/* Layouts around a register tile: packed weights, blocked data and results, accumulators. */
#include "compiler-core/facts/loads.h"
#include "compiler-core/rules/tile.h"

/* ---- weights ---- */

/* Whether the reduction reads only every so many elements along a dimension of the weights. */
static bool is_strided(const kiln_tiling *t, const kiln_block_access *w, uint32_t d) {
    int64_t extent = t->s->program->buffer.data[w->buffer].shape.dim[d];
    return w->step[d] > 1 && extent % w->step[d] == 0;
}

/* Whether the dimension corresponds to one of the results: each of its elements has separate
 * weights, as points of transforms and groups of channels have. */
static bool is_apart(const kiln_tiling *t, const kiln_block_access *w, uint32_t d) {
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX && !is_strided(t, w, d); i++)
        if (i != t->v && kiln_tile_has(t->pattern.spatial, i) && w->dim_of[i] == (int)d)
            return true;
    return false;
}

kiln_sched_int kiln_tile_panel(const kiln_tiling *t) {
    return kiln_sched_times(kiln_sched_element(t->tile, 2), kiln_sched_const(t->lanes));
}

/* Dimensions with separate weights are outermost, so that these are contiguous: with points of
 * transforms inside of panels a walk through the reduction would jump from page to page. Then
 * panels of {0} weights along v, and in them the order of the nest: blocks of {1} steps of k inside
 * or outside of the taps, then step by step a row of the panel. An instruction takes several
 * contiguous steps of each lane, of k or of the tap; a block of k has {2} times as many. `blocks`:
 * of k; without them its steps are contiguous in their place. */
static kiln_layout packed_layout(const kiln_tiling *t, const kiln_block_access *w, bool blocks) {
    kiln_layout layout = {0};
    const uint32_t rank = kiln_tile_rank(t, w), dv = (uint32_t)w->dim_of[t->v];
    const int dk = t->k < 0 ? -1 : w->dim_of[t->k], ds = !t->dot    ? -1
                                                         : t->packs ? dk
                                                                    : w->dim_of[t->tap];
    const bool taps_outside = t->options.taps_outside;
    const int64_t of_block = blocks ? KILN_SCHED_GIVEN(1) : 0,
                  of_words = blocks ? KILN_SCHED_GIVEN(2) : 0;
    for (uint32_t d = 0; d < rank; d++)
        if (is_apart(t, w, d)) kiln_sketch_add_piece(&layout, d, 1, 0);
    kiln_sketch_add_piece(&layout, dv, KILN_SCHED_GIVEN(0), 0);
    for (uint32_t d = 0; d < rank; d++) /* a walk through the reduction skips most of these */
        if (is_strided(t, w, d)) kiln_sketch_add_piece(&layout, d, w->step[d], 0);
    for (uint32_t d = 0; d < rank; d++)
        if (is_strided(t, w, d)) kiln_sketch_add_piece(&layout, d, 1, w->step[d]);
    if (dk >= 0 && blocks && !taps_outside)
        kiln_sketch_add_piece(&layout, (uint32_t)dk, KILN_SCHED_GIVEN(1), 0);
    for (uint32_t d = 0; d < rank; d++)
        if (d != dv && (int)d != dk && !is_strided(t, w, d) && !is_apart(t, w, d))
            kiln_sketch_add_piece(&layout, d, (int)d == ds ? kiln_tile_word(t) : 1, 0);
    if (dk >= 0 && blocks && taps_outside)
        kiln_sketch_add_piece(&layout, (uint32_t)dk, KILN_SCHED_GIVEN(1), 0);
    if (t->dot && t->packs)
        kiln_sketch_add_piece(&layout, (uint32_t)dk, kiln_tile_word(t), of_words);
    else if (dk >= 0)
        kiln_sketch_add_piece(&layout, (uint32_t)dk, 1, of_block);
    kiln_sketch_add_piece(&layout, dv, 1, KILN_SCHED_GIVEN(0));
    if (ds >= 0) kiln_sketch_add_piece(&layout, (uint32_t)ds, 1, kiln_tile_word(t));
    return layout;
}

bool kiln_tile_reads_in_place(const kiln_tiling *t) {
    kiln_program *p = t->s->program;
    if (t->weights < 0 || !t->dot || !t->packs || t->dot->rows > 1) return false;
    const kiln_block_access *w = &t->pattern.from[t->weights];
    const kiln_buffer_info *b = &p->buffer.data[w->buffer];
    const kiln_block producer = kiln_program_producer(p, w->buffer);
    return b->role != KILN_ROLE_CONSTANT && kiln_layout_is_identity(&b->layout) &&
           w->dim_of[t->v] + 1 == (int)b->shape.rank && kiln_tile_extent(t, t->v) % t->lanes == 0 &&
           (!producer || !kiln_block_reads_only_constants(p, producer));
}

void kiln_tile_pad_lanes(kiln_tiling *t) {
    kiln_sched_pad(kiln_sched_try(t->s), t->block, (uint32_t)t->v, kiln_tile_panel(t));
}

kiln_buffer kiln_tile_pack_weights(kiln_tiling *t) {
    if (t->weights < 0) return 0;
    kiln_sched *s = t->s;
    const kiln_block_access w = t->pattern.from[t->weights];
    if (kiln_tile_reads_in_place(t) && !t->options.packed) return 0;
    kiln_block copy =
        kiln_sched_cache_read(kiln_sched_try(s), t->block, w.buffer, KILN_SCOPE_GLOBAL);
    if (!copy) return 0;
    kiln_buffer packed = s->program->block.data[copy].buffer;
    bool whole_vectors = kiln_tile_can_pad(t) || kiln_tile_extent(t, t->v) % t->lanes == 0;
    const kiln_sched_int panel =
        whole_vectors ? kiln_tile_panel(t) : kiln_sched_const(kiln_tile_extent(t, t->v));
    if (kiln_tile_can_pad(t))
        kiln_sched_pad(kiln_sched_try(s), copy, (uint32_t)w.dim_of[t->v], panel);
    kiln_layout layout = packed_layout(t, &w, true);
    uint32_t given_count = t->dot && t->packs ? 3 : 2;
    if (layout.piece_count > KILN_RANK_MAX) {
        layout = packed_layout(t, &w, false);
        given_count = 1;
    }
    const kiln_sched_int given[] = {panel, kiln_sched_element(t->steps, 0),
                                    kiln_sched_element(t->steps, 3)};
    if (layout.piece_count <= KILN_RANK_MAX)
        kiln_sched_transform_layout(kiln_sched_try(s), packed, &layout, given, given_count);
    if (s->program->buffer.data[w.buffer].role != KILN_ROLE_CONSTANT)
        kiln_sketch_finish_block(s, copy);
    return packed;
}

/* ---- data and results ---- */

/* Channels that become words of bits are contiguous in their source. */
static void block_below_words(kiln_tiling *t, kiln_block copy) {
    kiln_program *p = t->s->program;
    kiln_pattern pattern;
    if (!kiln_pattern_of(p, copy, &pattern)) return;
    for (uint32_t a = 0; a < pattern.from_count; a++) {
        const kiln_block_access *x = &pattern.from[a];
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
            if (kiln_tile_has(pattern.reduce, i) && x->dim_of[i] >= 0)
                kiln_sketch_block_buffer(
                    t->s, x->buffer, x->dim_of[i],
                    kiln_tile_channels(t, p->buffer.data[x->buffer].shape.dim[x->dim_of[i]]));
    }
}

kiln_block kiln_tile_block_data(kiln_tiling *t, int iter, kiln_sched_int size) {
    kiln_program *p = t->s->program;
    const kiln_block_access x = t->pattern.from[t->data];
    kiln_block copy = kiln_program_producer(p, x.buffer);
    int dim = iter < 0 ? -1 : x.dim_of[iter], source = -1;
    if (copy && kiln_block_packs_bits(p, copy)) { /* at the root, in vectors of its own */
        kiln_sketch_block_buffer(t->s, x.buffer, dim, size);
        block_below_words(t, copy);
        return 0;
    }
    if (dim >= 0 && dim + 1 < (int)kiln_tile_rank(t, &x))
        kiln_sketch_block_buffer(t->s, x.buffer, dim, size);
    kiln_pattern pattern;
    if (!copy || !kiln_pattern_of(p, copy, &pattern)) return copy;
    if (kiln_block_is_reduction(p, copy)) return 0;
    for (uint32_t a = 0; a < pattern.from_count; a++) {
        kiln_block maker = kiln_program_producer(p, pattern.from[a].buffer);
        if (maker && kiln_block_is_reduction(p, maker)) return 0; /* the result of another tile */
    }
    if (pattern.from_count != 1) return copy;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (dim >= 0 && pattern.to.dim_of[i] == dim) source = pattern.from[0].dim_of[i];
    kiln_sketch_block_buffer(t->s, pattern.from[0].buffer, source, size);
    return copy;
}

static bool feeds_reduction(kiln_program *p, kiln_buffer buffer) {
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    uint32_t count = kiln_buffer_readers(p, buffer, reader);
    for (uint32_t i = 0; i < count; i++)
        if (kiln_block_is_reduction(p, reader[i])) return true;
    return false;
}

void kiln_tile_block_output(kiln_tiling *t, kiln_block follower, const kiln_sched_int *size) {
    kiln_program *p = t->s->program;
    kiln_pattern pattern;
    if (!kiln_pattern_of(p, follower, &pattern)) return;
    int lanes_iter = kiln_tile_lanes_of(t, &pattern);
    if (lanes_iter < 0 || feeds_reduction(p, pattern.to.buffer)) return;
    int dim = pattern.to.dim_of[lanes_iter];
    if (dim < 0 || dim + 1 == (int)kiln_tile_rank(t, &pattern.to)) return;
    const kiln_sched_int block =
        size ? *size
             : kiln_sched_element(
                   kiln_tile_sample_block(t, p->buffer.data[pattern.to.buffer].shape.dim[dim]), 0);
    kiln_sketch_block_buffer(t->s, pattern.to.buffer, dim, block);
    for (uint32_t a = 0; a < pattern.from_count; a++) {
        const kiln_block_access *x = &pattern.from[a];
        if (kiln_tile_role(t, x) == KILN_ROLE_INPUT && x->buffer != t->pattern.from[t->data].buffer)
            kiln_sketch_block_buffer(t->s, x->buffer, x->dim_of[lanes_iter], block);
    }
}

bool kiln_tile_store_tiles(kiln_tiling *t) {
    t->stored = kiln_sched_cache_write(kiln_sched_try(t->s), t->block, KILN_SCOPE_TILE);
    return t->stored != 0;
}

/* Lanes of the results become the innermost dimension of a buffer. */
static void put_lanes_innermost(kiln_tiling *t, kiln_buffer buffer) {
    const uint32_t rank = kiln_tile_rank(t, &t->pattern.to);
    const uint32_t lanes_dim = (uint32_t)t->pattern.to.dim_of[t->v];
    if (lanes_dim + 1 == rank) return;
    kiln_layout layout = {0};
    for (uint32_t d = 0; d < rank; d++)
        if (d != lanes_dim) kiln_sketch_add_piece(&layout, d, 1, 0);
    kiln_sketch_add_piece(&layout, lanes_dim, 1, 0);
    kiln_sched_transform_layout(t->s, buffer, &layout, NULL, 0);
}

void kiln_tile_place_accumulators(kiln_tiling *t) {
    const kiln_program *p = t->s->program;
    const kiln_buffer buffer = p->block.data[t->block].buffer;
    if (t->stored)
        put_lanes_innermost(t, p->block.data[t->stored].buffer);
    else
        kiln_sched_set_scope(t->s, buffer, KILN_SCOPE_REGISTER);
    put_lanes_innermost(t, buffer);
}
