#include "base/vec.h"

#include "base/alloc.h"
#include "tests/support/test.h"

typedef KILN_VEC(int) int_vec;

static void pushed_items_stay_in_order(void **state) {
    (void)state;
    int_vec v = {0};
    for (int i = 0; i < 1000; i++) kiln_vec_push(&v, i);
    assert_int_equal(v.count, 1000);
    for (int i = 0; i < 1000; i++) assert_int_equal(v.data[i], i);
    assert_int_equal(kiln_vec_last(&v), 999);
    assert_int_equal(kiln_vec_pop(&v), 999);
    assert_int_equal(v.count, 999);
    kiln_vec_deinit(&v);
    assert_null(v.data);
    assert_int_equal(v.count, 0);
}

static void reserved_room_needs_no_growth(void **state) {
    (void)state;
    int_vec v = {0};
    kiln_vec_reserve(&v, 500);
    uint64_t before = kiln_alloc_count();
    for (int i = 0; i < 500; i++) kiln_vec_push(&v, i);
    assert_int_equal(kiln_alloc_count(), before);
    kiln_vec_reserve(&v, 10);
    assert_int_equal(kiln_alloc_count(), before);
    kiln_vec_deinit(&v);
}

static void a_removed_item_leaves_the_others_in_order(void **state) {
    (void)state;
    int_vec v = {0};
    for (int i = 0; i < 4; i++) kiln_vec_push(&v, i % 3);
    kiln_vec_remove(&v, 7); /* is not there */
    assert_int_equal(v.count, 4);
    kiln_vec_remove(&v, 0); /* the first of two */
    kiln_vec_remove(&v, 2);
    assert_int_equal(v.count, 2);
    assert_int_equal(v.data[0], 1);
    assert_int_equal(v.data[1], 0);
    kiln_vec_remove(&v, 0);
    kiln_vec_remove(&v, 1);
    kiln_vec_remove(&v, 1);
    assert_int_equal(v.count, 0);
    kiln_vec_deinit(&v);
}

static void growth_is_geometric(void **state) {
    (void)state;
    int_vec v = {0};
    uint64_t before = kiln_alloc_count();
    for (int i = 0; i < 100000; i++) kiln_vec_push(&v, i);
    assert_in_range(kiln_alloc_count() - before, 1, 20);
    kiln_vec_deinit(&v);
}

static void arena_vectors_live_in_the_arena(void **state) {
    kiln_arena *arena = *state;
    int_vec v = {0};
    for (int i = 0; i < 1000; i++) kiln_vec_push_in(arena, &v, i);
    for (int i = 0; i < 1000; i++) assert_int_equal(v.data[i], i);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushed_items_stay_in_order),
        cmocka_unit_test(reserved_room_needs_no_growth),
        cmocka_unit_test(a_removed_item_leaves_the_others_in_order),
        cmocka_unit_test(growth_is_geometric),
        test_with_arena(arena_vectors_live_in_the_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
