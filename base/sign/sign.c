/* Ed25519 by OpenSSL; see sign.h. */
#include "base/sign/sign.h"

#include <openssl/evp.h>

#include "base/alloc.h"

struct kiln_signer {
    EVP_PKEY *key;
    EVP_MD_CTX *context;
    kiln_sign_public half;
};

struct kiln_sign_checker {
    EVP_PKEY *key;
    EVP_MD_CTX *context;
};

bool kiln_sign_supported(void) { return true; }

static kiln_status refused(const char *doing) {
    return KILN_ERROR(INTERNAL, "OpenSSL has no Ed25519 here, or no memory: %s", doing);
}

kiln_status kiln_sign_public_of(const uint8_t seed[KILN_SIGN_SEED_BYTES],
                                kiln_sign_public *out_public) {
    kiln_signer *signer = NULL;
    kiln_status st = kiln_signer_create(seed, &signer);
    if (!st) *out_public = signer->half;
    kiln_signer_destroy(signer);
    return st;
}

kiln_status kiln_signer_create(const uint8_t seed[KILN_SIGN_SEED_BYTES], kiln_signer **out_signer) {
    kiln_signer *signer = kiln_alloc(sizeof *signer);
    size_t size = sizeof signer->half.byte;
    signer->key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, KILN_SIGN_SEED_BYTES);
    signer->context = EVP_MD_CTX_new();
    if (!signer->key || !signer->context ||
        EVP_PKEY_get_raw_public_key(signer->key, signer->half.byte, &size) != 1 ||
        size != sizeof signer->half.byte) {
        kiln_signer_destroy(signer);
        return refused("reading a seed");
    }
    *out_signer = signer;
    return NULL;
}

void kiln_signer_destroy(kiln_signer *signer) {
    if (!signer) return;
    EVP_MD_CTX_free(signer->context);
    EVP_PKEY_free(signer->key);
    kiln_free(signer);
}

const kiln_sign_public *kiln_signer_public(const kiln_signer *signer) { return &signer->half; }

kiln_status kiln_sign(kiln_signer *signer, kiln_str bytes, kiln_signature *out_signature) {
    size_t size = sizeof out_signature->byte;
    const unsigned char *data = (const unsigned char *)(bytes.size ? bytes.data : "");
    bool done =
        EVP_DigestSignInit(signer->context, NULL, NULL, NULL, signer->key) == 1 &&
        EVP_DigestSign(signer->context, out_signature->byte, &size, data, bytes.size) == 1 &&
        size == sizeof out_signature->byte;
    EVP_MD_CTX_reset(signer->context);
    return done ? NULL : refused("signing");
}

kiln_status kiln_sign_checker_create(const kiln_sign_public *half,
                                     kiln_sign_checker **out_checker) {
    kiln_sign_checker *checker = kiln_alloc(sizeof *checker);
    checker->key =
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, half->byte, sizeof half->byte);
    checker->context = EVP_MD_CTX_new();
    if (!checker->key || !checker->context) {
        kiln_sign_checker_destroy(checker);
        return refused("reading a public key");
    }
    *out_checker = checker;
    return NULL;
}

void kiln_sign_checker_destroy(kiln_sign_checker *checker) {
    if (!checker) return;
    EVP_MD_CTX_free(checker->context);
    EVP_PKEY_free(checker->key);
    kiln_free(checker);
}

bool kiln_sign_check(kiln_sign_checker *checker, kiln_str bytes, const kiln_signature *signature) {
    const unsigned char *data = (const unsigned char *)(bytes.size ? bytes.data : "");
    bool right = EVP_DigestVerifyInit(checker->context, NULL, NULL, NULL, checker->key) == 1 &&
                 EVP_DigestVerify(checker->context, signature->byte, sizeof signature->byte, data,
                                  bytes.size) == 1;
    EVP_MD_CTX_reset(checker->context);
    return right;
}
