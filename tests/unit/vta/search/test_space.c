/* Machines that are enumerated fit the chip, none is another one with less memory, and the best of
 * them beat the preset. */
#include <math.h>
#include <string.h>

#include "tests/support/test.h"
#include "vta/search/space.h"

static kiln_vta_layer layer_list[KILN_VTA_LAYERS_MAX];

/* C9 alone, over one channel. */
static kiln_vta_wanted one_layer(void) {
    const uint32_t count = kiln_vta_layers_resnet(false, layer_list);
    assert_int_equal(count, 11);
    return (kiln_vta_wanted){.device = kiln_vta_device_find("xc7z020"),
                             .batch = 1,
                             .clock_mhz = 100,
                             .channels = 1,
                             .channel_bits = 64,
                             .layer = &layer_list[7],
                             .layer_count = 1};
}

static bool covers(const kiln_vta_config *a, const kiln_vta_config *b) {
    kiln_vta_config other = *a;
    other.uop_log = b->uop_log;
    other.inp_log = b->inp_log;
    other.wgt_log = b->wgt_log;
    other.acc_log = b->acc_log;
    return !memcmp(&other, b, sizeof other) && a->uop_log >= b->uop_log &&
           a->inp_log >= b->inp_log && a->wgt_log >= b->wgt_log && a->acc_log >= b->acc_log;
}

static void machines_fit_and_the_best_comes_first(void **state) {
    (void)state;
    const kiln_vta_wanted wanted = one_layer();
    kiln_vta_machines machines = {0};
    assert_true(kiln_vta_space_enumerate(&wanted, &machines) >= 20000);
    assert_true(machines.count >= 200);
    for (uint32_t i = 0; i < machines.count; i++) {
        const kiln_vta_machine *m = &machines.data[i];
        assert_true(kiln_vta_resources_fit(&m->resources, wanted.device));
        assert_true(m->config.channels == 1 && m->config.clock_mhz == 100);
        assert_true(i == 0 || m->bound_ms >= m[-1].bound_ms);
        for (uint32_t k = 0; k < i; k++)
            if (covers(&machines.data[k].config, &m->config) ||
                covers(&m->config, &machines.data[k].config))
                fail_msg("machines %u and %u differ in memories alone, and one covers the other", k,
                         i);
    }
    kiln_vta_machine pynq = {0};
    expect_ok(kiln_vta_config_parse(KILN_STR("pynq"), &pynq.config));
    expect_ok(kiln_vta_machine_evaluate(&wanted, 2, &pynq));
    expect_ok(kiln_vta_machine_evaluate(&wanted, 2, &machines.data[0]));
    assert_true(machines.data[0].ms * 1.2 <= pynq.ms);
    assert_true(pynq.gops > 40 && pynq.gops < 51.2); /* 256 multiply-adds at 100 MHz */
    assert_true(pynq.mj > 0);
    kiln_vec_deinit(&machines);
}

static void more_images_than_a_batch_are_more_runs(void **state) {
    (void)state;
    kiln_vta_wanted wanted = one_layer();
    kiln_vta_machine pynq = {0};
    expect_ok(kiln_vta_config_parse(KILN_STR("pynq"), &pynq.config));
    const double one = kiln_vta_machine_bound(&wanted, &pynq.config);
    wanted.batch = 3;
    assert_true(fabs(kiln_vta_machine_bound(&wanted, &pynq.config) - 3 * one) < 1e-9 * one);
    pynq.config.batch = 2; /* twice, with as many passes of the ALU for each */
    pynq.config.alu_lanes = 32;
    assert_true(fabs(kiln_vta_machine_bound(&wanted, &pynq.config) - 2 * one) < 1e-9 * one);
}

static void a_machine_that_cannot_run_a_layer_says_which(void **state) {
    (void)state;
    const kiln_vta_wanted wanted = one_layer();
    kiln_vta_machine small = {0};
    expect_ok(kiln_vta_config_parse(KILN_STR("pynq,wgt10"), &small.config));
    expect_error(kiln_vta_machine_evaluate(&wanted, 1, &small), NOT_FOUND, "C9");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_fit_and_the_best_comes_first),
        cmocka_unit_test(more_images_than_a_batch_are_more_runs),
        cmocka_unit_test(a_machine_that_cannot_run_a_layer_says_which),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
