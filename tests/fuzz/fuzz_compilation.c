/* Bytes of compilations from a worker that runs wild: they are read or refused; what is read is
 * written and read again as it was. */
#include "base/check.h"
#include "compiler-core/layout/compilation.h"
#include "tests/fuzz/fuzz.h"

static void check(const kiln_compilation *c, kiln_arena *arena) {
    kiln_strbuf bytes = {0}, again = {0};
    kiln_compilation *read = NULL;
    kiln_compilation_encode(c, c->graph != NULL, &bytes);
    kiln_status st = kiln_compilation_decode(kiln_strbuf_view(&bytes), arena, &read);
    KILN_CHECK(!st);
    kiln_compilation_encode(read, read->graph != NULL, &again);
    KILN_CHECK(kiln_str_equal(kiln_strbuf_view(&bytes), kiln_strbuf_view(&again)));
    kiln_strbuf_deinit(&bytes);
    kiln_strbuf_deinit(&again);
}

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_arena arena;
    kiln_compilation *c = NULL;
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_compilation_decode((kiln_str){(const char *)data, size}, &arena, &c);
    if (!st) check(c, &arena);
    kiln_status_free(st);
    kiln_arena_deinit(&arena);
    return 0;
}
