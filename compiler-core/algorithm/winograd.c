/* Winograd's minimal filtering for convolutions: F(m x m, r x r) computes tiles of m x m outputs
 * from (m + r - 1)^2 products per channel instead of m^2 r^2.
 *
 *     U = G g G'      weights g, once, when they are loaded
 *     V = B' d B      a tile d of the data, tiles m apart
 *     M = sum over channels of U * V, point by point
 *     Y = A' M A      a tile of outputs
 *
 * Tiles of convolutions with stride s are s m apart, and have s (m - 1) + r points in each
 * dimension (winograd.h).
 *
 * Where the stride divides the taps, all phases have the same number: they share points and sums,
 * so each acts like more channels. 4x4 with stride 2 is 2x2 over four times the channels.
 *
 * With four points each transform is one block, and a tile stays in registers. With more it is two:
 * one along columns, whose result is a temp, and one along rows of that.
 *
 * Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (CVPR 2016),
 * section 4.1. */
#include "compiler-core/algorithm/winograd.h"

#include <string.h>

#include "base/macros.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/algorithm/combine.h"
#include "compiler-core/algorithm/narrow.h"
#include "compiler-core/algorithm/sums.h"
#include "compiler-core/ir/affine.h"

#define POINTS_MAX KILN_WINOGRAD_POINTS_MAX
#define DIMS 2           /* spatial dimensions that are transformed */
#define POINTS_AT_ONCE 4 /* more are transformed in two blocks */

/* A convolution found in a program. */
typedef struct site {
    kiln_block block;
    kiln_expr data, weights;         /* the factors */
    uint32_t along[DIMS], tap[DIMS]; /* iterators: output rows and columns, and their taps */
    uint32_t window[DIMS];           /* the data's dimension that both index */
    int64_t apart;                   /* neighbouring taps in the data: 1, or phases are channels */
} site;

/* ---- finding a convolution ---- */

static kiln_expr load_below(const kiln_program *p, kiln_expr e) {
    while (kiln_expr_get(p, e)->op == KILN_EXPR_CAST) e = kiln_expr_operand(p, e, 0);
    return kiln_expr_get(p, e)->op == KILN_EXPR_LOAD ? e : 0;
}

static kiln_expr iter_var(kiln_program *p, kiln_block block, uint32_t i) {
    return kiln_expr_var(p, p->block.data[block].iter[i].var);
}

/* The number of the load's indices that use the iterator; `*out_last`: the last of them. */
static uint32_t count_uses(const kiln_program *p, kiln_expr load, kiln_var var,
                           uint32_t *out_last) {
    uint32_t uses = 0;
    for (uint32_t d = 0; d < kiln_expr_get(p, load)->operand_count; d++) {
        if (!kiln_expr_uses_var(p, kiln_expr_operand(p, load, d), var)) continue;
        *out_last = d;
        uses++;
    }
    return uses;
}

/* Classification of the terms of an index. */
typedef struct terms {
    uint32_t along, tap;
    bool others; /* depend on neither */
} terms;

/* `of`: the iterator and the tap, each times its stride. */
static void count_terms(const kiln_program *p, kiln_expr e, const kiln_expr *of,
                        const kiln_var *var, terms *out) {
    if (kiln_expr_get(p, e)->op == KILN_EXPR_ADD) {
        count_terms(p, kiln_expr_operand(p, e, 0), of, var, out);
        count_terms(p, kiln_expr_operand(p, e, 1), of, var, out);
        return;
    }
    out->along += e == of[0];
    out->tap += e == of[1];
    for (uint32_t i = 0; i < 2; i++) out->others &= e == of[i] || !kiln_expr_uses_var(p, e, var[i]);
}

static kiln_expr times(kiln_program *p, kiln_expr e, int64_t by) {
    return kiln_expr_binary(p, KILN_EXPR_MUL, e, kiln_expr_index(p, by));
}

/* Distances in the data between windows, and between taps of one. */
typedef struct strides {
    int64_t windows, taps;
} strides;

/* Whether iterators `along` and `tap` slide a window over one dimension of the data with these
 * strides, from any offset, and the weights have a dimension for the tap. */
static bool slides(kiln_program *p, const site *s, uint32_t along, uint32_t tap, strides by,
                   uint32_t *out_window) {
    const kiln_block_info *b = &p->block.data[s->block];
    kiln_expr data = load_below(p, s->data), weights = load_below(p, s->weights);
    const kiln_expr of[] = {times(p, iter_var(p, s->block, along), by.windows),
                            times(p, iter_var(p, s->block, tap), by.taps)};
    const kiln_var var[] = {b->iter[along].var, b->iter[tap].var};
    uint32_t of_along = 0, of_tap = 0, of_weights = 0;
    terms window = {.others = true};
    if (count_uses(p, data, b->iter[along].var, &of_along) != 1 ||
        count_uses(p, data, b->iter[tap].var, &of_tap) != 1 || of_along != of_tap)
        return false;
    count_terms(p, kiln_expr_operand(p, data, of_tap), of, var, &window);
    *out_window = of_tap;
    return window.along == 1 && window.tap == 1 && window.others &&
           count_uses(p, weights, b->iter[along].var, &of_weights) == 0 &&
           count_uses(p, weights, b->iter[tap].var, &of_weights) == 1;
}

static bool is_weight(const kiln_program *p, kiln_expr factor) {
    kiln_expr load = load_below(p, factor);
    return load && p->buffer.data[kiln_expr_get(p, load)->payload.id].role == KILN_ROLE_CONSTANT;
}

/* For phases of 2 taps: half of such a window of two channels is often 0, and then rounding errors
 * exceed the tiny bound of the sum. Other convolutions had a lower limit before.
 */
#define CHANNELS_OF_TWO_TAPS 8

/* Whether enough channels are left to be summed up without the taps. */
static bool sums_channels(const kiln_program *p, const site *s, const kiln_winograd *f) {
    const kiln_block_info *b = &p->block.data[s->block];
    const int64_t most_taps = (f->taps + f->stride - 1) / f->stride; /* of a phase */
    const int64_t least = most_taps == 2 ? CHANNELS_OF_TWO_TAPS : 2;
    int64_t channels = 1;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce && i != s->tap[0] && i != s->tap[1]) channels *= b->iter[i].extent;
    return channels >= least;
}

/* Splits reduce iterator `tap` into taps at distance `apart`, and a phase. */
static void split_tap(kiln_program *p, kiln_block block, uint32_t tap, int64_t apart) {
    kiln_iter *iter = &p->block.data[block].iter[tap];
    const kiln_var var = iter->var;
    const char *name =
        kiln_arena_printf(p->arena, "%.*s.phase", KILN_STR_ARG(kiln_iter_name(p, iter)));
    iter->extent /= apart;
    kiln_var_set_range(p, var, 0, iter->extent - 1);
    const kiln_expr phase = kiln_block_add_iter(p, block, name, apart, true);
    kiln_expr *to = KILN_ARENA_ARRAY(p->arena, kiln_expr, p->var.count);
    to[var] = kiln_expr_binary(p, KILN_EXPR_ADD, times(p, kiln_expr_var(p, var), apart), phase);
    p->block.data[block].value = kiln_expr_substitute(p, p->block.data[block].value, to);
}

/* Splits the taps of windows whose stride divides their taps into those of `f`; in both dimensions
 * or in none. */
static void split_taps(kiln_program *p, site *s, const kiln_winograd *f) {
    uint32_t tap[DIMS], found = 0, window;
    for (uint32_t k = 0; k < p->block.data[s->block].iter_count; k++) {
        const kiln_iter iter = p->block.data[s->block].iter[k];
        const int64_t apart = iter.extent / f->taps;
        if (!iter.reduce || apart < 2 || apart * f->taps != iter.extent) continue;
        for (uint32_t i = 0; i < p->block.data[s->block].iter_count; i++)
            if (!p->block.data[s->block].iter[i].reduce &&
                slides(p, s, i, k, (strides){apart, 1}, &window)) {
                if (found == DIMS || (found == 1 && apart != s->apart)) return;
                tap[found++] = k;
                s->apart = apart;
            }
    }
    for (uint32_t d = 0; d < DIMS && found == DIMS; d++) split_tap(p, s->block, tap[d], s->apart);
    if (found < DIMS) s->apart = 1;
}

static bool find_windows(kiln_program *p, site *s, const kiln_winograd *f) {
    const kiln_block_info *b = &p->block.data[s->block];
    uint32_t found = 0;
    for (uint32_t i = 0; i < b->iter_count; i++)
        for (uint32_t k = 0; k < b->iter_count && !b->iter[i].reduce; k++) {
            uint32_t window = 0;
            if (!b->iter[k].reduce || b->iter[k].extent != f->taps ||
                !slides(p, s, i, k, (strides){f->stride * s->apart, s->apart}, &window))
                continue;
            if (found == DIMS) return false;
            s->along[found] = i, s->tap[found] = k, s->window[found++] = window;
        }
    return found == DIMS;
}

/* A sum of products of floats in which one factor is a weight and the other is indexed by two
 * windows. */
static bool match(kiln_program *p, kiln_block block, const kiln_winograd *f, site *out) {
    const kiln_block_info *b = &p->block.data[block];
    const kiln_expr_node *value = kiln_expr_get(p, b->value);
    const uint32_t iters = b->iter_count + 2 * DIMS; /* with points and phases */
    if (b->combiner != KILN_COMBINE_SUM || b->removed || value->op != KILN_EXPR_MUL ||
        (value->dtype != KILN_F32 && value->dtype != KILN_F64))
        return false;
    kiln_expr factor[2] = {kiln_expr_operand(p, b->value, 0), kiln_expr_operand(p, b->value, 1)};
    uint32_t weights = is_weight(p, factor[1]);
    *out =
        (site){.block = block, .data = factor[1 - weights], .weights = factor[weights], .apart = 1};
    if (!load_below(p, out->data) || is_weight(p, out->data) || !is_weight(p, out->weights) ||
        iters > KILN_BLOCK_ITERS_MAX || b->index_count + DIMS > KILN_RANK_MAX)
        return false;
    if (f->stride == 1) split_taps(p, out, f);
    out->data = kiln_expr_operand(p, p->block.data[block].value, 1 - weights);
    out->weights = kiln_expr_operand(p, p->block.data[block].value, weights);
    return find_windows(p, out, f) && sums_channels(p, out, f);
}

/* ---- expressions ---- */

/* A matrix times x: out [rows]. */
static void multiply(kiln_program *p, const double (*t)[POINTS_MAX], int64_t rows, int64_t size,
                     const kiln_expr *x, kiln_expr *out) {
    for (int64_t i = 0; i < rows; i++) out[i] = kiln_combine(p, t[i], x, size);
}

/* Element (row, column) of T x T', T: [rows][size], x: [size][size] given element by element. */
static kiln_expr transformed(kiln_program *p, const double (*t)[POINTS_MAX], int64_t rows,
                             int64_t size, kiln_expr (*x)[POINTS_MAX], kiln_expr row,
                             kiln_expr column) {
    kiln_expr line[POINTS_MAX], value[POINTS_MAX];
    for (int64_t r = 0; r < size; r++) {
        multiply(p, t, rows, size, x[r], value);
        line[r] = kiln_pick(p, column, value, rows);
    }
    multiply(p, t, rows, size, line, value);
    return kiln_pick(p, row, value, rows);
}

/* ---- expressions of one dimension ---- */

/* How two coefficients of the same size relate. */
static bool is_same(double a, double b) { return a == b; }
static bool is_opposite(double a, double b) { return a == 0 - b; }

/* Whether rows i and k are even + odd and even - odd. */
static bool rows_pair(const double (*t)[POINTS_MAX], int64_t i, int64_t k, int64_t size) {
    bool same = false, opposite = false, pairs = true;
    for (int64_t j = 0; j < size; j++) {
        same |= t[i][j] != 0 && is_same(t[i][j], t[k][j]);
        opposite |= t[i][j] != 0 && is_opposite(t[i][j], t[k][j]);
        pairs &= is_same(t[i][j], t[k][j]) || is_opposite(t[i][j], t[k][j]);
    }
    return pairs && same && opposite;
}

/* Whether columns j and k have the same coefficients apart from signs. */
static bool columns_pair(const double (*t)[POINTS_MAX], int64_t j, int64_t k, int64_t rows) {
    bool same = false, opposite = false, pairs = true;
    for (int64_t i = 0; i < rows; i++) {
        same |= t[i][j] != 0 && is_same(t[i][j], t[i][k]);
        opposite |= t[i][j] != 0 && is_opposite(t[i][j], t[i][k]);
        pairs &= is_same(t[i][j], t[i][k]) || is_opposite(t[i][j], t[i][k]);
    }
    return pairs && same && opposite;
}

/* Rows i and k of the product, which share their even and their odd part. */
static void multiply_pair(kiln_program *p, const double (*t)[POINTS_MAX], int64_t i, int64_t k,
                          int64_t size, const kiln_expr *x, kiln_expr *out) {
    double even[POINTS_MAX], odd[POINTS_MAX];
    for (int64_t j = 0; j < size; j++) {
        even[j] = is_same(t[i][j], t[k][j]) ? t[i][j] : 0;
        odd[j] = is_same(t[i][j], t[k][j]) ? 0 : t[i][j];
    }
    const kiln_expr e = kiln_combine(p, even, x, size), o = kiln_combine(p, odd, x, size);
    out[i] = kiln_expr_binary(p, KILN_EXPR_ADD, e, o);
    out[k] = kiln_expr_binary(p, KILN_EXPR_SUB, e, o);
}

/* The same as multiply, for neighbouring points +a and -a with half of the operations: paired
 * columns are replaced by their sum and their difference, paired rows share their terms. */
static void multiply_shared(kiln_program *p, const double (*given)[POINTS_MAX], int64_t rows,
                            int64_t size, const kiln_expr *given_x, kiln_expr *out) {
    double shared[POINTS_MAX][POINTS_MAX];
    const double(*t)[POINTS_MAX] = (const double(*)[POINTS_MAX])shared;
    kiln_expr x[POINTS_MAX];
    memcpy(shared, given, sizeof shared);
    memcpy(x, given_x, (size_t)size * sizeof x[0]);
    for (int64_t j = 0; j + 1 < size; j++) {
        if (!columns_pair(given, j, j + 1, rows)) continue;
        x[j] = kiln_expr_binary(p, KILN_EXPR_ADD, given_x[j], given_x[j + 1]);
        x[j + 1] = kiln_expr_binary(p, KILN_EXPR_SUB, given_x[j], given_x[j + 1]);
        for (int64_t i = 0; i < rows; i++) {
            const bool same = is_same(given[i][j], given[i][j + 1]);
            shared[i][j] = same ? given[i][j] : 0;
            shared[i][j + 1] = same ? 0 : given[i][j];
        }
        j++;
    }
    for (int64_t i = 0; i < rows; i++) {
        if (i + 1 < rows && rows_pair(t, i, i + 1, size)) {
            multiply_pair(p, t, i, i + 1, size, x, out);
            i++;
        } else {
            out[i] = kiln_combine(p, t[i], x, size);
        }
    }
}

/* Row `which` of a matrix times x. */
static kiln_expr transformed_line(kiln_program *p, const double (*t)[POINTS_MAX], int64_t rows,
                                  int64_t size, const kiln_expr *x, kiln_expr which) {
    kiln_expr value[POINTS_MAX];
    multiply_shared(p, t, rows, size, x, value);
    return kiln_pick(p, which, value, rows);
}

/* ---- building ---- */

typedef struct builder {
    kiln_program *p;
    const site *s;
    const kiln_winograd *f;
    int64_t tiles[DIMS];
    uint32_t left_out; /* iterators of one value that have no dimension in parts */
} builder;

/* A block named after the convolution with iterators p and q over points (rows and columns), then
 * one for each iterator of the convolution in `mask` except the taps: tiles for rows and
 * columns. */
typedef struct part {
    kiln_block id;
    kiln_buffer buffer;
    uint32_t mask;
    kiln_expr point[DIMS];                /* 0: none */
    kiln_expr iter[KILN_BLOCK_ITERS_MAX]; /* by the convolution's iterators; 0: none */
} part;

typedef struct part_shape {
    int64_t points[DIMS]; /* 0: no such iterator */
    int64_t rows;         /* of tiles, or of data */
} part_shape;

static bool is_tap(const builder *w, uint32_t i) { return i == w->s->tap[0] || i == w->s->tap[1]; }

static int64_t extent_of(const builder *w, const part_shape *shape, uint32_t i) {
    if (i == w->s->along[0]) return shape->rows;
    if (i == w->s->along[1]) return w->tiles[1];
    return w->p->block.data[w->s->block].iter[i].extent;
}

static uint32_t iters_of(const builder *w, kiln_expr factor) {
    const kiln_block_info *b = &w->p->block.data[w->s->block];
    uint32_t mask = 0;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (kiln_expr_uses_var(w->p, factor, b->iter[i].var)) mask |= 1u << i;
    return mask & ~w->left_out;
}

static part begin(builder *w, const char *suffix, uint32_t mask, part_shape of) {
    kiln_program *p = w->p;
    const kiln_str conv = p->block.data[w->s->block].name;
    kiln_str name = kiln_str_printf(p->arena, "%.*s.%s", KILN_STR_ARG(conv), suffix);
    part made = {.id = kiln_block_create(p, name), .mask = mask};
    kiln_shape shape = {.rank = 0};
    for (uint32_t d = 0; d < DIMS; d++) {
        if (!of.points[d]) continue;
        made.point[d] = kiln_block_add_iter(p, made.id, d ? "q" : "p", of.points[d], false);
        shape.dim[shape.rank++] = of.points[d];
    }
    for (uint32_t reduce = 0; reduce < 2; reduce++) /* spatial iterators first */
        for (uint32_t i = 0; i < p->block.data[w->s->block].iter_count; i++) {
            const kiln_iter from = p->block.data[w->s->block].iter[i];
            if (!(mask >> i & 1) || is_tap(w, i) || from.reduce != (reduce != 0)) continue;
            kiln_str iter = kiln_iter_name(p, &from);
            bool summed = from.reduce && strcmp(suffix, "products") == 0;
            made.iter[i] = kiln_block_add_iter(p, made.id, kiln_str_dup(p->arena, iter),
                                               extent_of(w, &of, i), summed);
            if (!summed) shape.dim[shape.rank++] = extent_of(w, &of, i);
        }
    kiln_dtype dtype = (kiln_dtype)kiln_expr_get(p, p->block.data[w->s->block].value)->dtype;
    made.buffer = kiln_buffer_create(p, name, dtype, KILN_ROLE_TEMP, &shape);
    return made;
}

/* The indices with which a part's buffer is read or written, [rank]: points, then iterators. */
static uint32_t indices(const builder *w, const kiln_expr *point, const kiln_expr *iter,
                        uint32_t mask, kiln_expr *out) {
    const kiln_block_info *b = &w->p->block.data[w->s->block];
    uint32_t count = 0;
    for (uint32_t d = 0; d < DIMS; d++)
        if (point[d]) out[count++] = point[d];
    for (uint32_t reduce = 0; reduce < 2; reduce++)
        for (uint32_t i = 0; i < b->iter_count; i++)
            if ((mask >> i & 1) && !is_tap(w, i) && b->iter[i].reduce == (reduce != 0))
                out[count++] = iter[i];
    return count;
}

/* Element of the result of `of` at points (row, column), 0 for points that it lacks. */
static kiln_expr load_part(builder *w, const part *of, kiln_expr row, kiln_expr column,
                           const kiln_expr *iter) {
    kiln_expr index[KILN_RANK_MAX];
    const uint32_t rank = indices(w, (kiln_expr[DIMS]){row, column}, iter, of->mask, index);
    return kiln_expr_load(w->p, of->buffer, index, rank);
}

static void set_value(builder *w, const part *of, kiln_expr value) {
    kiln_expr index[KILN_RANK_MAX];
    const uint32_t rank = indices(w, of->point, of->iter, of->mask, index);
    kiln_block_set(w->p, of->id, of->buffer, index, rank, KILN_COMBINE_NONE, value, 0);
}

static bool is_in_two(const builder *w) { return w->f->points > POINTS_AT_ONCE; }

/* ---- weights and data ---- */

/* A factor of the convolution's products with other indices. */
typedef struct replaced {
    builder *w;
    kiln_expr factor, *to; /* by the variables of the convolution's iterators */
} replaced;

static replaced replace_in(builder *w, kiln_expr factor, const part *at) {
    const kiln_block_info *b = &w->p->block.data[w->s->block];
    replaced r = {w, factor, KILN_ARENA_ARRAY(w->p->arena, kiln_expr, w->p->var.count)};
    for (uint32_t i = 0; i < b->iter_count; i++)
        r.to[b->iter[i].var] = w->left_out >> i & 1 ? kiln_expr_index(w->p, 0) : at->iter[i];
    return r;
}

static kiln_expr weight_at(replaced *r, kiln_expr row, kiln_expr column) {
    const kiln_iter *iter = r->w->p->block.data[r->w->s->block].iter;
    r->to[iter[r->w->s->tap[0]].var] = row;
    r->to[iter[r->w->s->tap[1]].var] = column;
    return kiln_expr_substitute(r->w->p, r->factor, r->to);
}

static part make_weights_at_once(builder *w) {
    kiln_program *p = w->p;
    const kiln_winograd *f = w->f;
    part u = begin(w, "weights", iters_of(w, w->s->weights),
                   (part_shape){{f->points, f->points}, w->tiles[0]});
    replaced r = replace_in(w, w->s->weights, &u);
    kiln_expr g[POINTS_MAX][POINTS_MAX] = {{0}};
    for (int64_t i = 0; i < f->taps; i++)
        for (int64_t k = 0; k < f->taps; k++)
            g[i][k] = weight_at(&r, kiln_expr_index(p, i), kiln_expr_index(p, k));
    set_value(w, &u, transformed(p, f->weights, f->points, f->taps, g, u.point[0], u.point[1]));
    return u;
}

static part make_weights(builder *w) {
    kiln_program *p = w->p;
    const kiln_winograd *f = w->f;
    const uint32_t mask = iters_of(w, w->s->weights);
    if (!is_in_two(w)) return make_weights_at_once(w);
    kiln_expr x[POINTS_MAX];
    part half = begin(w, "weights.columns", mask, (part_shape){{f->taps, f->points}, w->tiles[0]});
    replaced r = replace_in(w, w->s->weights, &half);
    for (int64_t k = 0; k < f->taps; k++)
        x[k] = weight_at(&r, half.point[0], kiln_expr_index(p, k));
    set_value(w, &half, transformed_line(p, f->weights, f->points, f->taps, x, half.point[1]));
    part u = begin(w, "weights", mask, (part_shape){{f->points, f->points}, w->tiles[0]});
    for (int64_t k = 0; k < f->taps; k++)
        x[k] = load_part(w, &half, kiln_expr_index(p, k), u.point[1], u.iter);
    set_value(w, &u, transformed_line(p, f->weights, f->points, f->taps, x, u.point[0]));
    return u;
}

/* `value`, or 0 where the last tile reaches beyond the data: `at`, an index of dimension
 * `window[d]`. */
static kiln_expr inside(builder *w, kiln_expr value, uint32_t d, kiln_expr at) {
    kiln_expr load = load_below(w->p, w->s->data);
    const kiln_buffer_info *data = &w->p->buffer.data[kiln_expr_get(w->p, load)->payload.id];
    kiln_expr extent = kiln_expr_index(w->p, data->shape.dim[w->s->window[d]]);
    kiln_expr is = kiln_expr_simplify(w->p, kiln_expr_binary(w->p, KILN_EXPR_LT, at, extent), NULL);
    kiln_dtype dtype = (kiln_dtype)kiln_expr_get(w->p, value)->dtype;
    return kiln_expr_select(w->p, is, value, kiln_expr_zero(w->p, dtype));
}

/* Element `point` of the tile. */
static kiln_expr in_tile(builder *w, kiln_expr tile, int64_t point) {
    kiln_program *p = w->p;
    const kiln_expr apart = kiln_expr_index(p, w->f->stride * w->f->outputs);
    const kiln_expr first = kiln_expr_binary(p, KILN_EXPR_MUL, tile, apart);
    return kiln_expr_binary(p, KILN_EXPR_ADD, first, kiln_expr_index(p, point));
}

/* The data of the first window at (row, column), 0 beyond their end. */
static kiln_expr data_at(replaced *r, kiln_expr row, kiln_expr column) {
    const site *s = r->w->s;
    const kiln_iter *iter = r->w->p->block.data[s->block].iter;
    const kiln_expr at[DIMS] = {row, column};
    for (uint32_t d = 0; d < DIMS; d++) {
        r->to[iter[s->along[d]].var] = kiln_expr_index(r->w->p, 0);
        r->to[iter[s->tap[d]].var] = at[d];
    }
    kiln_expr value = kiln_expr_substitute(r->w->p, r->factor, r->to);
    const kiln_expr load = load_below(r->w->p, s->data);
    for (uint32_t d = 0; d < DIMS; d++)
        value = inside(
            r->w, value, d,
            kiln_expr_substitute(r->w->p, kiln_expr_operand(r->w->p, load, s->window[d]), r->to));
    return value;
}

static part make_tiles_at_once(builder *w) {
    kiln_program *p = w->p;
    const site *s = w->s;
    const kiln_winograd *f = w->f;
    part v =
        begin(w, "tiles", iters_of(w, s->data), (part_shape){{f->points, f->points}, w->tiles[0]});
    replaced r = replace_in(w, s->data, &v);
    kiln_expr x[POINTS_MAX][POINTS_MAX] = {{0}};
    for (int64_t i = 0; i < f->points; i++)
        for (int64_t k = 0; k < f->points; k++)
            x[i][k] =
                data_at(&r, in_tile(w, v.iter[s->along[0]], i), in_tile(w, v.iter[s->along[1]], k));
    set_value(w, &v, transformed(p, f->data, f->points, f->points, x, v.point[0], v.point[1]));
    return v;
}

static part make_tiles(builder *w) {
    kiln_program *p = w->p;
    const site *s = w->s;
    const kiln_winograd *f = w->f;
    const uint32_t mask = iters_of(w, s->data), row = s->along[0];
    if (!is_in_two(w)) return make_tiles_at_once(w);
    kiln_expr x[POINTS_MAX], at[KILN_BLOCK_ITERS_MAX];
    part half =
        begin(w, "tiles.columns", mask,
              (part_shape){{0, f->points}, (w->tiles[0] - 1) * f->stride * f->outputs + f->points});
    replaced r = replace_in(w, s->data, &half);
    for (int64_t k = 0; k < f->points; k++)
        x[k] = data_at(&r, half.iter[row], in_tile(w, half.iter[s->along[1]], k));
    set_value(w, &half, transformed_line(p, f->data, f->points, f->points, x, half.point[1]));
    part v = begin(w, "tiles", mask, (part_shape){{f->points, f->points}, w->tiles[0]});
    memcpy(at, v.iter, sizeof at);
    for (int64_t i = 0; i < f->points; i++) {
        at[row] = in_tile(w, v.iter[row], i);
        x[i] = load_part(w, &half, 0, v.point[1], at);
    }
    set_value(w, &v, transformed_line(p, f->data, f->points, f->points, x, v.point[0]));
    return v;
}

/* ---- products and results ---- */

static uint32_t spatial_of(const builder *w) {
    const kiln_block_info *b = &w->p->block.data[w->s->block];
    uint32_t mask = 0;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (!b->iter[i].reduce) mask |= 1u << i;
    return mask & ~w->left_out;
}

static part make_products(builder *w, const part *u, const part *v) {
    kiln_program *p = w->p;
    const int64_t points = w->f->points;
    part m = begin(w, "products", u->mask | v->mask, (part_shape){{points, points}, w->tiles[0]});
    kiln_expr data = load_part(w, v, m.point[0], m.point[1], m.iter);
    kiln_expr weights = load_part(w, u, m.point[0], m.point[1], m.iter), index[KILN_RANK_MAX];
    m.mask &= spatial_of(w);
    uint32_t rank = indices(w, m.point, m.iter, m.mask, index);
    kiln_block_set(p, m.id, m.buffer, index, rank, KILN_COMBINE_SUM,
                   kiln_expr_binary(p, KILN_EXPR_MUL, data, weights), 0);
    return m;
}

/* The products, transformed back along rows. */
static part make_result_rows(builder *w, const part *m) {
    kiln_program *p = w->p;
    const kiln_winograd *f = w->f;
    part half =
        begin(w, "results.rows", m->mask, (part_shape){{f->outputs, f->points}, w->tiles[0]});
    kiln_expr x[POINTS_MAX];
    for (int64_t i = 0; i < f->points; i++)
        x[i] = load_part(w, m, kiln_expr_index(p, i), half.point[1], half.iter);
    set_value(w, &half, transformed_line(p, f->result, f->outputs, f->points, x, half.point[0]));
    return half;
}

/* Makes the convolution's block compute its results from the products; `half`: their rows are
 * transformed.
 */
static void make_results(builder *w, const part *m, const part *half) {
    kiln_program *p = w->p;
    const site *s = w->s;
    const kiln_winograd *f = w->f;
    kiln_expr iter[KILN_BLOCK_ITERS_MAX] = {0}, in[DIMS], y[POINTS_MAX][POINTS_MAX] = {{0}};
    const kiln_expr outputs = kiln_expr_index(p, f->outputs);
    for (uint32_t i = 0; i < p->block.data[s->block].iter_count; i++)
        if (m->mask >> i & 1) iter[i] = iter_var(p, s->block, i);
    for (uint32_t d = 0; d < DIMS; d++) {
        kiln_expr at = iter[s->along[d]];
        in[d] = kiln_expr_binary(p, KILN_EXPR_FLOORMOD, at, outputs);
        iter[s->along[d]] = kiln_expr_binary(p, KILN_EXPR_FLOORDIV, at, outputs);
    }
    for (int64_t i = 0; i < f->points; i++)
        for (int64_t k = 0; k < f->points && !half; k++)
            y[i][k] = load_part(w, m, kiln_expr_index(p, i), kiln_expr_index(p, k), iter);
    for (int64_t k = 0; k < f->points && half; k++)
        y[0][k] = load_part(w, half, in[0], kiln_expr_index(p, k), iter);
    kiln_block_replace_sum(p, s->block,
                           half
                               ? transformed_line(p, f->result, f->outputs, f->points, y[0], in[1])
                               : transformed(p, f->result, f->outputs, f->points, y, in[0], in[1]));
}

/* Dimensions of the largest part with blocks of channels, without those of `left_out`. */
static uint32_t rank_of(const kiln_program *p, const site *s, uint32_t left_out) {
    const kiln_block_info *b = &p->block.data[s->block];
    uint32_t of_data = 0, of_results = 0;
    for (uint32_t i = 0; i < b->iter_count; i++) {
        if (left_out >> i & 1 || i == s->tap[0] || i == s->tap[1]) continue;
        of_data += kiln_expr_uses_var(p, s->data, b->iter[i].var);
        of_results += !b->iter[i].reduce;
    }
    return KILN_MAX(of_data, of_results) + DIMS + 1;
}

/* Iterators of one value to leave out, because parts would have no dimension left for blocks of
 * channels: the batch where phases are dimensions. */
static uint32_t left_out(const kiln_program *p, const site *s) {
    const kiln_block_info *b = &p->block.data[s->block];
    uint32_t mask = 0;
    for (uint32_t i = 0; i < b->iter_count && rank_of(p, s, 0) > KILN_RANK_MAX; i++)
        if (!b->iter[i].reduce && b->iter[i].extent == 1 && i != s->along[0] && i != s->along[1])
            mask |= 1u << i;
    return mask;
}

/* `fixed`: transformed weights are 16-bit multiples of a step for each point of each channel. */
static kiln_program *apply(const kiln_winograd *f, bool fixed, const kiln_program *te,
                           kiln_arena *arena) {
    kiln_program *p = kiln_program_copy(te, arena);
    site s;
    kiln_block block = 1;
    while (block < p->block.count && !match(p, block, f, &s)) block++;
    if (block == p->block.count) return NULL;
    builder w = {.p = p, .s = &s, .f = f, .left_out = left_out(p, &s)};
    if (s.apart > 1 && rank_of(p, &s, w.left_out) > KILN_RANK_MAX) return NULL;
    for (uint32_t d = 0; d < DIMS; d++) {
        int64_t extent = p->block.data[block].iter[s.along[d]].extent;
        w.tiles[d] = (extent + f->outputs - 1) / f->outputs;
    }
    const uint32_t first = p->block.count;
    part u = make_weights(&w), v = make_tiles(&w), m = make_products(&w, &u, &v);
    if (is_in_two(&w)) {
        part half = make_result_rows(&w, &m);
        make_results(&w, &m, &half);
    } else {
        make_results(&w, &m, NULL);
    }
    kiln_blocks_put_around(p, block, p->block.count - first, 0);
    return !fixed || kiln_fix_weights(p, kiln_program_producer(p, m.buffer), 1) ? p : NULL;
}

/* Points with the smallest measured errors among 0 and pairs of 3/8 to 5/2; with 64 channels the
 * error of F(4, 3) is 1.2e-6 of the largest result, and 7.6e-6 with 0, +-1, +-2 (decision 26). */
static const double three[] = {0, 1}, five[] = {0.5, -0.5, 1.25, -1.25}, four[] = {0, 1, -1},
                    six[] = {0, 0.625, -0.625, 1.5, -1.5}, eight[] = {0, 0.5, -0.5, 1, -1, 2, -2},
                    nine[] = {0.375, -0.375, 0.75, -0.75, 1.25, -1.25, 2.5, -2.5};

#define F(suffix, outputs, taps, stride, points, fixed)                                 \
    kiln_program *kiln_winograd_##outputs##x##outputs##_##taps##x##taps##suffix(        \
        const kiln_program *te, kiln_arena *arena) {                                    \
        const kiln_winograd f = kiln_winograd_of_points(outputs, taps, stride, points); \
        return apply(&f, fixed, te, arena);                                             \
    }

F(, 2, 2, 1, three, false)
F(, 2, 3, 1, four, false)
F(_fixed, 2, 3, 1, four, true)
F(, 3, 2, 1, four, false)
F(, 4, 2, 1, five, false)
F(, 4, 3, 1, six, false)
F(, 6, 3, 1, eight, false)
F(, 2, 5, 1, six, false)
F(, 4, 5, 1, eight, false)
F(, 3, 7, 1, nine, false)
F(_stride2, 2, 3, 2, three, false)
F(_stride2, 4, 3, 2, five, false)
