#include "cli/release.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"

#define ARCHIVE_SUFFIX ".tar.zst"
#define STATEMENT_MODE 0644

static bool copy_word(kiln_str word, char out[KILN_RELEASE_WORD_MAX]) {
    if (word.size == 0 || word.size >= KILN_RELEASE_WORD_MAX) return false;
    memcpy(out, word.data, word.size);
    out[word.size] = '\0';
    return true;
}

/* What is after the last `separator`, which is cut off with it; empty: there is none. */
static kiln_str cut_last(kiln_str *rest, char separator) {
    for (size_t i = rest->size; i > 0; i--) {
        if (rest->data[i - 1] != separator) continue;
        const kiln_str last = kiln_str_slice(*rest, i, rest->size);
        *rest = kiln_str_slice(*rest, 0, i - 1);
        return last;
    }
    return (kiln_str){0};
}

/* Name, version and processor of an archive, which its file name says. */
static kiln_status read_name(const char *path, kiln_release *release) {
    const char *slash = strrchr(path, '/');
    kiln_str rest = kiln_str_from(slash ? slash + 1 : path);
    const kiln_str suffix = KILN_STR(ARCHIVE_SUFFIX);
    bool good = kiln_str_ends(rest, ARCHIVE_SUFFIX);
    if (good) rest = kiln_str_slice(rest, 0, rest.size - suffix.size);
    const kiln_str arch = cut_last(&rest, '-'), version = cut_last(&rest, '-');
    good = good && copy_word(arch, release->arch) && copy_word(version, release->version) &&
           copy_word(rest, release->name);
    if (good) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT,
                      "%s: an archive of a release is called NAME-VERSION-ARCH" ARCHIVE_SUFFIX
                      "; deploy/release.sh makes them",
                      path);
}

/* Size and digest of the bytes of a file. */
static kiln_status read_archive(const char *path, uint64_t *out_size, kiln_digest *out_digest) {
    kiln_mapping file = {0};
    kiln_status st = kiln_file_map(path, &file);
    if (st) return st;
    *out_size = file.size;
    kiln_digest_of(file.data, file.size, out_digest);
    kiln_file_unmap(&file);
    return KILN_OK;
}

kiln_status kiln_release_file_sign(const char *path, kiln_signer *signer, kiln_arena *process) {
    kiln_release release = {0};
    kiln_strbuf text = {0};
    kiln_status st = read_name(path, &release);
    if (!st) st = read_archive(path, &release.size_bytes, &release.digest);
    if (!st) st = kiln_release_sign(&release, signer, &text);
    if (!st)
        st = kiln_file_write(kiln_arena_printf(process, "%s" KILN_RELEASE_SUFFIX, path),
                             kiln_strbuf_view(&text), STATEMENT_MODE);
    kiln_strbuf_deinit(&text);
    return kiln_status_note(st, "signing %s", path);
}

static kiln_status compare(const char *path, const kiln_release *release) {
    uint64_t size = 0;
    kiln_digest digest;
    kiln_status st = read_archive(path, &size, &digest);
    if (st) return st;
    if (size == release->size_bytes && kiln_digest_equal(&digest, &release->digest)) return KILN_OK;
    return KILN_ERROR(DATA_LOSS,
                      "%s is not the archive that was signed: the statement has another %s", path,
                      size == release->size_bytes ? "sha256" : "size");
}

kiln_status kiln_release_file_check(const char *path, const char *keys, kiln_arena *process,
                                    kiln_release *out_release) {
    const char *statement = kiln_arena_printf(process, "%s" KILN_RELEASE_SUFFIX, path);
    kiln_release release;
    kiln_release_keys trusted;
    kiln_str text;
    kiln_status st = kiln_file_read(keys, KILN_RELEASE_KEYS_TEXT_MAX, process, &text);
    if (!st) st = kiln_release_keys_parse(text, &trusted);
    st = kiln_status_note(st, "reading %s", keys);
    if (!st) st = kiln_file_read(statement, KILN_RELEASE_TEXT_MAX, process, &text);
    if (!st)
        st = kiln_status_note(kiln_release_check(text, &trusted, &release), "in %s", statement);
    if (!st) st = compare(path, &release);
    if (!st) *out_release = release;
    return st;
}
