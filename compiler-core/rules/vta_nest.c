/* The nest of a product on an accelerator: parts, steps and tiles of the machine, with every
 * operand in the memory that the machine reads it from. */
#include "base/macros.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/rules/vta.h"

/* A block of two dimensions of a buffer that is one tile of the machine; -1: of one. */
typedef struct tile_dims {
    int row, lane;
    int64_t rows, lanes;
    int outermost; /* dimension + 1 that is outside of all others; 0: they are in order */
} tile_dims;

/* Loops around the sums, outermost first. */
typedef struct nest {
    kiln_sched_loop part[KILN_VTA_PART_AXES];
    kiln_sched_loop thread; /* of parts that are virtual threads; none: there are none */
    kiln_sched_loop step;   /* over steps of a part */
    kiln_sched_loop inner;  /* the innermost loop around all of a part */
    kiln_sched_loop rows;   /* of a tile, with its lanes and steps inside */
} nest;

/* ---- layouts --------------------------------------------------------------------------------- */

/* Tiles are contiguous: dimensions in order, or those of the tile first as weights have them, and
 * then the elements of a tile. */
static kiln_layout tiled_layout(uint32_t rank, const tile_dims *tile, bool tile_first) {
    const int last = (int)rank - 1, first[] = {tile_first ? tile->row : tile->outermost - 1,
                                               tile_first ? tile->lane : -1};
    kiln_layout layout = {0};
    for (int k = -2; k <= last; k++) {
        const int d = k < 0 ? first[k + 2] : k;
        if (d < 0 || (k >= 0 && (k == first[0] || k == first[1]))) continue;
        kiln_sketch_add_piece(&layout, (uint32_t)d,
                              d == tile->lane  ? tile->lanes
                              : d == tile->row ? tile->rows
                                               : 1,
                              0);
    }
    if (tile->row >= 0 && tile->rows > 1)
        kiln_sketch_add_piece(&layout, (uint32_t)tile->row, 1, tile->rows);
    kiln_sketch_add_piece(&layout, (uint32_t)tile->lane, 1, tile->lanes);
    return layout;
}

/* Gives the buffer that layout, in main memory always in the order of dimensions; false: it cannot
 * have it. */
static bool lay_out(kiln_sched *s, kiln_buffer buffer, const tile_dims *tile, bool tile_first) {
    const kiln_buffer_info *b = &s->program->buffer.data[buffer];
    tile_dims as = *tile;
    if (kiln_scopes[b->scope].seen_by != KILN_SEEN_BY_CORE) as.outermost = 0;
    const kiln_layout wanted = tiled_layout(b->shape.rank, &as, tile_first);
    if (wanted.piece_count > KILN_RANK_MAX) return false;
    if (b->role != KILN_ROLE_TEMP && kiln_layout_same_places(&b->layout, &wanted, &b->shape))
        return true;
    return kiln_sched_transform_layout(kiln_sched_try(s), buffer, &wanted, NULL, 0);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* The block's iterator that runs over the dimension of its result; -1: none. */
static int iter_of_dim(kiln_program *p, kiln_block block, int dim) {
    kiln_pattern pattern;
    if (dim < 0 || !kiln_pattern_of(p, block, &pattern)) return -1;
    for (int i = 0; i < KILN_BLOCK_ITERS_MAX; i++)
        if (pattern.to.dim_of[i] == dim) return i;
    return kiln_block_iter_of(p, block, p->block.data[block].index[dim]);
}

/* The dimension of `buffer` that the block's iterator steps along; -1: none. */
static int dim_in(kiln_program *p, kiln_block block, kiln_buffer buffer, int iter) {
    kiln_pattern pattern;
    if (iter < 0 || !kiln_pattern_of(p, block, &pattern)) return -1;
    if (pattern.to.buffer == buffer) return pattern.to.dim_of[iter];
    for (uint32_t a = 0; a < pattern.from_count; a++)
        if (pattern.from[a].buffer == buffer) return pattern.from[a].dim_of[iter];
    return -1;
}

/* Extends the block's iterator over a dimension of its result to whole tiles, with zeros. */
static void fill_up(kiln_sched *s, kiln_block block, int dim, int64_t size) {
    const int iter = iter_of_dim(s->program, block, dim);
    if (iter >= 0 && s->program->block.data[block].iter[iter].extent % size != 0)
        kiln_sched_pad(s, block, (uint32_t)iter, kiln_sched_const(size));
}

/* Loops of a separate block: over tiles, and inside over the elements of a tile. */
static void tile_loops(kiln_sched *s, kiln_block block, const tile_dims *tile) {
    const int row = tile->rows > 1 ? iter_of_dim(s->program, block, tile->row) : -1,
              lane = iter_of_dim(s->program, block, tile->lane);
    kiln_sched_loops order = {0}, inner = {0};
    for (int i = 0; i < (int)s->program->block.data[block].iter_count; i++) {
        const kiln_sched_loop loop = kiln_sched_loop_of(s, block, (uint32_t)i);
        if (i != row && i != lane) {
            kiln_sched_loops_add(&order, loop);
            continue;
        }
        const kiln_sched_loops parts = kiln_sched_split(
            s, loop,
            KILN_SCHED_INTS(kiln_sched_rest(),
                            kiln_sched_const(i == lane ? tile->lanes : tile->rows)));
        kiln_sched_loops_add(&order, parts.loop[0]);
        kiln_sched_loops_add(&inner, parts.loop[1]);
    }
    if (row > lane && inner.count == 2) { /* rows outside of lanes */
        const kiln_sched_loop lanes = inner.loop[0];
        inner.loop[0] = inner.loop[1];
        inner.loop[1] = lanes;
    }
    for (uint32_t i = 0; i < inner.count; i++) kiln_sched_loops_add(&order, inner.loop[i]);
    if (order.count > 1) kiln_sched_reorder(s, &order);
}

/* Those of a separate product. */
typedef struct product_loops {
    kiln_sched_loop outer, rows; /* around all of it, and the outermost of a tile */
} product_loops;

static product_loops tile_product(kiln_sched *s, kiln_block block, const tile_dims *tile) {
    const int lane = iter_of_dim(s->program, block, tile->lane);
    const int row = tile->rows > 1 ? iter_of_dim(s->program, block, tile->row)
                    : lane == 0    ? 1
                                   : 0; /* if a tile has one row, of any other iterator */
    kiln_sched_loops order = {0}, inner = {0};
    kiln_sched_loop rows = {0}, lanes = {0};
    const uint32_t steps = s->program->block.data[block].iter_count - 1;
    for (uint32_t i = 0; i < steps; i++) {
        kiln_sched_loop loop = kiln_sched_loop_of(s, block, i);
        if ((int)i == row || (int)i == lane) {
            const kiln_sched_loops parts = kiln_sched_split(
                s, loop,
                KILN_SCHED_INTS(kiln_sched_rest(),
                                kiln_sched_const((int)i == lane ? tile->lanes : tile->rows)));
            loop = parts.loop[0];
            *((int)i == lane ? &lanes : &rows) = parts.loop[1];
        }
        kiln_sched_loops_add(&order, loop);
    }
    kiln_sched_loops_add(&inner, rows);
    kiln_sched_loops_add(&inner, lanes);
    kiln_sched_loops_add(&inner, kiln_sched_loop_of(s, block, steps));
    for (uint32_t i = 0; i < inner.count; i++) kiln_sched_loops_add(&order, inner.loop[i]);
    kiln_sched_reorder(s, &order);
    return (product_loops){order.loop[0], rows};
}

/* ---- the sums -------------------------------------------------------------------------------- */

/* Splits the loop of an axis of the result; returns the loop inside of all tiles. */
static kiln_sched_loop split_axis(kiln_vta_tiling *t, nest *n, kiln_vta_axis x, int64_t unit,
                                  kiln_sched_loop *out_tiles) {
    kiln_sched *s = t->s;
    const kiln_sched_loop loop = kiln_sched_loop_of(s, t->sums, (uint32_t)t->iter[x]);
    const kiln_sched_int tiles = kiln_sched_element(t->tile, KILN_VTA_TILES + x),
                         threads = kiln_sched_element(t->tile, KILN_VTA_THREADS),
                         rest = kiln_sched_rest(), inside = kiln_sched_const(unit);
    kiln_sched_int factor[4] = {rest};
    uint32_t count = 1;
    const bool beside = x == kiln_vta_beside(t);
    if (beside) factor[count++] = threads;
    factor[count++] = tiles;
    if (unit > 0) factor[count++] = inside;
    const kiln_sched_loops parts = kiln_sched_split(s, loop, factor, count);
    uint32_t at = 0;
    n->part[x] = parts.loop[at++];
    if (beside) n->thread = parts.loop[at++];
    *out_tiles = parts.loop[at++];
    return unit > 0 ? parts.loop[at] : (kiln_sched_loop){0};
}

static bool reads(const kiln_vta_operand *o, int iter) {
    for (uint32_t d = 0; d < o->rank; d++)
        if (o->coefficient[d][iter]) return true;
    return false;
}

/* Outermost the iterators with separate weights for each value. Then parts, in the order of the
 * options; in them steps, and in a step the tiles of a GEMM. */
static void make_nest(kiln_vta_tiling *t, nest *n) {
    kiln_sched *s = t->s;
    const kiln_vta_config *c = t->machine;
    const kiln_block_info b = s->program->block.data[t->sums];
    const bool out_inside = t->options & KILN_VTA_OUT_INSIDE;
    kiln_sched_loops order = {0}, apart = {0}, positions = {0}, taps = {0};
    kiln_sched_loop tiles[KILN_VTA_AXES] = {{0}}, rows = {0};
    const kiln_sched_loop lanes = split_axis(t, n, KILN_VTA_AXIS_OUT, c->block_out, &tiles[0]);
    for (int x = KILN_VTA_AXIS_ROW; x <= KILN_VTA_AXIS_COLUMN; x++) {
        if (t->iter[x] < 0) continue;
        const bool is_batch = t->iter[x] == t->batch;
        const kiln_sched_loop in_tile =
            split_axis(t, n, (kiln_vta_axis)x, is_batch ? c->batch : 0, &tiles[x]);
        if (is_batch) rows = in_tile;
    }
    const kiln_sched_loops in = kiln_sched_split(
        s, kiln_sched_loop_of(s, t->sums, (uint32_t)t->iter[KILN_VTA_AXIS_IN]),
        KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_element(t->tile, KILN_VTA_AXIS_IN),
                        kiln_sched_const(c->block_in)));
    for (int i = 0; i < (int)b.iter_count; i++) {
        bool is_axis = false;
        for (int x = 0; x < KILN_VTA_AXES; x++) is_axis |= t->iter[x] == i;
        if (is_axis) continue;
        kiln_sched_loop loop = kiln_sched_loop_of(s, t->sums, (uint32_t)i);
        if (i == t->batch) {
            const kiln_sched_loops parts = kiln_sched_split(
                s, loop, KILN_SCHED_INTS(kiln_sched_rest(), kiln_sched_const(c->batch)));
            loop = parts.loop[0];
            rows = parts.loop[1];
        }
        kiln_sched_loops_add(b.iter[i].reduce        ? &taps
                             : reads(&t->weights, i) ? &apart
                                                     : &positions,
                             loop);
    }
    order = apart;
    if (!out_inside) kiln_sched_loops_add(&order, n->part[KILN_VTA_AXIS_OUT]);
    for (uint32_t i = 0; i < positions.count; i++) kiln_sched_loops_add(&order, positions.loop[i]);
    kiln_sched_loops_add(&order, n->part[KILN_VTA_AXIS_ROW]);
    kiln_sched_loops_add(&order, n->part[KILN_VTA_AXIS_COLUMN]);
    if (out_inside) kiln_sched_loops_add(&order, n->part[KILN_VTA_AXIS_OUT]);
    kiln_sched_loops_add(&order, n->thread);
    n->inner = order.loop[order.count - 1];
    n->step = in.loop[0];
    n->rows = rows;
    kiln_sched_loops_add(&order, n->step);
    kiln_sched_loops_add(&order, tiles[KILN_VTA_AXIS_OUT]);
    kiln_sched_loops_add(&order, in.loop[1]);
    for (uint32_t i = 0; i < taps.count; i++) kiln_sched_loops_add(&order, taps.loop[i]);
    kiln_sched_loops_add(&order, tiles[KILN_VTA_AXIS_ROW]);
    kiln_sched_loops_add(&order, tiles[KILN_VTA_AXIS_COLUMN]);
    kiln_sched_loops_add(&order, rows);
    kiln_sched_loops_add(&order, lanes);
    kiln_sched_loops_add(&order, in.loop[2]);
    kiln_sched_reorder(s, &order);
}

/* Pads sums to whole tiles: with products of zeros, and results that are not read. */
static void fill_up_sums(kiln_vta_tiling *t) {
    static const kiln_vta_axis in_tiles[] = {KILN_VTA_AXIS_OUT, KILN_VTA_AXIS_IN};
    const int64_t size[] = {t->machine->block_out, t->machine->block_in};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(in_tiles); i++)
        if (kiln_vta_extent(t, t->iter[in_tiles[i]]) % size[i] != 0)
            kiln_sched_pad(t->s, t->sums, (uint32_t)t->iter[in_tiles[i]],
                           kiln_sched_const(size[i]));
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Dimensions of the sums' operand, or result, that are a tile. */
static tile_dims dims_of(const kiln_vta_tiling *t, const kiln_block_access *a, int row, int lane,
                         uint32_t lanes) {
    return (tile_dims){.row = row < 0 ? -1 : a->dim_of[row],
                       .lane = a->dim_of[lane],
                       .rows = row < 0 ? 1 : t->machine->batch,
                       .lanes = lanes};
}

/* Those of another buffer that the block reads, or writes, at the same places as `from`. */
static tile_dims dims_through(kiln_program *p, kiln_block block, kiln_buffer from, kiln_buffer to,
                              const tile_dims *tile) {
    tile_dims other = {.row = -1, .lane = -1, .rows = tile->rows, .lanes = tile->lanes};
    for (int i = 0; i < (int)p->block.data[block].iter_count; i++) {
        const int dim = dim_in(p, block, from, i);
        if (dim >= 0 && dim == tile->row) other.row = dim_in(p, block, to, i);
        if (dim >= 0 && dim == tile->lane) other.lane = dim_in(p, block, to, i);
        if (dim >= 0 && dim + 1 == tile->outermost) other.outermost = dim_in(p, block, to, i) + 1;
    }
    return other;
}

static const char *const not_in_tiles = "an argument cannot lie in the machine's tiles";

kiln_block kiln_vta_padding_of(const kiln_vta_tiling *t) {
    kiln_program *p = t->s->program;
    const kiln_block producer = kiln_program_producer(p, t->data.buffer);
    kiln_block *reader = KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count);
    return producer && kiln_sketch_padding_of(p, producer) &&
                   kiln_buffer_readers(p, t->data.buffer, reader) == 1
               ? producer
               : 0;
}

/* Loads data into the machine, with zeros around it. */
static const char *load_data(kiln_vta_tiling *t, const tile_dims *tile, kiln_block *out_copy) {
    kiln_sched *s = t->s;
    kiln_program *p = s->program;
    kiln_buffer source = t->data.buffer;
    tile_dims outside = *tile;
    *out_copy = kiln_vta_padding_of(t);
    if (*out_copy) {
        kiln_pattern pattern;
        if (!kiln_pattern_of(p, *out_copy, &pattern) || pattern.from_count != 1)
            return "its padding reads several buffers";
        source = pattern.from[0].buffer;
        outside = dims_through(p, *out_copy, t->data.buffer, source, tile);
        kiln_sched_set_scope(s, t->data.buffer, KILN_SCOPE_INP);
    } else {
        *out_copy = kiln_sched_cache_read(s, t->sums, source, KILN_SCOPE_INP);
    }
    if (outside.lane < 0 || (outside.rows > 1 && outside.row < 0) ||
        !lay_out(s, source, &outside, false))
        return not_in_tiles;
    fill_up(s, *out_copy, tile->lane, tile->lanes);
    return lay_out(s, p->block.data[*out_copy].buffer, tile, false) ? NULL : not_in_tiles;
}

/* Constants have tiles in main memory: the machine cannot pack them. */
static const char *load_weights(kiln_vta_tiling *t, const tile_dims *tile, kiln_block *out_copy) {
    kiln_sched *s = t->s;
    *out_copy = kiln_sched_cache_read(s, t->sums, t->weights.buffer, KILN_SCOPE_WGT);
    if (!lay_out(s, t->weights.buffer, tile, true)) return not_in_tiles;
    fill_up(s, *out_copy, tile->row, tile->rows);
    fill_up(s, *out_copy, tile->lane, tile->lanes);
    return lay_out(s, s->program->block.data[*out_copy].buffer, tile, true) ? NULL : not_in_tiles;
}

/* Loads an operand of the ALU into accumulators, once for all parts or with each part. */
static const char *load_addend(kiln_vta_tiling *t, kiln_buffer source, bool is_bias,
                               const tile_dims *tile, const nest *n) {
    kiln_sched *s = t->s;
    const kiln_block copy = kiln_sched_cache_read(s, t->follower, source, KILN_SCOPE_ACC);
    if (!lay_out(s, source, tile, false) ||
        !lay_out(s, s->program->block.data[copy].buffer, tile, false))
        return not_in_tiles;
    if (!is_bias) kiln_sched_compute_at(s, copy, n->inner);
    tile_loops(s, copy, tile);
    return NULL;
}

/* Bytes reach accumulators as a product with a unit matrix, which stays in the memory of
 * weights. */
static const char *multiply_addend(kiln_vta_tiling *t, kiln_buffer source, const tile_dims *tile,
                                   const nest *n) {
    kiln_sched *s = t->s;
    kiln_program *p = s->program;
    const int64_t size = t->machine->block_out;
    const tile_dims unit = {.row = 0, .lane = 1, .rows = size, .lanes = size};
    const kiln_buffer sums = p->block.data[t->sums].buffer;
    int out = -1;
    for (int i = 0; i < (int)p->block.data[t->follower].iter_count && out < 0; i++)
        if (dim_in(p, t->follower, source, i) == tile->lane) out = i;
    const kiln_block product =
        kiln_sched_unit_product(s, t->follower, source, (uint32_t)out, kiln_sched_const(size));
    const kiln_buffer matrix = p->block.data[product + 1].buffer,
                      words = p->block.data[product].buffer;
    const tile_dims made = dims_through(p, t->follower, sums, words,
                                        &(tile_dims){.row = t->pattern.to.dim_of[t->batch],
                                                     .lane = t->pattern.to.dim_of[t->iter[0]],
                                                     .rows = t->machine->batch,
                                                     .lanes = size});
    kiln_sched_set_scope(s, words, KILN_SCOPE_ACC);
    kiln_sched_set_scope(s, matrix, KILN_SCOPE_WGT);
    const kiln_block bytes = kiln_sched_cache_read(s, product, source, KILN_SCOPE_INP);
    if (made.lane < 0 || !lay_out(s, words, &made, false) || !lay_out(s, source, tile, false) ||
        !lay_out(s, p->block.data[bytes].buffer, tile, false) || !lay_out(s, matrix, &unit, true))
        return not_in_tiles;
    tile_loops(s, product + 1, &unit);
    kiln_sched_compute_at(s, product, n->inner);
    const product_loops loops = tile_product(s, product, &made);
    kiln_sched_decompose_reduction(s, product, loops.outer);
    kiln_sched_tensorize(s, loops.rows, &kiln_intrinsics[KILN_INTRINSIC_GEMM_I8]);
    kiln_sched_compute_at(s, bytes, n->inner);
    tile_loops(s, bytes, tile);
    return NULL;
}

static const char *load_addends(kiln_vta_tiling *t, const tile_dims *acc, const nest *n) {
    kiln_sched *s = t->s;
    kiln_program *p = s->program;
    const kiln_buffer sums = t->pattern.to.buffer;
    const char *reason = NULL;
    kiln_pattern f;
    if (!kiln_pattern_of(p, t->follower, &f)) return "nothing follows the sums";
    for (uint32_t a = 0; a < f.from_count && !reason; a++) {
        const kiln_buffer source = f.from[a].buffer;
        if (source == sums) continue;
        const tile_dims tile = dims_through(p, t->follower, sums, source, acc);
        if (tile.lane < 0) return not_in_tiles;
        reason = kiln_vta_by_product(t, p->buffer.data[source].dtype)
                     ? multiply_addend(t, source, &tile, n)
                     : load_addend(t, source, kiln_vta_is_bias(t, &f, a), &tile, n);
    }
    return reason;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* The loop in which blocks of an operand are loaded: for a step, or for all parts that share
 * them. */
static kiln_sched_loop place_of(const kiln_vta_tiling *t, const nest *n, bool data) {
    const bool inside = t->options & KILN_VTA_OUT_INSIDE;
    if (!(t->options & KILN_VTA_STAYS) || data != inside) return n->step;
    return n->part[data ? KILN_VTA_AXIS_COLUMN : KILN_VTA_AXIS_OUT];
}

static void overlap(kiln_vta_tiling *t, const nest *n) {
    const kiln_sched_int stages = kiln_sched_element(t->tile, KILN_VTA_STAGES);
    for (int x = 0; x < KILN_VTA_PART_AXES; x++) {
        if (!kiln_sched_loop_is_none(n->part[x])) kiln_sched_pipeline(t->s, n->part[x], stages);
    }
    kiln_sched_pipeline(t->s, n->step, stages);
    if (!kiln_sched_loop_is_none(n->thread)) kiln_sched_vthread(t->s, n->thread);
}

const char *kiln_vta_make_nest(kiln_vta_tiling *t) {
    kiln_sched *s = t->s;
    kiln_program *p = s->program;
    const int out = t->iter[KILN_VTA_AXIS_OUT], in = t->iter[KILN_VTA_AXIS_IN];
    const kiln_vta_config *c = t->machine;
    const uint32_t from = t->pattern.from[0].buffer == t->data.buffer ? 0 : 1;
    const kiln_buffer sums = p->block.data[t->sums].buffer,
                      result = p->block.data[t->follower].buffer;
    const tile_dims data = dims_of(t, &t->pattern.from[from], t->batch, in, c->block_in),
                    weights = {.row = t->pattern.from[1 - from].dim_of[out],
                               .lane = t->pattern.from[1 - from].dim_of[in],
                               .rows = c->block_out,
                               .lanes = c->block_in};
    tile_dims acc = dims_of(t, &t->pattern.to, t->batch, out, c->block_out);
    if (t->options & KILN_VTA_POSITIONS_BESIDE) /* results of a thread lie together */
        acc.outermost = t->pattern.to.dim_of[t->iter[kiln_vta_beside(t)]] + 1;
    const tile_dims stored = dims_through(p, t->follower, sums, result, &acc);
    kiln_block load[2];
    nest n = {0};
    const char *reason = load_data(t, &data, &load[0]);
    if (!reason) reason = load_weights(t, &weights, &load[1]);
    if (reason) return reason;
    fill_up_sums(t);
    kiln_sched_set_scope(s, sums, KILN_SCOPE_ACC);
    const kiln_block store = kiln_sched_cache_write(s, t->follower, KILN_SCOPE_OUT);
    if (stored.lane < 0 || !lay_out(s, sums, &acc, false) || !lay_out(s, result, &stored, false) ||
        !lay_out(s, p->block.data[t->follower].buffer, &stored, false))
        return not_in_tiles;

    make_nest(t, &n);
    kiln_sched_decompose_reduction(s, t->sums, n.step);
    kiln_sched_tensorize(s, n.rows, &kiln_intrinsics[KILN_INTRINSIC_GEMM_I8]);
    for (int i = 0; i < 2; i++) {
        kiln_sched_compute_at(s, load[i], place_of(t, &n, i == 0));
        tile_loops(s, load[i], i == 0 ? &data : &weights);
    }
    if (!kiln_sched_reverse_compute_at(kiln_sched_try(s), t->follower, n.inner))
        return "the reader of the sums cannot be in the loops over parts";
    tile_loops(s, t->follower, &stored);
    reason = load_addends(t, &acc, &n); /* now that the sums are computed before the follower */
    if (reason) return reason;
    kiln_sched_reverse_compute_at(s, store, n.inner);
    tile_loops(s, store, &stored);
    overlap(t, &n);
    return NULL;
}
