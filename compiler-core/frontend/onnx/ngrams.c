/* TfIdfVectorizer on integers: how often each n-gram of a list occurs in a row. */
#include "compiler-core/frontend/onnx/compose.h"
#include "compiler-core/graph/op.h"

#define LENGTH_MAX 16 /* of an n-gram */
#define PARTS_MAX 4096

typedef struct ngrams {
    kiln_composer *c;
    kiln_value x; /* [rows][items], i64 */
    int64_t rows, items, skips;
    const Onnx__AttributeProto *pool, *start, *place; /* start: of each length in the pool */
} ngrams;

/* How often each of `count` n-grams at `from` of the pool occurs, with distance `step` between
 * items: [rows][count]. */
static kiln_value matches(const ngrams *g, int64_t from, int64_t count, int64_t length,
                          int64_t step) {
    static const int64_t last = 2, positions = 1;
    kiln_composer *c = g->c;
    const int64_t starts = g->items - (length - 1) * step;
    const kiln_attr attr[] = {kiln_attr_ints("axes", &positions, 1), kiln_attr_int("keepdims", 0)};
    kiln_value all = 0, sum = 0;
    for (int64_t j = 0; j < length; j++) {
        kiln_tensor item =
            kiln_tensor_create(c->im->graph->arena, KILN_I64, &(kiln_shape){1, {count}});
        for (int64_t i = 0; i < count; i++)
            ((int64_t *)item.data)[i] = g->pool->ints[from + i * length + j];
        kiln_value x = kiln_compose_slice(c, g->x, 1, j * step, j * step + starts);
        x = kiln_compose_ints(c, KILN_OP_UNSQUEEZE, x, "axes", &last, 1);
        x = kiln_compose_binary(c, KILN_OP_EQUAL, x, kiln_compose_constant(c, &item));
        all = all ? kiln_compose_binary(c, KILN_OP_AND, all, x) : x;
    }
    all = kiln_compose_cast(c, all, KILN_F32);
    kiln_compose_node(c, KILN_OP_REDUCE_SUM, &all, 1, attr, 2, &sum, 1);
    return sum;
}

/* [rows][count], of one length; 0 where rows are too short. */
static kiln_value count_length(const ngrams *g, int64_t from, int64_t count, int64_t length) {
    kiln_value sum = 0;
    const int64_t skips = length == 1 ? 0 : g->skips;
    for (int64_t skip = 0; skip <= skips && (length - 1) * (skip + 1) < g->items; skip++) {
        const kiln_value part = matches(g, from, count, length, skip + 1);
        sum = sum ? kiln_compose_binary(g->c, KILN_OP_ADD, sum, part) : part;
    }
    const kiln_shape shape = {2, {g->rows, count}};
    return sum ? sum : kiln_compose_filled(g->c, KILN_F32, &shape, 0);
}

/* Counts of all n-grams, in the order of the pool, and a 0 behind them; those of other lengths are
 * 0. */
static kiln_value count_all(kiln_importer *im, const ngrams *g) {
    const int64_t least = kiln_import_int(im, "min_gram_length", 1),
                  most = kiln_import_int(im, "max_gram_length", 1);
    kiln_value part[LENGTH_MAX + 1];
    uint32_t parts = 0;
    for (size_t k = 0; k < g->start->n_ints; k++) {
        const int64_t length = (int64_t)k + 1, from = g->start->ints[k],
                      end = k + 1 < g->start->n_ints ? g->start->ints[k + 1]
                                                     : (int64_t)g->pool->n_ints,
                      count = (end - from) / length;
        const kiln_shape shape = {2, {g->rows, count}};
        if (count == 0) continue;
        part[parts++] = length < least || length > most
                            ? kiln_compose_filled(g->c, KILN_F32, &shape, 0)
                            : count_length(g, from, count, length);
    }
    part[parts++] = kiln_compose_filled(g->c, KILN_F32, &(kiln_shape){2, {g->rows, 1}}, 0);
    return kiln_compose_concat(g->c, part, parts, 1);
}

static kiln_status check(kiln_importer *im, ngrams *g) {
    if (kiln_import_attribute(im, "pool_strings"))
        return KILN_ERROR(UNIMPLEMENTED, "attribute pool_strings");
    g->pool = kiln_import_attribute(im, "pool_int64s");
    g->start = kiln_import_attribute(im, "ngram_counts");
    g->place = kiln_import_attribute(im, "ngram_indexes");
    g->skips = kiln_import_int(im, "max_skip_count", 0);
    if (!g->pool || !g->start || !g->place || g->start->n_ints == 0)
        return KILN_ERROR(INVALID_ARGUMENT, "it needs a pool, ngram_counts and ngram_indexes");
    int64_t total = 0;
    for (size_t k = 0; k < g->start->n_ints; k++) {
        const int64_t from = g->start->ints[k], end = k + 1 < g->start->n_ints
                                                          ? g->start->ints[k + 1]
                                                          : (int64_t)g->pool->n_ints;
        if (from < 0 || end < from || end > (int64_t)g->pool->n_ints ||
            (end - from) % ((int64_t)k + 1) != 0)
            return KILN_ERROR(INVALID_ARGUMENT, "attribute ngram_counts does not fit the pool");
        total += (end - from) / ((int64_t)k + 1);
    }
    if (total != (int64_t)g->place->n_ints)
        return KILN_ERROR(INVALID_ARGUMENT, "%zu ngram_indexes of %lld n-grams", g->place->n_ints,
                          (long long)total);
    if (g->start->n_ints > LENGTH_MAX || g->skips < 0 || g->skips > PARTS_MAX)
        return KILN_ERROR(UNIMPLEMENTED, "n-grams of more than %d items, or %lld skips", LENGTH_MAX,
                          (long long)g->skips);
    return KILN_OK;
}

/* Each count to its place in the result, with its weight unless that is 1. */
static kiln_status define_places(kiln_importer *im, const ngrams *g, kiln_value count) {
    const Onnx__AttributeProto *weights = kiln_import_attribute(im, "weights");
    const kiln_str mode = kiln_import_text(im, "mode", "TF");
    const bool once = kiln_str_is(mode, "IDF"), weighted = once || kiln_str_is(mode, "TFIDF");
    const size_t total = g->place->n_ints;
    int64_t size = 0;
    if (!weighted && !kiln_str_is(mode, "TF"))
        return KILN_ERROR(INVALID_ARGUMENT, "attribute mode: \"%.*s\"", KILN_STR_ARG(mode));
    if (weights && weights->n_floats != total)
        return KILN_ERROR(INVALID_ARGUMENT, "%zu weights of %zu n-grams", weights->n_floats, total);
    for (size_t i = 0; i < total; i++) {
        if (g->place->ints[i] < 0 || g->place->ints[i] > INT32_MAX)
            return KILN_ERROR(INVALID_ARGUMENT, "attribute ngram_indexes: %lld",
                              (long long)g->place->ints[i]);
        size = KILN_MAX(size, g->place->ints[i] + 1);
    }
    kiln_status st = kiln_import_take_memory(im, (size_t)size * 12);
    if (st) return st;
    kiln_tensor from = kiln_tensor_create(im->graph->arena, KILN_I64, &(kiln_shape){1, {size}}),
                factor = kiln_tensor_create(im->graph->arena, KILN_F32, &(kiln_shape){1, {size}});
    for (int64_t i = 0; i < size; i++) ((int64_t *)from.data)[i] = (int64_t)total;
    for (size_t i = 0; i < total; i++) {
        ((int64_t *)from.data)[g->place->ints[i]] = (int64_t)i;
        ((float *)factor.data)[g->place->ints[i]] = weights ? weights->floats[i] : 1;
    }
    kiln_composer *c = g->c;
    const kiln_value operand[] = {count, kiln_compose_constant(c, &from)};
    const kiln_attr attr = kiln_attr_int("axis", 1);
    kiln_value y = 0;
    kiln_compose_node(c, KILN_OP_GATHER, operand, 2, &attr, 1, &y, 1);
    if (once) y = kiln_compose_binary(c, KILN_OP_MIN, y, kiln_compose_scalar(c, KILN_F32, 1));
    if (weighted) y = kiln_compose_binary(c, KILN_OP_MUL, y, kiln_compose_constant(c, &factor));
    if (!c->st && kiln_compose_shape(c, kiln_import_input(im, 0))->rank == 1)
        y = kiln_compose_reshape(c, y, &(kiln_shape){1, {size}});
    kiln_compose_define(c, 0, y);
    return c->st;
}

kiln_status kiln_import_ngrams(kiln_importer *im) {
    kiln_composer c = {.im = im};
    ngrams g = {.c = &c};
    const kiln_value x = kiln_import_input(im, 0);
    kiln_status st = check(im, &g);
    if (st) return st;
    if (!x) return KILN_ERROR(INVALID_ARGUMENT, "it has no input");
    const kiln_shape *shape = kiln_compose_shape(&c, x);
    const kiln_dtype dtype = kiln_compose_dtype(&c, x);
    if (shape->rank < 1 || shape->rank > 2 || (dtype != KILN_I32 && dtype != KILN_I64))
        return KILN_ERROR(INVALID_ARGUMENT, "its input must be one or several rows of integers");
    g.rows = shape->rank == 2 ? shape->dim[0] : 1;
    g.items = shape->dim[shape->rank - 1];
    g.x = kiln_compose_reshape(&c, kiln_compose_cast(&c, x, KILN_I64),
                               &(kiln_shape){2, {g.rows, g.items}});
    return define_places(im, &g, count_all(im, &g));
}
