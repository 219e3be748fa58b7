/* The block that follows a tiled reduction and takes the result while it is in registers. */
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/rules/tile.h"

/* The iterator of `reader` whose quotient or remainder index `e` is, if it can be split so; -1:
 * none. */
static int divided_iter(const kiln_program *p, kiln_block reader, kiln_expr e, int64_t *out_by) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    if (node->op != KILN_EXPR_FLOORDIV && node->op != KILN_EXPR_FLOORMOD) return -1;
    if (!kiln_expr_is_const(p, kiln_expr_operand(p, e, 1))) return -1;
    *out_by = kiln_expr_get(p, kiln_expr_operand(p, e, 1))->payload.i;
    int i = kiln_block_iter_of(p, reader, kiln_expr_operand(p, e, 0));
    return i >= 0 && *out_by > 1 && p->block.data[reader].iter[i].extent % *out_by == 0 ? i : -1;
}

/* One iterator of the reader that indexes the buffer in strides becomes two. */
static bool divide_once(kiln_sched *s, kiln_buffer buffer, kiln_block reader) {
    kiln_program *p = s->program;
    const kiln_loads loads = kiln_block_loads(p, reader);
    for (uint32_t k = 0; k < loads.count; k++)
        for (uint32_t d = 0; d < p->buffer.data[buffer].shape.rank; d++) {
            int64_t by = 0;
            if (kiln_load_buffer(p, loads.load[k]) != buffer) break;
            int i = divided_iter(p, reader, kiln_expr_operand(p, loads.load[k], d), &by);
            if (i >= 0)
                return kiln_sched_divide(kiln_sched_try(s), reader, (uint32_t)i,
                                         kiln_sched_const(by))
                           .count > 0;
        }
    return false;
}

/* Whether the reader loads elements at other places than its own: gates side by side. */
static bool reads_elsewhere(kiln_program *p, kiln_block reader, kiln_buffer buffer) {
    const kiln_loads loads = kiln_block_loads(p, reader);
    for (uint32_t k = 0; k < loads.count; k++)
        for (uint32_t d = 0; d < p->buffer.data[buffer].shape.rank; d++) {
            if (kiln_load_buffer(p, loads.load[k]) != buffer) break;
            const kiln_expr index = kiln_expr_operand(p, loads.load[k], d);
            const uint8_t op = kiln_expr_get(p, index)->op;
            if ((op == KILN_EXPR_ADD || op == KILN_EXPR_SUB) &&
                kiln_expr_is_const(p, kiln_expr_operand(p, index, 1)))
                return true;
        }
    return false;
}

/* Whether each dimension of the buffer is indexed by a different plain iterator. */
static bool follows_plainly(kiln_program *p, const kiln_pattern *reader, kiln_buffer buffer) {
    uint32_t plain = 0;
    if (reads_elsewhere(p, reader->block, buffer)) return false;
    for (uint32_t a = 0; a < reader->from_count; a++)
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX && reader->from[a].buffer == buffer; i++)
            if (reader->from[a].dim_of[i] >= 0) plain |= 1u << reader->from[a].dim_of[i];
    const kiln_shape *shape = &p->buffer.data[buffer].shape;
    for (uint32_t d = 0; d < shape->rank; d++)
        if (!(plain >> d & 1) && shape->dim[d] != 1) return false;
    return true;
}

/* A reduction whose result must stay in memory as it is writes it through a copy of the tile. */
kiln_block kiln_sketch_separate_result(kiln_sched *s, kiln_block block, kiln_scope scope) {
    kiln_program *p = s->program;
    kiln_buffer buffer = p->block.data[block].buffer;
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    uint32_t count = kiln_buffer_readers(p, buffer, reader);
    kiln_pattern follower;
    /* A reader of a result in several strides gets an iterator for each, so it can follow tiles. */
    if (count == 1)
        while (divide_once(s, buffer, reader[0])) continue;
    if (p->buffer.data[buffer].role == KILN_ROLE_TEMP && count == 1 &&
        !kiln_block_is_reduction(p, reader[0]) && kiln_pattern_of(p, reader[0], &follower) &&
        follows_plainly(p, &follower, buffer))
        return reader[0];
    return kiln_sched_cache_write(kiln_sched_try(s), block, scope);
}

/* Steps that the follower's loops do not allow are left out: it may have more loops than the result
 * has dimensions. */
bool kiln_tile_place_follower(kiln_tiling *t, kiln_block follower, kiln_sched_loop at) {
    kiln_sched *s = t->s;
    kiln_pattern pattern;
    if (!kiln_sched_reverse_compute_at(kiln_sched_try(s), follower, at)) return false;
    if (!kiln_pattern_of(s->program, follower, &pattern)) return true;
    const int lanes_iter = kiln_tile_lanes_of(t, &pattern);
    kiln_sched_loops order = {0};
    const uint32_t iters = s->program->block.data[follower].iter_count;
    for (uint32_t i = 0; i < iters; i++)
        if ((int)i != lanes_iter) kiln_sched_loops_add(&order, kiln_sched_loop_of(s, follower, i));
    const kiln_sched_loops rest = order;
    kiln_sched_loops vector = {0};
    if (lanes_iter >= 0)
        vector = kiln_sketch_split_lanes(s, kiln_sched_loop_of(s, follower, (uint32_t)lanes_iter),
                                         t->lanes);
    if (vector.count) {
        kiln_sched_loops_add(&order, vector.loop[0]);
        kiln_sched_loops_add(&order, vector.loop[1]);
        kiln_sched_reorder(kiln_sched_try(s), &order);
        kiln_sched_vectorize(kiln_sched_try(s), vector.loop[1]);
        kiln_sched_unroll(kiln_sched_try(s), vector.loop[0]);
    }
    if (t->stored) return true; /* out of memory */
    for (uint32_t i = 0; i < rest.count; i++) kiln_sched_unroll(kiln_sched_try(s), rest.loop[i]);
    return true;
}

bool kiln_tile_place_stored(kiln_tiling *t, kiln_sched_loop at) {
    kiln_sched *s = t->s;
    const uint32_t lanes_dim = (uint32_t)t->pattern.to.dim_of[t->v],
                   rows_dim = (uint32_t)t->pattern.to.dim_of[t->mw];
    if (!kiln_sched_reverse_compute_at(kiln_sched_try(s), t->stored, at)) return false;
    kiln_sched_loops order = {0};
    for (uint32_t i = 0; i < s->program->block.data[t->stored].iter_count; i++)
        if (i != lanes_dim && i != rows_dim)
            kiln_sched_loops_add(&order, kiln_sched_loop_of(s, t->stored, i));
    const kiln_sched_loops rows =
        kiln_sched_split(s, kiln_sched_loop_of(s, t->stored, rows_dim),
                         KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(t->tile, 3)));
    const kiln_sched_loops lanes =
        kiln_sched_split(s, kiln_sched_loop_of(s, t->stored, lanes_dim),
                         KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_const(t->lanes)));
    kiln_sched_loops_add(&order, rows.loop[0]);
    kiln_sched_loops_add(&order, lanes.loop[0]);
    const kiln_sched_loops tiles = order;
    kiln_sched_loops_add(&order, rows.loop[1]);
    kiln_sched_loops_add(&order, lanes.loop[1]);
    kiln_sched_reorder(s, &order);
    for (uint32_t i = 0; i < tiles.count; i++) kiln_sched_unroll(s, tiles.loop[i]);
    kiln_sched_vectorize(s, lanes.loop[1]);
    return true;
}
