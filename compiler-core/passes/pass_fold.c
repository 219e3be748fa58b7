/* Constant folding, and the removal of nodes that change nothing. */
#include "base/check.h"
#include "compiler-core/graph/op.h"
#include "compiler-core/ops/rules.h"
#include "compiler-core/passes/rewrite.h"

/* A node is folded when that cannot make the module much larger: its results have at most these
 * bytes, or no more than its inputs. */
#define FOLD_BYTES_MAX ((size_t)16 << 20)

static size_t value_bytes(const kiln_graph *graph, kiln_value value) {
    const kiln_value_info *info = &graph->value.data[value];
    return value ? (size_t)kiln_shape_count(&info->shape) * kiln_dtype_size(info->dtype) : 0;
}

static bool can_fold(const kiln_graph *graph, const kiln_node_info *node) {
    size_t in = 0, out = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->input[i] && !kiln_value_is_constant(graph, node->input[i])) return false;
        in += value_bytes(graph, node->input[i]);
    }
    for (uint32_t i = 0; i < node->output_count; i++) out += value_bytes(graph, node->output[i]);
    return out <= FOLD_BYTES_MAX || out <= in;
}

static kiln_status fold_node(kiln_graph *graph, kiln_node n, kiln_effort *effort) {
    const kiln_node_info node = graph->node.data[n];
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_tensor *input = KILN_ARENA_ARRAY(&scratch, kiln_tensor, node.input_count);
    kiln_tensor *output = KILN_ARENA_ARRAY(&scratch, kiln_tensor, node.output_count);
    for (uint32_t i = 0; i < node.input_count; i++)
        if (node.input[i]) input[i] = kiln_value_tensor(graph, node.input[i]);
    kiln_status st = kiln_node_eval(graph, n, input, effort, graph->arena, output);
    if (st && kiln_status_code(st) == KILN_RESOURCE_EXHAUSTED) {
        kiln_status_free(st); /* too much work here: it is computed at run time */
        st = KILN_OK;
    } else if (!st) {
        kiln_graph_remove_node(graph, n);
        for (uint32_t i = 0; i < node.output_count; i++)
            if (node.output[i]) kiln_graph_set_constant(graph, node.output[i], &output[i]);
    }
    kiln_arena_deinit(&scratch);
    return st;
}

static bool is_read(const kiln_node_info *node, const uint32_t *uses) {
    bool read = false;
    for (uint32_t i = 0; i < node->output_count; i++)
        read = read || (node->output[i] && uses[node->output[i]]);
    return read;
}

/* Results without readers are left to kiln_pass_remove_dead: they may be as large as weights. */
kiln_status kiln_pass_fold_constants(kiln_graph *graph) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    const uint32_t *uses = kiln_graph_count_uses(graph, &scratch);
    kiln_effort effort = kiln_effort_for(graph->given_bytes);
    kiln_status st = KILN_OK;
    for (kiln_node n = 1; !st && n < graph->node.count; n++) {
        const kiln_node_info *node = &graph->node.data[n];
        if (node->op != KILN_OP_NONE && !kiln_op_is_loop(node->op) && is_read(node, uses) &&
            can_fold(graph, node))
            st = fold_node(graph, n, &effort);
    }
    kiln_arena_deinit(&scratch);
    return st;
}

/* A transpose that leaves every dimension where it is. */
static bool moves_nothing(const kiln_node_info *node) {
    uint32_t count = 0;
    const int64_t *perm = kiln_node_ints(node, "perm", &count);
    for (uint32_t d = 0; d < count; d++)
        if (perm[d] != d) return false;
    return perm != NULL;
}

/* The input that a node returns unchanged; 0: none. */
static kiln_value passes_on(const kiln_graph *graph, kiln_node n) {
    const kiln_node_info *node = &graph->node.data[n];
    if (node->op == KILN_OP_NONE) return 0;
    bool mask = node->op == KILN_OP_DROPOUT && node->output_count > 1 && node->output[1];
    bool copies = node->op == KILN_OP_IDENTITY || (node->op == KILN_OP_DROPOUT && !mask) ||
                  node->op == KILN_OP_EXPAND || node->op == KILN_OP_TILE ||
                  node->op == KILN_OP_TRANSPOSE || kiln_op_is_alias(node->op);
    bool joins_one =
        (node->op == KILN_OP_CONCAT || node->op == KILN_OP_SUM || node->op == KILN_OP_MAX ||
         node->op == KILN_OP_MIN || node->op == KILN_OP_MEAN) &&
        node->input_count == 1;
    if (!copies && !joins_one) return 0;
    const kiln_value_info *in = &graph->value.data[node->input[0]],
                          *out = &graph->value.data[node->output[0]];
    if (node->op == KILN_OP_TRANSPOSE && !moves_nothing(node)) return 0;
    return kiln_shape_equal(&in->shape, &out->shape) && in->dtype == out->dtype ? node->input[0]
                                                                                : 0;
}

static kiln_value look_through(kiln_sweep *sweep, kiln_node node) {
    return passes_on(sweep->graph, node);
}

kiln_status kiln_pass_remove_identity(kiln_graph *graph) {
    kiln_graph_sweep(graph, look_through, NULL);
    return KILN_OK;
}

/* A result without readers need not be computed. */
static void drop_output(kiln_graph *graph, kiln_node node, uint32_t index) {
    graph->value.data[graph->node.data[node].output[index]].producer = 0;
    graph->node.data[node].output[index] = 0;
}

kiln_status kiln_pass_remove_dead(kiln_graph *graph) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    uint32_t *uses = kiln_graph_count_uses(graph, &scratch);
    for (kiln_node n = graph->node.count; n-- > 1;) {
        const kiln_node_info *node = &graph->node.data[n];
        const bool used = is_read(node, uses);
        for (uint32_t i = 0; i < node->output_count; i++)
            if (used && !uses[node->output[i]]) drop_output(graph, n, i);
        if (used || node->op == KILN_OP_NONE) continue;
        for (uint32_t i = 0; i < node->input_count; i++)
            if (node->input[i]) uses[node->input[i]]--;
        kiln_graph_remove_node(graph, n);
    }
    kiln_arena_deinit(&scratch);
    return KILN_OK;
}
