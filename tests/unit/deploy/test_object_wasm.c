#include "deploy/runtime/object_wasm.h"

#include "base/wasm.h"
#include "tests/support/test.h"

/* A module with these imports of functions from `from`, and an export of each name. */
static kiln_str module_of(kiln_arena *arena, const char *from, const char *import,
                          const char *export, uint8_t extra) {
    kiln_strbuf module = {0}, section = {0};
    kiln_strbuf_str(&module, KILN_STR(KILN_WASM_HEAD));
    kiln_wasm_write_u32(&section, 1);
    kiln_wasm_write_bytes(&section, kiln_str_from(from));
    kiln_wasm_write_bytes(&section, kiln_str_from(import));
    kiln_strbuf_str(&section, KILN_STR("\0\0")); /* a function of type 0 */
    kiln_wasm_write_section(&module, KILN_WASM_IMPORT, kiln_strbuf_view(&section));
    kiln_strbuf_reset(&section);
    kiln_wasm_write_u32(&section, 1);
    kiln_wasm_write_bytes(&section, kiln_str_from(export));
    kiln_strbuf_str(&section, KILN_STR("\0\1")); /* function 1 */
    kiln_wasm_write_section(&module, KILN_WASM_EXPORT, kiln_strbuf_view(&section));
    kiln_wasm_write_section(&module, extra, KILN_STR(""));
    kiln_strbuf_deinit(&section);
    return kiln_strbuf_end(&module, arena);
}

static const char *const entries[] = {"kiln_run", NULL};

static void a_kernel_with_services_and_its_entries_passes(void **state) {
    kiln_str module = module_of(*state, "env", "expf", "kiln_run", KILN_WASM_CUSTOM);
    expect_ok(kiln_object_wasm_check(module, entries));
    expect_ok(kiln_object_wasm_check(module, NULL));
}

static void what_nobody_gives_or_has_is_named(void **state) {
    kiln_str module = module_of(*state, "env", "system", "kiln_run", KILN_WASM_CUSTOM);
    expect_error(kiln_object_wasm_check(module, entries), NOT_FOUND, "imports system");
    module = module_of(*state, "host", "expf", "kiln_run", KILN_WASM_CUSTOM);
    expect_error(kiln_object_wasm_check(module, entries), NOT_FOUND, "imports expf");
    module = module_of(*state, "env", "__aeabi_lmul", "kiln_run", KILN_WASM_CUSTOM);
    expect_error(kiln_object_wasm_check(module, entries), NOT_FOUND, "__aeabi_lmul");
    module = module_of(*state, "env", "expf", "kiln_prepare", KILN_WASM_CUSTOM);
    expect_error(kiln_object_wasm_check(module, entries), NOT_FOUND, "no entry kiln_run");
}

static void kernels_with_data_or_a_start_are_refused(void **state) {
    static const uint8_t extra[] = {KILN_WASM_DATA, KILN_WASM_START};
    for (size_t i = 0; i < sizeof extra; i++) {
        kiln_str module = module_of(*state, "env", "expf", "kiln_run", extra[i]);
        expect_error(kiln_object_wasm_check(module, entries), UNIMPLEMENTED, "section");
    }
}

static void cut_short_is_damaged(void **state) {
    kiln_str module = module_of(*state, "env", "expf", "kiln_run", KILN_WASM_CUSTOM);
    for (size_t size = 0; size < module.size; size++) {
        kiln_status st = kiln_object_wasm_check(kiln_str_slice(module, 0, size), entries);
        if (size != module.size - 2) /* all but the last, empty section */
            assert_true(kiln_status_code(st) == KILN_DATA_LOSS ||
                        kiln_status_code(st) == KILN_NOT_FOUND);
        kiln_status_free(st);
    }
    expect_error(kiln_object_wasm_check(KILN_STR("\177ELF\2\1\1\0"), NULL), DATA_LOSS,
                 "not a module");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_kernel_with_services_and_its_entries_passes),
        test_with_arena(what_nobody_gives_or_has_is_named),
        test_with_arena(kernels_with_data_or_a_start_are_refused),
        test_with_arena(cut_short_is_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
