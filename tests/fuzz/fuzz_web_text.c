/* Fuzzes what strangers send to kiln-web as text: addresses and bodies against every row of
 * web/routes.def, cookies, sealed texts, and ids of events. The first byte chooses which. What is
 * accepted is within its limits, and a sealed text is accepted only as it was made. */
#include <string.h>

#include "base/check.h"
#include "tests/fuzz/fuzz.h"
#include "web/events.h"
#include "web/routes.h"
#include "web/seal.h"

static void check_text(kiln_str text) {
    KILN_CHECK(text.size <= KILN_URI_BYTES_MAX);
    KILN_CHECK(!memchr(text.data ? text.data : "", 0, text.size));
}

static void check_params(const kiln_call *call) {
    for (uint32_t i = 0; i < call->route->param_count; i++) {
        const kiln_param_info *info = &call->route->param[i];
        const kiln_param *param = &call->param[i];
        if (!param->is_given) continue;
        if (info->kind == KILN_PARAM_TEXT) KILN_CHECK(param->text.size <= info->limit);
        if (info->kind == KILN_PARAM_U64) KILN_CHECK(param->u64 <= info->limit);
        if (info->kind == KILN_PARAM_TEXTS) KILN_CHECK(param->text_count <= KILN_PARAM_TEXTS_MAX);
    }
}

static void fuzz_address(kiln_str input, kiln_arena *arena) {
    static const char *const method[] = {"GET", "POST", "DELETE", "PATCH", "HEAD"};
    kiln_call call = {0};
    kiln_status st = kiln_uri_parse(input, arena, &call.uri);
    for (uint32_t i = 0; !st && i < call.uri.segment_count; i++) {
        check_text(call.uri.segment[i]);
        KILN_CHECK(!kiln_str_is(call.uri.segment[i], ".."));
    }
    for (size_t i = 0; !st && i < KILN_ARRAY_COUNT(method); i++) {
        kiln_str allowed = {0};
        kiln_call here = call;
        here.route = kiln_route_find(method[i], &call.uri, arena, &allowed);
        if (!here.route) continue;
        kiln_status bad = kiln_params_read_address(&here);
        if (!bad) check_params(&here);
        kiln_status_free(bad);
    }
    kiln_status_free(st);
}

static void fuzz_body(kiln_str input) {
    uint32_t count = 0;
    const kiln_route *route = kiln_routes(&count);
    for (uint32_t i = 0; i < count; i++) {
        if (route[i].body != KILN_BODY_JSON) continue;
        kiln_call call = {.route = &route[i]};
        kiln_status st = kiln_params_read_body(&call, input);
        if (!st) check_params(&call);
        kiln_status_free(st);
        json_decref(call.body);
    }
}

static void fuzz_cookie(kiln_str input) {
    const kiln_str value = kiln_cookie_find(input, KILN_SESSION_COOKIE);
    KILN_CHECK(value.size <= input.size);
    KILN_CHECK(kiln_str_find_char(value, ';') == value.size);
}

/* The chance that a random text is authentic is 2^-128. */
static void fuzz_seal(kiln_str input) {
    const kiln_digest key = {{1}};
    kiln_strbuf sealed = {0}, opened = {0};
    KILN_CHECK(!kiln_unseal(&key, input, &opened));
    kiln_status st = kiln_seal(&key, kiln_str_slice(input, 0, 900), &sealed);
    KILN_CHECK(st == NULL);
    KILN_CHECK(kiln_unseal(&key, kiln_strbuf_view(&sealed), &opened));
    KILN_CHECK(kiln_str_equal(kiln_strbuf_view(&opened), kiln_str_slice(input, 0, 900)));
    kiln_strbuf_deinit(&sealed);
    kiln_strbuf_deinit(&opened);
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    const kiln_str input = {(const char *)data + 1, size - 1};
    uint64_t epoch = 0, seq[KILN_ROWS_KINDS];
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    switch (data[0] % 5) {
    case 0: fuzz_address(input, &arena); break;
    case 1: fuzz_body(input); break;
    case 2: fuzz_cookie(input); break;
    case 3: fuzz_seal(input); break;
    case 4: kiln_event_id_parse(input, &epoch, seq); break;
    }
    kiln_arena_deinit(&arena);
    return 0;
}
