/* Layers with a state from one call to the next, as an input and an output of the model: linear
 * attention and causal convolutions. */
#include <math.h>

#include "compiler-core/frontend/onnx/compose.h"

/* ---- LinearAttention ------------------------------------------------------------------------- */

/* The state of each key head is a matrix, [d_k][d_v]. A step decays it, adds the outer product of
 * its key and its value, and every query of the head reads it. With a rate, the value that the
 * matrix already gives for the key is subtracted from the new value. */
typedef struct linear_attention {
    kiln_composer *c;
    int64_t batch, steps, heads, queries; /* queries: of a key head */
    bool forgets, corrects;
} linear_attention;

enum { ROW_QUERY, ROW_KEY, ROW_VALUE, ROW_DECAY, ROW_RATE, ROWS };

/* [batch][steps][heads * parts * size] to [steps][batch][heads][parts][size]. */
static kiln_value by_step(const linear_attention *a, kiln_value x, int64_t heads, int64_t parts,
                          const char *what) {
    static const int64_t perm[] = {1, 0, 2, 3, 4};
    if (a->c->st) return 0;
    const kiln_shape *shape = kiln_compose_shape(a->c, x);
    if (shape->rank != 3 || shape->dim[0] != a->batch || shape->dim[1] != a->steps ||
        shape->dim[2] % (heads * parts) != 0) {
        kiln_compose_fail(
            a->c, KILN_ERROR(INVALID_ARGUMENT, "%s does not fit the query and the heads", what));
        return 0;
    }
    const kiln_shape split = {5,
                              {a->batch, a->steps, heads, parts, shape->dim[2] / (heads * parts)}};
    return kiln_compose_ints(a->c, KILN_OP_TRANSPOSE, kiln_compose_reshape(a->c, x, &split), "perm",
                             perm, 5);
}

/* Widens to floats of at least 32 bits for sums. */
static kiln_value wide(kiln_composer *c, kiln_value x) {
    return c->st || kiln_compose_dtype(c, x) == KILN_F64 ? x : kiln_compose_cast(c, x, KILN_F32);
}

static kiln_value add(kiln_composer *c, kiln_value a, kiln_value b) {
    return kiln_compose_binary(c, KILN_OP_ADD, a, b);
}
static kiln_value mul(kiln_composer *c, kiln_value a, kiln_value b) {
    return kiln_compose_binary(c, KILN_OP_MUL, a, b);
}

static kiln_value flipped(kiln_composer *c, kiln_value x) {
    static const int64_t perm[] = {0, 1, 3, 2};
    return kiln_compose_ints(c, KILN_OP_TRANSPOSE, x, "perm", perm, 4);
}

static void attention_step(kiln_composer *c, void *context, kiln_compose_loop *loop) {
    const linear_attention *a = context;
    const kiln_value *row = loop->row, key = flipped(c, row[ROW_KEY]);
    kiln_value state = loop->carry[0], value = row[ROW_VALUE];
    uint32_t last = ROW_VALUE;
    if (a->forgets) state = mul(c, state, row[++last]);
    if (a->corrects) {
        const kiln_value before = kiln_compose_binary(c, KILN_OP_MATMUL, row[ROW_KEY], state);
        value = mul(c, row[last + 1], kiln_compose_binary(c, KILN_OP_SUB, value, before));
    }
    loop->carry[0] = state = add(c, state, mul(c, key, value));
    loop->stack[0] = kiln_compose_binary(c, KILN_OP_MATMUL, row[ROW_QUERY], state);
}

/* Factors of the state: one for each row, or one for all. */
static kiln_value decay_rows(const linear_attention *a, kiln_value decay) {
    static const int64_t perm[] = {0, 1, 2, 4, 3};
    const kiln_value rows = wide(a->c, by_step(a, decay, a->heads, 1, "decay"));
    const kiln_value factor = kiln_compose_unary(a->c, KILN_OP_EXP, rows);
    return kiln_compose_ints(a->c, KILN_OP_TRANSPOSE, factor, "perm", perm, 5);
}

static kiln_value rate_rows(const linear_attention *a, kiln_value rate) {
    const kiln_shape *shape = kiln_compose_shape(a->c, rate);
    const bool shared = shape->rank == 3 && shape->dim[2] == 1;
    return wide(a->c, by_step(a, rate, shared ? 1 : a->heads, 1, "beta"));
}

static kiln_value first_state(const linear_attention *a, kiln_value past, int64_t key_size,
                              int64_t value_size, kiln_dtype dtype) {
    const kiln_shape shape = {4, {a->batch, a->heads, key_size, value_size}};
    if (!past) return kiln_compose_filled(a->c, dtype, &shape, 0);
    if (!a->c->st && !kiln_shape_equal(kiln_compose_shape(a->c, past), &shape))
        kiln_compose_fail(
            a->c, KILN_ERROR(INVALID_ARGUMENT, "past_state must be [batch, heads, d_k, d_v]"));
    return wide(a->c, past);
}

static kiln_status read_rule(kiln_importer *im, linear_attention *a) {
    const kiln_str rule = kiln_import_text(im, "update_rule", "gated_delta");
    a->forgets = kiln_str_is(rule, "gated") || kiln_str_is(rule, "gated_delta");
    a->corrects = kiln_str_is(rule, "delta") || kiln_str_is(rule, "gated_delta");
    if (!a->forgets && !a->corrects && !kiln_str_is(rule, "linear"))
        return KILN_ERROR(INVALID_ARGUMENT, "attribute update_rule: \"%.*s\"", KILN_STR_ARG(rule));
    if (a->forgets && !kiln_import_input(im, 4))
        return KILN_ERROR(INVALID_ARGUMENT, "its rule needs decay (input 4)");
    if (a->corrects && !kiln_import_input(im, 5))
        return KILN_ERROR(INVALID_ARGUMENT, "its rule needs beta (input 5)");
    return KILN_OK;
}

static kiln_status measure(kiln_importer *im, linear_attention *a) {
    const int64_t heads = kiln_import_int(im, "q_num_heads", 0);
    a->heads = kiln_import_int(im, "kv_num_heads", 0);
    for (uint32_t i = 0; i < 3; i++)
        if (!kiln_import_input(im, i))
            return KILN_ERROR(INVALID_ARGUMENT, "it needs a query, keys and values");
    const kiln_shape *query = kiln_compose_shape(a->c, kiln_import_input(im, 0));
    if (query->rank != 3 || a->heads < 1 || heads < 1 || heads % a->heads != 0 ||
        query->dim[2] % heads != 0 || query->dim[2] == 0)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "its query must be [batch, steps, heads * d_k], where kv_num_heads "
                          "divides q_num_heads");
    a->batch = query->dim[0];
    a->steps = query->dim[1];
    a->queries = heads / a->heads;
    return a->steps >= 1 && a->steps <= KILN_LOOP_TRIPS_MAX
               ? KILN_OK
               : KILN_ERROR(UNIMPLEMENTED, "%lld steps; 1 to %lld are supported",
                            (long long)a->steps, (long long)KILN_LOOP_TRIPS_MAX);
}

static void define_attention(linear_attention *a, kiln_value output, kiln_value state,
                             kiln_dtype dtype) {
    static const int64_t perm[] = {1, 0, 2, 3, 4};
    kiln_composer *c = a->c;
    if (c->st) return;
    const int64_t size = kiln_compose_shape(c, output)->dim[4];
    output = kiln_compose_ints(c, KILN_OP_TRANSPOSE, output, "perm", perm, 5);
    output = kiln_compose_reshape(
        c, output, &(kiln_shape){3, {a->batch, a->steps, a->heads * a->queries * size}});
    kiln_compose_define(c, 0, kiln_compose_cast(c, output, dtype));
    kiln_compose_define(c, 1, kiln_compose_cast(c, state, dtype));
}

kiln_status kiln_import_linear_attention(kiln_importer *im) {
    kiln_composer c = {.im = im};
    linear_attention a = {.c = &c};
    kiln_status st = read_rule(im, &a);
    if (!st) st = measure(im, &a);
    if (st) return st;
    const kiln_dtype dtype = kiln_compose_dtype(&c, kiln_import_input(im, 0));
    kiln_value row[ROWS] = {
        wide(&c, by_step(&a, kiln_import_input(im, 0), a.heads, a.queries, "query")),
        wide(&c, by_step(&a, kiln_import_input(im, 1), a.heads, 1, "key")),
        wide(&c, by_step(&a, kiln_import_input(im, 2), a.heads, 1, "value"))};
    if (c.st) return c.st;
    const int64_t size = kiln_compose_shape(&c, row[ROW_QUERY])->dim[4];
    const kiln_dtype sums = kiln_compose_dtype(&c, row[ROW_QUERY]);
    double scale = kiln_import_float(im, "scale", 0);
    if (scale == 0) scale = 1 / sqrt((double)size);
    row[ROW_QUERY] = mul(&c, row[ROW_QUERY], kiln_compose_scalar(&c, sums, scale));
    kiln_value stack = 0, state = first_state(&a, kiln_import_input(im, 3), size,
                                              kiln_compose_shape(&c, row[ROW_VALUE])->dim[4], sums);
    uint32_t rows = ROW_DECAY;
    if (a.forgets && !c.st) row[rows++] = decay_rows(&a, kiln_import_input(im, 4));
    if (a.corrects && !c.st) row[rows++] = rate_rows(&a, kiln_import_input(im, 5));
    kiln_compose_loop loop = {.trips = a.steps,
                              .carried = 1,
                              .row_count = rows,
                              .stack_count = 1,
                              .carry = &state,
                              .row = row,
                              .stack = &stack};
    kiln_compose_repeat(&c, &loop, attention_step, &a);
    define_attention(&a, stack, state, dtype);
    return c.st;
}

/* ---- CausalConvWithState --------------------------------------------------------------------- */

static kiln_value before(kiln_composer *c, kiln_value x, int64_t count) {
    const int64_t pads[] = {0, 0, count, 0, 0, 0};
    return count ? kiln_compose_ints(c, KILN_OP_PAD, x, "pads", pads, 6) : x;
}

/* The last `count` positions of past and x together; without `past` earlier positions are zeros. */
static kiln_value last_positions(kiln_composer *c, kiln_value x, kiln_value past, int64_t count) {
    if (c->st) return 0;
    const int64_t length = kiln_compose_shape(c, x)->dim[2];
    if (length >= count) return kiln_compose_slice(c, x, 2, length - count, length);
    if (!past) return before(c, x, count - length);
    const kiln_value part[] = {kiln_compose_slice(c, past, 2, length, count), x};
    return kiln_compose_concat(c, part, 2, 2);
}

/* One filter per channel, over `x` and the positions before it. */
static kiln_value filtered(kiln_composer *c, kiln_value x, kiln_value past, kiln_value weight,
                           kiln_value bias, int64_t count) {
    const int64_t pads[] = {past ? 0 : count, 0};
    const kiln_attr attr[] = {kiln_attr_int("group", kiln_compose_shape(c, x)->dim[1]),
                              kiln_attr_ints("pads", pads, 2)};
    if (past) x = kiln_compose_concat(c, (kiln_value[]){past, x}, 2, 2);
    const kiln_value operand[] = {x, weight, bias};
    kiln_value y = 0;
    kiln_compose_node(c, KILN_OP_CONV, operand, bias ? 3 : 2, attr, 2, &y, 1);
    return y;
}

kiln_status kiln_import_causal_conv(kiln_importer *im) {
    kiln_composer c = {.im = im};
    const kiln_value x = kiln_import_input(im, 0), weight = kiln_import_input(im, 1),
                     bias = kiln_import_input(im, 2), past = kiln_import_input(im, 3);
    const kiln_str activation = kiln_import_text(im, "activation", "none");
    const bool swish = kiln_str_is(activation, "silu") || kiln_str_is(activation, "swish");
    if (!swish && !kiln_str_is(activation, "none"))
        return KILN_ERROR(INVALID_ARGUMENT, "attribute activation: \"%.*s\"",
                          KILN_STR_ARG(activation));
    if (!x || !weight) return KILN_ERROR(INVALID_ARGUMENT, "it needs an input and a weight");
    const kiln_shape data = *kiln_compose_shape(&c, x), kernel = *kiln_compose_shape(&c, weight);
    if (data.rank != 3 || kernel.rank != 3 || kernel.dim[0] != data.dim[1] || kernel.dim[1] != 1 ||
        kernel.dim[2] < 1)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "its input must be [batch, channels, length] and its weight [channels, "
                          "1, k]");
    const int64_t count = kernel.dim[2] - 1;
    if (past && !kiln_shape_equal(kiln_compose_shape(&c, past),
                                  &(kiln_shape){3, {data.dim[0], data.dim[1], count}}))
        return KILN_ERROR(INVALID_ARGUMENT, "past_state must be [batch, channels, k - 1]");
    kiln_value y = filtered(&c, x, count ? past : 0, weight, bias, count);
    if (swish) y = kiln_compose_unary(&c, KILN_OP_SWISH, y);
    kiln_compose_define(&c, 0, y);
    kiln_compose_define(&c, 1, last_positions(&c, x, past, count));
    return c.st;
}

/* ---- TensorScatter --------------------------------------------------------------------------- */

/* The update's row for each position of the cache: [batch][1..][positions][1..]; negative numbers,
 * and numbers beyond the update, keep the position. */
static kiln_value row_numbers(kiln_composer *c, const kiln_shape *cache, uint32_t axis,
                              kiln_value first, bool circular) {
    const int64_t length = cache->dim[axis];
    kiln_shape along = {.rank = cache->rank - axis, .dim = {length}},
               by_sample = {.rank = cache->rank, .dim = {cache->dim[0]}};
    for (uint32_t d = 1; d < along.rank; d++) along.dim[d] = 1;
    for (uint32_t d = 1; d < by_sample.rank; d++) by_sample.dim[d] = 1;
    kiln_tensor position = kiln_tensor_create(c->im->graph->arena, KILN_I64, &along);
    for (int64_t i = 0; i < length; i++) ((int64_t *)position.data)[i] = i;
    const kiln_value number = kiln_compose_constant(c, &position);
    if (!first) return number;
    first = kiln_compose_reshape(c, kiln_compose_cast(c, first, KILN_I64), &by_sample);
    const kiln_value row = kiln_compose_binary(c, KILN_OP_SUB, number, first);
    return circular ? kiln_compose_binary(c, KILN_OP_MOD, row,
                                          kiln_compose_scalar(c, KILN_I64, (double)length))
                    : row;
}

static void scatter(kiln_composer *c, kiln_value cache, kiln_value update, uint32_t axis,
                    kiln_value row) {
    const kiln_shape shape = *kiln_compose_shape(c, cache);
    const int64_t count = kiln_compose_shape(c, update)->dim[axis];
    const kiln_value zero = kiln_compose_scalar(c, KILN_I64, 0),
                     end = kiln_compose_scalar(c, KILN_I64, (double)count);
    const kiln_value is_kept =
        kiln_compose_binary(c, KILN_OP_OR, kiln_compose_binary(c, KILN_OP_LESS, row, zero),
                            kiln_compose_binary(c, KILN_OP_GREATER_EQUAL, row, end));
    const kiln_value index =
        kiln_compose_ints(c, KILN_OP_EXPAND, kiln_compose_where(c, is_kept, zero, row), "shape",
                          shape.dim, shape.rank);
    const kiln_value operand[] = {update, index};
    const kiln_attr attr = kiln_attr_int("axis", axis);
    kiln_value taken = 0;
    kiln_compose_node(c, KILN_OP_GATHER_ELEMENTS, operand, 2, &attr, 1, &taken, 1);
    kiln_compose_define(c, 0, kiln_compose_where(c, is_kept, cache, taken));
}

kiln_status kiln_import_tensor_scatter(kiln_importer *im) {
    kiln_composer c = {.im = im};
    const kiln_value cache = kiln_import_input(im, 0), update = kiln_import_input(im, 1),
                     first = kiln_import_input(im, 2);
    const kiln_str mode = kiln_import_text(im, "mode", "linear");
    const bool circular = kiln_str_is(mode, "circular");
    int64_t axis = kiln_import_int(im, "axis", -2);
    if (!circular && !kiln_str_is(mode, "linear"))
        return KILN_ERROR(INVALID_ARGUMENT, "attribute mode: \"%.*s\"", KILN_STR_ARG(mode));
    if (!cache || !update) return KILN_ERROR(INVALID_ARGUMENT, "it needs a cache and an update");
    const kiln_shape shape = *kiln_compose_shape(&c, cache), part = *kiln_compose_shape(&c, update);
    if (axis < 0) axis += shape.rank;
    if (axis < 1 || axis >= shape.rank)
        return KILN_ERROR(INVALID_ARGUMENT, "attribute axis: %lld is out of range",
                          (long long)axis);
    kiln_shape wanted = shape;
    wanted.dim[axis] = KILN_MIN(part.dim[axis], shape.dim[axis]);
    if (!kiln_shape_equal(&part, &wanted) || wanted.dim[axis] < 1)
        return KILN_ERROR(INVALID_ARGUMENT, "its update does not fit its cache");
    if (first && !kiln_shape_equal(kiln_compose_shape(&c, first), &(kiln_shape){1, {shape.dim[0]}}))
        return KILN_ERROR(INVALID_ARGUMENT, "write_indices must hold one index for each sample");
    scatter(&c, cache, update, (uint32_t)axis,
            row_numbers(&c, &shape, (uint32_t)axis, first, circular));
    return c.st;
}
