/* Accelerators of the VTA class through the real contained child, which simulates them: the board's
 * self-check on each machine that is offered. This program is its own helper and child. */
#include "rpc-server/find_device.h"
#include "rpc-server/golden.h"
#include "tests/unit/rpc-server/served.h"

static const char *const machine_table[] = {
#define X(name, config, doc) "vta:" name,
#include "base/vta_presets.def"
#undef X
    "vta:pynq,bus128,v2", /* no preset: the device of that number becomes it */
};

#define PRESETS (KILN_ARRAY_COUNT(machine_table) - 1)

static void every_machine_passes_its_self_check(void **state) {
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(machine_table); i++) {
        served f;
        kiln_target target;
        kiln_golden golden;
        expect_ok(kiln_target_parse(kiln_str_from(machine_table[i]), *state, &target));
        served_open(&f, KILN_TARGET_VTA, &target);
        f.slots.slot[0].device = i % PRESETS;
        expect_ok(kiln_golden_open(kiln_arena_printf(*state, "%s/golden", f.folder), &target,
                                   *state, &golden));
        const kiln_msg_trial trial = kiln_golden_trial();
        served_run(&f, &trial, golden.artefact, golden.reference);
        served_expect(&f, KILN_OUTCOME_OK, KILN_BLAME_NONE, "");
        assert_true(f.result.checked);
        assert_null(kiln_golden_judge(&golden, &f.result, *state));
        served_close(&f);
    }
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
        test_with_arena(devices_have_numbers_and_names),
    };
    return cmocka_run_group_tests_name("rpc-server/vta_served", tests, NULL, NULL);
}
