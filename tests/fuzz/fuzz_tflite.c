/* TFLite bytes from strangers: they import or are refused, and what is imported prints. */
#include "base/check.h"
#include "compiler-core/frontend/frontend.h"
#include "compiler-core/graph/graph_text.h"
#include "tests/fuzz/fuzz.h"

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_arena arena;
    kiln_graph *graph = NULL;
    kiln_strbuf text = {0};
    kiln_str bytes = {(const char *)data, size};
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_import_bytes(bytes, NULL, NULL, &arena, &graph);
    if (!st) {
        KILN_CHECK(!kiln_graph_verify(graph));
        kiln_graph_print(graph, &text);
    }
    kiln_status_free(st);
    kiln_strbuf_deinit(&text);
    kiln_arena_deinit(&arena);
    return 0;
}
