/* Fuzzes what a stranger sends to a listener for pages, in pieces of any size: the answer is HTTP,
 * frames are read only after a request that was right, and no more is passed on than came. The
 * first byte chooses the pieces. */
#include "base/check.h"
#include "proto/net/ws.h"
#include "tests/fuzz/fuzz.h"

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    static const kiln_origins origins = {.item = {"http://localhost:8000"}, .count = 1};
    const kiln_str input = {(const char *)data + (size > 0), size - (size > 0)};
    const size_t step = size ? 1 + (size_t)data[0] : 1;
    kiln_ws *ws = kiln_ws_accept(&origins);
    kiln_strbuf plain = {0}, wire = {0};
    kiln_status st = KILN_OK;
    for (size_t at = 0; !st && at < input.size; at += step)
        st = kiln_ws_receive(ws, kiln_str_slice(input, at, at + step), &plain, &wire);
    const bool has_upgraded = kiln_str_starts(kiln_strbuf_view(&wire), "HTTP/1.1 101 ");
    KILN_CHECK(kiln_ws_ready(ws) == has_upgraded);
    KILN_CHECK(wire.size == 0 || kiln_str_starts(kiln_strbuf_view(&wire), "HTTP/1.1 "));
    KILN_CHECK(plain.size == 0 || has_upgraded);
    KILN_CHECK(plain.size <= input.size);
    kiln_status_free(st);
    kiln_strbuf_deinit(&plain);
    kiln_strbuf_deinit(&wire);
    kiln_ws_destroy(ws);
    return 0;
}
