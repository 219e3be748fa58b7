#include <string.h>

#include "base/sign/sign.h"
#include "tests/support/test.h"

static void public_halves_survive_their_text(void **state) {
    (void)state;
    kiln_sign_public half, read;
    char text[KILN_SIGN_PUBLIC_TEXT];
    for (size_t i = 0; i < sizeof half.byte; i++) half.byte[i] = (uint8_t)(i * 37 + 200);
    kiln_sign_public_print(&half, text);
    assert_int_equal(strlen(text), 64);
    assert_true(kiln_sign_public_parse(kiln_str_from(text), &read));
    assert_memory_equal(&half, &read, sizeof half);
}

static void other_text_is_no_public_half(void **state) {
    (void)state;
    kiln_sign_public half;
    char text[KILN_SIGN_PUBLIC_TEXT];
    memset(text, 'a', sizeof text - 1);
    kiln_str whole = {text, sizeof text - 1};
    assert_true(kiln_sign_public_parse(whole, &half));
    assert_false(kiln_sign_public_parse(KILN_STR(""), &half));
    assert_false(kiln_sign_public_parse(kiln_str_slice(whole, 0, whole.size - 1), &half));
    text[10] = 'A'; /* a key has one spelling */
    assert_false(kiln_sign_public_parse(whole, &half));
    text[10] = 'g';
    assert_false(kiln_sign_public_parse(whole, &half));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(public_halves_survive_their_text),
        cmocka_unit_test(other_text_is_no_public_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
