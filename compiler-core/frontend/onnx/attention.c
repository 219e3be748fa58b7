/* Attention and rotary embeddings, from products, softmax and arithmetic.
 *
 * Internally heads come before positions: [batch][heads][positions][size]. If several query heads
 * share a key head, their positions form one longer sequence of it, which moves no data. */
#include <math.h>
#include <string.h>

#include "compiler-core/frontend/onnx/compose.h"
#include "compiler-core/graph/op.h"

/* ---- shared ---------------------------------------------------------------------------------- */

static kiln_value swap_heads(kiln_composer *c, kiln_value x) {
    static const int64_t perm[] = {0, 2, 1, 3};
    return kiln_compose_ints(c, KILN_OP_TRANSPOSE, x, "perm", perm, 4);
}

/* [batch][positions][heads * size] to [batch][positions][heads][size]. */
static kiln_value split_heads(kiln_composer *c, kiln_value x, int64_t heads) {
    if (c->st) return 0;
    const kiln_shape *shape = kiln_compose_shape(c, x);
    if (heads < 1 || shape->dim[2] % heads != 0) {
        kiln_compose_fail(c,
                          KILN_ERROR(INVALID_ARGUMENT, "the number of heads does not divide %lld",
                                     (long long)shape->dim[2]));
        return 0;
    }
    kiln_shape parts = {4, {shape->dim[0], shape->dim[1], heads, shape->dim[2] / heads}};
    return kiln_compose_reshape(c, x, &parts);
}

static kiln_value join_heads(kiln_composer *c, kiln_value x) {
    if (c->st) return 0;
    const kiln_shape *shape = kiln_compose_shape(c, x);
    kiln_shape joined = {3, {shape->dim[0], shape->dim[1], shape->dim[2] * shape->dim[3]}};
    return kiln_compose_reshape(c, x, &joined);
}

static kiln_value with_scalar(kiln_composer *c, kiln_op op, kiln_value x, double scalar) {
    if (c->st) return 0;
    return kiln_compose_binary(c, op, x, kiln_compose_scalar(c, kiln_compose_dtype(c, x), scalar));
}

/* ---- Attention ------------------------------------------------------------------------------- */

enum { SCORES_RAW, SCORES_CAPPED, SCORES_MASKED, SCORES_SOFTMAX };

typedef struct attention {
    kiln_composer *c;
    kiln_value q, k, v, mask, past_k, past_v, lengths;
    bool flat; /* heads and sizes of the operands are one dimension */
    int64_t batch, q_heads, k_heads, q_count, k_count, past;
} attention;

static kiln_status read_operands(kiln_importer *im, attention *a) {
    kiln_composer *c = a->c;
    kiln_value *operand[] = {&a->q, &a->k, &a->v, &a->mask, &a->past_k, &a->past_v, &a->lengths};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(operand); i++) *operand[i] = kiln_import_input(im, i);
    if (!a->q || !a->k || !a->v) return KILN_ERROR(INVALID_ARGUMENT, "Q, K and V must be given");
    uint32_t rank = kiln_compose_shape(c, a->q)->rank;
    for (uint32_t i = 0; i < 3; i++)
        if ((rank != 3 && rank != 4) || kiln_compose_shape(c, *operand[i])->rank != rank)
            return KILN_ERROR(INVALID_ARGUMENT, "Q, K and V must all have 3 or 4 dimensions");
    if (!a->past_k != !a->past_v)
        return KILN_ERROR(INVALID_ARGUMENT, "past_key and past_value belong together");
    a->flat = rank == 3;
    int64_t heads[] = {kiln_import_int(im, "q_num_heads", 0),
                       kiln_import_int(im, "kv_num_heads", 0)};
    for (uint32_t i = 0; i < 3 && a->flat; i++)
        *operand[i] = swap_heads(c, split_heads(c, *operand[i], heads[i > 0]));
    return c->st;
}

/* Puts earlier positions in front. */
static kiln_value with_past(kiln_composer *c, kiln_value past, kiln_value now) {
    return past ? kiln_compose_concat(c, (kiln_value[]){past, now}, 2, 2) : now;
}

static kiln_status measure(attention *a) {
    const kiln_shape *q = kiln_compose_shape(a->c, a->q), *k = kiln_compose_shape(a->c, a->k);
    a->batch = q->dim[0];
    a->q_heads = q->dim[1];
    a->q_count = q->dim[2];
    a->k_heads = k->dim[1];
    a->k_count = k->dim[2];
    a->past = a->past_k ? kiln_compose_shape(a->c, a->past_k)->dim[2] : 0;
    return a->k_heads > 0 && a->q_heads % a->k_heads == 0
               ? KILN_OK
               : KILN_ERROR(INVALID_ARGUMENT, "%lld query heads cannot share %lld key heads",
                            (long long)a->q_heads, (long long)a->k_heads);
}

/* Per key head, all positions of the query heads that share it; and back. */
static kiln_value by_key_head(const attention *a, kiln_value x) {
    if (a->c->st || a->q_heads == a->k_heads) return x;
    const kiln_shape *s = kiln_compose_shape(a->c, x);
    kiln_shape shape = {4,
                        {s->dim[0], a->k_heads, s->dim[2] * (a->q_heads / a->k_heads), s->dim[3]}};
    return kiln_compose_reshape(a->c, x, &shape);
}

static kiln_value by_query_head(const attention *a, kiln_value x) {
    if (a->c->st || a->q_heads == a->k_heads) return x;
    const kiln_shape *s = kiln_compose_shape(a->c, x);
    kiln_shape shape = {4, {s->dim[0], a->q_heads, a->q_count, s->dim[3]}};
    return kiln_compose_reshape(a->c, x, &shape);
}

/* A bias of scores: 0 where `allowed`, minus infinity elsewhere. */
static kiln_value bias_where(const attention *a, kiln_value allowed) {
    kiln_dtype dtype = kiln_compose_dtype(a->c, a->q);
    return kiln_compose_where(a->c, allowed, kiln_compose_scalar(a->c, dtype, 0),
                              kiln_compose_scalar(a->c, dtype, (double)-INFINITY));
}

/* The mask as a bias; keys beyond its end are masked. */
static kiln_value mask_bias(const attention *a) {
    kiln_composer *c = a->c;
    kiln_value mask = a->mask;
    if (c->st) return 0;
    if (kiln_compose_dtype(c, mask) == KILN_BOOL) mask = bias_where(a, mask);
    if (c->st) return 0;
    const kiln_shape *shape = kiln_compose_shape(c, mask);
    int64_t missing = shape->rank ? a->k_count - shape->dim[shape->rank - 1] : 0;
    if (missing <= 0 || shape->dim[shape->rank - 1] == 1) return mask;
    int64_t pads[2 * KILN_RANK_MAX] = {0};
    pads[2 * shape->rank - 1] = missing;
    kiln_attr attr = kiln_attr_ints("pads", pads, 2 * shape->rank);
    kiln_value operand[] = {mask,
                            kiln_compose_scalar(c, kiln_compose_dtype(c, mask), (double)-INFINITY)};
    kiln_value padded = 0;
    kiln_compose_node(c, KILN_OP_PAD, operand, 2, &attr, 1, &padded, 1);
    return padded;
}

/* A query sees keys up to its own position. */
static kiln_value causal_bias(const attention *a) {
    kiln_dtype dtype = kiln_compose_dtype(a->c, a->q);
    kiln_shape shape = {2, {a->q_count, a->k_count}};
    kiln_tensor bias = kiln_tensor_create(a->c->im->graph->arena, dtype, &shape);
    for (int64_t i = 0; i < a->q_count; i++)
        for (int64_t j = 0; j < a->k_count; j++)
            kiln_dtype_store_f64(dtype, bias.data, (size_t)(i * a->k_count + j),
                                 i + a->past < j ? (double)-INFINITY : 0);
    return kiln_compose_constant(a->c, &bias);
}

/* Keys beyond a sequence's length are masked. */
static kiln_value length_bias(const attention *a) {
    kiln_composer *c = a->c;
    kiln_tensor number = kiln_tensor_create(c->im->graph->arena, kiln_compose_dtype(c, a->lengths),
                                            &(kiln_shape){1, {a->k_count}});
    for (int64_t j = 0; j < a->k_count; j++)
        kiln_dtype_store_i64(number.dtype, number.data, (size_t)j, j);
    kiln_value length = kiln_compose_reshape(c, a->lengths, &(kiln_shape){4, {a->batch, 1, 1, 1}});
    return bias_where(
        a, kiln_compose_binary(c, KILN_OP_LESS, kiln_compose_constant(c, &number), length));
}

static kiln_value masked(kiln_importer *im, const attention *a, kiln_value scores) {
    kiln_composer *c = a->c;
    bool causal = kiln_import_int(im, "is_causal", 0) != 0;
    if (!c->st && causal) {
        size_t size_bytes = (size_t)(a->q_count * a->k_count) * sizeof(float);
        kiln_compose_fail(c, kiln_import_take_memory(im, size_bytes));
        if (!c->st) scores = kiln_compose_binary(c, KILN_OP_ADD, scores, causal_bias(a));
    }
    if (a->mask) scores = kiln_compose_binary(c, KILN_OP_ADD, scores, mask_bias(a));
    if (a->lengths && !c->st) scores = kiln_compose_binary(c, KILN_OP_ADD, scores, length_bias(a));
    return scores;
}

static kiln_value scores_of(kiln_importer *im, const attention *a) {
    static const int64_t last_two[] = {0, 1, 3, 2};
    kiln_composer *c = a->c;
    double size = (double)kiln_compose_shape(c, a->q)->dim[3];
    double scale = kiln_import_float(im, "scale", 1 / sqrt(size));
    kiln_value q = by_key_head(a, with_scalar(c, KILN_OP_MUL, a->q, scale));
    kiln_value k = kiln_compose_ints(c, KILN_OP_TRANSPOSE, a->k, "perm", last_two, 4);
    return by_query_head(a, kiln_compose_binary(c, KILN_OP_MATMUL, q, k));
}

static kiln_value capped(kiln_importer *im, kiln_composer *c, kiln_value scores) {
    double cap = kiln_import_float(im, "softcap", 0);
    if (cap <= 0) return scores;
    kiln_value unit = with_scalar(c, KILN_OP_DIV, scores, cap);
    return with_scalar(c, KILN_OP_MUL, kiln_compose_unary(c, KILN_OP_TANH, unit), cap);
}

static void compose_attention(kiln_importer *im, attention *a) {
    kiln_composer *c = a->c;
    kiln_value stage[4];
    stage[SCORES_RAW] = scores_of(im, a);
    stage[SCORES_CAPPED] = capped(im, c, stage[SCORES_RAW]);
    stage[SCORES_MASKED] = masked(im, a, stage[SCORES_CAPPED]);
    stage[SCORES_SOFTMAX] = kiln_compose_int(c, KILN_OP_SOFTMAX, stage[SCORES_MASKED], "axis", -1);
    kiln_value y = by_query_head(
        a, kiln_compose_binary(c, KILN_OP_MATMUL, by_key_head(a, stage[SCORES_SOFTMAX]), a->v));
    if (a->flat) y = join_heads(c, swap_heads(c, y));
    kiln_compose_define(c, 0, y);
    kiln_compose_define(c, 1, a->k);
    kiln_compose_define(c, 2, a->v);
    kiln_compose_define(c, 3, stage[kiln_import_int(im, "qk_matmul_output_mode", 0) & 3]);
}

kiln_status kiln_import_attention(kiln_importer *im) {
    kiln_composer c = {.im = im};
    attention a = {.c = &c};
    kiln_status st = read_operands(im, &a);
    if (st) return st;
    if (a.lengths && kiln_import_int(im, "is_causal", 0))
        return KILN_ERROR(UNIMPLEMENTED, "attribute is_causal: 1 together with input 6");
    a.k = with_past(&c, a.past_k, a.k);
    a.v = with_past(&c, a.past_v, a.v);
    if (!c.st) c.st = measure(&a);
    if (!c.st) compose_attention(im, &a);
    return c.st;
}

/* ---- FlexAttention --------------------------------------------------------------------------- */

/* Applies a body of the node that changes scores or weights, if there is one. */
static kiln_value modified(kiln_importer *im, kiln_composer *c, kiln_value scores,
                           const char *name) {
    const Onnx__AttributeProto *a = kiln_import_attribute(im, name);
    kiln_value result = 0;
    if (c->st || !a) return scores;
    if (!a->g || a->g->n_input != 1 || a->g->n_output != 1) {
        kiln_compose_fail(c,
                          KILN_ERROR(INVALID_ARGUMENT,
                                     "attribute %s is no graph of one input and one output", name));
        return 0;
    }
    kiln_compose_fail(c, kiln_import_body(im, a->g, &scores, &result));
    if (!c->st && result &&
        (kiln_compose_dtype(c, result) != kiln_compose_dtype(c, scores) ||
         !kiln_shape_equal(kiln_compose_shape(c, result), kiln_compose_shape(c, scores))))
        kiln_compose_fail(
            c, KILN_ERROR(INVALID_ARGUMENT, "the graph %s changes the type or the shape", name));
    return result;
}

/* The type that softmax is computed in: float, unless the node has an attribute. */
static kiln_status softmax_dtype(const kiln_importer *im, kiln_dtype of, kiln_dtype *out_dtype) {
    const Onnx__AttributeProto *a = kiln_import_attribute(im, "softmax_precision");
    *out_dtype = of == KILN_F64 ? KILN_F64 : KILN_F32;
    return !a || (kiln_onnx_dtype_find(a->i, out_dtype) && kiln_dtype_is_float(*out_dtype))
               ? KILN_OK
               : KILN_ERROR(UNIMPLEMENTED, "attribute softmax_precision: type %lld",
                            (long long)a->i);
}

kiln_status kiln_import_flex_attention(kiln_importer *im) {
    kiln_composer c = {.im = im};
    attention a = {.c = &c};
    kiln_dtype dtype = KILN_F32;
    kiln_status st = read_operands(im, &a);
    if (!st && a.flat) st = KILN_ERROR(INVALID_ARGUMENT, "Q, K and V must have 4 dimensions");
    if (!st) st = measure(&a);
    if (!st) st = softmax_dtype(im, kiln_compose_dtype(&c, a.q), &dtype);
    if (st) return st;
    const kiln_dtype own = kiln_compose_dtype(&c, a.v);
    const uint32_t problems = im->problems.count;
    kiln_value x = kiln_compose_cast(&c, scores_of(im, &a), dtype);
    x = modified(im, &c, x, "score_mod");
    if (problems == im->problems.count) x = kiln_compose_int(&c, KILN_OP_SOFTMAX, x, "axis", -1);
    if (problems == im->problems.count) x = modified(im, &c, x, "prob_mod");
    if (c.st || problems != im->problems.count) return c.st;
    x = by_key_head(&a, kiln_compose_cast(&c, x, own));
    kiln_compose_define(&c, 0, by_query_head(&a, kiln_compose_binary(&c, KILN_OP_MATMUL, x, a.v)));
    return c.st;
}

/* ---- RotaryEmbedding ------------------------------------------------------------------------- */

/* Pairs of elements (x1, x2) of the last dimension: its halves, or neighbours. */
static kiln_value pair_part(kiln_composer *c, kiln_value x, bool neighbours, uint32_t part) {
    if (c->st) return 0;
    kiln_shape shape = *kiln_compose_shape(c, x), pairs = shape;
    int64_t half = shape.dim[3] / 2;
    if (!neighbours) return kiln_compose_slice(c, x, 3, part * half, (part + 1) * half);
    pairs.rank = 5;
    pairs.dim[3] = half;
    pairs.dim[4] = 2;
    shape.dim[3] = half;
    x = kiln_compose_slice(c, kiln_compose_reshape(c, x, &pairs), 4, part, part + 1);
    return kiln_compose_reshape(c, x, &shape);
}

static kiln_value join_pairs(kiln_composer *c, kiln_value x1, kiln_value x2, bool neighbours) {
    if (c->st) return 0;
    kiln_value part[] = {x1, x2};
    if (!neighbours) return kiln_compose_concat(c, part, 2, 3);
    static const int64_t last = 4;
    kiln_shape shape = *kiln_compose_shape(c, x1);
    shape.dim[3] *= 2;
    for (uint32_t i = 0; i < 2; i++)
        part[i] = kiln_compose_ints(c, KILN_OP_UNSQUEEZE, part[i], "axes", &last, 1);
    return kiln_compose_reshape(c, kiln_compose_concat(c, part, 2, 4), &shape);
}

/* Row of the cache for every position: [batch][positions][1][size / 2]. */
static kiln_value angles(kiln_importer *im, kiln_composer *c, uint32_t cache) {
    static const int64_t heads = 2;
    kiln_value rows = kiln_import_input(im, cache), positions = kiln_import_input(im, 3);
    if (positions) rows = kiln_compose_binary(c, KILN_OP_GATHER, rows, positions);
    return kiln_compose_ints(c, KILN_OP_UNSQUEEZE, rows, "axes", &heads, 1);
}

static kiln_value rotate(kiln_importer *im, kiln_composer *c, kiln_value x) {
    bool neighbours = kiln_import_int(im, "interleaved", 0) != 0;
    kiln_value x1 = pair_part(c, x, neighbours, 0), x2 = pair_part(c, x, neighbours, 1);
    kiln_value cosine = angles(im, c, 1), sine = angles(im, c, 2);
    kiln_value real =
        kiln_compose_binary(c, KILN_OP_SUB, kiln_compose_binary(c, KILN_OP_MUL, cosine, x1),
                            kiln_compose_binary(c, KILN_OP_MUL, sine, x2));
    kiln_value imaginary =
        kiln_compose_binary(c, KILN_OP_ADD, kiln_compose_binary(c, KILN_OP_MUL, sine, x1),
                            kiln_compose_binary(c, KILN_OP_MUL, cosine, x2));
    return join_pairs(c, real, imaginary, neighbours);
}

kiln_status kiln_import_rotary_embedding(kiln_importer *im) {
    kiln_composer c = {.im = im};
    kiln_value x = kiln_import_input(im, 0);
    if (!x || !kiln_import_input(im, 1) || !kiln_import_input(im, 2))
        return KILN_ERROR(INVALID_ARGUMENT, "it needs an input and both caches");
    uint32_t rank = kiln_compose_shape(&c, x)->rank;
    if (rank != 3 && rank != 4)
        return KILN_ERROR(INVALID_ARGUMENT, "input 0 needs 3 or 4 dimensions");
    x = rank == 4 ? swap_heads(&c, x) : split_heads(&c, x, kiln_import_int(im, "num_heads", 0));
    if (c.st) return c.st;
    int64_t size = kiln_compose_shape(&c, x)->dim[3];
    int64_t rotated = kiln_import_int(im, "rotary_embedding_dim", 0);
    if (rotated == 0) rotated = size;
    if (rotated < 2 || rotated > size || rotated % 2 != 0)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute rotary_embedding_dim: %lld is out of range",
                          (long long)rotated);
    kiln_value y = rotate(im, &c, rotated == size ? x : kiln_compose_slice(&c, x, 3, 0, rotated));
    if (rotated < size)
        y = kiln_compose_concat(&c, (kiln_value[]){y, kiln_compose_slice(&c, x, 3, rotated, size)},
                                2, 3);
    kiln_compose_define(&c, 0, rank == 4 ? swap_heads(&c, y) : join_heads(&c, y));
    return c.st;
}
