/* Sums of products of integers of few bits, computed bit by bit.
 *
 *     x = low + sum 2^i x_i,  w = sum c_j w_j        x_i, w_j: 0 or 1, in words of 32 channels
 *     sum x * w = low * sum w + sum 2^i c_j popcount(x_i and w_j)
 *
 * where c_j is 2^j, and of the highest plane of signed weights -2^j. Weights that are odd numbers
 * around 0 have planes of -1 and 1; with w_j = 1 for the latter,
 *
 *     sum x_i * (2 w_j - 1) = popcount(w_j) - popcount(x_i xor w_j)
 *
 * so that only a constant of the weights is added. Exact, as integers wrap. Channels that pad the
 * last word have bits of 0. Weights are packed when they are loaded, the data once before the sum.
 *
 * Source: Cowan, Moreau, Chen, Bornholt, Ceze, Automatic Generation of High-Performance Quantized
 * Machine Learning Kernels (CGO 2020); Umuroglu and Jahre, Streamlined Deployment for Quantized
 * Neural Networks (2017). */
#include "base/macros.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/algorithm/steps.h"
#include "compiler-core/algorithm/sums.h"

#define WORD 32         /* bits; a lane of the sums has as many */
#define PLANES_MAX 4    /* products of planes: more take longer than products of bytes */
#define CHANNELS_MIN 16 /* half a word */

/* How bits of weights become planes. */
typedef enum planes_kind {
    UNSIGNED, /* from 0 on */
    SIGNED,   /* two's complement */
    ODD,      /* odd numbers around 0 */
} planes_kind;

typedef struct site {
    kiln_sum sum;
    uint32_t channel;               /* reduce iterator */
    uint32_t data_dim, weights_dim; /* that it alone indexes */
    int64_t low;                    /* of the data */
    uint32_t data_planes, weight_planes;
    planes_kind kind;
    int64_t weight_low;
} site;

/* ---- finding a sum --------------------------------------------------------------------------- */

/* The range of integers of `e`, a load from an argument with a range, possibly through copies that
 * pad it. */
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
    const kiln_buffer_info *b = kiln_loaded(p, e);
    *low = b->range.low;
    *high = b->range.high;
    if (b->range.step) return true;
    const kiln_block made = kiln_program_producer(p, node->payload.id);
    return made && p->block.data[made].combiner == KILN_COMBINE_NONE &&
           find_range(p, p->block.data[made].value, low, high);
}

/* Bits needed for `count` different integers. */
static uint32_t bits_of(int64_t count) {
    uint32_t bits = 1;
    while ((int64_t)1 << bits < count) bits++;
    return bits;
}

static bool find_planes(const kiln_program *p, site *s) {
    const kiln_range *w = &kiln_loaded(p, s->sum.weights)->range;
    int64_t low = 0, high = 0;
    if (!w->step || !find_range(p, s->sum.data, &low, &high) || high - low > UINT8_MAX)
        return false;
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

/* The longest reduce iterator along one dimension of both factors: words are made along it. */
static bool find_channel(const kiln_program *p, site *s) {
    const kiln_block_info *b = &p->block.data[s->sum.block];
    int64_t longest = CHANNELS_MIN - 1;
    for (uint32_t i = 0; i < b->iter_count; i++) {
        const int of_data = kiln_steps_dim_along(p, s->sum.data, b->iter[i].var),
                  of_weights = kiln_steps_dim_along(p, s->sum.weights, b->iter[i].var);
        if (!b->iter[i].reduce || b->iter[i].extent <= longest || of_data < 0 || of_weights < 0 ||
            kiln_loaded(p, s->sum.data)->shape.dim[of_data] != b->iter[i].extent ||
            kiln_loaded(p, s->sum.weights)->shape.dim[of_weights] != b->iter[i].extent)
            continue;
        longest = b->iter[i].extent;
        s->channel = i;
        s->data_dim = (uint32_t)of_data;
        s->weights_dim = (uint32_t)of_weights;
    }
    return longest >= CHANNELS_MIN;
}

static bool has_room(const kiln_program *p, kiln_expr load) {
    return kiln_loaded(p, load)->shape.rank < KILN_RANK_MAX;
}

static bool match(const kiln_program *p, kiln_block block, site *out) {
    if (p->block.data[block].iter_count + 2 > KILN_BLOCK_ITERS_MAX) return false;
    for (uint32_t data = 0; data < 2; data++) {
        *out = (site){0};
        if (kiln_sum_find(p, block, data, &out->sum) && has_room(p, out->sum.data) &&
            has_room(p, out->sum.weights) && find_planes(p, out) && find_channel(p, out))
            return true;
    }
    return false;
}

/* ---- building -------------------------------------------------------------------------------- */

static kiln_expr operate(kiln_program *p, kiln_expr_op op, kiln_expr a, kiln_expr b) {
    return kiln_expr_binary(p, op, a, b);
}

static int64_t words_of(int64_t channels) { return (channels + WORD - 1) / WORD; }

/* Packs the bits of bytes, from bit `first` on after subtracting `base`, into words along dimension
 * `dim`, planes innermost. */
static kiln_buffer pack(kiln_program *p, const site *s, kiln_buffer from, const char *suffix,
                        uint32_t dim, uint32_t planes, int64_t base, uint32_t first) {
    kiln_shape shape = p->buffer.data[from].shape;
    const int64_t channels = shape.dim[dim];
    const uint32_t rank = shape.rank;
    shape.dim[dim] = words_of(channels);
    shape.dim[shape.rank++] = planes;
    kiln_buffer to;
    kiln_block block = kiln_sum_begin(p, &s->sum, suffix, KILN_U32, &shape, &to);
    kiln_expr index[KILN_RANK_MAX] = {0}, at[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape.rank; d++)
        at[d] = index[d] = kiln_sum_add_iter(p, block, d, shape.dim[d], false);
    kiln_expr bit = kiln_sum_add_iter(p, block, 0, WORD, true);
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

/* The offset added to the counts, from the weights' sums W over N weights. Planes of odd numbers
 * add up to sum 2^j popcount(w_j) = (W + (2^planes - 1) N) / 2, once for each plane of the data. */
static kiln_buffer make_offset(kiln_program *p, const site *s, kiln_buffer sums) {
    const kiln_shape shape = p->buffer.data[sums].shape;
    const int64_t count =
        kiln_shape_count(&kiln_loaded(p, s->sum.weights)->shape) / kiln_shape_count(&shape);
    kiln_buffer to;
    kiln_block block = kiln_sum_begin(p, &s->sum, "offset", KILN_I32, &shape, &to);
    kiln_expr index[KILN_RANK_MAX] = {0};
    for (uint32_t d = 0; d < shape.rank; d++)
        index[d] = kiln_sum_add_iter(p, block, d, shape.dim[d], false);
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

/* A reduce iterator over the planes of a factor; 0 if there is only one. */
static kiln_expr add_planes(kiln_program *p, const site *s, const char *name, uint32_t planes) {
    return planes > 1 ? kiln_block_add_iter(p, s->sum.block, name, planes, true)
                      : kiln_expr_index(p, 0);
}

/* Loads the word of a factor instead of its byte. */
static kiln_expr load_word(kiln_program *p, kiln_expr load, kiln_buffer words, kiln_expr plane) {
    kiln_expr index[KILN_RANK_MAX];
    const uint32_t rank = kiln_expr_get(p, load)->operand_count;
    for (uint32_t d = 0; d < rank; d++) index[d] = kiln_expr_operand(p, load, d);
    index[rank] = plane;
    return kiln_expr_load(p, words, index, rank + 1);
}

/* Makes the sum count ones. */
static void count_ones(kiln_program *p, const site *s, kiln_buffer data, kiln_buffer weights) {
    kiln_expr of_data = add_planes(p, s, "px", s->data_planes),
              of_weights = add_planes(p, s, "pw", s->weight_planes);
    kiln_iter *channel = &p->block.data[s->sum.block].iter[s->channel];
    channel->extent = words_of(channel->extent);
    kiln_var_set_range(p, channel->var, 0, channel->extent - 1);
    kiln_expr word = operate(p, s->kind == ODD ? KILN_EXPR_XOR : KILN_EXPR_AND,
                             load_word(p, s->sum.data, data, of_data),
                             load_word(p, s->sum.weights, weights, of_weights));
    kiln_expr count = kiln_expr_cast(p, KILN_I32, kiln_expr_unary(p, KILN_EXPR_POPCOUNT, word));
    kiln_expr plane = kiln_expr_cast(p, KILN_I32, operate(p, KILN_EXPR_ADD, of_data, of_weights));
    kiln_expr one = kiln_expr_int(p, KILN_I32, s->kind == ODD ? -1 : 1);
    kiln_expr weight = operate(p, KILN_EXPR_SHL, one, plane);
    if (s->kind == SIGNED) {
        kiln_expr highest =
            operate(p, KILN_EXPR_EQ, of_weights, kiln_expr_index(p, (int64_t)s->weight_planes - 1));
        weight = kiln_expr_select(p, highest, kiln_expr_unary(p, KILN_EXPR_NEG, weight), weight);
    }
    p->block.data[s->sum.block].value = operate(p, KILN_EXPR_MUL, count, weight);
}

kiln_program *kiln_bit_planes(const kiln_program *te, kiln_arena *arena) {
    kiln_program *p = kiln_program_copy(te, arena);
    site s = {0};
    kiln_block block = 1;
    while (block < p->block.count && !match(p, block, &s)) block++;
    if (block == p->block.count) return NULL;
    const uint32_t blocks = p->block.count;
    const kiln_buffer from[] = {kiln_expr_get(p, s.sum.data)->payload.id,
                                kiln_expr_get(p, s.sum.weights)->payload.id};
    const bool shifts = s.kind == ODD || s.low != 0, odd = s.kind == ODD;
    const kiln_buffer offset = shifts ? make_offset(p, &s, kiln_sum_weights(p, &s.sum)) : 0,
                      weights = pack(p, &s, from[1], "weights", s.weights_dim, s.weight_planes,
                                     odd ? s.weight_low : 0, odd),
                      data = pack(p, &s, from[0], "bits", s.data_dim, s.data_planes, s.low, 0);
    if (shifts) kiln_sum_add_offset(p, &s.sum, offset);
    count_ones(p, &s, data, weights);
    kiln_blocks_put_around(p, block, p->block.count - blocks, shifts);
    return p;
}
