/* The rule "tile" of GPUs: one large reduction. A group computes a tile of rows and columns of the
 * result, each of its threads the sums of some neighbouring points, which stay in registers. Block
 * by block of the reduction, the threads copy elements that several of them read into shared
 * memory. The block that follows the reduction takes the sums from the registers.
 *
 * The loops of a tile's threads are fused and bound to one axis, in all nests alike, so that every
 * nest has whole warps, whatever the shape of the tile is. */
#include <math.h>

#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/rules/gpu.h"

/* Columns of the table of tiles: threads and points of each iterator, lanes, how many parts a
 * thread's points of the iterator with lanes lie in, and threads that copy one step of a plane. */
enum { LANES = 2 * KILN_GPU_TILED_MAX, PARTS, PLANE, COLUMNS };

static kiln_sched_int threads_of(const kiln_gpu_tiling *t, uint32_t n) {
    return kiln_sched_element(t->tile, 2 * n);
}
static kiln_sched_int points_of(const kiln_gpu_tiling *t, uint32_t n) {
    return kiln_sched_element(t->tile, 2 * n + 1);
}
static kiln_sched_int all_threads(const kiln_gpu_tiling *t) {
    kiln_sched_int threads = threads_of(t, 0);
    for (uint32_t n = 1; n < t->tiled; n++) threads = kiln_sched_times(threads, threads_of(t, n));
    return threads;
}

static void sample_sizes(kiln_gpu_tiling *t) {
    int64_t table[KILN_GPU_ROWS_MAX][COLUMNS];
    for (uint32_t r = 0; r < t->row_count; r++) {
        int64_t *row = table[r];
        row[LANES] = t->row[r].lanes;
        row[PARTS] = t->row[r].parts;
        row[PLANE] = t->row[r].plane;
        for (uint32_t n = 0; n < KILN_GPU_TILED_MAX; n++) {
            row[2 * n] = n < t->tiled ? t->row[r].threads[n] : 1;
            row[2 * n + 1] = n < t->tiled ? t->row[r].points[n] : 1;
            if ((int)n == t->vector) row[2 * n + 1] /= row[LANES] * row[PARTS];
        }
    }
    t->tile = kiln_sched_choice(t->s, COLUMNS, table[0], t->row_count, t->preferred);
    t->steps = kiln_sched_choice(t->s, KILN_GPU_STEP_COLUMNS, t->step[0], t->step_count,
                                 t->preferred_step);
}

/* ---- what is computed for whole tiles -------------------------------------------------------- */

kiln_block kiln_gpu_copy_operand(kiln_gpu_tiling *t, const kiln_gpu_operand *o) {
    kiln_sched *s = t->s;
    kiln_program *p = s->program;
    const kiln_block producer = kiln_program_producer(p, o->buffer);
    const bool gathered = p->buffer.data[o->buffer].scope == KILN_SCOPE_SHARED;
    const kiln_block copy =
        gathered ? producer
                 : kiln_sched_cache_read(kiln_sched_try(s), t->block, o->buffer, KILN_SCOPE_SHARED);
    if (!copy) return 0;
    for (uint32_t d = 0; d < o->rank; d++)
        if (o->most[d] > p->buffer.data[o->buffer].shape.dim[d])
            kiln_sched_pad(kiln_sched_try(s), copy, d, kiln_sched_const(o->most[d]));
    if (!gathered && producer && kiln_sketch_padding_of(p, producer))
        kiln_sched_inline(kiln_sched_try(s), producer);
    return copy;
}

/* Elements that neighbours read are innermost. */
static void lay_out(kiln_gpu_tiling *t, const kiln_gpu_operand *o, kiln_buffer copy) {
    kiln_layout layout = {0};
    if (o->along + 1 == (int)o->rank) return;
    for (uint32_t d = 0; d < o->rank; d++)
        if ((int)d != o->along) kiln_sketch_add_piece(&layout, d, 1, 0);
    kiln_sketch_add_piece(&layout, (uint32_t)o->along, 1, 0);
    kiln_sched_transform_layout(kiln_sched_try(t->s), copy, &layout, NULL, 0);
}

/* A constant in another layout is packed once, so that threads copy contiguous elements. The
 * packing block is distributed to threads after the others are placed: a split that does not divide
 * would hide from them that it packs all. */
static bool pack(kiln_gpu_tiling *t, kiln_gpu_operand *o) {
    kiln_sched *s = t->s;
    o->packing = kiln_sched_cache_read(kiln_sched_try(s), t->block, o->buffer, KILN_SCOPE_GLOBAL);
    if (!o->packing) return false;
    o->buffer = s->program->block.data[o->packing].buffer;
    lay_out(t, o, o->buffer);
    return true;
}

/* Rows with gaps between them, or with their vectors exchanged, so that threads that write across
 * rows use different banks. */
static void spread_banks(kiln_gpu_tiling *t, const kiln_gpu_operand *o, kiln_buffer shared) {
    enum { PITCH, WAYS, WIDTH };
    kiln_sched *s = t->s;
    const bool exchanges = o->ways > 1;
    const int64_t way[][WIDTH] = {{0, 1}, {o->pitch, 1}, {0, o->ways}};
    const uint32_t preferred = exchanges && t->exchanged ? 2 : kiln_gpu_is_pitched(o);
    const kiln_sched_int one = kiln_sched_const(1);
    if (!exchanges) {
        const int64_t pitch[] = {0, o->pitch};
        const kiln_sched_sample apart = kiln_sched_categorical(s, pitch, 2, preferred);
        kiln_sched_swizzle(kiln_sched_try(s), shared, kiln_sched_element(apart, 0), one, one, one);
        return;
    }
    const kiln_sched_sample apart = kiln_sched_choice(s, WIDTH, way[0], 3, preferred);
    kiln_sched_swizzle(kiln_sched_try(s), shared, kiln_sched_element(apart, PITCH),
                       kiln_sched_const(o->pitch), kiln_sched_element(apart, WAYS), one);
}

/* The copy in shared memory. */
static kiln_block copy_operand(kiln_gpu_tiling *t, kiln_gpu_operand *o) {
    kiln_sched *s = t->s;
    if (o->packed && !pack(t, o)) return 0;
    const kiln_block copy = kiln_gpu_copy_operand(t, o);
    if (!copy) return 0;
    const kiln_buffer shared = s->program->block.data[copy].buffer;
    lay_out(t, o, shared);
    spread_banks(t, o, shared);
    return copy;
}

/* The reduction runs over whole tiles; elements beyond the result are skipped when it is taken from
 * the registers. */
static void pad_tiles(kiln_gpu_tiling *t) {
    for (uint32_t n = 0; n < t->tiled; n++) {
        kiln_sched_int size = kiln_sched_times(threads_of(t, n), points_of(t, n));
        if ((int)n == t->vector)
            size = kiln_sched_times(size, kiln_sched_times(kiln_sched_element(t->tile, LANES),
                                                           kiln_sched_element(t->tile, PARTS)));
        kiln_sched_pad(kiln_sched_try(t->s), t->block, (uint32_t)t->iter[n], size);
    }
}

/* ---- nests ----------------------------------------------------------------------------------- */

typedef struct nest {
    kiln_sched_loop grid, blocks; /* groups; blocks of the reduction */
} nest;

/* One loop of all of them. */
static kiln_sched_loop fuse_all(kiln_sched *s, const kiln_sched_loops *loops) {
    return loops->count > 1 ? kiln_sched_fuse(kiln_sched_try(s), loops) : loops->loop[0];
}

static bool bind_all(kiln_sched *s, const kiln_sched_loops *loops, kiln_loop_axis axis,
                     kiln_sched_loop *out) {
    *out = fuse_all(s, loops);
    return !kiln_sched_loop_is_none(*out) && kiln_sched_bind(kiln_sched_try(s), *out, axis);
}

/* The loops that all nests of the tile have, outermost first. */
typedef struct tile_loops {
    kiln_sched_loops grid, threads, parts, points;
    kiln_sched_loop lanes;
} tile_loops;

static void split(kiln_gpu_tiling *t, kiln_sched_loop loop, uint32_t n, bool grid,
                  tile_loops *all) {
    const bool vector = (int)n == t->vector;
    kiln_sched_int part[5];
    uint32_t count = 0;
    if (grid) part[count++] = kiln_sched_rest();
    if (vector) part[count++] = kiln_sched_element(t->tile, PARTS);
    part[count++] = threads_of(t, n);
    part[count++] = points_of(t, n);
    if (vector) part[count++] = kiln_sched_element(t->tile, LANES);
    const kiln_sched_loops parts = kiln_sched_split(t->s, loop, part, count);
    const kiln_sched_loop *at = parts.loop;
    if (grid) kiln_sched_loops_add(&all->grid, *at++);
    if (vector) kiln_sched_loops_add(&all->parts, *at++);
    kiln_sched_loops_add(&all->threads, *at++);
    kiln_sched_loops_add(&all->points, *at++);
    if (vector) all->lanes = *at;
}

static void add_all(kiln_sched_loops *to, const kiln_sched_loops *from) {
    for (uint32_t i = 0; i < from->count; i++) kiln_sched_loops_add(to, from->loop[i]);
}

/* Parts as virtual threads, points unrolled, lanes vectorized. */
static void mark_points(kiln_sched *s, const tile_loops *all, bool lanes_lie_so) {
    if (all->parts.count) kiln_sched_vthread(kiln_sched_try(s), all->parts.loop[0]);
    for (uint32_t i = 0; i < all->points.count; i++)
        kiln_sched_unroll(kiln_sched_try(s), all->points.loop[i]);
    if (kiln_sched_loop_is_none(all->lanes)) return;
    if (lanes_lie_so)
        kiln_sched_vectorize(kiln_sched_try(s), all->lanes);
    else
        kiln_sched_unroll(kiln_sched_try(s), all->lanes);
}

static bool make_nest(kiln_gpu_tiling *t, nest *out) {
    kiln_sched *s = t->s;
    const kiln_block_info *b = &s->program->block.data[t->block];
    tile_loops all = {0};
    kiln_sched_loops order;
    kiln_sched_loop thread;
    bool tiled[KILN_BLOCK_ITERS_MAX] = {false};
    for (uint32_t n = 0; n < t->tiled; n++) tiled[t->iter[n]] = true;
    for (int i = 0; i < (int)b->iter_count; i++)
        if (!b->iter[i].reduce && !tiled[i])
            kiln_sched_loops_add(&all.grid, kiln_sched_loop_of(s, t->block, (uint32_t)i));
    const uint32_t row = all.grid.count;
    for (uint32_t n = 0; n < t->tiled; n++)
        split(t, kiln_sched_loop_of(s, t->block, (uint32_t)t->iter[n]), n, true, &all);
    const kiln_sched_loops blocks = kiln_sched_split(
        s, kiln_sched_loop_of(s, t->block, (uint32_t)t->k),
        KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(t->steps, KILN_GPU_BLOCK)));
    const kiln_sched_loops steps = kiln_sched_split(
        s, blocks.loop[1],
        KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(t->steps, KILN_GPU_UNROLLED)));
    out->blocks = blocks.loop[0];
    all.grid = kiln_gpu_order_grid(t, &all.grid, row);
    order = all.grid;
    kiln_sched_loops_add(&order, out->blocks);
    add_all(&order, &all.threads);
    kiln_sched_loops_add(&order, steps.loop[0]);
    kiln_sched_loops straight = {1, {steps.loop[1]}};
    for (int i = 0; i < (int)b->iter_count; i++)
        if (b->iter[i].reduce && i != t->k)
            kiln_sched_loops_add(&straight, kiln_sched_loop_of(s, t->block, (uint32_t)i));
    add_all(&order, &straight);
    add_all(&order, &all.parts);
    add_all(&order, &all.points);
    kiln_sched_loops_add(&order, all.lanes);
    if (!kiln_sched_reorder(kiln_sched_try(s), &order)) return false;
    for (uint32_t i = 0; i < straight.count; i++)
        kiln_sched_unroll(kiln_sched_try(s), straight.loop[i]);
    mark_points(s, &all, true);
    return bind_all(s, &all.grid, KILN_AXIS_BLOCK_X, &out->grid) &&
           bind_all(s, &all.threads, KILN_AXIS_THREAD_X, &thread);
}

/* The copy's loops in the order of memory; `outer`, where it is one, is left out. */
static kiln_sched_loops memory_order(kiln_gpu_tiling *t, const kiln_gpu_operand *o, kiln_block copy,
                                     int outer) {
    kiln_sched *s = t->s;
    kiln_sched_loops all = {0};
    for (int i = 0; i < (int)s->program->block.data[copy].iter_count; i++)
        if (i != outer && (!o->packed || i != o->along))
            kiln_sched_loops_add(&all, kiln_sched_loop_of(s, copy, (uint32_t)i));
    if (o->packed) kiln_sched_loops_add(&all, kiln_sched_loop_of(s, copy, (uint32_t)o->along));
    return all;
}

static kiln_sched_sample sample_fetch(kiln_gpu_tiling *t, const kiln_gpu_operand *o) {
    int64_t width[4];
    uint32_t widths = 0;
    for (int64_t w = o->fetch; w >= 1 && widths < KILN_ARRAY_COUNT(width); w /= 2)
        if (o->fetch % w == 0) width[widths++] = w;
    return kiln_sched_categorical(t->s, width, widths, 0);
}

/* The elements of each step of k are distributed to some of the threads and the next steps to
 * others, so that a thread copies the same places of all its steps: it computes their addresses
 * once. */
static kiln_sched_loops deal_planes(kiln_gpu_tiling *t, const kiln_gpu_operand *o,
                                    kiln_block copy) {
    kiln_sched *s = t->s;
    kiln_sched_loops plane = memory_order(t, o, copy, o->block_dim);
    const kiln_sched_sample fetch = sample_fetch(t, o);
    const kiln_sched_loop step = kiln_sched_loop_of(s, copy, (uint32_t)o->block_dim);
    kiln_sched_loops order = plane;
    kiln_sched_loops_add(&order, step);
    if (!kiln_sched_reorder(kiln_sched_try(s), &order)) return (kiln_sched_loops){0};
    const kiln_sched_loop one = fuse_all(s, &plane);
    if (kiln_sched_loop_is_none(one)) return (kiln_sched_loops){0};
    const kiln_sched_loops part =
        kiln_sched_split(s, one,
                         KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(t->tile, PLANE),
                                         kiln_sched_element(fetch, 0)));
    const kiln_sched_loops dealt = {2, {step, part.loop[1]}},
                           inner = {4, {part.loop[0], step, part.loop[1], part.loop[2]}};
    if (!kiln_sched_reorder(kiln_sched_try(s), &inner)) return (kiln_sched_loops){0};
    const kiln_sched_loop loop = fuse_all(s, &dealt);
    if (kiln_sched_loop_is_none(loop)) return (kiln_sched_loops){0};
    const kiln_sched_loops threads =
        kiln_sched_split(s, loop, KILN_SCHED_INTS(kiln_sched_rest(), all_threads(t)));
    return (kiln_sched_loops){4, {threads.loop[1], part.loop[0], threads.loop[0], part.loop[2]}};
}

/* Elements are distributed to the threads in the order of memory, some neighbouring ones to
 * each. */
static kiln_sched_loops deal_all(kiln_gpu_tiling *t, const kiln_gpu_operand *o, kiln_block copy) {
    kiln_sched *s = t->s;
    const kiln_sched_loops all = memory_order(t, o, copy, -1);
    const kiln_sched_sample fetch = sample_fetch(t, o);
    if (o->packed && !kiln_sched_reorder(kiln_sched_try(s), &all)) return (kiln_sched_loops){0};
    const kiln_sched_loop loop = fuse_all(s, &all);
    if (kiln_sched_loop_is_none(loop)) return (kiln_sched_loops){0};
    const kiln_sched_loops part = kiln_sched_split(
        s, loop, KILN_SCHED_INTS(kiln_sched_rest(), all_threads(t), kiln_sched_element(fetch, 0)));
    return (kiln_sched_loops){3, {part.loop[1], part.loop[0], part.loop[2]}};
}

static bool place_copy(kiln_gpu_tiling *t, const kiln_gpu_operand *o, kiln_block copy,
                       const nest *n) {
    kiln_sched *s = t->s;
    if (!kiln_sched_compute_at(kiln_sched_try(s), copy, n->blocks)) return false;
    const kiln_sched_loops order =
        o->block_dim >= 0 ? deal_planes(t, o, copy) : deal_all(t, o, copy);
    if (order.count == 0) return false;
    /* Threads outermost: there is a barrier behind their nest, not behind each of its rounds. */
    kiln_sched_vectorize(kiln_sched_try(s), order.loop[order.count - 1]);
    return kiln_sched_reorder(kiln_sched_try(s), &order) &&
           kiln_sched_bind(kiln_sched_try(s), order.loop[0], KILN_AXIS_THREAD_X);
}

int kiln_gpu_follower_iter(const kiln_gpu_tiling *t, const kiln_pattern *follower, kiln_buffer sums,
                           int iter) {
    const int dim = t->pattern.to.dim_of[iter];
    for (uint32_t a = 0; a < follower->from_count; a++)
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
            if (follower->from[a].buffer == sums && follower->from[a].dim_of[i] == dim) return i;
    return -1;
}

/* Each thread takes its own sums. */
static bool place_follower(kiln_gpu_tiling *t, kiln_block follower, const nest *at) {
    kiln_sched *s = t->s;
    const kiln_buffer sums = s->program->block.data[t->block].buffer;
    kiln_pattern pattern;
    tile_loops all = {0};
    kiln_sched_loops order;
    kiln_sched_loop thread;
    uint32_t moved = 0;
    if (!kiln_pattern_of(s->program, follower, &pattern)) return false;
    if (!kiln_sched_reverse_compute_at(kiln_sched_try(s), follower, at->grid)) return false;
    for (uint32_t n = 0; n < t->tiled; n++) {
        const int i = kiln_gpu_follower_iter(t, &pattern, sums, t->iter[n]);
        if (i < 0) return false;
        split(t, kiln_sched_loop_of(s, follower, (uint32_t)i), n, false, &all);
        moved |= 1u << i;
    }
    order = all.threads;
    for (uint32_t i = 0; i < s->program->block.data[follower].iter_count; i++)
        if (!(moved >> i & 1)) kiln_sched_loops_add(&order, kiln_sched_loop_of(s, follower, i));
    add_all(&order, &all.parts);
    add_all(&order, &all.points);
    kiln_sched_loops_add(&order, all.lanes);
    if (!kiln_sched_reorder(kiln_sched_try(s), &order)) return false;
    mark_points(s, &all, t->vector + 1 == (int)t->tiled);
    return bind_all(s, &all.threads, KILN_AXIS_THREAD_X, &thread);
}

const char *kiln_gpu_tile_block(kiln_sched *s, kiln_block block, double *cycles) {
    kiln_gpu_tiling t = {.s = s, .block = block, .limits = kiln_gpu_limits_of(s->target)};
    kiln_block copy[KILN_GPU_COPIES_MAX];
    nest n;
    if (!kiln_gpu_choose_roles(&t)) return "nothing is used by several rows and several columns";
    const char *empty = kiln_gpu_choose_sizes(&t);
    if (empty) return empty;
    *cycles += t.row[t.preferred].cycles;
    const kiln_block follower = kiln_sketch_separate_result(s, block, KILN_SCOPE_REGISTER);
    if (!follower) return "the sums cannot be in a separate buffer";
    if (!kiln_sched_set_scope(kiln_sched_try(s), s->program->block.data[block].buffer,
                              KILN_SCOPE_REGISTER))
        return "the sums cannot be in registers";
    if (!kiln_pattern_of(s->program, block, &t.pattern)) return "the reduction is gone";
    sample_sizes(&t);
    for (uint32_t a = 0; a < t.operand_count; a++) copy[a] = copy_operand(&t, &t.operand[a]);
    pad_tiles(&t);
    if (!make_nest(&t, &n)) return "its loops cannot be groups and threads";
    if (!kiln_sched_decompose_reduction(kiln_sched_try(s), block, n.blocks))
        return "sums cannot begin before the blocks of the reduction";
    for (uint32_t a = 0; a < t.operand_count; a++)
        if (!copy[a] || !place_copy(&t, &t.operand[a], copy[a], &n))
            return "threads cannot copy the shared operands";
    kiln_sched_pipeline(kiln_sched_try(s), n.blocks, kiln_sched_element(t.steps, KILN_GPU_STAGES));
    if (!place_follower(&t, follower, &n))
        return "the reader of the sums cannot be in the tile's loops";
    for (uint32_t a = 0; a < t.operand_count; a++)
        if (t.operand[a].packing) kiln_gpu_spread_block(s, t.operand[a].packing);
    return NULL;
}

bool kiln_gpu_is_tiled(kiln_sched *s, kiln_block block) {
    kiln_program *p = s->program;
    kiln_gpu_tiling t = {.s = s, .block = block, .limits = kiln_gpu_limits_of(s->target)};
    return !p->block.data[block].removed && kiln_block_is_reduction(p, block) &&
           !kiln_block_packs_bits(p, block) && !kiln_block_reads_only_constants(p, block) &&
           kiln_gpu_choose_roles(&t);
}

double kiln_gpu_expect_tile(kiln_sched *s, kiln_block block, double *out_groups) {
    kiln_gpu_tiling t = {.s = s, .block = block, .limits = kiln_gpu_limits_of(s->target)};
    if (!kiln_gpu_choose_roles(&t) || kiln_gpu_choose_sizes(&t)) return INFINITY;
    *out_groups = kiln_gpu_groups(&t, &t.row[t.preferred]);
    return t.row[t.preferred].cycles;
}

kiln_sketch_result kiln_sketch_gpu_tile(kiln_sched *s, uint32_t options) {
    kiln_gpu_splits splits = {.options = options, .expect = kiln_gpu_expect_tile};
    kiln_sketch_inline(s);
    kiln_gpu_inline_paddings(s);
    uint32_t tiles = 0;
    const uint32_t count = s->program->block.count;
    for (kiln_block b = 1; b < count; b++) {
        if (!kiln_gpu_is_tiled(s, b)) continue;
        const kiln_block part = kiln_gpu_split(s, b, &splits);
        const char *reason =
            part ? kiln_gpu_tile_block(s, part, &splits.cycles) : "its steps cannot be split";
        if (reason) return kiln_sketch_none(reason);
        tiles++;
    }
    if (tiles == 0) return kiln_sketch_never("no reduction uses its operands several times");
    kiln_sketch_visit_alone(s, kiln_gpu_spread_block);
    return kiln_gpu_end_splits(&splits);
}
