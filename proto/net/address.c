/* Addresses and the loopback token. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/un.h>

#include "base/file.h"
#include "proto/net.h"
#include "proto/net/secret_file.h"

#define WEB_PREFIX "ws:"
#define UNIX_PATH_MAX (sizeof((struct sockaddr_un *)0)->sun_path - 1)

static kiln_status bad_address(kiln_str text, const char *why) {
    return KILN_ERROR(INVALID_ARGUMENT, "address '%.*s': %s; write HOST:PORT or unix:PATH",
                      KILN_STR_ARG(text), why);
}

static kiln_status set_host(kiln_str text, kiln_str host, kiln_address *address) {
    if (host.size == 0) return bad_address(text, "the host is missing");
    if (host.size >= sizeof address->host) return bad_address(text, "the host is too long");
    memcpy(address->host, host.data, host.size);
    address->host[host.size] = 0;
    return KILN_OK;
}

static bool is_loopback(const char *host) {
    struct in_addr v4;
    struct in6_addr v6;
    if (strcmp(host, "localhost") == 0) return true;
    if (inet_pton(AF_INET, host, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

kiln_status kiln_address_parse(kiln_str text, kiln_address *out_address) {
    kiln_address address = {0};
    if (kiln_str_starts(text, "unix:")) {
        kiln_str path = kiln_str_slice(text, 5, text.size);
        if (path.size == 0) return bad_address(text, "the path is missing");
        if (path.size > UNIX_PATH_MAX)
            return bad_address(text, "the path is longer than a Unix socket's may be (107)");
        memcpy(address.host, path.data, path.size);
        address.is_unix = address.is_loopback = true;
        *out_address = address;
        return KILN_OK;
    }
    size_t colon = text.size;
    while (colon > 0 && text.data[colon - 1] != ':') colon--;
    if (colon == 0) return bad_address(text, "the port is missing");
    kiln_str host = kiln_str_slice(text, 0, colon - 1);
    if (host.size >= 2 && host.data[0] == '[' && host.data[host.size - 1] == ']')
        host = kiln_str_slice(host, 1, host.size - 1);
    else if (kiln_str_find_char(host, ':') < host.size)
        return bad_address(text, "an IPv6 host stands in brackets");
    uint64_t port = 0;
    if (!kiln_str_to_u64(kiln_str_slice(text, colon, text.size), &port) || port > UINT16_MAX)
        return bad_address(text, "the port is not a number from 0 to 65535");
    kiln_status st = set_host(text, host, &address);
    if (st) return st;
    address.port = (uint16_t)port;
    address.is_loopback = is_loopback(address.host);
    *out_address = address;
    return KILN_OK;
}

kiln_status kiln_address_parse_listener(kiln_str text, kiln_address *out_address) {
    const bool is_web = kiln_str_starts(text, WEB_PREFIX);
    const kiln_str rest = is_web ? kiln_str_slice(text, strlen(WEB_PREFIX), text.size) : text;
    if (is_web && kiln_str_starts(rest, "unix:"))
        return bad_address(text, "pages cannot dial a Unix socket");
    kiln_status st = kiln_address_parse(rest, out_address);
    if (!st) out_address->is_web = is_web;
    return st;
}

kiln_status kiln_origin_check(kiln_str text) {
    const bool is_secure = kiln_str_starts(text, "https://");
    const size_t begin = strlen(is_secure ? "https://" : "http://");
    bool is_right = is_secure || kiln_str_starts(text, "http://");
    for (size_t i = begin; is_right && i < text.size; i++)
        is_right = strchr("abcdefghijklmnopqrstuvwxyz0123456789.-:[]", text.data[i]) != NULL;
    if (is_right && text.size > begin) return KILN_OK;
    return KILN_ERROR(INVALID_ARGUMENT,
                      "'%.*s' is no origin as browsers write it: http://localhost:8000, "
                      "https://fleet.example (lower case, no path)",
                      KILN_STR_ARG(text));
}

void kiln_address_print(const kiln_address *address, kiln_strbuf *out) {
    bool brackets = !address->is_unix && strchr(address->host, ':') != NULL;
    if (address->is_web) kiln_strbuf_text(out, WEB_PREFIX);
    if (address->is_unix)
        kiln_strbuf_printf(out, "unix:%s", address->host);
    else
        kiln_strbuf_printf(out, brackets ? "[%s]:%u" : "%s:%u", address->host, address->port);
}

kiln_status kiln_addresses_parse(kiln_str text, kiln_addresses *out_addresses) {
    kiln_addresses list = {0};
    do {
        kiln_str one = kiln_str_cut(&text, ',');
        if (list.count == KILN_ADDRESSES_MAX)
            return KILN_ERROR(INVALID_ARGUMENT, "more than %u addresses", KILN_ADDRESSES_MAX);
        kiln_status st = kiln_address_parse(kiln_str_trim(one), &list.item[list.count++]);
        if (st) return st;
    } while (text.size > 0);
    *out_addresses = list;
    return KILN_OK;
}

const kiln_address *kiln_addresses_next(kiln_addresses *addresses) {
    return &addresses->item[addresses->turn++ % addresses->count];
}

/* ---- The token ---- */

kiln_status kiln_token_read(const char *home, bool create, uint8_t out_token[KILN_TOKEN_BYTES]) {
    kiln_digest token;
    kiln_strbuf path = {0};
    kiln_strbuf_printf(&path, "%s/token", home);
    kiln_status st = KILN_OK;
    if (create && !kiln_file_exists(path.data)) st = kiln_secret_create(path.data, "", &token);
    if (!st)
        st = kiln_secret_load(path.data, "", "is not a token; remove it and restart the tracker",
                              &token);
    if (!st) memcpy(out_token, token.byte, KILN_TOKEN_BYTES);
    explicit_bzero(&token, sizeof token);
    kiln_strbuf_deinit(&path);
    if (kiln_status_code(st) == KILN_NOT_FOUND)
        st = kiln_status_note(st, "no tracker of this user has run here");
    return st;
}
