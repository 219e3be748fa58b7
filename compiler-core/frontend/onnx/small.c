/* Floats of at most 8 bits: casts to them, and quantisations to and from them. They are arithmetic
 * on floats, so nothing else needs to know these types
 * (docs/decisions/0164-floats-of-eight-bits.md). */
#include "base/small_float.h"
#include "compiler-core/frontend/onnx/compose.h"
#include "compiler-core/frontend/onnx/dtype.h"

#include <float.h>
#include <math.h>

static kiln_value binary(kiln_composer *c, kiln_op op, kiln_value a, kiln_value b) {
    return kiln_compose_binary(c, op, a, b);
}

static kiln_value scalar(kiln_composer *c, kiln_value like, double value) {
    return c->st ? 0 : kiln_compose_scalar(c, kiln_compose_dtype(c, like), value);
}

/* ---- casts ----------------------------------------------------------------------------------- */

static kiln_value clip(kiln_composer *c, kiln_value x, double low, double high) {
    const kiln_value operand[] = {x, scalar(c, x, low), scalar(c, x, high)};
    kiln_value result = 0;
    kiln_compose_node(c, KILN_OP_CLIP, operand, 3, NULL, 0, &result, 1);
    return result;
}

/* `yes` where `a` is less than `b`, else `no`. */
static kiln_value where_less(kiln_composer *c, kiln_value a, kiln_value b, kiln_value yes,
                             kiln_value no) {
    return kiln_compose_where(c, binary(c, KILN_OP_LESS, a, b), yes, no);
}

/* The nearest power of two is half or twice the one that is asked for, or that one. */
static kiln_value directed(kiln_composer *c, kiln_value x, kiln_dtype dtype, bool up) {
    const kiln_value code = kiln_compose_cast(c, x, dtype);
    if (c->st) return 0;
    const kiln_value near = kiln_compose_cast(c, code, kiln_compose_dtype(c, x)),
                     other = binary(c, KILN_OP_MUL, near, scalar(c, x, up ? 2 : 0.5));
    return up ? where_less(c, near, x, other, near) : where_less(c, x, near, other, near);
}

/* To a format without a sign. The cast rounds to nearest, gives the smallest number for all below
 * it, and NaN for what is too large. */
static kiln_value to_power(kiln_composer *c, kiln_value x, kiln_dtype dtype, bool saturate) {
    const kiln_str mode = kiln_import_text(c->im, "round_mode", "up");
    const kiln_small_float *format = kiln_small_float_of(dtype);
    const double least = (double)kiln_small_to_f32(format, 0),
                 most = kiln_small_float_largest(format);
    const bool up = kiln_str_is(mode, "up"), down = kiln_str_is(mode, "down");
    if (!up && !down && !kiln_str_is(mode, "nearest")) {
        kiln_compose_fail(c, KILN_ERROR(INVALID_ARGUMENT,
                                        "attribute round_mode is up, down or nearest, not '%.*s'",
                                        KILN_STR_ARG(mode)));
        return 0;
    }
    if (saturate) {
        x = binary(c, KILN_OP_MIN, x, scalar(c, x, most));
    } else {
        if (down) { /* numbers above the largest one, below twice of it */
            const kiln_value cut = binary(c, KILN_OP_MIN, x, scalar(c, x, most));
            x = where_less(c, x, scalar(c, x, (double)INFINITY), cut, x);
        }
        x = where_less(c, x, scalar(c, x, least), scalar(c, x, (double)NAN), x);
    }
    return kiln_compose_cast(c, up || down ? directed(c, x, dtype, up) : x, dtype);
}

kiln_value kiln_compose_small(kiln_composer *c, kiln_value x, kiln_dtype dtype) {
    const kiln_small_float *format = kiln_small_float_of(dtype);
    const bool saturate = kiln_import_int(c->im, "saturate", 1) != 0;
    if (c->st) return 0;
    const kiln_dtype from = kiln_compose_dtype(c, x);
    if (from == dtype) return kiln_compose_unary(c, KILN_OP_IDENTITY, x);
    if (from != KILN_F64) x = kiln_compose_cast(c, x, KILN_F32);
    if (!kiln_small_float_sign(format)) return to_power(c, x, dtype, saturate);
    const double most = kiln_small_float_largest(format);
    if (saturate && format->above != format->largest) x = clip(c, x, -most, most);
    return kiln_compose_cast(c, x, dtype);
}

/* ---- quantisations --------------------------------------------------------------------------- */

/* What an attribute that names a type says, or `otherwise`. */
static kiln_dtype type_of(kiln_composer *c, const char *name, kiln_dtype otherwise) {
    kiln_dtype dtype = otherwise;
    const int64_t number = kiln_import_int(c->im, name, 0);
    if (number && (!kiln_onnx_dtype_find(number, &dtype) || !kiln_dtype_is_float(dtype) ||
                   kiln_small_float_of(dtype)))
        kiln_compose_fail(c, KILN_ERROR(UNIMPLEMENTED, "attribute %s: type %lld is not supported",
                                        name, (long long)number));
    return dtype;
}

/* An input as numbers of that type, broadcast along input 0. */
static kiln_value granules(kiln_composer *c, uint32_t input, kiln_dtype dtype) {
    return kiln_compose_granules(c, kiln_compose_cast(c, kiln_import_input(c->im, input), dtype));
}

/* Zero points of such types are 0 nearly always. */
static bool has_zero_point(const kiln_importer *im) {
    const kiln_value zero = kiln_import_input(im, 2);
    if (!zero) return false;
    const kiln_value_info *info = &im->graph->value.data[zero];
    if (!kiln_value_is_constant(im->graph, zero)) return true;
    for (int64_t i = 0; i < kiln_shape_count(&info->shape); i++)
        if (kiln_dtype_load_f64(info->dtype, info->data, (size_t)i) != 0) return true;
    return false;
}

/* x / scale + zero, cast. The division is in the scale's type, or the one that precision names. */
kiln_status kiln_import_quantize_small(kiln_importer *im, kiln_dtype dtype) {
    kiln_composer c = {.im = im};
    kiln_value x = kiln_import_input(im, 0);
    const kiln_dtype scale = kiln_compose_dtype(&c, kiln_import_input(im, 1));
    const kiln_dtype precision =
        type_of(&c, "precision", kiln_small_float_of(scale) ? kiln_compose_dtype(&c, x) : scale);
    x = kiln_compose_cast(&c, x, precision);
    x = binary(&c, KILN_OP_DIV, x, granules(&c, 1, precision));
    if (has_zero_point(im)) x = binary(&c, KILN_OP_ADD, x, granules(&c, 2, precision));
    x = kiln_compose_small(&c, x, dtype);
    kiln_compose_define(&c, 0, x);
    if (!c.st) kiln_import_set_bits(im, x, kiln_onnx_dtype_bits(dtype));
    return c.st;
}

/* (x - zero) * scale, in the result's type. */
kiln_status kiln_import_dequantize_small(kiln_importer *im) {
    kiln_composer c = {.im = im};
    const kiln_value zero = kiln_import_input(im, 2);
    const kiln_dtype from = kiln_compose_dtype(&c, kiln_import_input(im, 0)),
                     scale = kiln_compose_dtype(&c, kiln_import_input(im, 1));
    const kiln_dtype dtype = type_of(&c, "output_dtype", scale);
    if (zero && kiln_compose_dtype(&c, zero) != from)
        return KILN_ERROR(INVALID_ARGUMENT, "elements of type %s with a zero point of type %s",
                          kiln_dtype_name(from), kiln_dtype_name(kiln_compose_dtype(&c, zero)));
    if (!c.st && kiln_small_float_of(dtype))
        return KILN_ERROR(UNIMPLEMENTED,
                          "a result of type %s; attribute output_dtype names "
                          "another",
                          kiln_dtype_name(dtype));
    kiln_value x = kiln_compose_cast(&c, kiln_import_input(im, 0), dtype);
    if (has_zero_point(im)) x = binary(&c, KILN_OP_SUB, x, granules(&c, 2, dtype));
    kiln_compose_define(&c, 0, binary(&c, KILN_OP_MUL, x, granules(&c, 1, dtype)));
    return c.st;
}
