#include "base/sign/release.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/macros.h"

#define HEAD "kiln release 1"
#define NUMBERS_MAX 4u /* of a version */
#define NUMBER_MAX 1000000000u
#define SIGNATURE_TEXT (2 * (KILN_DIGEST_TEXT - 1) + 1) /* 128 digits and NUL */

_Static_assert(sizeof(kiln_signature) == 2 * sizeof(kiln_digest), "printed as two halves");

static const char *const arch_names[] = {"aarch64", "armhf", "riscv64", "x86_64"};

const char *kiln_release_arch(void) {
#if defined(__aarch64__)
    return "aarch64";
#elif defined(__arm__)
    return "armhf";
#elif defined(__riscv) && __riscv_xlen == 64
    return "riscv64";
#elif defined(__x86_64__)
    return "x86_64";
#else
    return "";
#endif
}

/* ---- words ---- */

static bool is_name(kiln_str text) {
    for (size_t i = 0; i < text.size; i++) {
        const char c = text.data[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')) return false;
    }
    return text.size > 0;
}

static bool is_arch(kiln_str text) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(arch_names); i++)
        if (kiln_str_is(text, arch_names[i])) return true;
    return false;
}

/* Cuts the next number off; false: there is none. No sign, no zero ahead. */
static bool take_number(kiln_str *rest, uint64_t *out_number) {
    const kiln_str digits = kiln_str_cut(rest, '.');
    if (digits.size == 0 || digits.size > 9) return false;
    if (digits.data[0] == '0' && digits.size > 1) return false;
    for (size_t i = 0; i < digits.size; i++)
        if (digits.data[i] < '0' || digits.data[i] > '9') return false;
    return kiln_str_to_u64(digits, out_number) && *out_number < NUMBER_MAX;
}

bool kiln_release_is_version(kiln_str text) {
    uint64_t number = 0;
    size_t count = 0;
    if (text.size == 0 || kiln_str_ends(text, ".")) return false;
    for (; text.size; count++)
        if (!take_number(&text, &number)) return false;
    return count <= NUMBERS_MAX;
}

int kiln_release_compare_versions(kiln_str a, kiln_str b) {
    while (a.size || b.size) {
        uint64_t left = 0, right = 0;
        if (a.size) KILN_CHECK(take_number(&a, &left));
        if (b.size) KILN_CHECK(take_number(&b, &right));
        if (left != right) return left < right ? -1 : 1;
    }
    return 0;
}

/* ---- writing ---- */

static void print_signature(const kiln_signature *signature, char out_text[SIGNATURE_TEXT]) {
    kiln_digest half[2];
    memcpy(half, signature, sizeof half);
    kiln_digest_print(&half[0], out_text);
    kiln_digest_print(&half[1], out_text + KILN_DIGEST_TEXT - 1);
}

static bool parse_signature(kiln_str text, kiln_signature *out_signature) {
    kiln_digest half[2];
    const size_t digits = KILN_DIGEST_TEXT - 1;
    if (text.size != 2 * digits || !kiln_digest_parse(kiln_str_slice(text, 0, digits), &half[0]) ||
        !kiln_digest_parse(kiln_str_slice(text, digits, 2 * digits), &half[1]))
        return false;
    memcpy(out_signature, half, sizeof half);
    return true;
}

/* The lines that are signed. */
static void print_signed(const kiln_release *release, kiln_strbuf *text) {
    char digest[KILN_DIGEST_TEXT], key[KILN_SIGN_PUBLIC_TEXT];
    kiln_digest_print(&release->digest, digest);
    kiln_sign_public_print(&release->key, key);
    kiln_strbuf_printf(
        text, HEAD "\nname %s\nversion %s\narch %s\nsize %" PRIu64 "\nsha256 %s\nkey %s\n",
        release->name, release->version, release->arch, release->size_bytes, digest, key);
}

static void print_last(const kiln_release *release, kiln_strbuf *text) {
    char signature[SIGNATURE_TEXT];
    print_signature(&release->signature, signature);
    kiln_strbuf_printf(text, "signature %s\n", signature);
}

static kiln_status check_words(const kiln_release *release) {
    if (!is_name(kiln_str_from(release->name)))
        return KILN_ERROR(INVALID_ARGUMENT, "a release's name has lower-case letters, digits, '-'");
    if (!kiln_release_is_version(kiln_str_from(release->version)))
        return KILN_ERROR(INVALID_ARGUMENT, "'%s' is no version: numbers with dots between them",
                          release->version);
    if (!is_arch(kiln_str_from(release->arch)))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "there are no releases for '%s', but for aarch64, armhf, riscv64, x86_64",
                          release->arch);
    if (release->size_bytes == 0 || release->size_bytes > KILN_RELEASE_ARCHIVE_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "an archive has 1 byte to %" PRIu64,
                          KILN_RELEASE_ARCHIVE_MAX);
    return KILN_OK;
}

kiln_status kiln_release_sign(kiln_release *release, kiln_signer *signer, kiln_strbuf *text) {
    kiln_strbuf lines = {0};
    kiln_status st = check_words(release);
    if (st) return st;
    release->key = *kiln_signer_public(signer);
    print_signed(release, &lines);
    st = kiln_sign(signer, kiln_strbuf_view(&lines), &release->signature);
    if (!st) {
        print_signed(release, text);
        print_last(release, text);
    }
    kiln_strbuf_deinit(&lines);
    return st;
}

/* ---- reading ---- */

/* The value of the next line, which must begin with `word` and a space; false: it does not, or the
 * line has no end. */
static bool take_value(kiln_str *rest, const char *word, kiln_str *out_value) {
    const size_t end = kiln_str_find_char(*rest, '\n'), head = strlen(word);
    if (end >= rest->size) return false;
    const kiln_str line = kiln_str_slice(*rest, 0, end);
    *rest = kiln_str_slice(*rest, end + 1, rest->size);
    if (!kiln_str_starts(line, word) || line.size < head + 1 || line.data[head] != ' ')
        return false;
    *out_value = kiln_str_slice(line, head + 1, line.size);
    return true;
}

static bool take_word(kiln_str value, char out[KILN_RELEASE_WORD_MAX]) {
    if (value.size >= KILN_RELEASE_WORD_MAX || memchr(value.data, '\0', value.size)) return false;
    memcpy(out, value.data, value.size);
    out[value.size] = '\0';
    return true;
}

static kiln_status bad_line(const char *word) {
    return KILN_ERROR(INVALID_ARGUMENT,
                      "no statement about a release: its line '%s' is missing or malformed", word);
}

/* One statement has one text: no other digits, no other spelling of a number. */
static kiln_status check_spelling(const kiln_release *release, kiln_str text) {
    kiln_strbuf again = {0};
    print_signed(release, &again);
    print_last(release, &again);
    const bool same = kiln_str_equal(kiln_strbuf_view(&again), text);
    kiln_strbuf_deinit(&again);
    if (same) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT,
                      "no statement about a release: it is spelt otherwise, or text follows it");
}

kiln_status kiln_release_parse(kiln_str text, kiln_release *out_release) {
    kiln_release r = {0};
    kiln_str rest = text, value = {0};
    if (text.size > KILN_RELEASE_TEXT_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "no statement about a release: above %zu bytes",
                          KILN_RELEASE_TEXT_MAX);
    if (!take_value(&rest, "kiln release", &value) || !kiln_str_is(value, "1"))
        return bad_line(HEAD);
    if (!take_value(&rest, "name", &value) || !is_name(value) || !take_word(value, r.name))
        return bad_line("name");
    if (!take_value(&rest, "version", &value) || !kiln_release_is_version(value) ||
        !take_word(value, r.version))
        return bad_line("version");
    if (!take_value(&rest, "arch", &value) || !is_arch(value) || !take_word(value, r.arch))
        return bad_line("arch");
    if (!take_value(&rest, "size", &value) || !kiln_str_to_u64(value, &r.size_bytes))
        return bad_line("size");
    if (!take_value(&rest, "sha256", &value) || !kiln_digest_parse(value, &r.digest))
        return bad_line("sha256");
    if (!take_value(&rest, "key", &value) || !kiln_sign_public_parse(value, &r.key))
        return bad_line("key");
    if (!take_value(&rest, "signature", &value) || !parse_signature(value, &r.signature))
        return bad_line("signature");
    kiln_status st = check_words(&r);
    if (!st) st = check_spelling(&r, text);
    if (!st) *out_release = r;
    return st;
}

static bool is_trusted(const kiln_release_keys *trusted, const kiln_sign_public *key) {
    for (size_t i = 0; i < trusted->count; i++)
        if (memcmp(&trusted->key[i], key, sizeof *key) == 0) return true;
    return false;
}

kiln_status kiln_release_check(kiln_str text, const kiln_release_keys *trusted,
                               kiln_release *out_release) {
    kiln_release r;
    kiln_strbuf lines = {0};
    kiln_sign_checker *checker = NULL;
    char key[KILN_SIGN_PUBLIC_TEXT];
    kiln_status st = kiln_release_parse(text, &r);
    if (st) return st;
    kiln_sign_public_print(&r.key, key);
    if (!is_trusted(trusted, &r.key))
        return KILN_ERROR(PERMISSION_DENIED, "%s %s is signed by %s, which is no release key here",
                          r.name, r.version, key);
    st = kiln_sign_checker_create(&r.key, &checker);
    if (st) return st;
    print_signed(&r, &lines);
    if (!kiln_sign_check(checker, kiln_strbuf_view(&lines), &r.signature))
        st = KILN_ERROR(PERMISSION_DENIED, "the signature of %s %s is not that of %s", r.name,
                        r.version, key);
    kiln_sign_checker_destroy(checker);
    kiln_strbuf_deinit(&lines);
    if (!st) *out_release = r;
    return st;
}

kiln_status kiln_release_keys_parse(kiln_str text, kiln_release_keys *out_keys) {
    kiln_release_keys keys = {0};
    kiln_sign_public key;
    for (unsigned number = 1; text.size; number++) {
        kiln_str line = kiln_str_trim(kiln_str_cut(&text, '\n'));
        if (line.size == 0 || line.data[0] == '#') continue;
        if (!kiln_sign_public_parse(kiln_str_cut(&line, ' '), &key))
            return KILN_ERROR(INVALID_ARGUMENT,
                              "line %u of the release keys does not begin with the 64 hexadecimal "
                              "digits of a public half",
                              number);
        if (keys.count == KILN_RELEASE_KEYS_MAX)
            return KILN_ERROR(RESOURCE_EXHAUSTED, "more than %zu release keys",
                              KILN_RELEASE_KEYS_MAX);
        keys.key[keys.count++] = key;
    }
    *out_keys = keys;
    return KILN_OK;
}
