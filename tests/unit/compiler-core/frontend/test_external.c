/* External data: only what lies in the model's own folder. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/unit/compiler-core/frontend/support.h"

typedef struct world {
    kiln_arena *arena;
    char *folder;
} world;

static message entry(kiln_arena *arena, const char *key, const char *value) {
    return with_text(with_text(message_of(arena), 1, key), 2, value);
}

/* y = x + w, where w's two floats lie in `location`. */
static kiln_status load(const world *w, const char *location, const char *offset,
                        const char *length, kiln_graph **out_graph) {
    message tensor = with_int(with_int(with_text(message_of(w->arena), 8, "w"), 1, 2), 2, 1);
    tensor = with_message(with_int(tensor, 14, 1), 13, entry(w->arena, "location", location));
    if (offset) tensor = with_message(tensor, 13, entry(w->arena, "offset", offset));
    if (length) tensor = with_message(tensor, 13, entry(w->arena, "length", length));
    model_parts parts = {.opset = 13,
                         .input = "x:2",
                         .output = "y:2",
                         .node_count = 1,
                         .initializer_count = 1,
                         .node = {node_of(w->arena, "Add", "x w", "y")},
                         .initializer = {tensor}};
    const char *path = kiln_arena_printf(w->arena, "%s/inner/model.onnx", w->folder);
    expect_ok(kiln_file_write(path, model_of(w->arena, &parts), 0600));
    return kiln_import_file(path, NULL, w->arena, out_graph);
}

static world make_world(kiln_arena *arena) {
    world w = {arena, make_folder(arena)};
    const float data[] = {0, 1, 2};
    kiln_str bytes = {(const char *)data, sizeof data};
    expect_ok(kiln_folder_create(kiln_arena_printf(arena, "%s/inner/deep", w.folder), 0700));
    expect_ok(kiln_file_write(kiln_arena_printf(arena, "%s/outside.bin", w.folder), bytes, 0600));
    expect_ok(kiln_file_write(kiln_arena_printf(arena, "%s/inner/w.bin", w.folder), bytes, 0600));
    expect_ok(
        kiln_file_write(kiln_arena_printf(arena, "%s/inner/deep/w.bin", w.folder), bytes, 0600));
    return w;
}

static void data_beside_the_model_is_read(void **state) {
    world w = make_world(*state);
    kiln_graph *graph = NULL;
    expect_ok(load(&w, "w.bin", "4", "8", &graph));
    const float *data = graph->value.data[kiln_graph_find_value(graph, KILN_STR("w"))].data;
    assert_true(data[0] == 1 && data[1] == 2);
    expect_ok(load(&w, "deep/w.bin", NULL, NULL, &graph));
    remove_folder(w.folder);
}

static void nothing_outside_the_folder_is_read(void **state) {
    world w = make_world(*state);
    kiln_graph *graph = NULL;
    const char *outside = kiln_arena_printf(*state, "%s/outside.bin", w.folder);
    expect_error(load(&w, "../outside.bin", NULL, NULL, &graph), INVALID_ARGUMENT, "leaves");
    expect_error(load(&w, "deep/../../outside.bin", NULL, NULL, &graph), INVALID_ARGUMENT,
                 "leaves");
    expect_error(load(&w, outside, NULL, NULL, &graph), INVALID_ARGUMENT, "absolute path");
    assert_int_equal(symlink(outside, kiln_arena_printf(*state, "%s/inner/link.bin", w.folder)), 0);
    expect_error(load(&w, "link.bin", NULL, NULL, &graph), INVALID_ARGUMENT, "link");
    assert_int_equal(symlink(w.folder, kiln_arena_printf(*state, "%s/inner/up", w.folder)), 0);
    expect_error(load(&w, "up/outside.bin", NULL, NULL, &graph), INVALID_ARGUMENT, "link");
    remove_folder(w.folder);
}

static void data_that_is_missing_or_short_is_told(void **state) {
    world w = make_world(*state);
    kiln_graph *graph = NULL;
    expect_error(load(&w, "z.bin", NULL, NULL, &graph), NOT_FOUND, "z.bin");
    expect_error(load(&w, "w.bin", "8", NULL, &graph), OUT_OF_RANGE, "12 bytes");
    expect_error(load(&w, "w.bin", "18446744073709551615", NULL, &graph), INVALID_ARGUMENT,
                 "out of range");
    expect_error(load(&w, "w.bin", "four", NULL, &graph), INVALID_ARGUMENT, "'four' is no number");
    expect_error(load(&w, "w.bin", NULL, "4", &graph), INVALID_ARGUMENT,
                 "4 bytes, its shape says 8");
    expect_error(load(&w, "deep", NULL, NULL, &graph), INVALID_ARGUMENT, "not a regular file");
    expect_error(load(&w, "", NULL, NULL, &graph), INVALID_ARGUMENT, "names no file");
    remove_folder(w.folder);
}

/* Opening a named pipe for reading waits for a writer. */
static void what_is_no_file_is_refused_at_once(void **state) {
    world w = make_world(*state);
    kiln_graph *graph = NULL;
    const char *pipe = kiln_arena_printf(*state, "%s/inner/pipe", w.folder);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    expect_error(load(&w, "pipe", NULL, NULL, &graph), INVALID_ARGUMENT, "not a regular file");
    expect_error(load(&w, "w.bin/more", NULL, NULL, &graph), INVALID_ARGUMENT, "w.bin/more");
    remove_folder(w.folder);
}

static void offsets_and_lengths_have_64_bits(void **state) {
    world w = make_world(*state);
    kiln_graph *graph = NULL;
    const float data[] = {5, 6};
    const char *path = kiln_arena_printf(*state, "%s/inner/large.bin", w.folder);
    FILE *file = fopen(path, "w"); /* a hole of 5 GiB before the data */
    assert_int_equal(fseeko(file, (off_t)5 << 30, SEEK_SET), 0);
    assert_int_equal(fwrite(data, sizeof data, 1, file), 1);
    assert_int_equal(fclose(file), 0);
    expect_ok(load(&w, "large.bin", "5368709120", "8", &graph));
    const float *read = graph->value.data[kiln_graph_find_value(graph, KILN_STR("w"))].data;
    assert_true(read[0] == 5 && read[1] == 6);

    message tensor = with_int(with_int(with_text(message_of(*state), 8, "t"), 1, 1500000000), 2, 1);
    tensor = with_message(with_int(tensor, 14, 1), 13, entry(*state, "location", "large.bin"));
    tensor = with_message(tensor, 13, entry(*state, "length", "6000000000"));
    model_parts parts = {.opset = 13,
                         .input = "x:2",
                         .output = "x:2",
                         .initializer_count = 1,
                         .initializer = {tensor}};
    const char *model = kiln_arena_printf(*state, "%s/inner/model.onnx", w.folder);
    expect_ok(kiln_file_write(model, model_of(*state, &parts), 0600));
    const kiln_import_options more = {.memory_mib = 8192};
    expect_error(kiln_import_file(model, &more, *state, &graph), OUT_OF_RANGE,
                 "has 5368709128 bytes, 6000000000 at 0 are wanted");
    expect_error(kiln_import_file(model, NULL, *state, &graph), RESOURCE_EXHAUSTED,
                 "its tensors name 5722 MiB or more of external data, and at most 4096 are read");
    remove_folder(w.folder);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(data_beside_the_model_is_read),
        test_with_arena(nothing_outside_the_folder_is_read),
        test_with_arena(data_that_is_missing_or_short_is_told),
        test_with_arena(what_is_no_file_is_refused_at_once),
        test_with_arena(offsets_and_lengths_have_64_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
