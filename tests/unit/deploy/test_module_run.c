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
#include "deploy/runtime/device.h"
#include "deploy/runtime/module_open.h"
#include "tests/unit/deploy/fixture.h"

typedef struct world {
    kiln_arena arena;
    char *folder, *path;
    kiln_module *module;
    float *x, *y, *z; /* aligned to KILN_KERNEL_ALIGNMENT, one float of room behind */
    float expected_y[FIXTURE_COUNT], expected_z[FIXTURE_COUNT];
} world;

static float *floats(void) {
    return kiln_alloc_aligned(KILN_KERNEL_ALIGNMENT, FIXTURE_BYTES + sizeof(float));
}

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
    assert_int_equal(kiln_module_packed_bytes(m),
                     2 * 4032); /* the third step packs what the first did */
    assert_true(kiln_module_arena_bytes(m) >= 2 * FIXTURE_BYTES);
    assert_int_equal(kiln_module_constant_bytes(m),
                     4032 + FIXTURE_BYTES); /* equal constants are stored once */
}

static void a_module_that_is_only_looked_at_says_the_same_and_does_not_run(void **state) {
    world *w = *state;
    kiln_module *loaded = w->module, *seen = NULL;
    kiln_mapping file = {0};
    assert_null(kiln_file_map(w->path, &file));
    assert_null(kiln_module_inspect((kiln_str){file.data, file.size}, 0, &seen));
    assert_int_equal(kiln_module_threads(seen), kiln_module_threads(loaded));
    assert_int_equal(kiln_module_step_count(seen), kiln_module_step_count(loaded));
    for (uint32_t i = 0; i < kiln_module_step_count(seen); i++) {
        const kiln_module_step *a = kiln_module_step_at(seen, i),
                               *b = kiln_module_step_at(loaded, i);
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
    kiln_module_close(seen);
    kiln_file_unmap(&file);
    w->module = loaded;
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
        /* One more than its kernels can use stays out. */
        assert_int_equal(kiln_module_threads(w->module), KILN_MIN(threads, FIXTURE_THREADS));
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
    const kiln_module *module;
    uint32_t step[4 * FIXTURE_STEP_COUNT];
    int done[4 * FIXTURE_STEP_COUNT];
    uint32_t count;
    uint64_t device_ns; /* of all steps */
} calls;

static void note_call(void *context, uint32_t step, int done) {
    calls *c = context;
    if (done) c->device_ns += kiln_module_step_device_ns(c->module);
    c->step[c->count] = step;
    c->done[c->count++] = done;
}

static void hook_sees_each_step_begin_and_end(void **state) {
    world *w = *state;
    calls c = {.module = w->module};
    kiln_module_set_hook(w->module, note_call, &c);
    assert_int_equal(run(w, w->x, w->y, w->z), 0);
    assert_int_equal(c.count, 2 * FIXTURE_STEP_COUNT);
    for (uint32_t i = 0; i < c.count; i++) {
        assert_int_equal(c.step[i], i / 2);
        assert_int_equal(c.done[i], i % 2);
    }
    assert_int_equal(c.device_ns, 0); /* the processor's steps have no clock of their own */
    kiln_module_set_hook(w->module, NULL, NULL);
    assert_int_equal(run(w, w->x, w->y, w->z), 0);
    assert_int_equal(c.count, 2 * FIXTURE_STEP_COUNT);
}

static void missing_memory_is_refused(void **state) {
    world *w = *state;
    assert_int_equal(run(w, NULL, w->y, w->z), KILN_INVALID_ARGUMENT);
    assert_string_equal(kiln_module_error(w->module), "input 0 (x): there is no memory for it");
    assert_int_equal(run(w, w->x, w->y, NULL), KILN_INVALID_ARGUMENT);
    assert_string_equal(kiln_module_error(w->module), "output 1 (z): there is no memory for it");
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
    assert_int_equal(kiln_module_open_memory(memory + 1, bytes.size, NULL, &m, error, sizeof error),
                     KILN_INVALID_ARGUMENT);
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
    assert_null(kiln_file_write(other, KILN_STR("\0asm\1\0\0\0"), 0600));
    assert_int_equal(open_code(other, "browsers and node"), KILN_FAILED_PRECONDITION);
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

static kiln_module_tensor tensor_of(const kiln_module_port *port, float *data) {
    return kiln_module_tensor_at(port, 1, 0, data);
}

/* Whether aligned or not, and from a byte on. */
static void tensors_of_the_process_are_used_where_they_are(void **state) {
    world *w = *state;
    const kiln_module_device_info info = kiln_module_describe_device(w->module);
    assert_true(info.device_type == 1 && info.device_id == 0 && !info.context);
    kiln_module_tensor x = tensor_of(kiln_module_input(w->module, 0), w->x),
                       y = tensor_of(kiln_module_output(w->module, 0), w->y),
                       z = tensor_of(kiln_module_output(w->module, 1), w->z);
    const kiln_module_tensor *const in[] = {&x}, *const out[] = {&y, &z};
    const uint64_t before = kiln_alloc_count();
    assert_int_equal(kiln_module_run_tensors(w->module, in, out), 0);
    assert_right(w, w->y, w->z);
    y.byte_offset = sizeof(float); /* there is room for one behind each */
    memset(w->y, 0, FIXTURE_BYTES);
    assert_int_equal(kiln_module_run_tensors(w->module, in, out), 0);
    assert_right(w, w->y + 1, w->z);
    assert_int_equal(kiln_alloc_count(), before);
}

static void tensors_of_other_devices_and_shapes_are_refused(void **state) {
    world *w = *state;
    kiln_module_tensor x = tensor_of(kiln_module_input(w->module, 0), w->x),
                       y = tensor_of(kiln_module_output(w->module, 0), w->y),
                       z = tensor_of(kiln_module_output(w->module, 1), w->z);
    const kiln_module_tensor *const in[] = {&x}, *const out[] = {&y, &z}, *const none[] = {NULL};
    x.device_type = 2;
    assert_int_equal(kiln_module_run_tensors(w->module, in, out), KILN_INVALID_ARGUMENT);
    assert_string_equal(kiln_module_error(w->module),
                        "input 0 (x): it lies on device 2:0; the module works on 1:0 and in memory "
                        "of the process, 1:0");
    x.device_type = 1;
    z.type_bits = 16;
    assert_int_equal(kiln_module_run_tensors(w->module, in, out), KILN_INVALID_ARGUMENT);
    assert_non_null(strstr(kiln_module_error(w->module), "output 1 (z): its elements are of type"));
    assert_int_equal(kiln_module_run_tensors(w->module, none, out), KILN_INVALID_ARGUMENT);
    assert_string_equal(kiln_module_error(w->module), "input 0 (x): there is no memory for it");
}

/* ---- loops and devices ----------------------------------------------------------------------- */

/* Inputs and outputs of fixture_loop_plan, aligned. */
typedef struct loop_memory {
    float x[LOOP_TRIPS][LOOP_ROW], s0[LOOP_ROW], y[LOOP_TRIPS][LOOP_ROW], sum[LOOP_ROW];
    int64_t idx[8];
} loop_memory;

static loop_memory *loop_inputs(void) {
    loop_memory *l = kiln_alloc_aligned(KILN_KERNEL_ALIGNMENT, sizeof *l);
    memset(l, 0xff, sizeof *l);
    for (int i = 0; i < LOOP_ROW; i++) {
        l->s0[i] = (float)i;
        for (int t = 0; t < LOOP_TRIPS; t++) l->x[t][i] = (float)(t + 1);
    }
    return l;
}

/* After `trips` iterations; `backwards`: rows were taken from the last to the first. */
static void assert_loop_right(const loop_memory *l, int trips, bool backwards, bool stacked) {
    for (int i = 0; i < LOOP_ROW; i++) {
        float sum = (float)i;
        for (int t = 0; t < trips; t++) {
            int row = backwards ? LOOP_TRIPS - 1 - t : t;
            sum += (float)(row + 1);
            if (stacked) assert_true(l->y[row][i] == 2 * sum);
        }
        assert_true(l->sum[i] == sum);
    }
    for (int t = 0; stacked && t < trips; t++) assert_int_equal(l->idx[t], t);
}

static void open_plan(world *w, const kiln_module_plan *plan) {
    kiln_status st = kiln_module_write(plan, w->path);
    if (st) fail_msg("%s", kiln_status_text(st));
    open_with(w, 0);
}

static int run_loop(world *w, const loop_memory *l, void *const *outputs) {
    const void *inputs[] = {l->x, l->s0};
    return kiln_module_run(w->module, inputs, outputs);
}

static void a_loop_carries_slices_and_stacks(void **state) {
    world *w = *state;
    for (int backwards = 0; backwards < 2; backwards++) {
        kiln_module_plan plan = fixture_loop_plan(&w->arena);
        for (uint32_t i = LOOP_X_ROW; backwards && i <= LOOP_Y_ROW; i++) {
            plan.buffer[i].stride = -(int64_t)LOOP_ROW_BYTES;
            plan.buffer[i].offset = (LOOP_TRIPS - 1) * LOOP_ROW_BYTES;
        }
        open_plan(w, &plan);
        loop_memory *l = loop_inputs();
        void *outputs[] = {l->y, l->sum, l->idx};
        uint64_t before = kiln_alloc_count();
        for (int again = 0; again < 3; again++) { /* the state of one run is not that of the next */
            assert_int_equal(run_loop(w, l, outputs), 0);
            assert_loop_right(l, LOOP_TRIPS, backwards, true);
            memset(l->y, 0xff, sizeof *l - offsetof(loop_memory, y));
        }
        float *unaligned = kiln_alloc(sizeof l->y + 4 + 64);
        outputs[0] = (float *)(((uintptr_t)unaligned + 63) / 64 * 64) + 1;
        assert_int_equal(run_loop(w, l, outputs), 0);
        memcpy(l->y, outputs[0], sizeof l->y);
        assert_loop_right(l, LOOP_TRIPS, backwards, true);
        assert_int_equal(kiln_alloc_count(), before + 1); /* `unaligned` */
        kiln_free(unaligned);
        kiln_free(l);
    }
}

static void a_loop_says_what_it_is(void **state) {
    world *w = *state;
    kiln_module_plan plan = fixture_loop_plan(&w->arena);
    open_plan(w, &plan);
    assert_int_equal(kiln_module_verify(w->path, NULL, 0), 0);
    const kiln_module_step *step = kiln_module_step_at(w->module, LOOP_STEP_LOOP);
    assert_int_equal(step->action, KILN_MODULE_STEP_LOOP);
    assert_int_equal(step->body_count, 3);
    assert_int_equal(step->trip_max, LOOP_TRIPS);
    assert_int_equal(kiln_module_step_at(w->module, LOOP_STEP_CARRY)->action,
                     KILN_MODULE_STEP_CARRY);
    assert_int_equal(kiln_module_step_at(w->module, LOOP_STEP_KERNEL)->body_count, 0);
}

typedef struct tally {
    uint32_t begun[LOOP_STEP_COUNT], done[LOOP_STEP_COUNT], open;
} tally;

static void count_call(void *context, uint32_t step, int done) {
    tally *t = context;
    if (!done) {
        t->begun[step]++;
        t->open++;
    } else {
        t->done[step]++;
        t->open--;
    }
}

static void hook_sees_each_iteration(void **state) {
    world *w = *state;
    kiln_module_plan plan = fixture_loop_plan(&w->arena);
    open_plan(w, &plan);
    loop_memory *l = loop_inputs();
    tally t = {.open = 0};
    kiln_module_set_hook(w->module, count_call, &t);
    assert_int_equal(run_loop(w, l, (void *[]){l->y, l->sum, l->idx}), 0);
    for (uint32_t i = 0; i < LOOP_STEP_COUNT; i++) {
        bool inside = i > LOOP_STEP_LOOP && i <= LOOP_STEP_CARRY;
        assert_int_equal(t.begun[i], inside ? LOOP_TRIPS : 1);
        assert_int_equal(t.done[i], t.begun[i]);
    }
    assert_int_equal(t.open, 0);
    kiln_free(l);
}

/* The loop without its stacked outputs, which are not whole when it ends early: x[t] is x[0] of the
 * iteration. */
static kiln_module_plan plan_that_ends_early(world *w) {
    kiln_module_plan plan = fixture_loop_plan(&w->arena);
    plan.buffer[LOOP_Y] = (kiln_plan_buffer){
        .storage = KILN_STORAGE_ARENA, .size_bytes = LOOP_TRIPS * LOOP_ROW_BYTES, .offset = 1536};
    plan.buffer[LOOP_IDX] = (kiln_plan_buffer){
        .storage = KILN_STORAGE_ARENA, .size_bytes = LOOP_TRIPS * sizeof(int64_t), .offset = 1024};
    plan.buffer[LOOP_SUM].source = 0;
    plan.output[0] = plan.output[1];
    plan.output_count = 1;
    return plan;
}

/* The same, whose third input says how often it runs. */
static kiln_module_plan plan_that_counts(world *w) {
    kiln_module_plan plan = plan_that_ends_early(w);
    plan.buffer[LOOP_SPARE] =
        (kiln_plan_buffer){.storage = KILN_STORAGE_INPUT, .size_bytes = 8, .source = 2};
    kiln_plan_port *input = KILN_ARENA_ARRAY(&w->arena, kiln_plan_port, 3);
    memcpy(input, plan.input, 2 * sizeof *input);
    input[2] = (kiln_plan_port){.name = KILN_STR("n"), .dtype = KILN_I64, .buffer = LOOP_SPARE};
    plan.input = input;
    plan.input_count = 3;
    plan.step[LOOP_STEP_LOOP].count = LOOP_SPARE;
    return plan;
}

static void the_number_of_iterations_may_be_an_input(void **state) {
    world *w = *state;
    kiln_module_plan plan = plan_that_counts(w);
    open_plan(w, &plan);
    static const int64_t counts[] = {0, 1, 3, LOOP_TRIPS, -7, INT64_MIN};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(counts); i++) {
        loop_memory *l = loop_inputs();
        assert_int_equal(kiln_module_run(w->module, (const void *[]){l->x, l->s0, &counts[i]},
                                         (void *[]){l->sum}),
                         0);
        assert_loop_right(l, counts[i] > 0 ? (int)counts[i] : 0, false, false);
        kiln_free(l);
    }
    loop_memory *l = loop_inputs();
    const int64_t more = LOOP_TRIPS + 1;
    assert_int_equal(
        kiln_module_run(w->module, (const void *[]){l->x, l->s0, &more}, (void *[]){l->sum}),
        KILN_OUT_OF_RANGE);
    assert_string_equal(kiln_module_error(w->module),
                        "loop sums (step 1) is to run 6 times; at most 5 fit");
    kiln_free(l);
}

/* go is true while the first sum is below 10: 0, 1, 3, 6, 10. */
static void a_loop_ends_when_its_condition_is_false(void **state) {
    world *w = *state;
    kiln_module_plan plan = plan_that_ends_early(w);
    enum { GO_ON = LOOP_BUFFER_COUNT, TRUE_VALUE, BUFFER_COUNT };
    static const uint8_t yes = 1, no = 0;
    for (int begins = 0; begins < 2; begins++) {
        kiln_plan_buffer *buffer = KILN_ARENA_ARRAY(&w->arena, kiln_plan_buffer, BUFFER_COUNT);
        memcpy(buffer, plan.buffer, LOOP_BUFFER_COUNT * sizeof *buffer);
        buffer[GO_ON] =
            (kiln_plan_buffer){.storage = KILN_STORAGE_ARENA, .size_bytes = 1, .offset = 1984};
        buffer[TRUE_VALUE] = (kiln_plan_buffer){
            .storage = KILN_STORAGE_CONSTANT, .size_bytes = 1, .data = begins ? &yes : &no};
        static const uint32_t init[] = {TRUE_VALUE, GO_ON}, next[] = {LOOP_GO, GO_ON};
        kiln_plan_step *step = KILN_ARENA_ARRAY(&w->arena, kiln_plan_step, LOOP_STEP_COUNT + 2);
        step[0] = (kiln_plan_step){
            .action = KILN_ACTION_COPY, .arg_count = 2, .output_count = 1, .arg = init};
        memcpy(&step[1], plan.step, (LOOP_STEP_CARRY + 1) * sizeof *step);
        step[LOOP_STEP_CARRY + 2] = (kiln_plan_step){
            .action = KILN_ACTION_CARRY, .arg_count = 2, .output_count = 1, .arg = next};
        step[LOOP_STEP_SUM + 2] = plan.step[LOOP_STEP_SUM];
        step[LOOP_STEP_LOOP + 1].condition = GO_ON;
        step[LOOP_STEP_LOOP + 1].body_count++;
        kiln_module_plan ends = plan;
        ends.step = step;
        ends.step_count += 2;
        ends.buffer = buffer;
        ends.buffer_count = BUFFER_COUNT;
        for (uint32_t i = LOOP_X_ROW; i <= LOOP_IDX_ROW; i++) buffer[i].loop = LOOP_STEP_LOOP + 1;
        open_plan(w, &ends);
        loop_memory *l = loop_inputs();
        assert_int_equal(run_loop(w, l, (void *[]){l->sum}), 0);
        assert_loop_right(l, begins ? 4 : 0, false, false);
        kiln_free(l);
    }
}

static void a_failure_in_a_loop_names_the_step(void **state) {
    world *w = *state;
    kiln_module_plan plan = fixture_loop_plan(&w->arena);
    kiln_artefact artefact;
    assert_null(kiln_artefact_decode(plan.kernel[0], &w->arena, &artefact));
    plan.kernel[0] = fixture_artefact(&w->arena, &artefact.manifest, "failing.o");
    open_plan(w, &plan);
    loop_memory *l = loop_inputs();
    assert_int_equal(run_loop(w, l, (void *[]){l->y, l->sum, l->idx}), KILN_INTERNAL);
    assert_string_equal(kiln_module_error(w->module), "a kernel failed in step 2");
    kiln_free(l);
}

static void kernels_of_another_device_work_in_its_memory(void **state) {
    world *w = *state;
    kiln_module_plan plan = fixture_device_plan(&w->arena);
    open_plan(w, &plan);
    assert_int_equal(kiln_module_step_at(w->module, LOOP_DEVICE_STEP_EVENT)->action,
                     KILN_MODULE_STEP_EVENT);
    assert_true(kiln_module_arena_bytes(w->module) >= 2 * 2048);
    loop_memory *l = loop_inputs();
    uint64_t before = kiln_alloc_count();
    for (int again = 0; again < 3; again++) {
        assert_int_equal(run_loop(w, l, (void *[]){l->y, l->sum, l->idx}), 0);
        assert_loop_right(l, LOOP_TRIPS, false, true);
        memset(l->y, 0xff, sizeof *l - offsetof(loop_memory, y));
    }
    assert_int_equal(kiln_alloc_count(), before);
    kiln_free(l);
}

/* The kernel of three launches, with its constant on the device and its temp there. */
static void constants_and_temps_of_a_device_lie_there(void **state) {
    world *w = *state;
    enum { X, Y, W, AT_X, AT_Y };
    float *weights = kiln_arena_alloc(&w->arena, FIXTURE_BYTES);
    for (int i = 0; i < FIXTURE_COUNT; i++) weights[i] = (float)i;
    kiln_plan_buffer buffer[] = {
        [X] = {.storage = KILN_STORAGE_INPUT, .size_bytes = FIXTURE_BYTES},
        [Y] = {.storage = KILN_STORAGE_OUTPUT, .size_bytes = FIXTURE_BYTES},
        [W] = {.storage = KILN_STORAGE_CONSTANT,
               .size_bytes = FIXTURE_BYTES,
               .data = weights,
               .device = 1},
        [AT_X] = {.storage = KILN_STORAGE_ARENA, .size_bytes = FIXTURE_BYTES, .device = 1},
        [AT_Y] = {.storage = KILN_STORAGE_ARENA,
                  .size_bytes = FIXTURE_BYTES,
                  .offset = 4096,
                  .device = 1},
    };
    static const uint32_t to[] = { X, AT_X }, call[] = {AT_X, W, AT_Y}, from[] = {AT_Y, Y};
    kiln_plan_step step[] = {
        {.action = KILN_ACTION_COPY, .device = 1, .arg_count = 2, .output_count = 1, .arg = to},
        {.action = KILN_ACTION_KERNEL, .device = 1, .arg_count = 3, .output_count = 1, .arg = call},
        {.action = KILN_ACTION_COPY, .device = 1, .arg_count = 2, .output_count = 1, .arg = from},
        {.action = KILN_ACTION_EVENT, .device = 1, .after = 2},
    };
    kiln_plan_port x =
    {.name = KILN_STR("x"),
     .dtype = KILN_F32,
     .shape = {1, {FIXTURE_COUNT}},
     .buffer = X },
                   y = {.name = KILN_STR("y"),
                        .dtype = KILN_F32,
                        .shape = {1, {FIXTURE_COUNT}},
                        .buffer = Y};
    kiln_plan_device device = {.kind = 1, .arena_bytes = 8192};
    kiln_str kernel = fixture_launches(&w->arena);
    kiln_module_plan plan = {.input_count = 1,
                             .output_count = 1,
                             .kernel_count = 1,
                             .buffer_count = KILN_ARRAY_COUNT(buffer),
                             .step_count = KILN_ARRAY_COUNT(step),
                             .input = &x,
                             .output = &y,
                             .kernel = &kernel,
                             .buffer = buffer,
                             .step = step,
                             .threads = 1,
                             .device_count = 1,
                             .device = &device};
    open_plan(w, &plan);
    for (int i = 0; i < FIXTURE_COUNT; i++) w->x[i] = 1.0f;
    assert_int_equal(kiln_module_run(w->module, (const void *[]){w->x}, (void *[]){w->y}), 0);
    static const float table[] = {0.5f, 1.0f, 2.0f, 4.0f};
    for (int i = 0; i < FIXTURE_COUNT; i++) {
        float t = table[i % 4] + 2.0f * (float)i;
        assert_true(w->y[i] == t * t);
    }
}

/* Three times 1 is added to the bits of floats on the null device, whose memory no pointer reaches;
 * then a kernel of the processor doubles their double. */
static void kernels_of_two_kinds_of_devices_pass_values_on(void **state) {
    world *w = *state;
    enum { X, Y, THERE, NEXT, HERE, SUM, GO };
    kiln_plan_buffer buffer[] = {
        [X] = {.storage = KILN_STORAGE_INPUT, .size_bytes = LOOP_ROW_BYTES},
        [Y] = {.storage = KILN_STORAGE_OUTPUT, .size_bytes = LOOP_ROW_BYTES},
        [THERE] = {.storage = KILN_STORAGE_ARENA, .size_bytes = LOOP_ROW_BYTES, .device = 1},
        [NEXT] = {.storage = KILN_STORAGE_ARENA,
                  .size_bytes = LOOP_ROW_BYTES,
                  .offset = 256,
                  .device = 1},
        [HERE] = {.storage = KILN_STORAGE_ARENA, .size_bytes = LOOP_ROW_BYTES},
        [SUM] = {.storage = KILN_STORAGE_ARENA, .size_bytes = LOOP_ROW_BYTES, .offset = 64},
        [GO] = {.storage = KILN_STORAGE_ARENA, .size_bytes = 1, .offset = 128},
    };
    static const uint32_t to[] =
    { X,
      THERE },
                          add[] = {THERE, NEXT}, again[] = {NEXT, THERE}, from[] = {THERE, HERE},
                          doubles[] = {HERE, HERE, SUM, Y, GO};
    kiln_plan_step step[] = {
        {.action = KILN_ACTION_COPY, .device = 1, .arg_count = 2, .output_count = 1, .arg = to},
        {.action = KILN_ACTION_LOOP,
         .body_count = 2,
         .trip_max = 3,
         .count = KILN_PLAN_NONE,
         .condition = KILN_PLAN_NONE,
         .index = KILN_PLAN_NONE},
        {.action = KILN_ACTION_KERNEL, .device = 1, .arg_count = 2, .output_count = 1, .arg = add},
        {.action = KILN_ACTION_CARRY, .device = 1, .arg_count = 2, .output_count = 1, .arg = again},
        {.action = KILN_ACTION_COPY, .device = 1, .arg_count = 2, .output_count = 1, .arg = from},
        {.action = KILN_ACTION_EVENT, .device = 1, .after = 4},
        {.action = KILN_ACTION_KERNEL,
         .kernel = 1,
         .arg_count = 5,
         .output_count = 3,
         .arg = doubles},
    };
    kiln_plan_port x =
    {.name = KILN_STR("x"),
     .dtype = KILN_I32,
     .shape = {1, {LOOP_ROW}},
     .buffer = X },
                   y = {.name = KILN_STR("y"),
                        .dtype = KILN_F32,
                        .shape = {1, {LOOP_ROW}},
                        .buffer = Y};
    kiln_plan_device device = {.kind = KILN_DEVICE_NULL, .arena_bytes = 512};
    kiln_str kernel[] = {fixture_null_artefact(&w->arena), fixture_loop_plan(&w->arena).kernel[0]};
    kiln_module_plan plan = {.input_count = 1,
                             .output_count = 1,
                             .kernel_count = 2,
                             .buffer_count = KILN_ARRAY_COUNT(buffer),
                             .step_count = KILN_ARRAY_COUNT(step),
                             .input = &x,
                             .output = &y,
                             .kernel = kernel,
                             .buffer = buffer,
                             .step = step,
                             .arena_bytes = 192,
                             .threads = 1,
                             .device_count = 1,
                             .device = &device};
    open_plan(w, &plan);
    int32_t bits[LOOP_ROW];
    for (int i = 0; i < LOOP_ROW; i++) {
        float value = 1.0f + (float)i;
        memcpy(&bits[i], &value, sizeof value);
        bits[i] -= 3;
    }
    uint64_t before = kiln_alloc_count();
    assert_int_equal(kiln_module_run(w->module, (const void *[]){bits}, (void *[]){w->y}), 0);
    assert_int_equal(kiln_alloc_count(), before);
    for (int i = 0; i < LOOP_ROW; i++) assert_true(w->y[i] == 4.0f * (1.0f + (float)i));
}

/* ---- what stays between runs ----------------------------------------------------------------- */

/* Of fixture_loop_plan: sum = s0 + 1 + 2 + ... + LOOP_TRIPS, and s0 is the sum of the run before.
 */
enum { KEPT_INPUT = 1, KEPT_OUTPUT = 1, ADDED = LOOP_TRIPS * (LOOP_TRIPS + 1) / 2 };

static int run_kept(world *w, loop_memory *l) {
    return kiln_module_run(w->module, (const void *[]){l->x, NULL}, (void *[]){l->y, NULL, l->idx});
}

static void assert_state(world *w, float right) {
    float sum[LOOP_ROW];
    assert_int_equal(kiln_module_read_state(w->module, KEPT_INPUT, sum), 0);
    for (int i = 0; i < LOOP_ROW; i++) assert_true(sum[i] == right);
}

static void an_output_becomes_the_input_of_the_next_run(void **state) {
    world *w = *state;
    const kiln_module_plan plans[] = {fixture_loop_plan(&w->arena), fixture_device_plan(&w->arena)};
    for (size_t p = 0; p < KILN_ARRAY_COUNT(plans); p++) {
        open_plan(w, &plans[p]);
        loop_memory *l = loop_inputs();
        float given[LOOP_ROW];
        const size_t before = kiln_module_arena_bytes(w->module);
        assert_int_equal(kiln_module_keep(w->module, KEPT_INPUT, KEPT_OUTPUT), 0);
        assert_int_equal(kiln_module_arena_bytes(w->module), before + 2 * LOOP_ROW_BYTES);
        assert_int_equal(kiln_module_kept_with(w->module, 0, KEPT_INPUT), KEPT_OUTPUT);
        assert_int_equal(kiln_module_kept_with(w->module, 1, KEPT_OUTPUT), KEPT_INPUT);
        assert_int_equal(kiln_module_kept_with(w->module, 1, 0), -1);
        assert_state(w, 0);
        const uint64_t allocations = kiln_alloc_count();
        for (int run = 1; run <= 3; run++) {
            assert_int_equal(run_kept(w, l), 0);
            assert_true(l->y[LOOP_TRIPS - 1][0] == (float)(2 * run * ADDED));
            assert_state(w, (float)(run * ADDED));
        }
        assert_int_equal(kiln_alloc_count(), allocations);
        for (int i = 0; i < LOOP_ROW; i++) given[i] = 7;
        assert_int_equal(kiln_module_write_state(w->module, KEPT_INPUT, given), 0);
        assert_int_equal(run_kept(w, l), 0);
        assert_state(w, 7 + ADDED);
        assert_int_equal(kiln_module_reset(w->module), 0);
        assert_state(w, 0);
        assert_int_equal(run_kept(w, l), 0);
        assert_state(w, ADDED);
        kiln_free(l);
    }
}

static void a_run_that_fails_leaves_the_state_as_it_was(void **state) {
    world *w = *state;
    kiln_module_plan plan = plan_that_counts(w);
    open_plan(w, &plan);
    assert_int_equal(kiln_module_keep(w->module, KEPT_INPUT, 0), 0);
    loop_memory *l = loop_inputs();
    static const int64_t counts[] = {2, LOOP_TRIPS + 1, 1};
    static const int codes[] = {0, KILN_OUT_OF_RANGE, 0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(counts); i++)
        assert_int_equal(
            kiln_module_run(w->module, (const void *[]){l->x, NULL, &counts[i]}, (void *[]){NULL}),
            codes[i]);
    assert_state(w, 1 + 2 + 1);
    kiln_free(l);
}

static void sizes_of_a_module_share_what_is_kept(void **state) {
    world *w = *state;
    kiln_module_bucket bucket[2];
    for (uint32_t i = 0; i < 2; i++)
        bucket[i] = (kiln_module_bucket){1 + i, 0, fixture_loop_plan(&w->arena)};
    kiln_strbuf bytes = {0};
    kiln_status st =
        kiln_module_encode_sizes(&(kiln_module_sizes){KILN_STR("batch"), false, 2, bucket}, &bytes);
    if (!st) st = kiln_file_write(w->path, kiln_strbuf_view(&bytes), 0644);
    if (st) fail_msg("%s", kiln_status_text(st));
    kiln_strbuf_deinit(&bytes);
    open_with(w, 0);
    assert_int_equal(kiln_module_keep(w->module, KEPT_INPUT, KEPT_OUTPUT), 0);
    loop_memory *l = loop_inputs();
    for (int run = 1; run <= 4; run++) {
        assert_int_equal(kiln_module_set_size(w->module, 1 + run % 2), 0);
        assert_int_equal(run_kept(w, l), 0);
        assert_state(w, (float)(run * ADDED));
    }
    kiln_free(l);
}

static void assert_refused(world *w, int code, const char *text) {
    assert_int_equal(code, KILN_INVALID_ARGUMENT);
    assert_string_equal(kiln_module_error(w->module), text);
}

static void what_cannot_be_kept_is_refused(void **state) {
    world *w = *state;
    kiln_module_plan plan = fixture_loop_plan(&w->arena);
    open_plan(w, &plan);
    kiln_module *m = w->module;
    loop_memory *l = loop_inputs();
    assert_refused(w, kiln_module_keep(m, 0, 1),
                   "output 1 (sum) cannot be kept for input 0 (x): they must have one type and "
                   "shape");
    assert_refused(w, kiln_module_keep(m, 2, 1), "input 2: the module has no such port");
    assert_refused(w, kiln_module_keep(m, 1, 3), "output 3: the module has no such port");
    assert_refused(w, kiln_module_read_state(m, 0, l), "input 0: it is not kept between runs");
    assert_refused(w, kiln_module_write_state(m, 1, l), "input 1: it is not kept between runs");
    assert_int_equal(kiln_module_keep(m, 1, 1), 0);
    assert_refused(w, kiln_module_keep(m, 1, 1),
                   "output 1 (sum) cannot be kept for input 1 (s0): the input is kept already");
    assert_int_equal(kiln_module_keep(m, 0, 0), 0); /* x and y are alike */
    assert_refused(w, run_kept(w, l),
                   "input 0 (x): the module keeps it between runs; give NULL in its place");
    const kiln_module_tensor given = kiln_module_tensor_at(kiln_module_output(m, 1), 1, 0, l->sum);
    assert_refused(w,
                   kiln_module_run_tensors(m, (const kiln_module_tensor *[]){NULL, NULL},
                                           (const kiln_module_tensor *[]){NULL, &given, NULL}),
                   "output 1 (sum): the module keeps it between runs; give NULL in its place");
    assert_int_equal(
        kiln_module_run(m, (const void *[]){NULL, NULL}, (void *[]){NULL, NULL, l->idx}), 0);
    kiln_free(l);
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
        ROW(a_loop_carries_slices_and_stacks),
        ROW(a_loop_says_what_it_is),
        ROW(hook_sees_each_iteration),
        ROW(the_number_of_iterations_may_be_an_input),
        ROW(a_loop_ends_when_its_condition_is_false),
        ROW(a_failure_in_a_loop_names_the_step),
        ROW(tensors_of_the_process_are_used_where_they_are),
        ROW(tensors_of_other_devices_and_shapes_are_refused),
        ROW(kernels_of_another_device_work_in_its_memory),
        ROW(constants_and_temps_of_a_device_lie_there),
        ROW(kernels_of_two_kinds_of_devices_pass_values_on),
        ROW(an_output_becomes_the_input_of_the_next_run),
        ROW(a_run_that_fails_leaves_the_state_as_it_was),
        ROW(sizes_of_a_module_share_what_is_kept),
        ROW(what_cannot_be_kept_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
