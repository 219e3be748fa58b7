/* The nest of a product by instructions of warps, or of warp groups, from tables of sizes. */
#include "base/macros.h"
#include "compiler-core/rules/gpu_warp.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

static kiln_sched_int warps_of(const kiln_gpu_tiling *t, uint32_t n) {
    return kiln_sched_element(t->tile, 2 * n);
}
static kiln_sched_int pieces_of(const kiln_gpu_tiling *t, uint32_t n) {
    return kiln_sched_element(t->tile, 2 * n + 1);
}

static void sample_sizes(kiln_gpu_warp_tiling *w) {
    kiln_gpu_tiling *t = &w->t;
    int64_t table[KILN_GPU_ROWS_MAX][KILN_GPU_WARP_COLUMNS];
    for (uint32_t r = 0; r < t->row_count; r++) {
        for (uint32_t n = 0; n < KILN_GPU_TILED_MAX; n++) {
            table[r][2 * n] = n < t->tiled ? t->row[r].threads[n] : 1;
            table[r][2 * n + 1] = n < t->tiled ? t->row[r].points[n] / w->unit[n] : 1;
        }
        const uint32_t last = t->tiled - 1;
        kiln_gpu_warp_exchange(t->row[r].threads[last] * t->row[r].points[last] *
                                   t->operand[0].bytes,
                               &table[r][KILN_GPU_WARP_WAYS], &table[r][KILN_GPU_WARP_STEP]);
    }
    t->tile = kiln_sched_choice(t->s, KILN_GPU_WARP_COLUMNS, table[0], t->row_count, t->preferred);
    t->steps = kiln_sched_choice(t->s, KILN_GPU_WARP_STEP_COLUMNS, w->step[0], w->step_count,
                                 w->preferred_step);
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Other dimensions, then the two that instructions read. Warp groups read contiguous rows or
 * columns in stretches of a row's length, each with all steps. */
static void lay_out(kiln_gpu_warp_tiling *w, uint32_t a, kiln_buffer buffer) {
    const kiln_gpu_operand *o = &w->t.operand[a];
    const int before = w->k_inside[a] ? w->tile_dim[a] : w->k_dim[a];
    const int64_t row = kiln_gpu_warp_is_grouped(w) && !w->k_inside[a] &&
                                w->t.s->program->buffer.data[buffer].scope == KILN_SCOPE_SHARED
                            ? KILN_GROUP_ROW_BYTES / o->bytes
                            : 0;
    kiln_layout layout = {0};
    for (uint32_t d = 0; d < o->rank; d++)
        if ((int)d != o->along && (int)d != before) kiln_sketch_add_piece(&layout, d, 1, 0);
    if (row) kiln_sketch_add_piece(&layout, (uint32_t)o->along, row, 0);
    kiln_sketch_add_piece(&layout, (uint32_t)before, 1, 0);
    kiln_sketch_add_piece(&layout, (uint32_t)o->along, 1, row);
    if (!kiln_layout_is_identity(&layout))
        kiln_sched_transform_layout(kiln_sched_try(w->t.s), buffer, &layout, NULL, 0);
}

/* Permutes units of 16 bytes, or pads rows that windows read by a unit. */
static void swizzle(kiln_gpu_warp_tiling *w, uint32_t a, kiln_buffer shared) {
    kiln_gpu_tiling *t = &w->t;
    const kiln_sched_int unit = kiln_sched_const(KILN_GPU_WARP_UNIT_BYTES / t->operand[a].bytes),
                         none = kiln_sched_const(0), one = kiln_sched_const(1);
    kiln_sched_int pitch = none, ways, step;
    if (w->slides[a]) {
        pitch = unit;
        ways = step = one;
    } else if (kiln_gpu_warp_is_grouped(w)) {
        ways = kiln_sched_const(KILN_GROUP_WAYS);
        step = one;
    } else if (w->k_inside[a]) {
        ways = kiln_sched_element(t->steps, KILN_GPU_WARP_K_WAYS);
        step = kiln_sched_element(t->steps, KILN_GPU_WARP_K_STEP);
    } else {
        ways = kiln_sched_element(t->tile, KILN_GPU_WARP_WAYS);
        step = kiln_sched_element(t->tile, KILN_GPU_WARP_STEP);
    }
    kiln_sched_swizzle(kiln_sched_try(t->s), shared, pitch, unit, ways, step);
}

static kiln_block copy_operand(kiln_gpu_warp_tiling *w, uint32_t a) {
    kiln_gpu_tiling *t = &w->t;
    kiln_sched *s = t->s;
    kiln_gpu_operand *o = &t->operand[a];
    if (w->packed[a]) {
        const kiln_block packed =
            kiln_sched_cache_read(kiln_sched_try(s), t->block, o->buffer, KILN_SCOPE_GLOBAL);
        if (!packed) return 0;
        o->buffer = s->program->block.data[packed].buffer;
        o->packing = packed; /* distributed to threads after the others are placed */
        lay_out(w, a, o->buffer);
    }
    const kiln_block copy = kiln_gpu_copy_operand(t, o);
    if (!copy) return 0;
    const kiln_buffer shared = s->program->block.data[copy].buffer;
    lay_out(w, a, shared);
    swizzle(w, a, shared);
    return copy;
}

static void pad_tiles(kiln_gpu_warp_tiling *w) {
    kiln_gpu_tiling *t = &w->t;
    for (uint32_t n = 0; n < t->tiled; n++)
        kiln_sched_pad(kiln_sched_try(t->s), t->block, (uint32_t)t->iter[n],
                       kiln_sched_times(kiln_sched_times(warps_of(t, n), pieces_of(t, n)),
                                        kiln_sched_const(w->unit[n])));
    if (t->steps_most > kiln_gpu_extent(t, t->k))
        kiln_sched_pad(kiln_sched_try(t->s), t->block, (uint32_t)t->k,
                       kiln_sched_element(t->steps, KILN_GPU_WARP_BLOCK));
}

#define CLUSTER_MAX 2 /* groups */

/* ---- nests ----------------------------------------------------------------------------------- */

/* The loops of one iterator of the tile. None where the instruction has none. */
typedef struct split_iter {
    kiln_sched_loop grid, warps, pieces;
    kiln_sched_loop quarters, lanes; /* of the instruction: its warps, and threads of one */
    kiln_sched_loop tiles, sums;     /* and the sums of one of them */
} split_iter;

/* Sizes that a loop is split into, and where the loops of each go. */
typedef struct loop_parts {
    uint32_t count;
    kiln_sched_int size[6];
    kiln_sched_loop *to[6];
} loop_parts;

static void add_part(loop_parts *parts, kiln_sched_loop *to, kiln_sched_int size) {
    parts->to[parts->count] = to;
    parts->size[parts->count++] = size;
}

/* Rows of an instruction are split over its warps, the sums of a thread, and its threads; columns,
 * of which a warp group's has many, over tiles, threads, and sums. */
static split_iter split(kiln_gpu_warp_tiling *w, kiln_sched_loop loop, uint32_t n, bool grid) {
    kiln_gpu_tiling *t = &w->t;
    const bool rows = n == 0, columns = n + 1 == t->tiled, grouped = kiln_gpu_warp_is_grouped(w);
    split_iter out = {0};
    loop_parts parts = {0};
    if (grid) add_part(&parts, &out.grid, kiln_sched_rest());
    add_part(&parts, &out.warps, warps_of(t, n));
    add_part(&parts, columns && grouped ? &out.tiles : &out.pieces, pieces_of(t, n));
    if (rows && grouped) add_part(&parts, &out.quarters, kiln_sched_const(KILN_GROUP_WARPS));
    if (rows) {
        add_part(&parts, &out.sums, kiln_sched_const(KILN_WARP_ROWS));
        add_part(&parts, &out.lanes, kiln_sched_const(KILN_WARP_LANES / KILN_WARP_GROUP));
    } else if (columns) {
        add_part(&parts, &out.lanes, kiln_sched_const(KILN_WARP_GROUP));
        add_part(&parts, &out.sums, kiln_sched_const(KILN_WARP_COLUMNS));
    }
    const kiln_sched_loops loops = kiln_sched_split(t->s, loop, parts.size, parts.count);
    for (uint32_t i = 0; i < parts.count && i < loops.count; i++) *parts.to[i] = loops.loop[i];
    return out;
}

static bool bind_all(kiln_sched *s, const kiln_sched_loops *loops, kiln_loop_axis axis,
                     kiln_sched_loop *out) {
    *out = loops->count > 1 ? kiln_sched_fuse(kiln_sched_try(s), loops) : loops->loop[0];
    return !kiln_sched_loop_is_none(*out) && kiln_sched_bind(kiln_sched_try(s), *out, axis);
}

static void add_all(kiln_sched_loops *to, const kiln_sched_loops *from) {
    for (uint32_t i = 0; i < from->count; i++) kiln_sched_loops_add(to, from->loop[i]);
}

static void unroll_all(kiln_sched *s, const kiln_sched_loops *loops) {
    for (uint32_t i = 0; i < loops->count; i++)
        kiln_sched_unroll(kiln_sched_try(s), loops->loop[i]);
}

/* The loops that all nests of the tile have, outermost first. */
typedef struct tile_loops {
    kiln_sched_loops grid, warps, quarters, lanes, pieces;
    kiln_sched_loops sums; /* rows, tiles of columns, columns */
} tile_loops;

static void add_split(tile_loops *all, const split_iter *one) {
    kiln_sched_loops_add(&all->grid, one->grid);
    kiln_sched_loops_add(&all->warps, one->warps);
    kiln_sched_loops_add(&all->quarters, one->quarters);
    kiln_sched_loops_add(&all->lanes, one->lanes);
    kiln_sched_loops_add(&all->pieces, one->pieces);
    kiln_sched_loops_add(&all->sums, one->tiles);
    kiln_sched_loops_add(&all->sums, one->sums);
}

static void add_threads(kiln_sched_loops *to, const tile_loops *all) {
    add_all(to, &all->warps);
    add_all(to, &all->quarters);
    add_all(to, &all->lanes);
}

/* Threads of a warp along x, warps along y; if these are the four of a warp group, warp groups
 * along z. */
static bool bind_threads(kiln_gpu_warp_tiling *w, const tile_loops *all) {
    kiln_sched *s = w->t.s;
    kiln_sched_loop bound;
    const bool grouped = all->quarters.count > 0;
    return bind_all(s, &all->warps, grouped ? KILN_AXIS_THREAD_Z : KILN_AXIS_THREAD_Y, &bound) &&
           (!grouped || bind_all(s, &all->quarters, KILN_AXIS_THREAD_Y, &bound)) &&
           bind_all(s, &all->lanes, KILN_AXIS_THREAD_X, &bound);
}

typedef struct nest {
    kiln_sched_loop tiles, blocks; /* of a group; blocks of the reduction */
    kiln_sched_loop sums;          /* the instruction's outermost loop */
} nest;

/* Groups one below the other, which read the same columns, may be a cluster: columns that come as
 * boxes are then read once for all of them. Takes the cluster's loop out of that of rows. */
static kiln_sched_loop take_cluster(kiln_gpu_warp_tiling *w, kiln_sched_loop *rows) {
    kiln_sched *s = w->t.s;
    const int64_t alone[] = {kiln_sched_extent(s, *rows), 1};
    const kiln_sched_sample drawn = kiln_sched_perfect_tile(s, *rows, 2, CLUSTER_MAX, alone);
    const kiln_sched_loops part = kiln_sched_split(
        s, *rows, KILN_SCHED_INTS(kiln_sched_element(drawn, 0), kiln_sched_element(drawn, 1)));
    *rows = part.loop[0];
    return part.loop[1];
}

/* The cluster's loop comes behind those of groups, in front of a group's own. */
static bool bind_cluster(kiln_gpu_warp_tiling *w, kiln_sched_loop cluster, const nest *at) {
    const kiln_sched_loops order = {2, {cluster, at->tiles}};
    return kiln_sched_reorder(kiln_sched_try(w->t.s), &order) &&
           kiln_sched_bind(kiln_sched_try(w->t.s), cluster, KILN_AXIS_CLUSTER);
}

/* Warp groups may compute several tiles: by default if a producer fetches for the next one while
 * they finish one, and no unit is idle for longer. Single warps fetch nothing ahead across tiles,
 * so they would gain nothing. */
static bool bind_grid(kiln_gpu_warp_tiling *w, const kiln_sched_loops *grid, nest *out) {
    kiln_gpu_tiling *t = &w->t;
    const kiln_sched_loop tiles =
        grid->count > 1 ? kiln_sched_fuse(kiln_sched_try(t->s), grid) : grid->loop[0];
    if (kiln_sched_loop_is_none(tiles)) return false;
    out->tiles = tiles;
    if (!kiln_gpu_warp_is_grouped(w))
        return kiln_sched_bind(kiln_sched_try(t->s), tiles, KILN_AXIS_BLOCK_X);
    const bool produces = w->step[w->preferred_step][KILN_GPU_WARP_PRODUCER] != 0;
    const int64_t groups = t->limits.units * (int64_t)w->resident;
    const int64_t turns =
        produces ? kiln_gpu_least_turns(kiln_sched_extent(t->s, tiles), groups) : 1;
    return kiln_gpu_bind_grid(t, tiles, turns, &out->tiles);
}

static bool make_nest(kiln_gpu_warp_tiling *w, nest *out) {
    kiln_gpu_tiling *t = &w->t;
    kiln_sched *s = t->s;
    const kiln_block_info *b = &s->program->block.data[t->block];
    tile_loops all = {0};
    kiln_sched_loops order, taps = {0};
    kiln_sched_loop cluster = {0};
    uint32_t tiled = 0;
    for (uint32_t n = 0; n < t->tiled; n++) tiled |= 1u << t->iter[n];
    for (int i = 0; i < (int)b->iter_count; i++)
        if (!b->iter[i].reduce && !(tiled >> i & 1))
            kiln_sched_loops_add(&all.grid, kiln_sched_loop_of(s, t->block, (uint32_t)i));
    const uint32_t row = all.grid.count;
    for (int i = 0; i < (int)b->iter_count; i++)
        if (b->iter[i].reduce && i != t->k)
            kiln_sched_loops_add(&taps, kiln_sched_loop_of(s, t->block, (uint32_t)i));
    for (uint32_t n = 0; n < t->tiled; n++) {
        const split_iter one =
            split(w, kiln_sched_loop_of(s, t->block, (uint32_t)t->iter[n]), n, true);
        add_split(&all, &one);
    }
    const kiln_sched_loops block = kiln_sched_split(
        s, kiln_sched_loop_of(s, t->block, (uint32_t)t->k),
        KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(t->steps, KILN_GPU_WARP_BLOCK)));
    const kiln_sched_loops steps = kiln_sched_split(
        s, block.loop[1], KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_const(w->mma->steps)));
    out->blocks = block.loop[0];
    out->sums = all.sums.loop[0];
    if (w->boxes) cluster = take_cluster(w, &all.grid.loop[row]);
    all.grid = kiln_gpu_order_grid(t, &all.grid, row);
    order = all.grid;
    if (w->boxes) kiln_sched_loops_add(&order, cluster);
    kiln_sched_loops_add(&order, out->blocks);
    add_threads(&order, &all);
    add_all(&order, &taps);
    kiln_sched_loops_add(&order, steps.loop[0]);
    add_all(&order, &all.pieces);
    add_all(&order, &all.sums);
    kiln_sched_loops_add(&order, steps.loop[1]);
    if (!kiln_sched_reorder(kiln_sched_try(s), &order)) return false;
    if (all.sums.count > 2) { /* all columns of an instruction */
        const kiln_sched_loops columns = {2, {all.sums.loop[1], all.sums.loop[2]}};
        if (kiln_sched_loop_is_none(kiln_sched_fuse(kiln_sched_try(s), &columns))) return false;
    }
    kiln_sched_unroll(kiln_sched_try(s), steps.loop[0]);
    unroll_all(s, &all.pieces);
    return bind_grid(w, &all.grid, out) && (!w->boxes || bind_cluster(w, cluster, out)) &&
           bind_threads(w, &all);
}

static bool make_sums(kiln_gpu_warp_tiling *w, const nest *at) {
    kiln_sched *s = w->t.s;
    const kiln_block init =
        kiln_sched_decompose_reduction(kiln_sched_try(s), w->t.block, at->blocks);
    if (!init) return false;
    for (int k = 1; k <= 2; k++) /* those of one instruction */
        kiln_sched_unroll(kiln_sched_try(s), kiln_sched_loop_around(s, init, -k));
    return kiln_sched_tensorize(kiln_sched_try(s), at->sums, w->mma);
}

/* Elements are distributed to the threads in the order of memory, 16 contiguous bytes to each if
 * possible. */
static bool place_copy(kiln_gpu_warp_tiling *w, uint32_t a, kiln_block copy, const nest *at) {
    kiln_gpu_tiling *t = &w->t;
    kiln_sched *s = t->s;
    const kiln_gpu_operand *o = &t->operand[a];
    const int before = w->k_inside[a] ? w->tile_dim[a] : w->k_dim[a];
    const bool turned = w->packed[a] || w->gathered[a];
    int64_t width[5];
    uint32_t widths = 0;
    kiln_sched_loops all = {0};
    if (!kiln_sched_compute_at(kiln_sched_try(s), copy, at->blocks)) return false;
    for (uint32_t i = 0; i < s->program->block.data[copy].iter_count; i++)
        if (!turned || ((int)i != o->along && (int)i != before))
            kiln_sched_loops_add(&all, kiln_sched_loop_of(s, copy, i));
    if (turned) {
        kiln_sched_loops_add(&all, kiln_sched_loop_of(s, copy, (uint32_t)before));
        kiln_sched_loops_add(&all, kiln_sched_loop_of(s, copy, (uint32_t)o->along));
        if (!kiln_sched_reorder(kiln_sched_try(s), &all)) return false;
    }
    for (int64_t n = o->fetch; n >= 1 && widths < KILN_ARRAY_COUNT(width); n /= 2)
        width[widths++] = n;
    const kiln_sched_sample fetch = kiln_sched_categorical(s, width, widths, 0);
    const kiln_sched_loop loop =
        all.count > 1 ? kiln_sched_fuse(kiln_sched_try(s), &all) : all.loop[0];
    if (kiln_sched_loop_is_none(loop)) return false;
    kiln_sched_int warps = warps_of(t, 0), part[5];
    for (uint32_t n = 1; n < t->tiled; n++) warps = kiln_sched_times(warps, warps_of(t, n));
    uint32_t count = 0;
    part[count++] = kiln_sched_rest();
    part[count++] = warps;
    if (kiln_gpu_warp_is_grouped(w)) part[count++] = kiln_sched_const(KILN_GROUP_WARPS);
    part[count++] = kiln_sched_const(KILN_WARP_LANES);
    part[count++] = kiln_sched_element(fetch, 0);
    const kiln_sched_loops parts = kiln_sched_split(s, loop, part, count);
    if (parts.count == 0) return false;
    tile_loops threads = {0};
    kiln_sched_loops_add(&threads.warps, parts.loop[1]);
    if (count == 5) kiln_sched_loops_add(&threads.quarters, parts.loop[2]);
    kiln_sched_loops_add(&threads.lanes, parts.loop[count - 2]);
    kiln_sched_loops order = {0};
    add_threads(&order, &threads);
    kiln_sched_loops_add(&order, parts.loop[0]);
    kiln_sched_loops_add(&order, parts.loop[count - 1]);
    kiln_sched_vectorize(kiln_sched_try(s), parts.loop[count - 1]);
    return kiln_sched_reorder(kiln_sched_try(s), &order) && bind_threads(w, &threads);
}

/* Each thread takes its own sums. */
static bool place_follower(kiln_gpu_warp_tiling *w, kiln_block follower, const nest *at) {
    kiln_gpu_tiling *t = &w->t;
    kiln_sched *s = t->s;
    const kiln_buffer sums = s->program->block.data[t->block].buffer;
    kiln_pattern pattern;
    tile_loops all = {0};
    kiln_sched_loops order = {0};
    uint32_t moved = 0;
    if (!kiln_pattern_of(s->program, follower, &pattern)) return false;
    if (!kiln_sched_reverse_compute_at(kiln_sched_try(s), follower, at->tiles)) return false;
    for (uint32_t n = 0; n < t->tiled; n++) {
        const int i = kiln_gpu_follower_iter(t, &pattern, sums, t->iter[n]);
        if (i < 0) return false;
        const split_iter one = split(w, kiln_sched_loop_of(s, follower, (uint32_t)i), n, false);
        add_split(&all, &one);
        moved |= 1u << i;
    }
    add_threads(&order, &all);
    for (uint32_t i = 0; i < s->program->block.data[follower].iter_count; i++)
        if (!(moved >> i & 1)) kiln_sched_loops_add(&order, kiln_sched_loop_of(s, follower, i));
    add_all(&order, &all.pieces);
    add_all(&order, &all.sums);
    if (!kiln_sched_reorder(kiln_sched_try(s), &order)) return false;
    unroll_all(s, &all.pieces);
    for (uint32_t i = 0; i + 1 < all.sums.count; i++)
        kiln_sched_unroll(kiln_sched_try(s), all.sums.loop[i]);
    kiln_sched_vectorize(kiln_sched_try(s), all.sums.loop[all.sums.count - 1]);
    return bind_threads(w, &all);
}

const char *kiln_gpu_warp_block(kiln_gpu_warp_tiling *w) {
    kiln_gpu_tiling *t = &w->t;
    kiln_sched *s = t->s;
    kiln_block copy[KILN_GPU_COPIES_MAX];
    nest n;
    const kiln_block follower = kiln_sketch_separate_result(s, t->block, KILN_SCOPE_REGISTER);
    if (!follower) return "the sums cannot be in a separate buffer";
    if (!kiln_sched_set_scope(kiln_sched_try(s), s->program->block.data[t->block].buffer,
                              KILN_SCOPE_REGISTER))
        return "the sums cannot be in registers";
    if (!kiln_pattern_of(s->program, t->block, &t->pattern)) return "the reduction is gone";
    sample_sizes(w);
    for (uint32_t a = 0; a < t->operand_count; a++) copy[a] = copy_operand(w, a);
    pad_tiles(w);
    if (!make_nest(w, &n)) return "its loops cannot be groups and warps";
    if (!make_sums(w, &n)) return "its sums cannot be the instruction's";
    for (uint32_t a = 0; a < t->operand_count; a++)
        if (!copy[a] || !place_copy(w, a, copy[a], &n))
            return "threads cannot copy the shared operands";
    if (!place_follower(w, follower, &n))
        return "the reader of the sums cannot be in the tile's loops";
    if (!kiln_sched_pipeline(kiln_sched_try(s), n.blocks,
                             kiln_sched_element(t->steps, KILN_GPU_WARP_STAGES)))
        return "blocks of the reduction cannot be fetched ahead";
    kiln_sched_producer(kiln_sched_try(s), n.blocks,
                        kiln_sched_element(t->steps, KILN_GPU_WARP_PRODUCER));
    for (uint32_t a = 0; a < t->operand_count; a++)
        if (t->operand[a].packing) kiln_gpu_spread_block(s, t->operand[a].packing);
    return NULL;
}
