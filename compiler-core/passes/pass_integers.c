/* Requantisation by powers of two, in integers: a shift that rounds, and bounds, in place of a
 * float product, a rounding and a saturation. It works on floats that are exactly integers times a
 * power of two, at least within the bounds of a later clip; see
 * docs/decisions/0131-requantisation-by-shifts.md.
 *
 *     quantize_linear((f32(sums) * 2^-s + 2^-(s+1)), 1)  =  i8(clip((sums + 2^(s-1)) >> s, -128,
 * 127))
 *
 * Halves round up on the right. On the left they would round to the even neighbour, but there are
 * none: the sum in parentheses is an odd multiple of 2^-(s+1). A requantisation in which halves may
 * occur stays in floats. */
#include <math.h>

#include "base/check.h"
#include "compiler-core/graph/op.h"
#include "compiler-core/ops/rules.h"
#include "compiler-core/passes/rewrite.h"

#define DEPTH_MAX 24     /* operators between a quantisation and its integers */
#define SHIFT_MAX 30     /* bits */
#define MANTISSA_BITS 24 /* of f32 */
/* Integers of more bits than these are checked up to the largest of so many bits; beyond it the
 * result has to be clipped. The first limit that works is taken. */
#define LIMIT_BITS_MOST 24
#define LIMIT_BITS_LEAST 20

typedef struct range {
    int64_t low, high;
} range;

typedef struct rewriter {
    kiln_graph *graph;
    uint32_t values;           /* before any was added */
    range *known;              /* [values] of integers; low above high: not looked at yet */
    const uint32_t *uses;      /* [values] */
    KILN_VEC(kiln_node) order; /* of all nodes, once determined; [0] unused */
    kiln_node root;
    bool apply;   /* adds nodes; otherwise only checks whether they could be added */
    double limit; /* of wide integers */
    kiln_status st;
} rewriter;

/* A float value: clamp((ints + bias + addend + plus) * 2^-exponent + fraction, least, most). */
typedef struct number {
    kiln_value ints, bias, addend; /* i32; 0: none, or not applied */
    int64_t plus;
    int64_t low, high; /* of the sum of all four, for any inputs */
    int64_t size;      /* of their magnitudes: no order of adding them overflows i32 */
    int exponent;
    double fraction; /* at least 0, less than 2^-exponent */
    double least, most;
    /* Before clipping, in the same unit: while wide integers are within the limit, it lies in
     * [from, to]; with one at the limit or beyond, it is at least `above` or at most `below`.
     * Infinite: no integer is so wide. */
    double from, to, above, below;
} number;

static const kiln_value_info *value_of(const rewriter *r, kiln_value v) {
    return &r->graph->value.data[v];
}
static const kiln_node_info *producer_of(const rewriter *r, kiln_value v) {
    return &r->graph->node.data[v ? value_of(r, v)->producer : 0]; /* of nothing: no operator */
}
static bool reads_alone(const rewriter *r, kiln_value v) { return r->uses[v] == 1; }

/* ---- constants ------------------------------------------------------------------------------- */

static double element_of(const kiln_value_info *constant, int64_t i) {
    return kiln_dtype_load_f64(constant->dtype, constant->data, (size_t)i);
}

/* The exponent of a constant whose elements are all 2^exponent. */
static bool is_power_of_two(const rewriter *r, kiln_value value, int *out_exponent) {
    if (!kiln_value_is_constant(r->graph, value) || value_of(r, value)->dtype != KILN_F32)
        return false;
    const kiln_value_info *info = value_of(r, value);
    const double first = element_of(info, 0);
    if (!(first > 0) || frexp(first, out_exponent) != 0.5) return false;
    (*out_exponent)--;
    for (int64_t i = 1; i < kiln_shape_count(&info->shape); i++)
        if (element_of(info, i) != first) return false;
    return true;
}

/* A literal zero point; 0 where there is none. */
static bool find_zero(const rewriter *r, const kiln_node_info *node, int64_t *out_zero) {
    *out_zero = 0;
    if (node->input_count < 3 || !node->input[2]) return true;
    if (!kiln_value_is_literal(r->graph, node->input[2])) return false;
    const kiln_value_info *zero = value_of(r, node->input[2]);
    *out_zero = kiln_dtype_load_i64(zero->dtype, zero->data, 0);
    return true;
}

/* ---- new nodes ------------------------------------------------------------------------------- */

static kiln_value add_constant(rewriter *r, const kiln_tensor *tensor) {
    const kiln_str name = value_of(r, r->graph->node.data[r->root].output[0])->name;
    const kiln_str own = kiln_str_printf(r->graph->arena, "%.*s.integer", KILN_STR_ARG(name));
    return kiln_graph_add_constant(r->graph, own, tensor);
}

static kiln_value add_literal(rewriter *r, int64_t value) {
    kiln_tensor one = kiln_tensor_create(r->graph->arena, KILN_I32, &(kiln_shape){0});
    ((int32_t *)one.data)[0] = (int32_t)value;
    return add_constant(r, &one);
}

static kiln_value add_node(rewriter *r, kiln_op op, const kiln_value *input, uint32_t count,
                           const char *attr, const char *text) {
    if (r->st || !r->apply) return 0;
    kiln_graph *g = r->graph;
    const kiln_str root = value_of(r, g->node.data[r->root].output[0])->name;
    const kiln_node n = kiln_graph_add_node(g, op, g->node.data[r->root].name, count, 1);
    const kiln_value made =
        kiln_graph_add_value(g, kiln_str_printf(g->arena, "%.*s.integers", KILN_STR_ARG(root)));
    for (uint32_t i = 0; i < count; i++) kiln_graph_set_input(g, n, i, input[i]);
    kiln_graph_set_output(g, n, 0, made);
    if (attr)
        kiln_graph_set_attr(g, n,
                            &(kiln_attr){.name = kiln_str_from(attr),
                                         .kind = KILN_ATTR_TEXT,
                                         .text = kiln_str_from(text)});
    kiln_vec_push(&r->order, n);
    r->st = kiln_node_infer(g, n);
    return made;
}

static kiln_value add_sum(rewriter *r, kiln_value a, kiln_value b) {
    return add_node(r, KILN_OP_ADD, (kiln_value[]){a, b}, 2, NULL, NULL);
}

static kiln_value add_shift(rewriter *r, kiln_value a, int by, const char *direction) {
    if (!r->apply || by == 0) return a;
    return add_node(r, KILN_OP_BIT_SHIFT, (kiln_value[]){a, add_literal(r, by)}, 2, "direction",
                    direction);
}

/* A bias and a number as one constant. */
static kiln_value add_bias(rewriter *r, kiln_value bias, int64_t plus) {
    const kiln_tensor was = kiln_value_tensor(r->graph, bias);
    kiln_tensor sum = kiln_tensor_create(r->graph->arena, KILN_I32, &was.shape);
    for (int64_t i = 0; i < kiln_shape_count(&was.shape); i++)
        ((int32_t *)sum.data)[i] = (int32_t)(((const int32_t *)was.data)[i] + plus);
    return add_constant(r, &sum);
}

/* Emits the pending additions: only `ints` remain. */
static void settle(rewriter *r, number *n) {
    if (r->apply && !r->st) {
        if (n->bias)
            n->ints = add_sum(r, n->ints, n->plus ? add_bias(r, n->bias, n->plus) : n->bias);
        else if (n->plus)
            n->ints = add_sum(r, n->ints, add_literal(r, n->plus));
        if (n->addend) n->ints = add_sum(r, n->ints, n->addend);
    }
    n->bias = n->addend = 0;
    n->plus = 0;
    n->size = KILN_MAX(n->high, -n->low);
}

/* ---- ranges of integers ----------------------------------------------------------------------
 */

/* Of a type of at most 32 bits. */
static range range_of_dtype(kiln_dtype dtype) {
    const uint32_t bits = 8 * (uint32_t)kiln_dtype_size(dtype);
    const bool is_signed = kiln_dtype_kind_of(dtype) == KILN_KIND_INT;
    return (range){is_signed ? -((int64_t)1 << (bits - 1)) : 0,
                   ((int64_t)1 << (is_signed ? bits - 1 : bits)) - 1};
}

static range range_of_constant(const kiln_value_info *info) {
    range all = {INT64_MAX, INT64_MIN};
    for (int64_t i = 0; i < kiln_shape_count(&info->shape); i++) {
        const int64_t x = kiln_dtype_load_i64(info->dtype, info->data, (size_t)i);
        all = (range){KILN_MIN(all.low, x), KILN_MAX(all.high, x)};
    }
    return all;
}

/* Sums of x by weights [outer][channels][inner], of any channel. */
static range range_of_products(const kiln_value_info *weights, uint32_t axis, range x) {
    const int64_t channels = weights->shape.dim[axis], count = kiln_shape_count(&weights->shape);
    range *sum, all = {0, 0};
    int64_t inner = 1, at = 0;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    sum = KILN_ARENA_ARRAY(&scratch, range, channels);
    for (uint32_t d = axis + 1; d < weights->shape.rank; d++) inner *= weights->shape.dim[d];
    while (at < count) {
        for (int64_t c = 0; c < channels; c++) {
            for (int64_t i = 0; i < inner; i++) {
                const int64_t w = kiln_dtype_load_i64(weights->dtype, weights->data, (size_t)at++);
                sum[c].low += KILN_MIN(w * x.low, w * x.high);
                sum[c].high += KILN_MAX(w * x.low, w * x.high);
            }
        }
    }
    for (int64_t c = 0; c < channels; c++)
        all = (range){KILN_MIN(all.low, sum[c].low), KILN_MAX(all.high, sum[c].high)};
    kiln_arena_deinit(&scratch);
    return all;
}

/* Of sums of bytes by constant weights, whose channels are dimension `axis`. */
static range range_of_sums(const rewriter *r, const kiln_node_info *node, uint32_t axis,
                           range otherwise) {
    const kiln_value_info *weights = value_of(r, node->input[1]);
    int64_t zero;
    if (!kiln_value_is_constant(r->graph, node->input[1]) || node->input_count > 3 ||
        weights->shape.rank <= axis || !find_zero(r, node, &zero))
        return otherwise;
    const range x = range_of_dtype(value_of(r, node->input[0])->dtype);
    return range_of_products(weights, axis, /* 0: a padding */
                             (range){KILN_MIN(x.low - zero, 0), KILN_MAX(x.high - zero, 0)});
}

static range range_of(rewriter *r, kiln_value value, int depth);

static range range_of_node(rewriter *r, const kiln_node_info *node, int depth, range otherwise) {
    switch ((int)node->op) {
    case KILN_OP_CONV_INTEGER: return range_of_sums(r, node, 0, otherwise);
    case KILN_OP_MATMUL_INTEGER:
        return value_of(r, node->input[1])->shape.rank == 2 ? range_of_sums(r, node, 1, otherwise)
                                                            : otherwise;
    case KILN_OP_CAST: return range_of(r, node->input[0], depth);
    case KILN_OP_ADD: {
        const range a = range_of(r, node->input[0], depth), b = range_of(r, node->input[1], depth);
        return (range){a.low + b.low, a.high + b.high};
    }
    default: return otherwise;
    }
}

/* Of integers, none of whose sums wraps: otherwise all of the type's. Of other types anything. */
static range range_of(rewriter *r, kiln_value value, int depth) {
    const kiln_value_info *info = value_of(r, value);
    const kiln_dtype_kind kind = kiln_dtype_kind_of(info->dtype);
    const range anything = {INT64_MIN / 4, INT64_MAX / 4};
    if ((kind != KILN_KIND_INT && kind != KILN_KIND_UINT) || kiln_dtype_size(info->dtype) > 4)
        return anything;
    const range all = range_of_dtype(info->dtype);
    if (value >= r->values || depth == DEPTH_MAX) return all;
    if (r->known[value].low <= r->known[value].high) return r->known[value];
    const range found = kiln_value_is_constant(r->graph, value)
                            ? range_of_constant(info)
                            : range_of_node(r, producer_of(r, value), depth + 1, all);
    r->known[value] = found.low >= all.low && found.high <= all.high ? found : all;
    return r->known[value];
}

/* ---- what is exact --------------------------------------------------------------------------- */

static double unit_of(const number *n) { return ldexp(1, -n->exponent); }

/* Whether f32 holds each of its values within the limits exactly, and i32 all of its integers. */
static bool is_exact(const number *n) {
    double grain = unit_of(n);
    for (int i = 0; fmod(n->fraction, grain) != 0; i++) {
        if (i == MANTISSA_BITS) return false;
        grain /= 2;
    }
    return n->exponent <= SHIFT_MAX && n->exponent >= -SHIFT_MAX && n->size <= INT32_MAX &&
           KILN_MAX(n->to, -n->from) <= ldexp(grain, MANTISSA_BITS);
}

static bool is_wide(const number *n) { return isfinite(n->above) || isfinite(n->below); }

static double cut(double x, double least, double most) {
    return KILN_MIN(KILN_MAX(x, least), most);
}

/* Clips it to `least` and `most` in addition to its bounds. Values off its grid are not known to be
 * exact after the next operator. */
static bool cut_number(number *n, double least, double most) {
    const double unit = unit_of(n);
    if (isnan(least) || isnan(most) || least > most ||
        (isfinite(least) && fmod(least, unit) != 0) || (isfinite(most) && fmod(most, unit) != 0))
        return false;
    n->least = cut(n->least, least, most);
    n->most = cut(n->most, least, most);
    return true;
}

/* Values beyond the bounds are clipped to them, so that wide integers need not be checked. */
static void forget_beyond(number *n) {
    n->from = cut(n->from, n->least, n->most);
    n->to = cut(n->to, n->least, n->most);
    if (n->above >= n->most) n->above = INFINITY;
    if (n->below <= n->least) n->below = -INFINITY;
}

/* Clips `ints`, if the bounds are multiples of its unit. */
static bool apply_cut(rewriter *r, number *n) {
    if (!isfinite(n->least) && !isfinite(n->most)) return true;
    const double least = ldexp(n->least, n->exponent), most = ldexp(n->most, n->exponent);
    if (n->fraction != 0 || n->size > INT32_MAX || (isfinite(least) && least != floor(least)) ||
        (isfinite(most) && most != floor(most)))
        return false;
    settle(r, n);
    const bool below = isfinite(least) && (double)n->low < least,
               above = isfinite(most) && (double)n->high > most;
    if ((below && least > (double)n->high) || (above && most < (double)n->low)) return false;
    if (r->apply && (below || above)) {
        const kiln_value input[] = {n->ints, below ? add_literal(r, (int64_t)least) : 0,
                                    above ? add_literal(r, (int64_t)most) : 0};
        n->ints = add_node(r, KILN_OP_CLIP, input, above ? 3 : 2, NULL, NULL);
    }
    if (below) n->low = (int64_t)least;
    if (above) n->high = (int64_t)most;
    n->size = KILN_MAX(n->high, -n->low);
    forget_beyond(n);
    n->least = -INFINITY;
    n->most = INFINITY;
    return true;
}

/* ---- operators on numbers -------------------------------------------------------------------- */

static void scale(number *n, int exponent) {
    double *const real[] = {&n->fraction, &n->least, &n->most, &n->from,
                            &n->to,       &n->above, &n->below};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(real); i++) *real[i] = ldexp(*real[i], exponent);
    n->exponent -= exponent;
}

/* Shifts all of it, bounds included; a fraction of a unit is added to `fraction`. */
static bool add_number(number *n, double x) {
    const double unit = unit_of(n), sum = n->fraction + x, whole = floor(sum / unit);
    if (sum - x != n->fraction || !(fabs(whole) < INT32_MAX)) return false;
    n->fraction = sum - whole * unit;
    n->plus += (int64_t)whole;
    n->low += (int64_t)whole;
    n->high += (int64_t)whole;
    n->size += (int64_t)fabs(whole);
    double *const real[] = {&n->least, &n->most, &n->from, &n->to, &n->above, &n->below};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(real); i++) *real[i] += x;
    return true;
}

/* Adds constants of channels, which become a bias. */
static bool add_channels(rewriter *r, number *n, const kiln_value_info *constant) {
    const double unit = unit_of(n);
    double low = INFINITY, high = -INFINITY;
    kiln_tensor bias = kiln_tensor_create(r->graph->arena, KILN_I32, &constant->shape);
    if (isfinite(n->least) || isfinite(n->most)) return false;
    for (int64_t i = 0; i < kiln_shape_count(&constant->shape); i++) {
        const double x = element_of(constant, i);
        if (!(fabs(x / unit) < INT32_MAX) || fmod(x, unit) != 0) return false;
        ((int32_t *)bias.data)[i] = (int32_t)(x / unit);
        low = KILN_MIN(low, x);
        high = KILN_MAX(high, x);
    }
    if (n->bias) settle(r, n);
    if (r->apply) n->bias = add_constant(r, &bias);
    n->low += (int64_t)(low / unit);
    n->high += (int64_t)(high / unit);
    n->size += (int64_t)(KILN_MAX(fabs(low), fabs(high)) / unit);
    n->from += low;
    n->above += low;
    n->to += high;
    n->below += high;
    return true;
}

/* Rescales it to the smaller unit 2^-exponent. */
static bool refine(rewriter *r, number *n, int exponent) {
    const int by = exponent - n->exponent;
    if (by == 0) return true;
    if (by > SHIFT_MAX || n->fraction != 0 || n->size > INT32_MAX >> by) return false;
    settle(r, n);
    n->ints = add_shift(r, n->ints, by, "LEFT");
    n->low *= (int64_t)1 << by;
    n->high *= (int64_t)1 << by;
    n->size *= (int64_t)1 << by;
    n->exponent = exponent;
    return true;
}

/* Adds two computed numbers; at most one has wide integers. */
static bool add_numbers(rewriter *r, number *a, number *b, number *out) {
    const int exponent = KILN_MAX(a->exponent, b->exponent);
    if (!apply_cut(r, a) || !apply_cut(r, b) || (is_wide(a) && is_wide(b)) || a->fraction != 0 ||
        b->fraction != 0 || !refine(r, a, exponent) || !refine(r, b, exponent))
        return false;
    if (b->bias && !a->bias) {
        number *const swap = a;
        a = b;
        b = swap;
    }
    settle(r, b);
    if (a->addend) settle(r, a);
    *out = *a;
    out->addend = b->ints;
    out->low += b->low;
    out->high += b->high;
    out->size += b->size;
    out->from += b->from;
    out->to += b->to;
    out->above = KILN_MIN(a->above + b->from, b->above + a->from);
    out->below = KILN_MAX(a->below + b->to, b->below + a->to);
    return true;
}

static double rounded(double x, bool nearest) { return nearest ? rint(x) : floor(x); }

/* Rounds to whole numbers: down, or to the nearest if there are no halves. So are the bounds, which
 * may be halves. */
static bool make_whole(rewriter *r, number *n, bool nearest) {
    const int by = n->exponent;
    const double least = rounded(n->least, nearest), most = rounded(n->most, nearest);
    if (by <= 0 && (n->fraction != 0 || !refine(r, n, 0))) return false;
    if (by > 0) {
        if (nearest && (n->fraction == 0 || !add_number(n, 0.5))) return false;
        if (n->size > INT32_MAX) return false;
        settle(r, n);
        n->ints = add_shift(r, n->ints, by, "RIGHT");
        n->low >>= by;
        n->high >>= by;
        n->size = KILN_MAX(n->high, -n->low);
        n->exponent = 0;
        n->fraction = 0;
        double *const real[] = {&n->from, &n->to, &n->above, &n->below};
        for (size_t i = 0; i < KILN_ARRAY_COUNT(real); i++) *real[i] = floor(*real[i]);
    }
    n->least = least;
    n->most = most;
    return true;
}

/* ---- values as numbers ----------------------------------------------------------------------- */

/* Integers times 2^exponent, converted to i32. */
static bool describe_integers(rewriter *r, kiln_value ints, int64_t zero, int exponent,
                              number *out) {
    const kiln_dtype dtype = value_of(r, ints)->dtype;
    const kiln_dtype_kind kind = kiln_dtype_kind_of(dtype);
    if ((kind != KILN_KIND_INT && kind != KILN_KIND_UINT) || kiln_dtype_size(dtype) > 4 ||
        dtype == KILN_U32)
        return false;
    const range all = range_of(r, ints, 0);
    const kiln_node_info *sum = producer_of(r, ints);
    *out = (number){.ints = ints,
                    .low = all.low,
                    .high = all.high,
                    .size = KILN_MAX(all.high, -all.low),
                    .least = -INFINITY,
                    .most = INFINITY,
                    .from = KILN_MAX((double)all.low, -r->limit),
                    .to = KILN_MIN((double)all.high, r->limit),
                    .above = (double)all.high > r->limit ? r->limit : INFINITY,
                    .below = (double)all.low < -r->limit ? -r->limit : -INFINITY};
    if (dtype != KILN_I32)
        out->ints = add_node(r, KILN_OP_CAST, &ints, 1, "to", kiln_dtype_name(KILN_I32));
    else if (sum->op == KILN_OP_ADD && reads_alone(r, ints) &&
             kiln_value_is_constant(r->graph, sum->input[1]) &&
             kiln_shape_equal(&value_of(r, sum->input[0])->shape, &value_of(r, ints)->shape)) {
        const range rest = range_of(r, sum->input[0], 0),
                    bias = range_of_constant(value_of(r, sum->input[1]));
        out->ints = sum->input[0];
        out->bias = sum->input[1];
        out->size = KILN_MAX(rest.high, -rest.low) + KILN_MAX(bias.high, -bias.low);
    }
    if (!add_number(out, -(double)zero)) return false;
    scale(out, exponent);
    return true;
}

static double bound_of(const rewriter *r, const kiln_node_info *clip, uint32_t input,
                       double otherwise) {
    if (input >= clip->input_count || !clip->input[input]) return otherwise;
    return kiln_value_is_literal(r->graph, clip->input[input])
               ? element_of(value_of(r, clip->input[input]), 0)
               : (double)NAN;
}

static bool describe(rewriter *r, kiln_value value, int depth, number *out);

static bool describe_sum(rewriter *r, const kiln_node_info *node, int depth, number *out) {
    const kiln_shape *shape = &value_of(r, node->output[0])->shape;
    const uint32_t side = kiln_value_is_constant(r->graph, node->input[0]) ? 0 : 1;
    const kiln_value constant = node->input[side], rest = node->input[1 - side];
    number a, b;
    if (!kiln_shape_equal(&value_of(r, rest)->shape, shape) || !describe(r, rest, depth, &a))
        return false;
    if (!kiln_value_is_constant(r->graph, constant))
        return kiln_shape_equal(&value_of(r, constant)->shape, shape) &&
               describe(r, constant, depth, &b) && add_numbers(r, &a, &b, out);
    *out = a;
    return kiln_value_is_literal(r->graph, constant)
               ? add_number(out, element_of(value_of(r, constant), 0))
               : add_channels(r, out, value_of(r, constant));
}

static bool describe_product(rewriter *r, const kiln_node_info *node, int depth, number *out) {
    const uint32_t side = kiln_value_is_constant(r->graph, node->input[0]) ? 0 : 1;
    const kiln_value rest = node->input[1 - side];
    int exponent;
    if (!is_power_of_two(r, node->input[side], &exponent) ||
        !kiln_shape_equal(&value_of(r, rest)->shape, &value_of(r, node->output[0])->shape) ||
        !describe(r, rest, depth, out))
        return false;
    scale(out, exponent);
    return true;
}

static bool describe_node(rewriter *r, const kiln_node_info *node, int depth, number *out) {
    int64_t zero = 0;
    int exponent = 0;
    switch ((int)node->op) {
    case KILN_OP_CAST: return describe_integers(r, node->input[0], 0, 0, out);
    case KILN_OP_DEQUANTIZE_LINEAR:
        return is_power_of_two(r, node->input[1], &exponent) && find_zero(r, node, &zero) &&
               describe_integers(r, node->input[0], zero, exponent, out);
    case KILN_OP_MUL: return describe_product(r, node, depth, out);
    case KILN_OP_ADD: return describe_sum(r, node, depth, out);
    case KILN_OP_RELU:
        return describe(r, node->input[0], depth, out) && cut_number(out, 0, INFINITY);
    case KILN_OP_CLIP:
        return describe(r, node->input[0], depth, out) &&
               cut_number(out, bound_of(r, node, 1, -INFINITY), bound_of(r, node, 2, INFINITY));
    case KILN_OP_FLOOR: return describe(r, node->input[0], depth, out) && make_whole(r, out, false);
    case KILN_OP_ROUND: return describe(r, node->input[0], depth, out) && make_whole(r, out, true);
    default: return false;
    }
}

/* Whether `value` is a number without other readers, or bytes, which are in memory anyway. */
static bool describe(rewriter *r, kiln_value value, int depth, number *out) {
    const kiln_node_info *node = producer_of(r, value);
    if (depth == DEPTH_MAX || value_of(r, value)->dtype != KILN_F32 || node->op == KILN_OP_NONE)
        return false;
    const bool bytes = (node->op == KILN_OP_CAST || node->op == KILN_OP_DEQUANTIZE_LINEAR) &&
                       kiln_dtype_size(value_of(r, node->input[0])->dtype) == 1;
    return (bytes || reads_alone(r, value)) && describe_node(r, node, depth + 1, out) &&
           is_exact(out);
}

/* ---- quantisations --------------------------------------------------------------------------- */

/* The integers that `node` makes of floats, as an i32 within their type. */
static bool describe_result(rewriter *r, const kiln_node_info *node, number *out) {
    const kiln_dtype dtype = value_of(r, node->output[0])->dtype;
    int64_t zero = 0, least, most;
    int exponent = 0;
    if ((kiln_dtype_kind_of(dtype) != KILN_KIND_INT &&
         kiln_dtype_kind_of(dtype) != KILN_KIND_UINT) ||
        kiln_dtype_size(dtype) > 2)
        return false;
    if (node->op == KILN_OP_QUANTIZE_LINEAR) {
        if (!is_power_of_two(r, node->input[1], &exponent) || !find_zero(r, node, &zero) ||
            !describe(r, node->input[0], 0, out))
            return false;
        scale(out, -exponent);
        if (!is_exact(out) || !make_whole(r, out, true)) return false;
        kiln_quantize_range(node, dtype, &least, &most);
    } else {
        if (node->op != KILN_OP_CAST || !describe(r, node->input[0], 0, out)) return false;
        if (out->exponent > 0 || !make_whole(r, out, false)) return false;
        least = range_of_dtype(dtype).low, most = range_of_dtype(dtype).high;
    }
    return add_number(out, (double)zero) && cut_number(out, (double)least, (double)most) &&
           apply_cut(r, out) && !is_wide(out);
}

static void rewrite(rewriter *r, kiln_node n) {
    kiln_graph *g = r->graph;
    number result;
    bool found = false;
    r->root = n;
    for (int bits = LIMIT_BITS_MOST; !found && bits >= LIMIT_BITS_LEAST; bits--) {
        r->apply = false;
        r->limit = ldexp(1, bits) - 1;
        found = describe_result(r, &g->node.data[n], &result);
    }
    if (!found) return;
    const kiln_dtype dtype = value_of(r, g->node.data[n].output[0])->dtype;
    r->apply = true;
    const kiln_node_info node = g->node.data[n]; /* nodes move while some are added */
    KILN_CHECK(describe_result(r, &node, &result) || r->st);
    if (r->st) return;
    kiln_node_info *root = &g->node.data[n];
    root->op = KILN_OP_CAST;
    root->attr_count = 0;
    root->input_count = 1;
    kiln_graph_set_input(g, n, 0, result.ints);
    kiln_graph_set_attr(g, n,
                        &(kiln_attr){.name = KILN_STR("to"),
                                     .kind = KILN_ATTR_TEXT,
                                     .text = kiln_str_from(kiln_dtype_name(dtype))});
}

/* Whether the node makes integers of floats. */
static bool may_be_root(const kiln_graph *graph, const kiln_node_info *node) {
    return node->op == KILN_OP_QUANTIZE_LINEAR ||
           (node->op == KILN_OP_CAST && graph->value.data[node->input[0]].dtype == KILN_F32);
}

kiln_status kiln_pass_integers(kiln_graph *graph) {
    const uint32_t nodes = graph->node.count;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    rewriter r = {.graph = graph,
                  .values = graph->value.count,
                  .known = KILN_ARENA_ARRAY(&scratch, range, graph->value.count),
                  .uses = kiln_graph_count_uses(graph, &scratch)};
    for (kiln_value v = 0; v < r.values; v++) r.known[v] = (range){1, 0};
    kiln_vec_push(&r.order, 0);
    for (kiln_node n = 1; !r.st && n < nodes; n++) {
        if (may_be_root(graph, &graph->node.data[n])) rewrite(&r, n);
        kiln_vec_push(&r.order, n);
    }
    if (!r.st && graph->node.count > nodes) kiln_graph_reorder(graph, r.order.data);
    kiln_vec_deinit(&r.order);
    kiln_arena_deinit(&scratch);
    return r.st;
}
