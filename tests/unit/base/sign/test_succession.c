#include <string.h>

#include "base/sign/sign.h"
#include "tests/support/test.h"

static const uint8_t seed[KILN_SIGN_SEED_BYTES] = {1, 2, 3};
static const kiln_sign_public next = {{4, 5, 6}}, other = {{4, 5, 7}};

static void the_one_before_names_the_next(void **state) {
    (void)state;
    kiln_succession said;
    kiln_sign_public before;
    expect_ok(kiln_succession_sign(seed, &next, &said));
    expect_ok(kiln_sign_public_of(seed, &before));
    assert_memory_equal(&said.before, &before, sizeof before);
    assert_true(kiln_succession_is_right(&said, &next));
    assert_false(kiln_succession_is_right(&said, &other));
}

static void each_changed_byte_is_noticed(void **state) {
    (void)state;
    kiln_succession said;
    expect_ok(kiln_succession_sign(seed, &next, &said));
    for (size_t i = 0; i < sizeof said; i++) {
        kiln_succession changed = said;
        ((uint8_t *)&changed)[i] ^= 1;
        assert_false(kiln_succession_is_right(&changed, &next));
    }
}

/* What the seed signed otherwise, a record for instance, names nobody: the text differs. */
static void another_signature_of_the_seed_says_nothing(void **state) {
    (void)state;
    kiln_signer *signer = NULL;
    kiln_succession said;
    uint8_t bytes[2 * KILN_SIGN_PUBLIC_BYTES];
    expect_ok(kiln_signer_create(seed, &signer));
    said.before = *kiln_signer_public(signer);
    memcpy(bytes, &said.before, sizeof said.before);
    memcpy(bytes + sizeof said.before, &next, sizeof next);
    expect_ok(kiln_sign(signer, (kiln_str){(const char *)bytes, sizeof bytes}, &said.proof));
    kiln_signer_destroy(signer);
    assert_false(kiln_succession_is_right(&said, &next));
}

static void without_signatures_nothing_is_right(void **state) {
    (void)state;
    kiln_succession said = {0};
    assert_false(kiln_succession_is_right(&said, &next));
    expect_error(kiln_succession_sign(seed, &next, &said), UNIMPLEMENTED, "tls");
}

int main(void) {
    const struct CMUnitTest with[] = {
        cmocka_unit_test(the_one_before_names_the_next),
        cmocka_unit_test(each_changed_byte_is_noticed),
        cmocka_unit_test(another_signature_of_the_seed_says_nothing),
    };
    const struct CMUnitTest without[] = {cmocka_unit_test(without_signatures_nothing_is_right)};
    return kiln_sign_supported() ? cmocka_run_group_tests(with, NULL, NULL)
                                 : cmocka_run_group_tests(without, NULL, NULL);
}
