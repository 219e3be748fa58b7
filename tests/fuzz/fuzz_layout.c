/* Fuzzes the parser of layouts. The first byte chooses the rank. */
#include "base/check.h"
#include "base/layout.h"
#include "tests/fuzz/fuzz.h"

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    uint32_t rank = data[0] % (KILN_RANK_MAX + 1);
    kiln_layout layout, again;
    kiln_status st = kiln_layout_parse((kiln_str){(const char *)data + 1, size - 1}, rank, &layout);
    if (!st) {
        kiln_strbuf text = {0};
        kiln_layout_print(&layout, &text);
        KILN_CHECK(kiln_layout_parse(kiln_strbuf_view(&text), rank, &again) == NULL);
        KILN_CHECK(kiln_layout_equal(&layout, &again));
        kiln_strbuf_deinit(&text);
    }
    kiln_status_free(st);
    return 0;
}
