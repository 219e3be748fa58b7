/* Kinds of targets that have a head and no parts. */
#include "base/target.h"

#include "tests/support/test.h"

static void heads_are_kept_and_name_the_device_wholly(void **state) {
    static const struct {
        const char *text;
        kiln_target_kind kind;
    } row[] = {{"cuda:sm_90", KILN_TARGET_CUDA},
               {"opencl", KILN_TARGET_OPENCL},
               {"opencl:pocl-cpu", KILN_TARGET_OPENCL},
               {"vta:pynq", KILN_TARGET_VTA}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target target;
        kiln_strbuf text = {0}, reason = {0};
        expect_ok(kiln_target_parse(kiln_str_from(row[i].text), *state, &target));
        assert_int_equal(target.kind, row[i].kind);
        kiln_target_print(&target, &text);
        expect_str(kiln_strbuf_view(&text), row[i].text);
        assert_true(kiln_target_runs_on(&target, &target, &reason));
        kiln_strbuf_deinit(&text);
        kiln_strbuf_deinit(&reason);
    }
}

static void another_head_is_another_device(void **state) {
    kiln_target wanted, device;
    kiln_strbuf reason = {0};
    expect_ok(kiln_target_parse(KILN_STR("vta:pynq"), *state, &wanted));
    expect_ok(kiln_target_parse(KILN_STR("vta:zcu104"), *state, &device));
    assert_false(kiln_target_runs_on(&wanted, &device, &reason));
    expect_contains(reason.data, "the device is a zcu104, not a pynq");
    kiln_strbuf_deinit(&reason);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(heads_are_kept_and_name_the_device_wholly),
        test_with_arena(another_head_is_another_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
