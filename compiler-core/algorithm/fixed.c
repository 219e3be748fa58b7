/* Sums of products whose weights are stored as 16-bit multiples of a step, one for each output
 * channel, and widened in registers: half the bytes where reading weights is what takes the time
 * (fully connected layers, recurrent ones), with four more bits than f16 has for a channel's
 * largest weights.
 *
 *     largest[n] = max over k of |w[k, n]|
 *     q[k, n] = round(32767 * w[k, n] / largest[n])     both once, when weights are loaded
 *     t[m, n] = sum over k of x[m, k] * q[k, n]
 *     y[m, n] = t[m, n] * largest[n] / 32767
 *
 * A weight has an error of half a step, 2^-16 of its channel's largest, for any magnitude, so
 * sum|a*b| bounds the error only where many products are summed up: the mean of |w| is a half of
 * the largest if weights are uniform, about a fifth if they are normal, and the error of t stays
 * within 2^-13 of sum|a*b|. With a few much larger weights in a channel the error is larger; the
 * check of whole networks on their own weights rejects the row then. Transformed weights
 * (winograd.c) become multiples in the same way. */
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/algorithm/combine.h"
#include "compiler-core/algorithm/narrow.h"
#include "compiler-core/algorithm/sums.h"

#define STEPS 32767.0
/* Fewer products than this say nothing about the mean of their magnitudes. */
#define PRODUCTS_MIN 64

/* A sum of products, and the indices of its weights. */
typedef struct site {
    kiln_block block;
    uint32_t weight; /* which factor is the weights */
    kiln_expr load;  /* of them */
    uint32_t rank;
    uint32_t iter_of[KILN_RANK_MAX]; /* [rank] the iterator that each index is */
} site;

static const kiln_iter *iter_at(const kiln_program *p, const site *s, uint32_t d) {
    return &p->block.data[s->block].iter[s->iter_of[d]];
}

/* Whether each index of the weights is a separate iterator over the whole dimension. */
static bool reads_in_order(const kiln_program *p, site *s) {
    const kiln_block_info *b = &p->block.data[s->block];
    const kiln_expr_node *load = kiln_expr_get(p, s->load);
    uint32_t seen = 0;
    s->rank = load->operand_count;
    for (uint32_t d = 0; d < s->rank; d++) {
        const kiln_expr_node *index = kiln_expr_get(p, kiln_expr_operand(p, s->load, d));
        uint32_t i = 0;
        if (index->op != KILN_EXPR_VAR) return false;
        while (i < b->iter_count && b->iter[i].var != index->payload.id) i++;
        if (i == b->iter_count || seen >> i & 1 ||
            b->iter[i].extent != p->buffer.data[load->payload.id].shape.dim[d])
            return false;
        seen |= 1u << i;
        s->iter_of[d] = i;
    }
    return true;
}

/* Whether factor `weight` of the block's products, of single precision, can be stored as
 * multiples. */
static bool match(const kiln_program *p, kiln_block block, uint32_t weight, site *out) {
    const kiln_block_info *b = &p->block.data[block];
    int64_t products = 1;
    *out = (site){.block = block, .weight = weight, .load = kiln_expr_operand(p, b->value, weight)};
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce) products *= b->iter[i].extent;
    return products >= PRODUCTS_MIN && kiln_expr_get(p, b->value)->dtype == KILN_F32 &&
           reads_in_order(p, out);
}

/* A block over the weights, and its result. */
typedef struct part {
    kiln_block id;
    kiln_buffer buffer;
    kiln_expr load; /* the weight at its iterators */
    uint32_t rank;
    kiln_expr index[KILN_RANK_MAX]; /* [rank] of the buffer */
} part;

/* `reduces`: over all dimensions that are no channels. */
static part begin(kiln_program *p, const site *s, const char *suffix, kiln_dtype dtype,
                  bool reduces) {
    kiln_str name =
        kiln_str_printf(p->arena, "%.*s.%s", KILN_STR_ARG(p->block.data[s->block].name), suffix);
    part made = {.id = kiln_block_create(p, name)};
    kiln_shape shape = {0};
    kiln_expr at[KILN_RANK_MAX];
    for (uint32_t reduce = 0; reduce < 2; reduce++) /* spatial iterators first */
        for (uint32_t d = 0; d < s->rank; d++) {
            const kiln_iter from = *iter_at(p, s, d);
            const bool reduced = reduces && from.reduce;
            if (reduced != (reduce != 0)) continue;
            at[d] = kiln_block_add_iter(
                p, made.id, kiln_str_dup(p->arena, kiln_iter_name(p, &from)), from.extent, reduced);
            if (reduced) continue;
            made.index[made.rank++] = at[d];
            shape.dim[shape.rank++] = from.extent;
        }
    made.load = kiln_expr_load(p, kiln_expr_get(p, s->load)->payload.id, at, s->rank);
    made.buffer = kiln_buffer_create(p, name, dtype, KILN_ROLE_TEMP, &shape);
    return made;
}

/* The largest magnitude of each channel; never 0. */
static part make_largest(kiln_program *p, const site *s) {
    part made = begin(p, s, "largest", KILN_F32, true);
    kiln_block_set(p, made.id, made.buffer, made.index, made.rank, KILN_COMBINE_MAX,
                   kiln_expr_unary(p, KILN_EXPR_ABS, made.load),
                   kiln_expr_float(p, KILN_F32, 0x1p-100));
    return made;
}

/* The largest magnitude of the channel of the weights' indices, [s->rank]. */
static kiln_expr largest_at(kiln_program *p, const site *s, const part *largest,
                            const kiln_expr *at) {
    kiln_expr index[KILN_RANK_MAX];
    uint32_t rank = 0;
    for (uint32_t d = 0; d < s->rank; d++)
        if (!iter_at(p, s, d)->reduce) index[rank++] = at[d];
    return kiln_expr_load(p, largest->buffer, index, rank);
}

static part make_multiples(kiln_program *p, const site *s, const part *largest) {
    part made = begin(p, s, "weights", KILN_I16, false);
    kiln_expr value =
        kiln_expr_binary(p, KILN_EXPR_DIV, made.load, largest_at(p, s, largest, made.index));
    value = kiln_expr_binary(p, KILN_EXPR_MUL, value, kiln_expr_float(p, KILN_F32, STEPS));
    value = kiln_expr_cast(p, KILN_I16, kiln_expr_unary(p, KILN_EXPR_ROUND, value));
    kiln_block_set(p, made.id, made.buffer, made.index, made.rank, KILN_COMBINE_NONE, value, 0);
    return made;
}

/* The same block over multiples, into a temp. */
static part make_products(kiln_program *p, const site *s, const part *multiples) {
    const kiln_block_info b = p->block.data[s->block];
    kiln_str name = kiln_str_printf(p->arena, "%.*s.products", KILN_STR_ARG(b.name));
    part made = {.id = kiln_block_create(p, name)};
    kiln_shape shape = {0};
    kiln_expr *to = KILN_ARENA_ARRAY(p->arena, kiln_expr, p->var.count + b.iter_count);
    kiln_expr factor[2], at[KILN_RANK_MAX];
    for (uint32_t i = 0; i < b.iter_count; i++) {
        const kiln_iter from = p->block.data[s->block].iter[i];
        to[from.var] = kiln_block_add_iter(
            p, made.id, kiln_str_dup(p->arena, kiln_iter_name(p, &from)), from.extent, from.reduce);
        if (from.reduce) continue;
        made.index[made.rank++] = to[from.var];
        shape.dim[shape.rank++] = from.extent;
    }
    for (uint32_t d = 0; d < s->rank; d++) at[d] = to[iter_at(p, s, d)->var];
    factor[s->weight] =
        kiln_expr_cast(p, KILN_F32, kiln_expr_load(p, multiples->buffer, at, s->rank));
    factor[1 - s->weight] =
        kiln_expr_substitute(p, kiln_expr_operand(p, b.value, 1 - s->weight), to);
    made.buffer = kiln_buffer_create(p, name, KILN_F32, KILN_ROLE_TEMP, &shape);
    kiln_block_set(p, made.id, made.buffer, made.index, made.rank, KILN_COMBINE_SUM,
                   kiln_expr_binary(p, KILN_EXPR_MUL, factor[0], factor[1]), 0);
    return made;
}

/* Makes the block compute its results from the products. */
static void take_results(kiln_program *p, const site *s, const part *largest,
                         const part *products) {
    const kiln_block_info *b = &p->block.data[s->block];
    kiln_expr index[KILN_BLOCK_ITERS_MAX], at[KILN_RANK_MAX];
    uint32_t rank = 0;
    for (uint32_t d = 0; d < s->rank; d++) at[d] = kiln_expr_operand(p, s->load, d);
    const kiln_expr most = largest_at(p, s, largest, at);
    const kiln_expr step =
        kiln_expr_binary(p, KILN_EXPR_MUL, most, kiln_expr_float(p, KILN_F32, 1 / STEPS));
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (!b->iter[i].reduce) index[rank++] = kiln_expr_var(p, b->iter[i].var);
    const kiln_expr product = kiln_expr_load(p, products->buffer, index, products->rank);
    kiln_block_replace_sum(p, s->block, kiln_expr_binary(p, KILN_EXPR_MUL, product, step));
}

uint32_t kiln_fix_weights(kiln_program *p, kiln_block block, uint32_t weight) {
    const uint32_t first = p->block.count;
    site s;
    if (!match(p, block, weight, &s)) return 0;
    const part largest = make_largest(p, &s), multiples = make_multiples(p, &s, &largest),
               products = make_products(p, &s, &multiples);
    take_results(p, &s, &largest, &products);
    kiln_blocks_put_around(p, block, p->block.count - first, 0);
    return p->block.count - first;
}

kiln_program *kiln_fixed_weights(const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = kiln_program_copy(te, arena);
    const uint32_t known = p->block.count;
    for (kiln_block block = 1; block < p->block.count; block++) {
        uint32_t weight = 0;
        if (kiln_narrow_finds(p, block, &weight) &&
            kiln_narrow_reads(p, block, kiln_expr_operand(p, p->block.data[block].value, weight)) <=
                KILN_NARROW_READS_MAX)
            block += kiln_fix_weights(p, block, weight);
    }
    return p->block.count > known ? p : NULL;
}
