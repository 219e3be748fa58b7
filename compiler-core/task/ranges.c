#include "compiler-core/task/ranges.h"

/* Whether all elements of the results are elements of input 0. */
static bool moves_or_chooses(const kiln_node_info *node) {
    static const kiln_op table[] = {
        KILN_OP_IDENTITY,        KILN_OP_RESHAPE,   KILN_OP_FLATTEN,    KILN_OP_SQUEEZE,
        KILN_OP_UNSQUEEZE,       KILN_OP_TRANSPOSE, KILN_OP_SLICE,      KILN_OP_SPLIT,
        KILN_OP_EXPAND,          KILN_OP_TILE,      KILN_OP_GATHER,     KILN_OP_DEPTH_TO_SPACE,
        KILN_OP_SPACE_TO_DEPTH,  KILN_OP_MAX_POOL,  KILN_OP_REDUCE_MAX, KILN_OP_REDUCE_MIN,
        KILN_OP_GLOBAL_MAX_POOL,
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (node->op == table[i]) return true;
    return false;
}

static kiln_range of_bits(int64_t bits, bool is_signed) {
    const int64_t low = is_signed ? -((int64_t)1 << (bits - 1)) : 0;
    return (kiln_range){low, low + ((int64_t)1 << bits) - 1, 1};
}

static kiln_range of_quantised(const kiln_node_info *node, kiln_dtype dtype) {
    const kiln_attr *bits = kiln_node_attr(node, "bits");
    if (!bits || bits->i == 0) return (kiln_range){0};
    return of_bits(bits->i, kiln_dtype_kind_of(dtype) == KILN_KIND_INT);
}

static bool same(const kiln_range *a, const kiln_range *b) {
    return a->low == b->low && a->high == b->high && a->step == b->step;
}

static kiln_range of_joined(const kiln_node_info *node, const kiln_range *range) {
    const kiln_range first = range[node->input[0]];
    for (uint32_t i = 1; i < node->input_count; i++)
        if (!same(&first, &range[node->input[i]])) return (kiln_range){0};
    return first;
}

kiln_range *kiln_graph_ranges(const kiln_graph *graph, kiln_arena *arena) {
    kiln_range *range = KILN_ARENA_ARRAY(arena, kiln_range, graph->value.count);
    for (kiln_node n = 1; n < graph->node.count; n++) {
        const kiln_node_info *node = &graph->node.data[n];
        for (uint32_t i = 0; i < node->output_count; i++) {
            const kiln_value to = node->output[i];
            if (!to) continue;
            const kiln_dtype dtype = graph->value.data[to].dtype;
            kiln_range found = {0};
            if (node->op == KILN_OP_QUANTIZE_LINEAR)
                found = of_quantised(node, dtype);
            else if (node->op == KILN_OP_CONCAT)
                found = of_joined(node, range);
            else if (moves_or_chooses(node))
                found = range[node->input[0]];
            if (found.step && kiln_range_fits(&found, dtype)) range[to] = found;
        }
    }
    return range;
}

/* ---- constants ------------------------------------------------------------------------------- */

static bool has_all(const kiln_range *range, const bool *occurs) {
    for (int64_t v = INT8_MIN; v <= UINT8_MAX; v++)
        if (occurs[v - INT8_MIN] &&
            (v < range->low || v > range->high || (v - range->low) % range->step != 0))
            return false;
    return true;
}

kiln_range kiln_constant_range(const kiln_tensor *constant) {
    bool occurs[UINT8_MAX - INT8_MIN + 1] = {false};
    const size_t count = (size_t)kiln_shape_count(&constant->shape);
    const bool is_signed = constant->dtype == KILN_I8;
    if ((!is_signed && constant->dtype != KILN_U8) || count == 0) return (kiln_range){0};
    const uint8_t *byte = constant->data;
    for (size_t i = 0; i < count; i++)
        occurs[(is_signed ? (int64_t)(int8_t)byte[i] : byte[i]) - INT8_MIN] = true;
    for (int64_t bits = 1; bits <= KILN_CONSTANT_BITS_MAX; bits++) {
        const int64_t most = ((int64_t)1 << bits) - 1;
        const kiln_range candidate[] = {
            {-most, most, 2}, of_bits(bits, false), of_bits(bits, true)};
        for (size_t i = 0; i < sizeof candidate / sizeof *candidate; i++)
            if (kiln_range_fits(&candidate[i], constant->dtype) && has_all(&candidate[i], occurs))
                return candidate[i];
    }
    return (kiln_range){0};
}
