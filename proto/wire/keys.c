/* Key files as text; see proto/keys.h. */
#include "proto/keys.h"

#include <string.h>

#include "base/check.h"

#define FIRST_LINE "kiln-keys 1"

void kiln_keys_deinit(kiln_keys *keys) {
    if (keys->key.data) explicit_bzero(keys->key.data, keys->key.capacity * sizeof *keys->key.data);
    kiln_vec_deinit(&keys->key);
    *keys = (kiln_keys){0};
}

/* ---- Names ---- */

static bool is_node(kiln_str text) {
    if (text.size == 0 || text.size > KILN_MESSAGES_TEXT) return false;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool digit = c >= '0' && c <= '9';
        if (!letter && !digit && c != '.' && c != '-' && c != '_') return false;
    }
    return true;
}

kiln_status kiln_key_name_parse(kiln_str text, kiln_key *out_name) {
    kiln_key name = {0};
    kiln_str rest = text;
    kiln_str role = kiln_str_cut(&rest, '/'), node = kiln_str_cut(&rest, '/');
    uint64_t generation = 0;
    if (!kiln_peer_role_find(role, &name.role) || name.role == KILN_PEER_TRACKER)
        return KILN_ERROR(
            INVALID_ARGUMENT,
            "'%.*s': a key is called ROLE/NODE, the role one of board, client, tuner, "
            "builder, admin",
            KILN_STR_ARG(text));
    if (!is_node(node))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "'%.*s': the node is 1 to %d letters, digits, dots, dashes, underscores",
                          KILN_STR_ARG(text), KILN_MESSAGES_TEXT);
    bool has_generation = node.data + node.size < text.data + text.size;
    if (has_generation && (!kiln_str_to_u64(rest, &generation) || generation == 0 ||
                           generation > KILN_KEY_GENERATION_MAX))
        return KILN_ERROR(INVALID_ARGUMENT, "'%.*s': the generation is a number from 1",
                          KILN_STR_ARG(text));
    memcpy(name.node, node.data, node.size);
    name.generation = (uint32_t)generation;
    *out_name = name;
    return KILN_OK;
}

void kiln_key_name_print(const kiln_key *name, char out_text[KILN_KEY_NAME_BYTES]) {
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "%s/%s", kiln_peer_role_name(name->role), name->node);
    if (name->generation) kiln_strbuf_printf(&text, "/%u", name->generation);
    KILN_CHECK(text.size < KILN_KEY_NAME_BYTES);
    memcpy(out_text, text.data, text.size + 1);
    kiln_strbuf_deinit(&text);
}

/* ---- The order ---- */

static int compare_nodes(const kiln_key *a, const kiln_key *b) {
    if (a->role != b->role) return a->role < b->role ? -1 : 1;
    return strcmp(a->node, b->node);
}

static int compare(const kiln_key *a, const kiln_key *b) {
    int order = compare_nodes(a, b);
    if (order || a->generation == b->generation) return order;
    return a->generation < b->generation ? -1 : 1;
}

/* Index of the first key that is not before `name`. */
static uint32_t lower_bound(const kiln_keys *keys, const kiln_key *name) {
    uint32_t low = 0, high = keys->key.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare(&keys->key.data[middle], name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Index behind the last generation of the node; `*out_first` that of its first one. */
static uint32_t range_of(const kiln_keys *keys, const kiln_key *name, uint32_t *out_first) {
    kiln_key any = *name;
    any.generation = 0;
    uint32_t end = *out_first = lower_bound(keys, &any);
    while (end < keys->key.count && compare_nodes(&keys->key.data[end], name) == 0) end++;
    return end;
}

const kiln_key *kiln_keys_find(const kiln_keys *keys, const kiln_key *name) {
    uint32_t at = lower_bound(keys, name);
    bool found = at < keys->key.count && compare(&keys->key.data[at], name) == 0;
    return found ? &keys->key.data[at] : NULL;
}

kiln_status kiln_keys_newest(const kiln_keys *keys, const kiln_key *name,
                             const kiln_key **out_key) {
    if (keys->key.count == 0) return KILN_ERROR(NOT_FOUND, "there is no key in it");
    uint32_t first = 0, end = range_of(keys, name ? name : &keys->key.data[0], &first);
    if (!name && end != keys->key.count)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "it holds the keys of several nodes; a node's own file is what `kiln key "
                          "new` wrote for it");
    if (end == first)
        return KILN_ERROR(NOT_FOUND, "there is no key of %s %s", kiln_peer_role_name(name->role),
                          name->node);
    *out_key = &keys->key.data[end - 1];
    return KILN_OK;
}

/* ---- Changes ---- */

static void remove_range(kiln_keys *keys, uint32_t first, uint32_t end) {
    kiln_key *data = keys->key.data;
    uint32_t left = keys->key.count - end;
    memmove(data + first, data + end, left * sizeof *data);
    explicit_bzero(data + first + left, (end - first) * sizeof *data);
    keys->key.count = first + left;
}

static kiln_status insert(kiln_keys *keys, const kiln_key *key) {
    uint32_t at = lower_bound(keys, key);
    if (keys->key.count == KILN_KEYS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "more than %u keys", KILN_KEYS_MAX);
    kiln_vec_push(&keys->key, *key);
    kiln_key *data = keys->key.data;
    memmove(data + at + 1, data + at, (keys->key.count - 1 - at) * sizeof *data);
    data[at] = *key;
    return KILN_OK;
}

kiln_status kiln_keys_add(kiln_keys *keys, const kiln_key *name,
                          const uint8_t secret[KILN_KEY_BYTES], const kiln_key **out_key) {
    kiln_key key = *name;
    uint32_t first = 0, end = range_of(keys, name, &first);
    key.generation = end > first ? keys->key.data[end - 1].generation + 1 : 1;
    memcpy(key.secret, secret, sizeof key.secret);
    if (key.generation > KILN_KEY_GENERATION_MAX)
        return KILN_ERROR(OUT_OF_RANGE, "%s has used up its generations; give it another name",
                          name->node);
    if (end - first >= KILN_KEY_GENERATIONS)
        remove_range(keys, first, end - KILN_KEY_GENERATIONS + 1);
    kiln_status st = insert(keys, &key);
    explicit_bzero(&key.secret, sizeof key.secret);
    if (!st) *out_key = kiln_keys_find(keys, &key);
    return st;
}

uint32_t kiln_keys_revoke(kiln_keys *keys, const kiln_key *name) {
    uint32_t first = 0, end = range_of(keys, name, &first);
    if (name->generation) {
        first = lower_bound(keys, name);
        end = first + (kiln_keys_find(keys, name) != NULL);
    }
    remove_range(keys, first, end);
    return end - first;
}

bool kiln_key_may_speak_as(kiln_peer_role role, kiln_peer_role as) {
    return role == as || (role == KILN_PEER_ADMIN && as == KILN_PEER_CLIENT);
}

kiln_status kiln_key_check_role(const kiln_key *key, kiln_peer_role as) {
    if (kiln_key_may_speak_as(key->role, as)) return KILN_OK;
    return KILN_ERROR(PERMISSION_DENIED, "the key of a %s does not let it speak as %s",
                      kiln_peer_role_name(key->role), kiln_peer_role_name(as));
}

kiln_status kiln_key_check_hello(const kiln_key *key, const kiln_msg_hello *hello) {
    kiln_status st = kiln_key_check_role(key, (kiln_peer_role)hello->role);
    if (st) return st;
    if (!kiln_str_is(hello->node, key->node))
        return KILN_ERROR(PERMISSION_DENIED, "the key of %s does not let it speak as %.*s",
                          key->node, KILN_STR_ARG(hello->node));
    return KILN_OK;
}

/* ---- Text ---- */

static bool parse_secret(kiln_str text, uint8_t out_secret[KILN_KEY_BYTES]) {
    kiln_digest bytes; /* 32 bytes as 64 hex digits */
    if (!kiln_digest_parse(text, &bytes)) return false;
    memcpy(out_secret, bytes.byte, KILN_KEY_BYTES);
    explicit_bzero(&bytes, sizeof bytes);
    return true;
}

static kiln_status parse_line(kiln_str line, kiln_keys *keys) {
    kiln_key key;
    uint32_t first = 0;
    kiln_str rest = line, name = kiln_str_cut(&rest, ' ');
    kiln_status st = kiln_key_name_parse(name, &key);
    if (!st && key.generation == 0) st = KILN_ERROR(DATA_LOSS, "the generation is missing");
    if (!st && !parse_secret(kiln_str_trim(rest), key.secret))
        st = KILN_ERROR(DATA_LOSS, "the secret is not 64 hexadecimal digits"); /* never shown */
    if (!st && kiln_keys_find(keys, &key)) st = KILN_ERROR(DATA_LOSS, "the key comes twice");
    uint32_t end = st ? 0 : range_of(keys, &key, &first);
    if (!st && end - first >= KILN_KEY_GENERATIONS)
        st = KILN_ERROR(DATA_LOSS, "more than %u generations of one node", KILN_KEY_GENERATIONS);
    if (!st) st = insert(keys, &key);
    explicit_bzero(&key, sizeof key);
    return st;
}

static kiln_status line_error(kiln_status st, uint32_t number) {
    kiln_status error =
        KILN_ERROR(DATA_LOSS, "line %u of the key file: %s", number, kiln_status_text(st));
    kiln_status_free(st);
    return error;
}

kiln_status kiln_keys_parse(kiln_str text, kiln_keys *out_keys) {
    kiln_keys keys = {0};
    kiln_status st = KILN_OK;
    bool begun = false;
    for (uint32_t number = 1; !st && text.size; number++) {
        kiln_str line = kiln_str_trim(kiln_str_cut(&text, '\n'));
        if (line.size == 0 || line.data[0] == '#') continue;
        if (begun)
            st = parse_line(line, &keys);
        else if (!kiln_str_is(line, FIRST_LINE))
            st = KILN_ERROR(DATA_LOSS, "a key file begins with '" FIRST_LINE "'");
        begun = true;
        if (st) st = line_error(st, number);
    }
    if (!st && !begun) st = KILN_ERROR(DATA_LOSS, "an empty file is no key file");
    if (st) kiln_keys_deinit(&keys);
    *out_keys = keys;
    return st;
}

void kiln_keys_print(const kiln_keys *keys, kiln_strbuf *out) {
    kiln_strbuf_text(out, FIRST_LINE "\n");
    for (uint32_t i = 0; i < keys->key.count; i++) {
        char name[KILN_KEY_NAME_BYTES];
        kiln_key_name_print(&keys->key.data[i], name);
        kiln_strbuf_printf(out, "%s ", name);
        for (uint32_t k = 0; k < KILN_KEY_BYTES; k++)
            kiln_strbuf_printf(out, "%02x", keys->key.data[i].secret[k]);
        kiln_strbuf_char(out, '\n');
    }
}
