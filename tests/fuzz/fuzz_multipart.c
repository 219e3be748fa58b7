/* Fuzzes the reader of forms: a body in two pieces, cut anywhere, is what it is in one. */
#include "base/check.h"
#include "tests/fuzz/fuzz.h"
#include "web/multipart.h"

static kiln_status on_part(void *context, kiln_str name) {
    kiln_strbuf_printf(context, "[%.*s]", KILN_STR_ARG(name));
    return KILN_OK;
}

static kiln_status on_data(void *context, kiln_str bytes) {
    kiln_strbuf_str(context, bytes);
    return KILN_OK;
}

/* The first line is the Content-Type. */
static bool read_in(kiln_str input, size_t cut, kiln_strbuf *heard) {
    const kiln_multipart_handler handler = {on_part, on_data, heard};
    kiln_multipart m = {0};
    const kiln_str type = kiln_str_cut(&input, '\n');
    kiln_status st = kiln_multipart_begin(type, &handler, &m);
    cut = KILN_MIN(cut, input.size);
    if (!st) st = kiln_multipart_add(&m, kiln_str_slice(input, 0, cut));
    if (!st) st = kiln_multipart_add(&m, kiln_str_slice(input, cut, input.size));
    if (!st) st = kiln_multipart_finish(&m);
    const bool is_good = !st;
    kiln_status_free(st);
    kiln_multipart_deinit(&m);
    return is_good;
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    const kiln_str input = {(const char *)data, size};
    kiln_strbuf whole = {0}, cut = {0};
    const bool is_good = read_in(input, size, &whole);
    const bool is_good_cut = read_in(input, size ? data[size - 1] : 0, &cut);
    KILN_CHECK(is_good == is_good_cut);
    if (is_good) KILN_CHECK(kiln_str_equal(kiln_strbuf_view(&whole), kiln_strbuf_view(&cut)));
    kiln_strbuf_deinit(&whole);
    kiln_strbuf_deinit(&cut);
    return 0;
}
