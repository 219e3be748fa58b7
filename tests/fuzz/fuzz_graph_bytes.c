/* Bytes of graphs from strangers: they are read or refused; a graph that is read is written and
 * read again as it was, and operators that it brings along are programs. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/graph/graph_codec.h"
#include "compiler-core/graph/graph_text.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/ops/rules.h"
#include "tests/fuzz/fuzz.h"

static kiln_str joined(kiln_arena *arena, const kiln_graph *graph) {
    kiln_graph_bytes bytes = kiln_graph_encode(graph, arena);
    char *whole = kiln_arena_alloc_aligned(arena, KILN_GRAPH_DATA_ALIGNMENT, bytes.size);
    size_t at = 0;
    for (uint32_t i = 0; i < bytes.part_count; i++) {
        memcpy(whole + at, bytes.part[i].data, bytes.part[i].size);
        at += bytes.part[i].size;
    }
    KILN_CHECK(at == bytes.size);
    return (kiln_str){whole, at};
}

static void check(kiln_graph *graph, kiln_arena *arena) {
    kiln_strbuf text = {0}, text_again = {0};
    kiln_graph *again = NULL;
    kiln_str bytes = joined(arena, graph);
    kiln_status st = kiln_graph_decode(bytes, arena, &again);
    KILN_CHECK(!st);
    KILN_CHECK(kiln_str_equal(joined(arena, again), bytes));
    kiln_graph_print(graph, &text);
    kiln_graph_print(again, &text_again);
    KILN_CHECK(kiln_str_equal(kiln_strbuf_view(&text), kiln_strbuf_view(&text_again)));
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&text_again);
}

static void check_expressions(const kiln_graph *graph, kiln_arena *arena) {
    for (kiln_node n = 1; n < graph->node.count; n++) {
        kiln_buffer in[KILN_NODE_OPERANDS_MAX];
        if (graph->node.data[n].op != KILN_OP_EXPRESSION) continue;
        kiln_status st = kiln_program_verify(kiln_node_program(graph, n, arena, in));
        KILN_CHECK(!st);
    }
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_arena arena;
    kiln_graph *graph = NULL;
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_graph_decode((kiln_str){(const char *)data, size}, &arena, &graph);
    if (!st) check(graph, &arena);
    if (!st) check_expressions(graph, &arena);
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return 0;
}
