#include "compiler-core/frontend/tflite/flat.h"

#include <string.h>

#include "tests/support/test.h"
#include "tests/support/tflite_message.h"

static void fields_are_what_was_written(void **state) {
    const int64_t longs[] = {-1, INT64_C(1) << 40};
    flat_table *inner = flat_int(flat_table_of(*state), 0, 4, 77), *outer = flat_table_of(*state);
    flat_int(outer, 0, 1, -3);
    flat_int(outer, 2, 8, INT64_MIN);
    flat_float(outer, 3, 1.5f);
    flat_text(outer, 4, "name");
    flat_list(outer, 5, longs, sizeof *longs, 2);
    flat_child(outer, 6, inner);
    flat_append(flat_append(outer, 7, flat_table_of(*state)), 7, inner);
    kiln_flat file = {.bytes = flat_bytes(outer, "ABCD")};
    const kiln_flat_table t = kiln_flat_root(&file);
    assert_true(kiln_flat_is(file.bytes, "ABCD"));
    assert_false(kiln_flat_is(file.bytes, "ABCE"));
    assert_int_equal(kiln_flat_int(&t, 0, 1, 9), -3);
    assert_int_equal(kiln_flat_int(&t, 1, 4, 9), 9);
    assert_int_equal(kiln_flat_int(&t, 99, 4, 9), 9);
    assert_true(kiln_flat_int(&t, 2, 8, 0) == INT64_MIN);
    assert_float_equal(kiln_flat_float(&t, 3, 0), 1.5, 0);
    assert_true(kiln_str_is(kiln_flat_text(&t, 4), "name"));
    const kiln_flat_vector list = kiln_flat_items(&t, 5, 8), none = kiln_flat_items(&t, 8, 4);
    assert_int_equal(list.count, 2);
    assert_int_equal(kiln_flat_item_int(&list, 0, 8), -1);
    assert_true(kiln_flat_item_int(&list, 1, 8) == longs[1]);
    assert_int_equal(none.count, 0);
    const kiln_flat_table child = kiln_flat_child(&t, 6), absent = kiln_flat_child(&t, 8);
    assert_int_equal(kiln_flat_int(&child, 0, 4, 0), 77);
    assert_int_equal(kiln_flat_int(&absent, 0, 4, 5), 5);
    const kiln_flat_vector tables = kiln_flat_items(&t, 7, 4);
    const kiln_flat_table second = kiln_flat_item_table(&tables, 1);
    assert_int_equal(tables.count, 2);
    assert_int_equal(kiln_flat_int(&second, 0, 4, 0), 77);
    expect_ok(kiln_flat_status(&file));
}

/* Reads whatever can be read of a file with a list of tables that have a text. */
static kiln_status read_all(kiln_flat *file) {
    const kiln_flat_table root = kiln_flat_root(file);
    const kiln_flat_vector tables = kiln_flat_items(&root, 1, 4);
    for (uint32_t i = 0; i < tables.count && !file->bad; i++) {
        const kiln_flat_table table = kiln_flat_item_table(&tables, i);
        const kiln_str text = kiln_flat_text(&table, 0);
        for (size_t k = 0; k < text.size; k++) assert_in_range((uint8_t)text.data[k], 0, 255);
    }
    return kiln_flat_status(file);
}

/* Every file that ends early, and every byte that is another one. The copy is as long as the part,
 * so that reading beyond it is seen by sanitizers. */
static void no_damage_leads_out_of_the_file(void **state) {
    flat_table *root = flat_table_of(*state);
    for (int i = 0; i < 3; i++)
        flat_append(root, 1, flat_text(flat_table_of(*state), 0, "some text"));
    const kiln_str whole = flat_bytes(root, "ABCD");
    uint32_t refused = 0;
    for (size_t size = 0; size + 1 < whole.size; size++) { /* the last text's 0 is not missed */
        kiln_strbuf part = {0};
        kiln_strbuf_append(&part, whole.data, size);
        kiln_flat file = {.bytes = kiln_strbuf_view(&part)};
        kiln_status st = read_all(&file);
        assert_non_null(st);
        kiln_status_free(st);
        kiln_strbuf_deinit(&part);
    }
    for (size_t at = 0; at < whole.size; at++) {
        char *copy = kiln_arena_copy(*state, whole.data, whole.size);
        for (uint32_t value = 0; value < 256; value += 15) {
            copy[at] = (char)value;
            kiln_flat file = {.bytes = {copy, whole.size}};
            kiln_status st = read_all(&file);
            refused += st != NULL;
            kiln_status_free(st);
        }
    }
    assert_true(refused > 100);
}

static void damage_is_named_with_its_place(void **state) {
    (void)state;
    kiln_flat file = {.bytes = KILN_STR("\x40\0\0\0ABCD")};
    kiln_flat_root(&file);
    expect_error(kiln_flat_status(&file), INVALID_ARGUMENT,
                 "the file is damaged: an offset leads out of the file at byte 0");
    file = (kiln_flat){.bytes = KILN_STR("\x08\0\0\0ABCD\xff\xff\xff\x7f")};
    kiln_flat_root(&file);
    expect_error(kiln_flat_status(&file), INVALID_ARGUMENT, "listed outside of the file at byte 8");
    assert_false(kiln_flat_is(KILN_STR("\x40\0\0\0ABCD"), "ABCD"));
    assert_false(kiln_flat_is(KILN_STR("\x04\0\0"), "ABCD"));
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(fields_are_what_was_written),
        test_with_arena(no_damage_leads_out_of_the_file),
        test_with_arena(damage_is_named_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
