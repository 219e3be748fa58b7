/* Targets of kind vta have a head and no parts. */
#include "base/target.h"
#include "tests/support/targets.h"
#include "tests/support/test.h"

static void another_head_is_another_device(void **state) {
    kiln_target wanted = target_of(*state, "vta:pynq"), device = target_of(*state, "vta:zcu104");
    kiln_strbuf reason = {0};
    expect_str(text_of_target(&wanted, *state), "vta:pynq");
    assert_int_equal(wanted.kind, KILN_TARGET_VTA);
    assert_true(kiln_target_runs_on(&wanted, &wanted, &reason));
    assert_false(kiln_target_runs_on(&wanted, &device, &reason));
    expect_contains(reason.data, "the device is a zcu104, not a pynq");
    kiln_strbuf_deinit(&reason);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(another_head_is_another_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
