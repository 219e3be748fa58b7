#include "base/target.h"
#include "tests/support/test.h"

static void this_machine_knows_itself(void **state) {
    kiln_target target;
    expect_ok(kiln_target_native(*state, &target));
    expect_str(target.kind, "cpu");
    assert_int_equal(target.threads, 1);
    assert_true(target.cores >= 1 && target.l1_bytes >= 16384);
#if defined(__x86_64__)
    assert_int_equal(target.has_fma, __builtin_cpu_supports("fma") != 0);
    assert_int_equal(target.vector_bytes == 64, __builtin_cpu_supports("avx512f") != 0);
#endif
}

static void its_text_is_read_as_itself(void **state) {
    kiln_target target, again;
    kiln_strbuf text = {0}, text_again = {0};
    expect_ok(kiln_target_native(*state, &target));
    kiln_target_print(&target, &text);
    expect_ok(kiln_target_parse(kiln_strbuf_view(&text), *state, &again));
    kiln_target_print(&again, &text_again);
    assert_string_equal(text.data, text_again.data);
    expect_ok(kiln_target_parse(KILN_STR("native"), *state, &again));
    kiln_strbuf_reset(&text_again);
    kiln_target_print(&again, &text_again);
    assert_string_equal(text.data, text_again.data);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&text_again);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(this_machine_knows_itself),
        test_with_arena(its_text_is_read_as_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
