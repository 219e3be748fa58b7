#include "base/hash.h"

#include <sha256.h>
#include <string.h>
#define XXH_INLINE_ALL /* only what is called: the library is one object */
#include <xxhash.h>

#include "base/alloc.h"
#include "base/thread_work.h"

_Static_assert(sizeof(SHA2_CTX) <= sizeof(kiln_hasher), "a hasher holds the library's context");
_Static_assert(sizeof(((kiln_digest *)0)->byte) == SHA256_DIGEST_LENGTH, "a digest is a SHA-256");

uint64_t kiln_hash64(const void *data, size_t size, uint64_t seed) {
    return XXH3_64bits_withSeed(data, size, seed);
}

uint64_t kiln_hash64_of_parts(const kiln_str *part, uint32_t count, uint64_t seed) {
    XXH3_state_t state = {.seed = 0}; /* or compilers warn of members that the reset leaves */
    XXH3_64bits_reset_withSeed(&state, seed);
    for (uint32_t i = 0; i < count; i++) XXH3_64bits_update(&state, part[i].data, part[i].size);
    return XXH3_64bits_digest(&state);
}

kiln_hash128 kiln_hash128_of(const void *data, size_t size) {
    XXH128_hash_t hash = XXH3_128bits(data, size);
    return (kiln_hash128){hash.high64, hash.low64};
}

static void print_hex(const uint8_t *byte, size_t count, char *out_text) {
    static const char digit[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        out_text[2 * i] = digit[byte[i] >> 4];
        out_text[2 * i + 1] = digit[byte[i] & 15];
    }
    out_text[2 * count] = '\0';
}

/* Lower-case only, so that a name has one spelling. */
static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

static bool parse_hex(kiln_str text, uint8_t *out_byte, size_t count) {
    if (text.size != 2 * count) return false;
    for (size_t i = 0; i < count; i++) {
        int high = hex_value(text.data[2 * i]), low = hex_value(text.data[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        out_byte[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

void kiln_hash128_print(kiln_hash128 hash, char out_text[KILN_HASH128_TEXT]) {
    uint8_t byte[16];
    for (size_t i = 0; i < 8; i++) {
        byte[i] = (uint8_t)(hash.high >> (56 - 8 * i));
        byte[8 + i] = (uint8_t)(hash.low >> (56 - 8 * i));
    }
    print_hex(byte, sizeof byte, out_text);
}

bool kiln_hash128_parse(kiln_str text, kiln_hash128 *out_hash) {
    uint8_t byte[16];
    if (!parse_hex(text, byte, sizeof byte)) return false;
    kiln_hash128 hash = {0};
    for (size_t i = 0; i < 8; i++) {
        hash.high = hash.high << 8 | byte[i];
        hash.low = hash.low << 8 | byte[8 + i];
    }
    *out_hash = hash;
    return true;
}

/* `state` holds the library's context by value. */
void kiln_hasher_begin(kiln_hasher *hasher) {
    SHA2_CTX context;
    SHA256Init(&context);
    memcpy(hasher->state, &context, sizeof context);
}

void kiln_hasher_add(kiln_hasher *hasher, const void *data, size_t size) {
    SHA2_CTX context;
    if (size == 0) return;
    memcpy(&context, hasher->state, sizeof context);
    SHA256Update(&context, data, size);
    memcpy(hasher->state, &context, sizeof context);
    kiln_thread_work_here()->hashed_bytes += size;
}

void kiln_hasher_end(kiln_hasher *hasher, kiln_digest *out_digest) {
    SHA2_CTX context;
    memcpy(&context, hasher->state, sizeof context);
    SHA256Final(out_digest->byte, &context);
}

void kiln_digest_of_parts(const kiln_str *part, uint32_t count, kiln_digest *out_digest) {
    kiln_hasher hasher;
    kiln_hasher_begin(&hasher);
    for (uint32_t i = 0; i < count; i++) kiln_hasher_add(&hasher, part[i].data, part[i].size);
    kiln_hasher_end(&hasher, out_digest);
}

void kiln_digest_of(const void *data, size_t size, kiln_digest *out_digest) {
    kiln_digest_of_parts(&(kiln_str){data, size}, 1, out_digest);
}

/* SHA-256 of the key's block, changed by `pad`, and the parts. */
static void digest_padded(const uint8_t block[SHA256_BLOCK_LENGTH], uint8_t pad,
                          const kiln_str *part, uint32_t count, kiln_digest *out_digest) {
    uint8_t padded[SHA256_BLOCK_LENGTH];
    SHA2_CTX context;
    for (size_t i = 0; i < sizeof padded; i++) padded[i] = block[i] ^ pad;
    SHA256Init(&context);
    SHA256Update(&context, padded, sizeof padded);
    for (uint32_t i = 0; i < count; i++)
        if (part[i].size) SHA256Update(&context, (const uint8_t *)part[i].data, part[i].size);
    SHA256Final(out_digest->byte, &context);
    kiln_wipe(padded, sizeof padded);
    kiln_wipe(&context, sizeof context);
}

void kiln_hmac_of_parts(kiln_str key, const kiln_str *part, uint32_t count,
                        kiln_digest *out_digest) {
    uint8_t block[SHA256_BLOCK_LENGTH] = {0};
    kiln_digest inner;
    if (key.size > sizeof block) {
        kiln_digest_of(key.data, key.size, &inner);
        memcpy(block, inner.byte, sizeof inner.byte);
    } else if (key.size) {
        memcpy(block, key.data, key.size);
    }
    digest_padded(block, 0x36, part, count, &inner);
    kiln_str second = {(const char *)inner.byte, sizeof inner.byte};
    digest_padded(block, 0x5c, &second, 1, out_digest);
    kiln_wipe(block, sizeof block);
}

void kiln_digest_print(const kiln_digest *digest, char out_text[KILN_DIGEST_TEXT]) {
    print_hex(digest->byte, sizeof digest->byte, out_text);
}

bool kiln_digest_parse(kiln_str text, kiln_digest *out_digest) {
    kiln_digest digest;
    if (!parse_hex(text, digest.byte, sizeof digest.byte)) return false;
    *out_digest = digest;
    return true;
}

bool kiln_digest_equal(const kiln_digest *a, const kiln_digest *b) {
    return memcmp(a->byte, b->byte, sizeof a->byte) == 0;
}

bool kiln_digest_is_none(const kiln_digest *digest) {
    return kiln_digest_equal(digest, &(kiln_digest){{0}});
}

bool kiln_digest_equal_secret(const kiln_digest *a, const kiln_digest *b) {
    volatile uint8_t difference = 0;
    for (size_t i = 0; i < sizeof a->byte; i++) difference |= a->byte[i] ^ b->byte[i];
    return difference == 0;
}
