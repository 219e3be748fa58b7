/* Fuzzes the text of programs for accelerators: what parses prints to text that parses to the same,
 * and is legal or refused by a named fault. */
#include "base/check.h"
#include "tests/fuzz/fuzz.h"
#include "vta/program.h"

int kiln_fuzz_one(const uint8_t *data, size_t size) {
    kiln_arena arena;
    kiln_strbuf text = {0}, again = {0};
    kiln_vta_program program, second;
    kiln_arena_init(&arena, 0);
    kiln_status st = kiln_vta_program_parse((kiln_str){(const char *)data, size}, &arena, &program);
    if (!st) {
        kiln_vta_fault fault = {0};
        kiln_vta_program_print(&program, &text);
        kiln_status same = kiln_vta_program_parse(kiln_strbuf_view(&text), &arena, &second);
        KILN_CHECK(!same);
        kiln_vta_program_print(&second, &again);
        KILN_CHECK(kiln_str_equal(kiln_strbuf_view(&text), kiln_strbuf_view(&again)));
        const bool ok = kiln_vta_program_check(&program, &fault);
        KILN_CHECK(ok == (fault.kind == KILN_VTA_FAULT_NONE));
    }
    kiln_status_free(st);
    kiln_strbuf_deinit(&text);
    kiln_strbuf_deinit(&again);
    kiln_arena_deinit(&arena);
    return 0;
}
