/* Samples from folders, from files, and made up. */
#include "cli/samples.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "cli/calibrate.h"
#include "compiler-core/graph/graph_codec.h"
#include "tests/support/onnx_message.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"

/* A module of inputs a and b of two floats each, or of a alone. */
static kiln_module *make_module(kiln_arena *arena, bool two) {
    const kiln_shape shape = {1, {2}};
    const kiln_import_options import = {0};
    kiln_graph *graph = kiln_graph_create(arena, KILN_STR("g"));
    const kiln_value a = kiln_graph_add_input(graph, KILN_STR("a"), KILN_F32, &shape),
                     b = two ? kiln_graph_add_input(graph, KILN_STR("b"), KILN_F32, &shape) : a;
    const kiln_node node = kiln_graph_add_node(graph, KILN_OP_ADD, KILN_STR("sum"), 2, 1);
    const kiln_value y = kiln_graph_add_value(graph, KILN_STR("y"));
    graph->value.data[y].dtype = KILN_F32;
    graph->value.data[y].shape = shape;
    kiln_graph_set_input(graph, node, 0, a);
    kiln_graph_set_input(graph, node, 1, b);
    kiln_graph_set_output(graph, node, 0, y);
    kiln_vec_push_in(arena, &graph->output, y);
    const kiln_graph_bytes encoded = kiln_graph_encode(graph, arena);
    kiln_strbuf bytes = {0};
    for (uint32_t i = 0; i < encoded.part_count; i++) kiln_strbuf_str(&bytes, encoded.part[i]);
    kiln_module *module = NULL;
    const kiln_target target = plain_target(arena);
    expect_ok(kiln_calibrate_compile("g", kiln_strbuf_end(&bytes, arena), &target, &import, arena,
                                     &module));
    return module;
}

typedef struct world {
    kiln_arena *arena;
    char *folder;
    kiln_module *module;
} world;

static world make_world(kiln_arena *arena, bool two) {
    return (world){arena, make_folder(arena), make_module(arena, two)};
}

static void end_world(world *w) {
    kiln_module_close(w->module);
    remove_folder(w->folder);
}

static const char *path_of(const world *w, const char *name) {
    return kiln_arena_printf(w->arena, "%s/%s", w->folder, name);
}

/* `count` samples of two floats that count up from `first`. */
static void write_npy(const world *w, const char *name, int64_t count, float first) {
    const kiln_shape shape = {2, {count, 2}};
    kiln_tensor tensor = kiln_tensor_create(w->arena, KILN_F32, &shape);
    for (int64_t i = 0; i < 2 * count; i++) ((float *)tensor.data)[i] = first + (float)i;
    expect_ok(kiln_tensor_write_npy(path_of(w, name), &tensor));
}

static void write_pb(const world *w, const char *name, float first) {
    const float data[] = {first, first + 1};
    expect_ok(kiln_file_write(path_of(w, name), floats_of(w->arena, "", data, 2).bytes, 0600));
}

static kiln_samples read_samples(const world *w, kiln_samples_source source) {
    kiln_samples samples;
    expect_ok(kiln_samples_check(&source, w->arena));
    expect_ok(kiln_samples_read(&source, w->module, w->arena, &samples));
    return samples;
}

static float first_of(const kiln_samples *samples, size_t sample, uint32_t input) {
    return *(const float *)kiln_samples_at(samples, sample)[input];
}

static void files_of_the_only_input_follow_one_another(void **state) {
    world w = make_world(*state, false);
    write_npy(&w, "1.npy", 3, 10);
    write_pb(&w, "2.pb", 50);
    expect_ok(kiln_file_write(path_of(&w, "note.txt"), KILN_STR("no tensor"), 0600));
    kiln_samples s = read_samples(&w, (kiln_samples_source){.folder = w.folder});
    assert_int_equal(s.count, 4);
    assert_true(first_of(&s, 2, 0) == 14 && first_of(&s, 3, 0) == 50 && first_of(&s, 0, 0) == 10);
    s = read_samples(&w, (kiln_samples_source){.folder = w.folder, .samples_max = 2});
    assert_int_equal(s.count, 2);
    assert_null(s.label);
    end_world(&w);
}

static void several_inputs_have_files_of_their_names(void **state) {
    world w = make_world(*state, true);
    kiln_samples s;
    write_npy(&w, "a.npy", 2, 1);
    const kiln_samples_source source = {.folder = w.folder};
    expect_error(kiln_samples_read(&source, w.module, w.arena, &s), NOT_FOUND, "no b.npy or b.pb");
    write_npy(&w, "b.npy", 2, 100);
    s = read_samples(&w, source);
    assert_true(s.count == 2 && first_of(&s, 1, 0) == 3 && first_of(&s, 1, 1) == 102);
    end_world(&w);
}

static void data_sets_of_backend_tests_are_samples(void **state) {
    world w = make_world(*state, true);
    for (int i = 0; i < 2; i++) {
        expect_ok(kiln_folder_create(path_of(&w, i ? "test_data_set_1" : "test_data_set_0"), 0700));
        write_pb(&w, i ? "test_data_set_1/input_0.pb" : "test_data_set_0/input_0.pb", (float)i);
        write_pb(&w, i ? "test_data_set_1/input_1.pb" : "test_data_set_0/input_1.pb",
                 10 + (float)i);
    }
    kiln_samples s = read_samples(&w, (kiln_samples_source){.folder = w.folder});
    assert_true(s.count == 2 && first_of(&s, 0, 1) == 10 && first_of(&s, 1, 0) == 1);
    end_world(&w);
}

static void labels_lie_beside_the_samples(void **state) {
    world w = make_world(*state, false);
    const kiln_shape shape = {1, {3}};
    kiln_tensor labels = kiln_tensor_create(w.arena, KILN_I64, &shape);
    kiln_samples s;
    ((int64_t *)labels.data)[2] = 7;
    write_npy(&w, "x.npy", 3, 0);
    expect_ok(kiln_tensor_write_npy(path_of(&w, "labels.npy"), &labels));
    s = read_samples(&w, (kiln_samples_source){.folder = w.folder});
    assert_true(s.count == 3 && s.label_count == 3 && s.label[2] == 7);
    const kiln_samples_source wrong = {.folder = w.folder, .labels = path_of(&w, "x.npy")};
    expect_error(kiln_samples_read(&wrong, w.module, w.arena, &s), INVALID_ARGUMENT,
                 "labels are a vector of integers");
    end_world(&w);
}

static void synthetic_samples_differ_and_come_back(void **state) {
    world w = make_world(*state, true);
    const kiln_samples_source source = {.synthetic = 3, .seed = 5},
                              other = {.synthetic = 3, .seed = 6};
    const kiln_samples s = read_samples(&w, source), again = read_samples(&w, source),
                       more = read_samples(&w, other);
    assert_int_equal(s.count, 3);
    for (size_t i = 0; i < 3; i++) assert_true(first_of(&s, i, 0) == first_of(&again, i, 0));
    assert_true(first_of(&s, 0, 0) != first_of(&s, 1, 0));
    assert_true(first_of(&s, 0, 0) != first_of(&s, 0, 1));
    assert_true(first_of(&s, 2, 0) != first_of(&more, 2, 0));
    end_world(&w);
}

static void one_kind_of_data_is_wanted_at_most(void **state) {
    world w = make_world(*state, false);
    kiln_samples_source none = {0}, two = {.folder = w.folder, .synthetic = 1},
                        empty = {.folder = w.folder}, absent = {.folder = "no/such/folder"};
    expect_ok(kiln_samples_check(&none, w.arena));
    assert_int_equal(none.synthetic, KILN_SAMPLES_SYNTHETIC);
    expect_error(kiln_samples_check(&two, w.arena), INVALID_ARGUMENT, "more than one kind of data");
    expect_error(kiln_samples_check(&empty, w.arena), NOT_FOUND, "it has no data");
    expect_error(kiln_samples_check(&absent, w.arena), NOT_FOUND, "there is no such folder");
    end_world(&w);
}

static void what_does_not_fit_is_refused(void **state) {
    world w = make_world(*state, true);
    kiln_samples s;
    const char *item[2] = {kiln_arena_printf(w.arena, "a=%s", path_of(&w, "x.npy")),
                           kiln_arena_printf(w.arena, "b=%s", path_of(&w, "y.npy"))};
    kiln_samples_source source = {.given = {item, 1}};
    write_npy(&w, "x.npy", 2, 0);
    write_npy(&w, "y.npy", 3, 0);
    expect_error(kiln_samples_read(&source, w.module, w.arena, &s), INVALID_ARGUMENT,
                 "there is no data for input b");
    source.given.count = 2;
    expect_error(kiln_samples_read(&source, w.module, w.arena, &s), INVALID_ARGUMENT,
                 "the inputs hold 2 and 3 samples");
    write_npy(&w, "y.npy", 2, NAN);
    expect_error(kiln_samples_read(&source, w.module, w.arena, &s), INVALID_ARGUMENT,
                 "y.npy: sample 0 of input b has an element that is no number");
    const kiln_shape shape = {2, {2, 3}};
    const kiln_tensor wide = kiln_tensor_create(w.arena, KILN_F32, &shape);
    expect_ok(kiln_tensor_write_npy(path_of(&w, "y.npy"), &wide));
    expect_error(kiln_samples_read(&source, w.module, w.arena, &s), INVALID_ARGUMENT,
                 "input b is f32[2,3], the module wants f32[2]");
    end_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(files_of_the_only_input_follow_one_another),
        test_with_arena(several_inputs_have_files_of_their_names),
        test_with_arena(data_sets_of_backend_tests_are_samples),
        test_with_arena(labels_lie_beside_the_samples),
        test_with_arena(synthetic_samples_differ_and_come_back),
        test_with_arena(one_kind_of_data_is_wanted_at_most),
        test_with_arena(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
