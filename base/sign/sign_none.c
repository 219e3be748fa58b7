/* Replaces sign.c in a build without OpenSSL: cannot sign, and every signature counts as wrong. */
#include "base/check.h"
#include "base/sign/sign.h"

bool kiln_sign_supported(void) { return false; }

static kiln_status unsupported(void) {
    return KILN_ERROR(UNIMPLEMENTED,
                      "this program was built without signatures (meson option `tls`)");
}

kiln_status kiln_sign_public_of(const uint8_t seed[KILN_SIGN_SEED_BYTES],
                                kiln_sign_public *out_public) {
    (void)seed, (void)out_public;
    return unsupported();
}

kiln_status kiln_signer_create(const uint8_t seed[KILN_SIGN_SEED_BYTES], kiln_signer **out_signer) {
    (void)seed, (void)out_signer;
    return unsupported();
}

void kiln_signer_destroy(kiln_signer *signer) { KILN_CHECK(signer == NULL); }

const kiln_sign_public *kiln_signer_public(const kiln_signer *signer) {
    KILN_CHECK(signer != NULL); /* no signer can be created */
    return NULL;
}

kiln_status kiln_sign(kiln_signer *signer, kiln_str bytes, kiln_signature *out_signature) {
    (void)signer, (void)bytes, (void)out_signature;
    return unsupported();
}

kiln_status kiln_sign_checker_create(const kiln_sign_public *half,
                                     kiln_sign_checker **out_checker) {
    (void)half, (void)out_checker;
    return unsupported();
}

void kiln_sign_checker_destroy(kiln_sign_checker *checker) { KILN_CHECK(checker == NULL); }

bool kiln_sign_check(kiln_sign_checker *checker, kiln_str bytes, const kiln_signature *signature) {
    (void)checker, (void)bytes, (void)signature;
    return false;
}
