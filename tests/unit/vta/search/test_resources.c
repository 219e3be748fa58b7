/* The model of resources against machines that were synthesised: block RAM and DSP exactly, LUTs
 * and flip-flops of those that the fit has not seen within 10 %. */
#include <math.h>

#include "base/hash.h"
#include "tests/support/test.h"
#include "vta/search/resources.h"

static const struct {
    const char *config;
    uint32_t lut_columns;
    double lut, ff;
    uint32_t bram18, dsp;
    bool held_out;
} row_table[] = {
#define X(config, columns, lut, ff, bram18, dsp, held_out) \
    {config, columns, lut, ff, bram18, dsp, held_out},
#include "vta/search/synthesised.def"
#undef X
};

/* Which rows are held out follows from their names, so nobody chooses them by how they fit. 256 is
 * 1 more than a multiple of 5, so the remainder is that of the sum of bytes. */
static void a_name_says_whether_it_is_held_out(void **state) {
    (void)state;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row_table); i++) {
        kiln_strbuf name = {0};
        kiln_digest digest;
        uint32_t sum = 0;
        kiln_strbuf_printf(&name, "%s@%u", row_table[i].config, row_table[i].lut_columns);
        kiln_digest_of(name.data, name.size, &digest);
        for (uint32_t k = 0; k < sizeof digest.byte; k++) sum += digest.byte[k];
        if (row_table[i].held_out != (sum % 5 == 0)) fail_msg("%s", name.data);
        kiln_strbuf_deinit(&name);
    }
}

static void the_model_is_near_what_was_synthesised(void **state) {
    (void)state;
    uint32_t held_out = 0;
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(row_table); i++) {
        kiln_vta_config config;
        expect_ok(kiln_vta_config_parse(kiln_str_from(row_table[i].config), &config));
        const kiln_vta_resources r = kiln_vta_resources_of(&config, row_table[i].lut_columns);
        const double lut = r.lut / row_table[i].lut - 1, ff = r.ff / row_table[i].ff - 1;
        const double most = row_table[i].held_out ? 0.1 : 0.12;
        if (r.bram18 != row_table[i].bram18 || r.dsp != row_table[i].dsp || fabs(lut) > most ||
            fabs(ff) > most)
            fail_msg("%s: %.0f LUT (%+.1f %%), %.0f FF (%+.1f %%), %u halves of RAMB36 for %u, "
                     "%u DSP for %u",
                     row_table[i].config, r.lut, 100 * lut, r.ff, 100 * ff, r.bram18,
                     row_table[i].bram18, r.dsp, row_table[i].dsp);
        held_out += row_table[i].held_out;
    }
    assert_true(held_out >= 5);
}

static void columns_go_to_luts_where_multipliers_end(void **state) {
    (void)state;
    kiln_vta_config config;
    uint32_t columns;
    const kiln_vta_device *device = kiln_vta_device_find("xc7z020");
    assert_non_null(device);
    assert_null(kiln_vta_device_find("xc7z021"));
    expect_ok(kiln_vta_config_parse(KILN_STR("pynq"), &config));
    assert_true(kiln_vta_lut_columns(&config, device, &columns));
    assert_int_equal(columns, 0);
    config.block_out = 32;
    assert_true(kiln_vta_lut_columns(&config, device, &columns));
    assert_int_equal(columns, 6); /* 26 columns of 16 products, two to a block */
    assert_int_equal(kiln_vta_resources_of(&config, columns).dsp, 208);
    const kiln_vta_resources whole = kiln_vta_resources_of(&config, 0);
    assert_false(kiln_vta_resources_fit(&whole, device));
}

static void levels_without_registers_slow_the_clock(void **state) {
    (void)state;
    kiln_vta_config config;
    expect_ok(kiln_vta_config_parse(KILN_STR("pynq"), &config));
    const double deep = kiln_vta_clock_guess(&config);
    config.pipeline = 7;
    assert_true(deep >= 100 && kiln_vta_clock_guess(&config) < deep);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_says_whether_it_is_held_out),
        cmocka_unit_test(the_model_is_near_what_was_synthesised),
        cmocka_unit_test(columns_go_to_luts_where_multipliers_end),
        cmocka_unit_test(levels_without_registers_slow_the_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
