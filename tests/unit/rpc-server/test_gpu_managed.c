/* What a device's management library says while a trial runs, through the real contained child: a
 * CUDA driver without a device and a library that is told what to say by the environment
 * (tests/support/fake_cuda.h, fake_nvml.h). This program is its own helper and child. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "rpc-server/board.h"
#include "rpc-server/find_device.h"
#include "rpc-server/golden.h"
#include "tests/unit/rpc-server/served.h"

static const char *nvml_path;

typedef struct board {
    kiln_arena arena;
    kiln_target target;
    served served;
    kiln_found_device device;
    kiln_golden golden;
} board;

static void open_board(board *b) {
    served *f = &b->served;
    const kiln_executor *cuda = kiln_executor_find(KILN_STR("cuda"));
    expect_ok(kiln_target_parse(KILN_STR("cuda:sm_90a,mcpu=h200"), &b->arena, &b->target));
    served_open(f, KILN_TARGET_CUDA, &b->target);
    expect_ok(kiln_find_device(f->helper, cuda, 0, &f->arena, &b->device));
    expect_ok(kiln_golden_open(kiln_arena_printf(&f->arena, "%s/golden", f->folder),
                               &b->device.target, &f->arena, &b->golden));
}

static void close_board(board *b) {
    served_close(&b->served);
    kiln_arena_deinit(&b->arena);
}

static void run_golden(board *b) {
    const kiln_msg_trial trial = kiln_golden_trial();
    served_run(&b->served, &trial, b->golden.artefact, b->golden.reference);
    served_expect(&b->served, KILN_OUTCOME_OK, KILN_BLAME_NONE, "");
}

static int set_up(void **state) {
    static board the_board;
    *state = &the_board;
    (void)setenv("KILN_NVML_LIBRARY", nvml_path, 1);
    (void)unsetenv("KILN_NVML_FAKE_REASONS");
    return 0;
}

static void expect_cool(const kiln_msg_env *env) {
    assert_int_equal(env->frequency_khz, 1830000);
    assert_int_equal(env->temperature_mc, 41000);
    assert_int_equal(env->memory_khz, 3201000);
    assert_int_equal(env->power_mw, 74500);
    assert_int_equal(env->memory_used_bytes, UINT64_C(512) << 20);
    assert_int_equal(env->throttle_bits, 0);
}

static void a_trial_has_readings_of_its_device(void **state) {
    board *b = *state;
    open_board(b);
    for (int i = 0; i < 2; i++) { /* the second in the child of the first */
        run_golden(b);
        expect_cool(&b->served.result.before);
        expect_cool(&b->served.result.after);
        assert_false(b->served.result.out_of_band);
    }
    close_board(b);
}

/* Of the board: its own core until a trial has told of its device. */
static void a_board_reads_what_the_last_trial_told(void **state) {
    board *b = *state;
    kiln_msg_env env = {.temperature_mc = 50000, .load_milli = 7};
    open_board(b);
    kiln_supervisor_put_reading(b->served.supervisor, 0, &env);
    assert_int_equal(env.temperature_mc, 50000);
    run_golden(b);
    kiln_supervisor_put_reading(b->served.supervisor, 0, &env);
    expect_cool(&env);
    assert_int_equal(env.load_milli, 7);
    close_board(b);
}

static void a_trial_on_a_hot_device_is_out_of_band(void **state) {
    board *b = *state;
    (void)setenv("KILN_NVML_FAKE_REASONS", "0x20", 1);
    open_board(b);
    run_golden(b);
    assert_int_equal(b->served.result.before.throttle_bits, 0x20);
    assert_int_equal(b->served.result.after.throttle_bits, 0x20);
    assert_true(b->served.result.out_of_band);
    close_board(b);
}

static void without_the_library_a_trial_is_measured_all_the_same(void **state) {
    board *b = *state;
    (void)setenv("KILN_NVML_LIBRARY", "/nowhere/libnvidia-ml.so.1", 1);
    open_board(b);
    run_golden(b);
    assert_int_equal(b->served.result.before.power_mw, 0);
    assert_int_equal(b->served.result.after.memory_khz, 0);
    assert_false(b->served.result.out_of_band);
    close_board(b);
}

static kiln_str fact(const kiln_msg_board_up *up, const char *name) {
    for (uint32_t i = 0; i < up->facts.count; i++)
        if (kiln_str_is(up->facts.item[i].key, name)) return up->facts.item[i].value;
    return (kiln_str){0};
}

static kiln_msg_board_up describe(board *b) {
    kiln_msg_board_up up;
    const kiln_board_options options = {
        .executor = kiln_executor_find(KILN_STR("cuda")), .device = &b->device, .device_count = 1};
    expect_ok(kiln_board_describe(&options, &b->served.arena, &up));
    return up;
}

static void a_board_tells_what_the_library_says(void **state) {
    board *b = *state;
    open_board(b);
    kiln_msg_board_up up = describe(b);
    expect_str(fact(&up, "driver"), "CUDA 12.4, driver 550.54.15");
    assert_true(kiln_str_starts(fact(&up, "state"), "GPU-5a5a5a5a-"));
    assert_true(kiln_str_starts(up.firmware, "Linux "));
    assert_true(kiln_str_ends(up.firmware, ", CUDA 12.4, driver 550.54.15"));
    close_board(b);
    (void)setenv("KILN_NVML_LIBRARY", "/nowhere/libnvidia-ml.so.1", 1);
    open_board(b);
    up = describe(b);
    assert_true(kiln_str_starts(fact(&up, "state"), "its state is not known: "));
    close_board(b);
}

int main(int argc, char **argv) {
    if (kiln_helper_is_asked(argc, argv)) kiln_helper_main(argc, argv);
    if (argc < 3) return 2;
    (void)setenv("KILN_CUDA_LIBRARY", argv[1], 1);
    nvml_path = argv[2];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_trial_has_readings_of_its_device, set_up),
        cmocka_unit_test_setup(a_board_reads_what_the_last_trial_told, set_up),
        cmocka_unit_test_setup(a_trial_on_a_hot_device_is_out_of_band, set_up),
        cmocka_unit_test_setup(without_the_library_a_trial_is_measured_all_the_same, set_up),
        cmocka_unit_test_setup(a_board_tells_what_the_library_says, set_up),
    };
    return cmocka_run_group_tests_name("rpc-server/gpu_managed", tests, NULL, NULL);
}
