#include "base/file.h"
#include "tests/unit/compiler-core/frontend/support.h"

static char *write_model(kiln_arena *arena, const char *folder, kiln_str bytes) {
    char *path = kiln_arena_printf(arena, "%s/model.onnx", folder);
    expect_ok(kiln_file_write(path, bytes, 0600));
    return path;
}

static void ports_are_told_without_importing(void **state) {
    const float k[] = {1};
    char *folder = make_folder(*state);
    model_parts parts = {.opset = 99,
                         .input = "x:2 k:1 z:n",
                         .output = "y:2",
                         .node_count = 1,
                         .initializer_count = 1,
                         .node = {node_of(*state, "Frobnicate", "x", "y")},
                         .initializer = {floats_of(*state, "k", k, 1)}};
    kiln_onnx_ports ports;
    expect_ok(kiln_onnx_ports_read(write_model(*state, folder, model_of(*state, &parts)), *state,
                                   &ports));
    assert_int_equal(ports.input_count, 2); /* not the initialiser */
    expect_str(ports.input[1], "z");
    assert_int_equal(ports.input_dtype[0], KILN_F32);
    assert_int_equal(ports.output_count, 1);
    expect_str(ports.output[0], "y");
    remove_folder(folder);
}

static void other_files_are_refused_by_name(void **state) {
    char *folder = make_folder(*state);
    kiln_graph *graph = NULL;
    expect_error(
        kiln_import_file(kiln_arena_printf(*state, "%s/none.onnx", folder), NULL, *state, &graph),
        NOT_FOUND, "none.onnx");
    expect_error(kiln_import_file(folder, NULL, *state, &graph), INVALID_ARGUMENT, folder);
    char *path = write_model(*state, folder, KILN_STR("hello, this is text"));
    expect_error(kiln_import_file(path, NULL, *state, &graph), INVALID_ARGUMENT,
                 "model.onnx: not a model file of a known kind");
    path = write_model(*state, folder, KILN_STR("\x12\x7fthis begins as a model does"));
    expect_error(kiln_import_file(path, NULL, *state, &graph), INVALID_ARGUMENT,
                 "model.onnx: not an ONNX file");
    path = write_model(*state, folder, KILN_STR("\x08\x07"));
    expect_error(kiln_import_file(path, NULL, *state, &graph), INVALID_ARGUMENT, "it has no graph");
    assert_null(graph);
    remove_folder(folder);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(ports_are_told_without_importing),
        test_with_arena(other_files_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
