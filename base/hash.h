/* Stable hashes of keys that reach disk or the wire (XXH3), and content names (SHA-256, libmd). */
#ifndef KILN_BASE_HASH_H
#define KILN_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef struct kiln_hash128 {
    uint64_t high, low;
} kiln_hash128;

typedef struct kiln_digest {
    uint8_t byte[32]; /* SHA-256 */
} kiln_digest;

#define KILN_HASH128_TEXT 33 /* 32 hex digits and NUL */
#define KILN_DIGEST_TEXT 65

/* XXH3 of the bytes, 64 bits: the same on every machine, so it may reach disk and wire. */
uint64_t kiln_hash64(const void *data, size_t size, uint64_t seed);
/* That of the parts, concatenated. */
uint64_t kiln_hash64_of_parts(const kiln_str *part, uint32_t count, uint64_t seed);
/* The same with 128 bits: for keys. */
kiln_hash128 kiln_hash128_of(const void *data, size_t size);
/* Prints 32 hexadecimal digits, and parses them; false: `text` has another form. */
void kiln_hash128_print(kiln_hash128 hash, char out_text[KILN_HASH128_TEXT]);
bool kiln_hash128_parse(kiln_str text, kiln_hash128 *out_hash);

/* SHA-256: for names of blobs. */
void kiln_digest_of(const void *data, size_t size, kiln_digest *out_digest);
/* The digest of the parts, concatenated. */
void kiln_digest_of_parts(const kiln_str *part, uint32_t count, kiln_digest *out_digest);
/* HMAC-SHA-256 (RFC 2104) of the parts, concatenated. */
void kiln_hmac_of_parts(kiln_str key, const kiln_str *part, uint32_t count,
                        kiln_digest *out_digest);
/* The digest of content that arrives in pieces: begin, add..., end. */
typedef struct kiln_hasher {
    uint64_t state[32]; /* of the library */
} kiln_hasher;
void kiln_hasher_begin(kiln_hasher *hasher);
void kiln_hasher_add(kiln_hasher *hasher, const void *data, size_t size);
void kiln_hasher_end(kiln_hasher *hasher, kiln_digest *out_digest);
void kiln_digest_print(const kiln_digest *digest, char out_text[KILN_DIGEST_TEXT]);
bool kiln_digest_parse(kiln_str text, kiln_digest *out_digest);
bool kiln_digest_equal(const kiln_digest *a, const kiln_digest *b);
/* Whether it is all zero, as where a message names no blob. */
bool kiln_digest_is_none(const kiln_digest *digest);
/* The same in constant time, for proofs. */
bool kiln_digest_equal_secret(const kiln_digest *a, const kiln_digest *b);

#endif
