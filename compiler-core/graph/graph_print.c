/* Graphs as text: docs/reference/graph-text.md. */
#include <math.h>

#include "compiler-core/graph/graph_text.h"
#include "compiler-core/graph/op.h"
#include "compiler-core/ir/text.h"

/* Words that begin a line, and the mark of an operand that is left out, are quoted where they are
 * names. */
static void print_value_name(const kiln_graph *graph, kiln_value value, kiln_strbuf *out) {
    static const char *const word[] = {"graph", "input", "constant", "output", "_"};
    if (!value) {
        kiln_strbuf_char(out, '_');
        return;
    }
    kiln_str name = graph->value.data[value].name;
    bool reserved = false;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(word); i++)
        reserved = reserved || kiln_str_is(name, word[i]);
    kiln_name_print(name, reserved, out);
}

static void print_type(const kiln_value_info *info, kiln_strbuf *out) {
    kiln_strbuf_text(out, kiln_dtype_name(info->dtype));
    kiln_shape_print(&info->shape, out);
}

static void print_declaration(const kiln_graph *graph, kiln_value value, kiln_strbuf *out) {
    print_value_name(graph, value, out);
    if (!value) return;
    kiln_strbuf_text(out, ": ");
    print_type(&graph->value.data[value], out);
}

static void print_number(double value, kiln_strbuf *out) {
    if (isnan(value)) {
        kiln_strbuf_text(out, "nan");
    } else if (isinf(value)) {
        kiln_strbuf_text(out, value < 0 ? "-inf" : "inf");
    } else {
        kiln_strbuf_printf(out, "%.17g", value);
    }
}

static void print_constant(const kiln_graph *graph, kiln_value value, kiln_strbuf *out) {
    const kiln_value_info *info = &graph->value.data[value];
    int64_t count = kiln_shape_count(&info->shape);
    char digits[KILN_HASH128_TEXT];
    kiln_strbuf_text(out, "constant ");
    print_declaration(graph, value, out);
    if (count > KILN_GRAPH_TEXT_ITEMS) {
        kiln_hash128_print(info->hash, digits);
        kiln_strbuf_printf(out, " = hash \"%s\"\n", digits);
        return;
    }
    kiln_strbuf_text(out, " = [");
    for (int64_t i = 0; i < count; i++) {
        if (i) kiln_strbuf_text(out, ", ");
        if (kiln_dtype_is_float(info->dtype)) {
            print_number(kiln_dtype_load_f64(info->dtype, info->data, (size_t)i), out);
        } else if (info->dtype == KILN_U64) {
            kiln_strbuf_printf(out, "%llu", (unsigned long long)((const uint64_t *)info->data)[i]);
        } else {
            kiln_strbuf_printf(out, "%lld",
                               (long long)kiln_dtype_load_i64(info->dtype, info->data, (size_t)i));
        }
    }
    kiln_strbuf_text(out, "]\n");
}

static void print_attr(const kiln_attr *attr, kiln_strbuf *out) {
    kiln_strbuf_char(out, ' ');
    kiln_strbuf_str(out, attr->name);
    kiln_strbuf_char(out, '=');
    switch (attr->kind) {
    case KILN_ATTR_INT: kiln_strbuf_printf(out, "%lld", (long long)attr->i); return;
    case KILN_ATTR_FLOAT: print_number(attr->f, out); return;
    case KILN_ATTR_TEXT: kiln_name_print(attr->text, true, out); return;
    case KILN_ATTR_INTS:
    case KILN_ATTR_FLOATS:
    case KILN_ATTR_KIND_COUNT: break;
    }
    kiln_strbuf_char(out, '[');
    for (uint32_t i = 0; i < attr->count; i++) {
        if (i) kiln_strbuf_char(out, ',');
        if (attr->kind == KILN_ATTR_INTS) {
            kiln_strbuf_printf(out, "%lld", (long long)attr->ints[i]);
        } else {
            print_number(attr->floats[i], out);
        }
    }
    kiln_strbuf_char(out, ']');
}

static void print_node(const kiln_graph *graph, const kiln_node_info *node, kiln_strbuf *out) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (i) kiln_strbuf_text(out, ", ");
        print_declaration(graph, node->output[i], out);
    }
    kiln_strbuf_printf(out, " = %s(", kiln_op_get(node->op)->name);
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (i) kiln_strbuf_text(out, ", ");
        print_value_name(graph, node->input[i], out);
    }
    kiln_strbuf_char(out, ')');
    for (uint32_t i = 0; i < node->attr_count; i++) print_attr(&node->attr[i], out);
    if (node->name.size) {
        kiln_strbuf_text(out, " name ");
        kiln_name_print(node->name, true, out);
    }
    if (node->group) kiln_strbuf_printf(out, " kernel %u", node->group);
    kiln_strbuf_char(out, '\n');
}

void kiln_graph_print(const kiln_graph *graph, kiln_strbuf *out) {
    kiln_strbuf_text(out, "graph ");
    kiln_name_print(graph->name, false, out);
    kiln_strbuf_char(out, '\n');
    for (uint32_t i = 0; i < graph->input.count; i++) {
        kiln_strbuf_text(out, "input ");
        print_declaration(graph, graph->input.data[i], out);
        kiln_strbuf_char(out, '\n');
    }
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    const uint32_t *uses = kiln_graph_count_uses(graph, &scratch);
    for (kiln_value v = 1; v < graph->value.count; v++)
        if (graph->value.data[v].data && uses[v]) print_constant(graph, v, out);
    kiln_arena_deinit(&scratch);
    for (kiln_node n = 1; n < graph->node.count; n++)
        if (graph->node.data[n].op != KILN_OP_NONE) print_node(graph, &graph->node.data[n], out);
    for (uint32_t i = 0; i < graph->output.count; i++) {
        kiln_strbuf_text(out, "output ");
        print_value_name(graph, graph->output.data[i], out);
        kiln_strbuf_char(out, '\n');
    }
}
