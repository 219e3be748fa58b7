/* The rule "tile" of GPUs: one large reduction. A group makes a tile of rows and columns of the
 * result, each of its threads the sums of some neighbouring points, which stay in registers. Block
 * by block of the reduction, the threads copy what several of them read into memory that they
 * share. What follows the reduction takes the sums where they are.
 *
 * The loops of a tile's threads are fused and bound to one axis, in all nests alike, so that every
 * nest has whole warps, whatever the shape of the tile is. */
#include <math.h>

#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/rules/gpu.h"

/* Columns of the table of tiles: threads and points of each iterator, lanes, all threads. */
enum { LANES = 2 * KILN_GPU_TILED_MAX, THREADS, COLUMNS };

static kiln_sched_int threads_of(const kiln_gpu_tiling *t, uint32_t n) {
    return kiln_sched_element(t->tile, 2 * n);
}
static kiln_sched_int points_of(const kiln_gpu_tiling *t, uint32_t n) {
    return kiln_sched_element(t->tile, 2 * n + 1);
}

static void sample_sizes(kiln_gpu_tiling *t) {
    int64_t table[KILN_GPU_ROWS_MAX][COLUMNS];
    for (uint32_t r = 0; r < t->row_count; r++) {
        int64_t *row = table[r];
        row[THREADS] = 1;
        row[LANES] = t->row[r].lanes;
        for (uint32_t n = 0; n < KILN_GPU_TILED_MAX; n++) {
            row[2 * n] = n < t->tiled ? t->row[r].threads[n] : 1;
            row[2 * n + 1] = n < t->tiled ? t->row[r].points[n] : 1;
            row[THREADS] *= row[2 * n];
            if ((int)n == t->vector) row[2 * n + 1] /= t->row[r].lanes;
        }
    }
    t->tile = kiln_sched_choice(t->s, COLUMNS, table[0], t->row_count, t->preferred);
    t->steps = kiln_sched_choice(t->s, 2, t->step[0], t->step_count, t->preferred_step);
}

/* ---- what is computed for whole tiles -------------------------------------------------------- */

kiln_block kiln_gpu_copy_operand(kiln_gpu_tiling *t, const kiln_gpu_operand *o) {
    kiln_sched *s = t->s;
    kiln_program *p = s->program;
    const kiln_block producer = kiln_program_producer(p, o->buffer);
    const kiln_block copy =
        kiln_sched_cache_read(kiln_sched_try(s), t->block, o->buffer, KILN_SCOPE_SHARED);
    if (!copy) return 0;
    for (uint32_t d = 0; d < o->rank; d++)
        if (o->most[d] > p->buffer.data[o->buffer].shape.dim[d])
            kiln_sched_pad(kiln_sched_try(s), copy, d, kiln_sched_const(o->most[d]));
    if (producer && kiln_sketch_padding_of(p, producer))
        kiln_sched_inline(kiln_sched_try(s), producer);
    return copy;
}

/* What neighbours read lies innermost. */
static void lay_out(kiln_gpu_tiling *t, const kiln_gpu_operand *o, kiln_buffer copy) {
    kiln_layout layout = {0};
    if (o->along + 1 == (int)o->rank) return;
    for (uint32_t d = 0; d < o->rank; d++)
        if ((int)d != o->along) kiln_sketch_add_piece(&layout, d, 1, 0);
    kiln_sketch_add_piece(&layout, (uint32_t)o->along, 1, 0);
    kiln_sched_transform_layout(kiln_sched_try(t->s), copy, &layout, NULL, 0);
}

/* The reduction runs over whole tiles; what is beyond the result is left out when it is taken from
 * the registers. */
static void pad_tiles(kiln_gpu_tiling *t) {
    for (uint32_t n = 0; n < t->tiled; n++) {
        kiln_sched_int size = kiln_sched_times(threads_of(t, n), points_of(t, n));
        if ((int)n == t->vector) size = kiln_sched_times(size, kiln_sched_element(t->tile, LANES));
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

static bool make_nest(kiln_gpu_tiling *t, nest *out) {
    kiln_sched *s = t->s;
    const kiln_block_info *b = &s->program->block.data[t->block];
    kiln_sched_loops grid = {0}, threads = {0}, points = {0}, order, steps;
    kiln_sched_loop lanes = {0}, thread;
    bool tiled[KILN_BLOCK_ITERS_MAX] = {false};
    for (uint32_t n = 0; n < t->tiled; n++) tiled[t->iter[n]] = true;
    for (int i = 0; i < (int)b->iter_count; i++)
        if (!b->iter[i].reduce && !tiled[i])
            kiln_sched_loops_add(&grid, kiln_sched_loop_of(s, t->block, (uint32_t)i));
    for (uint32_t n = 0; n < t->tiled; n++) {
        const kiln_sched_loop loop = kiln_sched_loop_of(s, t->block, (uint32_t)t->iter[n]);
        const bool vector = (int)n == t->vector;
        const kiln_sched_int part[] = {kiln_sched_rest(), threads_of(t, n), points_of(t, n),
                                       kiln_sched_element(t->tile, LANES)};
        const kiln_sched_loops parts = kiln_sched_split(s, loop, part, vector ? 4 : 3);
        kiln_sched_loops_add(&grid, parts.loop[0]);
        kiln_sched_loops_add(&threads, parts.loop[1]);
        kiln_sched_loops_add(&points, parts.loop[2]);
        if (vector) lanes = parts.loop[3];
    }
    steps = kiln_sched_split(s, kiln_sched_loop_of(s, t->block, (uint32_t)t->k),
                             KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(t->steps, 0)));
    out->blocks = steps.loop[0];
    steps = kiln_sched_split(s, steps.loop[1],
                             KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(t->steps, 1)));
    order = grid;
    kiln_sched_loops_add(&order, out->blocks);
    for (uint32_t i = 0; i < threads.count; i++) kiln_sched_loops_add(&order, threads.loop[i]);
    kiln_sched_loops_add(&order, steps.loop[0]);
    kiln_sched_loops straight = {1, {steps.loop[1]}};
    for (int i = 0; i < (int)b->iter_count; i++)
        if (b->iter[i].reduce && i != t->k)
            kiln_sched_loops_add(&straight, kiln_sched_loop_of(s, t->block, (uint32_t)i));
    for (uint32_t i = 0; i < points.count; i++) kiln_sched_loops_add(&straight, points.loop[i]);
    for (uint32_t i = 0; i < straight.count; i++) kiln_sched_loops_add(&order, straight.loop[i]);
    kiln_sched_loops_add(&order, lanes);
    if (!kiln_sched_reorder(kiln_sched_try(s), &order)) return false;
    for (uint32_t i = 0; i < straight.count; i++)
        kiln_sched_unroll(kiln_sched_try(s), straight.loop[i]);
    if (!kiln_sched_loop_is_none(lanes)) kiln_sched_vectorize(kiln_sched_try(s), lanes);
    return bind_all(s, &grid, KILN_AXIS_BLOCK_X, &out->grid) &&
           bind_all(s, &threads, KILN_AXIS_THREAD_X, &thread);
}

/* Elements are dealt to the threads in the order of memory, some behind one another to each. */
static bool place_copy(kiln_gpu_tiling *t, const kiln_gpu_operand *o, kiln_block copy,
                       const nest *n) {
    kiln_sched *s = t->s;
    int64_t width[4];
    uint32_t widths = 0;
    kiln_sched_loops all = {0};
    if (!kiln_sched_compute_at(kiln_sched_try(s), copy, n->blocks)) return false;
    for (uint32_t i = 0; i < s->program->block.data[copy].iter_count; i++)
        kiln_sched_loops_add(&all, kiln_sched_loop_of(s, copy, i));
    for (int64_t w = o->fetch; w >= 1 && widths < KILN_ARRAY_COUNT(width); w /= 2)
        if (o->fetch % w == 0) width[widths++] = w;
    const kiln_sched_sample fetch = kiln_sched_categorical(s, width, widths, 0);
    const kiln_sched_loop loop = fuse_all(s, &all);
    if (kiln_sched_loop_is_none(loop)) return false;
    const kiln_sched_loops part =
        kiln_sched_split(s, loop,
                         KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(t->tile, THREADS),
                                         kiln_sched_element(fetch, 0)));
    /* Threads outermost: there is a barrier behind their nest, not behind each of its rounds. */
    const kiln_sched_loops order = {3, {part.loop[1], part.loop[0], part.loop[2]}};
    kiln_sched_vectorize(kiln_sched_try(s), part.loop[2]);
    return kiln_sched_reorder(kiln_sched_try(s), &order) &&
           kiln_sched_bind(kiln_sched_try(s), part.loop[1], KILN_AXIS_THREAD_X);
}

int kiln_gpu_follower_iter(const kiln_gpu_tiling *t, const kiln_pattern *follower, kiln_buffer sums,
                           int iter) {
    const int dim = t->pattern.to.dim_of[iter];
    for (uint32_t a = 0; a < follower->from_count; a++)
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
            if (follower->from[a].buffer == sums && follower->from[a].dim_of[i] == dim) return i;
    return -1;
}

/* Each thread goes on with its own sums. */
static bool place_follower(kiln_gpu_tiling *t, kiln_block follower, const nest *at) {
    kiln_sched *s = t->s;
    const kiln_buffer sums = s->program->block.data[t->block].buffer;
    kiln_pattern pattern;
    kiln_sched_loops threads = {0}, rest = {0}, order;
    kiln_sched_loop thread, lanes = {0};
    uint32_t moved = 0;
    if (!kiln_pattern_of(s->program, follower, &pattern)) return false;
    if (!kiln_sched_reverse_compute_at(kiln_sched_try(s), follower, at->grid)) return false;
    kiln_sched_loops points = {0};
    for (uint32_t n = 0; n < t->tiled; n++) {
        const int i = kiln_gpu_follower_iter(t, &pattern, sums, t->iter[n]);
        if (i < 0) return false;
        const bool vector = (int)n == t->vector;
        const kiln_sched_int part[] = {threads_of(t, n), points_of(t, n),
                                       kiln_sched_element(t->tile, LANES)};
        const kiln_sched_loops parts =
            kiln_sched_split(s, kiln_sched_loop_of(s, follower, (uint32_t)i), part, vector ? 3 : 2);
        moved |= 1u << i;
        kiln_sched_loops_add(&threads, parts.loop[0]);
        kiln_sched_loops_add(&points, parts.loop[1]);
        if (vector) lanes = parts.loop[2];
    }
    for (uint32_t i = 0; i < s->program->block.data[follower].iter_count; i++)
        if (!(moved >> i & 1)) kiln_sched_loops_add(&rest, kiln_sched_loop_of(s, follower, i));
    order = threads;
    for (uint32_t i = 0; i < rest.count; i++) kiln_sched_loops_add(&order, rest.loop[i]);
    for (uint32_t i = 0; i < points.count; i++) kiln_sched_loops_add(&order, points.loop[i]);
    kiln_sched_loops_add(&order, lanes);
    if (!kiln_sched_reorder(kiln_sched_try(s), &order)) return false;
    for (uint32_t i = 0; i < points.count; i++)
        kiln_sched_unroll(kiln_sched_try(s), points.loop[i]);
    if (!kiln_sched_loop_is_none(lanes)) {
        const bool behind = t->vector + 1 == (int)t->tiled;
        if (behind)
            kiln_sched_vectorize(kiln_sched_try(s), lanes);
        else
            kiln_sched_unroll(kiln_sched_try(s), lanes);
    }
    return bind_all(s, &threads, KILN_AXIS_THREAD_X, &thread);
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
    if (!follower) return "the sums have no place of their own";
    if (!kiln_sched_set_scope(kiln_sched_try(s), s->program->block.data[block].buffer,
                              KILN_SCOPE_REGISTER))
        return "the sums cannot be in registers";
    if (!kiln_pattern_of(s->program, block, &t.pattern)) return "the reduction is gone";
    sample_sizes(&t);
    for (uint32_t a = 0; a < t.operand_count; a++) {
        copy[a] = kiln_gpu_copy_operand(&t, &t.operand[a]);
        if (copy[a]) lay_out(&t, &t.operand[a], s->program->block.data[copy[a]].buffer);
    }
    pad_tiles(&t);
    if (!make_nest(&t, &n)) return "its loops cannot be groups and threads";
    if (!kiln_sched_decompose_reduction(kiln_sched_try(s), block, n.blocks))
        return "sums cannot begin before the blocks of the reduction";
    for (uint32_t a = 0; a < t.operand_count; a++)
        if (!copy[a] || !place_copy(&t, &t.operand[a], copy[a], &n))
            return "threads cannot copy what they share";
    if (!place_follower(&t, follower, &n)) return "what follows does not go along with the tile";
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
