#include "web/seal.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/rand.h"

#define NONCE_BYTES 12u
#define TAG_BYTES 16u
#define ADDED_BYTES (NONCE_BYTES + TAG_BYTES)

/* ---- base64url without padding (RFC 4648, section 5) ---- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void print_base64(const uint8_t *byte, size_t size, kiln_strbuf *out) {
    for (size_t i = 0; i < size; i += 3) {
        const size_t count = size - i < 3 ? size - i : 3;
        uint32_t bits = (uint32_t)byte[i] << 16;
        if (count > 1) bits |= (uint32_t)byte[i + 1] << 8;
        if (count > 2) bits |= byte[i + 2];
        for (size_t k = 0; k <= count; k++)
            kiln_strbuf_char(out, alphabet[(bits >> (18 - 6 * k)) & 63]);
    }
}

/* Only the form that print_base64 writes: the bits that are left over are zero. */
static bool parse_base64(kiln_str text, uint8_t *out, size_t max, size_t *out_size) {
    size_t size = 0;
    uint32_t bits = 0, bit_count = 0;
    for (size_t i = 0; i < text.size; i++) {
        const char *at = text.data[i] ? strchr(alphabet, text.data[i]) : NULL;
        if (!at) return false;
        bits = (bits << 6 | (uint32_t)(at - alphabet)) & 0xffffff;
        bit_count += 6;
        if (bit_count < 8) continue;
        bit_count -= 8;
        if (size == max) return false;
        out[size++] = (uint8_t)(bits >> bit_count);
    }
    *out_size = size;
    return bit_count < 6 && (bits & ((1u << bit_count) - 1)) == 0;
}

/* ---- AES-256-GCM ---- */

static bool encrypt(const kiln_digest *key, const uint8_t *nonce, kiln_str content, uint8_t *out,
                    uint8_t *out_tag) {
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    int size = 0, last = 0;
    const bool done =
        cipher && EVP_EncryptInit_ex(cipher, EVP_aes_256_gcm(), NULL, key->byte, nonce) == 1 &&
        EVP_EncryptUpdate(cipher, out, &size, (const uint8_t *)content.data, (int)content.size) ==
            1 &&
        EVP_EncryptFinal_ex(cipher, out + size, &last) == 1 &&
        EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_GET_TAG, (int)TAG_BYTES, out_tag) == 1;
    EVP_CIPHER_CTX_free(cipher);
    return done;
}

static bool decrypt(const kiln_digest *key, const uint8_t *nonce, kiln_str sealed, uint8_t *tag,
                    uint8_t *out) {
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    int size = 0, last = 0;
    const bool done =
        cipher && EVP_DecryptInit_ex(cipher, EVP_aes_256_gcm(), NULL, key->byte, nonce) == 1 &&
        EVP_DecryptUpdate(cipher, out, &size, (const uint8_t *)sealed.data, (int)sealed.size) ==
            1 &&
        EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_SET_TAG, (int)TAG_BYTES, tag) == 1 &&
        EVP_DecryptFinal_ex(cipher, out + size, &last) == 1;
    EVP_CIPHER_CTX_free(cipher);
    return done;
}

kiln_status kiln_seal(const kiln_digest *key, kiln_str content, kiln_strbuf *out) {
    uint8_t bytes[KILN_SEALED_BYTES_MAX];
    if (content.size > sizeof bytes - ADDED_BYTES)
        return KILN_ERROR(OUT_OF_RANGE, "%zu bytes are too many to be sealed", content.size);
    kiln_status st = kiln_rand_system(bytes, NONCE_BYTES);
    if (st) return st;
    uint8_t *sealed = bytes + NONCE_BYTES;
    if (!encrypt(key, bytes, content, sealed, sealed + content.size))
        return KILN_ERROR(INTERNAL, "AES-256-GCM failed");
    print_base64(bytes, content.size + ADDED_BYTES, out);
    return KILN_OK;
}

bool kiln_unseal(const kiln_digest *key, kiln_str sealed, kiln_strbuf *out) {
    uint8_t bytes[KILN_SEALED_BYTES_MAX], content[KILN_SEALED_BYTES_MAX];
    size_t size = 0;
    if (!parse_base64(sealed, bytes, sizeof bytes, &size) || size < ADDED_BYTES) return false;
    const kiln_str inside = {(const char *)bytes + NONCE_BYTES, size - ADDED_BYTES};
    if (!decrypt(key, bytes, inside, bytes + size - TAG_BYTES, content)) return false;
    kiln_strbuf_append(out, content, inside.size);
    return true;
}
