/* The rule "tile", step by step; tile.h describes each step. */
#include "compiler-core/rules/tile.h"

enum {
#define X(NAME, field, text) OPTION_##NAME,
    KILN_TILE_OPTIONS(X)
#undef X
};

static kiln_tile_options options_of(uint32_t bits) {
#define X(NAME, field, text) .field = bits >> OPTION_##NAME & 1,
    return (kiln_tile_options) { KILN_TILE_OPTIONS(X) };
#undef X
}

static kiln_sketch_result same(uint32_t option, const char *reason) {
    return (kiln_sketch_result){.end = KILN_SKETCH_SAME, .option = option, .reason = reason};
}

/* Distributes loops outside of the reduction to threads, with `carries` down to that over rounds of
 * rows. Returns their number. */
static uint32_t share(kiln_tiling *t, const kiln_sched_loops *outer) {
    uint32_t most = outer->count - 1, at = 0;
    if (t->within) return 0;
    while (t->carries && outer->loop[at].var != t->round.var) at++;
    if (t->carries) most = at + 1;
    const uint32_t shared = kiln_sketch_share_inside(t->s, t->block, t->groups, most);
    if (t->carries && shared > 1)
        t->round = kiln_sched_loops_around(t->s, t->block).loop[at + 1 - shared];
    return shared;
}

kiln_sketch_result kiln_tile_reduction(kiln_tiling *t) {
    kiln_sched *s = t->s;
    if (!kiln_tile_choose_roles(t)) return kiln_sketch_none("no iterator can be lanes");
    if (t->options.taps_outside && (t->k < 0 || (t->pattern.reduce & ~(1u << t->k)) == 0))
        return same(OPTION_TAPS_OUTSIDE, "the reduction has no other loops than k");

    t->tile = kiln_tile_sample_registers(t);
    if (!t->tile.instruction) return kiln_sketch_none("no tile fits into the registers");
    t->steps = kiln_tile_sample_steps(t);
    const bool in_tiles = kiln_tile_in_tiles(t);
    kiln_block follower = kiln_sketch_separate_result(
        s, t->block, in_tiles ? KILN_SCOPE_GLOBAL : KILN_SCOPE_REGISTER);
    if (!follower) return kiln_sketch_none("the result cannot be copied out of registers");
    if (!kiln_tile_choose_roles(t)) /* the block's buffer may have changed */
        return kiln_sketch_none("no iterator can be lanes of the copied result");

    if (t->options.packed && !kiln_tile_reads_in_place(t))
        return same(OPTION_PACKED, "no weights could be read without packing");
    kiln_buffer packed = kiln_tile_pack_weights(t);
    const kiln_sched_int steps = t->k >= 0 ? kiln_sched_element(t->steps, 0) : kiln_sched_const(1);
    const kiln_sched_int blocks = /* the same for data and results */
        t->packs ? steps
                 : kiln_sched_element(kiln_tile_sample_block(t, kiln_tile_extent(t, t->v)), 0);
    kiln_block copy = kiln_tile_block_data(t, t->packs ? t->k : t->v, blocks);
    const bool skips = copy && kiln_tile_reads_source(t, copy);
    if (t->options.padded_copy && !skips)
        return same(OPTION_PADDED_COPY, "the data has no padding that could be left out");
    if (t->options.copy_elsewhere &&
        (!copy || s->target->threads == 1 || kiln_sketch_picks(s->program, copy, NULL)))
        return same(OPTION_COPY_ELSEWHERE, "the data has no copy with two places");
    if (t->options.copy_elsewhere && skips && !t->options.padded_copy)
        return kiln_sketch_none("the data is not copied");
    kiln_tile_block_output(t, follower, t->packs ? NULL : &blocks);
    const bool groups = !in_tiles && kiln_tile_has_groups(t, copy, follower),
               grouped = groups && !t->options.apart;
    if (!grouped) kiln_tile_pad_lanes(t);
    if (in_tiles && (!kiln_tile_store_tiles(t) || !kiln_tile_choose_roles(t)))
        return kiln_sketch_none("the result cannot be copied out of tiles");

    if (!groups && t->options.apart) return same(OPTION_APART, "there are no transforms to group");
    if (t->options.other_shares && (!groups || s->target->threads == 1))
        return same(OPTION_OTHER_SHARES, "threads share no groups");
    if (t->options.other_shares && t->options.apart)
        return kiln_sketch_none("there are no groups to be shared");
    if (grouped && !kiln_tile_group(t, copy, follower))
        return kiln_sketch_none("the transforms cannot be grouped");
    const kiln_sched_loops outer = kiln_tile_make_nest(t);
    const uint32_t shared = share(t, &outer);
    if (copy) kiln_tile_place_copy(t, copy, outer.count - (shared > 1 ? shared - 1 : 0));
    if (in_tiles && !kiln_tile_place_stored(t, outer.loop[outer.count - 1]))
        return kiln_sketch_none("the result cannot be taken out of tiles");
    if (!kiln_tile_place_follower(t, follower, outer.loop[outer.count - 1]) && groups)
        return kiln_sketch_none("the result cannot be taken out of the registers of a group");
    kiln_tile_unroll(t);
    kiln_block init = kiln_sched_decompose_reduction(s, t->block, kiln_tile_first_reduce_loop(t));
    if (t->dot) kiln_tile_tensorize(t, init);
    kiln_tile_place_accumulators(t);
    if (packed && kiln_tile_fetches_ahead(t))
        kiln_tile_fetch_ahead(t, packed, skips && !t->options.padded_copy);
    return kiln_sketch_made();
}

/* Splits the reduction into parts that are added later, so that the weights of a part stay in the
 * second cache while all tiles use them. Returns the block that computes the parts, or 0. */
static kiln_block reduce_in_parts(kiln_tiling *t) {
    kiln_sched_sample parts = kiln_tile_sample_parts(t);
    const uint32_t k = (uint32_t)t->k; /* k.0 afterwards, and k.1 the next */
    kiln_sched_loops divided =
        kiln_sched_divide(kiln_sched_try(t->s), t->block, k, kiln_sched_element(parts, 0));
    return divided.count
               ? kiln_sched_rfactor(kiln_sched_try(t->s), t->block, k, kiln_sched_element(parts, 1))
               : 0;
}

kiln_sketch_result kiln_sketch_tile(kiln_sched *s, uint32_t options) {
    uint32_t reductions;
    kiln_sketch_inline(s);
    kiln_tiling whole = {
        .s = s, .block = kiln_sketch_main_reduction(s->program, &reductions), .given_v = -1};
    if (!whole.block || reductions != 1)
        return kiln_sketch_never(whole.block ? "there are several reductions"
                                             : "there is no reduction");
    if (!kiln_tile_choose_roles(&whole)) return kiln_sketch_never("no iterator can be lanes");
    const kiln_tile_options read = options_of(options);
    const bool wants_parts = kiln_tile_wants_parts(&whole);
    if (!wants_parts && read.whole)
        return same(OPTION_WHOLE, "a panel of weights fits into the second cache");
    if (!whole.dot && read.plain)
        return same(OPTION_PLAIN, "no tensor intrinsic computes the reduction");
    if (!kiln_tile_in_tiles(&whole) && read.no_tiles)
        return same(OPTION_NO_TILES, "no tensor intrinsic on tiles computes the reduction");
    if (read.plain && kiln_intrinsic_sum(whole.dot) == KILN_F32)
        return same(OPTION_PLAIN, "rounding to halves is worth it only for their instruction");
    kiln_tiling part = {.s = s, .options = read, .given_v = whole.v};
    part.block = wants_parts && !read.whole ? reduce_in_parts(&whole) : 0;
    kiln_sketch_result made = kiln_sketch_made();
    if (part.block) {
        made = kiln_tile_reduction(&part);
        whole.given_v = whole.v; /* the block that adds the parts has the same lanes, and no
                                  * options */
    } else {
        whole.options = read;
    }
    if (made.end == KILN_SKETCH_MADE) made = kiln_tile_reduction(&whole);
    if (made.end == KILN_SKETCH_MADE) kiln_sketch_finish(s);
    return made;
}
