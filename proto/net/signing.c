#include "proto/signing.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/rand.h"
#include "proto/net.h"

#define SIGNING_FILE_MAX 4096u
#define HEAD "kiln-signing 1\n"

static kiln_status write_new(const char *path, uint8_t seed[KILN_SIGN_SEED_BYTES]) {
    kiln_strbuf text = {0};
    kiln_digest digits;
    char hex[KILN_DIGEST_TEXT];
    kiln_status st = kiln_rand_system(seed, KILN_SIGN_SEED_BYTES);
    if (st) return st;
    memcpy(digits.byte, seed, sizeof digits.byte);
    kiln_digest_print(&digits, hex);
    kiln_strbuf_printf(&text, HEAD "%s\n", hex);
    st = kiln_file_write(path, kiln_strbuf_view(&text), 0600);
    explicit_bzero(&digits, sizeof digits);
    explicit_bzero(hex, sizeof hex);
    explicit_bzero(text.data, text.size);
    kiln_strbuf_deinit(&text);
    return st;
}

static kiln_status read_old(const char *path, uint8_t seed[KILN_SIGN_SEED_BYTES]) {
    struct stat info;
    if (stat(path, &info) == 0 && (info.st_mode & 077))
        return KILN_ERROR(PERMISSION_DENIED, "%s can be read by others; chmod 600 %s", path, path);
    kiln_arena arena;
    kiln_arena_init(&arena, SIGNING_FILE_MAX);
    kiln_str text = {0};
    kiln_digest digits = {{0}};
    kiln_status st = kiln_file_read(path, SIGNING_FILE_MAX, &arena, &text);
    kiln_str hex = kiln_str_slice(text, strlen(HEAD), text.size);
    if (!st && (!kiln_str_starts(text, HEAD) || !kiln_digest_parse(kiln_str_trim(hex), &digits)))
        st = KILN_ERROR(DATA_LOSS,
                        "%s holds no key; remove it to get a new one (records that the old one "
                        "signed stay right)",
                        path);
    if (!st) memcpy(seed, digits.byte, KILN_SIGN_SEED_BYTES);
    explicit_bzero(&digits, sizeof digits);
    if (text.size) explicit_bzero((char *)(uintptr_t)text.data, text.size);
    kiln_arena_deinit(&arena);
    return st;
}

/* Two programs that start at once must not draw two keys. */
static kiln_status load_own(const char *home, uint8_t seed[KILN_SIGN_SEED_BYTES]) {
    kiln_strbuf path = {0};
    int lock = -1;
    kiln_strbuf_printf(&path, "%s/signing.key", home);
    kiln_status st = KILN_OK;
    if (!kiln_file_exists(path.data)) st = kiln_file_lock(path.data, &lock);
    if (!st)
        st = kiln_file_exists(path.data) ? read_old(path.data, seed) : write_new(path.data, seed);
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
