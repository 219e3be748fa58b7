/* Winograd's minimal filtering for convolutions: F(m x m, r x r) computes tiles of m x m outputs
 * from (m + r - 1)^2 products per channel instead of m^2 r^2.
 *
 *     U = G g G'      weights g, once, when they are loaded
 *     V = B' d B      a tile d of the data, tiles m apart
 *     M = sum over channels of U * V, point by point
 *     Y = A' M A      a tile of outputs
 *
 * Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (CVPR 2016),
 * section 4.1, with the matrices of F(2, 3). */
#include "compiler-core/algorithm/algorithm.h"

#include <string.h>

#include "base/check.h"
#include "compiler-core/ir/affine.h"

#define POINTS_MAX 8 /* m + r - 1 */
#define DIMS 2       /* spatial dimensions that are transformed */

typedef struct transform {
    int64_t outputs, taps;                  /* m, r; m + r - 1 points */
    double data[POINTS_MAX][POINTS_MAX];    /* B': [points][points] */
    double weights[POINTS_MAX][POINTS_MAX]; /* G: [points][taps] */
    double result[POINTS_MAX][POINTS_MAX];  /* A': [outputs][points] */
} transform;

static const transform f_2_3 = {
    .outputs = 2,
    .taps = 3,
    .data = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
    .weights = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
    .result = {{1, 1, 1, 0}, {0, 1, -1, -1}},
};

/* A convolution found in a program. */
typedef struct site {
    kiln_block block;
    kiln_expr data, weights;         /* the factors */
    uint32_t along[DIMS], tap[DIMS]; /* iterators: output rows and columns, and their taps */
    uint32_t window[DIMS];           /* the data's dimension that both index */
} site;

/* ---- finding a convolution ---- */

static kiln_expr load_below(const kiln_program *p, kiln_expr e) {
    while (kiln_expr_get(p, e)->op == KILN_EXPR_CAST) e = kiln_expr_operand(p, e, 0);
    return kiln_expr_get(p, e)->op == KILN_EXPR_LOAD ? e : 0;
}

static kiln_expr iter_var(kiln_program *p, kiln_block block, uint32_t i) {
    return kiln_expr_var(p, p->block.data[block].iter[i].var);
}

/* In how many of the load's indices the iterator takes part; `*out_last`: the last of them. */
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

/* Whether iterators `along` and `tap` slide a window over one dimension of the data with stride and
 * dilation 1, and the weights have a dimension for the tap. */
static bool slides(kiln_program *p, site *s, uint32_t along, uint32_t tap, uint32_t *out_window) {
    const kiln_block_info *b = &p->block.data[s->block];
    kiln_expr data = load_below(p, s->data), weights = load_below(p, s->weights);
    kiln_expr o = iter_var(p, s->block, along), t = iter_var(p, s->block, tap);
    uint32_t of_along = 0, of_tap = 0, of_weights = 0;
    return count_uses(p, data, b->iter[along].var, &of_along) == 1 &&
           count_uses(p, data, b->iter[tap].var, &of_tap) == 1 && of_along == of_tap &&
           kiln_expr_operand(p, data, of_tap) == kiln_expr_binary(p, KILN_EXPR_ADD, o, t) &&
           count_uses(p, weights, b->iter[along].var, &of_weights) == 0 &&
           count_uses(p, weights, b->iter[tap].var, &of_weights) == 1 &&
           kiln_expr_operand(p, weights, of_weights) == t && (*out_window = of_tap, true);
}

static bool is_weight(const kiln_program *p, kiln_expr factor) {
    kiln_expr load = load_below(p, factor);
    return load && p->buffer.data[kiln_expr_get(p, load)->payload.id].role == KILN_ROLE_CONSTANT;
}

/* Whether channels are left to be summed up once the taps are gone. */
static bool sums_channels(const kiln_program *p, const site *s) {
    const kiln_block_info *b = &p->block.data[s->block];
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce && i != s->tap[0] && i != s->tap[1] && b->iter[i].extent > 1)
            return true;
    return false;
}

static bool find_windows(kiln_program *p, site *s, int64_t taps) {
    const kiln_block_info *b = &p->block.data[s->block];
    uint32_t found = 0;
    for (uint32_t i = 0; i < b->iter_count; i++)
        for (uint32_t k = 0; k < b->iter_count && !b->iter[i].reduce; k++) {
            uint32_t window = 0;
            if (!b->iter[k].reduce || b->iter[k].extent != taps || !slides(p, s, i, k, &window))
                continue;
            if (found == DIMS) return false;
            s->along[found] = i, s->tap[found] = k, s->window[found++] = window;
        }
    return found == DIMS;
}

/* A sum of products of floats in which one factor is a weight and the other is looked at through
 * two windows. */
static bool match(kiln_program *p, kiln_block block, int64_t taps, site *out) {
    const kiln_block_info *b = &p->block.data[block];
    const kiln_expr_node *value = kiln_expr_get(p, b->value);
    if (b->combiner != KILN_COMBINE_SUM || b->removed || value->op != KILN_EXPR_MUL ||
        (value->dtype != KILN_F32 && value->dtype != KILN_F64))
        return false;
    kiln_expr factor[2] = {kiln_expr_operand(p, b->value, 0), kiln_expr_operand(p, b->value, 1)};
    uint32_t weights = is_weight(p, factor[1]);
    *out = (site){.block = block, .data = factor[1 - weights], .weights = factor[weights]};
    return load_below(p, out->data) && !is_weight(p, out->data) && is_weight(p, out->weights) &&
           find_windows(p, out, taps) && sums_channels(p, out) &&
           b->index_count + 2 <= KILN_RANK_MAX && b->iter_count + 2 <= KILN_BLOCK_ITERS_MAX;
}

/* ---- expressions ---- */

/* sum of coefficient[i] * value[i], without products by 0, 1 and -1. */
static kiln_expr combine(kiln_program *p, const double *coefficient, const kiln_expr *value,
                         int64_t count) {
    kiln_expr sum = 0;
    for (int pass = 0; pass < 2; pass++) /* what is added first, so that nothing is negated */
        for (int64_t i = 0; i < count; i++) {
            double c = coefficient[i];
            if (c == 0 || (c < 0) != pass) continue;
            kiln_dtype dtype = (kiln_dtype)kiln_expr_get(p, value[i])->dtype;
            double size = c < 0 ? -c : c;
            kiln_expr term = size == 1 ? value[i]
                                       : kiln_expr_binary(p, KILN_EXPR_MUL, value[i],
                                                          kiln_expr_float(p, dtype, size));
            if (!sum && c < 0) sum = kiln_expr_zero(p, dtype);
            sum =
                sum ? kiln_expr_binary(p, c < 0 ? KILN_EXPR_SUB : KILN_EXPR_ADD, sum, term) : term;
        }
    return sum;
}

/* value[which]; `which` runs over [0, count). Loops over it are unrolled, which leaves one of them.
 */
static kiln_expr pick(kiln_program *p, kiln_expr which, const kiln_expr *value, int64_t count) {
    kiln_expr picked = value[count - 1];
    for (int64_t i = count - 2; i >= 0; i--) {
        kiln_expr is = kiln_expr_binary(p, KILN_EXPR_EQ, which, kiln_expr_index(p, i));
        picked = kiln_expr_select(p, is, value[i], picked);
    }
    return picked;
}

/* Element (row, column) of T x T', T: [rows][size], x: [size][size] given element by element. */
static kiln_expr transformed(kiln_program *p, const double (*t)[POINTS_MAX], int64_t rows,
                             int64_t size, kiln_expr (*x)[POINTS_MAX], kiln_expr row,
                             kiln_expr column) {
    kiln_expr line[POINTS_MAX], value[POINTS_MAX];
    for (int64_t r = 0; r < size; r++) {
        for (int64_t j = 0; j < rows; j++) value[j] = combine(p, t[j], x[r], size);
        line[r] = pick(p, column, value, rows);
    }
    for (int64_t j = 0; j < rows; j++) value[j] = combine(p, t[j], line, size);
    return pick(p, row, value, rows);
}

/* ---- building ---- */

typedef struct builder {
    kiln_program *p;
    const site *s;
    const transform *f;
    int64_t points, tiles[DIMS];
} builder;

/* A block named after the convolution with iterators p and q over the points, then one for each
 * iterator of the convolution in `mask` but the taps: tiles for rows and columns. */
typedef struct part {
    kiln_block id;
    kiln_buffer buffer;
    kiln_expr point[DIMS];
    kiln_expr iter[KILN_BLOCK_ITERS_MAX]; /* by the convolution's iterators; 0: none */
} part;

static bool is_tap(const builder *w, uint32_t i) { return i == w->s->tap[0] || i == w->s->tap[1]; }

static int64_t extent_of(const builder *w, uint32_t i) {
    for (uint32_t d = 0; d < DIMS; d++)
        if (i == w->s->along[d]) return w->tiles[d];
    return w->p->block.data[w->s->block].iter[i].extent;
}

static uint32_t iters_of(const builder *w, kiln_expr factor) {
    const kiln_block_info *b = &w->p->block.data[w->s->block];
    uint32_t mask = 0;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (kiln_expr_uses_var(w->p, factor, b->iter[i].var)) mask |= 1u << i;
    return mask;
}

static part begin(builder *w, const char *suffix, uint32_t mask) {
    kiln_program *p = w->p;
    const kiln_str conv = p->block.data[w->s->block].name;
    kiln_str name = kiln_str_printf(p->arena, "%.*s.%s", KILN_STR_ARG(conv), suffix);
    part made = {.id = kiln_block_create(p, name)};
    kiln_shape shape = {.rank = 0};
    for (uint32_t d = 0; d < DIMS; d++) {
        made.point[d] = kiln_block_add_iter(p, made.id, d ? "q" : "p", w->points, false);
        shape.dim[shape.rank++] = w->points;
    }
    for (uint32_t reduce = 0; reduce < 2; reduce++) /* spatial iterators first */
        for (uint32_t i = 0; i < p->block.data[w->s->block].iter_count; i++) {
            const kiln_iter from = p->block.data[w->s->block].iter[i];
            if (!(mask >> i & 1) || is_tap(w, i) || from.reduce != (reduce != 0)) continue;
            kiln_str iter = kiln_iter_name(p, &from);
            bool summed = from.reduce && strcmp(suffix, "products") == 0;
            made.iter[i] = kiln_block_add_iter(p, made.id, kiln_str_dup(p->arena, iter),
                                               extent_of(w, i), summed);
            if (!summed) shape.dim[shape.rank++] = extent_of(w, i);
        }
    kiln_dtype dtype = (kiln_dtype)kiln_expr_get(p, p->block.data[w->s->block].value)->dtype;
    made.buffer = kiln_buffer_create(p, name, dtype, KILN_ROLE_TEMP, &shape);
    return made;
}

/* The indices with which the part's buffer is read or written, [rank]: points, then iterators. */
static uint32_t indices(const builder *w, const kiln_expr *point, const kiln_expr *iter,
                        uint32_t mask, kiln_expr *out) {
    const kiln_block_info *b = &w->p->block.data[w->s->block];
    uint32_t count = 0;
    for (uint32_t d = 0; d < DIMS; d++) out[count++] = point[d];
    for (uint32_t reduce = 0; reduce < 2; reduce++)
        for (uint32_t i = 0; i < b->iter_count; i++)
            if ((mask >> i & 1) && !is_tap(w, i) && b->iter[i].reduce == (reduce != 0))
                out[count++] = iter[i];
    return count;
}

static kiln_expr *replacements(builder *w, const part *at) {
    const kiln_block_info *b = &w->p->block.data[w->s->block];
    kiln_expr *to = KILN_ARENA_ARRAY(w->p->arena, kiln_expr, w->p->var.count);
    for (uint32_t i = 0; i < b->iter_count; i++) to[b->iter[i].var] = at->iter[i];
    return to;
}

static part make_weights(builder *w) {
    const kiln_block_info *b = &w->p->block.data[w->s->block];
    kiln_program *p = w->p;
    uint32_t mask = iters_of(w, w->s->weights);
    part u = begin(w, "weights", mask);
    b = &p->block.data[w->s->block];
    kiln_expr *to = replacements(w, &u), g[POINTS_MAX][POINTS_MAX] = {{0}}, index[KILN_RANK_MAX];
    for (int64_t r = 0; r < w->f->taps; r++)
        for (int64_t c = 0; c < w->f->taps; c++) {
            to[b->iter[w->s->tap[0]].var] = kiln_expr_index(p, r);
            to[b->iter[w->s->tap[1]].var] = kiln_expr_index(p, c);
            g[r][c] = kiln_expr_substitute(p, w->s->weights, to);
        }
    kiln_expr value =
        transformed(p, w->f->weights, w->points, w->f->taps, g, u.point[0], u.point[1]);
    uint32_t rank = indices(w, u.point, u.iter, mask, index);
    kiln_block_set(p, u.id, u.buffer, index, rank, KILN_COMBINE_NONE, value, 0);
    return u;
}

/* `value`, or 0 where the last tile reaches beyond the data. */
static kiln_expr inside(builder *w, kiln_expr value, uint32_t d, kiln_expr at) {
    kiln_expr load = load_below(w->p, w->s->data);
    const kiln_buffer_info *data = &w->p->buffer.data[kiln_expr_get(w->p, load)->payload.id];
    kiln_expr extent = kiln_expr_index(w->p, data->shape.dim[w->s->window[d]]);
    kiln_expr is = kiln_expr_simplify(w->p, kiln_expr_binary(w->p, KILN_EXPR_LT, at, extent), NULL);
    kiln_dtype dtype = (kiln_dtype)kiln_expr_get(w->p, value)->dtype;
    return kiln_expr_select(w->p, is, value, kiln_expr_zero(w->p, dtype));
}

static part make_tiles(builder *w) {
    kiln_program *p = w->p;
    const site *s = w->s;
    uint32_t mask = iters_of(w, s->data);
    part v = begin(w, "tiles", mask);
    const kiln_block_info *b = &p->block.data[s->block];
    kiln_expr *to = replacements(w, &v), x[POINTS_MAX][POINTS_MAX] = {{0}}, index[KILN_RANK_MAX];
    for (uint32_t d = 0; d < DIMS; d++) to[b->iter[s->tap[d]].var] = kiln_expr_index(p, 0);
    for (int64_t r = 0; r < w->points; r++)
        for (int64_t c = 0; c < w->points; c++) {
            kiln_expr at[DIMS];
            for (uint32_t d = 0; d < DIMS; d++) {
                kiln_expr first = kiln_expr_binary(p, KILN_EXPR_MUL, v.iter[s->along[d]],
                                                   kiln_expr_index(p, w->f->outputs));
                at[d] = kiln_expr_binary(p, KILN_EXPR_ADD, first, kiln_expr_index(p, d ? c : r));
                to[b->iter[s->along[d]].var] = at[d];
            }
            x[r][c] = kiln_expr_substitute(p, s->data, to);
            for (uint32_t d = 0; d < DIMS; d++) x[r][c] = inside(w, x[r][c], d, at[d]);
        }
    kiln_expr value = transformed(p, w->f->data, w->points, w->points, x, v.point[0], v.point[1]);
    uint32_t rank = indices(w, v.point, v.iter, mask, index);
    kiln_block_set(p, v.id, v.buffer, index, rank, KILN_COMBINE_NONE, value, 0);
    return v;
}

static part make_products(builder *w, const part *u, const part *v) {
    kiln_program *p = w->p;
    uint32_t of_data = iters_of(w, w->s->data), of_weights = iters_of(w, w->s->weights),
             spatial = 0;
    part m = begin(w, "products", of_data | of_weights);
    const kiln_block_info *b = &p->block.data[w->s->block];
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (!b->iter[i].reduce) spatial |= 1u << i;
    kiln_expr index[KILN_RANK_MAX];
    uint32_t rank = indices(w, m.point, m.iter, of_data, index);
    kiln_expr data = kiln_expr_load(p, v->buffer, index, rank);
    rank = indices(w, m.point, m.iter, of_weights, index);
    kiln_expr weights = kiln_expr_load(p, u->buffer, index, rank);
    rank = indices(w, m.point, m.iter, (of_data | of_weights) & spatial, index);
    kiln_block_set(p, m.id, m.buffer, index, rank, KILN_COMBINE_SUM,
                   kiln_expr_binary(p, KILN_EXPR_MUL, data, weights), 0);
    return m;
}

/* The convolution's block takes its results from the products. */
static void make_results(builder *w, const part *m) {
    kiln_program *p = w->p;
    const site *s = w->s;
    kiln_block_info *b = &p->block.data[s->block];
    uint32_t mask = iters_of(w, s->data) | iters_of(w, s->weights), rank = 0;
    kiln_expr iter[KILN_BLOCK_ITERS_MAX] = {0}, inner[DIMS], y[POINTS_MAX][POINTS_MAX] = {{0}};
    const kiln_expr outputs = kiln_expr_index(p, w->f->outputs);
    for (uint32_t i = 0; i < b->iter_count; i++) {
        if (b->iter[i].reduce)
            mask &= ~(1u << i);
        else
            iter[i] = iter_var(p, s->block, i);
    }
    for (uint32_t d = 0; d < DIMS; d++) {
        kiln_expr at = iter[s->along[d]];
        inner[d] = kiln_expr_binary(p, KILN_EXPR_FLOORMOD, at, outputs);
        iter[s->along[d]] = kiln_expr_binary(p, KILN_EXPR_FLOORDIV, at, outputs);
    }
    for (int64_t r = 0; r < w->points; r++)
        for (int64_t c = 0; c < w->points; c++) {
            kiln_expr point[DIMS] = {kiln_expr_index(p, r), kiln_expr_index(p, c)},
                      index[KILN_RANK_MAX];
            rank = indices(w, point, iter, mask, index);
            y[r][c] = kiln_expr_load(p, m->buffer, index, rank);
        }
    kiln_expr value = transformed(p, w->f->result, w->f->outputs, w->points, y, inner[0], inner[1]);
    if (b->init) value = kiln_expr_binary(p, KILN_EXPR_ADD, b->init, value);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (!b->iter[i].reduce) b->iter[kept++] = b->iter[i];
    b->iter_count = kept;
    b->combiner = KILN_COMBINE_NONE;
    b->value = value;
    b->init = 0;
}

/* Blocks stand in execution order: the new ones, which are the last, come before the convolution.
 */
static void move_before(kiln_program *p, kiln_block block, uint32_t added) {
    kiln_block_info moved[3];
    KILN_CHECK(added == 3);
    uint32_t first = p->block.count - added;
    memcpy(moved, &p->block.data[first], sizeof moved);
    memmove(&p->block.data[block + added], &p->block.data[block],
            (first - block) * sizeof p->block.data[0]);
    memcpy(&p->block.data[block], moved, sizeof moved);
}

static kiln_program *apply(const transform *f, const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = kiln_program_copy(te, arena);
    site s;
    kiln_block block = 1;
    while (block < p->block.count && !match(p, block, f->taps, &s)) block++;
    if (block == p->block.count) return NULL;
    builder w = {.p = p, .s = &s, .f = f, .points = f->outputs + f->taps - 1};
    for (uint32_t d = 0; d < DIMS; d++) {
        int64_t extent = p->block.data[block].iter[s.along[d]].extent;
        w.tiles[d] = (extent + f->outputs - 1) / f->outputs;
    }
    part u = make_weights(&w), v = make_tiles(&w), m = make_products(&w, &u, &v);
    make_results(&w, &m);
    move_before(p, block, 3);
    return p;
}

kiln_program *kiln_winograd_2x2_3x3(const kiln_program *te, kiln_arena *arena) {
    return apply(&f_2_3, te, arena);
}
