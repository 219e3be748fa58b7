#include "base/vta_config.h"

#include "base/macros.h"
#include "tests/support/test.h"

#define PYNQ "b1i16o16,i8w8a32,uop15,inp15,wgt18,acc17,bus64,clk100,alu16,pipe11,v1"

static kiln_vta_config parsed(const char *text) {
    kiln_vta_config config = {0};
    expect_ok(kiln_vta_config_parse(kiln_str_from(text), &config));
    return config;
}

static void expect_text(const char *text, const char *canonical) {
    const kiln_vta_config config = parsed(text);
    kiln_strbuf out = {0};
    kiln_vta_config_print(&config, &out);
    expect_str(kiln_strbuf_view(&out), canonical);
    kiln_strbuf_deinit(&out);
}

static void text_is_canonical_whatever_the_order(void **state) {
    (void)state;
    expect_text("pynq", PYNQ);
    expect_text(PYNQ, PYNQ);
    expect_text("v1,pipe11,alu16,clk100,bus64,acc17,wgt18,inp15,uop15,i8w8a32,b1i16o16", PYNQ);
    expect_text("pynq,lat64,row4", PYNQ); /* the usual values */
    expect_text("pynq,lat0,chan2,clk200,v2-mul",
                "b1i16o16,i8w8a32,uop15,inp15,wgt18,acc17,bus64,clk200,alu16,pipe11,chan2,lat0,"
                "v1+first+chain+engine+bytes");
    expect_text("pynq,v1+first+chain+engine+bytes+mul",
                "b1i16o16,i8w8a32,uop15,inp15,wgt18,acc17,bus64,clk100,alu16,pipe11,v2");
}

static void every_preset_parses(void **state) {
    (void)state;
#define X(name, config, doc) expect_text(name, config);
#include "base/vta_presets.def"
#undef X
}

static void memories_follow_from_the_configuration(void **state) {
    (void)state;
    const kiln_vta_config pynq = parsed("pynq"), narrow = parsed("pynq,i4w4a32,inp14,wgt17");
    static const struct {
        kiln_vta_memory memory;
        uint32_t bytes, count, narrow_bytes;
    } row[] = {{KILN_VTA_UOP, 4, 8192, 4},     {KILN_VTA_INP, 16, 2048, 8},
               {KILN_VTA_WGT, 256, 1024, 128}, {KILN_VTA_ACC, 64, 2048, 64},
               {KILN_VTA_OUT, 16, 2048, 8},    {KILN_VTA_ACC_BYTES, 16, 2048, 16}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        assert_int_equal(kiln_vta_tile_bytes(&pynq, row[i].memory), row[i].bytes);
        assert_int_equal(kiln_vta_tile_count(&pynq, row[i].memory), row[i].count);
        assert_int_equal(kiln_vta_tile_bytes(&narrow, row[i].memory), row[i].narrow_bytes);
    }
}

static void differences_name_the_first_key(void **state) {
    (void)state;
    const kiln_vta_config pynq = parsed("pynq"), ultra = parsed("ultra96"), v2 = parsed("pynq,v2");
    kiln_strbuf out = {0};
    assert_false(kiln_vta_config_differs(&pynq, &pynq, &out));
    assert_true(kiln_vta_config_differs(&pynq, &ultra, &out));
    expect_contains(out.data, "bus64, not bus128");
    assert_true(kiln_vta_config_differs(&v2, &pynq, &out));
    expect_contains(out.data, "v2, not v1");
    kiln_strbuf_deinit(&out);
}

static void bad_parts_are_refused(void **state) {
    (void)state;
    static const char *const row[][2] = {
        {"", "unknown part ''"},
        {"zynq", "known: pynq ultra96"},
        {"pynq,fast3", "unknown part 'fast3'"},
        {"pynq,clk100,clk200", "clk is given twice"},
        {"pynq,v1,v2", "feature set is given twice"},
        {"pynq,v2+wings", "unknown feature '+wings'; known: +first"},
        {"pynq,v2first", "unknown feature 'first'"},
        {"pynq,bus48", "a power of two from 8 to 512"},
        {"pynq,clk0", "a number from 1 to 1000"},
        {"pynq,clk99999999999999999999", "a number from 1 to 1000"},
        {"pynq,clk", "a number from 1 to 1000"},
        {"pynq,b1i16", "wants o in its place 3"},
        {"pynq,b1i16o16x2", "has 'x2' too much"},
        {"pynq,b1i3o16", "i is a power of two from 1 to 64"},
        {"pynq,i8w8a16", "a is a power of two from 32 to 32"},
        {"b1i16o16,i8w8a32,v1", "uop is missing"},
        {"b1i16o16,i8w8a32,uop15,inp15,wgt18,acc17,bus64,clk100,alu16,pipe11", "v1 or v2"},
        {"pynq,inp8,b16i64o64", "inp holds 0 tiles of 1024 bytes"},
        {"pynq,acc18,wgt16", "an instruction of the ALU has 22"},
        {"pynq,wgt19", "a micro-op has 32"},
        {"pynq,b1i1o1,i4w4a32", "a tile has 4 bits"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_vta_config config;
        expect_error_at(kiln_vta_config_parse(kiln_str_from(row[i][0]), &config),
                        KILN_INVALID_ARGUMENT, row[i][1], row[i][0], (int)i);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_canonical_whatever_the_order),
        cmocka_unit_test(every_preset_parses),
        cmocka_unit_test(memories_follow_from_the_configuration),
        cmocka_unit_test(differences_name_the_first_key),
        cmocka_unit_test(bad_parts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
