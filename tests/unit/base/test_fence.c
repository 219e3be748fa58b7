#include "base/fence.h"

#include "tests/support/test.h"

#define BIT(name) (1U << KILN_FENCE_##name)

static void expect_printed(uint32_t fences, const char *text) {
    kiln_strbuf out = {0};
    kiln_fences_print(fences, &out);
    assert_string_equal(out.data ? out.data : "", text);
    kiln_strbuf_deinit(&out);
}

static void sets_are_printed_in_the_order_of_the_table(void **state) {
    (void)state;
    expect_printed(0, "");
    expect_printed(BIT(SECCOMP), "seccomp");
    expect_printed(BIT(SECCOMP) | BIT(UID), "uid,seccomp");
}

static void what_is_printed_can_be_parsed(void **state) {
    (void)state;
    uint32_t fences = 0;
    for (uint32_t i = 0; i < KILN_FENCE_COUNT; i++) {
        kiln_strbuf out = {0};
        const uint32_t set = KILN_FENCES_ALL & ~(1U << i);
        kiln_fences_print(set, &out);
        expect_ok(kiln_fences_parse(kiln_strbuf_view(&out), &fences));
        assert_int_equal(fences, set);
        assert_int_equal(kiln_fences_known(kiln_strbuf_view(&out)), set);
        kiln_strbuf_deinit(&out);
    }
    expect_ok(kiln_fences_parse(KILN_STR("all"), &fences));
    assert_int_equal(fences, KILN_FENCES_ALL);
    expect_ok(kiln_fences_parse(KILN_STR("uid, pids,uid"), &fences));
    assert_int_equal(fences, BIT(UID) | BIT(PIDS));
}

static void a_person_is_told_of_what_is_unknown(void **state) {
    (void)state;
    static const char *const wrong[] = {"", "walls", "uid,moat", ",uid", "uid;pids", "UID"};
    uint32_t fences = 7;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++)
        expect_error(kiln_fences_parse(kiln_str_from(wrong[i]), &fences), INVALID_ARGUMENT,
                     "there are: all,uid,");
    assert_int_equal(fences, 7);
}

static void what_a_newer_peer_tells_is_left_out_where_it_is_unknown(void **state) {
    (void)state;
    assert_int_equal(kiln_fences_known(KILN_STR("")), 0);
    assert_int_equal(kiln_fences_known(KILN_STR("moat,uid,,drawbridge")), BIT(UID));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_are_printed_in_the_order_of_the_table),
        cmocka_unit_test(what_is_printed_can_be_parsed),
        cmocka_unit_test(a_person_is_told_of_what_is_unknown),
        cmocka_unit_test(what_a_newer_peer_tells_is_left_out_where_it_is_unknown),
    };
    return cmocka_run_group_tests_name("base/fence", tests, NULL, NULL);
}
