/* One sweep over the nodes, in order, so that one renaming of operands is enough. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/passes/rewrite.h"

static bool is_output(const kiln_graph *graph, kiln_value value) {
    for (uint32_t i = 0; i < graph->output.count; i++)
        if (graph->output.data[i] == value) return true;
    return false;
}

/* An output is known by its name. A value that replaces it takes that name, unless its own name is
 * known as well. */
static bool may_stand_for(const kiln_graph *graph, kiln_value source, kiln_value result) {
    return !is_output(graph, result) ||
           (graph->value.data[source].producer && !is_output(graph, source));
}

static void take_name(kiln_graph *graph, kiln_value source, kiln_value result) {
    if (!is_output(graph, result)) return;
    kiln_str name = graph->value.data[source].name;
    kiln_graph_rename_value(graph, source, graph->value.data[result].name);
    kiln_graph_rename_value(graph, result, name);
    for (uint32_t i = 0; i < graph->output.count; i++)
        if (graph->output.data[i] == result) graph->output.data[i] = source;
}

void kiln_sweep_set_input(kiln_sweep *s, kiln_node node, uint32_t index, kiln_value value) {
    kiln_value before = s->graph->node.data[node].input[index];
    s->uses[before]--;
    s->uses[value]++;
    kiln_graph_set_input(s->graph, node, index, value);
    s->changed = true;
}

bool kiln_sweep_reads_alone(const kiln_sweep *s, kiln_value value) { return s->uses[value] == 1; }

bool kiln_graph_sweep(kiln_graph *graph, kiln_look look, void *context) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    uint32_t values = graph->value.count, nodes = graph->node.count,
             room = values + 2 * nodes; /* constants may be added */
    kiln_sweep s = {
        .graph = graph, .uses = KILN_ARENA_ARRAY(&scratch, uint32_t, room), .context = context};
    memcpy(s.uses, kiln_graph_count_uses(graph, &scratch), values * sizeof *s.uses);
    kiln_value *stands = KILN_ARENA_ARRAY(&scratch, kiln_value, room); /* the value read instead */
    for (kiln_value v = 0; v < room; v++) stands[v] = v;
    for (kiln_node n = 1; n < nodes; n++) {
        const kiln_node_info *node = &graph->node.data[n];
        if (node->op == KILN_OP_NONE) continue;
        for (uint32_t i = 0; i < node->input_count; i++) node->input[i] = stands[node->input[i]];
        kiln_value source = look(&s, n), result = graph->node.data[n].output[0];
        KILN_CHECK(graph->value.count <= values + 2 * n);
        if (!source || !result || !may_stand_for(graph, source, result)) continue;
        stands[result] = source;
        s.uses[source] += s.uses[result];
        for (uint32_t i = 0; i < graph->node.data[n].input_count; i++)
            s.uses[graph->node.data[n].input[i]]--;
        take_name(graph, source, result);
        kiln_graph_remove_node(graph, n);
        s.changed = true;
    }
    kiln_arena_deinit(&scratch);
    return s.changed;
}
