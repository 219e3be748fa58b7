/* Statements about releases: which archive of programs somebody signed, for which processor
 * (docs/reference/release.md has the form). Boards check one before they replace their programs;
 * the command line makes and checks them. */
#ifndef KILN_BASE_SIGN_RELEASE_H
#define KILN_BASE_SIGN_RELEASE_H

#include "base/hash.h"
#include "base/sign/sign.h"

#define KILN_RELEASE_TEXT_MAX ((size_t)1024)            /* bytes of a statement */
#define KILN_RELEASE_ARCHIVE_MAX ((uint64_t)256 << 20)  /* bytes of an archive */
#define KILN_RELEASE_KEYS_MAX ((size_t)32)              /* in a file of release keys */
#define KILN_RELEASE_KEYS_TEXT_MAX ((size_t)64 * 1024u) /* bytes of such a file */
#define KILN_RELEASE_WORD_MAX ((size_t)32)              /* with the NUL */

typedef struct kiln_release {
    char name[KILN_RELEASE_WORD_MAX];    /* "kiln-board" */
    char version[KILN_RELEASE_WORD_MAX]; /* "0.1.0" */
    char arch[KILN_RELEASE_WORD_MAX];    /* "aarch64" */
    uint64_t size_bytes;                 /* of the archive */
    kiln_digest digest;                  /* of the archive */
    kiln_sign_public key;                /* of the signer */
    kiln_signature signature;
} kiln_release;

typedef struct kiln_release_keys {
    kiln_sign_public key[KILN_RELEASE_KEYS_MAX];
    size_t count;
} kiln_release_keys;

/* The processor that this program is compiled for, by the name in statements; "" if releases have
 * none for it. */
const char *kiln_release_arch(void);

/* Appends the signed statement about an archive to `text`; sets `key` and `signature` of `release`.
 * INVALID_ARGUMENT: a word that a statement cannot have. Errors of kiln_sign. */
KILN_MUST_USE kiln_status kiln_release_sign(kiln_release *release, kiln_signer *signer,
                                            kiln_strbuf *text);
/* Reads a statement. Checks its form alone, not its signature: use kiln_release_check before
 * anything is done with it.
 * INVALID_ARGUMENT: another form; the text names the line. */
KILN_MUST_USE kiln_status kiln_release_parse(kiln_str text, kiln_release *out_release);
/* Reads a statement and checks that one of `trusted` signed it.
 * INVALID_ARGUMENT   another form
 * PERMISSION_DENIED  no such key, or a wrong signature
 * UNIMPLEMENTED      a build without OpenSSL. Some 150 us. */
KILN_MUST_USE kiln_status kiln_release_check(kiln_str text, const kiln_release_keys *trusted,
                                             kiln_release *out_release);
/* Reads a file of release keys: a public half in hexadecimal digits begins a line; the rest of the
 * line, lines that begin with '#' and empty lines are comments.
 * INVALID_ARGUMENT    a line of another form
 * RESOURCE_EXHAUSTED  too many keys */
KILN_MUST_USE kiln_status kiln_release_keys_parse(kiln_str text, kiln_release_keys *out_keys);

/* Whether it is a version: up to four numbers below 10^9 with dots between them. */
bool kiln_release_is_version(kiln_str text);
/* Negative: `a` is older than `b`; 0: the same. Both must be versions. Missing numbers are 0. */
int kiln_release_compare_versions(kiln_str a, kiln_str b);

#endif
