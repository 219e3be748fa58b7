/* Fuzzes compressed bodies: nothing longer than its limit comes out, and nothing of what is
 * damaged; and whatever is compressed comes back. */
#include "base/check.h"
#include "proto/net/compression.h"
#include "tests/fuzz/fuzz.h"

#define SIZE_MAX_HERE ((size_t)64 << 10)

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_str body = {(const char *)data, size};
    kiln_strbuf out = {0}, compressed = {0};
    kiln_status st = kiln_decompress(body, SIZE_MAX_HERE, &out);
    KILN_CHECK(st ? out.size == 0 : out.size <= SIZE_MAX_HERE);
    kiln_status_free(st);
    kiln_strbuf_reset(&out);
    if (kiln_compress(body, &compressed)) {
        KILN_CHECK(compressed.size < size);
        st = kiln_decompress(kiln_strbuf_view(&compressed), size, &out);
        KILN_CHECK(st == NULL && kiln_str_equal(kiln_strbuf_view(&out), body));
    }
    kiln_strbuf_deinit(&out);
    kiln_strbuf_deinit(&compressed);
    return 0;
}
