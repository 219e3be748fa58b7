#include "base/target.h"

#include "base/macros.h"
#include "tests/support/test.h"

static kiln_target parsed(kiln_arena *arena, const char *text) {
    kiln_target target = {0};
    expect_ok(kiln_target_parse(kiln_str_from(text), arena, &target));
    return target;
}

static void limits_are_what_the_text_says(void **state) {
    kiln_target plain = parsed(*state, "null"), other = parsed(*state, "null,shared=512,group=8");
    kiln_strbuf text = {0};
    assert_int_equal(plain.kind, KILN_TARGET_NULL);
    assert_int_equal(plain.group_threads, 64);
    assert_int_equal(plain.shared_bytes, 16384);
    assert_int_equal(other.group_threads, 8);
    assert_int_equal(other.shared_bytes, 512);
    kiln_target_print(&plain, &text);
    expect_str(kiln_strbuf_view(&text), "null");
    kiln_strbuf_reset(&text);
    kiln_target_print(&other, &text);
    expect_str(kiln_strbuf_view(&text), "null,group=8,shared=512");
    kiln_strbuf_deinit(&text);
}

/* Which processor is beside the device is no part of its name. */
static void a_device_of_integers_has_a_host(void **state) {
    kiln_target target = parsed(*state, "null,host=rpi4,integers"), plain = parsed(*state, "null");
    kiln_strbuf text = {0};
    assert_true(target.is_partial);
    expect_str(target.host->mcpu, "cortex-a72");
    assert_false(kiln_target_computes(&target, KILN_F32));
    assert_true(kiln_target_computes(&target, KILN_I8));
    kiln_target_print(&target, &text);
    expect_str(kiln_strbuf_view(&text), "null,integers");
    target = parsed(*state, "null,integers");
    assert_null(target.host);
    expect_ok(kiln_target_find_host(&target, *state));
    assert_int_equal(target.host->kind, KILN_TARGET_CPU);
    expect_ok(kiln_target_find_host(&plain, *state));
    assert_null(plain.host);
    kiln_strbuf_reset(&text);
    assert_true(kiln_target_runs_on(&target, &plain, &text));
    assert_false(kiln_target_runs_on(&plain, &target, &text));
    expect_contains(text.data, "in integers alone");
    kiln_strbuf_deinit(&text);
}

static void bad_parts_are_refused(void **state) {
    static const char *const row[][2] = {{"null:x", "without a name"},
                                         {"null,threads=2", "known: group= shared= integers host="},
                                         {"null,group=0", "from 1 to 1024"},
                                         {"null,group=2,group=2", "given twice"},
                                         {"null,shared=x", "is not a number"},
                                         {"null,host=null", "the host 'null' is no processor"},
                                         {"null,host=nobody", "the host"}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_target target;
        expect_error_at(kiln_target_parse(kiln_str_from(row[i][0]), *state, &target),
                        KILN_INVALID_ARGUMENT, row[i][1], row[i][0], (int)i);
    }
}

static void a_smaller_device_says_which_limit_is_exceeded(void **state) {
    kiln_target plain = parsed(*state, "null"), fewer = parsed(*state, "null,group=8"),
                less = parsed(*state, "null,shared=512");
    kiln_strbuf reason = {0};
    assert_true(kiln_target_runs_on(&fewer, &plain, &reason));
    assert_true(kiln_target_runs_on(&less, &plain, &reason));
    assert_false(kiln_target_runs_on(&plain, &fewer, &reason));
    expect_contains(reason.data, "groups of 64 threads; the device runs 8");
    kiln_strbuf_reset(&reason);
    assert_false(kiln_target_runs_on(&plain, &less, &reason));
    expect_contains(reason.data, "16384 bytes shared by a group; the device has 512");
    kiln_strbuf_deinit(&reason);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(limits_are_what_the_text_says),
        test_with_arena(a_device_of_integers_has_a_host),
        test_with_arena(bad_parts_are_refused),
        test_with_arena(a_smaller_device_says_which_limit_is_exceeded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
