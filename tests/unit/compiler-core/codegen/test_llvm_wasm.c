#include "compiler-core/codegen/llvm_wasm.h"

#include "base/wasm.h"
#include "tests/support/test.h"

#define MEMORY_IMPORT "\1\3env\x0f__linear_memory\2\0\0"
/* A function without parameters or results, which does nothing. */
#define TYPES "\1\x60\0\0"
#define FUNCTIONS "\1\0"
#define CODE "\1\2\0\x0b"

static void add(kiln_strbuf *object, uint8_t id, kiln_str content) {
    kiln_wasm_write_section(object, id, content);
}

/* As LLVM writes it, with symbols: each is its bytes in the table. */
static kiln_str object_of(kiln_arena *arena, kiln_str symbols, bool data) {
    kiln_strbuf object = {0}, linking = {0}, table = {0};
    kiln_strbuf_str(&object, KILN_STR(KILN_WASM_HEAD));
    add(&object, KILN_WASM_TYPE, KILN_STR(TYPES));
    add(&object, KILN_WASM_IMPORT, KILN_STR(MEMORY_IMPORT));
    add(&object, 3, KILN_STR(FUNCTIONS));
    add(&object, KILN_WASM_CODE, KILN_STR(CODE));
    if (data) add(&object, KILN_WASM_DATA, KILN_STR("\0"));
    kiln_wasm_write_bytes(&linking, KILN_STR("linking"));
    kiln_wasm_write_u32(&linking, 2);
    kiln_strbuf_char(&linking, 8);
    kiln_wasm_write_bytes(&linking, symbols);
    add(&object, KILN_WASM_CUSTOM, kiln_strbuf_view(&linking));
    kiln_strbuf_deinit(&linking);
    kiln_strbuf_deinit(&table);
    return kiln_strbuf_end(&object, arena);
}

#define RUN "\0\0\0\3run"    /* a global function, index 0 */
#define BODY "\0\2\0\4body"  /* a local one */
#define EXPF "\0\x10\0"      /* an undefined one */
#define DATA "\1\0\1d\0\0\4" /* of memory */
#define STACK "\2\x10\0"     /* a global variable of another module */

static kiln_str section_of(kiln_str module, uint8_t wanted) {
    kiln_wasm_reader r = kiln_wasm_open(module);
    uint8_t id;
    kiln_str content, found = {0};
    while (kiln_wasm_read_section(&r, &id, &content))
        if (id == wanted) found = content;
    assert_false(r.bad);
    return found;
}

static void global_functions_are_exported_and_no_others(void **state) {
    kiln_str object = object_of(*state, KILN_STR("\5" BODY EXPF DATA STACK RUN), false), module;
    expect_ok(kiln_llvm_wasm_module(object, false, *state, &module));
    assert_true(kiln_str_equal(section_of(module, KILN_WASM_EXPORT), KILN_STR("\1\3run\0\0")));
    assert_true(kiln_str_equal(section_of(module, KILN_WASM_CODE), KILN_STR(CODE)));
    assert_true(kiln_str_equal(section_of(module, KILN_WASM_IMPORT), KILN_STR(MEMORY_IMPORT)));
    assert_int_equal(section_of(module, KILN_WASM_CUSTOM).size, 0);
}

static void threads_share_the_memory(void **state) {
    kiln_str object = object_of(*state, KILN_STR("\1" RUN), false), module;
    expect_ok(kiln_llvm_wasm_module(object, true, *state, &module));
    kiln_wasm_reader r = {.rest = section_of(module, KILN_WASM_IMPORT)};
    assert_int_equal(kiln_wasm_read_u32(&r), 1);
    kiln_wasm_import import = kiln_wasm_read_import(&r);
    assert_true(
        kiln_str_equal(import.limits, KILN_STR("\3\0\x80\x80\4"))); /* at most 65536 pages */
    assert_int_equal(r.rest.size, 0);
}

static void data_in_memory_is_refused(void **state) {
    kiln_str object = object_of(*state, KILN_STR("\1" RUN), true), module;
    expect_error(kiln_llvm_wasm_module(object, false, *state, &module), UNIMPLEMENTED, "data");
}

static void what_cannot_be_read_is_an_error(void **state) {
    kiln_str object = object_of(*state, KILN_STR("\1" RUN), false), module;
    const kiln_str code_end = {object.data, object.size - 21};
    for (size_t size = 0; size < object.size; size++) {
        kiln_status st =
            kiln_llvm_wasm_module(kiln_str_slice(object, 0, size), false, *state, &module);
        if (size != code_end.size) assert_int_equal(kiln_status_code(st), KILN_INTERNAL);
        kiln_status_free(st);
    }
    object = object_of(*state, KILN_STR("\2" RUN), false); /* one symbol of two */
    expect_error(kiln_llvm_wasm_module(object, false, *state, &module), INTERNAL, "cannot be read");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(global_functions_are_exported_and_no_others),
        test_with_arena(threads_share_the_memory),
        test_with_arena(data_in_memory_is_refused),
        test_with_arena(what_cannot_be_read_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
