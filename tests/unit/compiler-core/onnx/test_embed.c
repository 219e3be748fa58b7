#include "base/file.h"
#include "tests/unit/compiler-core/onnx/support.h"

static message entry(kiln_arena *arena, const char *key, const char *value) {
    return with_text(with_text(message_of(arena), 1, key), 2, value);
}

static kiln_status embed(kiln_arena *arena, const char *path, kiln_str *out_bytes) {
    kiln_strbuf bytes = {0};
    kiln_status st = kiln_onnx_embed(path, &bytes);
    *out_bytes =
        (kiln_str){kiln_arena_copy(arena, bytes.data ? bytes.data : "", bytes.size), bytes.size};
    kiln_strbuf_deinit(&bytes);
    return st;
}

static void external_data_is_folded_in(void **state) {
    char *folder = make_folder(*state);
    const float data[] = {3, 4};
    message tensor =
        with_int(with_int(with_int(with_text(message_of(*state), 8, "w"), 1, 2), 2, 1), 14, 1);
    tensor = with_message(tensor, 13, entry(*state, "location", "w.bin"));
    model_parts parts = {.opset = 13,
                         .input = "x:2",
                         .output = "y:2",
                         .node_count = 1,
                         .initializer_count = 1,
                         .node = {node_of(*state, "Add", "x w", "y")},
                         .initializer = {tensor}};
    char *path = kiln_arena_printf(*state, "%s/model.onnx", folder);
    kiln_str whole;
    kiln_graph *graph = NULL;
    expect_ok(kiln_file_write(path, model_of(*state, &parts), 0600));
    expect_error(embed(*state, path, &whole), NOT_FOUND, "w.bin");
    expect_ok(kiln_file_write(kiln_arena_printf(*state, "%s/w.bin", folder),
                              (kiln_str){(const char *)data, sizeof data}, 0600));
    expect_ok(embed(*state, path, &whole));
    expect_ok(kiln_onnx_import(whole, NULL, NULL, *state, &graph)); /* from memory: no folder */
    assert_memory_equal(graph->value.data[kiln_graph_find_value(graph, KILN_STR("w"))].data, data,
                        sizeof data);
    remove_folder(folder);
}

static void models_in_one_piece_keep_their_bytes(void **state) {
    char *folder = make_folder(*state);
    model_parts parts = {.opset = 13,
                         .input = "x:2",
                         .output = "y:2",
                         .node_count = 1,
                         .node = {node_of(*state, "Relu", "x", "y")}};
    char *path = kiln_arena_printf(*state, "%s/model.onnx", folder);
    kiln_str bytes = model_of(*state, &parts), whole;
    expect_ok(kiln_file_write(path, bytes, 0600));
    expect_ok(embed(*state, path, &whole));
    assert_true(kiln_str_equal(bytes, whole));
    expect_ok(kiln_file_write(path, KILN_STR("no model"), 0600));
    expect_error(embed(*state, path, &whole), INVALID_ARGUMENT, "not an ONNX file");
    remove_folder(folder);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(external_data_is_folded_in),
        test_with_arena(models_in_one_piece_keep_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
