/* Types, short forms and tables of known values for the walk. */
#include <string.h>

#include "base/check.h"
#include "base/small_float.h"
#include "compiler-core/codegen/walk.h"

/* ---- types ----------------------------------------------------------------------------------- */

kiln_ssa_type kiln_type_scalar(kiln_ssa_scalar scalar) { return (kiln_ssa_type){.scalar = scalar}; }
kiln_ssa_type kiln_type_vector(kiln_ssa_scalar scalar, uint32_t lanes) {
    return (kiln_ssa_type){.scalar = scalar, .lanes = lanes};
}
kiln_ssa_type kiln_type_like(kiln_walk *w, kiln_ssa v, kiln_ssa_scalar scalar) {
    return kiln_type_vector(scalar, kiln_walk_type(w, v).lanes);
}

kiln_ssa_scalar kiln_scalar_in_memory(kiln_dtype dtype) {
    if (dtype == KILN_F32) return KILN_SSA_F32;
    if (dtype == KILN_F64) return KILN_SSA_F64;
    if (dtype == KILN_F16) return KILN_SSA_F16;
    size_t bytes = kiln_dtype_size(dtype);
    return bytes == 1   ? KILN_SSA_I8
           : bytes == 2 ? KILN_SSA_I16
           : bytes == 4 ? KILN_SSA_I32
                        : KILN_SSA_I64;
}

kiln_ssa_scalar kiln_scalar_computed(kiln_dtype dtype) {
    if (dtype == KILN_BOOL) return KILN_SSA_BOOL;
    return kiln_scalar_in_memory(kiln_dtype_computed(dtype));
}

uint32_t kiln_ssa_scalar_bits(kiln_ssa_scalar scalar) {
    static const uint32_t bits[] = {1, 8, 16, 32, 64, 16, 32, 64, 0};
    return bits[scalar];
}

/* ---- short forms ----------------------------------------------------------------------------- */

kiln_ssa_type kiln_walk_type(kiln_walk *w, kiln_ssa v) { return w->b->ops->type_of(w->b, v); }
bool kiln_walk_is_vector(kiln_walk *w, kiln_ssa v) { return kiln_walk_type(w, v).lanes != 0; }

kiln_ssa kiln_walk_i64(kiln_walk *w, int64_t value) {
    return w->b->ops->integer(w->b, kiln_type_scalar(KILN_SSA_I64), value);
}
kiln_ssa kiln_walk_integer(kiln_walk *w, kiln_ssa like, int64_t value) {
    return w->b->ops->integer(w->b, kiln_walk_type(w, like), value);
}
kiln_ssa kiln_walk_real(kiln_walk *w, kiln_ssa like, double value) {
    return w->b->ops->real(w->b, kiln_walk_type(w, like), value);
}
kiln_ssa kiln_walk_compute(kiln_walk *w, kiln_build_op what, kiln_ssa a, kiln_ssa b) {
    return w->b->ops->compute(w->b, what, a, b);
}
kiln_ssa kiln_walk_select(kiln_walk *w, kiln_ssa condition, kiln_ssa yes, kiln_ssa no) {
    return w->b->ops->choose(w->b, condition, yes, no);
}
kiln_ssa kiln_walk_convert(kiln_walk *w, kiln_conversion how, kiln_ssa v, kiln_ssa_scalar to) {
    return w->b->ops->convert(w->b, how, v, kiln_type_like(w, v, to));
}
kiln_ssa kiln_walk_not(kiln_walk *w, kiln_ssa v) {
    return kiln_walk_compute(w, KILN_BUILD_XOR, v, kiln_walk_integer(w, v, -1));
}
kiln_ssa kiln_walk_negated(kiln_walk *w, kiln_ssa v) {
    return kiln_walk_compute(w, KILN_BUILD_SUB, kiln_walk_integer(w, v, 0), v);
}
kiln_ssa kiln_walk_fma(kiln_walk *w, kiln_ssa a, kiln_ssa b, kiln_ssa c) {
    return w->b->ops->multiply_add(w->b, a, b, c);
}
kiln_ssa kiln_walk_extract(kiln_walk *w, kiln_ssa v, uint32_t lane) {
    return kiln_walk_is_vector(w, v) ? w->b->ops->extract(w->b, v, lane) : v;
}

/* One lane of a vector in all lanes, if multiply-adds take it from a register; NULL for other
 * values. */
static kiln_ssa splat_of_lane(kiln_walk *w, kiln_ssa v, uint32_t lanes) {
    kiln_ssa vector;
    uint32_t lane;
    if (w->target->factor_lanes == 1 || !w->b->ops->taken_from(w->b, v, &vector, &lane))
        return NULL;
    int32_t number[KILN_LOWER_LANES_MAX];
    for (uint32_t i = 0; i < lanes; i++) number[i] = (int32_t)lane;
    return w->b->ops->shuffle(w->b, vector, NULL, number, lanes);
}

kiln_ssa kiln_walk_splat(kiln_walk *w, kiln_ssa v, uint32_t lanes) {
    if (kiln_walk_is_vector(w, v)) return v;
    if (w->b->ops->is_constant(w->b, v)) return w->b->ops->splat(w->b, v, lanes);
    uint64_t key[4] = {UINT64_MAX, (uint64_t)(uintptr_t)v, lanes, 0};
    kiln_ssa known = kiln_walk_table_find(&w->loads, key);
    if (known) return known;
    known = splat_of_lane(w, v, lanes);
    if (!known) known = w->b->ops->splat(w->b, v, lanes);
    kiln_walk_table_put(w, &w->loads, key, known);
    return known;
}

void kiln_walk_match(kiln_walk *w, kiln_ssa *a, kiln_ssa *b) {
    uint32_t lanes[2] = {kiln_walk_type(w, *a).lanes, kiln_walk_type(w, *b).lanes};
    if (lanes[0] && !lanes[1]) *b = kiln_walk_splat(w, *b, lanes[0]);
    if (lanes[1] && !lanes[0]) *a = kiln_walk_splat(w, *a, lanes[1]);
}

kiln_ssa kiln_walk_libm(kiln_walk *w, const char *name, const kiln_ssa *arg, uint32_t arg_count) {
    kiln_ssa_type type = kiln_walk_type(w, arg[0]);
    if (!type.lanes) return w->b->ops->call(w->b, name, arg, arg_count);
    kiln_ssa result = w->b->ops->poison(w->b, type);
    for (uint32_t lane = 0; lane < type.lanes; lane++) {
        kiln_ssa scalar[2];
        for (uint32_t i = 0; i < arg_count; i++) scalar[i] = kiln_walk_extract(w, arg[i], lane);
        kiln_ssa v = w->b->ops->call(w->b, name, scalar, arg_count);
        result = w->b->ops->insert(w->b, result, v, lane);
    }
    return result;
}

/* ---- known values ---------------------------------------------------------------------------- */

static uint32_t key_bucket(const uint64_t key[4]) {
    uint64_t hash = 0;
    for (int i = 0; i < 4; i++) hash = (hash ^ hash >> 31 ^ key[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(hash >> 40) % KILN_WALK_BUCKETS;
}

kiln_ssa kiln_walk_table_find(const kiln_walk_table *t, const uint64_t key[4]) {
    for (uint32_t i = t->bucket[key_bucket(key)]; i; i = t->entry.data[i].next)
        if (memcmp(t->entry.data[i].key, key, sizeof t->entry.data[i].key) == 0)
            return t->entry.data[i].value;
    return NULL;
}

void kiln_walk_table_put(kiln_walk *w, kiln_walk_table *t, const uint64_t key[4], kiln_ssa value) {
    if (t->entry.count == 0) kiln_vec_push_in(w->arena, &t->entry, (kiln_walk_entry){0});
    uint32_t *bucket = &t->bucket[key_bucket(key)];
    kiln_walk_entry entry = {.value = value, .next = *bucket};
    memcpy(entry.key, key, sizeof entry.key);
    *bucket = t->entry.count;
    kiln_vec_push_in(w->arena, &t->entry, entry);
}

uint32_t kiln_walk_table_mark(const kiln_walk_table *t) { return KILN_MAX(t->entry.count, 1); }

void kiln_walk_table_pop(kiln_walk_table *t, uint32_t mark) {
    while (t->entry.count > mark) {
        const kiln_walk_entry *last = &t->entry.data[--t->entry.count];
        t->bucket[key_bucket(last->key)] = last->next;
    }
}

/* ---- conversions ----------------------------------------------------------------------------- */

static kiln_ssa bf16_from_bits(kiln_walk *w, kiln_ssa bits) {
    kiln_ssa wide = kiln_walk_convert(w, KILN_CONVERT_UNSIGNED, bits, KILN_SSA_I32);
    wide = kiln_walk_compute(w, KILN_BUILD_SHL, wide, kiln_walk_integer(w, wide, 16));
    return kiln_walk_convert(w, KILN_CONVERT_BITS, wide, KILN_SSA_F32);
}

/* Round to nearest, ties to even; a NaN keeps its upper bits and becomes quiet. */
static kiln_ssa bf16_to_bits(kiln_walk *w, kiln_ssa v) {
    kiln_ssa at_once = w->b->ops->to_bf16 ? w->b->ops->to_bf16(w->b, v) : NULL;
    if (at_once) return at_once;
    kiln_ssa bits = kiln_walk_convert(w, KILN_CONVERT_BITS, v, KILN_SSA_I32);
    kiln_ssa sixteen = kiln_walk_integer(w, bits, 16);
    kiln_ssa high = kiln_walk_compute(w, KILN_BUILD_LSHR, bits, sixteen);
    kiln_ssa odd = kiln_walk_compute(w, KILN_BUILD_AND, high, kiln_walk_integer(w, bits, 1));
    kiln_ssa rounded =
        kiln_walk_compute(w, KILN_BUILD_ADD, bits, kiln_walk_integer(w, bits, 0x7fff));
    rounded = kiln_walk_compute(w, KILN_BUILD_ADD, rounded, odd);
    rounded = kiln_walk_compute(w, KILN_BUILD_LSHR, rounded, sixteen);
    kiln_ssa quiet = kiln_walk_compute(w, KILN_BUILD_OR, high, kiln_walk_integer(w, bits, 0x40));
    kiln_ssa is_nan = kiln_walk_compute(w, KILN_BUILD_UNO, v, v);
    return kiln_walk_convert(w, KILN_CONVERT_UNSIGNED, kiln_walk_select(w, is_nan, quiet, rounded),
                             KILN_SSA_I16);
}

static bool stays_as_it_lies(const kiln_walk *w, kiln_dtype dtype) {
    return w->moves && kiln_dtype_is_float(dtype) && kiln_dtype_size(dtype) <= 2;
}

kiln_ssa_scalar kiln_walk_scalar(const kiln_walk *w, kiln_dtype dtype) {
    return stays_as_it_lies(w, dtype) ? kiln_scalar_in_memory(dtype) : kiln_scalar_computed(dtype);
}

kiln_ssa kiln_walk_from_memory(kiln_walk *w, kiln_dtype dtype, kiln_ssa v) {
    if (stays_as_it_lies(w, dtype)) return v;
    if (kiln_small_float_of(dtype)) return kiln_walk_from_small(w, kiln_small_float_of(dtype), v);
    if (dtype == KILN_BF16) return bf16_from_bits(w, v);
    if (dtype == KILN_F16) return kiln_walk_convert(w, KILN_CONVERT_FLOAT, v, KILN_SSA_F32);
    if (dtype == KILN_BOOL)
        return kiln_walk_compute(w, KILN_BUILD_NE, v, kiln_walk_integer(w, v, 0));
    return v;
}

kiln_ssa kiln_walk_to_memory(kiln_walk *w, kiln_dtype dtype, kiln_ssa v) {
    if (stays_as_it_lies(w, dtype)) return v;
    if (kiln_small_float_of(dtype)) return kiln_walk_to_small(w, kiln_small_float_of(dtype), v);
    if (dtype == KILN_BF16) return bf16_to_bits(w, v);
    if (dtype == KILN_F16) return kiln_walk_convert(w, KILN_CONVERT_FLOAT, v, KILN_SSA_F16);
    if (dtype == KILN_BOOL) return kiln_walk_convert(w, KILN_CONVERT_UNSIGNED, v, KILN_SSA_I8);
    return v;
}

static kiln_ssa cast_to_float(kiln_walk *w, kiln_dtype from, kiln_dtype to, kiln_ssa v) {
    kiln_dtype_kind kind = kiln_dtype_kind_of(from);
    kiln_conversion how = kind == KILN_KIND_INT     ? KILN_CONVERT_SIGNED_TO_FLOAT
                          : kind != KILN_KIND_FLOAT ? KILN_CONVERT_UNSIGNED_TO_FLOAT
                                                    : KILN_CONVERT_FLOAT;
    if (from == KILN_F64 && kiln_small_float_of(to))
        v = kiln_walk_to_odd(w, v);
    else
        v = kiln_walk_convert(w, how, v, kiln_scalar_computed(to));
    if (kiln_dtype_computed(to) == to) return v;
    return kiln_walk_from_memory(w, to, kiln_walk_to_memory(w, to, v)); /* a cast rounds */
}

kiln_ssa kiln_walk_cast(kiln_walk *w, kiln_dtype from, kiln_dtype to, kiln_ssa v) {
    bool of_float = kiln_dtype_is_float(from),
         is_signed = kiln_dtype_kind_of(from) == KILN_KIND_INT;
    if (from == to) return v;
    if (kiln_dtype_is_float(to)) return cast_to_float(w, from, to, v);
    if (to == KILN_BOOL) {
        kiln_ssa zero = w->b->ops->zero(w->b, kiln_walk_type(w, v));
        return kiln_walk_compute(w, of_float ? KILN_BUILD_UNE : KILN_BUILD_NE, v, zero);
    }
    bool to_signed = kiln_dtype_kind_of(to) == KILN_KIND_INT;
    kiln_conversion how =
        of_float    ? to_signed ? KILN_CONVERT_FLOAT_TO_SIGNED : KILN_CONVERT_FLOAT_TO_UNSIGNED
        : is_signed ? KILN_CONVERT_SIGNED
                    : KILN_CONVERT_UNSIGNED;
    return kiln_walk_convert(w, how, v, kiln_scalar_computed(to));
}
