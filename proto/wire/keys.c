/* Key files as text; see proto/keys.h. */
#include "proto/keys.h"

#include <string.h>

#include "base/alloc.h"
#include "base/check.h"

#define FIRST_LINE "kiln-keys "
#define TOKEN_WORD "web"
#define FILE_VERSION 2u              /* of files without tokens */
#define FILE_VERSION_MAX 3u          /* of files with tokens, which programs before do not read */
#define LINE_MAX_BYTES ((size_t)560) /* of one key */

void kiln_keys_deinit(kiln_keys *keys) {
    if (keys->key.data) explicit_bzero(keys->key.data, keys->key.capacity * sizeof *keys->key.data);
    kiln_vec_deinit(&keys->key);
    *keys = (kiln_keys){0};
}

/* As kiln_vec_push, but wipes the old memory. */
static void push(kiln_keys *keys, const kiln_key *key) {
    if (keys->key.count == keys->key.capacity) {
        kiln_keys larger = {0};
        kiln_vec_reserve(&larger.key, 2 * keys->key.count + 4);
        if (keys->key.count)
            memcpy(larger.key.data, keys->key.data, keys->key.count * sizeof *keys->key.data);
        larger.key.count = keys->key.count;
        kiln_keys_deinit(keys);
        *keys = larger;
    }
    keys->key.data[keys->key.count++] = *key;
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

/* "web" or "web/GENERATION", after "ROLE/NODE/". */
static bool is_token_name(kiln_str rest) {
    return kiln_str_is(kiln_str_cut(&rest, '/'), TOKEN_WORD);
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
            "builder, admin, web",
            KILN_STR_ARG(text));
    if (!is_node(node))
        return KILN_ERROR(INVALID_ARGUMENT,
                          "'%.*s': the node is 1 to %d letters, digits, dots, dashes, underscores",
                          KILN_STR_ARG(text), KILN_MESSAGES_TEXT);
    bool has_generation = node.data + node.size < text.data + text.size;
    if (is_token_name(rest)) {
        if (!kiln_peer_is_person(name.role))
            return KILN_ERROR(INVALID_ARGUMENT, "'%.*s': only clients and admins have tokens",
                              KILN_STR_ARG(text));
        name.is_token = true;
        has_generation = rest.size > strlen(TOKEN_WORD);
        rest = kiln_str_slice(rest, strlen(TOKEN_WORD) + 1, rest.size);
    }
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
    if (name->is_token) kiln_strbuf_text(&text, "/" TOKEN_WORD);
    if (name->generation) kiln_strbuf_printf(&text, "/%u", name->generation);
    KILN_CHECK(text.size < KILN_KEY_NAME_BYTES);
    memcpy(out_text, text.data, text.size + 1);
    kiln_strbuf_deinit(&text);
}

/* ---- The order ---- */

static int compare_nodes(const kiln_key *a, const kiln_key *b) {
    if (a->role != b->role) return a->role < b->role ? -1 : 1;
    const int order = strcmp(a->node, b->node);
    return order ? order : (int)a->is_token - (int)b->is_token;
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

uint32_t kiln_keys_range(const kiln_keys *keys, const kiln_key *name, uint32_t *out_first) {
    kiln_key any = {.role = name->role, .is_token = name->is_token}; /* no copy of the secret */
    memcpy(any.node, name->node, sizeof any.node);
    uint32_t end = *out_first = lower_bound(keys, &any);
    while (end < keys->key.count && compare_nodes(&keys->key.data[end], name) == 0) end++;
    return end;
}

static kiln_key *find(const kiln_keys *keys, const kiln_key *name) {
    uint32_t at = lower_bound(keys, name);
    bool found = at < keys->key.count && compare(&keys->key.data[at], name) == 0;
    return found ? &keys->key.data[at] : NULL;
}

const kiln_key *kiln_keys_find(const kiln_keys *keys, const kiln_key *name) {
    const kiln_key *found = find(keys, name);
    return found && found->state != KILN_KEY_REVOKED ? found : NULL;
}

bool kiln_keys_was_revoked(const kiln_keys *keys, const kiln_key *name) {
    uint32_t first = 0, end = kiln_keys_range(keys, name, &first);
    for (uint32_t i = first; i < end; i++)
        if (keys->key.data[i].state == KILN_KEY_REVOKED &&
            keys->key.data[i].generation >= name->generation)
            return !kiln_keys_find(keys, name);
    return false;
}

const kiln_key *kiln_keys_offer(const kiln_keys *keys, const kiln_key *key) {
    uint32_t first = 0, end = kiln_keys_range(keys, key, &first);
    for (uint32_t i = first; i < end; i++)
        if (keys->key.data[i].state == KILN_KEY_OFFERED &&
            keys->key.data[i].generation > key->generation)
            return &keys->key.data[i];
    return NULL;
}

const kiln_key *kiln_keys_signer(const kiln_keys *keys, const kiln_key *name,
                                 const kiln_sign_public *half, uint32_t today) {
    uint32_t first = 0, end = name ? kiln_keys_range(keys, name, &first) : keys->key.count;
    while (end-- > first) {
        const kiln_key *key = &keys->key.data[end];
        if (key->state == KILN_KEY_REVOKED || !key->has_public || kiln_key_has_expired(key, today))
            continue;
        if (!half || memcmp(&key->public_half, half, sizeof *half) == 0) return key;
        if (key->has_before && memcmp(&key->succession.before, half, sizeof *half) == 0) return key;
    }
    return NULL;
}

static uint32_t count_in_force(const kiln_keys *keys, uint32_t first, uint32_t end) {
    uint32_t count = 0;
    for (uint32_t i = first; i < end; i++) count += keys->key.data[i].state != KILN_KEY_REVOKED;
    return count;
}

uint32_t kiln_keys_in_force(const kiln_keys *keys) {
    return count_in_force(keys, 0, keys->key.count);
}

kiln_status kiln_keys_newest(const kiln_keys *keys, const kiln_key *name,
                             const kiln_key **out_key) {
    if (keys->key.count == 0) return KILN_ERROR(NOT_FOUND, "there is no key in it");
    uint32_t first = 0, end = kiln_keys_range(keys, name ? name : &keys->key.data[0], &first);
    if (!name && end != keys->key.count)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "it holds the keys of several nodes; a node's own file is what `kiln key "
                          "new` wrote for it");
    const kiln_key *node = name ? name : &keys->key.data[0];
    while (end > first && keys->key.data[end - 1].state == KILN_KEY_REVOKED) end--;
    if (end == first)
        return KILN_ERROR(NOT_FOUND, "there is no key of %s %s", kiln_peer_role_name(node->role),
                          node->node);
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
    push(keys, key);
    kiln_key *data = keys->key.data;
    memmove(data + at + 1, data + at, (keys->key.count - 1 - at) * sizeof *data);
    data[at] = *key;
    return KILN_OK;
}

static void drop_oldest(kiln_keys *keys, uint32_t first, uint32_t end) {
    while (first < end && keys->key.data[first].state == KILN_KEY_REVOKED) first++;
    if (first < end) remove_range(keys, first, first + 1);
}

kiln_status kiln_keys_add(kiln_keys *keys, const kiln_key *key, const kiln_key **out_key) {
    kiln_key next = *key;
    uint32_t first = 0, end = kiln_keys_range(keys, key, &first);
    next.generation = end > first ? keys->key.data[end - 1].generation + 1 : 1;
    kiln_status st = KILN_OK;
    if (next.generation > KILN_KEY_GENERATION_MAX)
        st = KILN_ERROR(OUT_OF_RANGE, "%s has used up its generations; give it another name",
                        key->node);
    if (!st && count_in_force(keys, first, end) >= KILN_KEY_GENERATIONS)
        drop_oldest(keys, first, end);
    if (!st) st = insert(keys, &next);
    if (!st) *out_key = kiln_keys_find(keys, &next);
    explicit_bzero(&next, sizeof next);
    return st;
}

static bool is_meant(const kiln_key *key, const kiln_key *name) {
    return key->state != KILN_KEY_REVOKED &&
           (name->generation == 0 || key->generation == name->generation);
}

/* Keeps one line with the highest revoked number. */
static uint32_t revoke_kind(kiln_keys *keys, const kiln_key *name) {
    uint32_t first = 0, end = kiln_keys_range(keys, name, &first), count = 0;
    kiln_key mark = {.role = name->role, .is_token = name->is_token, .state = KILN_KEY_REVOKED};
    memcpy(mark.node, name->node, sizeof mark.node);
    for (uint32_t i = first; i < end; i++) count += is_meant(&keys->key.data[i], name);
    if (count == 0) return 0;
    for (uint32_t i = end; i-- > first;) {
        const kiln_key *key = &keys->key.data[i];
        if (key->state != KILN_KEY_REVOKED && !is_meant(key, name)) continue;
        mark.generation = KILN_MAX(mark.generation, key->generation);
        remove_range(keys, i, i + 1);
    }
    kiln_status_free(insert(keys, &mark)); /* there is room: at least one was removed */
    return count;
}

uint32_t kiln_keys_revoke(kiln_keys *keys, const kiln_key *name) {
    kiln_key tokens = {.role = name->role, .is_token = true};
    memcpy(tokens.node, name->node, sizeof tokens.node);
    uint32_t count = revoke_kind(keys, name);
    if (name->generation == 0 && !name->is_token) count += revoke_kind(keys, &tokens);
    return count;
}

void kiln_keys_settle(kiln_keys *keys, const kiln_key *name, kiln_key_state outcome) {
    kiln_key *key = find(keys, name);
    if (!key || key->state == KILN_KEY_REVOKED) return;
    key->state = outcome;
    if (outcome != KILN_KEY_IN_FORCE) return;
    if (name->has_before) {
        key->has_public = key->has_before = true;
        key->public_half = name->public_half;
        key->succession = name->succession;
    }
    for (uint32_t i = 0; i < keys->key.count; i++) {
        kiln_key older = {.role = name->role, .generation = keys->key.data[i].generation};
        memcpy(older.node, name->node, sizeof older.node);
        if (older.generation >= name->generation || !kiln_keys_find(keys, &older)) continue;
        kiln_keys_revoke(keys, &older);
        i = UINT32_MAX; /* the list has changed: start again */
    }
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

bool kiln_key_has_expired(const kiln_key *key, uint32_t today) {
    return key->last_day != 0 && today > key->last_day;
}

/* ---- Text ---- */

static const char *const state_word[KILN_KEY_STATE_COUNT] = {
    [KILN_KEY_OFFERED] = "offered",
    [KILN_KEY_DECLINED] = "declined",
    [KILN_KEY_REVOKED] = "revoked",
};

static bool parse_bytes(kiln_str text, uint8_t out_bytes[KILN_KEY_BYTES]) {
    kiln_digest bytes; /* 32 bytes as 64 hex digits */
    if (!kiln_digest_parse(text, &bytes)) return false;
    memcpy(out_bytes, bytes.byte, KILN_KEY_BYTES);
    explicit_bzero(&bytes, sizeof bytes);
    return true;
}

/* The public half of the signer before, a slash, its signature in two halves of 64 digits. */
static bool parse_succession(kiln_str text, kiln_succession *out) {
    kiln_str proof = text, before = kiln_str_cut(&proof, '/');
    return proof.size == 4 * KILN_KEY_BYTES && parse_bytes(before, out->before.byte) &&
           parse_bytes(kiln_str_slice(proof, 0, 2 * KILN_KEY_BYTES), out->proof.byte) &&
           parse_bytes(kiln_str_slice(proof, 2 * KILN_KEY_BYTES, proof.size),
                       out->proof.byte + KILN_KEY_BYTES);
}

static kiln_status expect(bool is_right, const char *form) {
    return is_right ? KILN_OK : KILN_ERROR(DATA_LOSS, "expected %s", form);
}

/* expires=, public=, before=, seed=, or the word of a state. */
static kiln_status parse_attribute(kiln_str text, kiln_key *key) {
    kiln_str value = text, name = kiln_str_cut(&value, '=');
    if (kiln_str_is(name, "expires"))
        return expect(kiln_day_parse(value, &key->last_day), "expires=YYYY-MM-DD");
    if (kiln_str_is(name, "public"))
        return expect(key->has_public = parse_bytes(value, key->public_half.byte),
                      "public= and 64 hexadecimal digits");
    if (kiln_str_is(name, "before"))
        return expect(key->has_before = parse_succession(value, &key->succession),
                      "before= and 64 hexadecimal digits, '/' and 128 more");
    if (kiln_str_is(name, "seed"))
        return expect(key->has_seed = parse_bytes(value, key->seed),
                      "seed= and 64 hexadecimal digits");
    for (kiln_key_state state = KILN_KEY_OFFERED; state < KILN_KEY_REVOKED; state++) {
        if (!kiln_str_is(text, state_word[state])) continue;
        key->state = state;
        return KILN_OK;
    }
    return KILN_ERROR(DATA_LOSS, "unknown text after the secret");
}

/* The rest of a line after the name. */
static kiln_status parse_rest(kiln_str rest, uint32_t version, kiln_key *key) {
    kiln_str secret = kiln_str_cut(&rest, ' ');
    rest = kiln_str_trim(rest);
    kiln_status st = KILN_OK;
    if (version > 1 && kiln_str_is(secret, state_word[KILN_KEY_REVOKED]) && rest.size == 0) {
        key->state = KILN_KEY_REVOKED;
        return KILN_OK;
    }
    if (!parse_bytes(secret, key->secret))
        st = KILN_ERROR(DATA_LOSS, "the secret is not 64 hexadecimal digits"); /* never shown */
    if (!st && version == 1 && rest.size)
        st = KILN_ERROR(DATA_LOSS, "the secret is not 64 hexadecimal digits and nothing more");
    while (!st && rest.size) {
        st = parse_attribute(kiln_str_cut(&rest, ' '), key);
        rest = kiln_str_trim(rest);
    }
    return st;
}

static kiln_status parse_line(kiln_str line, uint32_t version, kiln_keys *keys) {
    kiln_key key;
    uint32_t first = 0;
    kiln_str rest = line, name = kiln_str_cut(&rest, ' ');
    kiln_status st = kiln_key_name_parse(name, &key);
    if (!st && key.generation == 0) st = KILN_ERROR(DATA_LOSS, "the generation is missing");
    if (!st && key.is_token && version < FILE_VERSION_MAX)
        st = KILN_ERROR(DATA_LOSS, "a token in a file without tokens");
    if (!st) st = parse_rest(kiln_str_trim(rest), version, &key);
    if (!st && find(keys, &key)) st = KILN_ERROR(DATA_LOSS, "the key comes twice");
    uint32_t end = st ? 0 : kiln_keys_range(keys, &key, &first);
    if (!st && key.state != KILN_KEY_REVOKED &&
        count_in_force(keys, first, end) >= KILN_KEY_GENERATIONS)
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

static kiln_status parse_head(kiln_str line, uint32_t *out_version) {
    const bool named = kiln_str_starts(line, FIRST_LINE);
    const kiln_str number = named ? kiln_str_slice(line, strlen(FIRST_LINE), line.size) : line;
    uint64_t version = 0;
    if (number.size == 1 && kiln_str_to_u64(number, &version) && version >= 1 &&
        version <= FILE_VERSION_MAX)
        *out_version = (uint32_t)version;
    else if (named)
        return KILN_ERROR(DATA_LOSS, "a key file of a later release: update this program");
    else
        return KILN_ERROR(DATA_LOSS, "a key file begins with '" FIRST_LINE "2'");
    return KILN_OK;
}

kiln_status kiln_keys_parse(kiln_str text, kiln_keys *out_keys) {
    kiln_keys keys = {0};
    kiln_status st = KILN_OK;
    uint32_t version = 0;
    for (uint32_t number = 1; !st && text.size; number++) {
        kiln_str line = kiln_str_trim(kiln_str_cut(&text, '\n'));
        if (line.size == 0 || line.data[0] == '#') continue;
        st = version ? parse_line(line, version, &keys) : parse_head(line, &version);
        if (st) st = line_error(st, number);
    }
    if (!st && !version) st = KILN_ERROR(DATA_LOSS, "an empty file is no key file");
    if (st) kiln_keys_deinit(&keys);
    *out_keys = keys;
    return st;
}

static void print_bytes(const uint8_t bytes[KILN_KEY_BYTES], kiln_strbuf *out) {
    for (uint32_t i = 0; i < KILN_KEY_BYTES; i++) {
        static const char digit[] = "0123456789abcdef";
        kiln_strbuf_char(out, digit[bytes[i] >> 4]);
        kiln_strbuf_char(out, digit[bytes[i] & 15]);
    }
}

static void print_line(const kiln_key *key, kiln_strbuf *out) {
    char name[KILN_KEY_NAME_BYTES], day[KILN_DAY_TEXT];
    kiln_key_name_print(key, name);
    kiln_strbuf_printf(out, "%s ", name);
    if (key->state != KILN_KEY_REVOKED) print_bytes(key->secret, out);
    if (key->last_day) {
        kiln_day_print(key->last_day, day);
        kiln_strbuf_printf(out, " expires=%s", day);
    }
    if (key->has_public) {
        kiln_strbuf_text(out, " public=");
        print_bytes(key->public_half.byte, out);
    }
    if (key->has_before) {
        kiln_strbuf_text(out, " before=");
        print_bytes(key->succession.before.byte, out);
        kiln_strbuf_char(out, '/');
        print_bytes(key->succession.proof.byte, out);
        print_bytes(key->succession.proof.byte + KILN_KEY_BYTES, out);
    }
    if (key->has_seed) {
        kiln_strbuf_text(out, " seed=");
        print_bytes(key->seed, out);
    }
    if (key->state == KILN_KEY_OFFERED || key->state == KILN_KEY_DECLINED)
        kiln_strbuf_char(out, ' ');
    if (key->state != KILN_KEY_IN_FORCE) kiln_strbuf_text(out, state_word[key->state]);
    kiln_strbuf_char(out, '\n');
}

/* Reserves room for all lines first: a buffer that grows leaves copies of secrets. */
void kiln_keys_print(const kiln_keys *keys, kiln_strbuf *out) {
    kiln_strbuf_reserve(out, strlen(FIRST_LINE) + 4 + keys->key.count * LINE_MAX_BYTES);
    uint32_t version = FILE_VERSION;
    for (uint32_t i = 0; i < keys->key.count; i++)
        if (keys->key.data[i].is_token) version = FILE_VERSION_MAX;
    kiln_strbuf_printf(out, FIRST_LINE "%u\n", version);
    for (uint32_t i = 0; i < keys->key.count; i++) print_line(&keys->key.data[i], out);
}
