/* The public reader: a module is opened, inspected and run as an application would. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/kernel_abi.h"
#include "base/rand.h"
#include "deploy/module.h"
#include "deploy/pack/module_write.h"
#include "deploy/runtime/module_open.h"
#include "tests/unit/deploy/fixture.h"

typedef struct world {
    kiln_arena arena;
    char *folder, *path;
    kiln_module *module;
    float *x, *y, *z; /* aligned to KILN_KERNEL_ALIGNMENT, one float of room behind */
    float expected_y[FIXTURE_COUNT], expected_z[FIXTURE_COUNT];
} world;

static float *floats(void) { return kiln_alloc_aligned(KILN_KERNEL_ALIGNMENT, FIXTURE_BYTES + sizeof(float)); }

static void open_with(world *w, uint32_t threads) {
    char error[KILN_MODULE_ERROR_BYTES] = "";
    kiln_module_close(w->module);
    w->module = NULL;
    kiln_module_options options = {.threads = threads};
    if (kiln_module_open(w->path, &options, &w->module, error, sizeof error)) fail_msg("%s", error);
}

static int set_up(void **state) {
    world *w = kiln_alloc(sizeof *w);
    assert_null(kiln_folder_create_temp("kiln-test", &w->arena, &w->folder));
    w->path = kiln_arena_printf(&w->arena, "%s/fixture.kiln", w->folder);
    kiln_module_plan plan = fixture_plan(&w->arena, "kernel_static.o");
    assert_null(kiln_module_write(&plan, w->path));
    w->x = floats();
    w->y = floats();
    w->z = floats();
    kiln_rand r;
    kiln_rand_init(&r, 3);
    for (int i = 0; i < FIXTURE_COUNT; i++) w->x[i] = (float)kiln_rand_unit(&r) - 1.0f;
    fixture_expected(w->x, w->expected_y, w->expected_z);
    open_with(w, 0);
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    world *w = *state;
    kiln_module_close(w->module);
    kiln_free(w->x);
    kiln_free(w->y);
    kiln_free(w->z);
    kiln_status st = kiln_folder_remove(w->folder);
    kiln_arena_deinit(&w->arena);
    kiln_free(w);
    return st != NULL;
}

static void assert_right(const world *w, const float *y, const float *z) {
    assert_memory_equal(y, w->expected_y, FIXTURE_BYTES);
    assert_memory_equal(z, w->expected_z, FIXTURE_BYTES);
}

static int run(world *w, const float *x, float *y, float *z) {
    const void *inputs[] = {x};
    void *outputs[] = {y, z};
    return kiln_module_run(w->module, inputs, outputs);
}

static void module_says_what_it_is(void **state) {
    world *w = *state;
    const kiln_module *m = w->module;
    assert_int_equal(kiln_module_input_count(m), 1);
    assert_int_equal(kiln_module_output_count(m), 2);
    assert_int_equal(kiln_module_step_count(m), FIXTURE_STEP_COUNT);
    assert_int_equal(kiln_module_kernel_count(m), 1);
    assert_int_equal(kiln_module_threads(m), 1);
    const kiln_module_port *x = kiln_module_input(m, 0);
    assert_string_equal(x->name, "x");
    assert_int_equal(x->dtype, KILN_MODULE_F32);
    assert_int_equal(x->rank, 2);
    assert_int_equal(x->shape[0] * 1000 + x->shape[1], 10100);
    assert_int_equal(x->size_bytes, FIXTURE_BYTES);
    assert_string_equal(kiln_module_output(m, 1)->name, "z");
    const kiln_module_step *first = kiln_module_step_at(m, 0), *alias = kiln_module_step_at(m, 2);
    assert_string_equal(first->name, "first");
    assert_string_equal(first->op, "exp+add");
    assert_string_equal(first->task, "k");
    assert_string_equal(first->algorithm, "direct");
    assert_true(first->flops == 2.0 * FIXTURE_COUNT);
    assert_int_equal(first->action, KILN_MODULE_STEP_KERNEL);
    assert_int_equal(alias->action, KILN_MODULE_STEP_ALIAS);
    assert_string_equal(alias->algorithm, "");
    assert_string_equal(kiln_module_metadata(m, "model"), "fixture");
    assert_string_equal(kiln_module_metadata(m, "note"), "");
    assert_null(kiln_module_metadata(m, "licence"));
    assert_int_equal(kiln_module_packed_bytes(m), 2 * 4032); /* the third step packs what the first did */
    assert_true(kiln_module_arena_bytes(m) >= 2 * FIXTURE_BYTES);
    assert_int_equal(kiln_module_constant_bytes(m), 4032 + FIXTURE_BYTES); /* equal constants are stored once */
}

static void a_module_that_is_only_looked_at_says_the_same_and_does_not_run(void **state) {
    world *w = *state;
    kiln_module *loaded = w->module, *seen = NULL;
    assert_null(kiln_module_inspect(w->path, 0, &seen));
    assert_int_equal(kiln_module_threads(seen), kiln_module_threads(loaded));
    assert_int_equal(kiln_module_step_count(seen), kiln_module_step_count(loaded));
    for (uint32_t i = 0; i < kiln_module_step_count(seen); i++) {
        const kiln_module_step *a = kiln_module_step_at(seen, i), *b = kiln_module_step_at(loaded, i);
        assert_string_equal(a->name, b->name);
        assert_string_equal(a->algorithm, b->algorithm);
        assert_true(a->flops == b->flops);
        size_t bytes = 1;
        assert_null(kiln_module_step_code(seen, i, &bytes));
        assert_int_equal(bytes, 0);
    }
    assert_int_equal(kiln_module_input(seen, 0)->size_bytes, FIXTURE_BYTES);
    assert_string_equal(kiln_module_metadata(seen, "model"), "fixture");
    w->module = seen;
    assert_int_equal(run(w, w->x, w->y, w->z), KILN_FAILED_PRECONDITION);
    kiln_module_close(loaded);
}

static void a_linked_module_runs_once_it_is_packed(void **state) {
    world *w = *state;
    kiln_mapping file = {0};
    kiln_module *linked = NULL;
    assert_null(kiln_file_map(w->path, &file));
    assert_null(kiln_module_link((kiln_str){file.data, file.size}, NULL, &linked));
    assert_null(kiln_module_pack(linked));
    kiln_module_close(w->module);
    w->module = linked;
    assert_int_equal(run(w, w->x, w->y, w->z), 0);
    assert_right(w, w->y, w->z);
    kiln_module_close(linked);
    w->module = NULL;
    kiln_file_unmap(&file);
}

static void run_gives_the_right_outputs(void **state) {
    world *w = *state;
    for (int i = 0; i < 3; i++) { /* and again: nothing of one run is left in the next */
        memset(w->y, 0xff, FIXTURE_BYTES);
        memset(w->z, 0xff, FIXTURE_BYTES);
        assert_int_equal(run(w, w->x, w->y, w->z), 0);
        assert_right(w, w->y, w->z);
    }
}

static void threads_do_not_change_the_result(void **state) {
    world *w = *state;
    for (uint32_t threads = 2; threads <= FIXTURE_THREADS + 1; threads++) {
        open_with(w, threads);
        assert_int_equal(kiln_module_threads(w->module), threads);
        assert_int_equal(run(w, w->x, w->y, w->z), 0);
        assert_right(w, w->y, w->z);
    }
}

static void callers_memory_need_not_be_aligned(void **state) {
    world *w = *state;
    memmove(w->x + 1, w->x, FIXTURE_BYTES);
    assert_int_equal(run(w, w->x + 1, w->y + 1, w->z + 1), 0);
    assert_right(w, w->y + 1, w->z + 1);
    assert_int_equal(run(w, w->x + 1, w->y + 1, w->z), 0);
    assert_right(w, w->y + 1, w->z);
}

static void running_allocates_nothing(void **state) {
    world *w = *state;
    open_with(w, 2);
    uint64_t before = kiln_alloc_count();
    for (int i = 0; i < 20; i++) {
        assert_int_equal(run(w, w->x, w->y, w->z), 0);
        assert_int_equal(run(w, w->x, w->y + 1, w->z + 1), 0);
    }
    assert_int_equal(kiln_alloc_count(), before);
}

typedef struct calls {
    uint32_t step[4 * FIXTURE_STEP_COUNT];
    int done[4 * FIXTURE_STEP_COUNT];
    uint32_t count;
} calls;

static void note_call(void *context, uint32_t step, int done) {
    calls *c = context;
    c->step[c->count] = step;
    c->done[c->count++] = done;
}

static void hook_sees_each_step_begin_and_end(void **state) {
    world *w = *state;
    calls c = {.count = 0};
    kiln_module_set_hook(w->module, note_call, &c);
    assert_int_equal(run(w, w->x, w->y, w->z), 0);
    assert_int_equal(c.count, 2 * FIXTURE_STEP_COUNT);
    for (uint32_t i = 0; i < c.count; i++) {
        assert_int_equal(c.step[i], i / 2);
        assert_int_equal(c.done[i], i % 2);
    }
    kiln_module_set_hook(w->module, NULL, NULL);
    assert_int_equal(run(w, w->x, w->y, w->z), 0);
    assert_int_equal(c.count, 2 * FIXTURE_STEP_COUNT);
}

static void missing_memory_is_refused(void **state) {
    world *w = *state;
    assert_int_equal(run(w, NULL, w->y, w->z), KILN_INVALID_ARGUMENT);
    assert_string_equal(kiln_module_error(w->module), "there is no memory for input 0");
    assert_int_equal(run(w, w->x, w->y, NULL), KILN_INVALID_ARGUMENT);
    assert_string_equal(kiln_module_error(w->module), "there is no memory for output 1");
}

static void two_handles_run_on_one_file(void **state) {
    world *w = *state;
    kiln_module *first = w->module;
    w->module = NULL;
    open_with(w, 1);
    assert_int_equal(run(w, w->x, w->y, w->z), 0);
    kiln_module_close(first);
    assert_int_equal(run(w, w->x, w->y, w->z), 0);
    assert_right(w, w->y, w->z);
}

static void module_opens_from_memory(void **state) {
    world *w = *state;
    kiln_str bytes;
    assert_null(kiln_file_read(w->path, 1 << 20, &w->arena, &bytes));
    char *memory = kiln_alloc_aligned(64, bytes.size + 1);
    char error[KILN_MODULE_ERROR_BYTES] = "";
    kiln_module *m = NULL;
    memcpy(memory + 1, bytes.data, bytes.size);
    assert_int_equal(kiln_module_open_memory(memory + 1, bytes.size, NULL, &m, error, sizeof error), KILN_INVALID_ARGUMENT);
    assert_null(m);
    memcpy(memory, bytes.data, bytes.size);
    assert_int_equal(kiln_module_open_memory(memory, bytes.size, NULL, &m, NULL, 0), 0);
    kiln_module_close(w->module);
    w->module = m;
    assert_int_equal(run(w, w->x, w->y, w->z), 0);
    assert_right(w, w->y, w->z);
    kiln_module_close(m);
    w->module = NULL;
    kiln_free(memory);
}

static int open_code(const char *path, const char *text) {
    char error[KILN_MODULE_ERROR_BYTES] = "";
    kiln_module *m = NULL;
    int code = kiln_module_open(path, NULL, &m, error, sizeof error);
    assert_null(m);
    if (!strstr(error, text)) fail_msg("'%s' does not say '%s'", error, text);
    assert_non_null(strstr(error, path));
    assert_int_equal(kiln_module_verify(path, error, sizeof error), code);
    return code;
}

static void damaged_or_missing_file_is_refused(void **state) {
    world *w = *state;
    assert_int_equal(kiln_module_verify(w->path, NULL, 0), 0);
    char *other = kiln_arena_printf(&w->arena, "%s/other.kiln", w->folder);
    assert_int_equal(open_code(other, ""), KILN_NOT_FOUND);
    kiln_str bytes;
    assert_null(kiln_file_read(w->path, 1 << 20, &w->arena, &bytes));
    assert_null(kiln_file_write(other, (kiln_str){bytes.data, bytes.size - 1}, 0600));
    assert_int_equal(open_code(other, "does not fit"), KILN_DATA_LOSS);
    assert_null(kiln_file_write(other, KILN_STR("not a module"), 0600));
    assert_int_equal(open_code(other, "not a module file"), KILN_DATA_LOSS);
    assert_null(kiln_file_write(other, KILN_STR(""), 0600));
    assert_int_equal(open_code(other, "not a module file"), KILN_DATA_LOSS);
}

static void kernel_that_does_not_link_is_refused(void **state) {
    world *w = *state;
    kiln_module_plan plan = fixture_plan(&w->arena, "elsewhere.o");
    char *other = kiln_arena_printf(&w->arena, "%s/other.kiln", w->folder);
    assert_null(kiln_module_write(&plan, other));
    assert_int_equal(open_code(other, "kernel 0: artefact: object"), KILN_DATA_LOSS);
}

static void failing_kernel_stops_the_run(void **state) {
    world *w = *state;
    kiln_module_plan plan = fixture_plan(&w->arena, "failing.o");
    kiln_manifest manifest = fixture_manifest(&w->arena);
    manifest.has_prepare = false;
    manifest.arg_count = 3;
    manifest.arg[1].read_by_run = true;
    plan.kernel[0] = fixture_artefact(&w->arena, &manifest, "failing.o");
    assert_null(kiln_module_write(&plan, w->path));
    open_with(w, 1);
    assert_int_equal(run(w, w->x, w->y, w->z), KILN_INTERNAL);
    assert_non_null(strstr(kiln_module_error(w->module), "step 0"));
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    const struct CMUnitTest tests[] = {
        ROW(module_says_what_it_is),
        ROW(a_module_that_is_only_looked_at_says_the_same_and_does_not_run),
        ROW(a_linked_module_runs_once_it_is_packed),
        ROW(run_gives_the_right_outputs),
        ROW(threads_do_not_change_the_result),
        ROW(callers_memory_need_not_be_aligned),
        ROW(running_allocates_nothing),
        ROW(hook_sees_each_step_begin_and_end),
        ROW(missing_memory_is_refused),
        ROW(two_handles_run_on_one_file),
        ROW(module_opens_from_memory),
        ROW(damaged_or_missing_file_is_refused),
        ROW(kernel_that_does_not_link_is_refused),
        ROW(failing_kernel_stops_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
