/* Fuzzes statements about releases and files of release keys. What is read as a statement has one
 * spelling: reading and comparing versions must not fail, and no statement is trusted without its
 * key. */
#include "base/check.h"
#include "base/sign/release.h"
#include "tests/fuzz/fuzz.h"

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    const kiln_str text = {(const char *)data, size};
    kiln_release release;
    kiln_release_keys keys = {0};
    kiln_status st = kiln_release_parse(text, &release);
    if (!st) {
        const kiln_str version = kiln_str_from(release.version);
        KILN_CHECK(kiln_release_is_version(version));
        KILN_CHECK(kiln_release_compare_versions(version, version) == 0);
        st = kiln_release_check(text, &keys, &release);
        KILN_CHECK(st);
    }
    kiln_status_free(st);
    kiln_status_free(kiln_release_keys_parse(text, &keys));
    KILN_CHECK(keys.count <= KILN_RELEASE_KEYS_MAX);
    return 0;
}
