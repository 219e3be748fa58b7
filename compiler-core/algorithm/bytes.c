/* Sums of products of bytes in the form that instructions take: data of one signedness, and whole
 * groups of steps. Steps are channels, or, where each channel has a sum of its own, the taps of a
 * window along its last dimension.
 *
 *     sum x * w  =  sum (x - b) * w  +  b * sum w        b: 128 for u8, -128 for i8
 *
 * Exact, as integers wrap; steps that are added have weights of 0. The data are changed where they
 * are copied, for their padding or alone, and the weights once, when they are loaded. */
#include <string.h>

#include "base/macros.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/algorithm/steps.h"
#include "compiler-core/ir/affine.h"

#define UNSIGNED_ZERO 128 /* of a byte that becomes a signed one */
#define BLOCKS_ADDED_MAX 5
#define STEPS 4 /* of dot products of bytes */

/* A sum of data times signed constant weights. */
typedef struct site {
    kiln_block block;
    kiln_expr data, weights; /* loads */
    /* [rank of the weights] the sum's dimension with the same index; -1: it is summed up */
    int dim_of[KILN_RANK_MAX];
    int padded;                     /* reduce iterator that is no multiple of STEPS; -1: none */
    uint32_t data_dim, weights_dim; /* that it indexes; of the weights it alone */
    int64_t stretch;                /* by which data_dim grows with it */
} site;

/* What an algorithm makes of a sum. */
typedef struct form {
    kiln_dtype from, to; /* of the data */
    int64_t by;          /* is taken off the data; 0: nothing */
    bool taps;           /* are the steps that are padded */
} form;

/* ---- finding a sum --------------------------------------------------------------------------- */

static const kiln_buffer_info *loaded(const kiln_program *p, kiln_expr load) {
    return &p->buffer.data[kiln_expr_get(p, load)->payload.id];
}

/* The load of which `e` is the i32; 0: it is something else. */
static kiln_expr load_below(const kiln_program *p, kiln_expr e) {
    if (kiln_expr_get(p, e)->op != KILN_EXPR_CAST) return 0;
    kiln_expr load = kiln_expr_operand(p, e, 0);
    return kiln_expr_get(p, load)->op == KILN_EXPR_LOAD ? load : 0;
}

/* Whether dimension `d` of the weights is summed up as a whole: by a reduce iterator of its own, or
 * because it has one element. */
static bool is_summed(const kiln_program *p, const site *s, uint32_t d) {
    const kiln_block_info *b = &p->block.data[s->block];
    kiln_expr index = kiln_expr_operand(p, s->weights, d);
    const int64_t extent = loaded(p, s->weights)->shape.dim[d];
    if (kiln_expr_is_const(p, index)) return extent == 1;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (kiln_expr_get(p, index)->op == KILN_EXPR_VAR &&
            kiln_expr_get(p, index)->payload.id == b->iter[i].var)
            return b->iter[i].reduce && b->iter[i].extent == extent;
    return false;
}

static bool find_dims(const kiln_program *p, site *s) {
    const kiln_block_info *b = &p->block.data[s->block];
    for (uint32_t d = 0; d < loaded(p, s->weights)->shape.rank; d++) {
        s->dim_of[d] = -1;
        for (uint32_t k = 0; k < b->index_count; k++)
            if (b->index[k] == kiln_expr_operand(p, s->weights, d)) s->dim_of[d] = (int)k;
        if (s->dim_of[d] < 0 && !is_summed(p, s, d)) return false;
    }
    return true;
}

/* Whether each reduce iterator is an index of the weights, so that each product has a weight of its
 * own. */
static bool sums_weights_once(const kiln_program *p, const site *s) {
    const kiln_block_info *b = &p->block.data[s->block];
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce && b->iter[i].extent > 1 &&
            !kiln_expr_uses_var(p, s->weights, b->iter[i].var))
            return false;
    return true;
}

/* Channels. False: there are none. */
static bool find_padded_channels(const kiln_program *p, site *s) {
    const kiln_steps steps = kiln_steps_find(p, s->block, s->data, s->weights, STEPS);
    s->padded = steps.padded;
    s->data_dim = steps.data_dim;
    s->weights_dim = steps.weights_dim;
    s->stretch = 1;
    return steps.extent > 0;
}

/* The last reduce iterator that indexes a dimension of the weights alone, and slides along one of
 * the data. */
static void find_padded_taps(kiln_program *p, site *s) {
    const uint32_t rank = loaded(p, s->data)->shape.rank;
    for (uint32_t i = 0; i < p->block.data[s->block].iter_count; i++) {
        const kiln_iter iter = p->block.data[s->block].iter[i];
        const int of_weights = kiln_steps_dim_along(p, s->weights, iter.var);
        for (uint32_t d = 0; d < rank && of_weights >= 0 && iter.reduce && iter.extent > 1; d++) {
            kiln_affine index;
            if (!kiln_affine_of(p, kiln_expr_operand(p, s->data, d), NULL, &index)) continue;
            const int64_t by = kiln_affine_coefficient(p, &index, iter.var);
            if (by <= 0) continue;
            s->padded = iter.extent % STEPS ? (int)i : -1;
            s->data_dim = d;
            s->weights_dim = (uint32_t)of_weights;
            s->stretch = by;
        }
    }
}

/* Whether the sum has steps of the form's kind. */
static bool find_padded(kiln_program *p, site *s, const form *f) {
    s->padded = -1;
    if (find_padded_channels(p, s)) return !f->taps;
    if (f->taps) find_padded_taps(p, s);
    return !f->taps || s->padded >= 0;
}

static bool match(const kiln_program *p, kiln_block block, kiln_dtype data, site *out) {
    const kiln_block_info *b = &p->block.data[block];
    const kiln_expr_node *value = kiln_expr_get(p, b->value);
    if (b->combiner != KILN_COMBINE_SUM || b->removed || value->op != KILN_EXPR_MUL ||
        value->dtype != KILN_I32)
        return false;
    *out = (site){.block = block,
                  .data = load_below(p, kiln_expr_operand(p, b->value, 0)),
                  .weights = load_below(p, kiln_expr_operand(p, b->value, 1))};
    return out->data && out->weights && loaded(p, out->data)->dtype == data &&
           loaded(p, out->data)->role != KILN_ROLE_CONSTANT &&
           loaded(p, out->weights)->dtype == KILN_I8 &&
           loaded(p, out->weights)->role == KILN_ROLE_CONSTANT && find_dims(p, out) &&
           sums_weights_once(p, out);
}

/* ---- building -------------------------------------------------------------------------------- */

/* A new block that writes a new temp; both named after the sum. */
static kiln_block begin(kiln_program *p, const site *s, const char *suffix, kiln_dtype dtype,
                        const kiln_shape *shape, kiln_buffer *out_to) {
    kiln_str sum = p->block.data[s->block].name;
    kiln_str name = kiln_str_printf(p->arena, "%.*s.%s", KILN_STR_ARG(sum), suffix);
    *out_to = kiln_buffer_create(p, name, dtype, KILN_ROLE_TEMP, shape);
    return kiln_block_create(p, name);
}

static kiln_expr add_iter(kiln_program *p, kiln_block block, uint32_t d, int64_t extent,
                          bool reduce) {
    return kiln_block_add_iter(p, block, kiln_arena_printf(p->arena, "%s%u", reduce ? "r" : "d", d),
                               extent, reduce);
}

/* The weights' sums, in the shape of the weights with 1 for what is summed up. */
static kiln_buffer sum_weights(kiln_program *p, const site *s) {
    kiln_shape shape = loaded(p, s->weights)->shape, sums = shape;
    for (uint32_t d = 0; d < shape.rank; d++)
        if (s->dim_of[d] < 0) sums.dim[d] = 1;
    kiln_buffer to;
    kiln_block block = begin(p, s, "shift", KILN_I32, &sums, &to);
    kiln_expr index[KILN_RANK_MAX] = {0}, at[KILN_RANK_MAX] = {0};
    for (uint32_t reduce = 0; reduce < 2; reduce++)
        for (uint32_t d = 0; d < shape.rank; d++)
            if ((s->dim_of[d] < 0) == (reduce != 0))
                at[d] = add_iter(p, block, d, shape.dim[d], reduce != 0);
    for (uint32_t d = 0; d < shape.rank; d++)
        index[d] = s->dim_of[d] < 0 ? kiln_expr_index(p, 0) : at[d];
    kiln_buffer weights = kiln_expr_get(p, s->weights)->payload.id;
    kiln_expr w = kiln_expr_cast(p, KILN_I32, kiln_expr_load(p, weights, at, shape.rank));
    kiln_block_set(p, block, to, index, shape.rank, KILN_COMBINE_SUM, w, 0);
    return to;
}

/* Those times `by`. */
static kiln_buffer weigh(kiln_program *p, const site *s, kiln_buffer sums, int64_t by) {
    const kiln_shape shape = p->buffer.data[sums].shape;
    kiln_buffer to;
    kiln_block block = begin(p, s, "offset", KILN_I32, &shape, &to);
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape.rank; d++) index[d] = add_iter(p, block, d, shape.dim[d], false);
    kiln_expr sum = kiln_expr_load(p, sums, index, shape.rank);
    kiln_block_set(p, block, to, index, shape.rank, KILN_COMBINE_NONE,
                   kiln_expr_binary(p, KILN_EXPR_MUL, sum, kiln_expr_int(p, KILN_I32, by)), 0);
    return to;
}

static int64_t padded_extent(const kiln_program *p, const site *s) {
    const int64_t extent = p->block.data[s->block].iter[s->padded].extent;
    return (extent + STEPS - 1) / STEPS * STEPS;
}

/* Weights with zeros for the steps that are added. */
static kiln_buffer pad_weights(kiln_program *p, const site *s) {
    const int64_t extent = loaded(p, s->weights)->shape.dim[s->weights_dim];
    kiln_shape shape = loaded(p, s->weights)->shape;
    shape.dim[s->weights_dim] = padded_extent(p, s);
    kiln_buffer to, from = kiln_expr_get(p, s->weights)->payload.id;
    kiln_block block = begin(p, s, "padded", KILN_I8, &shape, &to);
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape.rank; d++) index[d] = add_iter(p, block, d, shape.dim[d], false);
    kiln_expr w = kiln_expr_load(p, from, index, shape.rank);
    kiln_block_set(p, block, to, index, shape.rank, KILN_COMBINE_NONE,
                   kiln_steps_or_zero(p, w, index[s->weights_dim], extent), 0);
    return to;
}

/* The data with the wanted sign, x - by, and room for the steps that are added. */
static kiln_buffer make_data(kiln_program *p, const site *s, const form *f) {
    kiln_shape shape = loaded(p, s->data)->shape;
    const int64_t extent = shape.dim[s->data_dim];
    if (s->padded >= 0)
        shape.dim[s->data_dim] +=
            s->stretch * (padded_extent(p, s) - p->block.data[s->block].iter[s->padded].extent);
    kiln_buffer to, from = kiln_expr_get(p, s->data)->payload.id;
    kiln_block block = begin(p, s, "data", f->to, &shape, &to);
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape.rank; d++) index[d] = add_iter(p, block, d, shape.dim[d], false);
    kiln_expr x = kiln_expr_load(p, from, index, shape.rank);
    if (f->by) {
        x = kiln_expr_cast(p, KILN_I32, x);
        x = kiln_expr_binary(p, KILN_EXPR_SUB, x, kiln_expr_int(p, KILN_I32, f->by));
        x = kiln_expr_cast(p, f->to, x);
    }
    if (s->padded >= 0) x = kiln_steps_or_zero(p, x, index[s->data_dim], extent);
    kiln_block_set(p, block, to, index, shape.rank, KILN_COMBINE_NONE, x, 0);
    return to;
}

/* What the sum was: its own result plus the offset. */
static void finish(kiln_program *p, const site *s, kiln_buffer offset) {
    const kiln_buffer result = p->block.data[s->block].buffer;
    const kiln_shape shape = p->buffer.data[result].shape;
    kiln_buffer sums;
    kiln_block block = begin(p, s, "sums", KILN_I32, &shape, &sums);
    kiln_expr index[KILN_RANK_MAX] = {0}, at[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape.rank; d++) index[d] = add_iter(p, block, d, shape.dim[d], false);
    const uint32_t rank = loaded(p, s->weights)->shape.rank;
    for (uint32_t d = 0; d < rank; d++)
        at[d] = s->dim_of[d] < 0 ? kiln_expr_index(p, 0) : index[s->dim_of[d]];
    kiln_expr sum = kiln_expr_load(p, sums, index, shape.rank);
    kiln_expr more = kiln_expr_load(p, offset, at, rank);
    kiln_block_set(p, block, result, index, shape.rank, KILN_COMBINE_NONE,
                   kiln_expr_binary(p, KILN_EXPR_ADD, sum, more), 0);
    p->block.data[s->block].buffer = sums;
}

/* The same element of another buffer, as an i32. */
static kiln_expr read_instead(kiln_program *p, kiln_expr load, kiln_buffer buffer) {
    kiln_expr index[KILN_RANK_MAX];
    const uint32_t rank = kiln_expr_get(p, load)->operand_count;
    for (uint32_t d = 0; d < rank; d++) index[d] = kiln_expr_operand(p, load, d);
    return kiln_expr_cast(p, KILN_I32, kiln_expr_load(p, buffer, index, rank));
}

/* The sum reads what was made for it. */
static void read_made(kiln_program *p, const site *s, kiln_buffer data, kiln_buffer weights) {
    if (s->padded >= 0) {
        kiln_iter *iter = &p->block.data[s->block].iter[s->padded];
        iter->extent = padded_extent(p, s);
        kiln_var_set_range(p, iter->var, 0, iter->extent - 1);
    }
    kiln_expr x = read_instead(p, s->data, data), w = read_instead(p, s->weights, weights);
    kiln_expr value = kiln_expr_binary(p, KILN_EXPR_MUL, x, w);
    p->block.data[s->block].value = value;
}

/* Blocks stand in execution order: of the new ones, which are the last, `after` (0 or 1) come
 * behind the sum and the others before it. */
static void put_in_order(kiln_program *p, kiln_block sum, uint32_t count, uint32_t after) {
    kiln_block_info added[BLOCKS_ADDED_MAX], *block = p->block.data, of_sum = block[sum];
    const uint32_t first = p->block.count - count, before = count - after;
    memcpy(added, &block[first], count * sizeof *block);
    memmove(&block[sum + count + 1], &block[sum + 1], (first - sum - 1) * sizeof *block);
    memcpy(&block[sum], added, before * sizeof *block);
    block[sum + before] = of_sum;
    if (after) block[sum + count] = added[before];
}

static kiln_program *apply(const form *f, const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = kiln_program_copy(te, arena);
    site s = {0};
    kiln_block block = 1;
    while (block < p->block.count && !match(p, block, f->from, &s)) block++;
    if (block == p->block.count || !find_padded(p, &s, f) || (!f->by && s.padded < 0)) return NULL;
    const uint32_t blocks = p->block.count;
    kiln_buffer weights = kiln_expr_get(p, s.weights)->payload.id;
    kiln_buffer offset = f->by ? weigh(p, &s, sum_weights(p, &s), f->by) : 0;
    if (s.padded >= 0) weights = pad_weights(p, &s);
    kiln_buffer data = make_data(p, &s, f);
    if (offset) finish(p, &s, offset);
    read_made(p, &s, data, weights);
    put_in_order(p, block, p->block.count - blocks, offset != 0);
    return p;
}

/* Of data of either sign, which it keeps. */
static kiln_program *pad(bool taps, const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = apply(&(form){KILN_U8, KILN_U8, 0, taps}, te, arena);
    return p ? p : apply(&(form){KILN_I8, KILN_I8, 0, taps}, te, arena);
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
