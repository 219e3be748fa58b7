#include "proto/net/ws_request.h"

#include <string.h>

#include "base/check.h"

#define HEAD_END "\r\n\r\n"

/* The headers that are read, each at most once; others are skipped. */
typedef enum header {
    HEADER_HOST,
    HEADER_UPGRADE,
    HEADER_CONNECTION,
    HEADER_KEY,
    HEADER_VERSION,
    HEADER_ORIGIN,
    HEADER_COUNT
} header;
static const char *const header_name[HEADER_COUNT] = {
    [HEADER_HOST] = "Host",
    [HEADER_UPGRADE] = "Upgrade",
    [HEADER_CONNECTION] = "Connection",
    [HEADER_KEY] = "Sec-WebSocket-Key",
    [HEADER_VERSION] = "Sec-WebSocket-Version",
    [HEADER_ORIGIN] = "Origin",
};

static kiln_status bad(const char *what) {
    return KILN_ERROR(DATA_LOSS, "not a request of a WebSocket: %s", what);
}

static bool is_same_word(kiln_str a, const char *b) {
    return a.size == strlen(b) && strncasecmp(a.data, b, a.size) == 0;
}

/* Whether a list with commas has this word. */
static bool lists(kiln_str list, const char *word) {
    while (list.size)
        if (is_same_word(kiln_str_trim(kiln_str_cut(&list, ',')), word)) return true;
    return false;
}

/* Visible characters and spaces: nothing that some programs take for the end of a line. */
static bool is_plain(kiln_str line) {
    for (size_t i = 0; i < line.size; i++)
        if ((uint8_t)line.data[i] < ' ' && line.data[i] != '\t') return false;
    return memchr(line.data, 0x7f, line.size) == NULL;
}

static bool is_token(kiln_str name) {
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < name.size; i++)
        if (!memchr(allowed, name.data[i], sizeof allowed - 1)) return false;
    return name.size > 0;
}

static bool is_key(kiln_str key) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (key.size != KILN_WS_KEY_BYTES || !kiln_str_ends(key, "==")) return false;
    for (size_t i = 0; i < key.size - 2; i++)
        if (!memchr(digit, key.data[i], sizeof digit - 1)) return false;
    return true;
}

static kiln_status read_header(kiln_str line, kiln_str value[HEADER_COUNT]) {
    const size_t colon = kiln_str_find_char(line, ':');
    const kiln_str name = kiln_str_slice(line, 0, colon);
    if (colon == line.size || !is_token(name)) return bad("a header has no name");
    for (header i = 0; i < HEADER_COUNT; i++) {
        if (!is_same_word(name, header_name[i])) continue;
        if (value[i].data) return bad("a header comes twice");
        value[i] = kiln_str_trim(kiln_str_slice(line, colon + 1, line.size));
    }
    return KILN_OK;
}

static kiln_status check(const kiln_str value[HEADER_COUNT]) {
    if (value[HEADER_HOST].size == 0) return bad("Host is missing");
    if (value[HEADER_HOST].size > KILN_WS_HOST_MAX) return bad("Host is too long");
    if (!is_same_word(value[HEADER_UPGRADE], "websocket")) return bad("Upgrade is not websocket");
    if (!lists(value[HEADER_CONNECTION], "upgrade")) return bad("Connection does not say Upgrade");
    if (!kiln_str_is(value[HEADER_VERSION], "13")) return bad("Sec-WebSocket-Version is not 13");
    if (!is_key(value[HEADER_KEY])) return bad("Sec-WebSocket-Key is not 16 bytes in base64");
    return KILN_OK;
}

size_t kiln_ws_request_size(kiln_str text) {
    const char *end = memmem(text.data, text.size, HEAD_END, strlen(HEAD_END));
    return end ? (size_t)(end - text.data) + strlen(HEAD_END) : 0;
}

kiln_status kiln_ws_request_parse(kiln_str text, kiln_ws_request *out_request) {
    kiln_str value[HEADER_COUNT] = {0};
    KILN_CHECK(kiln_str_ends(text, HEAD_END));
    text.size -= strlen("\r\n");
    for (bool is_first = true; text.size; is_first = false) {
        kiln_str line = kiln_str_cut(&text, '\n');
        if (!kiln_str_ends(line, "\r")) return bad("a line does not end in CR LF");
        line.size--;
        if (!is_plain(line)) return bad("it has control characters");
        if (is_first && (!kiln_str_starts(line, "GET /") || !kiln_str_ends(line, " HTTP/1.1")))
            return bad("it is not GET by HTTP/1.1");
        kiln_status st = is_first ? KILN_OK : read_header(line, value);
        if (st) return st;
    }
    kiln_status st = check(value);
    if (st) return st;
    *out_request = (kiln_ws_request){
        .host = value[HEADER_HOST], .origin = value[HEADER_ORIGIN], .key = value[HEADER_KEY]};
    return KILN_OK;
}
