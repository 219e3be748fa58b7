#include "compiler-core/graph/loops.h"

#include "compiler-core/graph/op.h"

typedef struct finder {
    const kiln_graph *graph;
    KILN_VEC(kiln_graph_loop) loop;
    uint32_t *value_of, *node_of; /* the innermost loop + 1 */
} finder;

static kiln_graph_loop *loop_at(const finder *f, uint32_t loop) { return &f->loop.data[loop - 1]; }

static bool is_around(const finder *f, uint32_t outer, uint32_t inner) {
    while (inner > 0 && inner != outer) inner = loop_at(f, inner)->parent;
    return inner == outer;
}

/* The inner one of two loops whose values one node reads. If neither is known to contain the other
 * yet, the one that begins later is the inner one. 0: they cross. */
static uint32_t join(finder *f, uint32_t a, uint32_t b) {
    if (is_around(f, a, b)) return b;
    if (is_around(f, b, a)) return a;
    uint32_t outer = KILN_MIN(a, b), inner = KILN_MAX(a, b), top = inner;
    while (loop_at(f, top)->parent && !is_around(f, loop_at(f, top)->parent, outer))
        top = loop_at(f, top)->parent;
    bool open = !loop_at(f, outer)->end && !loop_at(f, inner)->end;
    if (!open || top < outer) return 0;
    loop_at(f, top)->parent = outer;
    return inner;
}

static kiln_status crossing(const kiln_graph *graph, kiln_value value) {
    return KILN_ERROR(INVALID_ARGUMENT, "%%%.*s of a loop is read outside of it",
                      KILN_STR_ARG(graph->value.data[value].name));
}

/* Its length is known only after the run: nothing can be computed from it. */
static kiln_status growing(const kiln_graph *graph, kiln_value value) {
    return KILN_ERROR(UNIMPLEMENTED,
                      "%%%.*s has as many rows as a loop runs, which is known at run time only: it "
                      "can be an output, once, and is read by nothing else",
                      KILN_STR_ARG(graph->value.data[value].name));
}

static kiln_status find_node(finder *f, kiln_node n, kiln_arena *arena) {
    const kiln_node_info *node = &f->graph->node.data[n];
    uint32_t in = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->input[i] && kiln_loop_grows(f->graph, node->input[i]))
            return growing(f->graph, node->input[i]);
        uint32_t other = node->input[i] ? f->value_of[node->input[i]] : 0;
        if (other == 0 || other == in) continue;
        if (loop_at(f, other)->end) return crossing(f->graph, node->input[i]);
        in = in ? join(f, in, other) : other;
        if (in == 0) return crossing(f->graph, node->input[i]);
    }
    uint32_t gives = in;
    if (node->op == KILN_OP_LOOP_BEGIN) {
        kiln_vec_push_in(arena, &f->loop, ((kiln_graph_loop){.begin = n, .parent = in}));
        gives = f->loop.count;
    } else if (node->op == KILN_OP_LOOP_END) {
        if (in != f->value_of[node->input[0]]) return crossing(f->graph, node->input[0]);
        loop_at(f, in)->end = n;
        gives = loop_at(f, in)->parent;
    }
    f->node_of[n] = in;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->output[i]) f->value_of[node->output[i]] = gives;
    return KILN_OK;
}

kiln_status kiln_graph_loops_find(const kiln_graph *graph, kiln_arena *arena,
                                  kiln_graph_loops *out_loops) {
    finder f = {.graph = graph,
                .value_of = KILN_ARENA_ARRAY(arena, uint32_t, graph->value.count),
                .node_of = KILN_ARENA_ARRAY(arena, uint32_t, graph->node.count)};
    kiln_status st = KILN_OK;
    for (kiln_node n = 1; !st && n < graph->node.count; n++)
        if (graph->node.data[n].op != KILN_OP_NONE) st = find_node(&f, n, arena);
    for (uint32_t i = 0; !st && i < graph->output.count; i++)
        if (f.value_of[graph->output.data[i]]) st = crossing(graph, graph->output.data[i]);
    for (uint32_t i = 0; !st && i < graph->output.count; i++)
        for (uint32_t k = 0; k < i && kiln_loop_grows(graph, graph->output.data[i]); k++)
            if (graph->output.data[k] == graph->output.data[i])
                return growing(graph, graph->output.data[i]);
    if (st) return st;
    for (uint32_t i = 0; i < f.loop.count; i++) { /* parents may have been found after the ends */
        f.node_of[f.loop.data[i].begin] = f.loop.data[i].parent;
        f.node_of[f.loop.data[i].end] = f.loop.data[i].parent;
    }
    f.node_of[0] = 0;
    *out_loops = (kiln_graph_loops){f.loop.count, f.loop.data, f.node_of};
    return KILN_OK;
}
