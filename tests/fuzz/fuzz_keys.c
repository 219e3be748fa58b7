/* Fuzzes the text of key files: what is accepted prints to a text that parses to the same, is
 * sorted, and keeps its limits; what is refused leaves nothing. */
#include <string.h>

#include "base/check.h"
#include "proto/keys.h"
#include "tests/fuzz/fuzz.h"

static void check_order(const kiln_keys *keys) {
    KILN_CHECK(keys->key.count <= KILN_KEYS_MAX);
    for (uint32_t i = 0; i < keys->key.count; i++) {
        const kiln_key *key = &keys->key.data[i];
        KILN_CHECK(key->role != KILN_PEER_TRACKER && key->generation != 0);
        KILN_CHECK(kiln_keys_find(keys, key) == (key->state == KILN_KEY_REVOKED ? NULL : key));
    }
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_keys keys = {0}, again = {0};
    kiln_strbuf text = {0}, text_again = {0};
    kiln_status st = kiln_keys_parse((kiln_str){(const char *)data, size}, &keys);
    KILN_CHECK(!st || keys.key.count == 0);
    if (!st) {
        check_order(&keys);
        kiln_keys_print(&keys, &text);
        st = kiln_keys_parse(kiln_strbuf_view(&text), &again);
        KILN_CHECK(st == NULL);
        kiln_keys_print(&again, &text_again);
        KILN_CHECK(kiln_str_equal(kiln_strbuf_view(&text), kiln_strbuf_view(&text_again)));
    }
    if (keys.key.count) {
        kiln_key node = keys.key.data[size % keys.key.count];
        const kiln_key *added = NULL;
        node.generation = 0;
        kiln_status full = kiln_keys_add(&keys, &node, &added);
        KILN_CHECK(full || kiln_keys_revoke(&keys, added) == 1);
        kiln_status_free(full);
        KILN_CHECK(kiln_keys_revoke(&keys, &node) <= KILN_KEY_GENERATIONS);
    }
    kiln_status_free(st);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&text_again);
    kiln_keys_deinit(&keys);
    kiln_keys_deinit(&again);
    return 0;
}
