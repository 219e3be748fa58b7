/* The graph's tables and the edits that passes make. */
#include "compiler-core/graph/graph.h"

#include <string.h>

#include "base/check.h"
#include "base/hash.h"

kiln_graph *kiln_graph_create(kiln_arena *arena, kiln_str name) {
    kiln_graph *graph = KILN_ARENA_NEW(arena, kiln_graph);
    graph->arena = arena;
    graph->name = kiln_str_copy(graph->arena, name);
    kiln_vec_push_in(arena, &graph->value, (kiln_value_info){0});
    kiln_vec_push_in(arena, &graph->node, (kiln_node_info){0});
    return graph;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Puts a value into the table by its name; the table has room. */
static void enter_name(kiln_graph *graph, kiln_value value) {
    kiln_str name = graph->value.data[value].name;
    uint32_t mask = graph->by_name.slot_count - 1,
             at = (uint32_t)kiln_hash64(name.data, name.size, 0) & mask;
    while (graph->by_name.slot[at]) at = (at + 1) & mask;
    graph->by_name.slot[at] = value;
    graph->by_name.used_count++;
}

/* Enters the values that were added since the last search. Most graphs are never searched. */
static void enter_new_names(kiln_graph *graph) {
    uint32_t wanted = graph->by_name.used_count + graph->value.count - graph->by_name.value_count;
    if (2 * wanted > graph->by_name.slot_count) {
        graph->by_name.slot_count = 64;
        while (graph->by_name.slot_count < 4 * graph->value.count) graph->by_name.slot_count *= 2;
        graph->by_name.slot = KILN_ARENA_ARRAY(graph->arena, kiln_value, graph->by_name.slot_count);
        graph->by_name.used_count = 0;
        graph->by_name.value_count = 1;
    }
    for (; graph->by_name.value_count < graph->value.count; graph->by_name.value_count++)
        enter_name(graph, graph->by_name.value_count);
}

kiln_value kiln_graph_find_value(kiln_graph *graph, kiln_str name) {
    enter_new_names(graph);
    uint32_t mask = graph->by_name.slot_count - 1,
             at = (uint32_t)kiln_hash64(name.data, name.size, 0) & mask;
    for (; graph->by_name.slot[at]; at = (at + 1) & mask) /* a slot may hold a name from before */
        if (kiln_str_equal(graph->value.data[graph->by_name.slot[at]].name, name))
            return graph->by_name.slot[at];
    return 0;
}

void kiln_graph_rename_value(kiln_graph *graph, kiln_value value, kiln_str name) {
    enter_new_names(graph); /* also makes room for one name more */
    graph->value.data[value].name = kiln_str_copy(graph->arena, name);
    enter_name(graph, value);
}

kiln_value kiln_graph_add_named_value(kiln_graph *graph, kiln_str name) {
    KILN_CHECK(graph->value.count < KILN_GRAPH_VALUES_MAX);
    kiln_vec_push_in(graph->arena, &graph->value,
                     (kiln_value_info){.name = kiln_str_copy(graph->arena, name)});
    return graph->value.count - 1;
}

/* "name'7" */
static kiln_str numbered_name(kiln_graph *graph, kiln_str name, uint32_t number) {
    return kiln_str_printf(graph->arena, "%.*s'%u", KILN_STR_ARG(name), number);
}

/* Numbers are given one after the other, so the first free one is found by bisection. */
kiln_value kiln_graph_add_value(kiln_graph *graph, kiln_str name) {
    if (!kiln_graph_find_value(graph, name)) return kiln_graph_add_named_value(graph, name);
    uint32_t taken = 1, free_number = 2;
    while (kiln_graph_find_value(graph, numbered_name(graph, name, free_number))) {
        taken = free_number;
        free_number *= 2;
    }
    while (free_number - taken > 1) {
        uint32_t middle = taken + (free_number - taken) / 2;
        bool known = kiln_graph_find_value(graph, numbered_name(graph, name, middle)) != 0;
        *(known ? &taken : &free_number) = middle;
    }
    return kiln_graph_add_named_value(graph, numbered_name(graph, name, free_number));
}

kiln_value kiln_graph_add_input(kiln_graph *graph, kiln_str name, kiln_dtype dtype,
                                const kiln_shape *shape) {
    kiln_value v = kiln_graph_add_value(graph, name);
    graph->value.data[v].dtype = dtype;
    graph->value.data[v].shape = *shape;
    kiln_vec_push_in(graph->arena, &graph->input, v);
    return v;
}

void kiln_graph_set_constant(kiln_graph *graph, kiln_value value, const kiln_tensor *tensor) {
    kiln_value_info *info = &graph->value.data[value];
    KILN_CHECK(tensor->data != NULL);
    info->dtype = tensor->dtype;
    info->shape = tensor->shape;
    info->data = tensor->data;
    info->producer = 0;
    info->hash = kiln_hash128_of(tensor->data, kiln_tensor_bytes(tensor));
}

kiln_value kiln_graph_add_constant(kiln_graph *graph, kiln_str name, const kiln_tensor *tensor) {
    kiln_value v = kiln_graph_add_value(graph, name);
    kiln_graph_set_constant(graph, v, tensor);
    return v;
}

kiln_tensor kiln_value_tensor(const kiln_graph *graph, kiln_value value) {
    const kiln_value_info *info = &graph->value.data[value];
    KILN_CHECK(info->data != NULL);
    union {
        const void *read;
        void *any;
    } data = {.read = info->data}; /* tensors carry a plain pointer; constants are only read */
    return (kiln_tensor){.dtype = info->dtype, .shape = info->shape, .data = data.any};
}

/* ---- nodes ----------------------------------------------------------------------------------- */

kiln_node kiln_graph_add_node(kiln_graph *graph, kiln_op op, kiln_str name, uint32_t input_count,
                              uint32_t output_count) {
    KILN_CHECK(graph->node.count < KILN_GRAPH_NODES_MAX);
    KILN_CHECK(input_count <= KILN_NODE_OPERANDS_MAX);
    KILN_CHECK(output_count <= KILN_NODE_OPERANDS_MAX);
    kiln_node_info info = {
        .op = op,
        .name = kiln_str_copy(graph->arena, name),
        .input_count = input_count,
        .output_count = output_count,
        .input = KILN_ARENA_ARRAY(graph->arena, kiln_value, input_count),
        .output = KILN_ARENA_ARRAY(graph->arena, kiln_value, output_count),
    };
    kiln_vec_push_in(graph->arena, &graph->node, info);
    return graph->node.count - 1;
}

void kiln_graph_set_input(kiln_graph *graph, kiln_node node, uint32_t index, kiln_value value) {
    KILN_CHECK(index < graph->node.data[node].input_count);
    graph->node.data[node].input[index] = value;
}

void kiln_graph_set_output(kiln_graph *graph, kiln_node node, uint32_t index, kiln_value value) {
    KILN_CHECK(index < graph->node.data[node].output_count);
    graph->node.data[node].output[index] = value;
    if (value) graph->value.data[value].producer = node;
}

const kiln_attr *kiln_node_attr(const kiln_node_info *node, const char *name) {
    for (uint32_t i = 0; i < node->attr_count; i++)
        if (kiln_str_is(node->attr[i].name, name)) return &node->attr[i];
    return NULL;
}

void kiln_graph_set_attr(kiln_graph *graph, kiln_node node, const kiln_attr *attr) {
    kiln_node_info *info = &graph->node.data[node];
    kiln_attr copy = *attr;
    copy.name = kiln_str_copy(graph->arena, attr->name);
    copy.text = kiln_str_copy(graph->arena, attr->text);
    bool ints = attr->kind == KILN_ATTR_INTS, floats = attr->kind == KILN_ATTR_FLOATS;
    copy.ints =
        ints ? kiln_arena_copy(graph->arena, attr->ints, sizeof *attr->ints * attr->count) : NULL;
    copy.floats =
        floats ? kiln_arena_copy(graph->arena, attr->floats, sizeof *attr->floats * attr->count)
               : NULL;
    for (uint32_t i = 0; i < info->attr_count; i++) {
        if (!kiln_str_equal(info->attr[i].name, attr->name)) continue;
        info->attr[i] = copy;
        return;
    }
    kiln_attr *grown = KILN_ARENA_ARRAY(graph->arena, kiln_attr, info->attr_count + 1);
    if (info->attr_count) memcpy(grown, info->attr, sizeof *grown * info->attr_count);
    grown[info->attr_count++] = copy;
    info->attr = grown;
}

kiln_attr kiln_attr_int(const char *name, int64_t value) {
    return (kiln_attr){.name = kiln_str_from(name), .kind = KILN_ATTR_INT, .i = value};
}

kiln_attr kiln_attr_float(const char *name, double value) {
    return (kiln_attr){.name = kiln_str_from(name), .kind = KILN_ATTR_FLOAT, .f = value};
}

kiln_attr kiln_attr_ints(const char *name, const int64_t *value, uint32_t count) {
    static const int64_t nothing = 0;
    return (kiln_attr){.name = kiln_str_from(name),
                       .kind = KILN_ATTR_INTS,
                       .count = count,
                       .ints = count ? value : &nothing};
}

void kiln_graph_set_int(kiln_graph *graph, kiln_node node, const char *name, int64_t value) {
    const kiln_attr attr = kiln_attr_int(name, value);
    kiln_graph_set_attr(graph, node, &attr);
}

void kiln_graph_set_ints(kiln_graph *graph, kiln_node node, const char *name, const int64_t *value,
                         uint32_t count) {
    const kiln_attr attr = kiln_attr_ints(name, value, count);
    kiln_graph_set_attr(graph, node, &attr);
}

/* ---- edits ----------------------------------------------------------------------------------- */

void kiln_graph_remove_node(kiln_graph *graph, kiln_node node) {
    kiln_node_info *info = &graph->node.data[node];
    for (uint32_t i = 0; i < info->output_count; i++) {
        kiln_value v = info->output[i];
        if (v && graph->value.data[v].producer == node) graph->value.data[v].producer = 0;
    }
    *info = (kiln_node_info){.op = KILN_OP_NONE};
}

void kiln_graph_reorder(kiln_graph *graph, const kiln_node *order) {
    const uint32_t count = graph->node.count;
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    kiln_node_info *was = KILN_ARENA_ARRAY(&scratch, kiln_node_info, count);
    kiln_node *to = KILN_ARENA_ARRAY(&scratch, kiln_node, count);
    memcpy(was, graph->node.data, count * sizeof *was);
    for (kiln_node n = 0; n < count; n++) to[order[n]] = n;
    for (kiln_node n = 1; n < count; n++) {
        kiln_node_info *node = &graph->node.data[n];
        *node = was[order[n]];
        node->group = to[node->group];
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->output[i]) graph->value.data[node->output[i]].producer = n;
    }
    kiln_arena_deinit(&scratch);
}

uint32_t *kiln_graph_count_uses(const kiln_graph *graph, kiln_arena *arena) {
    uint32_t *uses = KILN_ARENA_ARRAY(arena, uint32_t, graph->value.count);
    for (kiln_node n = 1; n < graph->node.count; n++) {
        const kiln_node_info *info = &graph->node.data[n];
        for (uint32_t i = 0; i < info->input_count; i++) uses[info->input[i]]++;
    }
    for (uint32_t i = 0; i < graph->output.count; i++) uses[graph->output.data[i]]++;
    return uses;
}
