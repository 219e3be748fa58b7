#include "proto/signing.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "proto/net.h"
#include "proto/net/secret_file.h"

#define HEAD "kiln-signing 1\n"
#define NO_KEY \
    "holds no key; remove it to get a new one (records that the old one signed stay right)"

/* Two programs that start at once must not draw two keys. */
static kiln_status load_own(const char *home, uint8_t seed[KILN_SIGN_SEED_BYTES]) {
    kiln_strbuf path = {0};
    kiln_digest own;
    int lock = -1;
    kiln_strbuf_printf(&path, "%s/signing.key", home);
    kiln_status st = KILN_OK;
    if (!kiln_file_exists(path.data)) st = kiln_file_lock(path.data, &lock);
    if (!st)
        st = kiln_file_exists(path.data) ? kiln_secret_load(path.data, HEAD, NO_KEY, &own)
                                         : kiln_secret_create(path.data, HEAD, &own);
    if (!st) memcpy(seed, own.byte, KILN_SIGN_SEED_BYTES);
    explicit_bzero(&own, sizeof own);
    if (lock >= 0) close(lock);
    kiln_strbuf_deinit(&path);
    return st;
}

/* The seed of a node's key file; *out_found false: its key has none. */
static kiln_status load_of_key(const char *path, uint8_t seed[KILN_SIGN_SEED_BYTES],
                               kiln_signing *signing, bool *out_found) {
    kiln_keys keys = {0};
    const kiln_key *key = NULL;
    kiln_status st = kiln_keys_read(path, &keys);
    if (!st) st = kiln_status_note(kiln_keys_newest(&keys, NULL, &key), "%s", path);
    if (!st) {
        *out_found = key->has_seed;
        if (key->has_seed) memcpy(seed, key->seed, KILN_SIGN_SEED_BYTES);
        signing->has_before = key->has_seed && key->has_before;
        signing->succession = key->succession;
    }
    kiln_keys_deinit(&keys);
    return st;
}

kiln_status kiln_signing_load(const char *home, const char *key_file, kiln_signing *out_signing) {
    uint8_t seed[KILN_SIGN_SEED_BYTES];
    kiln_strbuf path = {0};
    bool found = false;
    *out_signing = (kiln_signing){0};
    if (!kiln_sign_supported()) return KILN_OK;
    if (key_file)
        kiln_strbuf_text(&path, key_file);
    else
        kiln_strbuf_printf(&path, "%s/key", home);
    kiln_status st = KILN_OK;
    if (key_file || kiln_file_exists(path.data))
        st = load_of_key(path.data, seed, out_signing, &found);
    if (!st && !found) st = load_own(home, seed);
    if (!st) st = kiln_signer_create(seed, &out_signing->signer);
    explicit_bzero(seed, sizeof seed);
    kiln_strbuf_deinit(&path);
    return kiln_status_note(st, "loading the key that signs records");
}
