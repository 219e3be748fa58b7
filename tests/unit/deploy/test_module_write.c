#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/file.h"
#include "deploy/pack/module_write.h"
#include "tests/unit/deploy/fixture.h"

static kiln_arena arena;

static void same_plan_gives_the_same_bytes(void **state) {
    (void)state;
    kiln_module_plan plan = fixture_plan(&arena, "kernel_static.o"),
                     again = fixture_plan(&arena, "kernel_static.o");
    kiln_strbuf a = {0}, b = {0};
    kiln_strbuf_text(&b, "before"); /* what is in the buffer already stays */
    assert_null(kiln_module_encode(&plan, &a));
    assert_null(kiln_module_encode(&again, &b));
    assert_int_equal(b.size, a.size + 6);
    assert_memory_equal(b.data + 6, a.data, a.size);
    kiln_strbuf_deinit(&a);
    kiln_strbuf_deinit(&b);
}

static void constants_begin_on_a_page(void **state) {
    (void)state;
    kiln_module_plan plan = fixture_plan(&arena, "kernel_static.o");
    kiln_strbuf bytes = {0};
    assert_null(kiln_module_encode(&plan, &bytes));
    uint64_t offset;
    memcpy(&offset,
           bytes.data + KILN_MODULE_HEADER_BYTES +
               KILN_MODULE_INDEX_CONSTANTS * KILN_MODULE_ENTRY_BYTES + KILN_MODULE_ENTRY_AT_OFFSET,
           sizeof offset);
    assert_int_equal(offset % KILN_MODULE_CONSTANT_ALIGNMENT, 0);
    assert_memory_equal(bytes.data + offset, plan.buffer[FIXTURE_W0].data, FIXTURE_BYTES);
    kiln_strbuf_deinit(&bytes);
}

static void parts_are_the_file_and_views_of_the_constants(void **state) {
    (void)state;
    kiln_module_bucket only = {.plan = fixture_plan(&arena, "kernel_static.o")};
    const kiln_module_sizes sizes = {.bucket_count = 1, .bucket = &only};
    kiln_module_bytes bytes;
    kiln_strbuf file = {0}, joined = {0};
    bool seen = false;
    assert_null(kiln_module_encode_sizes(&sizes, &file));
    assert_null(kiln_module_encode_parts(&sizes, &arena, &bytes));
    assert_int_equal(bytes.size, file.size);
    for (uint32_t i = 0; i < bytes.part_count; i++) {
        kiln_strbuf_str(&joined, bytes.part[i]);
        seen = seen || bytes.part[i].data == only.plan.buffer[FIXTURE_W0].data;
    }
    assert_true(seen);
    assert_int_equal(joined.size, file.size);
    assert_memory_equal(joined.data, file.data, file.size);
    kiln_strbuf_deinit(&file);
    kiln_strbuf_deinit(&joined);
}

static void plan_that_breaks_a_rule_is_not_written(void **state) {
    (void)state;
    kiln_module_plan plan = fixture_plan(&arena, "kernel_static.o");
    plan.threads = 0;
    kiln_strbuf bytes = {0};
    kiln_status st = kiln_module_encode(&plan, &bytes);
    assert_int_equal(kiln_status_code(st), KILN_INVALID_ARGUMENT);
    kiln_status_free(st);
    assert_int_equal(bytes.size, 0);
    kiln_strbuf_deinit(&bytes);

    char *folder;
    assert_null(kiln_folder_create_temp("kiln-test", &arena, &folder));
    char *path = kiln_arena_printf(&arena, "%s/module.kiln", folder);
    st = kiln_module_write(&plan, path);
    assert_non_null(strstr(kiln_status_text(st), path));
    kiln_status_free(st);
    assert_false(kiln_file_exists(path));
    assert_null(kiln_folder_remove(folder));
}

static void unwritable_place_is_an_error(void **state) {
    (void)state;
    kiln_module_plan plan = fixture_plan(&arena, "kernel_static.o");
    kiln_status st = kiln_module_write(&plan, "/nonexistent/module.kiln");
    assert_non_null(st);
    kiln_status_free(st);
}

int main(int argc, char **argv) {
    fixture_init(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_plan_gives_the_same_bytes),
        cmocka_unit_test(constants_begin_on_a_page),
        cmocka_unit_test(parts_are_the_file_and_views_of_the_constants),
        cmocka_unit_test(plan_that_breaks_a_rule_is_not_written),
        cmocka_unit_test(unwritable_place_is_an_error),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_arena_deinit(&arena);
    return failed;
}
