/* The rule for one large reduction: convolutions, matrix products, pooling, depthwise convolutions,
 * all told apart by access patterns only.
 *
 * Structure (measured to reach library speed): lanes of a vector run over an output dimension v
 * that one operand ("weights") is packed along, or that all operands share; a register tile of
 * several output points (mh x mw) times several vectors accumulates over the whole reduction;
 * weights are packed in the order in which they are read; inputs and outputs are blocked so that
 * lanes and reduce steps are contiguous. */
#include "compiler-core/sched/nest.h"
#include "compiler-core/sched/rules.h"
#include "compiler-core/sched/tile.h"

#define PLAIN 16 /* the variant without tensor intrinsics */

static const char *loop(const kiln_tile *t, int iter, const char *suffix) {
    return kiln_make_loop_name(t->m, t->block, iter, suffix);
}

/* The iterator of `reader` that index `e` takes the quotient or remainder of, if it can be divided
 * so; -1: none. */
static int divided_iter(const kiln_program *p, kiln_block reader, kiln_expr e, int64_t *out_by) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    if (node->op != KILN_EXPR_FLOORDIV && node->op != KILN_EXPR_FLOORMOD) return -1;
    if (!kiln_expr_is_const(p, kiln_expr_operand(p, e, 1))) return -1;
    *out_by = kiln_expr_get(p, kiln_expr_operand(p, e, 1))->payload.i;
    int i = kiln_block_iter_of(p, reader, kiln_expr_operand(p, e, 0));
    return i >= 0 && *out_by > 1 && p->block.data[reader].iter[i].extent % *out_by == 0 ? i : -1;
}

/* What reads a result in several strides gets an iterator for each, so that it can follow tiles. */
static void divide_reader(kiln_maker *m, kiln_buffer buffer, kiln_block reader) {
    kiln_program *p = m->replay.p;
    kiln_loads loads = kiln_block_loads(p, reader);
    for (uint32_t k = 0; k < loads.count; k++) {
        if (kiln_load_buffer(p, loads.load[k]) != buffer) continue;
        for (uint32_t d = 0; d < p->buffer.data[buffer].shape.rank; d++) {
            int64_t by = 0;
            int i = divided_iter(p, reader, kiln_expr_operand(p, loads.load[k], d), &by);
            if (i < 0) continue;
            kiln_str name = kiln_iter_name(p, &p->block.data[reader].iter[i]);
            if (kiln_make(m, "divide(%s, \"%.*s\", %lld)", kiln_make_block_name(m, reader),
                          KILN_STR_ARG(name), (long long)by))
                divide_reader(m, buffer, reader); /* its loads are others now */
            return;
        }
    }
}

/* A reduction whose result must stay in memory as it is writes it through a copy of the tile. */
static kiln_block separate_result(kiln_tile *t) {
    kiln_program *p = t->m->replay.p;
    kiln_buffer buffer = p->block.data[t->block].buffer;
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    uint32_t count = kiln_buffer_readers(p, buffer, reader);
    kiln_pattern follower;
    if (count == 1) divide_reader(t->m, buffer, reader[0]);
    p = t->m->replay.p;
    bool follows = p->buffer.data[buffer].role == KILN_ROLE_TEMP && count == 1 &&
                   !kiln_block_is_reduction(p, reader[0]) &&
                   kiln_pattern_of(p, reader[0], &follower);
    if (follows) { /* each dimension must be indexed by a plain iterator of its own */
        uint32_t rank = p->buffer.data[buffer].shape.rank, plain = 0;
        for (uint32_t a = 0; a < follower.from_count; a++) {
            if (follower.from[a].buffer != buffer) continue;
            for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
                if (follower.from[a].dim_of[i] >= 0) plain |= 1u << follower.from[a].dim_of[i];
        }
        for (uint32_t d = 0; d < rank; d++)
            follows &= (plain >> d & 1) || p->buffer.data[buffer].shape.dim[d] == 1;
    }
    if (follows) return reader[0];
    kiln_make(t->m, "cache_write(%s, \"register\")", kiln_make_block_name(t->m, t->block));
    return kiln_program_producer(t->m->replay.p, buffer);
}

/* Whether the reduction reads only every so many elements along a dimension of the weights. */
static bool is_strided(const kiln_tile *t, const kiln_access *w, uint32_t d) {
    int64_t extent = t->m->replay.p->buffer.data[w->buffer].shape.dim[d];
    return w->step[d] > 1 && extent % w->step[d] == 0;
}

/* Packed copy of the weights in reading order; tails of v are zeros. 0: none is made. */
static kiln_buffer pack_weights(kiln_tile *t, bool taps_outside) {
    if (t->weights < 0) return 0;
    const kiln_access w = t->pattern.from[t->weights];
    int dv = w.dim_of[t->v], dk = t->k < 0 ? -1 : w.dim_of[t->k];
    uint32_t rank = kiln_tile_rank(t, &w);
    kiln_block before = t->m->replay.p->block.count;
    if (!kiln_make(t->m, "cache_read(%s, %s, \"global\")", kiln_make_block_name(t->m, t->block),
                   kiln_make_buffer_name(t->m, w.buffer)))
        return 0;
    kiln_buffer packed = t->m->replay.p->block.data[before].buffer;
    const char *name = kiln_make_buffer_name(t->m, packed);
    bool whole_vectors = kiln_tile_can_pad(t) || kiln_tile_extent(t, t->v) % t->lanes == 0;
    const char *panel =
        whole_vectors
            ? kiln_arena_printf(t->m->arena, "%s[2]*%lld", t->tile, (long long)t->lanes)
            : kiln_arena_printf(t->m->arena, "%lld", (long long)kiln_tile_extent(t, t->v));
    if (kiln_tile_can_pad(t))
        kiln_make(t->m, "pad(%s, \"d%d\", %s)", kiln_make_block_name(t->m, before), dv, panel);

    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "d%d/{0}", dv);
    for (int part = 0; part < 2; part++) /* a walk through the reduction leaves most of these out */
        for (uint32_t d = 0; d < rank; d++)
            if (is_strided(t, &w, d))
                kiln_strbuf_printf(&text, ",d%u%c%lld", d, "/%"[part], (long long)w.step[d]);
    if (dk >= 0 && !taps_outside) kiln_strbuf_printf(&text, ",d%d/{1}", dk);
    for (uint32_t d = 0; d < rank; d++)
        if ((int)d != dv && (int)d != dk && !is_strided(t, &w, d))
            kiln_strbuf_printf(&text, ",d%u", d);
    if (dk >= 0 && taps_outside) kiln_strbuf_printf(&text, ",d%d/{1}", dk);
    long long stride = (long long)kiln_tile_stride(t);
    if (t->dot) /* the steps of an instruction behind one another in each lane */
        kiln_strbuf_printf(&text, ",d%d/%lld%%{2},d%d%%{0},d%d%%%lld", dk, stride, dv, dk, stride);
    else if (dk >= 0)
        kiln_strbuf_printf(&text, ",d%d%%{1},d%d%%{0}", dk, dv);
    else
        kiln_strbuf_printf(&text, ",d%d%%{0}", dv);
    const char *blocks = t->dot ? kiln_arena_printf(t->m->arena, ", %s[3]", t->steps) : "";
    kiln_make(t->m, "transform_layout(%s, \"%s\", %s, %s[0]%s)", name, text.data, panel, t->steps,
              blocks);
    kiln_strbuf_deinit(&text);
    if (t->m->replay.p->buffer.data[w.buffer].role != KILN_ROLE_CONSTANT)
        kiln_sketch_finish_block(t->m, before);
    return packed;
}

/* Gives `buffer`, and the argument that it is a copy of, blocks along the dimension of iterator
 * `iter`. */
static void block_data(kiln_tile *t, int iter, const char *size, kiln_block *out_producer) {
    kiln_program *p = t->m->replay.p;
    const kiln_access x = t->pattern.from[t->data];
    *out_producer = kiln_program_producer(p, x.buffer);
    int dim = iter < 0 ? -1 : x.dim_of[iter];
    const char *layout = kiln_sketch_blocked_layout(t->m, kiln_tile_rank(t, &x), dim);
    if (!layout) return;
    kiln_make(t->m, "transform_layout(%s, \"%s\", %s)", kiln_make_buffer_name(t->m, x.buffer),
              layout, size);
    kiln_pattern copy;
    if (!*out_producer || !kiln_pattern_of(p, *out_producer, &copy) || copy.from_count != 1) return;
    kiln_block maker = kiln_program_producer(p, copy.from[0].buffer);
    if (maker && kiln_block_is_reduction(p, maker)) { /* the result of another tile, not a copy */
        *out_producer = 0;
        return;
    }
    int source = -1;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (copy.to.dim_of[i] == dim) source = copy.from[0].dim_of[i];
    const char *same = kiln_sketch_blocked_layout(t->m, kiln_tile_rank(t, &copy.from[0]), source);
    if (same)
        kiln_make(t->m, "transform_layout(%s, \"%s\", %s)",
                  kiln_make_buffer_name(t->m, copy.from[0].buffer), same, size);
}

/* Loop of the producer that runs over dimension `dim` of what it writes. */
static int iter_along(kiln_program *p, kiln_block block, int dim) {
    for (uint32_t i = 0; i < p->block.data[block].iter_count; i++)
        if (dim >= 0 && kiln_block_iter_of(p, block, p->block.data[block].index[dim]) == (int)i)
            return (int)i;
    return -1;
}

/* The padded copy of the data, in vectors along its blocks; alone at the root it is shared out. */
static void vectorize_copy(kiln_tile *t, kiln_block copy, int dim, const char *block_size,
                           const char *lanes, bool at_root) {
    kiln_maker *m = t->m;
    int rank = (int)m->replay.p->buffer.data[m->replay.p->block.data[copy].buffer].shape.rank;
    int inner = iter_along(m->replay.p, copy, dim), last = iter_along(m->replay.p, copy, rank - 1);
    if (last < 0) return;
    bool blocked = inner >= 0 && inner != last;
    const char *order = "";
    for (uint32_t i = 0; i < m->replay.p->block.data[copy].iter_count; i++)
        if ((int)i != last)
            order = kiln_arena_printf(
                m->arena, "%s%s%s", order, *order ? ", " : "",
                kiln_make_loop_name(m, copy, (int)i, blocked && (int)i == inner ? ".0" : ""));
    if (blocked) {
        kiln_make(m, "split(%s, -1, %s)", kiln_make_loop_name(m, copy, inner, ""), block_size);
        kiln_make(m, "split(%s, -1, %s)", kiln_make_loop_name(m, copy, last, ""), lanes);
        kiln_make(m, "reorder(%s, %s, %s, %s)", order, kiln_make_loop_name(m, copy, last, ".0"),
                  kiln_make_loop_name(m, copy, last, ".1"),
                  kiln_make_loop_name(m, copy, inner, ".1"));
        kiln_make(m, "fuse(%s, %s)", kiln_make_loop_name(m, copy, last, ".1"),
                  kiln_make_loop_name(m, copy, inner, ".1"));
        kiln_make(m, "vectorize(%s)", kiln_make_loop_name(m, copy, last, ".1.f"));
    } else if (kiln_make(m, "split(%s, -1, %lld)", kiln_make_loop_name(m, copy, last, ""),
                         (long long)t->lanes)) {
        kiln_make(m, "vectorize(%s)", kiln_make_loop_name(m, copy, last, ".1"));
    }
    if (at_root) kiln_sketch_share(m, copy, m->replay.p->block.data[copy].iter_count - 1);
}

/* Whether the block copies its source and fills in a constant around it. */
static bool only_pads(const kiln_program *p, kiln_block copy) {
    kiln_expr value = p->block.data[copy].value;
    return kiln_expr_get(p, value)->op == KILN_EXPR_SELECT &&
           kiln_expr_get(p, kiln_expr_operand(p, value, 1))->op == KILN_EXPR_LOAD &&
           kiln_expr_is_const(p, kiln_expr_operand(p, value, 2));
}

/* Data that is loaded as vectors needs no padded copy: lowering cuts the loops where the padding
 * begins, and what is left in the middle reads the source itself. Broadcast data keeps it, where it
 * costs little and is read in the order in which it was made. */
static bool reads_source(const kiln_tile *t, kiln_block copy, uint32_t variant) {
    return !t->packs && !(variant & 4) && only_pads(t->m->replay.p, copy);
}

/* Where the padded copy is made. Around the second round of tiles at most: further inside, border
 * tests multiply the code. Copies that are used for one vector of outputs only are preferred there,
 * some rows at a time, others at the root, in a loop of their own. Only what is at the root can be
 * shared out apart, so with threads that is a sketch of its own. */
static void place_copy(kiln_tile *t, kiln_block copy, uint32_t variant, uint32_t outer_count) {
    kiln_maker *m = t->m;
    bool threads = m->target->threads > 1, at_root = threads && !(variant & 4) == t->packs;
    uint32_t inside = 2 * ((t->mh >= 0) + (t->mw >= 0));
    uint32_t places = outer_count > inside ? outer_count - inside : 0;
    const char *name = kiln_make_block_name(m, copy), *place = NULL;
    if (kiln_sketch_picks(m->replay.p, copy, NULL)) return; /* kiln_sketch_finish has it */
    if (reads_source(t, copy, variant)) {
        kiln_make(m, "inline(%s)", name);
        return;
    }
    if (!at_root)
        place = kiln_make_sampler(m, "location(%s, %u) = %u", name, places,
                                  t->packs && !threads ? 0 : places);
    if (place) kiln_make(m, "compute_at(%s, %s)", name, place);
    if (t->packs) {
        int dim = t->k >= 0 ? t->pattern.from[t->data].dim_of[t->k] : -1;
        const char *element = t->k >= 0 ? kiln_arena_printf(m->arena, "%s[0]", t->steps) : "1";
        vectorize_copy(t, copy, dim, element, kiln_arena_printf(m->arena, "%s[2]", t->steps),
                       at_root);
    } else {
        vectorize_copy(t, copy, t->pattern.from[t->data].dim_of[t->v],
                       kiln_arena_printf(m->arena, "%lld", (long long)t->lanes), "1", at_root);
    }
}

static int64_t operand_bytes(const kiln_tile *t, int operand) {
    if (operand < 0) return 0;
    const kiln_buffer_info *b = &t->m->replay.p->buffer.data[t->pattern.from[operand].buffer];
    return kiln_shape_count(&b->shape) * (int64_t)kiln_dtype_size(b->dtype);
}

/* Threads read either all weights and their own rows of the data, or their own weights and all of
 * the data: whichever is less. Lanes that all operands share leave each thread its own of both. */
static bool shares_rows_first(const kiln_tile *t) {
    return t->packs && t->m->target->threads > 1 && (t->mh >= 0 || t->mw >= 0) &&
           operand_bytes(t, t->weights) < operand_bytes(t, t->data);
}

/* The list of loops that reorder takes. */
typedef struct loop_order {
    const kiln_tile *t;
    const char *text, *first, *last;
    uint32_t count;
} loop_order;

static void put(loop_order *order, int iter, const char *suffix) {
    if (iter < 0) return;
    order->last = loop(order->t, iter, suffix);
    if (!order->first) order->first = order->last;
    order->text = kiln_arena_printf(order->t->m->arena, "%s%s%s", order->text,
                                    order->count++ ? ", " : "", order->last);
}

/* One loop each of rows, columns and vectors. */
static void put_round(loop_order *order, bool vectors_last, const char *suffix) {
    const kiln_tile *t = order->t;
    if (!vectors_last) put(order, t->v, suffix);
    put(order, t->mh, suffix);
    put(order, t->mw, suffix);
    if (vectors_last) put(order, t->v, suffix);
}

/* Reduce loops outside of the tile. */
static void put_reduction(loop_order *order, bool taps_outside) {
    const kiln_tile *t = order->t;
    const kiln_block_info *b = &t->m->replay.p->block.data[t->block];
    if (!taps_outside) put(order, t->k, ".0");
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce && (int)i != t->k && (int)i != t->tap) put(order, (int)i, "");
    if (taps_outside) put(order, t->k, ".0");
}

static const char *first_reduce_loop(const kiln_tile *t, bool taps_outside) {
    loop_order order = {.t = t, .text = ""};
    put_reduction(&order, taps_outside);
    put(&order, t->tap, "");
    return order.first;
}

static void split_tile(kiln_tile *t, bool vectors_innermost) {
    kiln_maker *m = t->m;
    kiln_make(m, "split(%s, -1, %s[2], %lld)", loop(t, t->v, ""), t->tile, (long long)t->lanes);
    bool all_vectors = vectors_innermost || kiln_tile_keeps_weights(t);
    kiln_tile_split_rounds(t, loop(t, t->v, ".0"), all_vectors ? INT64_MAX : 1);
    const int m_iter[2] = {t->mh, t->mw};
    for (uint32_t i = 0; i < 2; i++) {
        if (m_iter[i] < 0) continue;
        kiln_make(m, "split(%s, -1, %s[%u])", loop(t, m_iter[i], ""), t->tile, i);
        const char *tiles = loop(t, m_iter[i], ".0");
        kiln_tile_split_rounds(t, tiles, i == 1 ? INT64_MAX : kiln_tile_rows_a_round(t, tiles));
    }
    if (t->k < 0) return;
    kiln_make(m, "split(%s, -1, %s[0])", loop(t, t->k, ""), t->steps);
    kiln_make(m, "split(%s, -1, %s[1])", loop(t, t->k, ".1"), t->steps);
    if (t->dot) kiln_make(m, "split(%s, -1, %u)", loop(t, t->k, ".1.1"), t->dot->steps);
}

/* Splits the tile's loops and orders the nest. Returns the loops outside of the reduction. */
static loop_order make_nest(kiln_tile *t, uint32_t variant) {
    bool vectors_innermost = variant & 1, taps_outside = variant & 2;
    split_tile(t, vectors_innermost);
    loop_order order = {.t = t, .text = ""};
    const kiln_block_info *b = &t->m->replay.p->block.data[t->block];
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (!b->iter[i].reduce && (int)i != t->v && (int)i != t->mh && (int)i != t->mw)
            put(&order, (int)i, "");
    put_round(&order, shares_rows_first(t), ".0.0");
    put_round(&order, vectors_innermost, ".0.1");
    const loop_order outer = order;
    put_reduction(&order, taps_outside);
    put(&order, t->k, ".1.0");
    put(&order, t->k, t->dot ? ".1.1.0" : ".1.1");
    put_round(&order, true, ".1");
    put(&order, t->tap, "");
    put(&order, t->v, ".2");
    if (t->dot) put(&order, t->k, ".1.1.1");
    kiln_make(t->m, "reorder(%s)", order.text);
    return outer;
}

/* What follows the reduction, at the tile: lanes contiguous, the rest unrolled because registers
 * have no address. */
static void place_follower(kiln_tile *t, kiln_block follower, const char *at) {
    kiln_maker *m = t->m;
    kiln_program *p = m->replay.p;
    if (!kiln_make(m, "reverse_compute_at(%s, %s)", kiln_make_block_name(m, follower), at)) return;
    kiln_buffer buffer = p->block.data[t->block].buffer;
    kiln_pattern pattern;
    if (!kiln_pattern_of(p, follower, &pattern)) return;
    int lanes_iter = -1;
    kiln_strbuf order = {0};
    for (uint32_t a = 0; a < pattern.from_count && lanes_iter < 0; a++)
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX && pattern.from[a].buffer == buffer; i++)
            if (pattern.from[a].dim_of[i] == t->pattern.to.dim_of[t->v] &&
                kiln_tile_has(pattern.spatial, i))
                lanes_iter = i;
    uint32_t iters = p->block.data[follower].iter_count;
    for (uint32_t i = 0; i < iters; i++)
        if ((int)i != lanes_iter)
            kiln_strbuf_printf(&order, "%s, ", kiln_make_loop_name(m, follower, (int)i, ""));
    if (lanes_iter >= 0) {
        kiln_make(m, "split(%s, -1, %lld)", kiln_make_loop_name(m, follower, lanes_iter, ""),
                  (long long)t->lanes);
        kiln_make(m, "reorder(%s%s, %s)", order.data ? order.data : "",
                  kiln_make_loop_name(m, follower, lanes_iter, ".0"),
                  kiln_make_loop_name(m, follower, lanes_iter, ".1"));
        kiln_make(m, "vectorize(%s)", kiln_make_loop_name(m, follower, lanes_iter, ".1"));
        kiln_make(m, "unroll(%s)", kiln_make_loop_name(m, follower, lanes_iter, ".0"));
    }
    for (uint32_t i = 0; i < iters; i++)
        if ((int)i != lanes_iter &&
            !kiln_make(m, "unroll(%s)", kiln_make_loop_name(m, follower, (int)i, "")))
            continue;
    kiln_strbuf_deinit(&order);
}

static bool feeds_reduction(kiln_program *p, kiln_buffer buffer) {
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    uint32_t count = kiln_buffer_readers(p, buffer, reader);
    for (uint32_t i = 0; i < count; i++)
        if (kiln_block_is_reduction(p, reader[i])) return true;
    return false;
}

/* Output blocks: the follower's result, and other arguments that it reads element by element. */
static void block_output(kiln_tile *t, kiln_block follower, const char *size) {
    kiln_maker *m = t->m;
    kiln_program *p = m->replay.p;
    kiln_buffer from = p->block.data[t->block].buffer;
    kiln_pattern pattern;
    if (!kiln_pattern_of(p, follower, &pattern)) return;
    int lanes_iter = -1;
    for (uint32_t a = 0; a < pattern.from_count; a++)
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX && pattern.from[a].buffer == from; i++)
            if (pattern.from[a].dim_of[i] == t->pattern.to.dim_of[t->v] &&
                kiln_tile_has(pattern.spatial, i))
                lanes_iter = i;
    if (lanes_iter < 0 || feeds_reduction(p, pattern.to.buffer)) return;
    int dim = pattern.to.dim_of[lanes_iter];
    const char *layout = kiln_sketch_blocked_layout(m, kiln_tile_rank(t, &pattern.to), dim);
    if (!layout) return;
    if (!size) size = kiln_tile_sample_block(t, p->buffer.data[pattern.to.buffer].shape.dim[dim]);
    kiln_make(m, "transform_layout(%s, \"%s\", %s)", kiln_make_buffer_name(m, pattern.to.buffer),
              layout, size);
    for (uint32_t a = 0; a < pattern.from_count; a++) {
        const kiln_access *x = &pattern.from[a];
        if (kiln_tile_role(t, x) != KILN_ROLE_INPUT || x->buffer == t->pattern.from[t->data].buffer)
            continue;
        const char *same =
            kiln_sketch_blocked_layout(m, kiln_tile_rank(t, x), x->dim_of[lanes_iter]);
        if (same)
            kiln_make(m, "transform_layout(%s, \"%s\", %s)", kiln_make_buffer_name(m, x->buffer),
                      same, size);
    }
}

/* How many of the outermost loops may be shared out: those outside of the first round of rows and
 * columns, and that round as well. Each output iterator has one loop there. */
static uint32_t loops_to_share(const kiln_tile *t) {
    const kiln_block_info *b = &t->m->replay.p->block.data[t->block];
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->iter_count; i++) count += !b->iter[i].reduce;
    return count;
}

/* The accumulators become registers: lanes innermost, so that each vector is one register. */
static void place_accumulators(kiln_tile *t) {
    const char *name = kiln_make_buffer_name(t->m, t->m->replay.p->block.data[t->block].buffer);
    kiln_make(t->m, "set_scope(%s, \"register\")", name);
    int lanes_dim = t->pattern.to.dim_of[t->v];
    if (lanes_dim + 1 == (int)kiln_tile_rank(t, &t->pattern.to)) return;
    const char *layout = "";
    for (uint32_t d = 0; d < kiln_tile_rank(t, &t->pattern.to); d++)
        if ((int)d != lanes_dim) layout = kiln_arena_printf(t->m->arena, "%sd%u,", layout, d);
    kiln_make(t->m, "transform_layout(%s, \"%sd%d\")", name, layout, lanes_dim);
}

/* Lanes and their steps become the instruction; the initial values, which were the same loops until
 * now, vectors. */
static void tensorize(kiln_tile *t) {
    kiln_make(t->m, "tensorize(%s, \"%s\")", loop(t, t->v, ".2"), t->dot->name);
    kiln_program *p = t->m->replay.p;
    for (kiln_block b = 1; b < p->block.count; b++) {
        if (p->block.data[b].init_of != t->block) continue;
        kiln_loops around = kiln_block_loops(p, b);
        if (!around.count) continue;
        kiln_stmt innermost = around.loop[around.count - 1];
        kiln_make(t->m, "vectorize(%s)", kiln_make_stmt_name(t->m, innermost));
    }
}

/* While tiles use one panel of weights, each block of steps fetches a share of the next. */
static void fetch_ahead(kiln_tile *t, kiln_buffer packed, bool taps_outside) {
    const kiln_block_info *b = &t->m->replay.p->block.data[t->block];
    const char *steps = loop(t, t->k, ".0");
    for (uint32_t i = 0; i < b->iter_count && !taps_outside; i++)
        if (b->iter[i].reduce && (int)i != t->k && b->iter[i].extent > 1)
            steps = loop(t, (int)i, "");
    const char *ahead = kiln_make_sampler(t->m, "categorical(0, 1) = 1");
    kiln_make(t->m, "prefetch(%s, %s, %s)", kiln_make_buffer_name(t->m, packed), steps, ahead);
}

/* Tiles one reduction. `variant`: as make_nest and place_copy read it. */
static bool tile_reduction(kiln_maker *m, kiln_block block, int lanes_iter, uint32_t variant) {
    kiln_tile t = {.m = m, .block = block, .given_v = lanes_iter, .plain = variant & PLAIN};
    if (!kiln_tile_analyse(&t)) return false;
    if ((variant & 2) && (t.k < 0 || (t.pattern.reduce & ~(1u << t.k)) == 0))
        return false; /* the same as without */

    t.tile = kiln_tile_sample_registers(&t);
    t.steps = kiln_tile_sample_steps(&t);
    kiln_block follower = separate_result(&t);
    if (!kiln_tile_analyse(&t)) return false; /* the block's buffer may be another now */
    kiln_buffer packed = pack_weights(&t, variant & 2);
    kiln_block copy = 0;
    const char *element = t.k >= 0 ? kiln_arena_printf(m->arena, "%s[0]", t.steps) : "1";
    const char *vector = kiln_arena_printf(m->arena, "%s[2]*%lld", t.tile, (long long)t.lanes);
    const char *blocks =
        t.packs ? NULL
                : kiln_tile_sample_block(&t, kiln_tile_extent(&t, t.v)); /* the same in and out */
    block_data(&t, t.packs ? t.k : t.v, t.packs ? element : blocks, &copy);
    bool copies_apart = m->target->threads > 1 || (copy && reads_source(&t, copy, 0));
    if ((variant & 4) && (!copy || !copies_apart)) return false; /* the same as without */
    block_output(&t, follower, blocks);
    const char *name = kiln_make_block_name(m, t.block);
    kiln_make(
        m, "pad(%s, \"%.*s\", %s)", name,
        KILN_STR_ARG(kiln_iter_name(m->replay.p, &m->replay.p->block.data[t.block].iter[t.v])),
        vector);

    const loop_order outer = make_nest(&t, variant);
    uint32_t shared = kiln_sketch_share(m, t.block, loops_to_share(&t));
    uint32_t outer_count = outer.count - (shared > 1 ? shared - 1 : 0);
    if (copy) place_copy(&t, copy, variant, outer_count);
    place_follower(&t, follower, outer.last);
    if (!t.dot) kiln_make(m, "vectorize(%s)", loop(&t, t.v, ".2"));
    kiln_make(m, "unroll(%s)", loop(&t, t.v, ".1"));
    if (t.mw >= 0) kiln_make(m, "unroll(%s)", loop(&t, t.mw, ".1"));
    if (t.mh >= 0) kiln_make(m, "unroll(%s)", loop(&t, t.mh, ".1"));
    if (t.k >= 0) kiln_make(m, "unroll(%s)", loop(&t, t.k, t.dot ? ".1.1.0" : ".1.1"));
    if (t.tap >= 0) kiln_make(m, "unroll(%s)", loop(&t, t.tap, ""));
    kiln_make(m, "decompose_reduction(%s, %s)", name, first_reduce_loop(&t, variant & 2));
    if (t.dot) tensorize(&t);
    place_accumulators(&t);
    if (packed && kiln_tile_fetches_ahead(&t)) fetch_ahead(&t, packed, variant & 2);
    return true;
}

/* The reduction in parts that are summed up later, so that the weights of a part stay in the second
 * cache while all tiles use them. Returns the block that makes the parts, or 0. */
static kiln_block reduce_in_parts(kiln_tile *t) {
    kiln_maker *m = t->m;
    const char *parts = kiln_tile_sample_parts(t);
    const char *block = kiln_make_block_name(m, t->block);
    kiln_str along = kiln_iter_name(m->replay.p, &m->replay.p->block.data[t->block].iter[t->k]);
    if (!kiln_make(m, "divide(%s, \"%.*s\", %s[0])", block, KILN_STR_ARG(along), parts)) return 0;
    kiln_block made = m->replay.p->block.count;
    return kiln_make(m, "rfactor(%s, \"%.*s.0\", %s[1])", block, KILN_STR_ARG(along), parts) ? made
                                                                                             : 0;
}

bool kiln_sketch_tile(kiln_maker *m, uint32_t variant) {
    uint32_t reductions;
    kiln_sketch_inline(m);
    kiln_tile t = {
        .m = m, .block = kiln_sketch_main_reduction(m->replay.p, &reductions), .given_v = -1};
    if (!t.block || reductions != 1 || !kiln_tile_analyse(&t)) return false;
    bool wants_parts = kiln_tile_wants_parts(&t), whole = variant & 8;
    if (!wants_parts && whole) return false; /* the same as without */
    if (!t.dot && (variant & PLAIN)) return false;
    kiln_block part = wants_parts && !whole ? reduce_in_parts(&t) : 0;
    bool made = part ? tile_reduction(m, part, t.v, variant) && tile_reduction(m, t.block, t.v, 0)
                     : tile_reduction(m, t.block, -1, variant);
    if (made) kiln_sketch_finish(m);
    return made;
}
