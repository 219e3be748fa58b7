/* The reference program: every float computed in f64, with a bound of a correct kernel's error.
 *
 * The bound of a value v is n * eps * m: n counts the roundings on the longest path to v, m is a
 * magnitude that errors scale with. Loads and constants are exact (n = 0, m = |v|); sums add
 * magnitudes, products multiply them, a function f of x has m = |f(x)| + |f'(x)| * m(x). A
 * reduction over k elements adds k to n. Source: the running error analysis of Higham, Accuracy and
 * Stability of Numerical Algorithms, chapter 3.
 *
 * Where floats become integers, a difference in the last place may become one of a whole integer,
 * which no bound covers. There floats are rounded as a kernel rounds them, operation by operation:
 * a result in f64 that is rounded to f32 is the result in f32. Sums of floats have no order that a
 * kernel must keep, so programs with such sums stay in f64. */
#include "compiler-core/ir/reference.h"

#include <math.h>

#include "base/check.h"
#include "base/small_float.h"
#include "compiler-core/ir/text.h"

#define FUNCTION_ROUNDINGS \
    4              /* an exp or tanh by polynomial is off by a few units in the last place */
#define TINY 1e-30 /* keeps divisions by zero out of magnitudes */

typedef struct computed {
    kiln_expr value;     /* in the reference program; f64 for floats */
    kiln_expr magnitude; /* f64; floats only */
    double roundings;
} computed;

typedef struct builder {
    const kiln_program *from;
    kiln_program *to;
    kiln_var *var;  /* [from's vars]: of the block being translated */
    computed *done; /* [from's exprs]: of the block being translated; value 0 = not yet */
    kiln_buffer
        *buffer; /* [from's buffers]: the same buffer, or the f64 value of a computed float one */
    kiln_buffer *magnitude;      /* [from's buffers]: computed float buffers */
    double *roundings;           /* [from's buffers] */
    kiln_buffer *output, *bound; /* [from's buffers]: float outputs, and their bounds */
    bool *direct;   /* [from's buffers]: outputs that are computed without a temp (is_direct) */
    bool rounds;    /* each float operation, to its own type */
    double epsilon; /* the coarsest precision that anything is computed or stored in */
} builder;

static kiln_expr f64(builder *b, double value) { return kiln_expr_float(b->to, KILN_F64, value); }
static kiln_expr unary(builder *b, kiln_expr_op op, kiln_expr x) {
    return kiln_expr_unary(b->to, op, x);
}
static kiln_expr binary(builder *b, kiln_expr_op op, kiln_expr x, kiln_expr y) {
    return kiln_expr_binary(b->to, op, x, y);
}
static kiln_expr sum(builder *b, kiln_expr x, kiln_expr y) {
    return binary(b, KILN_EXPR_ADD, x, y);
}
static kiln_expr product(builder *b, kiln_expr x, kiln_expr y) {
    return binary(b, KILN_EXPR_MUL, x, y);
}
static kiln_expr absolute(builder *b, kiln_expr x) { return unary(b, KILN_EXPR_ABS, x); }

static kiln_expr over(builder *b, kiln_expr x, kiln_expr y) {
    return binary(b, KILN_EXPR_DIV, x, binary(b, KILN_EXPR_MAX, absolute(b, y), f64(b, TINY)));
}

/* ---- magnitudes of functions ----------------------------------------------------- */

/* |f'(x)|, or a bound of it; `y` is f(x). 0: the derivative is zero where it exists. */
static kiln_expr slope(builder *b, kiln_expr_op op, kiln_expr x, kiln_expr y) {
    kiln_expr one = f64(b, 1);
    kiln_expr squared = product(b, x, x);
    switch (op) {
    case KILN_EXPR_NEG:
    case KILN_EXPR_ABS:
    case KILN_EXPR_TANH:
    case KILN_EXPR_SIGMOID:
    case KILN_EXPR_SIN:
    case KILN_EXPR_COS:
    case KILN_EXPR_ATAN:
    case KILN_EXPR_ASINH: return one;
    case KILN_EXPR_ERF: return f64(b, 1.1284); /* 2 / sqrt(pi) */
    case KILN_EXPR_EXP: return y;
    case KILN_EXPR_LOG: return over(b, one, x);
    case KILN_EXPR_SQRT: return over(b, f64(b, 0.5), y);
    case KILN_EXPR_TAN: return sum(b, one, product(b, y, y));
    case KILN_EXPR_SINH:
    case KILN_EXPR_COSH: return unary(b, KILN_EXPR_COSH, x);
    case KILN_EXPR_ASIN:
    case KILN_EXPR_ACOS:
        return over(b, one,
                    unary(b, KILN_EXPR_SQRT, absolute(b, binary(b, KILN_EXPR_SUB, one, squared))));
    case KILN_EXPR_ACOSH:
        return over(b, one,
                    unary(b, KILN_EXPR_SQRT, absolute(b, binary(b, KILN_EXPR_SUB, squared, one))));
    case KILN_EXPR_ATANH: return over(b, one, binary(b, KILN_EXPR_SUB, one, squared));
    default: return 0; /* floor, ceil, round */
    }
}

static computed function_of(builder *b, kiln_expr_op op, const computed *x) {
    computed r = {.value = unary(b, op, x->value), .roundings = x->roundings};
    kiln_expr slope_here = slope(b, op, x->value, r.value);
    if (op == KILN_EXPR_NEG || op == KILN_EXPR_ABS) {
        r.magnitude = x->magnitude;
        return r;
    }
    r.magnitude = absolute(b, r.value);
    if (slope_here) r.magnitude = sum(b, r.magnitude, product(b, slope_here, x->magnitude));
    r.roundings += slope_here ? FUNCTION_ROUNDINGS : 0;
    return r;
}

/* |x/y| errors: (m(x) + |x/y| m(y)) / |y|. */
static kiln_expr quotient_magnitude(builder *b, const computed *x, const computed *y,
                                    kiln_expr quotient) {
    return over(b, sum(b, x->magnitude, product(b, absolute(b, quotient), y->magnitude)), y->value);
}

/* |x^y| (1 + |y| m(x)/|x| + |log x| m(y)). */
static kiln_expr power_magnitude(builder *b, const computed *x, const computed *y,
                                 kiln_expr power) {
    kiln_expr log_x = absolute(
        b, unary(b, KILN_EXPR_LOG, binary(b, KILN_EXPR_MAX, absolute(b, x->value), f64(b, TINY))));
    kiln_expr relative = sum(b, product(b, absolute(b, y->value), over(b, x->magnitude, x->value)),
                             product(b, log_x, y->magnitude));
    return product(b, absolute(b, power), sum(b, f64(b, 1), relative));
}

static computed combination_of(builder *b, kiln_expr_op op, const computed *x, const computed *y) {
    computed r = {.value = binary(b, op, x->value, y->value),
                  .roundings = KILN_MAX(x->roundings, y->roundings) + 1};
    switch (op) {
    case KILN_EXPR_MUL:
        r.magnitude = product(b, x->magnitude, y->magnitude);
        r.roundings = x->roundings + y->roundings + 1;
        break;
    case KILN_EXPR_DIV:
        r.magnitude = quotient_magnitude(b, x, y, r.value);
        r.roundings = x->roundings + y->roundings + 1;
        break;
    case KILN_EXPR_POW:
        r.magnitude = power_magnitude(b, x, y, r.value);
        r.roundings += FUNCTION_ROUNDINGS;
        break;
    case KILN_EXPR_MIN:
    case KILN_EXPR_MAX:
        r.magnitude = binary(b, KILN_EXPR_MAX, x->magnitude, y->magnitude);
        r.roundings -= 1;
        break;
    default: /* sums, and remainders, which are smaller than their operands */
        r.magnitude = sum(b, x->magnitude, y->magnitude);
        break;
    }
    return r;
}

/* ---- translation ----------------------------------------------------------------- */

static const computed *translate(builder *b, kiln_expr e);

static computed translate_load(builder *b, const kiln_expr_node *node, const kiln_expr *index) {
    kiln_buffer source = node->payload.id;
    computed r = {.value = kiln_expr_load(b->to, b->buffer[source], index, node->operand_count)};
    if (!kiln_dtype_is_float((kiln_dtype)node->dtype)) return r;
    r.value = kiln_expr_cast(b->to, KILN_F64, r.value);
    r.magnitude = absolute(b, r.value);
    r.roundings = b->roundings[source];
    if (b->magnitude[source])
        r.magnitude = kiln_expr_load(b->to, b->magnitude[source], index, node->operand_count);
    return r;
}

static computed translate_select(builder *b, kiln_expr e) {
    const computed *c = translate(b, kiln_expr_operand(b->from, e, 0));
    const computed *x = translate(b, kiln_expr_operand(b->from, e, 1));
    const computed *y = translate(b, kiln_expr_operand(b->from, e, 2));
    computed r = {.value = kiln_expr_select(b->to, c->value, x->value, y->value)};
    /* The side not chosen may lie outside its buffer, so the magnitude selects as well. */
    if (x->magnitude) r.magnitude = kiln_expr_select(b->to, c->value, x->magnitude, y->magnitude);
    r.roundings = KILN_MAX(x->roundings, y->roundings);
    return r;
}

/* Between floats a cast only adds a rounding: f64 keeps the value. */
static computed translate_cast(builder *b, const kiln_expr_node *node, const computed *x) {
    bool from_float = x->magnitude != 0;
    bool to_float = kiln_dtype_is_float((kiln_dtype)node->dtype);
    if (from_float && to_float) return (computed){x->value, x->magnitude, x->roundings + 1};
    computed r = {
        .value = kiln_expr_cast(b->to, to_float ? KILN_F64 : (kiln_dtype)node->dtype, x->value)};
    if (to_float) {
        r.magnitude = absolute(b, r.value);
        r.roundings = 1;
    }
    return r;
}

/* Only adds a rounding, too: of the coarsest precision (coarsest_epsilon). */
static computed translate_tf32(builder *b, const computed *x) {
    computed r = {x->value, x->magnitude, x->roundings + 1};
    if (b->rounds)
        r.value = kiln_expr_cast(
            b->to, KILN_F64, unary(b, KILN_EXPR_TF32, kiln_expr_cast(b->to, KILN_F32, x->value)));
    return r;
}

/* Integers, conditions and leaves keep their form. */
static computed translate_exact(builder *b, const kiln_expr_node *source,
                                const kiln_expr *operand) {
    kiln_expr_node node = *source;
    if (node.op == KILN_EXPR_FLOAT) {
        kiln_expr value = f64(b, node.payload.f);
        return (computed){.value = value, .magnitude = absolute(b, value)};
    }
    if (node.op == KILN_EXPR_VAR)
        return (computed){.value = kiln_expr_var(b->to, b->var[node.payload.id])};
    return (computed){.value = kiln_expr_make(b->to, &node, operand, node.operand_count)};
}

static computed translate_node(builder *b, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(b->from, e);
    const computed *x[KILN_RANK_MAX] = {NULL};
    kiln_expr operand[KILN_RANK_MAX] = {0};
    if (node->op == KILN_EXPR_SELECT) return translate_select(b, e);
    for (uint32_t i = 0; i < node->operand_count; i++) {
        x[i] = translate(b, kiln_expr_operand(b->from, e, i));
        operand[i] = x[i]->value;
    }
    if (node->op == KILN_EXPR_LOAD) return translate_load(b, node, operand);
    if (node->op == KILN_EXPR_CAST) return translate_cast(b, node, x[0]);
    if (node->op == KILN_EXPR_TF32) return translate_tf32(b, x[0]);
    if (node->operand_count == 0 || !kiln_dtype_is_float((kiln_dtype)node->dtype))
        return translate_exact(b, node, operand);
    return node->operand_count == 1 ? function_of(b, (kiln_expr_op)node->op, x[0])
                                    : combination_of(b, (kiln_expr_op)node->op, x[0], x[1]);
}

/* Of an arithmetic operation or a cast; functions are approximated anyway. */
static bool is_rounded(const builder *b, const kiln_expr_node *node) {
    const kiln_expr_op op = (kiln_expr_op)node->op;
    return b->rounds && kiln_dtype_is_float((kiln_dtype)node->dtype) &&
           (op == KILN_EXPR_FLOAT || op == KILN_EXPR_ADD || op == KILN_EXPR_SUB ||
            op == KILN_EXPR_MUL || op == KILN_EXPR_DIV || op == KILN_EXPR_SQRT ||
            op == KILN_EXPR_CAST);
}

static const computed *translate(builder *b, kiln_expr e) {
    if (b->done[e].value) return &b->done[e];
    computed r = translate_node(b, e);
    const kiln_expr_node *node = kiln_expr_get(b->from, e);
    if (is_rounded(b, node)) {
        r.value = kiln_expr_cast(b->to, (kiln_dtype)node->dtype, r.value);
        r.value = kiln_expr_cast(b->to, KILN_F64, r.value);
    }
    b->done[e] = r;
    return &b->done[e];
}

/* ---- blocks ---------------------------------------------------------------------- */

/* Starts a block with the iterators of `source`; expressions translated from now on are over them.
 */
static kiln_block begin_block(builder *b, const kiln_block_info *source, const char *suffix) {
    char *name = kiln_arena_printf(b->to->arena, "%.*s%s", KILN_STR_ARG(source->name), suffix);
    kiln_block block = kiln_block_create(b->to, kiln_str_from(name));
    for (kiln_expr e = 0; e < b->from->expr.count; e++) b->done[e].value = 0;
    for (uint32_t i = 0; i < source->iter_count; i++) {
        const kiln_iter *iter = &source->iter[i];
        kiln_expr var = kiln_block_add_iter(
            b->to, block, kiln_str_dup(b->to->arena, kiln_iter_name(b->from, iter)), iter->extent,
            iter->reduce);
        b->var[iter->var] = kiln_expr_get(b->to, var)->payload.id;
    }
    return block;
}

static void set_block(builder *b, kiln_block block, const kiln_block_info *source,
                      kiln_buffer buffer, kiln_combiner combiner, kiln_expr value, kiln_expr init) {
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t i = 0; i < source->index_count; i++)
        index[i] = translate(b, source->index[i])->value;
    kiln_block_set(b->to, block, buffer, index, source->index_count, combiner, value, init);
}

static double reduce_points(const kiln_block_info *source) {
    double points = 1;
    for (uint32_t i = 0; i < source->iter_count; i++)
        if (source->iter[i].reduce) points *= (double)source->iter[i].extent;
    return points;
}

/* Roundings of a whole reduction whose elements have `each`. */
static double reduced_roundings(const kiln_block_info *source, double each) {
    double points = reduce_points(source);
    switch (source->combiner) {
    case KILN_COMBINE_SUM: return each + points;
    case KILN_COMBINE_PROD: return (each + 1) * points;
    default: return each;
    }
}

/* Stores an output directly when it is computed, and its bound. */
static void translate_direct(builder *b, const kiln_block_info *source) {
    const kiln_buffer output = b->output[source->buffer], bound = b->bound[source->buffer];
    kiln_block block = begin_block(b, source, "");
    computed value = *translate(b, source->value);
    kiln_expr stored = kiln_expr_cast(b->to, b->to->buffer.data[output].dtype, value.value);
    set_block(b, block, source, output, KILN_COMBINE_NONE, stored, 0);

    block = begin_block(b, source, ".bound");
    value = *translate(b, source->value);
    kiln_expr error = product(b, value.magnitude, f64(b, (value.roundings + 1) * b->epsilon));
    set_block(b, block, source, bound, KILN_COMBINE_NONE, kiln_expr_cast(b->to, KILN_F32, error),
              0);
    b->roundings[source->buffer] = value.roundings + 1;
}

static void translate_block(builder *b, const kiln_block_info *source) {
    if (b->direct[source->buffer]) {
        translate_direct(b, source);
        return;
    }
    kiln_block block = begin_block(b, source, "");
    computed value = *translate(b, source->value);
    kiln_expr init = source->init ? translate(b, source->init)->value : 0;
    set_block(b, block, source, b->buffer[source->buffer], source->combiner, value.value, init);
    if (!b->magnitude[source->buffer]) return;

    b->roundings[source->buffer] =
        reduced_roundings(source, value.roundings) + 1; /* 1: the store */
    block = begin_block(b, source, ".magnitude");
    value = *translate(b, source->value);
    kiln_combiner combiner =
        source->combiner == KILN_COMBINE_MIN ? KILN_COMBINE_MAX : source->combiner;
    init = source->init ? translate(b, source->init)->magnitude : 0;
    if (source->combiner == KILN_COMBINE_MIN || source->combiner == KILN_COMBINE_MAX)
        init = f64(b, 0);
    set_block(b, block, source, b->magnitude[source->buffer], combiner, value.magnitude, init);
}

/* out[...] = scale * in[...] over the whole buffer, in the dtype of `out`. */
static void copy_block(builder *b, kiln_buffer out, kiln_buffer in, double scale) {
    const kiln_buffer_info info = b->to->buffer.data[out];
    char *name = kiln_arena_printf(b->to->arena, "%.*s.out", KILN_STR_ARG(info.name));
    kiln_block block = kiln_block_create(b->to, kiln_str_from(name));
    kiln_expr index[KILN_RANK_MAX];
    for (uint32_t i = 0; i < info.shape.rank; i++)
        index[i] = kiln_block_add_iter(b->to, block, kiln_arena_printf(b->to->arena, "i%u", i),
                                       info.shape.dim[i], false);
    kiln_expr value = product(b, kiln_expr_load(b->to, in, index, info.shape.rank), f64(b, scale));
    kiln_block_set(b->to, block, out, index, info.shape.rank, KILN_COMBINE_NONE,
                   kiln_expr_cast(b->to, info.dtype, value), 0);
}

/* ---- programs -------------------------------------------------------------------- */

#define TF32_EPSILON 0x1p-10

static double dtype_epsilon(kiln_dtype dtype) {
    const kiln_small_float *small = kiln_small_float_of(dtype);
    if (small) return ldexp(1, -(int)small->fraction_bits);
    switch (dtype) {
    case KILN_F64: return 0x1p-52;
    case KILN_F32: return 0x1p-23;
    case KILN_F16: return 0x1p-10;
    case KILN_BF16: return 0x1p-7;
    default: return 0;
    }
}

/* The coarsest precision that anything is computed or stored in. */
static double coarsest_epsilon(const kiln_program *te) {
    double epsilon = 0;
    for (kiln_buffer b = 1; b < te->buffer.count; b++) {
        kiln_role role = te->buffer.data[b].role;
        if (role == KILN_ROLE_OUTPUT || role == KILN_ROLE_TEMP)
            epsilon = KILN_MAX(epsilon, dtype_epsilon(te->buffer.data[b].dtype));
    }
    for (kiln_expr e = 1; e < te->expr.count; e++) {
        const kiln_expr_node *node = kiln_expr_get(te, e);
        if (node->operand_count > 0 && node->op != KILN_EXPR_LOAD)
            epsilon = KILN_MAX(epsilon, node->op == KILN_EXPR_TF32
                                            ? TF32_EPSILON
                                            : dtype_epsilon((kiln_dtype)node->dtype));
    }
    return epsilon;
}

static kiln_buffer add_buffer(builder *b, kiln_buffer source, const char *suffix, kiln_dtype dtype,
                              kiln_role role) {
    const kiln_buffer_info *info = &b->from->buffer.data[source];
    char *name = kiln_arena_printf(b->to->arena, "%.*s%s", KILN_STR_ARG(info->name), suffix);
    kiln_buffer made = kiln_buffer_create(b->to, kiln_str_from(name), dtype, role, &info->shape);
    b->to->buffer.data[made].fill = info->fill;
    if (role == info->role) b->to->buffer.data[made].range = info->range;
    return made;
}

/* Whether the only block that writes a buffer writes each element once, and none reads it: then its
 * values of f64 need no temp, which would be four times as large as the output. */
static bool is_direct(const kiln_program *te, kiln_buffer buffer) {
    uint32_t writers = 0;
    for (kiln_block block = 1; block < te->block.count; block++) {
        const kiln_block_info *info = &te->block.data[block];
        if (info->removed || info->buffer != buffer) continue;
        if (info->combiner != KILN_COMBINE_NONE) return false;
        writers++;
    }
    for (kiln_expr e = 1; e < te->expr.count; e++) {
        const kiln_expr_node *node = kiln_expr_get(te, e);
        if (node->op == KILN_EXPR_LOAD && node->payload.id == buffer) return false;
    }
    return writers == 1;
}

/* Arguments first, in order, each float output followed by its bound; then the f64 temps. */
static void make_buffers(builder *b) {
    for (kiln_buffer s = 1; s < b->from->buffer.count; s++) {
        const kiln_buffer_info *info = &b->from->buffer.data[s];
        if (info->role == KILN_ROLE_TEMP) continue;
        b->buffer[s] = add_buffer(b, s, "", info->dtype, info->role);
        if (info->role != KILN_ROLE_OUTPUT || !kiln_dtype_is_float(info->dtype)) continue;
        b->output[s] = b->buffer[s];
        b->bound[s] = add_buffer(b, s, ".bound", KILN_F32, KILN_ROLE_OUTPUT);
        b->direct[s] = is_direct(b->from, s);
    }
    for (kiln_buffer s = 1; s < b->from->buffer.count; s++) {
        const kiln_buffer_info *info = &b->from->buffer.data[s];
        bool is_float = kiln_dtype_is_float(info->dtype);
        if (b->direct[s]) continue;
        if (info->role == KILN_ROLE_TEMP || b->output[s])
            b->buffer[s] = add_buffer(b, s, is_float ? ".f64" : "",
                                      is_float ? KILN_F64 : info->dtype, KILN_ROLE_TEMP);
        if (is_float && (info->role == KILN_ROLE_TEMP || b->output[s]))
            b->magnitude[s] = add_buffer(b, s, ".magnitude", KILN_F64, KILN_ROLE_TEMP);
    }
}

/* Whether a float becomes an integer, and none is summed up. */
static bool makes_integers(const kiln_program *te) {
    for (kiln_block block = 1; block < te->block.count; block++) {
        const kiln_block_info *info = &te->block.data[block];
        if (!info->removed && kiln_dtype_is_float(te->buffer.data[info->buffer].dtype) &&
            (info->combiner == KILN_COMBINE_SUM || info->combiner == KILN_COMBINE_PROD))
            return false;
    }
    for (kiln_expr e = 1; e < te->expr.count; e++) {
        const kiln_expr_node *node = kiln_expr_get(te, e);
        if (node->op == KILN_EXPR_CAST && node->dtype != KILN_BOOL &&
            !kiln_dtype_is_float((kiln_dtype)node->dtype) &&
            kiln_dtype_is_float((kiln_dtype)kiln_expr_get(te, kiln_expr_operand(te, e, 0))->dtype))
            return true;
    }
    return false;
}

static builder build(const kiln_program *te, kiln_arena *arena) {
    KILN_CHECK(te->root == 0);
    char *name = kiln_arena_printf(arena, "%.*s.reference", KILN_STR_ARG(te->name));
    builder b = {.from = te, .to = kiln_program_create(arena, kiln_str_from(name))};
    b.var = KILN_ARENA_ARRAY(arena, kiln_var, te->var.count);
    b.done = KILN_ARENA_ARRAY(arena, computed, te->expr.count);
    b.buffer = KILN_ARENA_ARRAY(arena, kiln_buffer, te->buffer.count);
    b.magnitude = KILN_ARENA_ARRAY(arena, kiln_buffer, te->buffer.count);
    b.roundings = KILN_ARENA_ARRAY(arena, double, te->buffer.count);
    b.output = KILN_ARENA_ARRAY(arena, kiln_buffer, te->buffer.count);
    b.bound = KILN_ARENA_ARRAY(arena, kiln_buffer, te->buffer.count);
    b.direct = KILN_ARENA_ARRAY(arena, bool, te->buffer.count);
    b.rounds = makes_integers(te);
    b.epsilon = coarsest_epsilon(te);

    make_buffers(&b);
    for (kiln_block block = 1; block < te->block.count; block++)
        if (!te->block.data[block].removed) translate_block(&b, &te->block.data[block]);
    for (kiln_buffer s = 1; s < te->buffer.count; s++) {
        if (!b.output[s] || b.direct[s]) continue;
        copy_block(&b, b.output[s], b.buffer[s], 1);
        copy_block(&b, b.bound[s], b.magnitude[s], b.roundings[s] * b.epsilon);
    }
    return b;
}

kiln_program *kiln_te_reference(const kiln_program *te, kiln_arena *arena) {
    return build(te, arena).to;
}

double kiln_te_least_bound(const kiln_program *te) {
    double least = 1;
    kiln_arena scratch;
    kiln_arena_init(&scratch, (size_t)1 << 16);
    const builder b = build(te, &scratch);
    for (kiln_buffer s = 1; s < te->buffer.count; s++)
        if (b.output[s]) least = KILN_MIN(least, b.roundings[s] * b.epsilon);
    kiln_arena_deinit(&scratch);
    return least;
}
