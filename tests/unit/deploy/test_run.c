/* What `kiln run` and `kiln-run` share: inputs from files or random ones, samples, outputs in
 * files. */
#include "deploy/run/run.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "deploy/pack/module_write.h"
#include "tests/support/test.h"
#include "tests/unit/deploy/fixture.h"

typedef struct world {
    char *folder;
    kiln_module *module;
    kiln_run run;
} world;

static void open_world(kiln_arena *arena, world *w) {
    w->folder = make_folder(arena);
    const char *path = kiln_arena_printf(arena, "%s/fixture.kiln", w->folder);
    kiln_module_plan plan = fixture_plan(arena, "kernel_static.o");
    expect_ok(kiln_module_write(&plan, path));
    expect_ok(kiln_module_load(path, 1, &w->module));
}

static void close_world(world *w) {
    kiln_module_close(w->module);
    remove_folder(w->folder);
}

/* Writes `samples` of the module's input, sample s all of value s + 0.5, and returns "x=PATH". */
static const char *write_input(kiln_arena *arena, const world *w, kiln_dtype dtype,
                               int64_t samples) {
    const kiln_shape shape = {3, {samples, 10, 100}};
    kiln_tensor x = kiln_tensor_create(arena, dtype, &shape);
    for (int64_t i = 0; dtype == KILN_F32 && i < kiln_shape_count(&shape); i++)
        ((float *)x.data)[i] = (float)(i / FIXTURE_COUNT) + 0.5F;
    const char *path = kiln_arena_printf(arena, "%s/x.npy", w->folder);
    expect_ok(kiln_tensor_write_npy(path, &x));
    return kiln_arena_printf(arena, "x=%s", path);
}

static void inputs_that_are_not_given_are_always_the_same(void **state) {
    world w = {0};
    kiln_run again;
    open_world(*state, &w);
    expect_ok(kiln_run_init(&w.run, w.module, &(kiln_opt_list){0}, NULL, *state));
    expect_ok(kiln_run_init(&again, w.module, &(kiln_opt_list){0}, NULL, *state));
    assert_int_equal(w.run.samples, 1);
    assert_memory_equal(w.run.inputs[0], again.inputs[0], FIXTURE_BYTES);
    expect_ok(kiln_run_samples(&w.run));
    float out0[FIXTURE_COUNT], out1[FIXTURE_COUNT];
    fixture_expected(w.run.inputs[0], out0, out1);
    assert_memory_equal(w.run.output[0], out0, FIXTURE_BYTES);
    assert_memory_equal(w.run.output[1], out1, FIXTURE_BYTES);
    close_world(&w);
}

static void stacked_samples_are_run_one_by_one_and_stacked_again(void **state) {
    kiln_arena *arena = *state;
    world w = {0};
    open_world(arena, &w);
    const char *item[] = {write_input(arena, &w, KILN_F32, 3)};
    expect_ok(
        kiln_run_init(&w.run, w.module, &(kiln_opt_list){item, 1}, kiln_tensor_read_npy, arena));
    assert_int_equal(w.run.samples, 3);
    expect_ok(kiln_run_samples(&w.run));
    const char *outputs = kiln_arena_printf(arena, "%s/outputs", w.folder);
    expect_ok(kiln_run_write(&w.run, outputs, arena));
    for (size_t s = 0; s < 3; s++) {
        float x[FIXTURE_COUNT], out0[FIXTURE_COUNT], out1[FIXTURE_COUNT];
        for (size_t i = 0; i < FIXTURE_COUNT; i++) x[i] = (float)s + 0.5F;
        fixture_expected(x, out0, out1);
        assert_memory_equal(w.run.output[0] + s * FIXTURE_BYTES, out0, FIXTURE_BYTES);
        assert_memory_equal(w.run.output[1] + s * FIXTURE_BYTES, out1, FIXTURE_BYTES);
    }
    kiln_tensor read;
    expect_ok(kiln_tensor_read_npy(
        kiln_arena_printf(arena, "%s/%s.npy", outputs, kiln_module_output(w.module, 1)->name),
        arena, &read));
    assert_int_equal(kiln_shape_count(&read.shape), 3 * FIXTURE_COUNT);
    assert_int_equal(read.shape.dim[0], 3);
    assert_memory_equal(read.data, w.run.output[1], 3 * FIXTURE_BYTES);
    kiln_run_range range = kiln_run_range_of(&w.run, 1);
    assert_int_equal(range.count, 3 * FIXTURE_COUNT);
    assert_true(range.low <= range.mean && range.mean <= range.high);
    close_world(&w);
}

/* Of an output that a loop stacks, the rows that there were: 3 of 5. */
static void outputs_have_as_many_rows_as_a_loop_ran(void **state) {
    static const int64_t three = 3;
    kiln_arena *arena = *state;
    world w = {.folder = make_folder(arena)};
    const char *path = kiln_arena_printf(arena, "%s/loop.kiln", w.folder);
    kiln_module_plan plan = fixture_loop_plan(arena);
    plan.step[LOOP_STEP_LOOP].count = LOOP_SPARE;
    plan.buffer[LOOP_SPARE] = (kiln_plan_buffer){
        .storage = KILN_STORAGE_CONSTANT, .size_bytes = sizeof three, .data = &three};
    expect_ok(kiln_module_write(&plan, path));
    expect_ok(kiln_module_load(path, 1, &w.module));
    expect_ok(kiln_run_init(&w.run, w.module, &(kiln_opt_list){0}, NULL, arena));
    expect_ok(kiln_run_samples(&w.run));
    expect_ok(kiln_run_write(&w.run, w.folder, arena));
    assert_int_equal(kiln_run_range_of(&w.run, 0).count, 3 * LOOP_ROW);
    assert_int_equal(kiln_run_range_of(&w.run, 1).count, LOOP_ROW);
    kiln_tensor read;
    const char *name = kiln_module_output(w.module, 0)->name;
    expect_ok(
        kiln_tensor_read_npy(kiln_arena_printf(arena, "%s/%s.npy", w.folder, name), arena, &read));
    assert_int_equal(read.shape.dim[0], 3);
    close_world(&w);
}

/* One line per kernel, though two steps call it; steps that are no kernel have no code. */
static void kernels_are_named_for_perf(void **state) {
    kiln_arena *arena = *state;
    world w = {0};
    open_world(arena, &w);
    size_t bytes, none;
    const void *code = kiln_module_step_code(w.module, 0, &bytes);
    assert_non_null(code);
    assert_true(bytes > 0);
    assert_null(kiln_module_step_code(w.module, 2, &none));
    assert_int_equal(none, 0);
    kiln_strbuf text = {0};
    kiln_run_print_perf_map(w.module, &text);
    expect_str(kiln_strbuf_view(&text),
               kiln_arena_printf(arena, "%llx %zx kiln:exp+add:first\n",
                                 (unsigned long long)(uintptr_t)code, bytes));
    kiln_strbuf_deinit(&text);
    expect_ok(kiln_run_write_perf_map(w.module, arena));
    char *path = kiln_arena_printf(arena, "/tmp/perf-%ld.map", (long)getpid());
    assert_true(kiln_file_exists(path));
    assert_int_equal(unlink(path), 0);
    close_world(&w);
}

static void inputs_that_do_not_fit_are_refused(void **state) {
    kiln_arena *arena = *state;
    world w = {0};
    open_world(arena, &w);
    const char *item[] = {write_input(arena, &w, KILN_F64, 1)};
    kiln_opt_list given = {item, 1};
    expect_error(kiln_run_init(&w.run, w.module, &given, kiln_tensor_read_npy, arena),
                 INVALID_ARGUMENT, "the module wants f32[10,100]");
    item[0] = "none=f.npy";
    expect_error(kiln_run_init(&w.run, w.module, &given, kiln_tensor_read_npy, arena),
                 INVALID_ARGUMENT, "no input 'none'; it has x");
    item[0] = "x";
    expect_error(kiln_run_init(&w.run, w.module, &given, kiln_tensor_read_npy, arena),
                 INVALID_ARGUMENT, "NAME=FILE");
    item[0] = "x=/nowhere.npy";
    expect_error(kiln_run_init(&w.run, w.module, &given, kiln_tensor_read_npy, arena), NOT_FOUND,
                 "/nowhere.npy");
    close_world(&w);
}

static void a_file_that_is_no_module_is_refused(void **state) {
    (void)state;
    kiln_module *module = NULL;
    expect_error(kiln_module_load("/nowhere.kiln", 1, &module), NOT_FOUND, "/nowhere.kiln");
}

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    const struct CMUnitTest tests[] = {
        test_with_arena(inputs_that_are_not_given_are_always_the_same),
        test_with_arena(stacked_samples_are_run_one_by_one_and_stacked_again),
        test_with_arena(outputs_have_as_many_rows_as_a_loop_ran),
        test_with_arena(kernels_are_named_for_perf),
        test_with_arena(inputs_that_do_not_fit_are_refused),
        test_with_arena(a_file_that_is_no_module_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
