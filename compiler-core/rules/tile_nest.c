/* The nest of a tiled reduction: splits, the order of its loops, and unrolling. */
#include "compiler-core/rules/tile.h"

static kiln_sched_loop loop_of(const kiln_tiling *t, int iter) {
    return iter < 0 ? (kiln_sched_loop){0} : kiln_sched_loop_of(t->s, t->block, (uint32_t)iter);
}

/* ---- splits ---- */

static kiln_sched_loops split_off(kiln_tiling *t, kiln_sched_loop loop, kiln_sched_int inner) {
    return kiln_sched_split(t->s, loop, KILN_SCHED_INTS(kiln_sched_rest(), inner));
}

static kiln_tile_loops split_points(kiln_tiling *t, int iter, uint32_t element) {
    if (iter < 0) return (kiln_tile_loops){{0}, {0}, {0}};
    const bool is_row = iter == t->mh;
    kiln_sched_loops part = split_off(t, loop_of(t, iter), kiln_sched_element(t->tile, element));
    kiln_tile_loops loops =
        t->carries && (is_row || t->mh < 0)
            ? kiln_tile_split_rows(t, part.loop[0])
            : kiln_tile_split_rounds(t, part.loop[0],
                                     is_row ? kiln_tile_rows_a_round(t, part.loop[0]) : INT64_MAX);
    loops.points = part.loop[1];
    if (!is_row && kiln_tile_dot_rows(t) > 1) {
        part = split_off(t, loops.points,
                         kiln_tile_in_tiles(t) ? kiln_sched_element(t->tile, 3)
                                               : kiln_sched_const(t->dot->rows));
        loops.points = part.loop[0];
        t->dot_rows = part.loop[1];
    }
    return loops;
}

/* The innermost steps of a loop are those of the instruction. */
static void take_steps(kiln_tiling *t, kiln_sched_loop *loop) {
    kiln_sched_loops part = split_off(t, *loop, kiln_sched_const(t->dot_steps));
    *loop = part.loop[0];
    t->dot_loop = part.loop[1];
}

static void split_steps(kiln_tiling *t) {
    if (t->k < 0) return;
    kiln_sched_loops part = split_off(t, loop_of(t, t->k), kiln_sched_element(t->steps, 0));
    t->k_blocks = part.loop[0];
    part = split_off(t, part.loop[1], kiln_sched_element(t->steps, 1));
    t->k_steps = part.loop[0];
    t->k_unrolled = part.loop[1];
    if (t->dot) take_steps(t, &t->k_unrolled);
}

static void split_tile(kiln_tiling *t) {
    kiln_sched_loops part =
        kiln_sched_split(t->s, loop_of(t, t->v),
                         KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(t->tile, 2),
                                         kiln_sched_const(t->lanes)));
    const bool all_vectors = t->options.vectors_innermost || kiln_tile_keeps_weights(t);
    t->vector = kiln_tile_split_rounds(t, part.loop[0],
                                       all_vectors              ? INT64_MAX
                                       : t->within && !t->packs ? KILN_TILE_SHARED_VECTORS
                                                                : 1);
    t->vector.points = part.loop[1];
    t->lane = part.loop[2];
    t->row = split_points(t, t->mh, 0);
    t->column = split_points(t, t->mw, 1);
    t->round = t->mh < 0 ? t->column.rounds : t->row.rounds;
    split_steps(t);
    t->row_tap_loop = loop_of(t, t->row_tap);
    t->tap_loop = loop_of(t, t->tap);
    if (t->dot && !t->packs) take_steps(t, &t->tap_loop);
}

/* ---- order ---- */

/* Threads read either all weights and their own rows of the data, or their own weights and all of
 * the data: whichever is less. With lanes that all operands share, each thread reads its own part
 * of both. */
static bool shares_rows_first(const kiln_tiling *t) {
    return t->packs && t->s->target->threads > 1 && (t->mh >= 0 || t->mw >= 0) &&
           kiln_tile_operand_bytes(t, t->weights) < kiln_tile_operand_bytes(t, t->data);
}

/* One loop each of rows, columns and vectors. */
static void add_round(kiln_sched_loops *order, kiln_sched_loop row, kiln_sched_loop column,
                      kiln_sched_loop vector, bool vectors_last) {
    if (!vectors_last) kiln_sched_loops_add(order, vector);
    kiln_sched_loops_add(order, row);
    kiln_sched_loops_add(order, column);
    if (vectors_last) kiln_sched_loops_add(order, vector);
}

/* Reduce loops outside of the tile. */
static void add_reduction(const kiln_tiling *t, kiln_sched_loops *order) {
    const kiln_block_info *b = &t->s->program->block.data[t->block];
    if (!t->options.taps_outside) kiln_sched_loops_add(order, t->k_blocks);
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce && (int)i != t->k && (int)i != t->tap && (int)i != t->row_tap &&
            !(t->planes >> i & 1))
            kiln_sched_loops_add(order, loop_of(t, (int)i));
    if (t->options.taps_outside) kiln_sched_loops_add(order, t->k_blocks);
}

static kiln_sched_loops plane_loops(const kiln_tiling *t) {
    kiln_sched_loops loops = {0};
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (t->planes >> i & 1) kiln_sched_loops_add(&loops, loop_of(t, i));
    return loops;
}

kiln_sched_loop kiln_tile_first_reduce_loop(const kiln_tiling *t) {
    kiln_sched_loops order = {0};
    add_reduction(t, &order);
    kiln_sched_loops_add(&order, t->row_tap_loop);
    kiln_sched_loops_add(&order, t->tap_loop);
    return order.loop[0];
}

kiln_sched_loops kiln_tile_make_nest(kiln_tiling *t) {
    split_tile(t);
    kiln_sched_loops order = {0};
    const kiln_block_info *b = &t->s->program->block.data[t->block];
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (!b->iter[i].reduce && (int)i != t->v && (int)i != t->mh && (int)i != t->mw)
            kiln_sched_loops_add(&order, loop_of(t, (int)i));
    add_round(&order, t->row.rounds, t->column.rounds, t->vector.rounds,
              t->carries || shares_rows_first(t));
    add_round(&order, t->row.tiles, t->column.tiles, t->vector.tiles, t->options.vectors_innermost);
    const kiln_sched_loops outer = order;
    add_reduction(t, &order);
    kiln_sched_loops_add(&order, t->k_steps);
    kiln_sched_loops_add(&order, t->k_unrolled);
    const kiln_sched_loops planes = plane_loops(t);
    for (uint32_t i = 0; i < planes.count; i++) kiln_sched_loops_add(&order, planes.loop[i]);
    /* With rows innermost each vector of data is made once, for the rows that use it. */
    const bool rows_innermost = t->row_tap >= 0;
    add_round(&order, rows_innermost ? t->column.points : t->row.points,
              rows_innermost ? t->row.points : t->column.points, t->vector.points, true);
    kiln_sched_loops_add(&order, t->row_tap_loop);
    kiln_sched_loops_add(&order, t->tap_loop);
    kiln_sched_loops_add(&order, t->dot_rows);
    kiln_sched_loops_add(&order, t->lane);
    kiln_sched_loops_add(&order, t->dot_loop);
    kiln_sched_reorder(t->s, &order);
    return outer;
}

/* ---- straight code ---- */

void kiln_tile_unroll(kiln_tiling *t) {
    const kiln_sched_loop unrolled[] = {t->vector.points, t->column.points, t->row.points,
                                        t->k_unrolled,    t->row_tap_loop,  t->tap_loop};
    if (!t->dot) kiln_sched_vectorize(t->s, t->lane);
    for (uint32_t i = 0; i < sizeof unrolled / sizeof unrolled[0]; i++)
        if (!kiln_sched_loop_is_none(unrolled[i])) kiln_sched_unroll(t->s, unrolled[i]);
    const kiln_sched_loops planes = plane_loops(t);
    for (uint32_t i = 0; i < planes.count; i++) kiln_sched_unroll(t->s, planes.loop[i]);
}

void kiln_tile_tensorize(kiln_tiling *t, kiln_block init) {
    const bool rows = kiln_tile_dot_rows(t) > 1;
    kiln_sched_tensorize(t->s, rows ? t->dot_rows : t->lane, t->dot);
    kiln_sched_vectorize(t->s, kiln_sched_loop_around(t->s, init, -1));
    if (rows && !t->stored) kiln_sched_unroll(t->s, kiln_sched_loop_around(t->s, init, -2));
}

void kiln_tile_fetch_ahead(kiln_tiling *t, kiln_buffer packed, bool cuts_taps) {
    const kiln_block_info *b = &t->s->program->block.data[t->block];
    kiln_sched_loop steps = t->k_blocks;
    for (uint32_t i = 0; i < b->iter_count && !t->options.taps_outside; i++)
        if (b->iter[i].reduce && (int)i != t->k && b->iter[i].extent > 1 && !(t->planes >> i & 1))
            steps = loop_of(t, (int)i);
    if (cuts_taps) steps = t->k_steps;
    kiln_sched_sample ahead = kiln_sched_categorical(t->s, (int64_t[]){0, 1}, 2, 1);
    kiln_sched_prefetch(t->s, packed, steps, kiln_sched_element(ahead, 0));
}
