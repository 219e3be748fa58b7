/* One signer replaces another; for builds with and without OpenSSL. */
#include <string.h>

#include "base/sign/sign.h"

#define HEAD "kiln signer 1\n"
#define HEAD_BYTES (sizeof HEAD - 1)

typedef struct words {
    char byte[HEAD_BYTES + 2 * KILN_SIGN_PUBLIC_BYTES];
} words;

static kiln_str write_words(const kiln_sign_public *before, const kiln_sign_public *next,
                            words *out_words) {
    char *at = out_words->byte;
    memcpy(at, HEAD, HEAD_BYTES);
    memcpy(at + HEAD_BYTES, before->byte, sizeof before->byte);
    memcpy(at + HEAD_BYTES + sizeof before->byte, next->byte, sizeof next->byte);
    return (kiln_str){out_words->byte, sizeof out_words->byte};
}

kiln_status kiln_succession_sign(const uint8_t seed[KILN_SIGN_SEED_BYTES],
                                 const kiln_sign_public *next, kiln_succession *out_succession) {
    words said;
    kiln_signer *signer = NULL;
    kiln_succession made;
    kiln_status st = kiln_signer_create(seed, &signer);
    if (st) return st;
    made.before = *kiln_signer_public(signer);
    st = kiln_sign(signer, write_words(&made.before, next, &said), &made.proof);
    kiln_signer_destroy(signer);
    if (!st) *out_succession = made;
    return st;
}

bool kiln_succession_is_right(const kiln_succession *succession, const kiln_sign_public *next) {
    words said;
    kiln_sign_checker *checker = NULL;
    kiln_status st = kiln_sign_checker_create(&succession->before, &checker);
    const bool right =
        !st &&
        kiln_sign_check(checker, write_words(&succession->before, next, &said), &succession->proof);
    kiln_status_free(st); /* a build without signatures */
    kiln_sign_checker_destroy(checker);
    return right;
}
