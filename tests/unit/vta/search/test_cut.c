/* Cuts that are found are good ones: near what no cut can beat, and estimates say which. */
#include <math.h>
#include <string.h>

#include "tests/support/test.h"
#include "vta/search/cut.h"
#include "vta/search/layer.h"

#define SIMULATED 12u

static kiln_vta_config config_of(const char *text) {
    kiln_vta_config config;
    expect_ok(kiln_vta_config_parse(kiln_str_from(text), &config));
    return config;
}

typedef struct totals {
    double multiply_adds, cycles, instructions, no_ops;
} totals;

/* Of C2 to C12; no layer is faster than its bound, and estimates are near. */
static totals run_layers(const char *machine, uint32_t threads, double worst_share) {
    const kiln_vta_config config = config_of(machine);
    kiln_vta_layer layer[KILN_VTA_LAYERS_MAX];
    const uint32_t count = kiln_vta_layers_resnet(false, layer);
    totals all = {0};
    for (uint32_t i = 0; i < count; i++) {
        const kiln_vta_conv conv = kiln_vta_layer_tiled(&layer[i], &config);
        kiln_vta_cut_time best;
        expect_ok(kiln_vta_cut_search(&config, &conv, threads, SIMULATED, &best));
        const double cycles = (double)best.timing.cycles;
        const double bound = kiln_vta_conv_bound(&config, &conv).all;
        if (bound > cycles || bound < worst_share * cycles)
            fail_msg("%s, %s: %.0f cycles, bound %.0f", machine, layer[i].name, cycles, bound);
        if (fabs(best.estimate - cycles) > 0.1 * cycles)
            fail_msg("%s, %s: %.0f cycles, estimate %.0f", machine, layer[i].name, cycles,
                     best.estimate);
        assert_int_equal(best.timing.counts.multiply_adds, kiln_vta_layer_multiply_adds(&layer[i]));
        all.multiply_adds += (double)kiln_vta_layer_multiply_adds(&layer[i]);
        all.cycles += cycles;
        all.instructions += best.instructions;
        all.no_ops += (double)best.no_ops;
    }
    assert_true(all.no_ops <= 0.01 * all.instructions);
    return all;
}

static double share(totals t) { return t.multiply_adds / 256 / t.cycles; }

static void virtual_threads_hide_latency(void **state) {
    (void)state;
    const double one = share(run_layers("pynq", 1, 0.5)), two = share(run_layers("pynq", 2, 0.85));
    assert_true(one >= 0.65 && one <= 0.75);
    assert_true(two >= 0.85);
    assert_true(share(run_layers("pynq,v2", 2, 0.78)) >= 0.95);
}

/* Of cuts with some sizes; returns the mean share of the estimates. */
static double compare_least(const kiln_vta_config *config, const kiln_vta_conv *conv,
                            uint32_t threads) {
    static const uint32_t size[] = {1, 2, 7, 14, 28}; /* some divide no image, as some fit none */
    const uint32_t height = kiln_vta_conv_out_height(conv), steps_most = conv->in;
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t number = 0; number < 5 * 5 * 4 * 4 * 4 * 9; number++) {
        uint32_t n = number;
        kiln_vta_conv_cut cut = {.threads = threads};
        cut.rows = size[n % 5], n /= 5;
        cut.columns = size[n % 5], n /= 5;
        cut.out = 1u << n % 4, n /= 4;
        cut.in = 1u << n % 4, n /= 4;
        cut.out_inside = n & 1, cut.in_turn = n & 2, n /= 4;
        const uint32_t steps = steps_most / cut.in;
        const uint32_t places[] = {threads, steps, threads * steps};
        cut.inp_places = places[n % 3], cut.wgt_places = places[n / 3];
        if (height % cut.rows || height % cut.columns || conv->out % cut.out || conv->in % cut.in ||
            (!cut.in_turn && (n % 3 != n / 3 || n % 3 == 1)))
            continue;
        const double least = kiln_vta_cut_least(config, conv, &cut),
                     estimate = kiln_vta_cut_estimate(config, conv, &cut);
        assert_int_equal(isfinite(least), isfinite(estimate));
        if (!isfinite(least)) continue;
        if (least > estimate * (1 + 1e-12))
            fail_msg("%u: at least %.0f cycles, estimate %.0f", number, least, estimate);
        sum += least / estimate;
        count++;
    }
    assert_true(count > 20);
    return sum / count;
}

static void an_estimate_is_no_less_than_the_least(void **state) {
    (void)state;
    static const char *const machine[] = {"pynq", "pynq,v2,chan4", "pynq,chan2,v1+first"};
    static const kiln_vta_conv conv[] = {{56, 56, 4, 4, 3, 1, 1}, {28, 28, 8, 16, 1, 2, 0}};
    for (uint32_t m = 0; m < KILN_ARRAY_COUNT(machine); m++)
        for (uint32_t i = 0; i < KILN_ARRAY_COUNT(conv); i++)
            for (uint32_t threads = 1; threads <= 3; threads++) {
                const kiln_vta_config config = config_of(machine[m]);
                const double share = compare_least(&config, &conv[i], threads);
                if (share < (threads == 1 ? 0.5 : 0.8)) /* one thread overlaps nothing */
                    fail_msg("%s, %u threads: %.2f of estimates", machine[m], threads, share);
            }
}

static void a_machine_without_room_has_no_cut(void **state) {
    (void)state;
    const kiln_vta_config config = config_of("pynq,wgt11");
    const kiln_vta_conv conv = {14, 14, 2, 2, 3, 1, 1};
    kiln_vta_cut_time best;
    expect_error(kiln_vta_cut_search(&config, &conv, 1, SIMULATED, &best), NOT_FOUND, "no cut");
    const kiln_vta_conv_cut cut = {14, 14, 1, 1, 1, 1, 1, false, false};
    assert_true(isinf(kiln_vta_cut_estimate(&config, &conv, &cut)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(virtual_threads_hide_latency),
        cmocka_unit_test(an_estimate_is_no_less_than_the_least),
        cmocka_unit_test(a_machine_without_room_has_no_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
