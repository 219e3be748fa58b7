/* Accelerators of the VTA class through the real contained child, which simulates them or has a
 * board in files: the board's self-check on each machine that is offered. This program is its own
 * helper and child. */
#include "rpc-server/find_device.h"
#include "rpc-server/golden.h"
#include "tests/support/vta_board_files.h"
#include "tests/unit/rpc-server/served.h"

static const char *const machine_table[] = {
#define X(name, config, doc) "vta:" name,
#include "base/vta_presets.def"
#undef X
    "vta:pynq,bus128,v2", /* no preset: the device of that number becomes it */
};

#define PRESETS (KILN_ARRAY_COUNT(machine_table) - 1)

/* The self-check on device `index`, for that machine. */
static void run_self_check(served *f, const char *machine, uint32_t index, kiln_golden *out_golden,
                           kiln_arena *arena) {
    kiln_target *target = KILN_ARENA_NEW(arena, kiln_target);
    expect_ok(kiln_target_parse(kiln_str_from(machine), arena, target));
    f->slots.slot[0].target = target;
    f->slots.slot[0].device = index;
    expect_ok(kiln_golden_open(kiln_arena_printf(arena, "%s/golden", f->folder), target, arena,
                               out_golden));
    const kiln_msg_trial trial = kiln_golden_trial();
    served_run(f, &trial, out_golden->artefact, out_golden->reference);
}

static void expect_passed(served *f, kiln_golden *golden, kiln_arena *arena) {
    served_expect(f, KILN_OUTCOME_OK, KILN_BLAME_NONE, "");
    assert_true(f->result.checked);
    assert_null(kiln_golden_judge(golden, &f->result, arena));
}

static void every_machine_passes_its_self_check(void **state) {
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(machine_table); i++) {
        served f;
        kiln_golden golden;
        served_open(&f, KILN_TARGET_VTA, NULL);
        run_self_check(&f, machine_table[i], i % PRESETS, &golden, *state);
        expect_passed(&f, &golden, *state);
        served_close(&f);
    }
}

/* A board in files passes it too, for the machine that it is and for one that it becomes. When the
 * FPGA fails, the board is blamed, and the next trial loads it anew. */
static void a_board_passes_its_self_check_on_each_of_its_machines(void **state) {
    vta_board_files files;
    served f;
    kiln_golden golden;
    vta_board_files_open(&files, *state);
    vta_board_files_add(&files, "one", "pynq", *state);
    vta_board_files_add(&files, "two", "pynq,bus128,v2", *state);
    vta_board_files_name(&files);
    served_open(&f, KILN_TARGET_VTA, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        run_self_check(&f, i ? "vta:pynq,bus128,v2" : "vta:pynq", 0, &golden, *state);
        expect_passed(&f, &golden, *state);
        assert_string_equal(vta_board_files_loaded(&files, *state), i ? "two.bin" : "one.bin");
    }
    kiln_found_device device;
    const kiln_executor *vta = kiln_executor_find(KILN_STR("vta"));
    expect_ok(
        kiln_find_device_named(f.helper, vta, KILN_STR("vta:pynq,bus128,v2"), *state, &device));
    assert_int_equal(device.index, 1);
    expect_contains(device.name.data, "two");
    expect_error(kiln_find_device_named(f.helper, vta, KILN_STR("vta:zcu104"), *state, &device),
                 NOT_FOUND, "none of them is the wanted machine");
    vta_board_files_say(&files, "write error", *state);
    run_self_check(&f, "vta:pynq", 0, &golden, *state);
    served_expect(&f, KILN_OUTCOME_INFRA, KILN_BLAME_BOARD, "the FPGA's state is 'write error'");
    vta_board_files_say(&files, "operating", *state);
    run_self_check(&f, "vta:pynq,bus128,v2", 0, &golden, *state);
    expect_passed(&f, &golden, *state);
    served_close(&f);
    vta_board_files_close(&files);
}

static void devices_have_numbers_and_names(void **state) {
    static const struct {
        const char *wanted;
        uint32_t index;
    } row[] = {{"0", 0}, {"3", 3}, {"pynq", 0}, {"zcu104", 2}, {"simulated ultra96", 1}};
    const kiln_executor *vta = kiln_executor_find(KILN_STR("vta"));
    kiln_found_device device;
    served f;
    served_open(&f, KILN_TARGET_VTA, NULL);
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        expect_ok(
            kiln_find_device_named(f.helper, vta, kiln_str_from(row[i].wanted), *state, &device));
        assert_int_equal(device.index, row[i].index);
    }
    expect_ok(kiln_find_device_named(f.helper, vta, KILN_STR("vta:pynq,v2"), *state, &device));
    assert_int_equal(device.target.vta.features, (1u << KILN_VTA_FEATURE_COUNT) - 1);
    expect_contains(device.name.data, "simulated vta:b1i16o16");
    expect_error(kiln_find_device_named(f.helper, vta, KILN_STR("vta:pynq,v3"), *state, &device),
                 INVALID_ARGUMENT, "v3");
    expect_error(kiln_find_device_named(f.helper, vta, KILN_STR("pynq2"), *state, &device),
                 NOT_FOUND, "no device of --executor vta is named \"pynq2\"; there are: 0 ");
    expect_error(kiln_find_device_named(f.helper, vta, KILN_STR("simulated"), *state, &device),
                 INVALID_ARGUMENT, "4 devices of --executor vta are named \"simulated\"");
    expect_error(kiln_find_device_named(f.helper, vta, KILN_STR("4"), *state, &device), NOT_FOUND,
                 "there is no vta device 4");
    served_close(&f);
}

int main(int argc, char **argv) {
    if (kiln_helper_is_asked(argc, argv)) kiln_helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        test_with_arena(every_machine_passes_its_self_check),
        test_with_arena(a_board_passes_its_self_check_on_each_of_its_machines),
        test_with_arena(devices_have_numbers_and_names),
    };
    return cmocka_run_group_tests_name("rpc-server/vta_served", tests, NULL, NULL);
}
