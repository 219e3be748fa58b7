#include "tests/unit/compiler-core/frontend/tflite_support.h"

#include "compiler-core/graph/graph_text.h"

kiln_graph *import_tflite(kiln_arena *arena, kiln_str bytes) {
    kiln_graph *graph = NULL;
    expect_ok(kiln_import_bytes(bytes, NULL, NULL, arena, &graph));
    expect_ok(kiln_graph_verify(graph));
    return graph;
}

void expect_tflite_refused(kiln_arena *arena, kiln_str bytes, kiln_code code, const char *needle) {
    kiln_graph *graph = NULL;
    kiln_status st = kiln_import_bytes(bytes, NULL, NULL, arena, &graph);
    assert_non_null(st);
    expect_contains(kiln_status_text(st), needle);
    assert_int_equal(kiln_status_code(st), code);
    assert_null(graph);
    kiln_status_free(st);
}

char *text_of_tflite(kiln_arena *arena, kiln_str bytes) {
    kiln_strbuf text = {0};
    kiln_graph_print(import_tflite(arena, bytes), &text);
    char *copy = kiln_str_dup(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

void expect_tflite(kiln_arena *arena, kiln_str bytes, const char *result) {
    assert_string_equal(result_of(arena, import_tflite(arena, bytes)), result);
}

void expect_same_as_onnx(kiln_arena *arena, kiln_str bytes, const model_parts *parts) {
    assert_string_equal(result_of(arena, import_tflite(arena, bytes)),
                        result_of(arena, import_of(arena, parts)));
}

/* "1,2;3" is two constants. */
static uint32_t add_constants(tflite_model *m, const char *text) {
    uint32_t count = 0;
    kiln_str rest = kiln_str_from(text);
    for (; rest.size; count++) {
        int32_t item[32];
        uint32_t items = 0;
        kiln_str list = kiln_str_cut(&rest, ';');
        while (list.size) {
            int64_t value = 0;
            assert_true(kiln_str_to_i64(kiln_str_cut(&list, ','), &value));
            item[items++] = (int32_t)value;
        }
        tflite_tensor(m, T_I32, kiln_arena_printf(m->arena, "c%u:%u", count, items), item,
                      items * sizeof *item);
    }
    return count;
}

kiln_str one_operator(kiln_arena *arena, int number, const char *x, const char *y,
                      const char *extra, flat_table *options) {
    static const char *const inputs[] = {"0", "0,2", "0,2,3", "0,2,3,4"};
    tflite_model m = tflite_model_of(arena);
    tflite_tensor(&m, T_F32, x, NULL, 0);
    tflite_tensor(&m, T_F32, y, NULL, 0);
    tflite_operator(&m, number, inputs[add_constants(&m, extra)], "1", options);
    return tflite_bytes(&m, "0", "1");
}
