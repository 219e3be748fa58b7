/* Sums of products of integers that have few bits, by the bits themselves.
 *
 *     x = low + sum 2^i x_i,  w = sum c_j w_j        x_i, w_j: 0 or 1, in words of 32 channels
 *     sum x * w = low * sum w + sum 2^i c_j popcount(x_i and w_j)
 *
 * where c_j is 2^j, and of the highest plane of signed weights -2^j. Weights that are odd numbers
 * around 0 have planes of -1 and 1; with w_j = 1 for the latter,
 *
 *     sum x_i * (2 w_j - 1) = popcount(w_j) - popcount(x_i xor w_j)
 *
 * so that nothing but a constant of the weights is added. Exact, as integers wrap. Channels that
 * fill up the last word have bits of 0. Weights are packed when they are loaded, the data once in
 * front of the sum.
 *
 * Source: Cowan, Moreau, Chen, Bornholt, Ceze, Automatic Generation of High-Performance Quantized
 * Machine Learning Kernels (CGO 2020); Umuroglu and Jahre, Streamlined Deployment for Quantized
 * Neural Networks (2017). */
#include <string.h>

#include "base/macros.h"
#include "compiler-core/algorithm/algorithm.h"

#define WORD 32         /* bits; a lane of the sums has as many */
#define PLANES_MAX 4    /* products of planes: more take longer than products of bytes */
#define CHANNELS_MIN 16 /* half a word */
#define BLOCKS_ADDED_MAX 5

/* How bits of weights become planes. */
typedef enum planes_kind {
    UNSIGNED, /* from 0 on */
    SIGNED,   /* two's complement */
    ODD,      /* odd numbers around 0 */
} planes_kind;

typedef struct site {
    kiln_block block;
    kiln_expr data, weights;        /* loads */
    int dim_of[KILN_RANK_MAX];      /* of the sum, with the index of that dimension of the weights;
                                       -1: it is summed up */
    uint32_t channel;               /* reduce iterator */
    uint32_t data_dim, weights_dim; /* that it alone indexes */
    int64_t low;                    /* of the data */
    uint32_t data_planes, weight_planes;
    planes_kind kind;
    int64_t weight_low;
} site;

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

/* Which integers `e` may be: of loads from arguments that have a range, through copies that pad
 * them. */
static bool find_range(const kiln_program *p, kiln_expr e, int64_t *low, int64_t *high) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    int64_t other_low, other_high;
    if (kiln_expr_as_int(p, e, low)) {
        *high = *low;
        return true;
    }
    if (node->op == KILN_EXPR_SELECT) {
        if (!find_range(p, kiln_expr_operand(p, e, 1), low, high) ||
            !find_range(p, kiln_expr_operand(p, e, 2), &other_low, &other_high))
            return false;
        *low = KILN_MIN(*low, other_low);
        *high = KILN_MAX(*high, other_high);
        return true;
    }
    if (node->op != KILN_EXPR_LOAD) return false;
    const kiln_buffer_info *b = loaded(p, e);
    *low = b->range.low;
    *high = b->range.high;
    if (b->range.step) return true;
    const kiln_block made = kiln_program_producer(p, node->payload.id);
    return made && p->block.data[made].combiner == KILN_COMBINE_NONE &&
           find_range(p, p->block.data[made].value, low, high);
}

/* Bits that tell so many integers apart. */
static uint32_t bits_of(int64_t count) {
    uint32_t bits = 1;
    while ((int64_t)1 << bits < count) bits++;
    return bits;
}

static bool find_planes(const kiln_program *p, site *s) {
    const kiln_range *w = &loaded(p, s->weights)->range;
    int64_t low = 0, high = 0;
    if (!w->step || !find_range(p, s->data, &low, &high) || high - low > UINT8_MAX) return false;
    const int64_t count = (w->high - w->low) / w->step + 1;
    s->low = low;
    s->data_planes = bits_of(high - low + 1);
    s->weight_planes = bits_of(count);
    s->weight_low = w->low;
    const int64_t all = (int64_t)1 << s->weight_planes;
    if (w->step == 2 && w->low == 1 - all && count == all)
        s->kind = ODD;
    else if (w->step == 1 && w->low == 0)
        s->kind = UNSIGNED;
    else if (w->step == 1 && w->low == -all / 2 && count == all)
        s->kind = SIGNED;
    else
        return false;
    return s->data_planes * s->weight_planes <= PLANES_MAX;
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

/* Each reduce iterator has to be an index of the weights, so that each product has a weight of its
 * own. */
static bool find_dims(const kiln_program *p, site *s) {
    const kiln_block_info *b = &p->block.data[s->block];
    for (uint32_t d = 0; d < loaded(p, s->weights)->shape.rank; d++) {
        s->dim_of[d] = -1;
        for (uint32_t k = 0; k < b->index_count; k++)
            if (b->index[k] == kiln_expr_operand(p, s->weights, d)) s->dim_of[d] = (int)k;
        if (s->dim_of[d] < 0 && !is_summed(p, s, d)) return false;
    }
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce && b->iter[i].extent > 1 &&
            !kiln_expr_uses_var(p, s->weights, b->iter[i].var))
            return false;
    return true;
}

/* The dimension of a load that an iterator indexes, and it alone; -1: none. */
static int dim_along(const kiln_program *p, kiln_expr load, kiln_var var) {
    int found = -1;
    for (uint32_t d = 0; d < kiln_expr_get(p, load)->operand_count; d++) {
        const kiln_expr index = kiln_expr_operand(p, load, d);
        const kiln_expr_node *node = kiln_expr_get(p, index);
        if (node->op == KILN_EXPR_VAR && node->payload.id == var && found < 0)
            found = (int)d;
        else if (kiln_expr_uses_var(p, index, var))
            return -1;
    }
    return found;
}

/* The longest reduce iterator along one dimension of both factors: words are made along it. */
static bool find_channel(const kiln_program *p, site *s) {
    const kiln_block_info *b = &p->block.data[s->block];
    int64_t longest = CHANNELS_MIN - 1;
    for (uint32_t i = 0; i < b->iter_count; i++) {
        const int of_data = dim_along(p, s->data, b->iter[i].var),
                  of_weights = dim_along(p, s->weights, b->iter[i].var);
        if (!b->iter[i].reduce || b->iter[i].extent <= longest || of_data < 0 || of_weights < 0 ||
            loaded(p, s->data)->shape.dim[of_data] != b->iter[i].extent ||
            loaded(p, s->weights)->shape.dim[of_weights] != b->iter[i].extent)
            continue;
        longest = b->iter[i].extent;
        s->channel = i;
        s->data_dim = (uint32_t)of_data;
        s->weights_dim = (uint32_t)of_weights;
    }
    return longest >= CHANNELS_MIN;
}

static bool match(const kiln_program *p, kiln_block block, site *out) {
    const kiln_block_info *b = &p->block.data[block];
    const kiln_expr_node *value = kiln_expr_get(p, b->value);
    if (b->combiner != KILN_COMBINE_SUM || b->removed || value->op != KILN_EXPR_MUL ||
        value->dtype != KILN_I32 || b->iter_count + 2 > KILN_BLOCK_ITERS_MAX)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        *out = (site){.block = block,
                      .data = load_below(p, kiln_expr_operand(p, b->value, i)),
                      .weights = load_below(p, kiln_expr_operand(p, b->value, 1 - i))};
        if (out->data && out->weights && loaded(p, out->weights)->role == KILN_ROLE_CONSTANT &&
            loaded(p, out->data)->role != KILN_ROLE_CONSTANT &&
            loaded(p, out->data)->shape.rank < KILN_RANK_MAX &&
            loaded(p, out->weights)->shape.rank < KILN_RANK_MAX && find_planes(p, out) &&
            find_channel(p, out) && find_dims(p, out))
            return true;
    }
    return false;
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

static kiln_expr operate(kiln_program *p, kiln_expr_op op, kiln_expr a, kiln_expr b) {
    return kiln_expr_binary(p, op, a, b);
}

static int64_t words_of(int64_t channels) { return (channels + WORD - 1) / WORD; }

/* The bits of a byte whose lowest one in use is bit `first` after `base` was taken off, in words
 * along dimension `dim`, planes innermost. */
static kiln_buffer pack(kiln_program *p, const site *s, kiln_buffer from, const char *suffix,
                        uint32_t dim, uint32_t planes, int64_t base, uint32_t first) {
    kiln_shape shape = p->buffer.data[from].shape;
    const int64_t channels = shape.dim[dim];
    const uint32_t rank = shape.rank;
    shape.dim[dim] = words_of(channels);
    shape.dim[shape.rank++] = planes;
    kiln_buffer to;
    kiln_block block = begin(p, s, suffix, KILN_U32, &shape, &to);
    kiln_expr index[KILN_RANK_MAX] = {0}, at[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape.rank; d++)
        at[d] = index[d] = add_iter(p, block, d, shape.dim[d], false);
    kiln_expr bit = add_iter(p, block, 0, WORD, true);
    kiln_expr word = operate(p, KILN_EXPR_MUL, index[dim], kiln_expr_index(p, WORD));
    at[dim] = operate(p, KILN_EXPR_ADD, word, bit);
    kiln_expr x = kiln_expr_cast(p, KILN_U8, kiln_expr_load(p, from, at, rank));
    x = operate(p, KILN_EXPR_SUB, x, kiln_expr_int(p, KILN_U8, base & UINT8_MAX));
    if (channels % WORD)
        x = kiln_expr_select(p, operate(p, KILN_EXPR_LT, at[dim], kiln_expr_index(p, channels)), x,
                             kiln_expr_int(p, KILN_U8, 0));
    kiln_expr plane = operate(p, KILN_EXPR_ADD, index[rank], kiln_expr_index(p, first));
    kiln_expr wanted =
        operate(p, KILN_EXPR_SHL, kiln_expr_int(p, KILN_U8, 1), kiln_expr_cast(p, KILN_U8, plane));
    kiln_expr is_set = operate(p, KILN_EXPR_NE, operate(p, KILN_EXPR_AND, x, wanted),
                               kiln_expr_int(p, KILN_U8, 0));
    kiln_expr value =
        operate(p, KILN_EXPR_SHL, kiln_expr_int(p, KILN_U32, 1), kiln_expr_cast(p, KILN_U32, bit));
    value = kiln_expr_select(p, is_set, value, kiln_expr_int(p, KILN_U32, 0));
    kiln_block_set(p, block, to, index, shape.rank, KILN_COMBINE_SUM, value, 0);
    return to;
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

/* What is added to the counts, from the weights' sums W over N weights. Planes of odd numbers add
 * up to sum 2^j popcount(w_j) = (W + (2^planes - 1) N) / 2, once for each plane of the data. */
static kiln_buffer make_offset(kiln_program *p, const site *s, kiln_buffer sums) {
    const kiln_shape shape = p->buffer.data[sums].shape;
    const int64_t count =
        kiln_shape_count(&loaded(p, s->weights)->shape) / kiln_shape_count(&shape);
    kiln_buffer to;
    kiln_block block = begin(p, s, "offset", KILN_I32, &shape, &to);
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape.rank; d++) index[d] = add_iter(p, block, d, shape.dim[d], false);
    kiln_expr sum = kiln_expr_load(p, sums, index, shape.rank);
    kiln_expr value = operate(p, KILN_EXPR_MUL, sum, kiln_expr_int(p, KILN_I32, s->low));
    if (s->kind == ODD) {
        kiln_expr ones =
            operate(p, KILN_EXPR_SUB, sum, kiln_expr_int(p, KILN_I32, s->weight_low * count));
        ones = operate(p, KILN_EXPR_SHR, ones, kiln_expr_int(p, KILN_I32, 1));
        ones = operate(p, KILN_EXPR_MUL, ones,
                       kiln_expr_int(p, KILN_I32, ((int64_t)1 << s->data_planes) - 1));
        value = operate(p, KILN_EXPR_ADD, ones, value);
    }
    kiln_block_set(p, block, to, index, shape.rank, KILN_COMBINE_NONE, value, 0);
    return to;
}

/* What the sum was: the counts plus the offset. */
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
                   operate(p, KILN_EXPR_ADD, sum, more), 0);
    p->block.data[s->block].buffer = sums;
}

/* A reduce iterator over the planes of a factor; 0 where there is one alone. */
static kiln_expr add_planes(kiln_program *p, const site *s, const char *name, uint32_t planes) {
    return planes > 1 ? kiln_block_add_iter(p, s->block, name, planes, true)
                      : kiln_expr_index(p, 0);
}

/* The word of a factor instead of its byte. */
static kiln_expr load_word(kiln_program *p, kiln_expr load, kiln_buffer words, kiln_expr plane) {
    kiln_expr index[KILN_RANK_MAX];
    const uint32_t rank = kiln_expr_get(p, load)->operand_count;
    for (uint32_t d = 0; d < rank; d++) index[d] = kiln_expr_operand(p, load, d);
    index[rank] = plane;
    return kiln_expr_load(p, words, index, rank + 1);
}

/* The sum counts ones. */
static void count_ones(kiln_program *p, const site *s, kiln_buffer data, kiln_buffer weights) {
    kiln_expr of_data = add_planes(p, s, "px", s->data_planes),
              of_weights = add_planes(p, s, "pw", s->weight_planes);
    kiln_iter *channel = &p->block.data[s->block].iter[s->channel];
    channel->extent = words_of(channel->extent);
    kiln_var_set_range(p, channel->var, 0, channel->extent - 1);
    kiln_expr word = operate(p, s->kind == ODD ? KILN_EXPR_XOR : KILN_EXPR_AND,
                             load_word(p, s->data, data, of_data),
                             load_word(p, s->weights, weights, of_weights));
    kiln_expr count = kiln_expr_cast(p, KILN_I32, kiln_expr_unary(p, KILN_EXPR_POPCOUNT, word));
    kiln_expr plane = kiln_expr_cast(p, KILN_I32, operate(p, KILN_EXPR_ADD, of_data, of_weights));
    kiln_expr one = kiln_expr_int(p, KILN_I32, s->kind == ODD ? -1 : 1);
    kiln_expr weight = operate(p, KILN_EXPR_SHL, one, plane);
    if (s->kind == SIGNED) {
        kiln_expr highest =
            operate(p, KILN_EXPR_EQ, of_weights, kiln_expr_index(p, (int64_t)s->weight_planes - 1));
        weight = kiln_expr_select(p, highest, kiln_expr_unary(p, KILN_EXPR_NEG, weight), weight);
    }
    p->block.data[s->block].value = operate(p, KILN_EXPR_MUL, count, weight);
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

kiln_program *kiln_bit_planes(const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = kiln_program_copy(te, arena);
    site s = {0};
    kiln_block block = 1;
    while (block < p->block.count && !match(p, block, &s)) block++;
    if (block == p->block.count) return NULL;
    const uint32_t blocks = p->block.count;
    const kiln_buffer from[] = {kiln_expr_get(p, s.data)->payload.id,
                                kiln_expr_get(p, s.weights)->payload.id};
    const bool shifts = s.kind == ODD || s.low != 0, odd = s.kind == ODD;
    const kiln_buffer offset = shifts ? make_offset(p, &s, sum_weights(p, &s)) : 0,
                      weights = pack(p, &s, from[1], "weights", s.weights_dim, s.weight_planes,
                                     odd ? s.weight_low : 0, odd),
                      data = pack(p, &s, from[0], "bits", s.data_dim, s.data_planes, s.low, 0);
    if (shifts) finish(p, &s, offset);
    count_ones(p, &s, data, weights);
    put_in_order(p, block, p->block.count - blocks, shifts);
    return p;
}
