#include "cli/module_trust.h"

#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "cli/cli.h"
#include "cli/common/records.h"
#include "db/trust.h"
#include "deploy/pack/pack.h"
#include "deploy/runtime/module_open.h"
#include "deploy/runtime/module_read.h"
#include "proto/net.h"

#define TRUST_FILE_MAX (1u << 20)
#define KEY_FILE_HEAD "kiln-keys "

const char kiln_trust_help[] =
    "accept only a module signed by WHO (kiln key sign): 64 hexadecimal digits, a file of such "
    "lines or of keys, or a name that kiln key trust shows";

/* ---- signatures ------------------------------------------------------------------------------ */

/* What is signed of a module without its block. */
typedef struct message {
    char byte[sizeof KILN_MODULE_SIGNED_TEXT - 1 + sizeof(kiln_digest)];
} message;

static kiln_str message_of(kiln_str module, message *out) {
    const size_t text = sizeof KILN_MODULE_SIGNED_TEXT - 1;
    kiln_digest digest;
    kiln_digest_of(module.data, module.size, &digest);
    memcpy(out->byte, KILN_MODULE_SIGNED_TEXT, text);
    memcpy(out->byte + text, digest.byte, sizeof digest.byte);
    return (kiln_str){out->byte, sizeof out->byte};
}

static kiln_status check(kiln_str module, const kiln_signature *signature,
                         kiln_module_signed *signed_by) {
    kiln_sign_checker *checker = NULL;
    message text;
    signed_by->state = KILN_MODULE_SIGNED_UNCHECKED;
    if (!kiln_sign_supported()) return KILN_OK;
    kiln_status st = kiln_sign_checker_create(&signed_by->half, &checker);
    if (st) return st;
    signed_by->state = kiln_sign_check(checker, message_of(module, &text), signature)
                           ? KILN_MODULE_SIGNED
                           : KILN_MODULE_SIGNED_WRONG;
    kiln_sign_checker_destroy(checker);
    return KILN_OK;
}

kiln_status kiln_module_signed_read(kiln_str file, kiln_module_signed *out_signed) {
    kiln_str module, block;
    kiln_signature signature;
    kiln_module_signed found = {.state = KILN_MODULE_UNSIGNED};
    kiln_status st = kiln_module_split(file, &module, &block);
    if (!st && block.size) {
        memcpy(found.half.byte, block.data + KILN_MODULE_SIGNED_AT_PUBLIC, sizeof found.half.byte);
        memcpy(signature.byte, block.data + KILN_MODULE_SIGNED_AT_SIGNATURE, sizeof signature.byte);
        kiln_sign_public_print(&found.half, found.signer);
        st = check(module, &signature, &found);
    }
    if (!st) *out_signed = found;
    return st;
}

/* The module, and the block behind it. */
static kiln_status append_signed(kiln_str module, kiln_signer *signer, kiln_strbuf *out) {
    char block[KILN_MODULE_SIGNED_BYTES];
    kiln_signature signature;
    message text;
    kiln_status st = kiln_sign(signer, message_of(module, &text), &signature);
    if (st) return st;
    memcpy(block, KILN_MODULE_SIGNED_MAGIC, 8);
    memcpy(block + KILN_MODULE_SIGNED_AT_PUBLIC, kiln_signer_public(signer)->byte,
           KILN_SIGN_PUBLIC_BYTES);
    memcpy(block + KILN_MODULE_SIGNED_AT_SIGNATURE, signature.byte, sizeof signature.byte);
    const uint64_t checksum = kiln_hash64(block, KILN_MODULE_SIGNED_AT_CHECKSUM, 0);
    memcpy(block + KILN_MODULE_SIGNED_AT_CHECKSUM, &checksum, sizeof checksum);
    kiln_strbuf_append(out, module.data, module.size);
    kiln_strbuf_append(out, block, sizeof block);
    return KILN_OK;
}

kiln_status kiln_module_sign(const char *path, kiln_signer *signer) {
    kiln_mapping file = {0};
    kiln_module *module = NULL;
    kiln_strbuf out = {0};
    kiln_str bytes = {0}, block;
    kiln_status st = kiln_file_map(path, &file);
    if (!st) st = kiln_module_inspect((kiln_str){file.data, file.size}, 0, &module);
    kiln_module_close(module);
    if (!st) st = kiln_module_split((kiln_str){file.data, file.size}, &bytes, &block);
    if (!st) st = append_signed(bytes, signer, &out);
    kiln_file_unmap(&file);
    if (!st) st = kiln_file_write(path, kiln_strbuf_view(&out), KILN_MODULE_FILE_MODE);
    kiln_strbuf_deinit(&out);
    return kiln_status_note(st, "signing %s", path);
}

/* ---- whom to trust --------------------------------------------------------------------------- */

/* A tracker's or a node's key file: keys that have ended sign nothing any more. */
static kiln_status find_in_keys(const char *path, const kiln_sign_public *half, uint32_t *count,
                                bool *found) {
    kiln_keys keys = {0};
    kiln_status st = kiln_keys_read(path, &keys);
    for (uint32_t i = 0; !st && i < keys.key.count; i++) {
        const kiln_key *key = &keys.key.data[i];
        if (!key->has_public || key->state == KILN_KEY_REVOKED) continue;
        ++*count;
        *found |= memcmp(key->public_half.byte, half->byte, sizeof half->byte) == 0;
    }
    kiln_keys_deinit(&keys);
    return st;
}

/* Lines that begin with a public half; what follows it is a remark. */
static void find_in_lines(kiln_str text, const kiln_sign_public *half, uint32_t *count,
                          bool *found) {
    while (text.size) {
        kiln_str line = kiln_str_trim(kiln_str_cut(&text, '\n'));
        kiln_sign_public listed;
        if (!kiln_sign_public_parse(kiln_str_cut(&line, ' '), &listed)) continue;
        ++*count;
        *found |= memcmp(listed.byte, half->byte, sizeof half->byte) == 0;
    }
}

static kiln_status find_in_file(const char *path, const kiln_sign_public *half, kiln_arena *process,
                                bool *found) {
    kiln_str text = {0};
    uint32_t count = 0;
    kiln_status st = kiln_file_read(path, TRUST_FILE_MAX, process, &text);
    if (st) return st;
    if (kiln_str_starts(text, KEY_FILE_HEAD))
        st = find_in_keys(path, half, &count, found);
    else
        find_in_lines(text, half, &count, found);
    if (!st && count == 0)
        st = KILN_ERROR(NOT_FOUND,
                        "--trust %s: the file has no public half; it needs lines of 64 hexadecimal "
                        "digits, as kiln key sign prints them, or keys",
                        path);
    return st;
}

static kiln_status nobody(const char *who) {
    return KILN_ERROR(NOT_FOUND,
                      "--trust %s: no file and no signer that this user's database knows; kiln key "
                      "trust lists them, and takes the public half that kiln key sign prints",
                      who);
}

static kiln_status find_by_name(const char *who, const kiln_sign_public *half, kiln_arena *process,
                                bool *found) {
    const char *path = NULL;
    kiln_db *db = NULL;
    kiln_db_signer signer;
    kiln_db_trust trust = KILN_DB_TRUST_REFUSED;
    kiln_sign_public named;
    bool known = false;
    kiln_status st = kiln_db_path(NULL, process, &path);
    if (!st && !kiln_db_is_there(path)) return nobody(who);
    if (!st) st = kiln_db_open(path, KILN_DB_RECORDS, KILN_DB_READ, &db);
    if (!st) st = kiln_db_find_signer(db, kiln_str_from(who), process, &signer, &known);
    if (!st && known) st = kiln_db_trust_of(db, signer.id, &trust);
    kiln_db_close(db);
    if (st) return st;
    if (!known || !kiln_sign_public_parse(signer.id, &named)) return nobody(who);
    if (!kiln_db_trust_counts(trust))
        return KILN_ERROR(PERMISSION_DENIED,
                          "--trust %s: this signer is not trusted here; kiln key trust %s", who,
                          who);
    *found |= memcmp(named.byte, half->byte, sizeof half->byte) == 0;
    return KILN_OK;
}

static kiln_status find_signer(const char *who, const kiln_sign_public *half, kiln_arena *process,
                               bool *found) {
    kiln_sign_public named;
    if (kiln_sign_public_parse(kiln_str_from(who), &named)) {
        *found |= memcmp(named.byte, half->byte, sizeof half->byte) == 0;
        return KILN_OK;
    }
    return kiln_file_exists(who) ? find_in_file(who, half, process, found)
                                 : find_by_name(who, half, process, found);
}

kiln_status kiln_module_check_trust(kiln_str file, const kiln_opt_list *trust,
                                    kiln_arena *process) {
    kiln_module_signed by;
    bool found = false;
    kiln_status st = kiln_module_signed_read(file, &by);
    if (st) return st;
    switch (by.state) {
    case KILN_MODULE_UNSIGNED:
        return KILN_ERROR(PERMISSION_DENIED, "it has no signature; kiln key sign makes one");
    case KILN_MODULE_SIGNED_UNCHECKED:
        return KILN_ERROR(UNIMPLEMENTED, "this build has no OpenSSL: it checks no signatures");
    case KILN_MODULE_SIGNED_WRONG:
        return KILN_ERROR(PERMISSION_DENIED, "it is not what %s signed", by.signer);
    case KILN_MODULE_SIGNED: break;
    }
    for (size_t i = 0; !st && i < trust->count; i++)
        st = find_signer(trust->item[i], &by.half, process, &found);
    if (!st && !found)
        st = KILN_ERROR(PERMISSION_DENIED, "it is signed by %s, which --trust does not name",
                        by.signer);
    return st;
}

kiln_status kiln_module_read_trusted(const char *path, const kiln_opt_list *trust,
                                     kiln_arena *process, kiln_str *out_bytes) {
    kiln_mapping file = {0};
    kiln_status st = kiln_file_map(path, &file);
    if (st) return st;
    char *copy = kiln_arena_alloc_aligned(process, KILN_MODULE_SECTION_ALIGNMENT, file.size);
    memcpy(copy, file.data, file.size);
    const kiln_str bytes = {copy, file.size};
    kiln_file_unmap(&file);
    st = kiln_module_check_trust(bytes, trust, process);
    if (!st) *out_bytes = bytes;
    return st;
}
