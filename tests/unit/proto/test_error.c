#include <string.h>

#include "proto/proto.h"
#include "tests/support/test.h"

static void an_error_crosses_the_wire_with_code_and_text(void **state) {
    kiln_status st = KILN_ERROR(RESOURCE_EXHAUSTED, "the disk %s is full", "sda");
    st = kiln_status_note(st, "keeping the job");
    (void)state;
    kiln_message message = kiln_message_from_status(st, 5);
    assert_int_equal(message.stream, 5);
    expect_error(kiln_status_from_error(&message.error), RESOURCE_EXHAUSTED,
                 "keeping the job: the disk sda is full");
    message.error.code = 9999;
    expect_error(kiln_status_from_error(&message.error), INTERNAL, "disk");
    message.error.code = 0; /* an error that says OK is none the less one */
    expect_error(kiln_status_from_error(&message.error), INTERNAL, "disk");
    kiln_status_free(st);
}

static void every_code_says_whose_fault_it_is(void **state) {
    static const kiln_code code[] = {
#define X(name, number, exit_code, meaning) KILN_##name,
#include "base/status.def"
#undef X
    };
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(code); i++) {
        kiln_message error = kiln_message_error(code[i], 3, "x");
        assert_int_equal(error.error.code, code[i]);
        assert_int_equal(error.error.blame == KILN_BLAME_NONE, code[i] == KILN_OK);
    }
    kiln_message busy = kiln_message_error(KILN_UNAVAILABLE, 1, "all boards are busy");
    assert_int_equal(busy.error.blame, KILN_BLAME_INFRA);
    assert_true(busy.error.retry_after_ms > 0);
    kiln_message wrong = kiln_message_error(KILN_INVALID_ARGUMENT, 1, "no such target");
    assert_int_equal(wrong.error.blame, KILN_BLAME_CLIENT);
    assert_int_equal(wrong.error.retry_after_ms, 0);
    kiln_message odd = kiln_message_error((kiln_code)9999, 1, "a number of tomorrow");
    assert_int_equal(odd.error.blame, KILN_BLAME_NONE);
}

static void a_text_over_the_limit_is_cut(void **state) {
    (void)state;
    static char text[2 * KILN_MESSAGES_PROSE];
    memset(text, 'x', sizeof text - 1);
    kiln_message error = kiln_message_error(KILN_INTERNAL, 0, text);
    assert_int_equal(error.error.text.size, KILN_MESSAGES_PROSE);
}

static void versions_agree_on_the_newest_common_one(void **state) {
    (void)state;
    uint32_t version = 0;
    expect_ok(kiln_version_agree(1, 1, &version));
    assert_int_equal(version, 1);
    expect_ok(kiln_version_agree(1, 7, &version));
    assert_int_equal(version, KILN_PROTO_VERSION_MAX);
    expect_error(kiln_version_agree(KILN_PROTO_VERSION_MAX + 1, 9, &version), FAILED_PRECONDITION,
                 "upgrade this side");
    expect_error(kiln_version_agree(0, 0, &version), FAILED_PRECONDITION, "upgrade the peer");
    expect_error(kiln_version_agree(2, 1, &version), FAILED_PRECONDITION, "upgrade");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(an_error_crosses_the_wire_with_code_and_text),
        cmocka_unit_test(every_code_says_whose_fault_it_is),
        cmocka_unit_test(a_text_over_the_limit_is_cut),
        cmocka_unit_test(versions_agree_on_the_newest_common_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
