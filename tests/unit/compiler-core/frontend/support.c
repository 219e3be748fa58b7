#include "tests/unit/compiler-core/frontend/support.h"

#include <string.h>

#include "compiler-core/graph/graph_text.h"

/* "x:2,n" */
static message port_of(kiln_arena *arena, kiln_str text) {
    kiln_str dims = text, name = kiln_str_cut(&dims, ':');
    message shape = message_of(arena);
    while (dims.size) {
        kiln_str dim = kiln_str_cut(&dims, ',');
        int64_t extent;
        bool known = kiln_str_to_i64(dim, &extent);
        message part = message_of(arena);
        shape = with_message(
            shape, 1, known ? with_int(part, 1, extent) : with_bytes(part, 2, dim.data, dim.size));
    }
    message tensor = with_message(with_int(message_of(arena), 1, 1), 2, shape);
    message port = with_bytes(message_of(arena), 1, name.data, name.size);
    return with_message(port, 2, with_message(message_of(arena), 1, tensor));
}

static message with_ports(message graph, uint32_t field, const char *ports) {
    kiln_str rest = kiln_str_from(ports);
    while (rest.size)
        graph = with_message(graph, field, port_of(graph.arena, kiln_str_cut(&rest, ' ')));
    return graph;
}

kiln_str model_of(kiln_arena *arena, const model_parts *parts) {
    message graph = with_text(message_of(arena), 2, "g");
    for (uint32_t i = 0; i < parts->node_count; i++) graph = with_message(graph, 1, parts->node[i]);
    for (uint32_t i = 0; i < parts->initializer_count; i++)
        graph = with_message(graph, 5, parts->initializer[i]);
    graph = with_ports(with_ports(graph, 11, parts->input), 12, parts->output);
    message model = with_int(message_of(arena), 1, 8);
    model = with_message(model, 8, with_int(with_text(message_of(arena), 1, ""), 2, parts->opset));
    for (uint32_t i = 0; i < parts->function_count; i++)
        model = with_message(model, 25, parts->function[i]);
    return with_message(model, 7, graph).bytes;
}

kiln_graph *import_with(kiln_arena *arena, const model_parts *parts,
                        const kiln_import_options *options) {
    kiln_graph *graph = NULL;
    expect_ok(kiln_import_bytes(model_of(arena, parts), NULL, options, arena, &graph));
    expect_ok(kiln_graph_verify(graph));
    return graph;
}

kiln_graph *import_unrolling(kiln_arena *arena, const model_parts *parts, uint32_t unroll_max) {
    return import_with(arena, parts, &(kiln_import_options){.unroll_max = unroll_max});
}

kiln_graph *import_of(kiln_arena *arena, const model_parts *parts) {
    return import_unrolling(arena, parts, 0);
}

uint32_t count_loops(const kiln_graph *graph) {
    uint32_t count = 0;
    for (kiln_node n = 1; n < graph->node.count; n++)
        count += graph->node.data[n].op == KILN_OP_LOOP_END;
    return count;
}

char *text_of_import(kiln_arena *arena, const model_parts *parts) {
    kiln_strbuf text = {0};
    kiln_graph_print(import_of(arena, parts), &text);
    char *copy = kiln_str_dup(
        arena, kiln_str_slice(kiln_strbuf_view(&text), strlen("graph g\n"), text.size));
    kiln_strbuf_deinit(&text);
    return copy;
}

void expect_import_refused(kiln_arena *arena, const model_parts *parts, kiln_code code,
                           const char *needle) {
    kiln_graph *graph = NULL;
    kiln_status st = kiln_import_bytes(model_of(arena, parts), NULL, NULL, arena, &graph);
    assert_non_null(st);
    expect_contains(kiln_status_text(st), needle);
    assert_int_equal(kiln_status_code(st), code);
    assert_null(graph);
    kiln_status_free(st);
}
