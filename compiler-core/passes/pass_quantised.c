/* Quantised graphs: bytes stay bytes through nodes that only move or choose them, and nodes before
 * a quantisation take its scale into their constants. Rows of simplify.def. */
#include <math.h>

#include "compiler-core/graph/attr.h"
#include "compiler-core/graph/op.h"
#include "compiler-core/ops/rules.h"
#include "compiler-core/passes/rewrite.h"

static const kiln_node_info *node_of(const kiln_sweep *s, kiln_node n) {
    return &s->graph->node.data[n];
}
static const kiln_value_info *value_of(const kiln_sweep *s, kiln_value v) {
    return &s->graph->value.data[v];
}

/* ---- scales and zero points ------------------------------------------------------------------ */

/* Scale and zero point of a node that quantises or dequantises; one of each. */
typedef struct quantum {
    float scale;
    int64_t zero;
} quantum;

static bool is_one_float(const kiln_sweep *s, kiln_value value) {
    return kiln_value_is_literal(s->graph, value) && value_of(s, value)->dtype == KILN_F32;
}

static bool find_quantum(const kiln_sweep *s, const kiln_node_info *node, quantum *out) {
    kiln_value zero = node->input_count > 2 ? node->input[2] : 0;
    if (!is_one_float(s, node->input[1]) || (zero && !kiln_value_is_literal(s->graph, zero)))
        return false;
    *out = (quantum){.scale = *(const float *)value_of(s, node->input[1])->data};
    if (zero) out->zero = kiln_dtype_load_i64(value_of(s, zero)->dtype, value_of(s, zero)->data, 0);
    return isfinite(out->scale) && out->scale > 0;
}

/* The node that dequantises bytes to `value` by one scale, if `value` has no other readers; 0:
 * none. */
static kiln_node dequantised(const kiln_sweep *s, kiln_value value, quantum *out) {
    kiln_node producer = value ? value_of(s, value)->producer : 0;
    if (!producer || node_of(s, producer)->op != KILN_OP_DEQUANTIZE_LINEAR ||
        !kiln_sweep_reads_alone(s, value))
        return 0;
    const kiln_dtype dtype = value_of(s, node_of(s, producer)->input[0])->dtype;
    return (dtype == KILN_I8 || dtype == KILN_U8) && find_quantum(s, node_of(s, producer), out)
               ? producer
               : 0;
}

/* Choosing elements keeps the result, as larger numbers have larger bytes. */
static bool keeps_elements(const kiln_node_info *node) {
    return kiln_op_keeps_elements(node->op) &&
           (kiln_op_is_alias(node->op) || (node->input_count == 1 && node->output_count == 1));
}

/* Whether a quantisation to `bits` would leave `bytes` as they are; 0: to all of their type. */
static bool fits_bits(const kiln_sweep *s, kiln_value bytes, int64_t bits) {
    while (bits) {
        const kiln_node producer = value_of(s, bytes)->producer;
        if (!producer) return false;
        const kiln_node_info *node = node_of(s, producer);
        if (node->op == KILN_OP_QUANTIZE_LINEAR) {
            const int64_t own = kiln_node_int(node, "bits");
            return own && own <= bits;
        }
        if (!keeps_elements(node)) return false;
        bytes = node->input[0];
    }
    return true;
}

/* Dequantised and quantised again, by the same numbers. */
kiln_value kiln_simplify_requantised(kiln_sweep *s, kiln_node n) {
    const kiln_node_info *node = node_of(s, n);
    quantum by, was;
    if (node->op != KILN_OP_QUANTIZE_LINEAR || !find_quantum(s, node, &by)) return 0;
    kiln_node before = value_of(s, node->input[0])->producer;
    if (!before || node_of(s, before)->op != KILN_OP_DEQUANTIZE_LINEAR ||
        !find_quantum(s, node_of(s, before), &was))
        return 0;
    kiln_value bytes = node_of(s, before)->input[0];
    return was.scale == by.scale && was.zero == by.zero &&
                   value_of(s, bytes)->dtype == value_of(s, node->output[0])->dtype &&
                   fits_bits(s, bytes, kiln_node_int(node, "bits"))
               ? bytes
               : 0;
}

/* The constant bound of a clip; `otherwise` where it has none, NaN where it is not known. */
static double bound_of(const kiln_sweep *s, const kiln_node_info *clip, uint32_t input,
                       double otherwise) {
    if (input >= clip->input_count || !clip->input[input]) return otherwise;
    return is_one_float(s, clip->input[input])
               ? (double)*(const float *)value_of(s, clip->input[input])->data
               : (double)NAN;
}

/* The fewest bits of `dtype` whose integers are those from `low` to `high`; 0: there are none. */
static int64_t bits_between(kiln_dtype dtype, double low, double high) {
    for (int64_t bits = 1; bits <= 8; bits++) {
        const double half = (double)((int64_t)1 << (bits - 1));
        if (dtype == KILN_I8 ? low == -half && high == half - 1 : low == 0 && high == 2 * half - 1)
            return bits;
    }
    return 0;
}

/* A clip to `low` and `high` changes no byte if the values that it clips have the lowest or the
 * highest byte anyway. Tighter bounds may be those of fewer bits. */
kiln_value kiln_simplify_cut_twice(kiln_sweep *s, kiln_node n) {
    const kiln_node_info *node = node_of(s, n);
    quantum by;
    if (node->op != KILN_OP_QUANTIZE_LINEAR || !find_quantum(s, node, &by)) return 0;
    const kiln_node before = value_of(s, node->input[0])->producer;
    const kiln_node_info *cut = node_of(s, before);
    const kiln_dtype dtype = value_of(s, node->output[0])->dtype;
    const bool relu = cut->op == KILN_OP_RELU;
    if (!before || (!relu && cut->op != KILN_OP_CLIP) || (dtype != KILN_I8 && dtype != KILN_U8))
        return 0;
    const double scale = (double)by.scale, zero = (double)by.zero,
                 low = rint((relu ? 0 : bound_of(s, cut, 1, -INFINITY)) / scale) + zero,
                 high = rint((relu ? INFINITY : bound_of(s, cut, 2, INFINITY)) / scale) + zero;
    int64_t least, most;
    kiln_quantize_range(node, dtype, &least, &most);
    const int64_t fewer =
        bits_between(dtype, KILN_MAX(low, (double)least), KILN_MIN(high, (double)most));
    if (isnan(low) || isnan(high) || (!fewer && (low > (double)least || high < (double)most)))
        return 0;
    if (low > (double)least || high < (double)most) {
        const kiln_attr bits = {.name = KILN_STR("bits"), .kind = KILN_ATTR_INT, .i = fewer};
        kiln_graph_set_attr(s->graph, n, &bits);
    }
    kiln_sweep_set_input(s, n, 0, cut->input[0]);
    return 0;
}

/* ---- moving bytes ---------------------------------------------------------------------------- */

/* Averages over elements only, without padding: averages of bytes are numbers that
 * dequantize_linear accepts like bytes. */
static bool averages(const kiln_node_info *node) {
    return node->op == KILN_OP_GLOBAL_AVERAGE_POOL ||
           (node->op == KILN_OP_AVERAGE_POOL && kiln_node_int(node, "count_include_pad") == 0);
}

/* The inputs of `n` as the bytes that they are dequantised from, all by one quantum: [input_count].
 * Returns the last of the dequantising nodes; 0: an input is something else. */
static kiln_node find_bytes(kiln_sweep *s, kiln_node n, kiln_value *out_bytes) {
    const kiln_node_info *node = node_of(s, n);
    quantum first = {0}, next;
    kiln_node last = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        kiln_node before = dequantised(s, node->input[i], &next);
        if (!before) return 0;
        out_bytes[i] = node_of(s, before)->input[0];
        if (i == 0) first = next;
        if (next.scale != first.scale || next.zero != first.zero ||
            value_of(s, out_bytes[i])->dtype != value_of(s, out_bytes[0])->dtype)
            return 0;
        last = before > last ? before : last;
    }
    return last;
}

static void remove_reader(kiln_sweep *s, kiln_node n) {
    const kiln_node_info *node = node_of(s, n);
    for (uint32_t i = 0; i < node->input_count; i++) s->uses[node->input[i]]--;
    s->uses[node->output[0]] = 0;
    kiln_graph_remove_node(s->graph, n);
}

/* Swaps `n` and `before`, the last node that dequantises one of its inputs, and removes the other
 * ones. `dtype`: of the operator on bytes. */
static void change_places(kiln_sweep *s, kiln_node before, kiln_node n, const kiln_value *bytes,
                          kiln_dtype dtype) {
    kiln_node_info *a = &s->graph->node.data[before], *b = &s->graph->node.data[n];
    kiln_value_info *between = &s->graph->value.data[a->output[0]];
    const kiln_node_info moved = *a;
    between->dtype = dtype;
    between->shape = value_of(s, b->output[0])->shape;
    for (uint32_t i = 0; i < b->input_count; i++) {
        kiln_node other = value_of(s, b->input[i])->producer;
        s->uses[bytes[i]]++;
        if (other != before) remove_reader(s, other);
        b->input[i] = bytes[i];
    }
    s->uses[moved.input[0]]--;
    a->op = b->op, a->attr = b->attr, a->attr_count = b->attr_count;
    a->input = b->input, a->input_count = b->input_count;
    b->op = moved.op, b->attr = moved.attr, b->attr_count = moved.attr_count;
    b->input = moved.input, b->input_count = moved.input_count;
    b->input[0] = a->output[0];
    s->changed = true;
}

kiln_value kiln_simplify_bytes_moved(kiln_sweep *s, kiln_node n) {
    const kiln_node_info *node = node_of(s, n);
    const bool joins = node->op == KILN_OP_CONCAT, means = averages(node);
    if (!joins && !means && !keeps_elements(node)) return 0;
    kiln_value bytes[KILN_NODE_OPERANDS_MAX];
    kiln_node last = find_bytes(s, n, bytes);
    if (last) change_places(s, last, n, bytes, means ? KILN_F32 : value_of(s, bytes[0])->dtype);
    return 0;
}

/* ---- scales ---------------------------------------------------------------------------------- */

/* Input `index` of a node times `factor`, as a new constant. */
static void scale_constant(kiln_sweep *s, kiln_node n, uint32_t index, double factor) {
    const kiln_value_info old = *value_of(s, node_of(s, n)->input[index]);
    kiln_tensor scaled = kiln_tensor_create(s->graph->arena, old.dtype, &old.shape);
    for (int64_t i = 0; i < kiln_shape_count(&old.shape); i++)
        kiln_dtype_store_f64(old.dtype, scaled.data, (size_t)i,
                             kiln_dtype_load_f64(old.dtype, old.data, (size_t)i) * factor);
    const char *name = kiln_arena_printf(s->graph->arena, "%.*s.scaled", KILN_STR_ARG(old.name));
    kiln_sweep_set_input(s, n, index,
                         kiln_graph_add_constant(s->graph, kiln_str_from(name), &scaled));
}

/* How scaling a node's result affects an input. */
typedef enum scaled_input {
    STAYS,  /* it has no scale */
    SCALES, /* by the same factor */
    FACTOR, /* a constant factor: one of these is scaled, and nothing else of the node */
} scaled_input;

static bool is_constant_float(const kiln_sweep *s, kiln_value value) {
    return kiln_value_is_constant(s->graph, value) && value_of(s, value)->dtype == KILN_F32;
}

/* Sets it for each input; false: scaling inputs does not scale the node's result. */
static bool find_scaled(const kiln_sweep *s, const kiln_node_info *node, scaled_input *out) {
    for (uint32_t i = 0; i < node->input_count; i++) out[i] = STAYS;
    switch ((int)node->op) {
    case KILN_OP_MUL:
        if (!is_constant_float(s, node->input[0]) && !is_constant_float(s, node->input[1]))
            return false;
        out[is_constant_float(s, node->input[1])] = FACTOR;
        return true;
    case KILN_OP_DEQUANTIZE_LINEAR: out[1] = FACTOR; return is_constant_float(s, node->input[1]);
    case KILN_OP_CLIP: /* bounds as well */
    case KILN_OP_ADD:
    case KILN_OP_SUB:
    case KILN_OP_CONCAT:
        for (uint32_t i = 0; i < node->input_count; i++) out[i] = node->input[i] ? SCALES : STAYS;
        return true;
    case KILN_OP_RELU:
    case KILN_OP_AVERAGE_POOL:
    case KILN_OP_GLOBAL_AVERAGE_POOL: out[0] = SCALES; return true;
    default: out[0] = SCALES; return keeps_elements(node);
    }
}

/* Whether `value`, if it has no other readers, is scaled by scaling constants before it; scales
 * them with `apply`. */
static bool scale_value(kiln_sweep *s, kiln_value value, double factor, bool apply) {
    scaled_input input[KILN_NODE_OPERANDS_MAX];
    const kiln_node n = value_of(s, value)->producer;
    if (!n || value_of(s, value)->dtype != KILN_F32 || !kiln_sweep_reads_alone(s, value) ||
        !find_scaled(s, node_of(s, n), input))
        return false;
    for (uint32_t i = 0; i < node_of(s, n)->input_count; i++) {
        const kiln_value in = node_of(s, n)->input[i];
        if (input[i] == STAYS) continue;
        if (is_constant_float(s, in)) {
            if (apply) scale_constant(s, n, i, factor);
        } else if (!scale_value(s, in, factor, apply)) {
            return false;
        }
    }
    return true;
}

kiln_value kiln_simplify_scales_taken(kiln_sweep *s, kiln_node n) {
    const kiln_node_info *node = node_of(s, n);
    quantum by;
    if (node->op != KILN_OP_QUANTIZE_LINEAR || !find_quantum(s, node, &by) || by.scale == 1 ||
        !scale_value(s, node->input[0], 1, false))
        return 0;
    scale_value(s, node->input[0], 1 / (double)by.scale, true);
    scale_constant(s, n, 1, 1 / (double)by.scale);
    return 0;
}
