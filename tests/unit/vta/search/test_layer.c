/* Layers: their sizes, and how machines of other shapes see them. */
#include "tests/support/test.h"
#include "vta/search/layer.h"

static void the_network_has_its_multiply_adds(void **state) {
    (void)state;
    kiln_vta_layer layer[KILN_VTA_LAYERS_MAX];
    uint64_t body = 0;
    uint32_t layers = 0;
    const uint32_t rows = kiln_vta_layers_resnet(true, layer);
    for (uint32_t i = 0; i < rows; i++) {
        body += layer[i].count * kiln_vta_layer_multiply_adds(&layer[i]);
        layers += layer[i].count;
    }
    assert_int_equal(layers, 19);
    assert_int_equal(body, 1695547392);
    assert_int_equal(kiln_vta_layers_resnet(false, layer), 11);
    assert_int_equal(kiln_vta_layer_multiply_adds(&layer[0]), 56ull * 56 * 64 * 64 * 9);
}

static void what_does_not_fill_a_tile_is_padded(void **state) {
    (void)state;
    const kiln_vta_layer layer = {"odd", 10, 12, 3, 70, 3, 2, 1, 1};
    kiln_vta_config config;
    expect_ok(kiln_vta_config_parse(KILN_STR("pynq"), &config));
    const kiln_vta_conv conv = kiln_vta_layer_tiled(&layer, &config);
    assert_int_equal(conv.in, 1);
    assert_int_equal(conv.out, 5);
    assert_int_equal(kiln_vta_conv_out_height(&conv), 5);
    assert_int_equal(kiln_vta_conv_out_width(&conv), 6);
    assert_true(kiln_vta_peak(&config) == 256);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_network_has_its_multiply_adds),
        cmocka_unit_test(what_does_not_fill_a_tile_is_padded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
