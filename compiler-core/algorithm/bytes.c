/* Sums of products of bytes in the form that instructions take: data of one signedness, or in 16
 * bits as the weights, and whole groups of steps. Steps are channels, or, where each channel has a
 * sum of its own, the taps of a window along its last dimension.
 *
 *     sum x * w  =  sum (x - b) * w  +  b * sum w        b: 128 for u8, -128 for i8
 *
 * Exact, as integers wrap; added steps have weights of 0. The data are converted in the copy for
 * their padding, or in a separate one, and the weights once, when they are loaded. */
#include "base/macros.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/algorithm/steps.h"
#include "compiler-core/algorithm/sums.h"
#include "compiler-core/ir/affine.h"

#define UNSIGNED_ZERO 128 /* of a byte that becomes a signed one */
#define STEPS 4           /* of dot products of bytes */
#define WIDE_STEPS 2      /* of those of 16 bits */

/* A sum of bytes times signed weights. */
typedef struct site {
    kiln_sum sum;
    int padded;                     /* reduce iterator that is no multiple of steps; -1: none */
    uint32_t data_dim, weights_dim; /* that it indexes; of the weights it alone */
    int64_t stretch;                /* factor of the iterator in data_dim */
} site;

/* The form that an algorithm gives a sum. */
typedef struct form {
    kiln_dtype from, to; /* of the data */
    int64_t by;          /* subtracted from the data; 0: nothing */
    bool taps;           /* the padded steps are taps */
} form;

static bool is_wide(const form *f) { return f->to == KILN_I16; }
static int64_t steps_of(const form *f) { return is_wide(f) ? WIDE_STEPS : STEPS; }

/* ---- finding a sum --------------------------------------------------------------------------- */

/* Finds channels to pad. False: there are none. */
static bool find_padded_channels(const kiln_program *p, site *s, const form *f) {
    const kiln_steps steps =
        kiln_steps_find(p, s->sum.block, s->sum.data, s->sum.weights, steps_of(f));
    s->padded = steps.padded;
    s->data_dim = steps.data_dim;
    s->weights_dim = steps.weights_dim;
    s->stretch = 1;
    return steps.extent > 0;
}

/* Finds the last reduce iterator that alone indexes a dimension of the weights and slides along one
 * of the data. False: there is none. */
static bool find_padded_taps(kiln_program *p, site *s, const form *f) {
    bool found = false;
    for (uint32_t i = 0; i < p->block.data[s->sum.block].iter_count; i++) {
        const kiln_iter iter = p->block.data[s->sum.block].iter[i];
        const int of_weights = kiln_steps_dim_along(p, s->sum.weights, iter.var);
        const int of_data = kiln_steps_dim_moved(p, s->sum.data, iter.var);
        kiln_affine index;
        if (!iter.reduce || iter.extent <= 1 || of_weights < 0 || of_data < 0 ||
            !kiln_affine_of(p, kiln_expr_operand(p, s->sum.data, (uint32_t)of_data), NULL, &index))
            continue;
        const int64_t by = kiln_affine_coefficient(p, &index, iter.var);
        if (by <= 0) continue;
        s->padded = iter.extent % steps_of(f) ? (int)i : -1;
        s->data_dim = (uint32_t)of_data;
        s->weights_dim = (uint32_t)of_weights;
        s->stretch = by;
        found = true;
    }
    return found;
}

/* Whether the sum has steps of the form's kind, or only its data change. */
static bool find_padded(kiln_program *p, site *s, const form *f) {
    s->padded = -1;
    if (find_padded_channels(p, s, f)) return !f->taps;
    if (!f->taps) return !is_wide(f);
    return find_padded_taps(p, s, f) && (is_wide(f) || s->padded >= 0);
}

static bool match(const kiln_program *p, kiln_block block, kiln_dtype data, site *out) {
    *out = (site){0};
    return kiln_sum_find(p, block, 0, &out->sum) && kiln_loaded(p, out->sum.data)->dtype == data &&
           kiln_loaded(p, out->sum.weights)->dtype == KILN_I8;
}

/* ---- building -------------------------------------------------------------------------------- */

/* The sums of weights times `by`. */
static kiln_buffer weigh(kiln_program *p, const site *s, kiln_buffer sums, int64_t by) {
    const kiln_shape shape = p->buffer.data[sums].shape;
    kiln_buffer to;
    kiln_block block = kiln_sum_begin(p, &s->sum, "offset", KILN_I32, &shape, &to);
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape.rank; d++)
        index[d] = kiln_sum_add_iter(p, block, d, shape.dim[d], false);
    kiln_expr sum = kiln_expr_load(p, sums, index, shape.rank);
    kiln_block_set(p, block, to, index, shape.rank, KILN_COMBINE_NONE,
                   kiln_expr_binary(p, KILN_EXPR_MUL, sum, kiln_expr_int(p, KILN_I32, by)), 0);
    return to;
}

static int64_t padded_extent(const kiln_program *p, const site *s, const form *f) {
    const int64_t extent = p->block.data[s->sum.block].iter[s->padded].extent, steps = steps_of(f);
    return (extent + steps - 1) / steps * steps;
}

/* Weights in 16 bits if the form needs that, with zeros for the added steps. */
static kiln_buffer make_weights(kiln_program *p, const site *s, const form *f) {
    const int64_t extent = kiln_loaded(p, s->sum.weights)->shape.dim[s->weights_dim];
    kiln_shape shape = kiln_loaded(p, s->sum.weights)->shape;
    if (s->padded >= 0) shape.dim[s->weights_dim] = padded_extent(p, s, f);
    kiln_buffer to, from = kiln_expr_get(p, s->sum.weights)->payload.id;
    kiln_block block = kiln_sum_begin(p, &s->sum, s->padded >= 0 ? "padded" : "wide",
                                      is_wide(f) ? f->to : KILN_I8, &shape, &to);
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape.rank; d++)
        index[d] = kiln_sum_add_iter(p, block, d, shape.dim[d], false);
    kiln_expr w = kiln_expr_load(p, from, index, shape.rank);
    if (is_wide(f)) w = kiln_expr_cast(p, f->to, w);
    if (s->padded >= 0) w = kiln_steps_or_zero(p, w, index[s->weights_dim], extent);
    kiln_block_set(p, block, to, index, shape.rank, KILN_COMBINE_NONE, w, 0);
    return to;
}

/* The data in the form's type, x - by, with room for the added steps. */
static kiln_buffer make_data(kiln_program *p, const site *s, const form *f) {
    kiln_shape shape = kiln_loaded(p, s->sum.data)->shape;
    const int64_t extent = shape.dim[s->data_dim];
    if (s->padded >= 0)
        shape.dim[s->data_dim] += s->stretch * (padded_extent(p, s, f) -
                                                p->block.data[s->sum.block].iter[s->padded].extent);
    kiln_buffer to, from = kiln_expr_get(p, s->sum.data)->payload.id;
    kiln_block block = kiln_sum_begin(p, &s->sum, "data", f->to, &shape, &to);
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape.rank; d++)
        index[d] = kiln_sum_add_iter(p, block, d, shape.dim[d], false);
    kiln_expr x = kiln_expr_load(p, from, index, shape.rank);
    if (f->by) {
        x = kiln_expr_cast(p, KILN_I32, x);
        x = kiln_expr_binary(p, KILN_EXPR_SUB, x, kiln_expr_int(p, KILN_I32, f->by));
    }
    if (f->from != f->to) x = kiln_expr_cast(p, f->to, x);
    if (s->padded >= 0) x = kiln_steps_or_zero(p, x, index[s->data_dim], extent);
    kiln_block_set(p, block, to, index, shape.rank, KILN_COMBINE_NONE, x, 0);
    return to;
}

/* The same element of another buffer, as an i32. */
static kiln_expr read_instead(kiln_program *p, kiln_expr load, kiln_buffer buffer) {
    kiln_expr index[KILN_RANK_MAX];
    const uint32_t rank = kiln_expr_get(p, load)->operand_count;
    for (uint32_t d = 0; d < rank; d++) index[d] = kiln_expr_operand(p, load, d);
    return kiln_expr_cast(p, KILN_I32, kiln_expr_load(p, buffer, index, rank));
}

/* Makes the sum read the converted weights and data. */
static void read_made(kiln_program *p, const site *s, const form *f, kiln_buffer data,
                      kiln_buffer weights) {
    if (s->padded >= 0) {
        kiln_iter *iter = &p->block.data[s->sum.block].iter[s->padded];
        iter->extent = padded_extent(p, s, f);
        kiln_var_set_range(p, iter->var, 0, iter->extent - 1);
    }
    kiln_expr x = read_instead(p, s->sum.data, data), w = read_instead(p, s->sum.weights, weights);
    kiln_expr value = kiln_expr_binary(p, KILN_EXPR_MUL, x, w);
    p->block.data[s->sum.block].value = value;
}

static kiln_program *apply(const form *f, const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = kiln_program_copy(te, arena);
    site s = {0};
    kiln_block block = 1;
    while (block < p->block.count && !match(p, block, f->from, &s)) block++;
    if (block == p->block.count || !find_padded(p, &s, f) || (f->from == f->to && s.padded < 0))
        return NULL;
    const uint32_t blocks = p->block.count;
    kiln_buffer weights = kiln_expr_get(p, s.sum.weights)->payload.id;
    kiln_buffer offset = f->by ? weigh(p, &s, kiln_sum_weights(p, &s.sum), f->by) : 0;
    if (s.padded >= 0 || is_wide(f)) weights = make_weights(p, &s, f);
    kiln_buffer data = make_data(p, &s, f);
    if (offset) kiln_sum_add_offset(p, &s.sum, offset);
    read_made(p, &s, f, data, weights);
    kiln_blocks_put_around(p, block, p->block.count - blocks, offset != 0);
    return p;
}

/* For signed or unsigned data; the type stays. */
static kiln_program *pad(bool taps, const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = apply(&(form){KILN_U8, KILN_U8, 0, taps}, te, arena);
    return p ? p : apply(&(form){KILN_I8, KILN_I8, 0, taps}, te, arena);
}

static kiln_program *widen(bool taps, const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = apply(&(form){KILN_U8, KILN_I16, 0, taps}, te, arena);
    return p ? p : apply(&(form){KILN_I8, KILN_I16, 0, taps}, te, arena);
}

kiln_program *kiln_padded_data(const kiln_program *te, kiln_arena *arena) {
    return pad(false, te, arena);
}

kiln_program *kiln_signed_data(const kiln_program *te, kiln_arena *arena) {
    return apply(&(form){KILN_U8, KILN_I8, UNSIGNED_ZERO, false}, te, arena);
}

kiln_program *kiln_unsigned_data(const kiln_program *te, kiln_arena *arena) {
    return apply(&(form){KILN_I8, KILN_U8, -UNSIGNED_ZERO, false}, te, arena);
}

kiln_program *kiln_padded_taps(const kiln_program *te, kiln_arena *arena) {
    return pad(true, te, arena);
}

kiln_program *kiln_signed_taps(const kiln_program *te, kiln_arena *arena) {
    return apply(&(form){KILN_U8, KILN_I8, UNSIGNED_ZERO, true}, te, arena);
}

kiln_program *kiln_unsigned_taps(const kiln_program *te, kiln_arena *arena) {
    return apply(&(form){KILN_I8, KILN_U8, -UNSIGNED_ZERO, true}, te, arena);
}

kiln_program *kiln_wide_data(const kiln_program *te, kiln_arena *arena) {
    return widen(false, te, arena);
}

kiln_program *kiln_wide_taps(const kiln_program *te, kiln_arena *arena) {
    return widen(true, te, arena);
}
