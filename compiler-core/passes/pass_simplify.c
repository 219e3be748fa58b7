/* Algebra on the graph: the rows of simplify.def. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/graph/op.h"
#include "compiler-core/ops/rules.h"
#include "compiler-core/passes/rewrite.h"

#define ROUNDS_MAX \
    8 /* a row may enable another; a graph after this many sweeps is correct, only longer */

static const kiln_look row_table[] = {
#define X(id, name, function, doc) function,
#include "compiler-core/passes/simplify.def"
#undef X
};

static const kiln_node_info *node_of(const kiln_sweep *s, kiln_node n) {
    return &s->graph->node.data[n];
}
static const kiln_value_info *value_of(const kiln_sweep *s, kiln_value v) {
    return &s->graph->value.data[v];
}

/* The node that computes `value` when it is such an operator; NULL otherwise. */
static const kiln_node_info *made_by(const kiln_sweep *s, kiln_value value, kiln_op op) {
    kiln_node producer = value ? value_of(s, value)->producer : 0;
    return producer && node_of(s, producer)->op == op ? node_of(s, producer) : NULL;
}

static bool same_type(const kiln_sweep *s, kiln_value a, kiln_value b) {
    return value_of(s, a)->dtype == value_of(s, b)->dtype &&
           kiln_shape_equal(&value_of(s, a)->shape, &value_of(s, b)->shape);
}

/* Every element of a constant is `wanted`. */
static bool is_all(const kiln_sweep *s, kiln_value value, double wanted) {
    const kiln_value_info *info = value_of(s, value);
    if (!kiln_value_is_constant(s->graph, value)) return false;
    for (int64_t i = 0; i < kiln_shape_count(&info->shape); i++)
        if (kiln_dtype_load_f64(info->dtype, info->data, (size_t)i) != wanted) return false;
    return true;
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

kiln_value kiln_simplify_neutral(kiln_sweep *s, kiln_node n) {
    static const struct {
        kiln_op op;
        double neutral;
        bool either_side;
    } table[] = {{KILN_OP_ADD, 0, true},
                 {KILN_OP_SUB, 0, false},
                 {KILN_OP_MUL, 1, true},
                 {KILN_OP_DIV, 1, false},
                 {KILN_OP_POW, 1, false}};
    const kiln_node_info *node = node_of(s, n);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++) {
        if (table[i].op != node->op) continue;
        for (uint32_t side = 0; side < (table[i].either_side ? 2u : 1u); side++)
            if (same_type(s, node->input[side], node->output[0]) &&
                is_all(s, node->input[1 - side], table[i].neutral))
                return node->input[side];
    }
    return 0;
}

kiln_value kiln_simplify_twice(kiln_sweep *s, kiln_node n) {
    static const kiln_op table[] = {KILN_OP_RELU, KILN_OP_ABS,   KILN_OP_FLOOR,
                                    KILN_OP_CEIL, KILN_OP_ROUND, KILN_OP_SIGN};
    const kiln_node_info *node = node_of(s, n);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++)
        if (node->op == table[i] && made_by(s, node->input[0], node->op)) return node->input[0];
    return 0;
}

kiln_value kiln_simplify_undone(kiln_sweep *s, kiln_node n) {
    static const kiln_op table[] = {KILN_OP_NEG, KILN_OP_NOT, KILN_OP_BITWISE_NOT};
    const kiln_node_info *node = node_of(s, n);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(table); i++) {
        const kiln_node_info *inner =
            node->op == table[i] ? made_by(s, node->input[0], node->op) : NULL;
        if (inner) return inner->input[0];
    }
    return 0;
}

/* Position of the operand that is a constant of one element, or -1. */
static int literal_side(const kiln_sweep *s, const kiln_node_info *node) {
    for (int side = 1; side >= 0; side--)
        if (kiln_value_is_literal(s->graph, node->input[side])) return side;
    return -1;
}

/* Equal apart from rounding; not for integers, which could overflow elsewhere. */
kiln_value kiln_simplify_gathered(kiln_sweep *s, kiln_node n) {
    const kiln_node_info *node = node_of(s, n);
    if (node->op != KILN_OP_ADD && node->op != KILN_OP_MUL) return 0;
    int side = literal_side(s, node);
    const kiln_node_info *inner = side < 0 ? NULL : made_by(s, node->input[1 - side], node->op);
    int inner_side = inner ? literal_side(s, inner) : -1;
    if (inner_side < 0 || !kiln_dtype_is_float(value_of(s, node->output[0])->dtype)) return 0;
    kiln_value rest = inner->input[1 - inner_side];
    const kiln_value_info *a = value_of(s, node->input[side]),
                          *b = value_of(s, inner->input[inner_side]);
    if (!same_type(s, rest, node->output[0])) return 0;
    double x = kiln_dtype_load_f64(a->dtype, a->data, 0),
           y = kiln_dtype_load_f64(b->dtype, b->data, 0);
    kiln_tensor both = kiln_tensor_create(s->graph->arena, a->dtype, &a->shape);
    kiln_dtype_store_f64(both.dtype, both.data, 0, node->op == KILN_OP_ADD ? x + y : x * y);
    const char *name = kiln_arena_printf(s->graph->arena, "%.*s.gathered", KILN_STR_ARG(a->name));
    kiln_value constant = kiln_graph_add_constant(s->graph, kiln_str_from(name), &both);
    kiln_sweep_set_input(s, n, (uint32_t)side, constant);
    kiln_sweep_set_input(s, n, (uint32_t)(1 - side), rest);
    return 0;
}

/* Every value of `from` is a value of `to`. */
static bool loses_nothing(kiln_dtype from, kiln_dtype to) {
    kiln_dtype_kind a = kiln_dtype_kind_of(from), b = kiln_dtype_kind_of(to);
    if (a == KILN_KIND_BOOL) return to != KILN_F8E8M0; /* which has no 0 */
    if (a == b && a != KILN_KIND_FLOAT) return kiln_dtype_size(from) <= kiln_dtype_size(to);
    if (a == KILN_KIND_UINT && b == KILN_KIND_INT)
        return kiln_dtype_size(from) < kiln_dtype_size(to);
    return kiln_dtype_is_float(from) && kiln_dtype_is_float(to) &&
           (from == to || (kiln_dtype_size(from) < kiln_dtype_size(to) &&
                           !(from == KILN_F8E8M0 && to == KILN_F16)));
}

kiln_value kiln_simplify_casts(kiln_sweep *s, kiln_node n) {
    const kiln_node_info *node = node_of(s, n);
    const kiln_node_info *inner =
        node->op == KILN_OP_CAST ? made_by(s, node->input[0], KILN_OP_CAST) : NULL;
    if (!inner ||
        !loses_nothing(value_of(s, inner->input[0])->dtype, value_of(s, inner->output[0])->dtype))
        return 0;
    if (same_type(s, inner->input[0], node->output[0])) return inner->input[0];
    kiln_sweep_set_input(s, n, 0, inner->input[0]);
    return 0;
}

/* Element `i` of weights less the zero point of its output channel. */
static int64_t less_zero(const kiln_value_info *weight, const kiln_value_info *zero, int64_t i) {
    int64_t value = kiln_dtype_load_i64(weight->dtype, weight->data, (size_t)i);
    if (!zero) return value;
    int64_t count = kiln_shape_count(&zero->shape),
            each = kiln_shape_count(&weight->shape) / weight->shape.dim[0];
    return value -
           kiln_dtype_load_i64(zero->dtype, zero->data, (size_t)(count == 1 ? 0 : i / each));
}

/* Splits sums of products with signed weights without a zero point into simpler ones. */
kiln_value kiln_simplify_signed_weights(kiln_sweep *s, kiln_node n) {
    const kiln_node_info *node = node_of(s, n);
    if ((node->op != KILN_OP_CONV_INTEGER && node->op != KILN_OP_MATMUL_INTEGER) ||
        !kiln_value_is_constant(s->graph, node->input[1]))
        return 0;
    kiln_value zero_value = node->input_count > 3 ? node->input[3] : 0;
    const kiln_value_info weight = *value_of(s, node->input[1]),
                          *zero = zero_value ? value_of(s, zero_value) : NULL;
    if (zero ? !kiln_value_is_constant(s->graph, zero_value) : weight.dtype == KILN_I8) return 0;
    kiln_tensor fits = kiln_tensor_create(s->graph->arena, KILN_I8, &weight.shape);
    for (int64_t i = 0; i < kiln_shape_count(&weight.shape); i++) {
        int64_t value = less_zero(&weight, zero, i);
        if (value < INT8_MIN || value > INT8_MAX) return 0;
        ((int8_t *)fits.data)[i] = (int8_t)value;
    }
    const char *name = kiln_arena_printf(s->graph->arena, "%.*s.signed", KILN_STR_ARG(weight.name));
    kiln_value constant = kiln_graph_add_constant(s->graph, kiln_str_from(name), &fits);
    kiln_sweep_set_input(s, n, 1, constant);
    if (!zero) return 0;
    kiln_sweep_set_input(s, n, 3, 0);
    s->graph->node.data[n].input_count = node_of(s, n)->input[2] ? 3 : 2;
    return 0;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Turns a node into a reshape of its operand to the shape that its result has. */
static void make_reshape(kiln_sweep *s, kiln_node n) {
    kiln_node_info *node = &s->graph->node.data[n];
    const kiln_shape shape = value_of(s, node->output[0])->shape;
    node->op = KILN_OP_RESHAPE;
    node->attr_count = 0;
    node->attr = NULL;
    kiln_graph_set_ints(s->graph, n, "shape", shape.dim, shape.rank);
    if (kiln_shape_count(&shape) == 0) kiln_graph_set_int(s->graph, n, "allowzero", 1);
    s->changed = true;
}

kiln_value kiln_simplify_views(kiln_sweep *s, kiln_node n) {
    const kiln_node_info *node = node_of(s, n);
    kiln_node producer = kiln_op_is_alias(node->op) ? value_of(s, node->input[0])->producer : 0;
    if (!producer || !kiln_op_is_alias(node_of(s, producer)->op)) return 0;
    kiln_value origin = node_of(s, producer)->input[0];
    if (same_type(s, origin, node->output[0])) return origin;
    /* A reshape cannot replace a bit_cast. */
    if (value_of(s, origin)->dtype != value_of(s, node->output[0])->dtype) return 0;
    kiln_sweep_set_input(s, n, 0, origin);
    make_reshape(s, n);
    return 0;
}

/* The order of dimensions: given, or all reversed. */
static void order_of(const kiln_sweep *s, const kiln_node_info *node, int64_t *out_perm) {
    uint32_t count = 0, rank = value_of(s, node->input[0])->shape.rank;
    const int64_t *perm = kiln_node_ints(node, "perm", &count);
    for (uint32_t d = 0; d < rank; d++) out_perm[d] = perm ? perm[d] : (int64_t)(rank - 1 - d);
}

kiln_value kiln_simplify_transposes(kiln_sweep *s, kiln_node n) {
    const kiln_node_info *node = node_of(s, n);
    const kiln_node_info *inner =
        node->op == KILN_OP_TRANSPOSE ? made_by(s, node->input[0], KILN_OP_TRANSPOSE) : NULL;
    if (!inner) return 0;
    int64_t outer_perm[KILN_RANK_MAX], inner_perm[KILN_RANK_MAX], perm[KILN_RANK_MAX];
    uint32_t rank = value_of(s, node->input[0])->shape.rank, kept = 0;
    order_of(s, node, outer_perm);
    order_of(s, inner, inner_perm);
    for (uint32_t d = 0; d < rank; d++) {
        perm[d] = inner_perm[outer_perm[d]];
        kept += perm[d] == d;
    }
    if (kept == rank) return inner->input[0];
    kiln_sweep_set_input(s, n, 0, inner->input[0]);
    kiln_graph_set_ints(s->graph, n, "perm", perm, rank);
    return 0;
}

kiln_value kiln_simplify_flat_transpose(kiln_sweep *s, kiln_node n) {
    const kiln_node_info *node = node_of(s, n);
    if (node->op != KILN_OP_TRANSPOSE) return 0;
    const kiln_shape *shape = &value_of(s, node->input[0])->shape;
    int64_t perm[KILN_RANK_MAX], last = -1;
    order_of(s, node, perm);
    for (uint32_t d = 0; d < shape->rank; d++) {
        if (shape->dim[perm[d]] == 1) continue;
        if (perm[d] < last) return 0;
        last = perm[d];
    }
    make_reshape(s, n);
    return 0;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Padding of spatial dimensions with zeros, nothing cut off. out_pads: [2 * rank]. */
static bool is_zero_border(const kiln_sweep *s, const kiln_node_info *pad, int64_t *out_pads) {
    uint32_t rank = value_of(s, pad->input[0])->shape.rank, count = 0, mask = 0;
    const int64_t *pads = kiln_node_ints(pad, "pads", &count);
    kiln_status st = kiln_axes_resolve(pad, "axes", rank, kiln_mask_all(rank), &mask);
    kiln_status_free(st); /* the graph was verified */
    bool zero = pad->input_count < 2 || !pad->input[1] || is_all(s, pad->input[1], 0);
    if (st || !zero || !kiln_str_is(kiln_node_text(pad, "mode"), "constant") ||
        mask != kiln_mask_all(rank) || kiln_node_has(pad, "axes") || count != 2 * rank)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (pads[i] < 0 || (i % rank < 2 && pads[i] != 0)) return false;
        out_pads[i] = pads[i];
    }
    return true;
}

kiln_value kiln_simplify_padding(kiln_sweep *s, kiln_node n) {
    const kiln_node_info *node = node_of(s, n);
    const kiln_node_info *pad =
        node->op == KILN_OP_CONV ? made_by(s, node->input[0], KILN_OP_PAD) : NULL;
    int64_t border[2 * KILN_RANK_MAX], sum[2 * KILN_RANK_MAX];
    if (!pad || !kiln_sweep_reads_alone(s, node->input[0]) ||
        !kiln_str_is(kiln_node_text(node, "auto_pad"), "NOTSET") || !is_zero_border(s, pad, border))
        return 0;
    uint32_t rank = value_of(s, node->input[0])->shape.rank, spatial = rank - 2, count = 0;
    const int64_t *own = kiln_node_ints(node, "pads", &count);
    for (uint32_t d = 0; d < spatial; d++) {
        sum[d] = border[2 + d] + (own ? own[d] : 0);
        sum[spatial + d] = border[rank + 2 + d] + (own ? own[spatial + d] : 0);
    }
    kiln_sweep_set_input(s, n, 0, pad->input[0]);
    kiln_graph_set_ints(s->graph, n, "pads", sum, 2 * spatial);
    return 0;
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* `value` is the mean of another one over its last dimensions, which are kept as 1. */
static bool is_mean(const kiln_sweep *s, kiln_value value, kiln_value *out_of, uint32_t *out_axis) {
    const kiln_node_info *mean = made_by(s, value, KILN_OP_REDUCE_MEAN);
    if (!mean || !kiln_node_has(mean, "axes")) return false;
    uint32_t rank = value_of(s, mean->input[0])->shape.rank, mask = 0, axis = 0;
    kiln_status st = kiln_axes_resolve(mean, "axes", rank, 0, &mask);
    kiln_status_free(st); /* the graph was verified */
    if (st || !mask || value_of(s, value)->shape.rank != rank) return false;
    while (!(mask >> axis & 1)) axis++;
    *out_of = mean->input[0];
    *out_axis = axis;
    return mask == (kiln_mask_all(rank) & ~0u << axis);
}

/* `value` is x - mean(x). */
static bool is_deviation(const kiln_sweep *s, kiln_value value, kiln_value *out_x,
                         uint32_t *out_axis) {
    const kiln_node_info *sub = made_by(s, value, KILN_OP_SUB);
    return sub && is_mean(s, sub->input[1], out_x, out_axis) && sub->input[0] == *out_x &&
           same_type(s, *out_x, value);
}

/* The value whose square `value` is; 0: it is no square. */
static kiln_value square_root(const kiln_sweep *s, kiln_value value) {
    const kiln_node_info *mul = made_by(s, value, KILN_OP_MUL),
                         *pow = made_by(s, value, KILN_OP_POW);
    if (mul && mul->input[0] == mul->input[1]) return mul->input[0];
    return pow && kiln_value_is_literal(s->graph, pow->input[1]) && is_all(s, pow->input[1], 2)
               ? pow->input[0]
               : 0;
}

static kiln_value ones_like(kiln_sweep *s, kiln_value like, kiln_value norm) {
    const kiln_shape one = {.rank = 1, .dim = {1}};
    kiln_tensor ones = kiln_tensor_create(s->graph->arena, value_of(s, like)->dtype, &one);
    kiln_dtype_store_f64(ones.dtype, ones.data, 0, 1);
    const char *name =
        kiln_arena_printf(s->graph->arena, "%.*s.scale", KILN_STR_ARG(value_of(s, norm)->name));
    return kiln_graph_add_constant(s->graph, kiln_str_from(name), &ones);
}

kiln_value kiln_simplify_norm(kiln_sweep *s, kiln_node n) {
    const kiln_node_info *div = node_of(s, n);
    const kiln_node_info *root =
        div->op == KILN_OP_DIV ? made_by(s, div->input[1], KILN_OP_SQRT) : NULL;
    const kiln_node_info *sum = root ? made_by(s, root->input[0], KILN_OP_ADD) : NULL;
    int side = sum ? literal_side(s, sum) : -1;
    kiln_value x = 0, again = 0, square = 0;
    uint32_t axis = 0, other = 0, third = 0;
    if (side < 0 || !is_deviation(s, div->input[0], &x, &axis) ||
        !is_mean(s, sum->input[1 - side], &square, &other) ||
        !is_deviation(s, square_root(s, square), &again, &third) || again != x || other != axis ||
        third != axis || !same_type(s, x, div->output[0]))
        return 0;
    const kiln_value_info *epsilon = value_of(s, sum->input[side]);
    const kiln_attr attr =
        kiln_attr_float("epsilon", kiln_dtype_load_f64(epsilon->dtype, epsilon->data, 0));
    s->graph->node.data[n].op = KILN_OP_LAYER_NORM;
    kiln_graph_set_attr(s->graph, n, &attr);
    kiln_graph_set_int(s->graph, n, "axis", axis);
    kiln_sweep_set_input(s, n, 1, ones_like(s, x, div->output[0]));
    kiln_sweep_set_input(s, n, 0, x);
    return 0;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static kiln_value look(kiln_sweep *s, kiln_node n) {
    const uint32_t *rows = s->context;
    for (uint32_t r = 0; r < KILN_SIMPLIFY_COUNT; r++) {
        uint32_t values = s->graph->value.count;
        kiln_value stands = *rows >> r & 1 ? row_table[r](s, n) : 0;
        if (stands || s->graph->value.count > values) return stands;
    }
    return 0;
}

void kiln_graph_simplify(kiln_graph *graph, uint32_t rows) {
    for (uint32_t round = 0; round < ROUNDS_MAX && kiln_graph_sweep(graph, look, &rows);) round++;
}

kiln_status kiln_pass_simplify(kiln_graph *graph) {
    kiln_graph_simplify(graph, ~0u);
    return KILN_OK;
}
