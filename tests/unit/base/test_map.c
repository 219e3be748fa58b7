#include "base/map.h"

#include <stdio.h>

#include "base/rand.h"
#include "tests/support/test.h"

static void what_was_put_is_found(void **state) {
    (void)state;
    kiln_map map;
    uint64_t value = 0;
    kiln_map_init(&map);
    assert_false(kiln_map_find(&map, KILN_STR("a"), &value));
    assert_false(kiln_map_remove(&map, KILN_STR("a")));
    assert_true(kiln_map_put(&map, KILN_STR("a"), 1));
    assert_true(kiln_map_put(&map, KILN_STR(""), 2));
    assert_true(kiln_map_put(&map, KILN_STR("a\0b"), 3));
    assert_false(kiln_map_put(&map, KILN_STR("a"), 4));
    assert_true(kiln_map_find(&map, KILN_STR("a"), &value));
    assert_int_equal(value, 4);
    assert_true(kiln_map_find(&map, KILN_STR(""), &value));
    assert_int_equal(value, 2);
    assert_true(kiln_map_find(&map, KILN_STR("a\0b"), &value));
    assert_int_equal(value, 3);
    assert_int_equal(kiln_map_count(&map), 3);
    kiln_map_reset(&map);
    assert_int_equal(kiln_map_count(&map), 0);
    assert_false(kiln_map_find(&map, KILN_STR("a"), &value));
    kiln_map_deinit(&map);
    kiln_map_deinit(&map);
}

static void iteration_is_in_insertion_order_after_removals(void **state) {
    (void)state;
    kiln_map map = {0};
    char key[16];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "k%d", i);
        kiln_map_put(&map, kiln_str_from(key), (uint64_t)i);
    }
    for (int i = 0; i < 100; i += 3) {
        snprintf(key, sizeof key, "k%d", i);
        assert_true(kiln_map_remove(&map, kiln_str_from(key)));
    }
    kiln_map_put(&map, KILN_STR("k0"), 1000); /* comes back at the end */
    uint32_t cursor = 0;
    uint64_t value = 0, expected = 1;
    kiln_str name;
    while (kiln_map_next(&map, &cursor, &name, &value)) {
        assert_int_equal(value, expected);
        expected = expected + (expected % 3 == 2 ? 2 : 1);
        if (expected == 100) expected = 1000;
    }
    assert_int_equal(kiln_map_count(&map), 67);
    kiln_map_deinit(&map);
}

/* Against a plain array with one place per key. */
static void random_operations_agree_with_an_array(void **state) {
    (void)state;
    enum { KEYS = 200 };
    static uint64_t model[KEYS];
    static bool present[KEYS];
    kiln_map map = {0};
    kiln_rand r;
    kiln_rand_init(&r, 3);
    uint32_t live = 0;
    for (int step = 0; step < 50000; step++) {
        char text[16];
        size_t k = (size_t)kiln_rand_below(&r, KEYS);
        snprintf(text, sizeof text, "%zu", k);
        kiln_str key = kiln_str_from(text);
        uint64_t value = kiln_rand_u64(&r), found = 0;
        switch (kiln_rand_below(&r, 3)) {
        case 0:
            assert_int_equal(kiln_map_put(&map, key, value), !present[k]);
            live += !present[k];
            model[k] = value, present[k] = true;
            break;
        case 1:
            assert_int_equal(kiln_map_remove(&map, key), present[k]);
            live -= present[k];
            present[k] = false;
            break;
        default:
            assert_int_equal(kiln_map_find(&map, key, &found), present[k]);
            if (present[k]) assert_true(found == model[k]);
        }
        assert_int_equal(kiln_map_count(&map), live);
    }
    assert_in_range(map.slot_count, 256, 2048); /* dead entries are dropped, not kept for ever */
    kiln_map_deinit(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_found),
        cmocka_unit_test(iteration_is_in_insertion_order_after_removals),
        cmocka_unit_test(random_operations_agree_with_an_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
