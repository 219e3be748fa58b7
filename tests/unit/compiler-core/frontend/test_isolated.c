/* A model read in an isolated process equals the model read without one. */
#include "compiler-core/frontend/isolated.h"

#include <unistd.h>

#include "compiler-core/frontend/data_set.h"
#include "compiler-core/graph/graph_codec.h"
#include "tests/unit/compiler-core/frontend/support.h"

typedef struct world {
    kiln_arena *arena;
    char *folder;
    const char *path;
} world;

static world make_world(kiln_arena *arena, const model_parts *parts) {
    world w = {arena, make_folder(arena), NULL};
    w.path = kiln_arena_printf(arena, "%s/m.onnx", w.folder);
    expect_ok(kiln_file_write(w.path, model_of(arena, parts), 0600));
    return w;
}

static kiln_str bytes_of(const kiln_graph *graph, kiln_arena *arena) {
    const kiln_graph_bytes encoded = kiln_graph_encode(graph, arena);
    kiln_strbuf all = {0};
    for (uint32_t i = 0; i < encoded.part_count; i++) kiln_strbuf_str(&all, encoded.part[i]);
    return kiln_strbuf_end(&all, arena);
}

/* y = x + w, where w lies beside the model. */
static model_parts with_external(kiln_arena *arena, const char *location) {
    message entry = with_text(with_text(message_of(arena), 1, "location"), 2, location);
    message tensor = with_int(with_int(with_text(message_of(arena), 8, "w"), 1, 2), 2, 1);
    return (model_parts){.opset = 13,
                         .input = "x:2",
                         .output = "y:2",
                         .node_count = 1,
                         .initializer_count = 1,
                         .node = {node_of(arena, "Add", "x w", "y")},
                         .initializer = {with_message(with_int(tensor, 14, 1), 13, entry)}};
}

static void the_graph_is_the_same(void **state) {
    const float data[] = {3, 4};
    const model_parts parts = with_external(*state, "w.bin");
    const world w = make_world(*state, &parts);
    kiln_graph *plain = NULL, *isolated = NULL;
    kiln_mapping bytes;
    expect_ok(kiln_file_write(kiln_arena_printf(*state, "%s/w.bin", w.folder),
                              (kiln_str){(const char *)data, sizeof data}, 0600));
    expect_ok(kiln_import_file(w.path, NULL, *state, &plain));
    expect_ok(kiln_import_isolated(w.path, NULL, *state, &isolated, &bytes));
    assert_true(kiln_str_equal(bytes_of(plain, *state), bytes_of(isolated, *state)));
    kiln_file_unmap(&bytes);
    remove_folder(w.folder);
}

static void what_is_known_is_bound(void **state) {
    const model_parts parts = {.opset = 13,
                               .input = "x:2 s:2",
                               .output = "y:2",
                               .node_count = 1,
                               .node = {node_of(*state, "Reshape", "x s", "y")}};
    const world w = make_world(*state, &parts);
    int64_t shape[] = {1, 2};
    const kiln_named_tensor known = {KILN_STR("s"), {KILN_I64, {1, {2}}, shape}};
    uint32_t bound = 7;
    const kiln_import_options options = {
        .known_count = 1, .known = &known, .out_bound_count = &bound};
    kiln_graph *graph = NULL;
    kiln_mapping bytes;
    expect_ok(kiln_import_isolated(w.path, &options, *state, &graph, &bytes));
    assert_int_equal(bound, 1);
    kiln_file_unmap(&bytes);
    remove_folder(w.folder);
}

static void errors_are_those_of_reading(void **state) {
    const model_parts outside = with_external(*state, "../w.bin"),
                      missing = with_external(*state, "w.bin");
    world w = make_world(*state, &outside);
    kiln_graph *graph = NULL;
    kiln_mapping bytes;
    expect_error(kiln_import_isolated(w.path, NULL, *state, &graph, &bytes), INVALID_ARGUMENT,
                 "leaves");
    remove_folder(w.folder);
    w = make_world(*state, &missing);
    expect_error(kiln_import_isolated(w.path, NULL, *state, &graph, &bytes), NOT_FOUND, "w.bin");
    remove_folder(w.folder);
    expect_error(kiln_import_isolated("/nowhere/m.onnx", NULL, *state, &graph, &bytes), NOT_FOUND,
                 "/nowhere/m.onnx");
    const kiln_import_options options = {.memory_mib = UINT64_MAX};
    w = make_world(*state, &missing);
    expect_error(kiln_import_isolated(w.path, &options, *state, &graph, &bytes), OUT_OF_RANGE,
                 "MiB");
    remove_folder(w.folder);
}

static void a_file_above_the_limit_is_refused_with_both_sizes(void **state) {
    char *folder = make_folder(*state);
    const char *path = kiln_arena_printf(*state, "%s/m.onnx", folder);
    kiln_graph *graph = NULL;
    kiln_mapping bytes;
    bool is_external;
    expect_ok(kiln_file_write(path, KILN_STR("\x08\x08"), 0600));
    assert_int_equal(truncate(path, (off_t)KILN_MODEL_FILE_BYTES_MAX + 1), 0); /* holes */
    expect_error(kiln_import_isolated(path, NULL, *state, &graph, &bytes), OUT_OF_RANGE,
                 "has 2147483649 bytes, and a model's file at most 2147483648: larger models keep");
    expect_error(kiln_import_file(path, NULL, *state, &graph), OUT_OF_RANGE, "2147483649");
    expect_error(kiln_onnx_is_external_read(path, &is_external), OUT_OF_RANGE, "2147483649");
    remove_folder(folder);
}

static void weights_beside_the_file_are_noticed(void **state) {
    const model_parts outside = with_external(*state, "w.bin"),
                      inside = {.opset = 13,
                                .input = "x:2",
                                .output = "y:2",
                                .node_count = 1,
                                .node = {node_of(*state, "Relu", "x", "y")}};
    bool is_external = false;
    world w = make_world(*state, &outside);
    expect_ok(kiln_onnx_is_external_read(w.path, &is_external));
    assert_true(is_external);
    remove_folder(w.folder);
    w = make_world(*state, &inside);
    expect_ok(kiln_onnx_is_external_read(w.path, &is_external));
    assert_false(is_external);
    expect_ok(kiln_file_write(w.path, KILN_STR("text"), 0600));
    is_external = true;
    expect_ok(kiln_onnx_is_external_read(w.path, &is_external));
    assert_false(is_external);
    remove_folder(w.folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(the_graph_is_the_same),
        test_with_arena(what_is_known_is_bound),
        test_with_arena(errors_are_those_of_reading),
        test_with_arena(a_file_above_the_limit_is_refused_with_both_sizes),
        test_with_arena(weights_beside_the_file_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
