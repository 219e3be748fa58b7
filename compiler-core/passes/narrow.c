#include "compiler-core/passes/narrow.h"

#include "base/macros.h"
#include "compiler-core/graph/op.h"

typedef struct narrower {
    kiln_graph *graph;
    kiln_dtype dtype;
    uint32_t values, nodes;   /* before any was added */
    bool *wanted;             /* [values] may be halves for all its readers */
    bool *leaves;             /* [values] read by another kernel than the one that computes it */
    kiln_value *narrow;       /* [values] the value in halves; 0: none */
    kiln_value *wide;         /* [values] the halves widened again, in the kernel `wide_in` */
    uint32_t *wide_in;        /* [values] */
    uint32_t *before, *after; /* [nodes] casts at its place, linked by `next`; 0: none */
    KILN_VEC(kiln_node) next; /* [casts] */
} narrower;

/* ---- which values ---------------------------------------------------------------------------- */

static bool is_kernel(kiln_op op) {
    return op != KILN_OP_NONE && !kiln_op_is_alias(op) && !kiln_op_is_loop(op);
}

/* Equal for nodes of one kernel. */
static uint32_t kernel_of(const kiln_graph *graph, kiln_node n) {
    const uint32_t group = graph->node.data[n].group;
    return group ? group : n;
}

static void find_wanted(narrower *w) {
    const kiln_graph *g = w->graph;
    for (kiln_value v = 1; v < w->values; v++)
        w->wanted[v] = g->value.data[v].dtype == KILN_F32 && g->value.data[v].producer;
    for (uint32_t i = 0; i < g->output.count; i++) w->wanted[g->output.data[i]] = false;
    for (kiln_node n = w->nodes; n-- > 1;) {
        const kiln_node_info *node = &g->node.data[n];
        const bool alias = kiln_op_is_alias(node->op), loop = kiln_op_is_loop(node->op);
        const bool fits =
            !loop && (!alias || (kiln_op_keeps_elements(node->op) && w->wanted[node->output[0]]));
        for (uint32_t i = 0; i < node->output_count; i++)
            if (loop) w->wanted[node->output[i]] = false;
        for (uint32_t i = 0; i < node->input_count; i++) {
            const kiln_value in = node->input[i];
            const kiln_node from = in ? g->value.data[in].producer : 0;
            w->wanted[in] = w->wanted[in] && fits;
            if (from && kernel_of(g, from) != kernel_of(g, n)) w->leaves[in] = true;
        }
    }
}

/* ---- casts ----------------------------------------------------------------------------------- */

/* `from` as a `to`, in the kernel of node `at`; the new node is put before or after it later. */
static kiln_status add_cast(narrower *w, kiln_value from, kiln_dtype to, kiln_node at,
                            uint32_t *list, kiln_value *out) {
    kiln_graph *g = w->graph;
    const char *dtype = kiln_dtype_name(to);
    const kiln_str name =
        kiln_str_printf(g->arena, "%.*s.%s", KILN_STR_ARG(g->value.data[from].name), dtype);
    const kiln_node cast = kiln_graph_add_node(g, KILN_OP_CAST, g->node.data[at].name, 1, 1);
    const kiln_attr attr = {
        .name = KILN_STR("to"), .kind = KILN_ATTR_TEXT, .text = kiln_str_from(dtype)};
    *out = kiln_graph_add_value(g, name);
    kiln_graph_set_input(g, cast, 0, from);
    kiln_graph_set_output(g, cast, 0, *out);
    kiln_graph_set_attr(g, cast, &attr);
    g->node.data[cast].group = kernel_of(g, at);
    g->node.data[at].group = kernel_of(g, at);
    kiln_vec_push_in(g->arena, &w->next, list[at]);
    list[at] = cast;
    return kiln_node_infer(g, cast);
}

/* Whether all of the node's inputs exist in halves, and all of its outputs may be halves. */
static bool moves_halves(const narrower *w, kiln_node n, const uint32_t *size) {
    const kiln_node_info *node = &w->graph->node.data[n];
    if (!kiln_op_keeps_elements(node->op) || size[kernel_of(w->graph, n)] > 1) return false;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (!w->narrow[node->input[i]]) return false;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->output[i] && !w->wanted[node->output[i]]) return false;
    return true;
}

static kiln_status move_halves(narrower *w, kiln_node n) {
    const kiln_node_info *node = &w->graph->node.data[n];
    for (uint32_t i = 0; i < node->input_count; i++)
        kiln_graph_set_input(w->graph, n, i, w->narrow[node->input[i]]);
    for (uint32_t i = 0; i < node->output_count; i++) w->narrow[node->output[i]] = node->output[i];
    return kiln_node_infer(w->graph, n);
}

static kiln_status narrow_kernel_node(narrower *w, kiln_node n) {
    kiln_graph *g = w->graph;
    const uint32_t kernel = kernel_of(g, n);
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < g->node.data[n].input_count; i++) {
        const kiln_value in = g->node.data[n].input[i];
        const kiln_node from = g->value.data[in].producer;
        if (!w->narrow[in] || (kernel_of(g, from) == kernel && w->narrow[in] != in)) continue;
        if (w->wide_in[in] != kernel)
            st = add_cast(w, w->narrow[in], KILN_F32, n, w->before, &w->wide[in]);
        w->wide_in[in] = kernel;
        if (!st) kiln_graph_set_input(g, n, i, w->wide[in]);
    }
    for (uint32_t i = 0; !st && i < g->node.data[n].output_count; i++) {
        const kiln_value out = g->node.data[n].output[i];
        if (w->wanted[out] && w->leaves[out])
            st = add_cast(w, out, w->dtype, n, w->after, &w->narrow[out]);
    }
    return st;
}

/* ---- order ----------------------------------------------------------------------------------- */

static void put_list(const narrower *w, kiln_node cast, kiln_node *order, kiln_node *count) {
    for (; cast; cast = w->next.data[cast - w->nodes]) order[(*count)++] = cast;
}

/* Nodes are in execution order: moves casts to their places. */
static void put_in_order(narrower *w, kiln_arena *scratch) {
    kiln_node *order = KILN_ARENA_ARRAY(scratch, kiln_node, w->graph->node.count), count = 1;
    for (kiln_node n = 1; n < w->nodes; n++) {
        put_list(w, w->before[n], order, &count);
        order[count++] = n;
        put_list(w, w->after[n], order, &count);
    }
    kiln_graph_reorder(w->graph, order);
}

static kiln_status narrow(narrower *w, kiln_arena *scratch) {
    kiln_graph *g = w->graph;
    kiln_status st = KILN_OK;
    uint32_t *size = KILN_ARENA_ARRAY(scratch, uint32_t, w->nodes); /* nodes of a kernel */
    find_wanted(w);
    for (kiln_node n = 1; n < w->nodes; n++)
        if (g->node.data[n].op != KILN_OP_NONE) size[kernel_of(g, n)]++;
    for (kiln_node n = 1; !st && n < w->nodes; n++) {
        if (moves_halves(w, n, size))
            st = move_halves(w, n);
        else if (is_kernel(g->node.data[n].op))
            st = narrow_kernel_node(w, n);
    }
    if (!st) put_in_order(w, scratch);
    return st ? st : kiln_graph_verify(g);
}

kiln_status kiln_graph_narrow(kiln_graph *graph, kiln_dtype dtype) {
    const uint32_t values = graph->value.count, nodes = graph->node.count;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    narrower w = {.graph = graph,
                  .dtype = dtype,
                  .values = values,
                  .nodes = nodes,
                  .wanted = KILN_ARENA_ARRAY(&scratch, bool, values),
                  .leaves = KILN_ARENA_ARRAY(&scratch, bool, values),
                  .narrow = KILN_ARENA_ARRAY(&scratch, kiln_value, values),
                  .wide = KILN_ARENA_ARRAY(&scratch, kiln_value, values),
                  .wide_in = KILN_ARENA_ARRAY(&scratch, uint32_t, values),
                  .before = KILN_ARENA_ARRAY(&scratch, uint32_t, nodes),
                  .after = KILN_ARENA_ARRAY(&scratch, uint32_t, nodes)};
    kiln_status st = narrow(&w, &scratch);
    kiln_arena_deinit(&scratch);
    return kiln_status_note(st, "halves between kernels");
}
