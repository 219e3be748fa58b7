#include "web/seal.h"

#include <string.h>

#include "tests/support/test.h"

static kiln_digest key_of(const char *text) {
    kiln_digest key;
    kiln_digest_of(text, strlen(text), &key);
    return key;
}

static void what_was_sealed_comes_back(void **state) {
    (void)state;
    const kiln_digest key = key_of("a");
    char content[KILN_SEALED_BYTES_MAX - 28] = "content";
    for (size_t size = 0; size <= sizeof content; size += size < 70 ? 1 : 61) {
        kiln_strbuf sealed = {0}, opened = {0};
        expect_ok(kiln_seal(&key, (kiln_str){content, size}, &sealed));
        assert_true(kiln_unseal(&key, kiln_strbuf_view(&sealed), &opened));
        assert_int_equal(opened.size, size);
        if (size) assert_memory_equal(opened.data, content, size);
        kiln_strbuf_deinit(&sealed);
        kiln_strbuf_deinit(&opened);
    }
}

static void two_seals_of_a_text_differ(void **state) {
    (void)state;
    const kiln_digest key = key_of("a");
    kiln_strbuf first = {0}, second = {0};
    expect_ok(kiln_seal(&key, KILN_STR("x"), &first));
    expect_ok(kiln_seal(&key, KILN_STR("x"), &second));
    assert_string_not_equal(first.data, second.data);
    kiln_strbuf_deinit(&first);
    kiln_strbuf_deinit(&second);
}

static void no_other_text_is_opened(void **state) {
    (void)state;
    const kiln_digest key = key_of("a"), other = key_of("b");
    kiln_strbuf sealed = {0}, opened = {0};
    expect_ok(kiln_seal(&key, KILN_STR("a session"), &sealed));
    assert_false(kiln_unseal(&other, kiln_strbuf_view(&sealed), &opened));
    for (size_t i = 0; i < sealed.size; i++) {
        const char kept = sealed.data[i];
        static const char wrong[] = "A_= \n+/";
        for (size_t k = 0; k < sizeof wrong; k++) {
            if (wrong[k] == kept) continue;
            sealed.data[i] = wrong[k];
            assert_false(kiln_unseal(&key, kiln_strbuf_view(&sealed), &opened));
        }
        sealed.data[i] = kept;
        assert_false(kiln_unseal(&key, kiln_str_slice(kiln_strbuf_view(&sealed), 0, i), &opened));
    }
    kiln_strbuf_char(&sealed, 'A');
    assert_false(kiln_unseal(&key, kiln_strbuf_view(&sealed), &opened));
    assert_int_equal(opened.size, 0);
    kiln_strbuf_deinit(&sealed);
}

static void sizes_are_bounded(void **state) {
    (void)state;
    const kiln_digest key = key_of("a");
    static char large[4 * KILN_SEALED_BYTES_MAX];
    kiln_strbuf out = {0};
    expect_error(kiln_seal(&key, (kiln_str){large, KILN_SEALED_BYTES_MAX - 27}, &out), OUT_OF_RANGE,
                 "too many");
    memset(large, 'A', sizeof large);
    assert_false(kiln_unseal(&key, (kiln_str){large, sizeof large}, &out));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_sealed_comes_back),
        cmocka_unit_test(two_seals_of_a_text_differ),
        cmocka_unit_test(no_other_text_is_opened),
        cmocka_unit_test(sizes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
