/* Fuzzes the parser of target strings: what parses prints, and its text means the same. */
#include "base/check.h"
#include "base/target.h"
#include "tests/fuzz/fuzz.h"

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_arena arena = {0};
    kiln_strbuf text = {0}, again = {0};
    kiln_target target;
    kiln_status st = kiln_target_parse((kiln_str){(const char *)data, size}, &arena, &target);
    if (!st) {
        kiln_target_print(&target, &text);
        KILN_CHECK(kiln_target_parse(kiln_strbuf_view(&text), &arena, &target) == NULL);
        kiln_target_print(&target, &again);
        KILN_CHECK(kiln_str_equal(kiln_strbuf_view(&text), kiln_strbuf_view(&again)));
    }
    kiln_status_free(st);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&again);
    kiln_arena_deinit(&arena);
    return 0;
}
