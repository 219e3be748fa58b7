/* The rule "stack": reductions in series, where each reads of the one before it what it needs for a
 * block of its own rows: a depthwise convolution and a product over channels, a convolution and a
 * pooling. The last one is tiled; in its rounds of rows the others are computed, as many rows as
 * are read there, each in its own register tile. What lies between them stays in a near cache. */
#include <math.h>

#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/rules/tile.h"

/* A program on its way. */
typedef struct stack {
    kiln_sched *s;
    kiln_block last; /* the last reduction */
    kiln_block count;
    bool *depends; /* [count] on a reduction that runs each time, or is one */
} stack;

static void find_dependent(stack *k) {
    kiln_program *p = k->s->program;
    k->count = p->block.count;
    k->depends = KILN_ARENA_ARRAY(k->s->arena, bool, k->count);
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

/* Whether all that comes before the last reduction is read on the way to it, and each reduction is
 * a product or slides a window: others are no work for register tiles. */
static bool is_series(const stack *k) {
    kiln_program *p = k->s->program;
    bool *needed = KILN_ARENA_ARRAY(k->s->arena, bool, k->count);
    needed[k->last] = true;
    for (kiln_block b = k->last; b >= 1; b--) {
        kiln_pattern pattern;
        if (!k->depends[b] || !kiln_pattern_of(p, b, &pattern)) continue;
        if (!needed[b]) return false;
        bool slides = false;
        for (uint32_t a = 0; a < pattern.from_count; a++) {
            needed[kiln_program_producer(p, pattern.from[a].buffer)] = true;
            slides |= pattern.from[a].window != 0;
        }
        if (kiln_block_is_reduction(p, b) && !pattern.multiplies && !slides) return false;
    }
    return true;
}

/* What reads the block's results through paddings at most; 0: several blocks do. */
static kiln_block taker_of(kiln_program *p, kiln_block block) {
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    do {
        if (kiln_buffer_readers(p, p->block.data[block].buffer, reader) != 1) return 0;
        block = reader[0];
    } while (kiln_sketch_padding_of(p, block));
    return block;
}

/* Whether the reduction's lanes are those of what it reads: then that is computed for some lanes at
 * a time. */
static bool shares_lanes(const stack *k, kiln_block block) {
    kiln_tiling t = {.s = k->s, .block = block, .given_v = -1};
    return block && kiln_block_is_reduction(k->s->program, block) && kiln_tile_choose_roles(&t) &&
           !t.packs;
}

#define LANES_VECTORS 2 /* of what is computed for some lanes at a time */

/* Bytes of what earlier reductions hand on, as far as it lives at once. */
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
            all *= KILN_MIN(LANES_VECTORS * k->s->target->vector_bytes /
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

/* How many loops around the block lie outside of `loop`, and it. */
static uint32_t place_of(const kiln_sched *s, kiln_block block, kiln_sched_loop loop) {
    const kiln_sched_loops around = kiln_sched_loops_around(s, block);
    uint32_t places = 0;
    while (places < around.count && around.loop[places].var != loop.var) places++;
    return places + 1;
}

/* Where what the reduction reads is computed: in the round of rows, or, where its lanes are those
 * of what it reads, in the loop over them. */
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

/* Computes the block and what takes its results out of registers in the loops of `t`, its reader,
 * and tiles it. `t` is its tiling afterwards, `*at` where what it reads may be computed. */
static kiln_sketch_result stack_up(const stack *k, kiln_block block, kiln_tiling *t,
                                   kiln_sched_loop *at) {
    kiln_sched *s = k->s;
    const kiln_block follower = kiln_sketch_separate_result(s, block, KILN_SCOPE_REGISTER);
    if (!follower) return kiln_sketch_none("the result cannot be copied out of registers");
    *at = place_producers(t, follower, *at);
    if (!kiln_sched_compute_at(kiln_sched_try(s), follower, *at) ||
        !kiln_sched_compute_at(kiln_sched_try(s), block, *at))
        return kiln_sketch_none("an earlier reduction cannot be computed for some rows");
    *t = (kiln_tiling){.s = s, .block = block, .given_v = -1, .within = true};
    return kiln_tile_reduction(t);
}

kiln_sketch_result kiln_sketch_stack(kiln_sched *s, uint32_t options) {
    (void)options;
    stack k = {.s = s};
    kiln_program *p = s->program;
    uint32_t reductions;
    kiln_sketch_inline(s);
    if (!kiln_sketch_main_reduction(p, &reductions) || reductions < 2)
        return kiln_sketch_never("there are no reductions in series");
    find_dependent(&k);
    kiln_tiling t = {.s = s, .block = k.last, .given_v = -1, .carries = true};
    if (!is_series(&k)) return kiln_sketch_never("the reductions are no series of tiles");
    if (!kiln_tile_choose_roles(&t)) return kiln_sketch_never("no iterator can be lanes");
    if (t.mw < 0) return kiln_sketch_never("the last reduction has no rows");
    t.rounds = preferred_rounds(&k, &t);
    kiln_sketch_result made = kiln_tile_reduction(&t);
    kiln_sched_loop at = t.round;
    for (kiln_block b = k.last - 1; b >= 1 && made.end == KILN_SKETCH_MADE; b--)
        if (k.depends[b] && kiln_block_is_reduction(p, b)) made = stack_up(&k, b, &t, &at);
    if (made.end == KILN_SKETCH_MADE) kiln_sketch_finish(s);
    return made;
}
