#include "web/uri.h"

#include "base/text.h"

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static kiln_status check_decoded(kiln_str text) {
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f)
            return KILN_ERROR(INVALID_ARGUMENT, "a control character in the address");
    for (kiln_str rest = text; rest.size;) {
        uint32_t character = 0;
        const size_t size = kiln_text_character(rest, &character);
        if (size == 0) return KILN_ERROR(INVALID_ARGUMENT, "the address is no UTF-8");
        rest = kiln_str_slice(rest, size, rest.size);
    }
    return KILN_OK;
}

/* `plus`: a plus sign is a space, as in queries. */
static kiln_status decode(kiln_str text, bool plus, kiln_arena *arena, kiln_str *out) {
    char *decoded = kiln_arena_alloc(arena, text.size + 1);
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == '%') {
            const int high = i + 2 < text.size ? hex_value(text.data[i + 1]) : -1;
            const int low = i + 2 < text.size ? hex_value(text.data[i + 2]) : -1;
            if (high < 0 || low < 0)
                return KILN_ERROR(INVALID_ARGUMENT, "a bad %% escape in the address");
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        decoded[size++] = c;
    }
    *out = (kiln_str){decoded, size};
    return check_decoded(*out);
}

static kiln_status parse_path(kiln_str path, kiln_arena *arena, kiln_uri *uri) {
    if (!path.size || path.data[0] != '/')
        return KILN_ERROR(INVALID_ARGUMENT, "the path does not begin with /");
    for (kiln_str rest = kiln_str_slice(path, 1, path.size); rest.size;) {
        const bool is_last = kiln_str_find_char(rest, '/') == rest.size;
        kiln_str segment = {0};
        kiln_status st = decode(kiln_str_cut(&rest, '/'), false, arena, &segment);
        if (st) return st;
        if (uri->segment_count == KILN_URI_SEGMENTS_MAX)
            return KILN_ERROR(INVALID_ARGUMENT, "the path has more than %u parts",
                              KILN_URI_SEGMENTS_MAX);
        if (!segment.size || kiln_str_is(segment, ".") || kiln_str_is(segment, ".."))
            return KILN_ERROR(INVALID_ARGUMENT, "a part of the path is empty, . or ..");
        uri->segment[uri->segment_count++] = segment;
        if (!is_last && !rest.size) return KILN_ERROR(INVALID_ARGUMENT, "the path ends with /");
    }
    return KILN_OK;
}

static kiln_status parse_query(kiln_str query, kiln_arena *arena, kiln_uri *uri) {
    uri->pair = KILN_ARENA_ARRAY(arena, kiln_uri_pair, KILN_URI_PAIRS_MAX);
    while (query.size) {
        kiln_str value = kiln_str_cut(&query, '&');
        if (!value.size) continue;
        if (uri->pair_count == KILN_URI_PAIRS_MAX)
            return KILN_ERROR(INVALID_ARGUMENT, "more than %u parameters", KILN_URI_PAIRS_MAX);
        const kiln_str name = kiln_str_cut(&value, '=');
        kiln_uri_pair *pair = &uri->pair[uri->pair_count++];
        kiln_status st = decode(name, true, arena, &pair->name);
        if (!st) st = decode(value, true, arena, &pair->value);
        if (st) return st;
    }
    return KILN_OK;
}

kiln_status kiln_uri_parse(kiln_str text, kiln_arena *arena, kiln_uri *out_uri) {
    if (text.size > KILN_URI_BYTES_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "the address has more than %zu bytes",
                          KILN_URI_BYTES_MAX);
    kiln_uri uri = {0};
    kiln_str query = text;
    const kiln_str path = kiln_str_cut(&query, '?');
    kiln_status st = parse_path(path, arena, &uri);
    if (!st) st = parse_query(query, arena, &uri);
    if (!st) *out_uri = uri;
    return st;
}
