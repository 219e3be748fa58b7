#include "tests/fuzz/graph/draw.h"

#include <math.h>
#include <string.h>

#include "base/check.h"

/* ---- numbers --------------------------------------------------------------------------------- */

bool fuzz_rule_has(const rule *r, char flag) { return strchr(r->flags, flag) != NULL; }

int64_t between(draw *d, int64_t low, int64_t high) {
    KILN_CHECK(low <= high);
    return kiln_rand_range(&d->g->rand, low, high);
}

bool chance(draw *d, int percent) { return between(d, 0, 99) < percent; }

double real(draw *d, double low, double high) {
    return (double)between(d, (int64_t)ceil(low * 8), (int64_t)floor(high * 8)) / 8;
}

const char *word(draw *d, const char *words) {
    kiln_str rest = kiln_str_from(words), item = {0};
    int64_t count = 1;
    for (const char *c = words; *c; c++) count += *c == ' ';
    for (int64_t at = between(d, 0, count - 1); at >= 0; at--) item = kiln_str_cut(&rest, ' ');
    return kiln_str_dup(d->g->arena, item);
}

/* ---- shapes and types ------------------------------------------------------------------------ */

kiln_shape draw_shape(draw *d, uint32_t rank_min, uint32_t rank_max) {
    static const int64_t extent[] = {1, 1, 2, 2, 3, 3, 5, 5, 7, 17, 33};
    kiln_shape shape = {.rank = (uint32_t)between(d, rank_min, rank_max)};
    int64_t count = 1;
    for (uint32_t i = 0; i < shape.rank; i++) {
        int64_t e = extent[between(d, 0, KILN_ARRAY_COUNT(extent) - 1)];
        if (count * e > FUZZ_ELEMENTS_MAX) e = 1;
        count *= e;
        shape.dim[i] = e;
    }
    for (uint32_t i = shape.rank; i > 1; i--) { /* large extents are not the first ones only */
        uint32_t j = (uint32_t)between(d, 0, i - 1);
        int64_t swap = shape.dim[i - 1];
        shape.dim[i - 1] = shape.dim[j];
        shape.dim[j] = swap;
    }
    if (shape.rank && fuzz_rule_has(d->rule, 'z') && chance(d, 2))
        shape.dim[between(d, 0, shape.rank - 1)] = 0;
    return shape;
}

kiln_dtype draw_dtype(draw *d, uint32_t types) {
    uint32_t common = types & (T_(F32) | T_(F64) | INDICES | TRUTHS);
    if (d->g->common && common) types = common;
    /* f32 as often as half of the others together */
    if (types & T_(F32) && chance(d, 50)) return KILN_F32;
    kiln_dtype found[KILN_DTYPE_COUNT];
    uint32_t count = 0;
    for (uint32_t t = 1; t < KILN_DTYPE_COUNT; t++)
        if (types >> t & 1) found[count++] = (kiln_dtype)t;
    return found[between(d, 0, count - 1)];
}

int64_t draw_axis(draw *d, uint32_t rank) {
    int64_t axis = between(d, 0, rank - 1);
    return opset(d) >= 11 && chance(d, 30) ? axis - rank : axis;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static double element(draw *d, kiln_dtype dtype, bool coarse, double low, double high) {
    if (dtype == KILN_BOOL) return (double)between(d, 0, 1);
    if (!kiln_dtype_is_float(dtype)) {
        if (kiln_dtype_kind_of(dtype) == KILN_KIND_UINT) low = fmax(low, 0);
        return (double)between(d, (int64_t)ceil(low), (int64_t)floor(high));
    }
    if (coarse) { /* zeros, halves and ties */
        double x = (double)between(d, (int64_t)ceil(low * 2), (int64_t)floor(high * 2)) / 2;
        return x;
    }
    return low + (high - low) * kiln_rand_unit(&d->g->rand);
}

kiln_tensor draw_tensor(draw *d, kiln_dtype dtype, kiln_shape shape, double low, double high) {
    bool is_float = kiln_dtype_is_float(dtype);
    if (low == 0 && high == 0) { /* any */
        high = is_float ? 2 : (dtype == KILN_I8 || dtype == KILN_U8) ? 100 : 1000;
        low = -high;
        if (!is_float && chance(d, 50)) low = -7, high = 7;
    }
    bool coarse = is_float && high - low >= 1 && chance(d, 25);
    kiln_tensor tensor = kiln_tensor_create(d->g->arena, dtype, &shape);
    for (size_t i = 0; i < (size_t)kiln_shape_count(&shape); i++)
        kiln_dtype_store_f64(dtype, tensor.data, i, element(d, dtype, coarse, low, high));
    return tensor;
}

/* ---- operands -------------------------------------------------------------------------------- */

static const fuzz_value *feed_value(draw *d, uint32_t value) {
    KILN_CHECK(d->node->input_count < FUZZ_OPERANDS_MAX);
    d->node->input[d->node->input_count++] = value;
    return value == FUZZ_NONE ? NULL : &d->g->value[value];
}

static const fuzz_value *feed_fresh(draw *d, kiln_dtype dtype, kiln_shape shape, double low,
                                    double high) {
    kiln_tensor tensor = draw_tensor(d, dtype, shape, low, high);
    return feed_value(d, fuzz_graph_add(d->g, chance(d, 30) ? FUZZ_CONSTANT : FUZZ_INPUT, &tensor));
}

static bool fits(const draw *d, const fuzz_value *value, const wanted *w) {
    const kiln_shape *shape = &value->truth.shape;
    if (value->fixed || value->grows || !(w->types >> value->truth.dtype & 1)) return false;
    if (shape->rank < w->rank_min || shape->rank > w->rank_max) return false;
    int64_t count = kiln_shape_count(shape);
    if ((count == 0 && !fuzz_rule_has(d->rule, 'z')) || count > 4 * FUZZ_ELEMENTS_MAX) return false;
    bool any = w->low == 0 && w->high == 0;
    return any ? isfinite(value->low) || count == 0
               : value->low >= w->low && value->high <= w->high;
}

/* A value that fits, rather one that nothing reads yet; FUZZ_NONE: there is none. */
static uint32_t choose(draw *d, const wanted *w, const kiln_shape *shape) {
    uint32_t found[FUZZ_VALUES_MAX], fresh[FUZZ_VALUES_MAX], count = 0, fresh_count = 0;
    for (uint32_t v = 0; v < d->g->value_count; v++) {
        const fuzz_value *value = &d->g->value[v];
        if (!fits(d, value, w) || (shape && !kiln_shape_equal(shape, &value->truth.shape)))
            continue;
        found[count++] = v;
        if (value->uses == 0) fresh[fresh_count++] = v;
    }
    if (fresh_count && chance(d, 60)) return fresh[between(d, 0, fresh_count - 1)];
    return count ? found[between(d, 0, count - 1)] : FUZZ_NONE;
}

const fuzz_value *feed(draw *d, const wanted *w) {
    uint32_t value = chance(d, 75) ? choose(d, w, NULL) : FUZZ_NONE;
    if (value != FUZZ_NONE) return feed_value(d, value);
    kiln_shape shape = draw_shape(d, w->rank_min, w->rank_max);
    return feed_fresh(d, draw_dtype(d, w->types), shape, w->low, w->high);
}

const fuzz_value *feed_of(draw *d, kiln_dtype dtype, kiln_shape shape, double low, double high) {
    const wanted w = {1u << dtype, 0, KILN_RANK_MAX, low, high};
    uint32_t value = chance(d, 60) ? choose(d, &w, &shape) : FUZZ_NONE;
    if (value != FUZZ_NONE) return feed_value(d, value);
    return feed_fresh(d, dtype, shape, low, high);
}

const fuzz_value *feed_data(draw *d, uint32_t rank_min, uint32_t rank_max) {
    return feed(d, &(wanted){d->types, rank_min, rank_max, d->rule->low, d->rule->high});
}

const fuzz_value *feed_broadcast(draw *d, kiln_dtype dtype, kiln_shape shape, bool grow, double low,
                                 double high) {
    int64_t count = kiln_shape_count(&shape);
    for (uint32_t i = 0; i < shape.rank; i++) {
        bool grows = grow && shape.dim[i] == 1 && count * 3 <= FUZZ_ELEMENTS_MAX && chance(d, 50);
        if (grows)
            count *= shape.dim[i] = between(d, 2, 3);
        else if (chance(d, 25))
            shape.dim[i] = 1;
    }
    if (shape.rank && chance(d, 30)) { /* without leading dimensions */
        uint32_t cut = (uint32_t)between(d, 1, shape.rank);
        memmove(shape.dim, shape.dim + cut, sizeof shape.dim[0] * (shape.rank -= cut));
    } else if (grow && shape.rank < 5 && chance(d, 15)) {
        memmove(shape.dim + 1, shape.dim, sizeof shape.dim[0] * shape.rank++);
        shape.dim[0] = count * 2 <= FUZZ_ELEMENTS_MAX ? 2 : 1;
    }
    return feed_of(d, dtype, shape, low, high);
}

void feed_same(draw *d, const fuzz_value *value) { feed_value(d, (uint32_t)(value - d->g->value)); }

void feed_nothing(draw *d) { feed_value(d, FUZZ_NONE); }

void feed_ints(draw *d, const int64_t *item, uint32_t count) {
    kiln_tensor tensor = kiln_tensor_create(d->g->arena, KILN_I64, &(kiln_shape){1, {count}});
    if (count) memcpy(tensor.data, item, count * sizeof *item);
    feed_value(d, fuzz_graph_fix(d->g, &tensor));
}

void feed_int(draw *d, int64_t value) {
    kiln_tensor tensor = kiln_tensor_create(d->g->arena, KILN_I64, &(kiln_shape){0});
    memcpy(tensor.data, &value, sizeof value);
    feed_value(d, fuzz_graph_fix(d->g, &tensor));
}

void feed_floats(draw *d, const float *item, uint32_t count) {
    kiln_tensor tensor = kiln_tensor_create(d->g->arena, KILN_F32, &(kiln_shape){1, {count}});
    if (count) memcpy(tensor.data, item, count * sizeof *item);
    feed_value(d, fuzz_graph_fix(d->g, &tensor));
}

void feed_fixed(draw *d, kiln_dtype dtype, kiln_shape shape, double low, double high) {
    kiln_tensor tensor = draw_tensor(d, dtype, shape, low, high);
    feed_value(d, fuzz_graph_fix(d->g, &tensor));
}

void feed_scalar(draw *d, kiln_dtype dtype, double value) {
    kiln_tensor tensor = kiln_tensor_create(d->g->arena, dtype, &(kiln_shape){0});
    kiln_dtype_store_f64(dtype, tensor.data, 0, value);
    feed_value(d, fuzz_graph_add(d->g, chance(d, 70) ? FUZZ_CONSTANT : FUZZ_INPUT, &tensor));
}

/* ---- attributes ------------------------------------------------------------------------------ */

void set_int(draw *d, const char *name, int64_t value) {
    d->node->attributes = with_attr_int(d->node->attributes, name, value);
}

void set_float(draw *d, const char *name, double value) {
    d->node->attributes = with_attr_float(d->node->attributes, name, (float)value);
}

void set_text(draw *d, const char *name, const char *value) {
    d->node->attributes = with_attr_text(d->node->attributes, name, value);
}

void set_ints(draw *d, const char *name, const int64_t *value, uint32_t count) {
    d->node->attributes = with_attr_ints(d->node->attributes, name, value, count);
}

void set_tensor(draw *d, const char *name, const kiln_tensor *tensor) {
    d->node->attributes =
        with_attr_tensor(d->node->attributes, name, tensor_message(d->g->arena, "", tensor));
}

void set_texts(draw *d, const char *name, const char *const *value, uint32_t count) {
    d->node->attributes = with_attr_texts(d->node->attributes, name, value, count);
}

void set_graph(draw *d, const char *name, message graph) {
    d->node->attributes = with_attr_graph(d->node->attributes, name, graph);
}

void results(draw *d, uint32_t count) { d->node->output_count = count; }

void results_grow(draw *d) {
    d->node->grows = true;
    peer_may_differ(d, "there are no rows behind the last result");
}

void peer_may_differ(draw *d, const char *why) { d->node->peer_differs = why; }
