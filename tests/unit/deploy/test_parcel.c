/* What goes to a module elsewhere and what it leaves: both ends find the same in the same place. */
#include "deploy/run/parcel.h"

#include <math.h>
#include <string.h>

#include "deploy/pack/module_write.h"
#include "tests/support/test.h"
#include "tests/unit/deploy/fixture.h"

#define SAMPLES 3u

typedef struct world {
    kiln_arena arena;
    char *folder;
    kiln_module *module;
} world;

static int set_up(void **state) {
    static world w;
    w = (world){0};
    kiln_arena_init(&w.arena, 0);
    w.folder = make_folder(&w.arena);
    const char *path = kiln_arena_printf(&w.arena, "%s/fixture.kiln", w.folder);
    kiln_module_plan plan = fixture_plan(&w.arena, "kernel_static.o");
    expect_ok(kiln_module_write(&plan, path));
    expect_ok(kiln_module_load(path, 1, &w.module));
    *state = &w;
    return 0;
}

static int tear_down(void **state) {
    world *w = *state;
    kiln_module_close(w->module);
    remove_folder(w->folder);
    kiln_arena_deinit(&w->arena);
    return 0;
}

static char *zeros(world *w, uint64_t bytes) {
    char *memory = kiln_arena_alloc_aligned(&w->arena, 64, (size_t)bytes);
    memset(memory, 0, (size_t)bytes);
    return memory;
}

/* A run that is fed SAMPLES different samples. */
static kiln_run fed(world *w) {
    kiln_run run;
    float *x = (float *)(void *)zeros(w, SAMPLES * FIXTURE_BYTES);
    for (size_t i = 0; i < (size_t)SAMPLES * FIXTURE_COUNT; i++) x[i] = -0.001f * (float)(i % 977);
    expect_ok(kiln_run_init(&run, w->module, &(kiln_opt_list){0}, NULL, &w->arena));
    run.feed[0] = (kiln_run_feed){(const char *)x, SAMPLES};
    run.samples = SAMPLES;
    for (uint32_t i = 0; i < kiln_module_output_count(w->module); i++)
        run.output[i] = zeros(w, SAMPLES * FIXTURE_BYTES);
    kiln_run_point(&run, 0);
    return run;
}

static void what_is_run_there_is_what_is_run_here(void **state) {
    world *w = *state;
    const uint64_t samples[] = {SAMPLES};
    kiln_run here = fed(w), sent = fed(w), there;
    kiln_parcel parcel;
    expect_ok(kiln_parcel_measure(w->module, samples, false, &parcel));
    assert_int_equal(parcel.samples, SAMPLES);
    char *inputs = zeros(w, parcel.input_bytes), *outputs = zeros(w, parcel.output_bytes);
    kiln_parcel_write_inputs(&sent, inputs);
    kiln_parcel_point(w->module, &parcel, samples, inputs, outputs, &w->arena, &there);
    expect_ok(kiln_run_samples(&there));
    kiln_parcel_read_outputs(&parcel, outputs, &sent);
    expect_ok(kiln_run_samples(&here));
    for (uint32_t i = 0; i < kiln_module_output_count(w->module); i++)
        assert_memory_equal(sent.output[i], here.output[i], SAMPLES * FIXTURE_BYTES);
}

static void samples_that_do_not_go_together_are_refused(void **state) {
    world *w = *state;
    kiln_parcel parcel;
    const uint64_t none[] = {0}, many[] = {UINT64_MAX / FIXTURE_BYTES},
                   too_many[] = {KILN_PARCEL_BYTES_MAX / FIXTURE_BYTES};
    expect_error(kiln_parcel_measure(w->module, none, false, &parcel), INVALID_ARGUMENT, "input x");
    expect_error(kiln_parcel_measure(w->module, many, false, &parcel), RESOURCE_EXHAUSTED, "x");
    expect_error(kiln_parcel_measure(w->module, too_many, false, &parcel), RESOURCE_EXHAUSTED,
                 "samples");
}

static void times_come_back_as_they_were_taken(void **state) {
    world *w = *state;
    const uint64_t samples[] = {1};
    kiln_parcel parcel;
    kiln_run_times taken, told;
    expect_ok(kiln_parcel_measure(w->module, samples, true, &parcel));
    assert_in_range(parcel.runs_max, KILN_RUN_TIMES_MIN, KILN_RUN_TIMES_MAX);
    char *outputs = zeros(w, parcel.output_bytes);
    kiln_parcel_point_times(w->module, &parcel, outputs, &w->arena, &taken);
    taken.runs = KILN_RUN_TIMES_MIN;
    taken.peak_flops = 5e9;
    for (uint32_t i = 0; i < taken.runs; i++) {
        taken.whole[i] = 100 + i;
        for (uint32_t step = 0; step < kiln_module_step_count(w->module); step++)
            taken.step[step][i] = 10 * step + i;
    }
    kiln_parcel_seal_times(&parcel, &taken, outputs);
    expect_ok(kiln_parcel_read_times(w->module, &parcel, outputs, &w->arena, &told));
    assert_int_equal(told.runs, taken.runs);
    assert_true(told.peak_flops == 5e9);
    assert_true(told.whole[1] == 101 && told.step[FIXTURE_STEP_COUNT - 1][2] == 42);
}

static void times_that_are_none_are_refused(void **state) {
    world *w = *state;
    const uint64_t samples[] = {1};
    kiln_parcel parcel;
    kiln_run_times times;
    expect_ok(kiln_parcel_measure(w->module, samples, true, &parcel));
    char *outputs = zeros(w, parcel.output_bytes);
    expect_error(kiln_parcel_read_times(w->module, &parcel, outputs, &w->arena, &times), DATA_LOSS,
                 "0 runs");
    kiln_parcel_point_times(w->module, &parcel, outputs, &w->arena, &times);
    times.runs = parcel.runs_max + 1;
    kiln_parcel_seal_times(&parcel, &times, outputs);
    expect_error(kiln_parcel_read_times(w->module, &parcel, outputs, &w->arena, &times), DATA_LOSS,
                 "runs");
    times.runs = KILN_RUN_TIMES_MIN;
    times.step[1][3] = NAN;
    kiln_parcel_seal_times(&parcel, &times, outputs);
    expect_error(kiln_parcel_read_times(w->module, &parcel, outputs, &w->arena, &times), DATA_LOSS,
                 "invalid times");
}

#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    const struct CMUnitTest tests[] = {
        ROW(what_is_run_there_is_what_is_run_here),
        ROW(samples_that_do_not_go_together_are_refused),
        ROW(times_come_back_as_they_were_taken),
        ROW(times_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
