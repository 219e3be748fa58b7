#include "proto/net/keyring.h"

uint32_t kiln_keyring_count(const kiln_keyring *ring) { return kiln_keys_in_force(&ring->keys); }

void kiln_keyring_each(const kiln_keyring *ring, void (*visit)(void *context, const kiln_key *key),
                       void *context) {
    for (uint32_t i = 0; i < ring->keys.key.count; i++) visit(context, &ring->keys.key.data[i]);
}

const kiln_key *kiln_keyring_find(const kiln_keyring *ring, const kiln_key *name) {
    const kiln_key *key = name->is_token ? NULL : kiln_keys_find(&ring->keys, name);
    return key && !kiln_key_has_expired(key, ring->today) ? key : NULL;
}

kiln_person_keys kiln_keyring_person(const kiln_keyring *ring, kiln_str person) {
    return kiln_keys_of_person(&ring->keys, person, ring->today);
}

const kiln_key *kiln_keyring_token(const kiln_keyring *ring, kiln_str person, kiln_str secret) {
    return kiln_keys_token(&ring->keys, person, secret, ring->today);
}

bool kiln_keyring_has_token(const kiln_keyring *ring, kiln_str person, kiln_str name) {
    kiln_key token = {0};
    kiln_status st = kiln_key_name_parse(name, &token);
    const bool is_theirs = !st && token.is_token && kiln_str_is(person, token.node);
    kiln_status_free(st); /* no token has a name that does not parse */
    const kiln_key *key = is_theirs ? kiln_keys_find(&ring->keys, &token) : NULL;
    return key && !kiln_key_has_expired(key, ring->today);
}

const kiln_key *kiln_keyring_signer(const kiln_keyring *ring, const kiln_key *name,
                                    const kiln_sign_public *half) {
    return kiln_keys_signer(&ring->keys, name, half, ring->today);
}

kiln_status kiln_keyring_refusal(const kiln_keyring *ring, const kiln_key *name) {
    char text[KILN_KEY_NAME_BYTES], day[KILN_DAY_TEXT];
    const kiln_key *key = kiln_keys_find(&ring->keys, name);
    kiln_key_name_print(name, text);
    if (key && kiln_key_has_expired(key, ring->today)) {
        kiln_day_print(key->last_day, day);
        return KILN_ERROR(UNAUTHENTICATED, "the key %s was valid until %s", text, day);
    }
    if (!key && kiln_keys_was_revoked(&ring->keys, name))
        return KILN_ERROR(UNAUTHENTICATED, "the key %s was revoked", text);
    return KILN_ERROR(UNAUTHENTICATED, "no key of ours: '%s'", text);
}

const kiln_key *kiln_keyring_offer(const kiln_keyring *ring, const kiln_key *key) {
    return kiln_keys_offer(&ring->keys, key);
}
