/* Linked with the front end alone: that this program links shows that it needs no compiler. */
#include "compiler-core/frontend/frontend.h"

#include "base/macros.h"
#include "compiler-core/frontend/onnx/onnx.h"
#include "compiler-core/frontend/zoo/zoo.h"
#include "tests/support/test.h"

static void a_model_is_told_by_its_content(void **state) {
    kiln_strbuf bytes = {0};
    kiln_graph *graph = NULL;
    expect_ok(kiln_zoo_build(KILN_STR("gemm:2x3x4"), 1, &bytes));
    assert_true(kiln_onnx_probe(kiln_strbuf_view(&bytes)));
    expect_ok(kiln_import_bytes(kiln_strbuf_view(&bytes), NULL, NULL, *state, &graph));
    assert_int_equal(graph->input.count, 1);
    assert_int_equal(graph->output.count, 1);
    kiln_strbuf_deinit(&bytes);
}

static void what_no_row_knows_is_refused_with_the_kinds_there_are(void **state) {
    static const char *const other[] = {"", "hello", "\x89PNG\r\n", "KILNMOD",
                                        "\x7f"
                                        "ELF"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(other); i++) {
        kiln_graph *graph = NULL;
        assert_false(kiln_onnx_probe(kiln_str_from(other[i])));
        expect_error(kiln_import_bytes(kiln_str_from(other[i]), NULL, NULL, *state, &graph),
                     INVALID_ARGUMENT,
                     "not a model file of a known kind: graphs that Kiln wrote; TFLite models; "
                     "ONNX models");
        assert_null(graph);
    }
}

static void the_folder_of_a_path_ends_before_its_last_slash(void **state) {
    assert_string_equal(kiln_folder_of("m.onnx", *state), ".");
    assert_string_equal(kiln_folder_of("/m.onnx", *state), "/");
    assert_string_equal(kiln_folder_of("a/b/m.onnx", *state), "a/b");
}

static void a_file_that_is_not_there_is_named(void **state) {
    kiln_graph *graph = NULL;
    expect_error(kiln_import_file("/nowhere/m.onnx", NULL, *state, &graph), NOT_FOUND,
                 "/nowhere/m.onnx");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(a_model_is_told_by_its_content),
        test_with_arena(what_no_row_knows_is_refused_with_the_kinds_there_are),
        test_with_arena(the_folder_of_a_path_ends_before_its_last_slash),
        test_with_arena(a_file_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
