/* Common subexpressions: removes a node that computes the same as an earlier one. */
#include "base/map.h"
#include "compiler-core/graph/op.h"
#include "compiler-core/passes/rewrite.h"

typedef struct merger {
    kiln_arena arena;
    kiln_map results;   /* text of a computation -> its first result */
    kiln_map constants; /* dtype, shape and hash -> the first such constant */
} merger;

/* Equal constants are one operand, regardless of their names. */
static kiln_value first_like(merger *m, const kiln_graph *graph, kiln_value value) {
    const kiln_value_info *info = &graph->value.data[value];
    uint64_t first = value;
    char hash[KILN_HASH128_TEXT];
    if (!kiln_value_is_constant(graph, value)) return value;
    kiln_strbuf text = {0};
    kiln_hash128_print(info->hash, hash);
    kiln_strbuf_printf(&text, "%d %s", (int)info->dtype, hash);
    for (uint32_t d = 0; d < info->shape.rank; d++)
        kiln_strbuf_printf(&text, " %lld", (long long)info->shape.dim[d]);
    kiln_str key = kiln_strbuf_end(&text, &m->arena);
    if (!kiln_map_find(&m->constants, key, &first)) kiln_map_put(&m->constants, key, value);
    return (kiln_value)first;
}

static void print_attr(const kiln_attr *attr, kiln_strbuf *out) {
    kiln_strbuf_printf(out, " %.*s:%d=%lld,%.17g,", KILN_STR_ARG(attr->name), (int)attr->kind,
                       (long long)attr->i, attr->f);
    kiln_strbuf_printf(out, "%zu:%.*s", attr->text.size, KILN_STR_ARG(attr->text));
    for (uint32_t i = 0; i < attr->count; i++) {
        if (attr->ints) kiln_strbuf_printf(out, ",%lld", (long long)attr->ints[i]);
        if (attr->floats) kiln_strbuf_printf(out, ",%.17g", attr->floats[i]);
    }
}

static kiln_value find_equal(kiln_sweep *s, kiln_node n) {
    merger *m = s->context;
    const kiln_node_info *node = &s->graph->node.data[n];
    uint64_t first = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        kiln_value like = first_like(m, s->graph, node->input[i]);
        if (like != node->input[i]) kiln_sweep_set_input(s, n, i, like);
    }
    if (kiln_op_is_loop(node->op)) return 0; /* each loop_end has its own loop_begin */
    for (uint32_t i = 1; i < node->output_count; i++)
        if (node->output[i]) return 0; /* one value cannot replace several */
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "%d(", (int)node->op);
    for (uint32_t i = 0; i < node->input_count; i++)
        kiln_strbuf_printf(&text, "%u,", node->input[i]);
    for (uint32_t i = 0; i < node->attr_count; i++) print_attr(&node->attr[i], &text);
    kiln_str key = kiln_strbuf_end(&text, &m->arena);
    if (!kiln_map_find(&m->results, key, &first)) kiln_map_put(&m->results, key, node->output[0]);
    return (kiln_value)first;
}

kiln_status kiln_pass_merge_equal(kiln_graph *graph) {
    merger m = {0};
    kiln_arena_init(&m.arena, 0);
    kiln_map_init(&m.results);
    kiln_map_init(&m.constants);
    kiln_graph_sweep(graph, find_equal, &m);
    kiln_map_deinit(&m.results);
    kiln_map_deinit(&m.constants);
    kiln_arena_deinit(&m.arena);
    return KILN_OK;
}
