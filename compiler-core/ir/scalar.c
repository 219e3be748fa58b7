#include "compiler-core/ir/scalar.h"

#include <math.h>

#include "base/check.h"

static int64_t truncdiv(int64_t a, int64_t b) {
    if (b == 0) return 0;
    return b == -1 ? kiln_wrap_sub(0, a) : a / b;
}

static int64_t truncrem(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

static int64_t integer_pow(int64_t base, int64_t exponent) {
    if (exponent < 0) {
        if (base == 1) return 1;
        if (base == -1) return exponent % 2 ? -1 : 1;
        return 0;
    }
    int64_t result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result = kiln_wrap_mul(result, base);
        base = kiln_wrap_mul(base, base);
    }
    return result;
}

/* A shift by a negative amount or by the width or more gives 0. */
static int64_t shift_left(int64_t a, int64_t amount, int64_t width) {
    return amount < 0 || amount >= width ? 0 : (int64_t)((uint64_t)a << amount);
}

static int64_t shift_right(int64_t a, int64_t amount, int64_t width, bool is_unsigned) {
    if (amount < 0 || amount >= width) return 0;
    return is_unsigned ? (int64_t)((uint64_t)a >> amount) : a >> amount;
}

static int64_t count_ones(int64_t a, int64_t width) {
    int64_t count = 0;
    for (int64_t i = 0; i < width; i++) count += (int64_t)((uint64_t)a >> i & 1);
    return count;
}

static bool less(kiln_dtype dtype, kiln_scalar a, kiln_scalar b) {
    if (kiln_dtype_is_float(dtype)) return a.f < b.f;
    return dtype == KILN_U64 ? (uint64_t)a.i < (uint64_t)b.i : a.i < b.i;
}

static bool equal(kiln_dtype dtype, kiln_scalar a, kiln_scalar b) {
    return kiln_dtype_is_float(dtype) ? a.f == b.f : a.i == b.i;
}

/* Division of u64 values above INT64_MAX needs its own operators; all other dtypes fit int64. */
static int64_t divide(kiln_expr_op op, kiln_dtype dtype, int64_t a, int64_t b) {
    if (dtype == KILN_U64) {
        if (b == 0) return 0;
        bool quotient = op == KILN_EXPR_DIV || op == KILN_EXPR_FLOORDIV;
        return (int64_t)(quotient ? (uint64_t)a / (uint64_t)b : (uint64_t)a % (uint64_t)b);
    }
    if (op == KILN_EXPR_DIV) return truncdiv(a, b);
    if (op == KILN_EXPR_REM) return truncrem(a, b);
    return op == KILN_EXPR_FLOORDIV ? kiln_floordiv(a, b) : kiln_floormod(a, b);
}

static int64_t integer_apply(kiln_expr_op op, kiln_dtype dtype, const kiln_scalar *v) {
    int64_t a = v[0].i;
    int64_t width = 8 * (int64_t)kiln_dtype_size(dtype);
    bool is_unsigned = kiln_dtype_kind_of(dtype) == KILN_KIND_UINT;
    switch (op) {
    case KILN_EXPR_ADD: return kiln_wrap_add(a, v[1].i);
    case KILN_EXPR_SUB: return kiln_wrap_sub(a, v[1].i);
    case KILN_EXPR_MUL: return kiln_wrap_mul(a, v[1].i);
    case KILN_EXPR_DIV:
    case KILN_EXPR_REM:
    case KILN_EXPR_FLOORDIV:
    case KILN_EXPR_FLOORMOD: return divide(op, dtype, a, v[1].i);
    case KILN_EXPR_MIN: return less(dtype, v[1], v[0]) ? v[1].i : a;
    case KILN_EXPR_MAX: return less(dtype, v[0], v[1]) ? v[1].i : a;
    case KILN_EXPR_POW: return integer_pow(a, v[1].i);
    case KILN_EXPR_AND: return a & v[1].i;
    case KILN_EXPR_OR: return a | v[1].i;
    case KILN_EXPR_XOR: return a ^ v[1].i;
    case KILN_EXPR_SHL: return shift_left(a, v[1].i, width);
    case KILN_EXPR_SHR: return shift_right(a, v[1].i, width, is_unsigned);
    case KILN_EXPR_NOT: return dtype == KILN_BOOL ? !a : ~a;
    case KILN_EXPR_NEG: return kiln_wrap_sub(0, a);
    case KILN_EXPR_ABS: return a < 0 && !is_unsigned ? kiln_wrap_sub(0, a) : a;
    case KILN_EXPR_FLOOR:
    case KILN_EXPR_CEIL:
    case KILN_EXPR_ROUND: return a;
    case KILN_EXPR_POPCOUNT: return count_ones(a, width);
    default: break;
    }
    kiln_check_failed("operator has an integer form", __FILE__, __LINE__);
}

static double float_floormod(double a, double b) {
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static double float_apply(kiln_expr_op op, const kiln_scalar *v) {
    double a = v[0].f;
    switch (op) {
    case KILN_EXPR_ADD: return a + v[1].f;
    case KILN_EXPR_SUB: return a - v[1].f;
    case KILN_EXPR_MUL: return a * v[1].f;
    case KILN_EXPR_DIV: return a / v[1].f;
    case KILN_EXPR_REM: return fmod(a, v[1].f);
    case KILN_EXPR_FLOORMOD: return float_floormod(a, v[1].f);
    case KILN_EXPR_MIN: return isnan(a) || a < v[1].f ? a : v[1].f;
    case KILN_EXPR_MAX: return isnan(a) || a > v[1].f ? a : v[1].f;
    case KILN_EXPR_POW: return pow(a, v[1].f);
    case KILN_EXPR_NEG: return -a;
    case KILN_EXPR_ABS: return fabs(a);
    case KILN_EXPR_FLOOR: return floor(a);
    case KILN_EXPR_CEIL: return ceil(a);
    case KILN_EXPR_ROUND: return nearbyint(a);
    case KILN_EXPR_SQRT: return sqrt(a);
    case KILN_EXPR_EXP: return exp(a);
    case KILN_EXPR_LOG: return log(a);
    case KILN_EXPR_TANH: return tanh(a);
    case KILN_EXPR_ERF: return erf(a);
    case KILN_EXPR_SIGMOID: return 1 / (1 + exp(-a));
    case KILN_EXPR_SIN: return sin(a);
    case KILN_EXPR_COS: return cos(a);
    case KILN_EXPR_TAN: return tan(a);
    case KILN_EXPR_ASIN: return asin(a);
    case KILN_EXPR_ACOS: return acos(a);
    case KILN_EXPR_ATAN: return atan(a);
    case KILN_EXPR_SINH: return sinh(a);
    case KILN_EXPR_COSH: return cosh(a);
    case KILN_EXPR_ASINH: return asinh(a);
    case KILN_EXPR_ACOSH: return acosh(a);
    case KILN_EXPR_ATANH: return atanh(a);
    case KILN_EXPR_TF32: return kiln_f32_to_tf32((float)a);
    default: break;
    }
    kiln_check_failed("operator has a float form", __FILE__, __LINE__);
}

static kiln_scalar cast(kiln_dtype from, kiln_dtype to, kiln_scalar v) {
    bool from_float = kiln_dtype_is_float(from);
    if (to == KILN_BOOL) return (kiln_scalar){.i = from_float ? v.f != 0 : v.i != 0};
    if (from_float == kiln_dtype_is_float(to)) return kiln_scalar_round(to, v);
    uint64_t cell = 0;
    kiln_scalar r;
    if (from_float) {
        kiln_dtype_store_f64(to, &cell, 0, v.f);
        r.i = kiln_dtype_load_i64(to, &cell, 0);
    } else {
        r.f = from == KILN_U64 ? (double)(uint64_t)v.i : (double)v.i;
        r = kiln_scalar_round(to, r);
    }
    return r;
}

kiln_scalar kiln_scalar_apply(kiln_expr_op op, kiln_dtype from, kiln_dtype to,
                              const kiln_scalar *operand) {
    bool is_float = kiln_dtype_is_float(from);
    switch (op) {
    case KILN_EXPR_LT: return (kiln_scalar){.i = less(from, operand[0], operand[1])};
    case KILN_EXPR_LE:
        return (kiln_scalar){.i = less(from, operand[0], operand[1]) ||
                                  equal(from, operand[0], operand[1])};
    case KILN_EXPR_EQ: return (kiln_scalar){.i = equal(from, operand[0], operand[1])};
    case KILN_EXPR_NE: return (kiln_scalar){.i = !equal(from, operand[0], operand[1])};
    case KILN_EXPR_ISNAN: return (kiln_scalar){.i = is_float && isnan(operand[0].f)};
    case KILN_EXPR_ISINF: return (kiln_scalar){.i = is_float && isinf(operand[0].f)};
    case KILN_EXPR_CAST: return cast(from, to, operand[0]);
    default: break;
    }
    if (is_float) return (kiln_scalar){.f = float_apply(op, operand)};
    kiln_scalar r = {.i = integer_apply(op, from, operand)};
    return from == KILN_I64 || from == KILN_U64 ? r : kiln_scalar_round(from, r);
}

kiln_scalar kiln_scalar_round(kiln_dtype dtype, kiln_scalar value) {
    if (dtype == KILN_INDEX_DTYPE || dtype == KILN_F64)
        return value; /* held as they are; index arithmetic is hot */
    uint64_t cell = 0;
    kiln_scalar_store(dtype, &cell, 0, value);
    return kiln_scalar_load(dtype, &cell, 0);
}

kiln_scalar kiln_scalar_load(kiln_dtype dtype, const void *data, size_t index) {
    if (kiln_dtype_is_float(dtype))
        return (kiln_scalar){.f = kiln_dtype_load_f64(dtype, data, index)};
    return (kiln_scalar){.i = kiln_dtype_load_i64(dtype, data, index)};
}

void kiln_scalar_store(kiln_dtype dtype, void *data, size_t index, kiln_scalar value) {
    if (kiln_dtype_is_float(dtype)) {
        kiln_dtype_store_f64(dtype, data, index, value.f);
    } else {
        kiln_dtype_store_i64(dtype, data, index, dtype == KILN_BOOL ? value.i & 1 : value.i);
    }
}
