/* The rule for one large reduction: convolutions, matrix products, pooling, depthwise convolutions,
 * all told apart by access patterns only.
 *
 * Structure (measured to reach library speed): lanes of a vector run over an output dimension v
 * that one operand ("weights") is packed along, or that all operands share; a register tile of
 * several output points (mh x mw) times several vectors accumulates over the whole reduction;
 * weights are packed in the order in which they are read; inputs and outputs are blocked so that
 * lanes and reduce steps are contiguous. */
#include <math.h>

#include "compiler-core/sched/nest.h"
#include "compiler-core/sched/rules.h"

#define TILE_ROWS_MAX 16
#define REDUCE_BLOCK_MAX 64
#define TAPS_UNROLLED_MAX 7
#define FMA_IN_FLIGHT 10 /* accumulators that keep two FMA units of latency 4 to 5 busy */

typedef struct plan {
    kiln_maker *m;
    kiln_block block;
    kiln_pattern pattern;
    int weights, data; /* positions in pattern.from, or -1 */
    int v, mh, mw, k; /* iterators: lanes, rows and columns of the tile, blocked reduction; or -1 */
    int tap; /* reduce iterator that slides over the columns, when data is loaded as vectors; or -1
              */
    int64_t lanes;
    bool packs;        /* v belongs to `weights` alone: broadcast data, packed weights */
    const char *tile;  /* sampler of (mh, mw, vectors) */
    const char *steps; /* sampler of (reduce block, unrolled steps, lanes of the padding copy) */
} plan;

static bool has(uint32_t mask, int i) { return i >= 0 && (mask >> i & 1); }
static int64_t extent_of(const plan *t, int i) {
    return i < 0 ? 1 : t->m->replay.p->block.data[t->block].iter[i].extent;
}
static uint32_t rank_of(const plan *t, const kiln_access *a) {
    return t->m->replay.p->buffer.data[a->buffer].shape.rank;
}
static kiln_role role_of(const plan *t, const kiln_access *a) {
    return t->m->replay.p->buffer.data[a->buffer].role;
}

/* ---- analysis
 * -------------------------------------------------------------------------------------------------
 */

/* An output iterator of which blocks are blocks of a dimension of everything that it indexes. */
static bool can_be_lanes(const plan *t, int i) {
    if (!has(t->pattern.spatial, i) || t->pattern.to.dim_of[i] < 0) return false;
    for (uint32_t a = 0; a < t->pattern.from_count; a++)
        if (has(t->pattern.from[a].iters, i) && t->pattern.from[a].dim_of[i] < 0) return false;
    return true;
}

/* Weights and data: lanes over an iterator that indexes only one of two operands; constants are
 * preferred, as packing them costs nothing, then the innermost output dimension. */
static bool choose_packed(plan *t) {
    if (!t->pattern.multiplies || t->pattern.from[0].buffer == t->pattern.from[1].buffer)
        return false;
    double best = 0;
    for (int side = 0; side < 2; side++) {
        const kiln_access *w = &t->pattern.from[side], *x = &t->pattern.from[1 - side];
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
            if (!can_be_lanes(t, i) || !has(w->iters, i) || has(x->iters, i)) continue;
            bool innermost = t->pattern.to.dim_of[i] + 1 == (int)rank_of(t, &t->pattern.to);
            double score = (double)extent_of(t, i) * (role_of(t, w) == KILN_ROLE_CONSTANT ? 1e6
                                                      : innermost                         ? 1e3
                                                                                          : 1);
            if (score <= best) continue;
            best = score;
            t->v = i;
            t->weights = side;
            t->data = 1 - side;
        }
    }
    return best > 0;
}

/* Lanes over an iterator that all operands share. Making it contiguous costs a conversion unless it
 * is, which pays for images but not for rows of a matrix. */
static bool choose_shared(plan *t) {
    t->data = -1;
    for (uint32_t a = 0; a < t->pattern.from_count; a++)
        if (role_of(t, &t->pattern.from[a]) != KILN_ROLE_CONSTANT) {
            if (t->data >= 0) return false;
            t->data = (int)a;
        } else {
            t->weights = (int)a;
        }
    if (t->data < 0 || t->pattern.from_count > 2) return false;
    const kiln_access *x = &t->pattern.from[t->data];
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
        if (!can_be_lanes(t, i) || !has(x->iters, i)) continue;
        if (rank_of(t, x) < 4 && x->dim_of[i] + 1 != (int)rank_of(t, x)) continue;
        if (t->v < 0 || extent_of(t, i) > extent_of(t, t->v)) t->v = i;
    }
    return t->v >= 0;
}

/* With data in vectors, neighbouring columns of a window read the same vectors: the window's
 * columns are unrolled inside the tile, so that each vector is loaded once. Broadcast data has no
 * such gain. */
static int find_tap(const plan *t) {
    const kiln_access *x = &t->pattern.from[t->data];
    int tap = -1;
    if (t->packs || t->mw < 0 || x->window == 0) return -1;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (has(t->pattern.reduce, i) && has(x->iters, i) && x->dim_of[i] < 0 &&
            extent_of(t, i) <= TAPS_UNROLLED_MAX)
            tap = i;
    return tap;
}

/* Whether v alone indexes its dimension of the output, so that padding it is padding the buffer.
 * With groups of channels it does not; then partial vectors need masks. */
static bool can_pad(const plan *t) {
    const kiln_buffer_info *to = &t->m->replay.p->buffer.data[t->pattern.to.buffer];
    return to->shape.dim[t->pattern.to.dim_of[t->v]] == extent_of(t, t->v);
}

static bool analyse(plan *t) {
    t->weights = t->data = t->v = t->mh = t->mw = t->k = -1;
    if (!kiln_pattern_of(t->m->replay.p, t->block, &t->pattern)) return false;
    t->packs = choose_packed(t);
    if (!t->packs && !choose_shared(t)) return false;
    const kiln_access *x = &t->pattern.from[t->data];
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++) {
        if (i != t->v && has(t->pattern.spatial, i) && has(x->iters, i) &&
            t->pattern.to.dim_of[i] >= 0 &&
            (!t->packs || !has(t->pattern.from[t->weights].iters, i))) {
            t->mh = t->mw;
            t->mw = i;
        }
        bool blocks = t->packs && has(t->pattern.reduce, i) && x->dim_of[i] >= 0 &&
                      t->pattern.from[t->weights].dim_of[i] >= 0;
        if (blocks && (t->k < 0 || extent_of(t, i) > extent_of(t, t->k))) t->k = i;
    }
    t->tap = find_tap(t);
    t->lanes = kiln_sketch_lanes(
        t->m->target, t->m->replay.p->buffer.data[t->pattern.to.buffer].dtype, extent_of(t, t->v));
    return t->lanes > 1;
}

/* ---- decisions
 * ---------------------------------------------------------------------------------------------------
 */

static double max2(double a, double b) { return a > b ? a : b; }

/* Share of the arithmetic peak that a tile reaches by its shape alone: partial tiles at the
 * borders, few accumulators and many loads cost time. Two loads and two FMAs per cycle. */
static double tile_efficiency(const plan *t, int64_t mh, int64_t mw, int64_t vectors) {
    int64_t h = extent_of(t, t->mh), w = extent_of(t, t->mw),
            n = (extent_of(t, t->v) + t->lanes - 1) / t->lanes;
    double cost = 0;
    for (int tail_h = 0; tail_h < 2; tail_h++)
        for (int tail_w = 0; tail_w < 2; tail_w++) {
            int64_t rows = tail_h ? h % mh : mh, columns = tail_w ? w % mw : mw;
            int64_t count = (tail_h ? (h % mh != 0) : h / mh) * (tail_w ? (w % mw != 0) : w / mw);
            double points = (double)(rows * columns);
            double loads = t->packs ? points + (double)vectors : points * (double)vectors * 1.5;
            cost += (double)count * max2(max2(points * (double)vectors, FMA_IN_FLIGHT), loads);
        }
    cost *= (double)((n + vectors - 1) / vectors);
    double useful = (double)(h * w) * (double)extent_of(t, t->v) / (double)t->lanes;
    return useful / cost * (mh > 1 && mw < w ? 0.97 : 1.0);
}

/* Blocks of channels that all kernels prefer, so that those that were not measured agree without
 * conversions. */
static int64_t channel_block(const plan *t) {
    return (int64_t)t->m->target->vector_bytes / (int64_t)sizeof(float);
}

typedef struct tile_row {
    int64_t mh, mw, vectors;
    double efficiency;
} tile_row;

static void insert_row(tile_row *row, uint32_t *count, tile_row added) {
    uint32_t at = *count < TILE_ROWS_MAX ? (*count)++ : TILE_ROWS_MAX;
    while (at > 0 && row[at - 1].efficiency < added.efficiency - 1e-9) {
        if (at < TILE_ROWS_MAX) row[at] = row[at - 1];
        at--;
    }
    if (at < TILE_ROWS_MAX) row[at] = added;
}

/* Register tiles that fit: accumulators, one row of weights, one broadcast element. Best first. */
static const char *sample_tile(plan *t) {
    tile_row row[TILE_ROWS_MAX];
    uint32_t count = 0;
    int64_t registers = t->m->target->vector_registers;
    int64_t vectors_max = KILN_MIN(6, (extent_of(t, t->v) + t->lanes - 1) / t->lanes);
    for (int64_t mh = 1; mh <= KILN_MIN(extent_of(t, t->mh), 8); mh++)
        for (int64_t mw = KILN_MIN(extent_of(t, t->mw), 32); mw >= 1; mw--)
            for (int64_t vectors = 1; vectors <= vectors_max; vectors++) {
                if (mh * mw * vectors + vectors + 1 > registers) break;
                if (vectors > 1 && extent_of(t, t->v) % (vectors * t->lanes) != 0 && !can_pad(t))
                    continue;
                insert_row(row, &count,
                           (tile_row){mh, mw, vectors, tile_efficiency(t, mh, mw, vectors)});
            }
    while (count > 1 && row[count - 1].efficiency < 0.8 * row[0].efficiency) count--;
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < count; i++)
        kiln_strbuf_printf(&text, ", %lld, %lld, %lld", (long long)row[i].mh, (long long)row[i].mw,
                           (long long)row[i].vectors);
    const char *name = kiln_make_sampler(t->m, "choice(3%s) = 0", text.data);
    kiln_strbuf_deinit(&text);
    return name;
}

/* Reduce block (contiguous steps of data and weights), how many of them are unrolled, and lanes
 * along the innermost dimension for the padding copy where the block is too short to fill a vector.
 */
static const char *sample_steps(plan *t) {
    int64_t extent = t->k < 0 ? 1 : extent_of(t, t->k);
    kiln_strbuf text = {0};
    uint32_t rows = 0, preferred = 0;
    int64_t best = 0;
    for (int64_t block = 1; block <= KILN_MIN(extent, REDUCE_BLOCK_MAX); block++) {
        if (extent % block != 0 || (block < 4 && block < extent && extent % 4 == 0)) continue;
        for (int64_t unrolled = 1; unrolled <= KILN_MIN(block, 4); unrolled *= 2) {
            if (block % unrolled != 0) continue;
            int64_t lanes = block > 1 ? 1 : t->lanes;
            kiln_strbuf_printf(&text, ", %lld, %lld, %lld", (long long)block, (long long)unrolled,
                               (long long)lanes);
            if (block <= channel_block(t) && block * 64 + KILN_MIN(unrolled, 4) > best) {
                best = block * 64 + KILN_MIN(unrolled, 4);
                preferred = rows;
            }
            rows++;
        }
    }
    const char *name = kiln_make_sampler(t->m, "choice(3%s) = %u", text.data, preferred);
    kiln_strbuf_deinit(&text);
    return name;
}

/* Splits a loop over tiles into rounds of tiles without remainder, preferring `preferred` tiles a
 * round. */
static void split_rounds(plan *t, const char *tiles_loop, int64_t preferred) {
    kiln_stmt loop = kiln_program_find_loop(t->m->replay.p, kiln_str_from(tiles_loop));
    int64_t tiles = loop ? t->m->replay.p->stmt.data[loop].extent : 1, round = 1;
    for (int64_t r = 1; r <= KILN_MIN(tiles, preferred); r++)
        if (tiles % r == 0) round = r;
    const char *rounds =
        kiln_make_sampler(t->m, "perfect_tile(%s, 2, 1000000) = [%lld, %lld]", tiles_loop,
                          (long long)(tiles / round), (long long)round);
    if (rounds) kiln_make(t->m, "split(%s, %s[0], %s[1])", tiles_loop, rounds, rounds);
}

/* Blocks of output channels: whole vectors that divide, or everything. */
static const char *sample_output_block(plan *t, int64_t extent) {
    int64_t value[16];
    uint32_t count = 0;
    for (int64_t block = t->lanes; block < extent && count + 1 < KILN_ARRAY_COUNT(value);
         block += t->lanes)
        if (extent % block == 0 && block <= 16 * t->lanes) value[count++] = block;
    value[count++] = extent;
    return kiln_make_categorical(t->m, value, count, channel_block(t));
}

/* ---- steps
 * --------------------------------------------------------------------------------------------------------
 */

static const char *loop(const plan *t, int iter, const char *suffix) {
    return kiln_make_loop_name(t->m, t->block, iter, suffix);
}

/* A reduction whose result must stay in memory as it is writes it through a copy of the tile. */
static kiln_block separate_result(plan *t) {
    kiln_program *p = t->m->replay.p;
    kiln_buffer buffer = p->block.data[t->block].buffer;
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    uint32_t count = kiln_buffer_readers(p, buffer, reader);
    kiln_pattern follower;
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

/* Packed copy of the weights in reading order; tails of v are zeros. */
static void pack_weights(plan *t, bool taps_outside) {
    if (t->weights < 0) return;
    const kiln_access w = t->pattern.from[t->weights];
    int dv = w.dim_of[t->v], dk = t->k < 0 ? -1 : w.dim_of[t->k];
    uint32_t rank = rank_of(t, &w);
    kiln_block before = t->m->replay.p->block.count;
    if (!kiln_make(t->m, "cache_read(%s, %s, \"global\")", kiln_make_block_name(t->m, t->block),
                   kiln_make_buffer_name(t->m, w.buffer)))
        return;
    kiln_buffer packed = t->m->replay.p->block.data[before].buffer;
    const char *name = kiln_make_buffer_name(t->m, packed);
    bool whole_vectors = can_pad(t) || extent_of(t, t->v) % t->lanes == 0;
    const char *panel =
        whole_vectors ? kiln_arena_printf(t->m->arena, "%s[2]*%lld", t->tile, (long long)t->lanes)
                      : kiln_arena_printf(t->m->arena, "%lld", (long long)extent_of(t, t->v));
    if (can_pad(t))
        kiln_make(t->m, "pad(%s, \"d%d\", %s)", kiln_make_block_name(t->m, before), dv, panel);

    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "d%d/{0}", dv);
    if (dk >= 0 && !taps_outside) kiln_strbuf_printf(&text, ",d%d/{1}", dk);
    for (uint32_t d = 0; d < rank; d++)
        if ((int)d != dv && (int)d != dk) kiln_strbuf_printf(&text, ",d%u", d);
    if (dk >= 0 && taps_outside) kiln_strbuf_printf(&text, ",d%d/{1}", dk);
    if (dk >= 0) kiln_strbuf_printf(&text, ",d%d%%{1}", dk);
    kiln_strbuf_printf(&text, ",d%d%%{0}", dv);
    kiln_make(t->m, "transform_layout(%s, \"%s\", %s, %s[0])", name, text.data, panel, t->steps);
    kiln_strbuf_deinit(&text);
    if (t->m->replay.p->buffer.data[w.buffer].role != KILN_ROLE_CONSTANT)
        kiln_sketch_finish_block(t->m, before);
}

/* Gives `buffer`, and the argument that it is a copy of, blocks along the dimension of iterator
 * `iter`. */
static void block_data(plan *t, int iter, const char *size, kiln_block *out_producer) {
    kiln_program *p = t->m->replay.p;
    const kiln_access x = t->pattern.from[t->data];
    *out_producer = kiln_program_producer(p, x.buffer);
    int dim = iter < 0 ? -1 : x.dim_of[iter];
    const char *layout = kiln_sketch_blocked_layout(t->m, rank_of(t, &x), dim);
    if (!layout) return;
    kiln_make(t->m, "transform_layout(%s, \"%s\", %s)", kiln_make_buffer_name(t->m, x.buffer),
              layout, size);
    kiln_pattern copy;
    if (!*out_producer || !kiln_pattern_of(p, *out_producer, &copy) || copy.from_count != 1) return;
    int source = -1;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (copy.to.dim_of[i] == dim) source = copy.from[0].dim_of[i];
    const char *same = kiln_sketch_blocked_layout(t->m, rank_of(t, &copy.from[0]), source);
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

/* The padded copy of the data: where, and in vectors along its blocks. */
static void place_copy(plan *t, kiln_block copy, int dim, const char *block_size, const char *lanes,
                       uint32_t outer_loops, uint32_t preferred) {
    kiln_maker *m = t->m;
    const char *name = kiln_make_block_name(m, copy);
    const char *place = kiln_make_sampler(m, "location(%s, %u) = %u", name, outer_loops, preferred);
    if (place) kiln_make(m, "compute_at(%s, %s)", name, place);
    int rank = (int)m->replay.p->buffer.data[m->replay.p->block.data[copy].buffer].shape.rank;
    int inner = iter_along(m->replay.p, copy, dim), last = iter_along(m->replay.p, copy, rank - 1);
    if (inner < 0 || last < 0 || inner == last) {
        if (last >= 0 && kiln_make(m, "split(%s, -1, %lld)", kiln_make_loop_name(m, copy, last, ""),
                                   (long long)t->lanes))
            kiln_make(m, "vectorize(%s)", kiln_make_loop_name(m, copy, last, ".1"));
        return;
    }
    kiln_make(m, "split(%s, -1, %s)", kiln_make_loop_name(m, copy, inner, ""), block_size);
    kiln_make(m, "split(%s, -1, %s)", kiln_make_loop_name(m, copy, last, ""), lanes);
    const char *order = "";
    for (uint32_t i = 0; i < m->replay.p->block.data[copy].iter_count; i++)
        if ((int)i != last)
            order = kiln_arena_printf(
                m->arena, "%s%s, ", order,
                kiln_make_loop_name(m, copy, (int)i, (int)i == inner ? ".0" : ""));
    kiln_make(m, "reorder(%s%s, %s, %s)", order, kiln_make_loop_name(m, copy, last, ".0"),
              kiln_make_loop_name(m, copy, last, ".1"), kiln_make_loop_name(m, copy, inner, ".1"));
    kiln_make(m, "fuse(%s, %s)", kiln_make_loop_name(m, copy, last, ".1"),
              kiln_make_loop_name(m, copy, inner, ".1"));
    kiln_make(m, "vectorize(%s)", kiln_make_loop_name(m, copy, last, ".1.f"));
}

/* Splits the tile's loops and orders the nest. `*out_outer`: loops outside the tile, outermost
 * first. */
static void make_nest(plan *t, uint32_t variant, kiln_strbuf *out_outer, uint32_t *out_outer_count,
                      const char **out_first_reduce) {
    kiln_maker *m = t->m;
    bool vectors_innermost = variant & 1, taps_outside = variant & 2;
    kiln_make(m, "split(%s, -1, %s[2], %lld)", loop(t, t->v, ""), t->tile, (long long)t->lanes);
    split_rounds(t, loop(t, t->v, ".0"), vectors_innermost ? INT64_MAX : 1);
    const int m_iter[2] = {t->mh, t->mw};
    for (uint32_t i = 0; i < 2; i++) {
        if (m_iter[i] < 0) continue;
        kiln_make(m, "split(%s, -1, %s[%u])", loop(t, m_iter[i], ""), t->tile, i);
        split_rounds(t, loop(t, m_iter[i], ".0"), i == 1 ? INT64_MAX : t->packs ? 4 : 8);
    }
    if (t->k >= 0) kiln_make(m, "split(%s, -1, %s[0])", loop(t, t->k, ""), t->steps);

    kiln_strbuf order = {0};
    uint32_t count = 0;
#define OUTER(iter, suffix) \
    (kiln_strbuf_printf(&order, "%s%s", count ? ", " : "", loop(t, iter, suffix)), count++)
    const kiln_block_info *b = &m->replay.p->block.data[t->block];
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (!b->iter[i].reduce && (int)i != t->v && (int)i != t->mh && (int)i != t->mw)
            OUTER((int)i, "");
    OUTER(t->v, ".0.0");
    if (t->mh >= 0) OUTER(t->mh, ".0.0");
    if (t->mw >= 0) OUTER(t->mw, ".0.0");
    if (!vectors_innermost) OUTER(t->v, ".0.1");
    if (t->mh >= 0) OUTER(t->mh, ".0.1");
    if (t->mw >= 0) OUTER(t->mw, ".0.1");
    if (vectors_innermost) OUTER(t->v, ".0.1");
    *out_outer_count = count;
    kiln_strbuf_str(out_outer, kiln_strbuf_view(&order));

    *out_first_reduce = NULL;
    if (t->k >= 0 && !taps_outside) *out_first_reduce = loop(t, t->k, ".0");
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce && (int)i != t->k && (int)i != t->tap && !*out_first_reduce)
            *out_first_reduce = loop(t, (int)i, "");
    if (!*out_first_reduce)
        *out_first_reduce = t->k >= 0 ? loop(t, t->k, ".0") : loop(t, t->tap, "");
    if (t->k >= 0 && !taps_outside) OUTER(t->k, ".0");
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce && (int)i != t->k && (int)i != t->tap) OUTER((int)i, "");
    if (t->k >= 0 && taps_outside) OUTER(t->k, ".0");
    if (t->k >= 0) {
        kiln_make(m, "split(%s, -1, %s[1])", loop(t, t->k, ".1"), t->steps);
        OUTER(t->k, ".1.0");
        OUTER(t->k, ".1.1");
    }
    if (t->mh >= 0) OUTER(t->mh, ".1");
    if (t->mw >= 0) OUTER(t->mw, ".1");
    OUTER(t->v, ".1");
    if (t->tap >= 0) OUTER(t->tap, "");
    OUTER(t->v, ".2");
#undef OUTER
    kiln_make(m, "reorder(%s)", order.data);
    kiln_strbuf_deinit(&order);
}

/* What follows the reduction, at the tile: lanes contiguous, the rest unrolled because registers
 * have no address. */
static void place_follower(plan *t, kiln_block follower, const char *at) {
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
            if (pattern.from[a].dim_of[i] == t->pattern.to.dim_of[t->v] && has(pattern.spatial, i))
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

/* Output blocks: the follower's result, and other arguments that it reads element by element. */
static void block_output(plan *t, kiln_block follower, const char *size) {
    kiln_maker *m = t->m;
    kiln_program *p = m->replay.p;
    kiln_buffer from = p->block.data[t->block].buffer;
    kiln_pattern pattern;
    if (!kiln_pattern_of(p, follower, &pattern)) return;
    int lanes_iter = -1;
    for (uint32_t a = 0; a < pattern.from_count; a++)
        for (int i = 0; i < KILN_BLOCK_ITERS_MAX && pattern.from[a].buffer == from; i++)
            if (pattern.from[a].dim_of[i] == t->pattern.to.dim_of[t->v] && has(pattern.spatial, i))
                lanes_iter = i;
    if (lanes_iter < 0) return;
    int dim = pattern.to.dim_of[lanes_iter];
    const char *layout = kiln_sketch_blocked_layout(m, rank_of(t, &pattern.to), dim);
    if (!layout) return;
    if (!size) size = sample_output_block(t, p->buffer.data[pattern.to.buffer].shape.dim[dim]);
    kiln_make(m, "transform_layout(%s, \"%s\", %s)", kiln_make_buffer_name(m, pattern.to.buffer),
              layout, size);
    for (uint32_t a = 0; a < pattern.from_count; a++) {
        const kiln_access *x = &pattern.from[a];
        if (role_of(t, x) != KILN_ROLE_INPUT || x->buffer == t->pattern.from[t->data].buffer)
            continue;
        const char *same = kiln_sketch_blocked_layout(m, rank_of(t, x), x->dim_of[lanes_iter]);
        if (same)
            kiln_make(m, "transform_layout(%s, \"%s\", %s)", kiln_make_buffer_name(m, x->buffer),
                      same, size);
    }
}

static const char *fuse_outer(plan *t, const char *outer, uint32_t *outer_count) {
    /* The loops up to and with the first round of rows: enough iterations to share out. */
    kiln_str rest = kiln_str_from(outer);
    kiln_strbuf first = {0};
    kiln_str innermost = {0};
    const kiln_block_info *b = &t->m->replay.p->block.data[t->block];
    uint32_t others = 0;
    for (uint32_t i = 0; i < b->iter_count; i++) others += !b->iter[i].reduce;
    others -= (t->mh >= 0) + (t->mw >= 0) + 1;
    uint32_t shared = others + 1 + (t->mh >= 0 || t->mw >= 0);
    for (uint32_t i = 0; i < *outer_count; i++) {
        innermost = kiln_str_trim(kiln_str_cut(&rest, ','));
        if (i < shared)
            kiln_strbuf_printf(&first, "%s%.*s", i ? ", " : "", KILN_STR_ARG(innermost));
    }
    if (t->m->target->threads > 1 && shared > 1 && kiln_make(t->m, "fuse(%s)", first.data)) {
        kiln_str head = kiln_strbuf_view(&first);
        head = kiln_str_cut(&head, ',');
        kiln_make(t->m, "parallel(%.*s.f)", KILN_STR_ARG(head));
        *outer_count -= shared - 1;
    }
    kiln_strbuf_deinit(&first);
    return kiln_str_dup(t->m->arena, innermost);
}

/* The accumulators become registers: lanes innermost, so that each vector is one register. */
static void place_accumulators(plan *t) {
    const char *name = kiln_make_buffer_name(t->m, t->m->replay.p->block.data[t->block].buffer);
    kiln_make(t->m, "set_scope(%s, \"register\")", name);
    int lanes_dim = t->pattern.to.dim_of[t->v];
    if (lanes_dim + 1 == (int)rank_of(t, &t->pattern.to)) return;
    const char *layout = "";
    for (uint32_t d = 0; d < rank_of(t, &t->pattern.to); d++)
        if ((int)d != lanes_dim) layout = kiln_arena_printf(t->m->arena, "%sd%u,", layout, d);
    kiln_make(t->m, "transform_layout(%s, \"%sd%d\")", name, layout, lanes_dim);
}

bool kiln_sketch_tile(kiln_maker *m, uint32_t variant) {
    uint32_t reductions;
    kiln_sketch_inline(m);
    plan t = {.m = m, .block = kiln_sketch_main_reduction(m->replay.p, &reductions)};
    if (!t.block || reductions != 1 || !analyse(&t)) return false;
    if ((variant & 2) && (t.k < 0 || (t.pattern.reduce & ~(1u << t.k)) == 0))
        return false; /* the same as without */

    t.tile = sample_tile(&t);
    t.steps = sample_steps(&t);
    kiln_block follower = separate_result(&t);
    if (!analyse(&t)) return false; /* the block's buffer may be another now */
    pack_weights(&t, variant & 2);
    kiln_block copy = 0;
    const char *element = t.k >= 0 ? kiln_arena_printf(m->arena, "%s[0]", t.steps) : "1";
    const char *vector = kiln_arena_printf(m->arena, "%s[2]*%lld", t.tile, (long long)t.lanes);
    const char *blocks =
        t.packs ? NULL : sample_output_block(&t, extent_of(&t, t.v)); /* the same in and out */
    block_data(&t, t.packs ? t.k : t.v, t.packs ? element : blocks, &copy);
    block_output(&t, follower, blocks);
    const char *name = kiln_make_block_name(m, t.block);
    kiln_make(
        m, "pad(%s, \"%.*s\", %s)", name,
        KILN_STR_ARG(kiln_iter_name(m->replay.p, &m->replay.p->block.data[t.block].iter[t.v])),
        vector);

    kiln_strbuf outer = {0};
    uint32_t outer_count;
    const char *first_reduce;
    make_nest(&t, variant, &outer, &outer_count, &first_reduce);
    const char *at = fuse_outer(&t, outer.data, &outer_count);
    kiln_strbuf_deinit(&outer);
    if (copy) {
        int dim = t.pattern.from[t.data].dim_of[t.packs ? KILN_MAX(t.k, 0) : t.v];
        if (t.packs && t.k < 0) dim = -1;
        /* Around the second round of tiles at most: further inside, border tests multiply the code.
         * Copies that are used for one vector of outputs only are made there, some rows at a time.
         */
        uint32_t inside = 2 * ((t.mh >= 0) + (t.mw >= 0));
        uint32_t places = outer_count > inside ? outer_count - inside : 0;
        if (t.packs)
            place_copy(&t, copy, dim, element, kiln_arena_printf(m->arena, "%s[2]", t.steps),
                       places, 0);
        else
            place_copy(&t, copy, dim, kiln_arena_printf(m->arena, "%lld", (long long)t.lanes), "1",
                       places, places);
    }
    place_follower(&t, follower, at);
    kiln_make(m, "vectorize(%s)", loop(&t, t.v, ".2"));
    kiln_make(m, "unroll(%s)", loop(&t, t.v, ".1"));
    if (t.mw >= 0) kiln_make(m, "unroll(%s)", loop(&t, t.mw, ".1"));
    if (t.mh >= 0) kiln_make(m, "unroll(%s)", loop(&t, t.mh, ".1"));
    if (t.k >= 0) kiln_make(m, "unroll(%s)", loop(&t, t.k, ".1.1"));
    if (t.tap >= 0) kiln_make(m, "unroll(%s)", loop(&t, t.tap, ""));
    kiln_make(m, "decompose_reduction(%s, %s)", name, first_reduce);
    place_accumulators(&t);
    kiln_sketch_finish(m);
    return true;
}
