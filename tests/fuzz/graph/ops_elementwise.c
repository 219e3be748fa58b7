/* Elementwise operators, and normalisations and reductions of one operand. */
#include <math.h>
#include <string.h>

#include "compiler-core/core.h"
#include "compiler-core/frontend/onnx/dtype.h"
#include "tests/fuzz/graph/rules.h"

/* Opsets before 7 (8 for operators of many operands) broadcast by an attribute or not at all. */
static bool broadcasts(const draw *d) { return opset(d) >= 7; }

bool draw_unary(draw *d) {
    feed_data(d, 0, 5);
    results(d, 1);
    return true;
}

/* Factors of activations: alpha, beta, gamma, bias, lambd; those that the operator has. */
static void set_factors(draw *d, const char *names) {
    kiln_str rest = kiln_str_from(names);
    while (rest.size) {
        const char *name = kiln_str_dup(d->g->arena, kiln_str_cut(&rest, ' '));
        if (chance(d, 50)) set_float(d, name, real(d, 0.125, 2));
    }
}

bool draw_alpha(draw *d) {
    set_factors(d, "alpha");
    return draw_unary(d);
}

bool draw_alpha_gamma(draw *d) {
    set_factors(d, "alpha gamma");
    return draw_unary(d);
}

bool draw_alpha_beta(draw *d) {
    set_factors(d, "alpha beta");
    return draw_unary(d);
}

bool draw_shrink(draw *d) {
    const fuzz_value *x = feed_data(d, 0, 5);
    results(d, 1);
    bool is_float = kiln_dtype_is_float(x->truth.dtype);
    if (chance(d, 70)) set_float(d, "bias", is_float ? real(d, 0, 1) : (double)between(d, 0, 2));
    if (kiln_dtype_kind_of(x->truth.dtype) == KILN_KIND_UINT)
        peer_may_differ(d, "x - bias below 0 is 0 here; in ONNX Runtime it wraps");
    else if (!is_float)
        peer_may_differ(d, "integers are exact here; ONNX Runtime computes them as floats");
    if (chance(d, 70)) set_float(d, "lambd", is_float ? real(d, 0, 1) : (double)between(d, 0, 3));
    return true;
}

bool draw_gelu(draw *d) {
    if (chance(d, 60)) set_text(d, "approximate", word(d, "none tanh"));
    return draw_unary(d);
}

/* Operands with NaN and infinities, which no other operator gets. */
static const fuzz_value *feed_special(draw *d) {
    kiln_dtype dtype = draw_dtype(d, d->types);
    kiln_tensor tensor = draw_tensor(d, dtype, draw_shape(d, 0, 4), -2, 2);
    static const double special[] = {(double)NAN, (double)INFINITY, (double)-INFINITY};
    for (size_t i = 0; i < (size_t)kiln_shape_count(&tensor.shape); i++)
        if (chance(d, 30)) kiln_dtype_store_f64(dtype, tensor.data, i, special[between(d, 0, 2)]);
    uint32_t value = fuzz_graph_add(d->g, FUZZ_INPUT, &tensor);
    feed_same(d, &d->g->value[value]);
    return &d->g->value[value];
}

bool draw_is_nan(draw *d) {
    feed_special(d);
    results(d, 1);
    return true;
}

bool draw_is_inf(draw *d) {
    if (chance(d, 40)) set_int(d, "detect_negative", between(d, 0, 1));
    if (chance(d, 40)) set_int(d, "detect_positive", between(d, 0, 1));
    return draw_is_nan(d);
}

/* ---- two operands ---------------------------------------------------------------------------- */

/* Before opset 7: a second operand of the same shape, or one that `broadcast` and `axis` align. */
static void feed_second(draw *d, const fuzz_value *x, double low, double high) {
    kiln_shape shape = x->truth.shape;
    if (broadcasts(d)) {
        feed_broadcast(d, x->truth.dtype, shape, true, low, high);
        return;
    }
    if (shape.rank && chance(d, 50)) {
        uint32_t axis = (uint32_t)between(d, 0, shape.rank - 1),
                 rank = (uint32_t)between(d, 1, shape.rank - axis);
        memmove(shape.dim, shape.dim + axis, sizeof shape.dim[0] * rank);
        set_int(d, "broadcast", 1);
        if (axis + rank != shape.rank || chance(d, 50)) set_int(d, "axis", axis);
        shape.rank = rank;
    }
    feed_of(d, x->truth.dtype, shape, low, high);
}

bool draw_binary(draw *d) {
    feed_second(d, feed_data(d, 0, 5), d->rule->low, d->rule->high);
    results(d, 1);
    return true;
}

/* Divisors stay away from zero. */
bool draw_div(draw *d) {
    const fuzz_value *x = feed_data(d, 0, 5);
    bool negative = chance(d, 30) && kiln_dtype_kind_of(x->truth.dtype) != KILN_KIND_UINT;
    if (kiln_dtype_is_float(x->truth.dtype))
        feed_second(d, x, negative ? -4 : 0.25, negative ? -0.25 : 4);
    else
        feed_second(d, x, negative ? -9 : 1, negative ? -1 : 9);
    results(d, 1);
    return true;
}

bool draw_mod(draw *d) {
    const fuzz_value *x = feed(d, &(wanted){d->types, 0, 5, -100, 100});
    bool is_float = kiln_dtype_is_float(x->truth.dtype);
    bool negative = chance(d, 30) && kiln_dtype_kind_of(x->truth.dtype) != KILN_KIND_UINT;
    if (is_float || chance(d, 40)) set_int(d, "fmod", 1);
    feed_second(d, x, negative ? -9 : is_float ? 0.5 : 1, negative ? (is_float ? -0.5 : -1) : 9);
    results(d, 1);
    return true;
}

bool draw_pow(draw *d) {
    const fuzz_value *x = feed(d, &(wanted){d->types & (FLOATS | INDICES), 0, 5, 0.25, 6});
    bool is_float = kiln_dtype_is_float(x->truth.dtype);
    if (opset(d) >= 12 && chance(d, 30)) {
        kiln_dtype other = draw_dtype(d, T_(F32) | T_(F64) | INDICES);
        feed_broadcast(d, other, x->truth.shape, true,
                       kiln_dtype_is_float(other) && is_float ? -2 : 0, 3);
    } else {
        feed_second(d, x, is_float ? -2 : 0, 3);
    }
    results(d, 1);
    return true;
}

bool draw_bit_shift(draw *d) {
    const fuzz_value *x = feed(d, &(wanted){UNSIGNED, 0, 5, 0, 0});
    set_text(d, "direction", word(d, "LEFT RIGHT"));
    feed_broadcast(d, x->truth.dtype, x->truth.shape, true, 0,
                   (double)(8 * kiln_dtype_size(x->truth.dtype) - 1));
    results(d, 1);
    return true;
}

bool draw_prelu(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 4);
    kiln_shape shape = x->truth.shape;
    if (opset(d) < 7) { /* a slope, or one per channel */
        if (shape.rank < 2) return false;
        feed_of(d, x->truth.dtype, (kiln_shape){1, {chance(d, 50) ? 1 : shape.dim[1]}}, -2, 2);
    } else {
        feed_broadcast(d, x->truth.dtype, shape, false, -2, 2);
    }
    results(d, 1);
    return true;
}

bool draw_variadic(draw *d) {
    const fuzz_value *x = feed_data(d, 0, 4);
    for (int64_t more = between(d, 0, 3); more > 0; more--) {
        if (opset(d) >= 8)
            feed_broadcast(d, x->truth.dtype, x->truth.shape, false, 0, 0);
        else
            feed_of(d, x->truth.dtype, x->truth.shape, 0, 0);
    }
    results(d, 1);
    return true;
}

bool draw_where(draw *d) {
    kiln_dtype dtype = draw_dtype(d, ANY);
    const fuzz_value *x = NULL;
    kiln_shape shape = draw_shape(d, 0, 5);
    feed_broadcast(d, KILN_BOOL, shape, false, 0, 0);
    x = feed_broadcast(d, dtype, shape, false, 0, 0);
    feed_broadcast(d, x->truth.dtype, shape, true, 0, 0);
    results(d, 1);
    return true;
}

bool draw_clip(draw *d) {
    const fuzz_value *x = feed_data(d, 0, 5);
    kiln_dtype dtype = x->truth.dtype;
    double low = (double)between(d, -3, 0), high = (double)between(d, 1, 5);
    bool has_low = chance(d, 70), has_high = chance(d, 70);
    results(d, 1);
    if (kiln_dtype_kind_of(dtype) == KILN_KIND_UINT) low = 0;
    if (opset(d) >= 11) {
        if (has_low)
            feed_scalar(d, dtype, low);
        else if (has_high)
            feed_nothing(d);
        if (has_high) feed_scalar(d, dtype, high);
        return true;
    }
    if (!kiln_dtype_is_float(dtype)) return false;
    if (has_low) set_float(d, "min", low);
    if (has_high) set_float(d, "max", high);
    return true;
}

/* ---- types ----------------------------------------------------------------------------------- */

/* Types that every opset of Cast knows come first. */
static kiln_dtype draw_target(draw *d, const fuzz_value *x) {
    uint32_t types = ANY | SMALL_FLOATS;
    if (opset(d) < 13) types &= ~T_(BF16);
    if (opset(d) < 19) types &= ~SMALL_FLOATS;
    /* Floats beyond an integer's range have no defined result (Cast, "Out of range"). */
    if (x->low < 0) types &= ~UNSIGNED;
    if (x->low < -128 || x->high > 127) types &= ~(T_(I8) | T_(U8));
    if (x->low < -30000 || x->high > 30000) types &= ~(T_(I16) | T_(U16) | T_(F16));
    return draw_dtype(d, types);
}

/* What is cast. Other operators do not take the smallest floats. */
static const fuzz_value *feed_source(draw *d) {
    if (opset(d) >= 19) d->types |= SMALL_FLOATS;
    return feed_data(d, 0, 5);
}

bool draw_cast(draw *d) {
    const fuzz_value *x = feed_source(d);
    set_int(d, "to", kiln_onnx_dtype_number(draw_target(d, x)));
    results(d, 1);
    return true;
}

bool draw_cast_like(draw *d) {
    const fuzz_value *x = feed_source(d);
    feed_of(d, draw_target(d, x), draw_shape(d, 0, 2), 0, 0);
    results(d, 1);
    return true;
}

bool draw_bit_cast(draw *d) {
    const fuzz_value *x = feed_data(d, 0, 5);
    uint32_t types = 0;
    for (uint32_t t = 1; t < KILN_DTYPE_COUNT; t++)
        if (kiln_dtype_size((kiln_dtype)t) == kiln_dtype_size(x->truth.dtype) && t != KILN_BOOL &&
            !kiln_dtype_is_float((kiln_dtype)t))
            types |= 1u << t;
    if (x->truth.dtype == KILN_BOOL || !x->exact) return false;
    set_int(d, "to", kiln_onnx_dtype_number(draw_dtype(d, types)));
    results(d, 1);
    return true;
}

/* ---- reductions ------------------------------------------------------------------------------ */

bool draw_reduce(draw *d) {
    bool is_sum = strcmp(d->rule->name, "ReduceSum") == 0,
         by_input = opset(d) >= (is_sum ? 13 : 18);
    wanted w = {d->types, 0, 5, d->rule->low, d->rule->high};
    const fuzz_value *x = feed(d, &w);
    int64_t axes[KILN_RANK_MAX];
    uint32_t rank = x->truth.shape.rank, count = 0;
    for (uint32_t a = 0; a < rank; a++)
        if (chance(d, 50)) axes[count++] = opset(d) >= 11 && chance(d, 30) ? (int64_t)a - rank : a;
    if (chance(d, 50)) set_int(d, "keepdims", between(d, 0, 1));
    if (by_input && chance(d, 30)) set_int(d, "noop_with_empty_axes", between(d, 0, 1));
    if (by_input && (count || chance(d, 30))) feed_ints(d, axes, count);
    if (!by_input && count) set_ints(d, "axes", axes, count);
    if (!kiln_dtype_is_float(x->truth.dtype) && fmax(x->high, -x->low) > 1000)
        peer_may_differ(d, "integers that overflow wrap here; ONNX Runtime sums some in floats");
    results(d, 1);
    return true;
}

bool draw_arg_reduce(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 5);
    if (chance(d, 70)) set_int(d, "axis", draw_axis(d, x->truth.shape.rank));
    if (chance(d, 50)) set_int(d, "keepdims", between(d, 0, 1));
    if (opset(d) >= 12 && chance(d, 30)) set_int(d, "select_last_index", between(d, 0, 1));
    results(d, 1);
    return true;
}

bool draw_cumulate(draw *d) {
    const fuzz_value *x =
        feed(d, &(wanted){d->types & (FLOATS | T_(I32) | T_(I64) | T_(U32) | T_(U64)), 1, 4,
                          d->rule->low, d->rule->high});
    feed_int(d, draw_axis(d, x->truth.shape.rank));
    if (chance(d, 40)) set_int(d, "exclusive", between(d, 0, 1));
    if (chance(d, 40)) set_int(d, "reverse", between(d, 0, 1));
    results(d, 1);
    return true;
}

bool draw_top_k(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 4);
    const kiln_shape *shape = &x->truth.shape;
    int64_t axis = draw_axis(d, shape->rank), at = axis < 0 ? axis + shape->rank : axis;
    if (axis != -1 || chance(d, 50)) set_int(d, "axis", axis);
    feed_ints(d, (int64_t[]){between(d, 1, shape->dim[at])}, 1);
    if (opset(d) >= 11 && chance(d, 40)) set_int(d, "largest", between(d, 0, 1));
    if (opset(d) >= 11 && chance(d, 30)) set_int(d, "sorted", 1);
    results(d, 2);
    return true;
}

bool draw_softmax(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 5);
    if (opset(d) < 13 && x->truth.shape.rank < 2)
        set_int(d, "axis", 0); /* 1 would be the default */
    else if (chance(d, 70))
        set_int(d, "axis", draw_axis(d, x->truth.shape.rank));
    results(d, 1);
    return true;
}

bool draw_lp_norm(draw *d) {
    const fuzz_value *x = feed_data(d, 1, 5);
    if (chance(d, 70)) set_int(d, "axis", draw_axis(d, x->truth.shape.rank));
    if (chance(d, 70)) set_int(d, "p", between(d, 1, 2));
    results(d, 1);
    return true;
}
