/* Fusion: puts nodes into kernels, by access patterns only (ops/classify.c), never by name.
 *
 * Nodes are visited in execution order. A node without a reduction joins the group that computes
 * one of its operands if that group's result has no other reader: so there is never a path out of a
 * group and back into it. A group with a reduction takes only elementwise and broadcasting nodes,
 * which compute on the reduction's result in place; chains of movement and arithmetic without any
 * reduction merge freely. A result with several readers joins them as soon as they are one group: x
 * * sigmoid(x), or the chain that exporters write for GELU. */
#include "base/check.h"
#include "base/manifest.h"
#include "compiler-core/graph/loops.h"
#include "compiler-core/graph/op.h"
#include "compiler-core/passes/rewrite.h"

#define GROUP_NODES_MAX 64
#define GROUP_VALUES_MAX \
    48 /* operands of one kernel; KILN_MANIFEST_ARGS_MAX leaves room for packed ones */
#define FUSED_INPUTS_MAX \
    16 /* a node that joins more inputs than this (a wide concat) stays alone */

typedef struct fusion {
    kiln_graph *graph;
    const uint32_t *uses;
    kiln_access *access; /* [node count] class of the group that the node leads */
    uint32_t *size;      /* [node count] nodes in the group that the node leads */
    kiln_node *next;     /* [node count] in its group, whose leader is first; 0: none */
    kiln_node *last;     /* [node count] of the group that the node leads */
    uint32_t *values;    /* [node count] upper bound of its operands */
    kiln_graph_loops loops;
} fusion;

_Static_assert(GROUP_VALUES_MAX < KILN_MANIFEST_ARGS_MAX, "packed arguments need room");

static bool is_kernel(const kiln_graph *graph, kiln_node n) {
    kiln_op op = graph->node.data[n].op;
    return op != KILN_OP_NONE && !kiln_op_is_alias(op) && !kiln_op_is_loop(op);
}

/* A kernel is either inside of a loop or outside of it. */
static bool in_one_body(const fusion *f, kiln_node a, kiln_node b) {
    return f->loops.of[a] == f->loops.of[b];
}

/* Same elements, so that a result can be computed on in place. */
static bool same_shape(const kiln_graph *graph, kiln_value a, kiln_value b) {
    return kiln_shape_equal(&graph->value.data[a].shape, &graph->value.data[b].shape);
}

/* How many inputs of `n` read this value. */
static uint32_t reads(const kiln_node_info *node, kiln_value value) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < node->input_count; i++) count += node->input[i] == value;
    return count;
}

/* Whether node `n` may join the group of the producer of its input `index`. */
static bool may_join(const fusion *f, kiln_node n, uint32_t index, const kiln_op_class *class) {
    const kiln_node_info *node = &f->graph->node.data[n];
    kiln_value value = node->input[index];
    kiln_node producer = value ? f->graph->value.data[value].producer : 0;
    if (!producer || !is_kernel(f->graph, producer) || !in_one_body(f, producer, n)) return false;
    uint32_t group = f->graph->node.data[producer].group;
    if (f->uses[value] != reads(node, value) || f->size[group] >= GROUP_NODES_MAX) return false;
    if (f->values[group] + node->input_count > GROUP_VALUES_MAX) return false;
    for (uint32_t i = 0; i < f->graph->node.data[producer].output_count; i++) {
        kiln_value other = f->graph->node.data[producer].output[i];
        if (other && other != value && f->uses[other]) return false;
    }
    if (f->access[group] <= KILN_ACCESS_INJECTIVE) return true;
    return class->input[index] <= KILN_ACCESS_ELEMENTWISE && class->node <= KILN_ACCESS_BROADCAST &&
           same_shape(f->graph, value, node->output[0]);
}

/* Whether all that read `value` are nodes of `group`, each of them element by element. */
static bool reads_elements_alone(const fusion *f, kiln_value value, uint32_t group) {
    uint32_t found = 0;
    for (kiln_node n = group; n; n = f->next[n]) found += reads(&f->graph->node.data[n], value);
    for (kiln_node n = group; n && found == f->uses[value]; n = f->next[n]) {
        const kiln_node_info *node = &f->graph->node.data[n];
        kiln_op_class class;
        if (!reads(node, value)) continue;
        kiln_node_classify(f->graph, n, &class);
        for (uint32_t i = 0; i < node->input_count; i++)
            if (node->input[i] == value && class.input[i] > KILN_ACCESS_ELEMENTWISE) return false;
    }
    return found == f->uses[value];
}

/* Whether `group`, whose result is like `result`, may join behind the producer of `value`, which
 * several of its nodes read. The producer's group has no other readers, so no path leaves it and
 * comes back. */
static bool may_follow(const fusion *f, kiln_value value, uint32_t group, kiln_value result) {
    kiln_node producer = value ? f->graph->value.data[value].producer : 0;
    if (!producer || !is_kernel(f->graph, producer) || f->uses[value] < 2) return false;
    uint32_t from = f->graph->node.data[producer].group;
    return from != group && in_one_body(f, producer, group) &&
           f->graph->node.data[producer].output_count == 1 &&
           f->access[group] <= KILN_ACCESS_BROADCAST &&
           f->size[from] + f->size[group] <= GROUP_NODES_MAX &&
           f->values[from] + f->values[group] <= GROUP_VALUES_MAX &&
           same_shape(f->graph, value, result) && reads_elements_alone(f, value, group);
}

/* The group with the most work wins: a reduction rather than arithmetic, and the later one of
 * equals. */
static uint32_t choose_group(const fusion *f, kiln_node n, const kiln_op_class *class) {
    const kiln_node_info *node = &f->graph->node.data[n];
    uint32_t best = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (!may_join(f, n, i, class)) continue;
        uint32_t group = f->graph->node.data[f->graph->value.data[node->input[i]].producer].group;
        bool better = !best || f->access[group] > f->access[best] ||
                      (f->access[group] == f->access[best] && group > best);
        if (better) best = group;
    }
    return best;
}

static void move_group(fusion *f, uint32_t from, uint32_t to) {
    for (kiln_node n = from; n; n = f->next[n]) f->graph->node.data[n].group = to;
    f->next[f->last[to]] = from;
    f->last[to] = f->last[from];
    f->access[to] = KILN_MAX(f->access[to], f->access[from]);
    f->size[to] += f->size[from];
    f->values[to] += f->values[from];
}

/* If the group that ends with `n` now has all readers of a value that its nodes read, it joins
 * behind that value's producer.
 */
static void follow_producers(fusion *f, kiln_node n) {
    uint32_t group = f->graph->node.data[n].group;
    for (kiln_node reader = group; reader; reader = f->next[reader]) {
        const kiln_node_info *node = &f->graph->node.data[reader];
        for (uint32_t i = 0; i < node->input_count; i++) {
            kiln_value value = node->input[i];
            if (!may_follow(f, value, group, f->graph->node.data[n].output[0])) continue;
            uint32_t from = f->graph->node.data[f->graph->value.data[value].producer].group;
            move_group(f, group, from);
            follow_producers(f, n);
            return;
        }
    }
}

static void join_operands(fusion *f, kiln_node n) {
    kiln_node_info *node = &f->graph->node.data[n];
    kiln_op_class class;
    kiln_node_classify(f->graph, n, &class);
    node->group = n;
    f->access[n] = class.node;
    f->size[n] = 1;
    f->last[n] = n;
    f->values[n] = node->input_count + node->output_count;
    if (class.node > KILN_ACCESS_INJECTIVE || node->input_count > FUSED_INPUTS_MAX ||
        node->output_count > 1)
        return;
    uint32_t group = choose_group(f, n, &class);
    if (!group) return;
    move_group(f, n, group);
    /* Other operands that only this node reads, computed without a reduction, join as well. They
     * may read the group's inputs but never its result, which only `n` reads. */
    for (uint32_t i = 0; i < node->input_count; i++) {
        kiln_value value = node->input[i];
        kiln_node producer = value ? f->graph->value.data[value].producer : 0;
        if (!producer || !is_kernel(f->graph, producer)) continue;
        uint32_t other = f->graph->node.data[producer].group;
        if (other == group || f->access[other] > KILN_ACCESS_INJECTIVE ||
            !may_join(f, n, i, &class))
            continue;
        if (f->size[group] + f->size[other] > GROUP_NODES_MAX ||
            f->values[group] + f->values[other] > GROUP_VALUES_MAX)
            continue;
        if (f->access[group] > KILN_ACCESS_INJECTIVE && f->access[other] > KILN_ACCESS_BROADCAST)
            continue;
        move_group(f, other, group);
    }
}

static void fuse_node(fusion *f, kiln_node n) {
    join_operands(f, n);
    if (f->graph->node.data[n].output_count == 1) follow_producers(f, n);
}

/* ---- values between kernels ----------------------------------------------------------------
 */

/* Whether the node computes wider elements from those of its first input and constants only.
 */
static bool widens(const kiln_graph *graph, const kiln_node_info *node) {
    if (node->output_count != 1 || !node->input_count || !node->input[0]) return false;
    for (uint32_t i = 1; i < node->input_count; i++)
        if (node->input[i] && !kiln_value_is_constant(graph, node->input[i])) return false;
    return same_shape(graph, node->input[0], node->output[0]) &&
           kiln_dtype_size(graph->value.data[node->output[0]].dtype) >
               kiln_dtype_size(graph->value.data[node->input[0]].dtype);
}

/* The one node that reads `value`, once; 0: there are others, or it is an output of the graph. */
static kiln_node only_reader(const fusion *f, kiln_value value, const kiln_node *reader) {
    return f->uses[value] == 1 ? reader[value] : 0;
}

/* Whether the node computes element by element from its input `value` and constants only.
 */
static bool maps(const kiln_graph *graph, kiln_node n, kiln_value value) {
    const kiln_node_info *node = &graph->node.data[n];
    kiln_op_class class;
    kiln_node_classify(graph, n, &class);
    if (node->output_count != 1 || class.node > KILN_ACCESS_BROADCAST) return false;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->input[i] == value
                ? class.input[i] > KILN_ACCESS_ELEMENTWISE
                : node->input[i] && !kiln_value_is_constant(graph, node->input[i]))
            return false;
    return same_shape(graph, value, node->output[0]);
}

/* The last node of the group that ends behind `n`, which widens: the nodes after `n` map its
 * elements. */
static kiln_node last_behind(const fusion *f, kiln_node n, const kiln_node *reader) {
    const kiln_graph *graph = f->graph;
    for (;;) {
        const kiln_value out = graph->node.data[n].output[0];
        const kiln_node next = only_reader(f, out, reader);
        if (!next || graph->node.data[next].group != graph->node.data[n].group ||
            !maps(graph, next, out))
            return n;
        n = next;
    }
}

/* The group that may take over `n` to `last`, the end of a group, whose results are wider than
 * their inputs: the group of their only reader, if that computes element by element on them. 0:
 * none. */
static uint32_t group_after(const fusion *f, kiln_node n, kiln_node last, const kiln_node *reader) {
    const kiln_node_info *node = &f->graph->node.data[n];
    const kiln_value in = node->input[0], out = f->graph->node.data[last].output[0];
    const kiln_node before = f->graph->value.data[in].producer;
    if (!before || f->graph->node.data[before].group != node->group || f->uses[in] != 1) return 0;
    kiln_op_class class;
    kiln_node_classify(f->graph, n, &class);
    const kiln_node after = only_reader(f, out, reader);
    const uint32_t group =
        after && is_kernel(f->graph, after) ? f->graph->node.data[after].group : 0;
    if (class.node > KILN_ACCESS_BROADCAST || !group || group == node->group ||
        !in_one_body(f, n, after))
        return 0;
    kiln_node_classify(f->graph, after, &class);
    for (uint32_t i = 0; i < f->graph->node.data[after].input_count; i++)
        if (f->graph->node.data[after].input[i] == out && class.input[i] > KILN_ACCESS_ELEMENTWISE)
            return 0;
    return class.node <= KILN_ACCESS_BROADCAST &&
                   same_shape(f->graph, out, f->graph->node.data[after].output[0])
               ? group
               : 0;
}

/* Moves `n` to `last` into the group, if it has room for them. */
static void move_behind(fusion *f, kiln_node n, kiln_node last, const kiln_node *reader,
                        uint32_t group) {
    kiln_graph *graph = f->graph;
    uint32_t size = 0, values = 0;
    for (kiln_node at = n;; at = reader[graph->node.data[at].output[0]]) {
        size++;
        values += graph->node.data[at].input_count;
        if (at == last) break;
    }
    if (f->size[group] + size > GROUP_NODES_MAX || f->values[group] + values > GROUP_VALUES_MAX)
        return;
    f->size[group] += size;
    f->values[group] += values;
    for (kiln_node at = n;; at = reader[graph->node.data[at].output[0]]) {
        graph->node.data[at].group = group;
        if (at == last) break;
    }
}

/* Widening conversions at the end of a group, with the nodes that map their elements there, move to
 * the group that reads them: so the value in memory between the two is narrow. */
static void pass_narrow(fusion *f, kiln_arena *scratch) {
    kiln_graph *graph = f->graph;
    kiln_node *reader = KILN_ARENA_ARRAY(scratch, kiln_node, graph->value.count);
    for (kiln_node n = 1; n < graph->node.count; n++)
        for (uint32_t i = 0; i < graph->node.data[n].input_count; i++)
            if (graph->node.data[n].op != KILN_OP_NONE) reader[graph->node.data[n].input[i]] = n;
    for (kiln_node n = 1; n < graph->node.count; n++) {
        if (!is_kernel(graph, n) || !widens(graph, &graph->node.data[n])) continue;
        const kiln_node last = last_behind(f, n, reader);
        const uint32_t group = group_after(f, n, last, reader);
        if (group) move_behind(f, n, last, reader, group);
    }
}

kiln_status kiln_pass_fuse(kiln_graph *graph) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    fusion f = {
        .graph = graph,
        .uses = kiln_graph_count_uses(graph, &scratch),
        .access = KILN_ARENA_ARRAY(&scratch, kiln_access, graph->node.count),
        .size = KILN_ARENA_ARRAY(&scratch, uint32_t, graph->node.count),
        .next = KILN_ARENA_ARRAY(&scratch, kiln_node, graph->node.count),
        .last = KILN_ARENA_ARRAY(&scratch, kiln_node, graph->node.count),
        .values = KILN_ARENA_ARRAY(&scratch, uint32_t, graph->node.count),
    };
    kiln_status st = kiln_graph_loops_find(graph, &scratch, &f.loops);
    for (kiln_node n = 1; n < graph->node.count; n++) graph->node.data[n].group = 0;
    for (kiln_node n = 1; !st && n < graph->node.count; n++)
        if (is_kernel(graph, n)) fuse_node(&f, n);
    if (!st) pass_narrow(&f, &scratch);
    kiln_arena_deinit(&scratch);
    return st;
}
