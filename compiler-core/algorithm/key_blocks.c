/* Softmax between two products, in one pass over blocks of its reduced dimension: attention in
 * blocks of keys. Each block has its own maximum, exponentials, sum and values, independent of the
 * others; the results of the blocks are combined at the end:
 *
 *     m[b] = max over the block of s            at least the lowest finite number
 *     e    = exp(s - m[b])
 *     l[b] = sum over the block of e
 *     o[b] = sum over the block of e / max(l[b], 1) * v
 *     y    = sum of c[b] o[b] / sum of c[b]     c[b] = l[b] exp(m[b] - max of all m)
 *
 * So only the scores of one block are needed at once; the direct form keeps those of all keys
 * between its maximum and its sum. A sum with a finite maximum is at least 1, so max(l, 1) changes
 * none; a block whose scores are all minus infinity, because of a mask, gives 0 instead of 0 / 0
 * and does not affect the result. If all blocks are so, the result is 0 / 0 as in the direct form.
 *
 * Error: a weight is a product of two exponentials and a sum in place of one exponential: 3
 * roundings more than the N or so of its bound. The arguments have the same sign, so their total
 * error is that of the direct form.
 *
 * Source: Milakov and Gimelshein, Online normalizer calculation for softmax (2018); Rabe and
 * Staats, Self-attention does not need O(n^2) memory (2021). */
#include <float.h>

#include "base/macros.h"
#include "compiler-core/algorithm/algorithm.h"
#include "compiler-core/algorithm/combine.h"
#include "compiler-core/algorithm/sums.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/ir/affine.h"

#define BLOCKS_MAX 32 /* each block is a term of the combination */
#define SCORES_MAX 8  /* most blocks between the product and the softmax */

/* A block to be computed in blocks of keys. `key` is the position of the iterator over keys. */
typedef struct part {
    kiln_block block;
    int key; /* -1: has none */
} part;

typedef struct site {
    kiln_program *p;
    kiln_block values, share, scale, sum, exponential, max; /* scale 0: a division instead */
    kiln_buffer sums, maxima;
    kiln_expr row[KILN_RANK_MAX]; /* index of both at the iterators of `values` */
    uint32_t row_rank;
    kiln_expr share_load, exponential_load; /* at the iterators of `values` */
    int key;                                /* of `values` */
    int64_t keys, size;                     /* of a block */
    part part[SCORES_MAX + 6];
    uint32_t part_count;
    int *key_dim;           /* [buffers] the dimension of keys; -1: none */
    kiln_buffer *in_blocks; /* [buffers] the replacements of buffers that parts write; 0: others */
} site;

/* ---- finding one ---- */

static bool is_load(const kiln_program *p, kiln_expr e) {
    return kiln_expr_get(p, e)->op == KILN_EXPR_LOAD;
}

static kiln_block producer_of(const kiln_program *p, kiln_expr load) {
    const kiln_block b = kiln_program_producer(p, kiln_load_buffer(p, load));
    return b && p->buffer.data[p->block.data[b].buffer].role == KILN_ROLE_TEMP ? b : 0;
}

/* The load of `b`'s value with the indices of `at`, a load of its result; reduce iterators become
 * `reduced`. 0: the result is not indexed by plain iterators. */
static kiln_expr carried(const site *s, kiln_block b, kiln_expr load, kiln_expr at,
                         kiln_expr reduced) {
    kiln_program *p = s->p;
    const kiln_block_info *info = &p->block.data[b];
    kiln_expr *to = KILN_ARENA_ARRAY(p->arena, kiln_expr, p->var.count);
    for (uint32_t i = 0; i < info->iter_count; i++)
        to[info->iter[i].var] = info->iter[i].reduce        ? reduced
                                : info->iter[i].extent == 1 ? kiln_expr_index(p, 0)
                                                            : 0;
    for (uint32_t d = 0; d < info->index_count; d++) {
        const kiln_expr_node *index = kiln_expr_get(p, info->index[d]);
        if (index->op == KILN_EXPR_VAR)
            to[index->payload.id] = kiln_expr_operand(p, at, d);
        else if (p->buffer.data[info->buffer].shape.dim[d] != 1)
            return 0;
    }
    return kiln_expr_simplify(p, kiln_expr_substitute(p, load, to), NULL);
}

/* The only reduce iterator; -1: there are none or several. */
static int only_reduction(const kiln_program *p, kiln_block b) {
    const kiln_block_info *info = &p->block.data[b];
    int found = -1;
    for (uint32_t i = 0; i < info->iter_count; i++) {
        if (!info->iter[i].reduce) continue;
        if (found >= 0) return -1;
        found = (int)i;
    }
    return found;
}

static uint32_t readers_of(kiln_program *p, kiln_block b) {
    return kiln_buffer_readers(p, p->block.data[b].buffer,
                               KILN_ARENA_ARRAY(p->arena, kiln_block, p->block.count));
}

static bool is_pointwise(const kiln_program *p, kiln_block b, kiln_expr_op op) {
    return b && !kiln_block_is_reduction(p, b) &&
           kiln_expr_get(p, p->block.data[b].value)->op == op;
}

static bool is_one(const kiln_program *p, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    return node->op == KILN_EXPR_FLOAT && node->payload.f == 1;
}

/* Whether `divisor` loads, at the iterators of `values`, the sum of the exponentials of its row. */
static bool match_sum(site *s, kiln_expr divisor) {
    kiln_program *p = s->p;
    s->sum = producer_of(p, divisor);
    if (!s->sum || p->block.data[s->sum].combiner != KILN_COMBINE_SUM ||
        !is_load(p, p->block.data[s->sum].value) || only_reduction(p, s->sum) < 0)
        return false;
    s->sums = p->block.data[s->sum].buffer;
    s->row_rank = kiln_load_index(p, divisor, s->row);
    const kiln_expr key = kiln_expr_var(p, p->block.data[s->values].iter[s->key].var);
    return carried(s, s->sum, p->block.data[s->sum].value, divisor, key) == s->exponential_load;
}

/* exp(score - maximum of the row's scores). */
static bool match_exponential(site *s) {
    kiln_program *p = s->p;
    s->exponential = producer_of(p, s->exponential_load);
    if (!is_pointwise(p, s->exponential, KILN_EXPR_EXP)) return false;
    const kiln_expr difference = kiln_expr_operand(p, p->block.data[s->exponential].value, 0);
    if (kiln_expr_get(p, difference)->op != KILN_EXPR_SUB) return false;
    const kiln_expr score = kiln_expr_operand(p, difference, 0),
                    max = kiln_expr_operand(p, difference, 1);
    if (!is_load(p, score) || !is_load(p, max)) return false;
    s->max = producer_of(p, max);
    if (!s->max || p->block.data[s->max].combiner != KILN_COMBINE_MAX ||
        !is_load(p, p->block.data[s->max].value) || only_reduction(p, s->max) < 0)
        return false;
    s->maxima = p->block.data[s->max].buffer;
    const kiln_expr at = s->exponential_load,
                    key = kiln_expr_var(p, p->block.data[s->values].iter[s->key].var),
                    own = carried(s, s->exponential, score, at, 0),
                    most = carried(s, s->exponential, max, at, 0);
    return own && most && carried(s, s->max, p->block.data[s->max].value, most, key) == own;
}

/* Whether the maximum and the sum are over the same rows. */
static bool has_same_rows(site *s) {
    kiln_program *p = s->p;
    kiln_expr index[KILN_RANK_MAX];
    const kiln_expr difference = kiln_expr_operand(p, p->block.data[s->exponential].value, 0),
                    max = carried(s, s->exponential, kiln_expr_operand(p, difference, 1),
                                  s->exponential_load, 0);
    if (kiln_load_index(p, max, index) != s->row_rank) return false;
    for (uint32_t d = 0; d < s->row_rank; d++)
        if (index[d] != s->row[d] ||
            p->buffer.data[s->sums].shape.dim[d] != p->buffer.data[s->maxima].shape.dim[d])
            return false;
    return readers_of(p, s->max) == 1 && readers_of(p, s->sum) == 1 &&
           readers_of(p, s->exponential) == 2 && readers_of(p, s->share) == 1;
}

/* Adds the block; the iterator that indexes dimension `dim` of its result is the key. `dim` -1: the
 * key is its reduce iterator, if it has one. */
static bool add_part(site *s, kiln_block block, int dim) {
    kiln_program *p = s->p;
    const kiln_block_info *b = &p->block.data[block];
    part *made = &s->part[s->part_count];
    *made = (part){block, dim < 0 && b->combiner ? only_reduction(p, block) : -1};
    for (uint32_t i = 0; dim >= 0 && i < b->iter_count; i++)
        if (b->index[dim] == kiln_expr_var(p, b->iter[i].var)) made->key = (int)i;
    if ((dim >= 0 && made->key < 0) || (made->key >= 0 && b->iter[made->key].extent != s->keys) ||
        s->part_count + 1 == KILN_ARRAY_COUNT(s->part) || b->index_count + 1 > KILN_RANK_MAX ||
        b->iter_count + 1 > KILN_BLOCK_ITERS_MAX)
        return false;
    s->key_dim[b->buffer] = dim;
    s->part_count++;
    return true;
}

/* The dimension of the load that the key alone indexes; -1: there is none. */
static int dim_of_key(const site *s, kiln_expr load, const part *reader) {
    const kiln_program *p = s->p;
    const kiln_expr key = kiln_expr_var(s->p, p->block.data[reader->block].iter[reader->key].var);
    const uint32_t rank = p->buffer.data[kiln_load_buffer(p, load)].shape.rank;
    for (uint32_t d = 0; d < rank; d++)
        if (kiln_expr_operand(p, load, d) == key) return (int)d;
    return -1;
}

/* Adds the blocks from the softmax's operand up to the product, whose block is the last one. */
static bool add_scores(site *s, kiln_block reader) {
    kiln_program *p = s->p;
    const part at = s->part[s->part_count - 1];
    const kiln_loads loads = kiln_block_loads(p, reader);
    if (kiln_block_is_reduction(p, reader) && reader != s->max)
        return p->block.data[reader].combiner == KILN_COMBINE_SUM;
    for (uint32_t i = 0; i < loads.count; i++) {
        const uint32_t count = s->part_count;
        const kiln_block from = producer_of(p, loads.load[i]);
        const int dim = dim_of_key(s, loads.load[i], &at);
        if (!from || dim < 0 || readers_of(p, from) != (reader == s->max ? 2u : 1u)) continue;
        if (add_part(s, from, dim) && add_scores(s, from)) return true;
        s->part_count = count;
    }
    return false;
}

static bool add_parts(site *s) {
    kiln_program *p = s->p;
    const part values = {s->values, s->key};
    const int share_dim = dim_of_key(s, s->share_load, &values);
    s->key_dim = KILN_ARENA_ARRAY(p->arena, int, p->buffer.count);
    if (share_dim < 0 || !add_part(s, s->values, -1) || !add_part(s, s->share, share_dim))
        return false;
    const kiln_expr e = p->block.data[s->sum].value;
    if ((s->scale && !add_part(s, s->scale, -1)) || !add_part(s, s->sum, -1)) return false;
    const int dim = dim_of_key(s, e, &s->part[s->part_count - 1]);
    return dim >= 0 && add_part(s, s->exponential, dim) && add_part(s, s->max, -1) &&
           add_scores(s, s->max);
}

/* Whether `side` of the product that `values` sums up is the softmax. */
static bool match(site *s, kiln_block values, uint32_t side) {
    kiln_program *p = s->p;
    const kiln_block_info *b = &p->block.data[values];
    s->values = values;
    s->part_count = 0;
    if (b->removed || b->combiner != KILN_COMBINE_SUM ||
        kiln_expr_get(p, b->value)->op != KILN_EXPR_MUL || (s->key = only_reduction(p, values)) < 0)
        return false;
    s->share_load = kiln_expr_operand(p, b->value, side);
    s->keys = b->iter[s->key].extent;
    if (!is_load(p, s->share_load) || !is_load(p, kiln_expr_operand(p, b->value, 1 - side)))
        return false;
    s->share = producer_of(p, s->share_load);
    const bool divides = is_pointwise(p, s->share, KILN_EXPR_DIV);
    if (!divides && !is_pointwise(p, s->share, KILN_EXPR_MUL)) return false;
    for (uint32_t other = 0; other < 2; other++) {
        const kiln_expr value = p->block.data[s->share].value,
                        e = kiln_expr_operand(p, value, other),
                        by = kiln_expr_operand(p, value, 1 - other);
        if (!is_load(p, e) || !is_load(p, by) || (divides && other)) continue;
        s->exponential_load = carried(s, s->share, e, s->share_load, 0);
        kiln_expr divisor = carried(s, s->share, by, s->share_load, 0);
        if (!s->exponential_load || !divisor) continue;
        s->scale = divides ? 0 : producer_of(p, divisor);
        if (!divides) {
            if (!is_pointwise(p, s->scale, KILN_EXPR_DIV) || readers_of(p, s->scale) != 1) continue;
            const kiln_expr quotient = p->block.data[s->scale].value,
                            sum = kiln_expr_operand(p, quotient, 1);
            if (!is_one(p, kiln_expr_operand(p, quotient, 0)) || !is_load(p, sum)) continue;
            divisor = carried(s, s->scale, sum, divisor, 0);
        }
        if (divisor && match_exponential(s) && match_sum(s, divisor) && has_same_rows(s) &&
            add_parts(s))
            return true;
    }
    return false;
}

/* ---- in blocks ---- */

/* Rewriting of the expressions of one block. */
typedef struct rebuilding {
    const site *s;
    kiln_expr outer, inner, joined; /* block, key in it, and the key that both make */
} rebuilding;

/* Buffers in blocks are read in the own block, sums as at least 1. */
static kiln_expr read_in_block(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const rebuilding *r = context;
    (void)e;
    if (!is_load(p, rebuilt)) return rebuilt;
    const kiln_buffer from = kiln_load_buffer(p, rebuilt);
    if (!r->s->in_blocks[from]) return rebuilt;
    kiln_expr index[KILN_RANK_MAX];
    const uint32_t rank = kiln_load_index(p, rebuilt, index + 1);
    index[0] = r->outer;
    for (uint32_t d = 1; d <= rank; d++)
        if (index[d] == r->joined) index[d] = r->inner;
    const kiln_expr load = kiln_expr_load(p, r->s->in_blocks[from], index, rank + 1);
    const kiln_dtype dtype = p->buffer.data[from].dtype;
    return from == r->s->sums
               ? kiln_expr_binary(p, KILN_EXPR_MAX, load, kiln_expr_float(p, dtype, 1))
               : load;
}

static kiln_expr lowest(kiln_program *p, kiln_dtype dtype) {
    return kiln_expr_float(p, dtype, dtype == KILN_F64 ? -DBL_MAX : -(double)FLT_MAX);
}

/* A new block that computes the part for one block of keys at a time; its result has a first
 * dimension for blocks. */
static void compute_in_blocks(site *s, const part *at) {
    kiln_program *p = s->p;
    const kiln_block_info old = p->block.data[at->block];
    const kiln_block made =
        kiln_block_create(p, kiln_str_printf(p->arena, "%.*s.blocks", KILN_STR_ARG(old.name)));
    rebuilding r = {.s = s, .outer = kiln_block_add_iter(p, made, "b", s->keys / s->size, false)};
    kiln_expr *value_of = KILN_ARENA_ARRAY(p->arena, kiln_expr, p->var.count + old.iter_count),
              *index_of = KILN_ARENA_ARRAY(p->arena, kiln_expr, p->var.count + old.iter_count);
    for (uint32_t reduce = 0; reduce < 2; reduce++) /* spatial iterators first */
        for (uint32_t i = 0; i < old.iter_count; i++) {
            const bool key = (int)i == at->key;
            if (old.iter[i].reduce != (reduce != 0)) continue;
            const kiln_expr it = kiln_block_add_iter(
                p, made, kiln_str_dup(p->arena, kiln_iter_name(p, &old.iter[i])),
                key ? s->size : old.iter[i].extent, old.iter[i].reduce);
            index_of[old.iter[i].var] = value_of[old.iter[i].var] = it;
            if (!key) continue;
            r.inner = it;
            r.joined = value_of[old.iter[i].var] = kiln_expr_binary(
                p, KILN_EXPR_ADD,
                kiln_expr_binary(p, KILN_EXPR_MUL, r.outer, kiln_expr_index(p, s->size)), it);
        }
    kiln_expr index[KILN_RANK_MAX] = {r.outer};
    for (uint32_t d = 0; d < old.index_count; d++)
        index[d + 1] = kiln_expr_substitute(p, old.index[d], index_of);
    kiln_expr value = kiln_expr_substitute(p, old.value, value_of);
    value = kiln_expr_rewrite(p, value, KILN_USES_LOAD, read_in_block, &r);
    const kiln_buffer to = s->in_blocks[old.buffer];
    const kiln_dtype dtype = p->buffer.data[to].dtype;
    const kiln_expr init = at->block == s->max ? lowest(p, dtype)
                           : old.init          ? kiln_expr_substitute(p, old.init, value_of)
                                               : 0;
    kiln_block_set(p, made, to, index, old.index_count + 1, old.combiner, value, init);
}

static kiln_shape shape_in_blocks(const site *s, const kiln_shape *old, int key_dim) {
    kiln_shape shape = {.rank = old->rank + 1, .dim = {s->keys / s->size}};
    for (uint32_t d = 0; d < old->rank; d++)
        shape.dim[d + 1] = (int)d == key_dim ? s->size : old->dim[d];
    return shape;
}

/* ---- combination ---- */

/* A block named after the sum, of one element for each row, in the rows' shape, or of one for each
 * row and block. */
typedef struct rows {
    kiln_block id;
    kiln_buffer buffer;
    kiln_expr block;                   /* a reduce iterator, unless `keeps` */
    kiln_expr row[KILN_RANK_MAX];      /* iterators */
    kiln_expr in_block[KILN_RANK_MAX]; /* `block`, then these */
} rows;

static rows begin_rows(site *s, const kiln_shape *shape, const char *suffix, bool has_blocks,
                       bool keeps) {
    kiln_program *p = s->p;
    const int64_t blocks = s->keys / s->size;
    const kiln_str name =
        kiln_str_printf(p->arena, "%.*s.%s", KILN_STR_ARG(p->block.data[s->values].name), suffix);
    rows made = {.id = kiln_block_create(p, name)};
    if (keeps) made.block = kiln_block_add_iter(p, made.id, "b", blocks, false);
    for (uint32_t d = 0; d < s->row_rank; d++)
        made.row[d] = kiln_block_add_iter(p, made.id, kiln_arena_printf(p->arena, "r%u", d),
                                          shape->dim[d], false);
    if (has_blocks && !keeps) made.block = kiln_block_add_iter(p, made.id, "b", blocks, true);
    made.in_block[0] = made.block;
    for (uint32_t d = 0; d < s->row_rank; d++) made.in_block[d + 1] = made.row[d];
    const kiln_shape in_blocks = shape_in_blocks(s, shape, -1);
    made.buffer = kiln_buffer_create(p, name, p->buffer.data[s->sums].dtype, KILN_ROLE_TEMP,
                                     keeps ? &in_blocks : shape);
    return made;
}

static void end_rows(site *s, const rows *r, kiln_combiner combiner, kiln_expr value, bool keeps) {
    kiln_program *p = s->p;
    kiln_block_set(p, r->id, r->buffer, keeps ? r->in_block : r->row, s->row_rank + keeps, combiner,
                   value,
                   combiner == KILN_COMBINE_MAX ? lowest(p, p->buffer.data[r->buffer].dtype) : 0);
}

/* Adds maxima, weights of the blocks, and the inverse of their sums. */
static void add_weights(site *s, const kiln_shape *shape, kiln_buffer *out_weights,
                        kiln_buffer *out_scale) {
    kiln_program *p = s->p;
    const uint32_t rank = s->row_rank;
    const rows most = begin_rows(s, shape, "max", true, false);
    end_rows(s, &most, KILN_COMBINE_MAX,
             kiln_expr_load(p, s->in_blocks[s->maxima], most.in_block, rank + 1), false);
    const rows weight = begin_rows(s, shape, "weight", true, true);
    const kiln_expr below = kiln_expr_binary(
        p, KILN_EXPR_SUB, kiln_expr_load(p, s->in_blocks[s->maxima], weight.in_block, rank + 1),
        kiln_expr_load(p, most.buffer, weight.row, rank));
    end_rows(s, &weight, KILN_COMBINE_NONE,
             kiln_expr_binary(p, KILN_EXPR_MUL,
                              kiln_expr_load(p, s->in_blocks[s->sums], weight.in_block, rank + 1),
                              kiln_expr_unary(p, KILN_EXPR_EXP, below)),
             true);
    const rows sum = begin_rows(s, shape, "sum", true, false);
    end_rows(s, &sum, KILN_COMBINE_SUM, kiln_expr_load(p, weight.buffer, sum.in_block, rank + 1),
             false);
    const rows scale = begin_rows(s, shape, "scale", false, false);
    end_rows(s, &scale, KILN_COMBINE_NONE,
             kiln_expr_binary(p, KILN_EXPR_DIV,
                              kiln_expr_float(p, p->buffer.data[s->sums].dtype, 1),
                              kiln_expr_load(p, sum.buffer, scale.row, rank)),
             false);
    *out_weights = weight.buffer;
    *out_scale = scale.buffer;
}

/* Makes the original `values` compute its results from the blocks'. */
static kiln_expr combination(const site *s, const kiln_block_info *values, kiln_buffer weights,
                             kiln_buffer scale) {
    kiln_program *p = s->p;
    kiln_expr sum = 0, row[KILN_RANK_MAX], index[KILN_RANK_MAX];
    for (uint32_t d = 0; d < s->row_rank; d++) row[d + 1] = s->row[d];
    for (uint32_t d = 0; d < values->index_count; d++) index[d + 1] = values->index[d];
    for (int64_t b = 0; b < s->keys / s->size; b++) {
        row[0] = index[0] = kiln_expr_index(p, b);
        const kiln_expr term = kiln_expr_binary(
            p, KILN_EXPR_MUL, kiln_expr_load(p, weights, row, s->row_rank + 1),
            kiln_expr_load(p, s->in_blocks[values->buffer], index, values->index_count + 1));
        sum = sum ? kiln_expr_binary(p, KILN_EXPR_ADD, sum, term) : term;
    }
    return kiln_expr_binary(p, KILN_EXPR_MUL, sum, kiln_expr_load(p, scale, s->row, s->row_rank));
}

static void rewrite(site *s) {
    kiln_program *p = s->p;
    const kiln_block_info values = p->block.data[s->values];
    const kiln_shape shape = p->buffer.data[s->sums].shape;
    s->in_blocks = KILN_ARENA_ARRAY(p->arena, kiln_buffer, p->buffer.count);
    for (uint32_t i = 0; i < s->part_count; i++) {
        const kiln_buffer old = p->block.data[s->part[i].block].buffer;
        const kiln_buffer_info info = p->buffer.data[old];
        const kiln_shape in_blocks = shape_in_blocks(s, &info.shape, s->key_dim[old]);
        s->in_blocks[old] =
            kiln_buffer_create(p, kiln_str_printf(p->arena, "%.*s.blocks", KILN_STR_ARG(info.name)),
                               info.dtype, KILN_ROLE_TEMP, &in_blocks);
    }
    for (uint32_t i = 1; i < s->part_count; i++) { /* in its place */
        compute_in_blocks(s, &s->part[i]);
        p->block.data[s->part[i].block] = p->block.data[--p->block.count];
    }
    const uint32_t first = p->block.count;
    compute_in_blocks(s, &s->part[0]); /* before its reader */
    kiln_buffer weights, scale;
    add_weights(s, &shape, &weights, &scale);
    kiln_block_replace_sum(p, s->values, combination(s, &values, weights, scale));
    kiln_blocks_put_around(p, s->values, p->block.count - first, 0);
}

/* The largest number of keys up to `most`, and above half of it, that divides them; whole vectors
 * before others. 0: none does. */
static int64_t size_of_blocks(int64_t keys, int64_t most) {
    static const int64_t step[] = {64, 16, 4, 1};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(step); i++)
        for (int64_t size = most / step[i] * step[i]; 2 * size > most; size -= step[i])
            if (keys % size == 0) return size;
    return 0;
}

static kiln_program *in_blocks_of(const kiln_program *te, int64_t most, kiln_arena *arena) {
    site s = {.p = kiln_program_copy(te, arena)};
    for (kiln_block block = 1; block < s.p->block.count; block++)
        for (uint32_t side = 0; side < 2; side++) {
            if (!match(&s, block, side)) continue;
            const kiln_dtype dtype = s.p->buffer.data[s.sums].dtype;
            s.size = size_of_blocks(s.keys, most);
            if (!s.size || s.keys < 2 * s.size || s.keys > BLOCKS_MAX * s.size ||
                (dtype != KILN_F32 && dtype != KILN_F64))
                return NULL;
            rewrite(&s);
            return s.p;
        }
    return NULL;
}

kiln_program *kiln_key_blocks_128(const kiln_program *te, kiln_arena *arena) {
    return in_blocks_of(te, 128, arena);
}

kiln_program *kiln_key_blocks_256(const kiln_program *te, kiln_arena *arena) {
    return in_blocks_of(te, 256, arena);
}

kiln_program *kiln_key_blocks_512(const kiln_program *te, kiln_arena *arena) {
    return in_blocks_of(te, 512, arena);
}
