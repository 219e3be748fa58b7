#include "base/sign/sign.h"

#include <string.h>

#include "base/hash.h"
#include "tests/support/test.h"

/* RFC 8032, section 7.1: TEST 1, 2, 3 and SHA(abc). */
static const struct {
    const char *seed, *half, *message, *signature;
} vector[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9"
     "b46bd25bf5f0595bbe24655141438e7a100b"},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f1"
     "1d8c387b2eaeb4302aeeb00d291612bb0c00"},
    {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984d"
     "c6594a7c15e9716ed28dc027beceea1ec40a"},
    {"833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
     "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
     "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3fe"
     "ebbd454d4423643ce80e2a9ac94fa54ca49f",
     "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431"
     "e0303dca179c138ac17ad9bef1177331a704"},
};

static size_t bytes_of(const char *hex, uint8_t *out) {
    size_t count = strlen(hex) / 2;
    for (size_t i = 0; i < count; i++) {
        char pair[] = {'0', 'x', hex[2 * i], hex[2 * i + 1], '\0'};
        uint64_t value = 0;
        assert_true(kiln_str_to_u64(kiln_str_from(pair), &value));
        out[i] = (uint8_t)value;
    }
    return count;
}

static bool checks(const kiln_sign_public *half, kiln_str bytes, const kiln_signature *signature) {
    kiln_sign_checker *checker = NULL;
    expect_ok(kiln_sign_checker_create(half, &checker));
    bool right = kiln_sign_check(checker, bytes, signature);
    kiln_sign_checker_destroy(checker);
    return right;
}

static void signatures_match_the_published_vectors(void **state) {
    (void)state;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(vector); i++) {
        uint8_t seed[KILN_SIGN_SEED_BYTES], message[64];
        kiln_signature expected, signature;
        kiln_sign_public half;
        char text[KILN_SIGN_PUBLIC_TEXT];
        bytes_of(vector[i].seed, seed);
        bytes_of(vector[i].signature, expected.byte);
        kiln_str bytes = {(const char *)message, bytes_of(vector[i].message, message)};

        kiln_signer *signer = NULL;
        expect_ok(kiln_signer_create(seed, &signer));
        kiln_sign_public_print(kiln_signer_public(signer), text);
        assert_string_equal(text, vector[i].half);
        expect_ok(kiln_sign_public_of(seed, &half));
        assert_memory_equal(&half, kiln_signer_public(signer), sizeof half);
        for (int again = 0; again < 2; again++) {
            expect_ok(kiln_sign(signer, bytes, &signature));
            assert_memory_equal(signature.byte, expected.byte, sizeof signature.byte);
        }
        assert_true(checks(&half, bytes, &signature));
        kiln_signer_destroy(signer);
    }
}

/* One checker says no to each changed bit of signature and message, and then still yes. */
static void any_changed_bit_is_noticed(void **state) {
    (void)state;
    uint8_t seed[KILN_SIGN_SEED_BYTES] = {7};
    kiln_sign_public half, other;
    kiln_signature signature;
    kiln_signer *signer = NULL;
    kiln_sign_checker *checker = NULL;
    char message[] = "median 4711 ns";
    kiln_str bytes = kiln_str_from(message);
    expect_ok(kiln_signer_create(seed, &signer));
    expect_ok(kiln_sign(signer, bytes, &signature));
    half = *kiln_signer_public(signer);
    expect_ok(kiln_sign_checker_create(&half, &checker));
    for (size_t bit = 0; bit < 8 * sizeof signature.byte; bit++) {
        kiln_signature changed = signature;
        changed.byte[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(kiln_sign_check(checker, bytes, &changed));
    }
    for (size_t bit = 0; bit < 8 * bytes.size; bit++) {
        message[bit / 8] ^= (char)(1 << bit % 8);
        assert_false(kiln_sign_check(checker, bytes, &signature));
        message[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_false(kiln_sign_check(checker, kiln_str_slice(bytes, 0, bytes.size - 1), &signature));
    assert_true(kiln_sign_check(checker, bytes, &signature));

    seed[0]++;
    expect_ok(kiln_sign_public_of(seed, &other));
    assert_false(checks(&other, bytes, &signature));
    kiln_sign_checker_destroy(checker);
    kiln_signer_destroy(signer);
}

/* 2 is no coordinate of the curve. */
static void a_public_half_off_the_curve_signs_nothing(void **state) {
    (void)state;
    kiln_sign_public half = {.byte = {2}};
    kiln_signature signature = {.byte = {0}};
    assert_false(checks(&half, KILN_STR("text"), &signature));
}

static void a_build_without_openssl_says_so(void **state) {
    (void)state;
    uint8_t seed[KILN_SIGN_SEED_BYTES] = {0};
    kiln_sign_public half = {.byte = {0}};
    kiln_signature signature;
    kiln_signer *signer = NULL;
    kiln_sign_checker *checker = NULL;
    expect_error(kiln_signer_create(seed, &signer), UNIMPLEMENTED, "without signatures");
    expect_error(kiln_sign(NULL, KILN_STR("text"), &signature), UNIMPLEMENTED, "option `tls`");
    expect_error(kiln_sign_public_of(seed, &half), UNIMPLEMENTED, "without signatures");
    expect_error(kiln_sign_checker_create(&half, &checker), UNIMPLEMENTED, "without signatures");
    assert_false(kiln_sign_check(NULL, KILN_STR("text"), &signature));
    kiln_signer_destroy(NULL);
    kiln_sign_checker_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest with_openssl[] = {
        cmocka_unit_test(signatures_match_the_published_vectors),
        cmocka_unit_test(any_changed_bit_is_noticed),
        cmocka_unit_test(a_public_half_off_the_curve_signs_nothing),
    };
    const struct CMUnitTest without[] = {
        cmocka_unit_test(a_build_without_openssl_says_so),
    };
    return kiln_sign_supported() ? cmocka_run_group_tests(with_openssl, NULL, NULL)
                                 : cmocka_run_group_tests(without, NULL, NULL);
}
