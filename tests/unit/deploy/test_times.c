/* Timing a module: as many runs as promised, each whole and step by step. */
#include <sched.h>

#include "deploy/pack/module_write.h"
#include "deploy/run/run.h"
#include "tests/support/test.h"
#include "tests/unit/deploy/fixture.h"

static void every_step_is_timed_as_often_as_the_whole(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *path = kiln_arena_printf(arena, "%s/fixture.kiln", folder);
    kiln_module_plan plan = fixture_plan(arena, "kernel_static.o");
    kiln_module *module = NULL;
    kiln_run run;
    kiln_run_times times;
    cpu_set_t before, after;
    expect_ok(kiln_module_write(&plan, path));
    expect_ok(kiln_module_load(path, 1, &module));
    expect_ok(kiln_run_init(&run, module, &(kiln_opt_list){0}, NULL, arena));
    sched_getaffinity(0, sizeof before, &before);
    expect_ok(kiln_run_time(&run, arena, &times));
    sched_getaffinity(0, sizeof after, &after);
    assert_true(CPU_EQUAL(&before, &after));
    assert_true(times.runs >= 20 && times.runs <= KILN_RUN_TIMES_MAX);
    for (uint32_t i = 0; i < times.runs; i++) {
        assert_true(times.whole[i] > 0);
        for (uint32_t step = 0; step < kiln_module_step_count(module); step++)
            assert_true(times.step[step][i] >= 0);
    }
    kiln_module_close(module);
    remove_folder(folder);
}

/* Each iteration's time goes to the step of the body, none to the loop itself. */
static void iterations_are_summed_up(void **state) {
    kiln_arena *arena = *state;
    char *folder = make_folder(arena);
    const char *path = kiln_arena_printf(arena, "%s/loop.kiln", folder);
    kiln_module_plan plan = fixture_loop_plan(arena);
    kiln_module *module = NULL;
    kiln_run run;
    kiln_run_times times;
    expect_ok(kiln_module_write(&plan, path));
    expect_ok(kiln_module_load(path, 1, &module));
    expect_ok(kiln_run_init(&run, module, &(kiln_opt_list){0}, NULL, arena));
    expect_ok(kiln_run_time(&run, arena, &times));
    assert_true(kiln_module_step_at(module, LOOP_STEP_KERNEL)->times == LOOP_TRIPS);
    assert_true(kiln_module_step_at(module, LOOP_STEP_LOOP)->times == 1);
    for (uint32_t i = 0; i < times.runs; i++) {
        assert_true(times.step[LOOP_STEP_LOOP][i] == 0);
        assert_true(times.step[LOOP_STEP_KERNEL][i] > 0);
    }
    kiln_module_close(module);
    remove_folder(folder);
}

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    const struct CMUnitTest tests[] = {test_with_arena(every_step_is_timed_as_often_as_the_whole),
                                       test_with_arena(iterations_are_summed_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
