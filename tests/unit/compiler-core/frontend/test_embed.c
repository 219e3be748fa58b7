#include "base/file.h"
#include "tests/unit/compiler-core/frontend/support.h"

static message entry(kiln_arena *arena, const char *key, const char *value) {
    return with_text(with_text(message_of(arena), 1, key), 2, value);
}

static kiln_status embed_with(kiln_arena *arena, const char *path, const kiln_import_options *options,
                              kiln_str *out_bytes) {
    kiln_strbuf bytes = {0};
    kiln_status st = kiln_onnx_embed(path, options, &bytes);
    *out_bytes =
        (kiln_str){kiln_arena_copy(arena, bytes.data ? bytes.data : "", bytes.size), bytes.size};
    kiln_strbuf_deinit(&bytes);
    return st;
}

static kiln_status embed(kiln_arena *arena, const char *path, kiln_str *out_bytes) {
    return embed_with(arena, path, NULL, out_bytes);
}

static void sizes_of_open_dimensions_are_filled_in(void **state) {
    char *folder = make_folder(*state);
    model_parts parts = {.opset = 13,
                         .input = "x:batch,3 z:-1,3",
                         .output = "y:batch,3",
                         .node_count = 1,
                         .node = {node_of(*state, "Add", "x z", "y")}};
    char *path = kiln_arena_printf(*state, "%s/model.onnx", folder);
    kiln_str name[] = {KILN_STR("batch"), KILN_STR("z.0")}, whole;
    int64_t value[] = {5, 1};
    kiln_import_options options = {.dim_count = 2, .dim_name = name, .dim_value = value};
    kiln_graph *graph = NULL;
    expect_ok(kiln_file_write(path, model_of(*state, &parts), 0600));
    expect_ok(embed_with(*state, path, &options, &whole));
    expect_ok(kiln_import_bytes(whole, NULL, NULL, *state, &graph)); /* nothing is open any more */
    assert_int_equal(graph->value.data[graph->input.data[0]].shape.dim[0], 5);
    assert_int_equal(graph->value.data[graph->input.data[1]].shape.dim[0], 1);
    name[1] = KILN_STR("time");
    expect_error(embed_with(*state, path, &options, &whole), INVALID_ARGUMENT,
                 "no open dimension \"time\"; open are batch, z.0");
    remove_folder(folder);
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
    expect_ok(kiln_import_bytes(whole, NULL, NULL, *state, &graph)); /* from memory: no folder */
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
        test_with_arena(sizes_of_open_dimensions_are_filled_in),
        test_with_arena(external_data_is_folded_in),
        test_with_arena(models_in_one_piece_keep_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
