/* The rule "stack": reductions in series, each of which reads a block of rows of the one before it
 * for a block of its own rows: a depthwise convolution and a product over channels, a convolution
 * and a pooling. The last one is tiled; in its rounds of rows the others are computed, only the
 * rows that are read there, each in its own register tile. The values between them stay in a near
 * cache. */
#include <math.h>

#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/rules/rows.h"
#include "compiler-core/rules/tile.h"

/* Rows that are computed together if the last block is no tile: products use their weights for
 * all. */
#define ROWS_AT_ONCE 32
#define ROWS_AT_ONCE_MAX 128

/* A program being scheduled. */
typedef struct stack {
    kiln_sched *s;
    kiln_block last; /* the last reduction */
    kiln_block count;
    bool *depends; /* [count] on a reduction that runs each time, or is one */
    bool *taken;   /* [count] takes results out of registers */
    uint32_t rows; /* iterators of the last block, if that is no reduction */
} stack;

static void find_dependent(stack *k) {
    kiln_program *p = k->s->program;
    k->count = p->block.count;
    k->depends = KILN_ARENA_ARRAY(k->s->arena, bool, k->count);
    k->taken = KILN_ARENA_ARRAY(k->s->arena, bool, k->count);
    for (kiln_block b = 1; b < k->count; b++) {
        if (p->block.data[b].removed || kiln_block_reads_only_constants(p, b)) continue;
        const kiln_loads loads = kiln_block_loads(p, b);
        k->depends[b] = kiln_block_is_reduction(p, b);
        if (k->depends[b]) k->last = b;
        for (uint32_t i = 0; i < loads.count; i++)
            k->depends[b] |=
                k->depends[kiln_program_producer(p, kiln_load_buffer(p, loads.load[i]))];
    }
}

/* Whether the reduction is a product or slides a window; others gain nothing from register
 * tiles. */
static bool wants_tile(kiln_program *p, kiln_block block) {
    kiln_pattern pattern;
    if (!kiln_block_is_reduction(p, block) || !kiln_pattern_of(p, block, &pattern)) return false;
    for (uint32_t a = 0; a < pattern.from_count; a++)
        if (pattern.from[a].window) return true;
    return pattern.multiplies;
}

/* Whether only this block reads the results of a tile, which it takes out of registers: it is
 * placed with the tile. */
static bool follows_tile(kiln_program *p, kiln_block block) {
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    const kiln_loads loads = kiln_block_loads(p, block);
    for (uint32_t i = 0; i < loads.count && !kiln_block_is_reduction(p, block); i++) {
        const kiln_buffer from = kiln_load_buffer(p, loads.load[i]);
        const kiln_block producer = kiln_program_producer(p, from);
        if (producer && wants_tile(p, producer) && kiln_buffer_readers(p, from, reader) == 1)
            return true;
    }
    return false;
}

/* Whether each block before `last` that runs each time is read, directly or not, by `last`. */
static bool is_series(const stack *k, kiln_block last) {
    kiln_program *p = k->s->program;
    bool *needed = KILN_ARENA_ARRAY(k->s->arena, bool, k->count);
    needed[last] = true;
    for (kiln_block b = last; b >= 1; b--) {
        const kiln_loads loads = kiln_block_loads(p, b);
        if (!k->depends[b] || p->block.data[b].removed) continue;
        if (!needed[b]) return false;
        for (uint32_t i = 0; i < loads.count; i++)
            needed[kiln_program_producer(p, kiln_load_buffer(p, loads.load[i]))] = true;
    }
    return true;
}

/* The block that reads the block's results, directly or through paddings; 0: several blocks do. */
static kiln_block taker_of(kiln_program *p, kiln_block block) {
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    do {
        if (kiln_buffer_readers(p, p->block.data[block].buffer, reader) != 1) return 0;
        block = reader[0];
    } while (kiln_sketch_padding_of(p, block));
    return block;
}

/* Whether the reduction has the same lanes as its operand: then that is computed for some lanes at
 * a time. */
static bool shares_lanes(const stack *k, kiln_block block) {
    kiln_tiling t = {.s = k->s, .block = block, .given_v = -1};
    return block && kiln_block_is_reduction(k->s->program, block) && kiln_tile_choose_roles(&t) &&
           !t.packs;
}

/* Bytes of earlier reductions' results that are alive at once. */
static double bytes_between(const stack *k) {
    kiln_program *p = k->s->program;
    double bytes = 0;
    for (kiln_block b = 1; b < k->last; b++) {
        const kiln_buffer_info *to = &p->buffer.data[p->block.data[b].buffer];
        if (p->block.data[b].removed || !k->depends[b] || kiln_block_is_reduction(p, b) ||
            kiln_sketch_padding_of(p, b))
            continue;
        double all = (double)kiln_shape_count(&to->shape) * (double)kiln_dtype_size(to->dtype);
        const kiln_block taker = taker_of(p, b);
        kiln_pattern pattern;
        if (taker != k->last && shares_lanes(k, taker) && kiln_pattern_of(p, b, &pattern))
            all *= KILN_MIN(KILN_TILE_SHARED_VECTORS * k->s->target->vector_bytes /
                                (double)(to->shape.dim[1] * kiln_dtype_size(to->dtype)),
                            1);
        bytes += all;
    }
    return bytes;
}

/* Half of the second cache is left to weights and data. */
static int64_t preferred_rounds(const stack *k, const kiln_tiling *t) {
    const int64_t rows = kiln_tile_extent(t, t->mh < 0 ? t->mw : t->mh);
    const int64_t threads = k->s->target->threads,
                  rounds = (int64_t)ceil(bytes_between(k) / (k->s->target->l2_bytes / 2.0));
    const int64_t shared = (rounds + threads - 1) / threads * threads;
    return KILN_MIN(KILN_MAX(shared, 1), rows);
}

/* Number of loops around the block, from the root to `loop`. A loop that was fused with others for
 * threads counts as inside of all. */
static uint32_t place_of(const kiln_sched *s, kiln_block block, kiln_sched_loop loop) {
    const uint32_t depth = kiln_sketch_depth(s, block, loop);
    return depth ? depth : kiln_sched_loops_around(s, block).count + 1;
}

/* The loop over blocks of steps, each of which has a separate result; none: there is none. */
static kiln_sched_loop blocks_of_steps(const kiln_tiling *t) {
    if (!t->packs || t->k < 0) return (kiln_sched_loop){0};
    const kiln_block_access *w = &t->pattern.from[t->weights], *x = &t->pattern.from[t->data];
    if (!(w->window >> w->dim_of[t->k] & 1)) return (kiln_sched_loop){0};
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (kiln_tile_has(t->pattern.spatial & x->iters & w->iters, i) && w->dim_of[i] < 0)
            return kiln_sched_loop_of(t->s, t->block, (uint32_t)i);
    return (kiln_sched_loop){0};
}

/* The loop in which the reduction's operand is computed: the round of rows, or, if both have the
 * same lanes, the loop over them. */
static kiln_sched_loop place_producers(const kiln_tiling *t, kiln_block producer,
                                       kiln_sched_loop round) {
    const uint32_t outermost = place_of(t->s, t->block, round);
    const kiln_sched_loop lanes = t->vector.rounds;
    if (t->packs || !t->within || kiln_sched_loop_is_none(lanes)) return round;
    const uint32_t places = place_of(t->s, t->block, lanes);
    const kiln_sched_loop at =
        kiln_sched_location(kiln_sched_try(t->s), producer, places, KILN_MAX(places, outermost));
    return kiln_sched_loop_is_none(at) ? round : at;
}

/* Computes the block and the one that takes its results out of registers in the loops of `t`, its
 * reader, and tiles it. `t` is its tiling afterwards, `*at` the loop in which its operand may be
 * computed. */
static kiln_sketch_result stack_up(const stack *k, kiln_block block, kiln_tiling *t,
                                   kiln_sched_loop *at) {
    kiln_sched *s = k->s;
    const kiln_block follower = kiln_sketch_separate_result(s, block, KILN_SCOPE_REGISTER);
    if (!follower) return kiln_sketch_none("the result cannot be copied out of registers");
    if (follower < k->count) k->taken[follower] = true;
    *at = place_producers(t, follower, *at);
    if (!kiln_sched_compute_at(kiln_sched_try(s), follower, *at) ||
        !kiln_sched_compute_at(kiln_sched_try(s), block, *at))
        return kiln_sketch_none("an earlier reduction cannot be computed for some rows");
    *t = (kiln_tiling){.s = s, .block = block, .given_v = -1, .within = true};
    return kiln_tile_reduction(t);
}

/* One block before the frame, with the block that takes its results; `*at` is the loop in which a
 * product's operand may be computed, if that is not read elsewhere in the round. */
static kiln_sketch_result stack_one(const stack *k, kiln_block b, kiln_tiling *t,
                                    kiln_sched_loop *at, kiln_sched_loop round,
                                    const kiln_block *part) {
    kiln_sched *s = k->s;
    if (wants_tile(s->program, b)) {
        const kiln_sketch_result made = stack_up(k, b, t, at);
        const kiln_sched_loop blocks =
            made.end == KILN_SKETCH_MADE ? blocks_of_steps(t) : (kiln_sched_loop){0};
        if (!kiln_sched_loop_is_none(blocks)) *at = blocks;
        return made;
    }
    if (kiln_rows_place(s, b, part[b], *at) ||
        (at->var != round.var && kiln_rows_place(s, b, part[b], round)))
        return kiln_sketch_made();
    return kiln_sketch_none("an earlier block cannot be computed for some rows");
}

/* Whether the frame takes the block's results out of registers itself. Its other operands are then
 * computed behind the block, because they may read results computed in the block's loops. */
static bool is_first(const stack *k, kiln_block b, kiln_block frame) {
    kiln_program *p = k->s->program;
    return !kiln_block_is_reduction(p, frame) && wants_tile(p, b) && taker_of(p, b) == frame;
}

/* All blocks before the frame, from the last one up. */
static kiln_sketch_result stack_all(const stack *k, kiln_block frame, kiln_tiling *t,
                                    kiln_sched_loop round, const kiln_block *part) {
    kiln_program *p = k->s->program;
    kiln_sketch_result made = kiln_sketch_made();
    kiln_sched_loop at = round;
    bool *placed = KILN_ARENA_ARRAY(k->s->arena, bool, frame);
    for (uint32_t pass = 0; pass < 2; pass++)
        for (kiln_block b = frame - 1; b >= 1 && made.end == KILN_SKETCH_MADE; b--) {
            if (!k->depends[b] || p->block.data[b].removed || placed[b] ||
                kiln_sketch_padding_of(p, b) || follows_tile(p, b) ||
                (pass == 0 && !is_first(k, b, frame)))
                continue;
            placed[b] = true;
            made = stack_one(k, b, t, &at, round, part);
        }
    return made;
}

/* Rows of `last` outermost, if it is computed from earlier reductions along them. */
static kiln_sched_loop frame_rows(stack *k, kiln_block last) {
    kiln_pattern pattern;
    kiln_sched *s = k->s;
    k->rows =
        kiln_pattern_of(s->program, last, &pattern) ? kiln_rows_iters(s->program, &pattern) : 0;
    const kiln_rows_limits many = {.preferred = ROWS_AT_ONCE,
                                   .most = ROWS_AT_ONCE_MAX,
                                   .elements = (int64_t)(s->target->l2_bytes / 4 / sizeof(float))};
    return k->rows ? kiln_rows_put_outside(s, last, k->rows, &many) : (kiln_sched_loop){0};
}

kiln_sketch_result kiln_sketch_stack(kiln_sched *s, uint32_t options) {
    (void)options;
    stack k = {.s = s};
    kiln_program *p = s->program;
    uint32_t reductions, tiles = 0;
    kiln_sketch_inline(s);
    if (!kiln_sketch_main_reduction(p, &reductions) || reductions < 2)
        return kiln_sketch_never("there are no reductions in series");
    find_dependent(&k);
    const bool tiled = wants_tile(p, k.last);
    const kiln_block frame = tiled ? k.last : kiln_rows_last_block(p);
    for (kiln_block b = 1; b < frame; b++)
        tiles += b < k.count && k.depends[b] && !p->block.data[b].removed && wants_tile(p, b);
    if (!(tiles + tiled) || frame < k.last || kiln_block_is_reduction(p, frame) != tiled ||
        !is_series(&k, frame))
        return kiln_sketch_never("the reductions are no series of tiles");

    kiln_tiling t = {.s = s, .block = k.last, .given_v = -1, .carries = true};
    if (tiled && !kiln_tile_choose_roles(&t)) return kiln_sketch_never("no iterator can be lanes");
    if (tiled && t.mw < 0) return kiln_sketch_never("the last reduction has no rows");
    kiln_block *part = KILN_ARENA_ARRAY(s->arena, kiln_block, frame + 1);
    for (kiln_block b = 1; b < frame; b++)
        if (k.depends[b] && !p->block.data[b].removed && !wants_tile(p, b))
            part[b] = kiln_rows_reduce_in_lanes(s, b);
    kiln_sketch_result made = kiln_sketch_made();
    if (tiled) {
        t.rounds = preferred_rounds(&k, &t);
        made = kiln_tile_reduction(&t);
    } else {
        t.packs = true; /* its operand is computed in its rows */
        t.round = frame_rows(&k, frame);
        if (kiln_sched_loop_is_none(t.round))
            return kiln_sketch_never("there are no rows that all blocks share");
    }
    if (made.end == KILN_SKETCH_MADE) made = stack_all(&k, frame, &t, t.round, part);
    for (kiln_block b = 1; b <= frame && made.end == KILN_SKETCH_MADE; b++)
        if (k.depends[b] && !k.taken[b] && !wants_tile(p, b))
            kiln_rows_finish(s, b, part[b], true, b == frame ? k.rows : 0);
    if (made.end == KILN_SKETCH_MADE) kiln_sketch_finish(s);
    return made;
}
