/* Digital signatures (Ed25519, RFC 8032) by OpenSSL: measurers sign records, nodes prove their
 * identity. Used by proto, db, the tuner and the command line. A build without OpenSSL (meson
 * option `tls`) has sign_none.c instead of sign.c: kiln_sign_supported is false, signing fails with
 * UNIMPLEMENTED, and every signature counts as wrong. */
#ifndef KILN_BASE_SIGN_SIGN_H
#define KILN_BASE_SIGN_SIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "base/status.h"
#include "base/str.h"

#define KILN_SIGN_SEED_BYTES ((size_t)32)
#define KILN_SIGN_PUBLIC_BYTES ((size_t)32)
#define KILN_SIGNATURE_BYTES ((size_t)64)
#define KILN_SIGN_PUBLIC_TEXT ((size_t)65) /* 64 hexadecimal digits and NUL */

typedef struct kiln_sign_public {
    uint8_t byte[KILN_SIGN_PUBLIC_BYTES];
} kiln_sign_public;

typedef struct kiln_signature {
    uint8_t byte[KILN_SIGNATURE_BYTES];
} kiln_signature;

typedef struct kiln_signer kiln_signer;             /* signs with one seed; used by one thread */
typedef struct kiln_sign_checker kiln_sign_checker; /* checks for one public half; likewise */

bool kiln_sign_supported(void);

/* The public half of a seed. Any 32 bytes are a seed: draw it by kiln_rand_system. UNIMPLEMENTED: a
 * build without OpenSSL. INTERNAL: OpenSSL failed. The same below. */
KILN_MUST_USE kiln_status kiln_sign_public_of(const uint8_t seed[KILN_SIGN_SEED_BYTES],
                                              kiln_sign_public *out_public);
/* Prints 64 lower-case hexadecimal digits, and parses them; false: `text` has another form. */
void kiln_sign_public_print(const kiln_sign_public *half, char out_text[KILN_SIGN_PUBLIC_TEXT]);
bool kiln_sign_public_parse(kiln_str text, kiln_sign_public *out_public);

/* OpenSSL keeps a copy of the seed, and wipes it in destroy. The caller wipes its own. */
KILN_MUST_USE kiln_status kiln_signer_create(const uint8_t seed[KILN_SIGN_SEED_BYTES],
                                             kiln_signer **out_signer);
void kiln_signer_destroy(kiln_signer *signer); /* NULL is fine */
const kiln_sign_public *kiln_signer_public(const kiln_signer *signer);
/* The same bytes get the same signature each time. Some 30 us. */
KILN_MUST_USE kiln_status kiln_sign(kiln_signer *signer, kiln_str bytes,
                                    kiln_signature *out_signature);

/* A public half that is not a point of the curve makes kiln_sign_check always return false. */
KILN_MUST_USE kiln_status kiln_sign_checker_create(const kiln_sign_public *half,
                                                   kiln_sign_checker **out_checker);
void kiln_sign_checker_destroy(kiln_sign_checker *checker); /* NULL is fine */
/* Whether exactly these bytes were signed by the seed of that public half. Some 80 us. */
bool kiln_sign_check(kiln_sign_checker *checker, kiln_str bytes, const kiln_signature *signature);

/* A statement that a new seed replaces an old one: the old seed's signature over the text "kiln
 * signer 1\n", its own public half and the new one. */
typedef struct kiln_succession {
    kiln_sign_public before;
    kiln_signature proof;
} kiln_succession;

/* `seed`: the old one. Errors of kiln_sign. */
KILN_MUST_USE kiln_status kiln_succession_sign(const uint8_t seed[KILN_SIGN_SEED_BYTES],
                                               const kiln_sign_public *next,
                                               kiln_succession *out_succession);
/* False also in a build without OpenSSL. Some 150 us. */
bool kiln_succession_is_right(const kiln_succession *succession, const kiln_sign_public *next);

#endif
