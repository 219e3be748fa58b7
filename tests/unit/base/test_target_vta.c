#include "base/target.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"

#define PYNQ "vta:b1i16o16,i8w8a32,uop15,inp15,wgt18,acc17,bus64,clk100,alu16,pipe11,v1"

static void texts_are_canonical(void **state) {
    static const char *const text[] = {"vta:pynq", "pynq-vta", PYNQ,
                                       "vta:pynq,bus64,v1+first-first"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        kiln_target target = target_of(*state, text[i]);
        assert_int_equal(target.kind, KILN_TARGET_VTA);
        assert_int_equal(target.vta.block_in, 16);
        assert_true(target.peak_flops == 51.2e9);
        expect_str(text_of_target(&target, *state), PYNQ);
    }
}

static void another_machine_is_another_device(void **state) {
    kiln_target wanted = target_of(*state, "vta:pynq"), device = target_of(*state, "vta:zcu104");
    kiln_strbuf reason = {0};
    assert_true(kiln_target_runs_on(&wanted, &wanted, &reason));
    assert_false(kiln_target_runs_on(&wanted, &device, &reason));
    expect_contains(reason.data, "the device has bus128, not bus64");
    kiln_strbuf_deinit(&reason);
}

static void bad_configurations_are_refused(void **state) {
    kiln_target target;
    expect_error(kiln_target_parse(KILN_STR("vta:pynq,threads=2"), *state, &target),
                 INVALID_ARGUMENT, "unknown part 'threads=2' of a vta");
    expect_error(kiln_target_parse(KILN_STR("vta:x"), *state, &target), INVALID_ARGUMENT,
                 "known: pynq");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(texts_are_canonical),
        test_with_arena(another_machine_is_another_device),
        test_with_arena(bad_configurations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
