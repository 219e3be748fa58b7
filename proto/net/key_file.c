/* Key files: reading, writing, and which credentials a program shows. */
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/rand.h"
#include "proto/net.h"
#include "proto/net/secret_file.h"

kiln_status kiln_keys_read(const char *path, kiln_keys *out_keys) {
    kiln_arena arena = {0};
    kiln_str text = {0};
    kiln_status st = kiln_secret_file_read(path, KILN_KEY_FILE_MAX, &arena, &text);
    if (!st) st = kiln_status_note(kiln_keys_parse(text, out_keys), "%s", path);
    if (text.size) explicit_bzero((char *)(uintptr_t)text.data, text.size);
    kiln_arena_deinit(&arena);
    return st;
}

kiln_status kiln_keys_write(const char *path, const kiln_keys *keys) {
    kiln_strbuf text = {0};
    kiln_keys_print(keys, &text);
    kiln_status st = kiln_file_write(path, kiln_strbuf_view(&text), 0600);
    kiln_strbuf_wipe(&text);
    return st;
}

/* A new seed that only the node knows, signed by the one before. */
static kiln_status draw_signer(const kiln_key *before, kiln_key *next) {
    next->has_seed = before->has_seed;
    if (!before->has_seed) return KILN_OK;
    if (!kiln_sign_supported()) {
        memcpy(next->seed, before->seed, sizeof next->seed);
        return KILN_OK;
    }
    next->has_public = next->has_before = true;
    kiln_status st = kiln_rand_system(next->seed, sizeof next->seed);
    if (!st) st = kiln_sign_public_of(next->seed, &next->public_half);
    if (!st) st = kiln_succession_sign(before->seed, &next->public_half, &next->succession);
    return st;
}

kiln_status kiln_key_take(const char *path, const kiln_key *next) {
    kiln_keys own = {0}, replaced = {0};
    kiln_key taken = *next;
    const kiln_key *key = NULL, *added = NULL;
    kiln_status st = kiln_keys_read(path, &own);
    if (!st) st = kiln_keys_newest(&own, NULL, &key);
    if (!st && (key->role != next->role || strcmp(key->node, next->node) != 0))
        st = KILN_ERROR(FAILED_PRECONDITION, "%s is the key of another node", path);
    if (!st && key->generation < next->generation) {
        st = draw_signer(key, &taken);
        if (!st) st = kiln_keys_add(&replaced, &taken, &added);
        if (!st) replaced.key.data[0].generation = next->generation;
        if (!st) st = kiln_keys_write(path, &replaced);
    }
    explicit_bzero(&taken, sizeof taken);
    kiln_keys_deinit(&own);
    kiln_keys_deinit(&replaced);
    return st;
}

/* ---- Credentials ---- */

/* A dialling program sends the public half, and signs nothing. */
static kiln_status forget_seed(kiln_key *key) {
    kiln_status st = KILN_OK;
    if (key->has_seed && !key->has_public && kiln_sign_supported()) {
        st = kiln_sign_public_of(key->seed, &key->public_half);
        key->has_public = !st;
    }
    key->has_seed = false;
    explicit_bzero(key->seed, sizeof key->seed);
    return st;
}

static kiln_status load_key(const char *path, kiln_credentials *credentials) {
    kiln_keys keys = {0};
    const kiln_key *key = NULL;
    kiln_status st = kiln_keys_read(path, &keys);
    if (!st) st = kiln_status_note(kiln_keys_newest(&keys, NULL, &key), "%s", path);
    if (!st && kiln_key_has_expired(key, kiln_day_of(kiln_clock_wall_ns()))) {
        char name[KILN_KEY_NAME_BYTES], day[KILN_DAY_TEXT];
        kiln_key_name_print(key, name);
        kiln_day_print(key->last_day, day);
        st = KILN_ERROR(PERMISSION_DENIED,
                        "the key %s in %s was valid until %s: the tracker's administrator makes "
                        "another with `kiln key new`",
                        name, path, day);
    }
    if (!st) {
        credentials->key = *key;
        credentials->has_key = true;
        st = forget_seed(&credentials->key);
    }
    if (!st) {
        if (strlen(path) <= KILN_KEY_PATH_MAX)
            memcpy(credentials->key_path, path, strlen(path) + 1);
    }
    kiln_keys_deinit(&keys);
    return st;
}

kiln_status kiln_credentials_load(const kiln_address *address, const char *home,
                                  const char *key_file, bool insecure,
                                  kiln_credentials *out_credentials) {
    kiln_credentials found = {.insecure = insecure};
    kiln_status st = KILN_OK;
    if (!address->is_unix && key_file) {
        st = load_key(key_file, &found);
    } else if (!address->is_unix && !insecure) {
        kiln_strbuf path = {0};
        kiln_strbuf_printf(&path, "%s/key", home);
        bool has_file = kiln_file_exists(path.data);
        if (address->is_loopback) st = kiln_token_read(home, false, found.token);
        found.has_token = address->is_loopback && !st;
        if (has_file && !found.has_token) {
            kiln_status_free(st); /* the key is used instead */
            st = load_key(path.data, &found);
        } else if (!found.has_token && !st) {
            st = KILN_ERROR(PERMISSION_DENIED,
                            "%s is another machine and there is no key for it in %s: an "
                            "administrator makes one with `kiln key new`; --insecure sends plain "
                            "text",
                            address->host, path.data);
        }
        kiln_strbuf_deinit(&path);
    }
    if (!st) *out_credentials = found;
    explicit_bzero(&found, sizeof found);
    return st;
}

kiln_status kiln_credentials_check(const kiln_addresses *addresses, const char *home,
                                   const char *key_file, bool insecure) {
    kiln_credentials found = {0};
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < addresses->count; i++)
        st = kiln_credentials_load(&addresses->item[i], home, key_file, insecure, &found);
    explicit_bzero(&found, sizeof found);
    return st;
}
