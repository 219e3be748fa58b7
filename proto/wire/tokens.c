/* Tokens with which people sign in at a web server; see proto/keys.h. */
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "proto/keys.h"

#define BEGIN "kiln-"
#define SECRET_DIGITS (2 * KILN_KEY_BYTES)

void kiln_web_token_print(const char *person, const uint8_t secret[KILN_KEY_BYTES],
                          char out_text[KILN_WEB_TOKEN_TEXT]) {
    static const char digit[] = "0123456789abcdef";
    const size_t name_size = strnlen(person, KILN_MESSAGES_TEXT);
    char *at = out_text;
    memcpy(at, BEGIN, strlen(BEGIN));
    at += strlen(BEGIN);
    memcpy(at, person, name_size);
    at += name_size;
    *at++ = '-';
    for (uint32_t i = 0; i < KILN_KEY_BYTES; i++) {
        *at++ = digit[secret[i] >> 4];
        *at++ = digit[secret[i] & 15];
    }
    *at = '\0';
}

bool kiln_web_token_parse(kiln_str text, char out_person[KILN_MESSAGES_TEXT + 1],
                          uint8_t out_secret[KILN_KEY_BYTES]) {
    const size_t around = strlen(BEGIN) + 1 + SECRET_DIGITS;
    kiln_digest secret; /* 32 bytes as 64 hex digits */
    if (!kiln_str_starts(text, BEGIN) || text.size <= around ||
        text.size > around + KILN_MESSAGES_TEXT)
        return false;
    const kiln_str name = kiln_str_slice(text, strlen(BEGIN), text.size - SECRET_DIGITS - 1);
    if (text.data[text.size - SECRET_DIGITS - 1] != '-' || memchr(name.data, '\0', name.size) ||
        !kiln_digest_parse(kiln_str_slice(text, text.size - SECRET_DIGITS, text.size), &secret))
        return false;
    memcpy(out_person, name.data, name.size);
    out_person[name.size] = '\0';
    memcpy(out_secret, secret.byte, KILN_KEY_BYTES);
    explicit_bzero(&secret, sizeof secret);
    return true;
}

void kiln_web_token_digest(const uint8_t secret[KILN_KEY_BYTES],
                           uint8_t out_secret[KILN_KEY_BYTES]) {
    kiln_digest digest;
    kiln_digest_of(secret, KILN_KEY_BYTES, &digest);
    memcpy(out_secret, digest.byte, KILN_KEY_BYTES);
}

/* ---- What a list has of a person ---- */

/* The keys and tokens of a person, in the order of a list. */
static const struct {
    kiln_peer_role role;
    bool is_token;
} kind[] = {{KILN_PEER_CLIENT, false},
            {KILN_PEER_CLIENT, true},
            {KILN_PEER_ADMIN, false},
            {KILN_PEER_ADMIN, true}};

static bool is_good(const kiln_key *key, uint32_t today) {
    return key->state != KILN_KEY_REVOKED && !kiln_key_has_expired(key, today);
}

/* False: no key has such a name. */
static bool name_of(kiln_str person, uint32_t which, kiln_key *out_name) {
    *out_name = (kiln_key){.role = kind[which].role, .is_token = kind[which].is_token};
    if (person.size == 0 || person.size > KILN_MESSAGES_TEXT ||
        memchr(person.data, '\0', person.size))
        return false;
    memcpy(out_name->node, person.data, person.size);
    return true;
}

kiln_person_keys kiln_keys_of_person(const kiln_keys *keys, kiln_str person, uint32_t today) {
    kiln_person_keys found = {0};
    kiln_key name;
    for (uint32_t which = 0; which < KILN_ARRAY_COUNT(kind); which++) {
        uint32_t first = 0, end = 0;
        if (name_of(person, which, &name)) end = kiln_keys_range(keys, &name, &first);
        for (uint32_t i = first; i < end; i++) {
            if (!is_good(&keys->key.data[i], today)) continue;
            found.has_any = true;
            found.has_token |= name.is_token;
            found.is_admin |= name.role == KILN_PEER_ADMIN;
        }
    }
    return found;
}

const kiln_key *kiln_keys_token(const kiln_keys *keys, kiln_str person, kiln_str secret,
                                uint32_t today) {
    const kiln_key *found = NULL;
    kiln_digest given, listed;
    kiln_key name;
    if (secret.size != KILN_KEY_BYTES) return NULL;
    kiln_digest_of(secret.data, secret.size, &given);
    for (uint32_t which = 0; which < KILN_ARRAY_COUNT(kind); which++) {
        uint32_t first = 0, end = 0;
        if (kind[which].is_token && name_of(person, which, &name))
            end = kiln_keys_range(keys, &name, &first);
        for (uint32_t i = first; i < end; i++) {
            const kiln_key *key = &keys->key.data[i];
            memcpy(listed.byte, key->secret, sizeof listed.byte);
            if (kiln_digest_equal_secret(&given, &listed) && is_good(key, today)) found = key;
        }
    }
    return found;
}
