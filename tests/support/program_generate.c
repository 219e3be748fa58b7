/* Random tensor programs: each step makes one block that reads what is there already, and may bring
 * a new argument. Whatever nobody reads in the end becomes an output. */
#include "tests/support/program_generate.h"

#include "base/check.h"

typedef struct generator {
    kiln_program *p;
    kiln_rand *rand;
    const kiln_generate_options *options;
    kiln_dtype dtype; /* of most blocks */
    kiln_block block; /* being made, and its iterators in order */
    kiln_expr iter[KILN_BLOCK_ITERS_MAX];
    uint32_t iter_count;
    bool read[KILN_PROGRAM_BUFFERS_MAX];
} generator;

/* ---- drawing --------------------------------------------------------------------- */

static uint64_t below(generator *g, uint64_t bound) { return kiln_rand_below(g->rand, bound); }
static bool chance(generator *g, uint64_t one_in) { return below(g, one_in) == 0; }

/* Odd, prime and power-of-two extents up to `limit`; at least 1. */
static int64_t draw_extent(generator *g, int64_t limit) {
    static const int64_t extent[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 32, 33};
    size_t count = 1;
    while (count < KILN_ARRAY_COUNT(extent) && extent[count] <= limit) count++;
    return extent[below(g, count)];
}

static kiln_shape draw_shape(generator *g) {
    kiln_shape shape = {.rank = 1 + (uint32_t)below(g, 4)};
    int64_t left = KILN_MAX(g->options->points_max / 8, 1);
    for (uint32_t i = 0; i < shape.rank; i++) {
        shape.dim[i] = draw_extent(g, left);
        left /= shape.dim[i];
    }
    return shape;
}

static kiln_dtype draw_dtype(generator *g) {
    static const kiln_dtype any[] = {KILN_F32,  KILN_F32, KILN_F32, KILN_F64, KILN_F16,
                                     KILN_BF16, KILN_I8,  KILN_I32, KILN_I32, KILN_I64,
                                     KILN_U8,   KILN_I16, KILN_U64};
    if (g->options->floats_only) return chance(g, 8) ? KILN_F64 : KILN_F32;
    return any[below(g, KILN_ARRAY_COUNT(any))];
}

static kiln_buffer new_argument(generator *g, const char *name, kiln_dtype dtype,
                                const kiln_shape *shape) {
    kiln_role role = chance(g, 2) ? KILN_ROLE_CONSTANT : KILN_ROLE_INPUT;
    return kiln_buffer_create(g->p, kiln_str_from(name), dtype, role, shape);
}

/* Mostly what was made last, so that chains grow. */
static kiln_buffer draw_source(generator *g) {
    uint32_t last = g->p->buffer.count - 1;
    return chance(g, 3) ? 1 + (kiln_buffer)below(g, last) : last;
}

/* Integers are not made from floats: rounding would decide between neighbours. */
static kiln_dtype dtype_from(const generator *g, kiln_buffer source, kiln_dtype wanted) {
    kiln_dtype has = g->p->buffer.data[source].dtype;
    return kiln_dtype_is_float(has) && !kiln_dtype_is_float(wanted) ? has : wanted;
}

/* ---- making a block -------------------------------------------------------------- */

static void begin(generator *g, const char *name) {
    g->block = kiln_block_create(g->p, kiln_str_from(name));
    g->iter_count = 0;
}

static kiln_expr add_iter(generator *g, int64_t extent, bool reduce) {
    static const char *const name[KILN_BLOCK_ITERS_MAX] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                                           "i", "j", "k", "l", "m", "n", "o", "p"};
    KILN_CHECK(g->iter_count < KILN_BLOCK_ITERS_MAX);
    kiln_expr e = kiln_block_add_iter(g->p, g->block, name[g->iter_count], extent, reduce);
    return g->iter[g->iter_count++] = e;
}

static kiln_expr op2(generator *g, kiln_expr_op op, kiln_expr a, kiln_expr b) {
    return kiln_expr_binary(g->p, op, a, b);
}
static kiln_expr index_const(generator *g, int64_t value) { return kiln_expr_index(g->p, value); }

static kiln_expr load_as(generator *g, kiln_dtype dtype, kiln_buffer buffer,
                         const kiln_expr *index) {
    g->read[buffer] = true;
    return kiln_expr_cast(
        g->p, dtype, kiln_expr_load(g->p, buffer, index, g->p->buffer.data[buffer].shape.rank));
}

/* Writes `value` to a new temp over the spatial iterators, maybe in another order of dimensions. */
static void finish(generator *g, kiln_dtype dtype, kiln_combiner combiner, kiln_expr value) {
    const kiln_block_info b = g->p->block.data[g->block];
    kiln_shape shape = {0};
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t i = 0; i < b.iter_count; i++) {
        if (b.iter[i].reduce) continue;
        shape.dim[shape.rank] = b.iter[i].extent;
        index[shape.rank++] = g->iter[i];
    }
    if (shape.rank > 1 && chance(g, 5)) {
        uint32_t at = (uint32_t)below(g, shape.rank - 1);
        int64_t extent = shape.dim[at];
        kiln_expr first = index[at];
        shape.dim[at] = shape.dim[at + 1];
        index[at] = index[at + 1];
        shape.dim[at + 1] = extent;
        index[at + 1] = first;
    }
    kiln_buffer out = kiln_buffer_create(g->p, b.name, dtype, KILN_ROLE_TEMP, &shape);
    kiln_block_set(g->p, g->block, out, index, shape.rank, combiner, value, 0);
}

static kiln_combiner draw_combiner(generator *g) {
    static const kiln_combiner any[] = {KILN_COMBINE_SUM, KILN_COMBINE_SUM, KILN_COMBINE_MAX,
                                        KILN_COMBINE_MIN};
    return any[below(g, KILN_ARRAY_COUNT(any))];
}

/* ---- kinds of blocks ------------------------------------------------------------- */

/* A function of one number that keeps magnitudes moderate. */
static kiln_expr draw_function(generator *g, kiln_dtype dtype, kiln_expr x) {
    static const kiln_expr_op smooth[] = {KILN_EXPR_TANH, KILN_EXPR_SIGMOID, KILN_EXPR_ERF,
                                          KILN_EXPR_SIN, KILN_EXPR_ATAN};
    kiln_expr zero = kiln_expr_zero(g->p, dtype);
    kiln_expr three = kiln_expr_const(g->p, dtype, 3);
    bool is_float = kiln_dtype_is_float(dtype);
    switch (below(g, is_float ? 9 : 8)) {
    case 0: return op2(g, KILN_EXPR_MAX, x, zero);
    case 1: return op2(g, KILN_EXPR_ADD, x, three);
    case 2: return op2(g, KILN_EXPR_MUL, x, kiln_expr_const(g->p, dtype, is_float ? 0.5 : 5));
    case 3: return op2(g, KILN_EXPR_MIN, three, kiln_expr_unary(g->p, KILN_EXPR_ABS, x));
    case 4: /* continuous at 0, so that rounding cannot make it jump */
        return kiln_expr_select(g->p, op2(g, KILN_EXPR_LT, x, zero), op2(g, KILN_EXPR_SUB, zero, x),
                                op2(g, KILN_EXPR_MUL, x, three));
    case 5: return kiln_expr_unary(g->p, KILN_EXPR_NEG, x);
    case 6: return op2(g, KILN_EXPR_DIV, x, three);
    case 7:
        if (!is_float) return kiln_expr_unary(g->p, KILN_EXPR_POPCOUNT, x);
        return kiln_expr_unary(g->p, KILN_EXPR_SQRT, kiln_expr_unary(g->p, KILN_EXPR_ABS, x));
    default: return kiln_expr_unary(g->p, smooth[below(g, KILN_ARRAY_COUNT(smooth))], x);
    }
}

/* An argument that broadcasts against `shape`: some dimensions are 1, leading ones may be missing.
 */
static kiln_expr load_broadcast(generator *g, kiln_dtype dtype, const kiln_shape *shape) {
    uint32_t skip = (uint32_t)below(g, shape->rank + 1);
    kiln_shape own = {.rank = shape->rank - skip};
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t i = 0; i < own.rank; i++) {
        bool same = !chance(g, 3);
        own.dim[i] = same ? shape->dim[skip + i] : 1;
        index[i] = same ? g->iter[skip + i] : index_const(g, 0);
    }
    return load_as(g, dtype, new_argument(g, "other", dtype, &own), index);
}

static void make_elementwise(generator *g) {
    static const kiln_expr_op combining[] = {KILN_EXPR_ADD, KILN_EXPR_SUB, KILN_EXPR_MUL,
                                             KILN_EXPR_MAX};
    kiln_buffer source = draw_source(g);
    kiln_shape shape = g->p->buffer.data[source].shape;
    kiln_dtype dtype = dtype_from(g, source, chance(g, 6) ? draw_dtype(g) : g->dtype);
    begin(g, "map");
    for (uint32_t i = 0; i < shape.rank; i++) add_iter(g, shape.dim[i], false);
    kiln_expr value = load_as(g, dtype, source, g->iter);
    for (uint64_t n = below(g, 3); n > 0; n--) value = draw_function(g, dtype, value);
    if (chance(g, 2))
        value = op2(g, combining[below(g, KILN_ARRAY_COUNT(combining))], value,
                    load_broadcast(g, dtype, &shape));
    finish(g, dtype, KILN_COMBINE_NONE, value);
}

static void make_reduction(generator *g) {
    kiln_buffer source = draw_source(g);
    kiln_shape shape = g->p->buffer.data[source].shape;
    if (shape.rank == 0) {
        make_elementwise(g);
        return;
    }
    uint64_t reduced =
        1 + below(g, (UINT64_C(1) << shape.rank) - 1); /* one bit per dimension, at least one */
    begin(g, "reduce");
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t i = 0; i < shape.rank; i++)
        index[i] = add_iter(g, shape.dim[i], (reduced >> i & 1) != 0);
    kiln_dtype dtype = dtype_from(g, source, g->dtype);
    kiln_expr value = load_as(g, dtype, source, index);
    if (chance(g, 2)) value = draw_function(g, dtype, value);
    finish(g, dtype, draw_combiner(g), value);
}

/* out[..., n] sum= x[..., k] * w[k, n] or w[n, k]. */
static void make_matmul(generator *g) {
    kiln_buffer source = draw_source(g);
    kiln_shape shape = g->p->buffer.data[source].shape;
    int64_t room = g->options->points_max / KILN_MAX(kiln_shape_count(&shape), 1);
    if (shape.rank == 0) {
        make_elementwise(g);
        return;
    }
    bool transposed = chance(g, 2);
    int64_t columns = draw_extent(g, room);
    int64_t depth = shape.dim[shape.rank - 1];
    kiln_shape weights = {.rank = 2,
                          .dim = {transposed ? columns : depth, transposed ? depth : columns}};
    begin(g, "matmul");
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t i = 0; i + 1 < shape.rank; i++) index[i] = add_iter(g, shape.dim[i], false);
    kiln_expr n = add_iter(g, columns, false);
    kiln_expr k = index[shape.rank - 1] = add_iter(g, depth, true);
    kiln_dtype dtype = dtype_from(g, source, g->dtype);
    kiln_expr x = load_as(g, dtype, source, index);
    const kiln_expr at[] = {transposed ? n : k, transposed ? k : n};
    kiln_expr w = load_as(g, dtype, new_argument(g, "weights", dtype, &weights), at);
    finish(g, dtype, KILN_COMBINE_SUM, op2(g, KILN_EXPR_MUL, x, w));
}

typedef struct window {
    int64_t out, size, stride, dilation, pad;
} window;

static window draw_window(generator *g, int64_t extent) {
    window w = {.size = 1 + (int64_t)below(g, 3),
                .stride = 1 + (int64_t)below(g, 2),
                .dilation = 1 + (int64_t)chance(g, 4)};
    w.pad = chance(g, 2) ? (int64_t)below(g, (uint64_t)w.size) : 0;
    int64_t reach = (w.size - 1) * w.dilation + 1;
    if (extent + 2 * w.pad < reach)
        return (window){.out = extent, .size = 1, .stride = 1, .dilation = 1};
    w.out = (extent + 2 * w.pad - reach) / w.stride + 1;
    return w;
}

/* Convolution or pooling over the last dimensions; the one before them holds channels, which a
 * convolution reduces and the others keep. Padding reads zeros by select. */
static void make_window(generator *g) {
    kiln_buffer source = draw_source(g);
    kiln_shape shape = g->p->buffer.data[source].shape;
    if (shape.rank < 2 || kiln_shape_count(&shape) == 0) {
        make_matmul(g);
        return;
    }
    uint32_t windowed = shape.rank > 2 && chance(g, 2) ? 2 : 1;
    uint32_t channel = shape.rank - windowed - 1;
    window w[2];
    int64_t points = 1;
    for (uint32_t i = 0; i < channel; i++) points *= shape.dim[i];
    for (uint32_t i = 0; i < windowed; i++) {
        w[i] = draw_window(g, shape.dim[channel + 1 + i]);
        points *= w[i].out * w[i].size;
    }
    bool mixes = points * shape.dim[channel] <= g->options->points_max && chance(g, 2);
    bool weighs = mixes || chance(g, 2);
    if (points * shape.dim[channel] > g->options->points_max * 4) {
        make_elementwise(g);
        return;
    }
    int64_t channels = mixes
                           ? draw_extent(g, g->options->points_max / (points * shape.dim[channel]))
                           : shape.dim[channel];

    begin(g, mixes ? "conv" : weighs ? "depthwise" : "pool");
    kiln_expr index[KILN_RANK_MAX];
    kiln_expr weight_index[KILN_RANK_MAX];
    kiln_shape weights = {.rank = windowed + 1 + mixes, .dim = {channels, shape.dim[channel]}};
    kiln_expr inside = kiln_expr_int(g->p, KILN_BOOL, 1);
    for (uint32_t i = 0; i < channel; i++) index[i] = add_iter(g, shape.dim[i], false);
    weight_index[0] = index[channel] = add_iter(g, channels, false);
    for (uint32_t i = 0; i < windowed; i++) index[channel + 1 + i] = add_iter(g, w[i].out, false);
    if (mixes) weight_index[1] = index[channel] = add_iter(g, shape.dim[channel], true);
    for (uint32_t i = 0; i < windowed; i++) {
        kiln_expr tap = add_iter(g, w[i].size, true);
        kiln_expr at =
            op2(g, KILN_EXPR_ADD,
                op2(g, KILN_EXPR_MUL, index[channel + 1 + i], index_const(g, w[i].stride)),
                op2(g, KILN_EXPR_MUL, tap, index_const(g, w[i].dilation)));
        at = index[channel + 1 + i] = op2(g, KILN_EXPR_SUB, at, index_const(g, w[i].pad));
        weights.dim[1 + mixes + i] = w[i].size;
        weight_index[1 + mixes + i] = tap;
        if (!w[i].pad) continue;
        kiln_expr low = op2(g, KILN_EXPR_LE, index_const(g, 0), at);
        kiln_expr high = op2(g, KILN_EXPR_LT, at, index_const(g, shape.dim[channel + 1 + i]));
        inside = op2(g, KILN_EXPR_AND, inside, op2(g, KILN_EXPR_AND, low, high));
    }
    kiln_dtype dtype = dtype_from(g, source, g->dtype);
    kiln_expr value = kiln_expr_select(g->p, inside, load_as(g, dtype, source, index),
                                       kiln_expr_zero(g->p, dtype));
    if (weighs) {
        kiln_expr weight =
            load_as(g, dtype, new_argument(g, "weights", dtype, &weights), weight_index);
        value = op2(g, KILN_EXPR_MUL, value, weight);
    }
    finish(g, dtype, weighs ? KILN_COMBINE_SUM : draw_combiner(g), value);
}

/* Moves elements: a border of zeros, every second element, reversed order, or two dimensions made
 * one. */
static void make_movement(generator *g) {
    kiln_buffer source = draw_source(g);
    kiln_shape shape = g->p->buffer.data[source].shape;
    kiln_dtype dtype = g->p->buffer.data[source].dtype;
    kiln_expr index[KILN_RANK_MAX];
    kiln_expr inside = kiln_expr_int(g->p, KILN_BOOL, 1);
    bool may_grow = kiln_shape_count(&shape) * 4 <= g->options->points_max;
    begin(g, "move");
    for (uint32_t i = 0; i < shape.rank; i++) {
        int64_t extent = shape.dim[i];
        kiln_expr at;
        switch (below(g, 5)) {
        case 0:
            at = op2(g, KILN_EXPR_SUB, index_const(g, extent - 1), add_iter(g, extent, false));
            break;
        case 1:
            at = op2(g, KILN_EXPR_MUL, add_iter(g, (extent + 1) / 2, false), index_const(g, 2));
            break;
        case 2:
            if (i + 1 < shape.rank) {
                kiln_expr both = add_iter(g, extent * shape.dim[i + 1], false);
                index[i] =
                    op2(g, KILN_EXPR_FLOORDIV, both, index_const(g, KILN_MAX(shape.dim[i + 1], 1)));
                at =
                    op2(g, KILN_EXPR_FLOORMOD, both, index_const(g, KILN_MAX(shape.dim[i + 1], 1)));
                i++;
                break;
            }
            at = add_iter(g, extent, false);
            break;
        case 3:
            if (may_grow) {
                may_grow = false; /* one border is enough */
                at = op2(g, KILN_EXPR_SUB, add_iter(g, extent + 3, false), index_const(g, 1));
                inside = op2(g, KILN_EXPR_AND, inside, op2(g, KILN_EXPR_LE, index_const(g, 0), at));
                inside =
                    op2(g, KILN_EXPR_AND, inside, op2(g, KILN_EXPR_LT, at, index_const(g, extent)));
                break;
            }
            at = add_iter(g, extent, false);
            break;
        default: at = add_iter(g, extent, false); break;
        }
        index[i] = at;
    }
    kiln_expr value = kiln_expr_select(g->p, inside, load_as(g, dtype, source, index),
                                       kiln_expr_zero(g->p, dtype));
    finish(g, dtype, KILN_COMBINE_NONE, value);
}

/* ---- programs -------------------------------------------------------------------- */

kiln_program *kiln_program_generate(kiln_rand *rand, const kiln_generate_options *options,
                                    kiln_arena *arena) {
    static void (*const make[])(generator *) = {make_elementwise, make_elementwise, make_reduction,
                                                make_matmul,      make_window,      make_window,
                                                make_movement};
    generator g = {
        .p = kiln_program_create(arena, KILN_STR("generated")), .rand = rand, .options = options};
    KILN_CHECK(options->blocks_max >= 1);
    KILN_CHECK(options->points_max >= 1);
    g.dtype = draw_dtype(&g);
    kiln_shape shape = draw_shape(&g);
    new_argument(&g, "x", g.dtype, &shape);

    for (uint64_t blocks = 1 + below(&g, options->blocks_max); blocks > 0; blocks--)
        make[below(&g, KILN_ARRAY_COUNT(make))](&g);
    for (kiln_buffer b = 1; b < g.p->buffer.count; b++)
        if (g.p->buffer.data[b].role == KILN_ROLE_TEMP && !g.read[b])
            g.p->buffer.data[b].role = KILN_ROLE_OUTPUT;
    return g.p;
}
