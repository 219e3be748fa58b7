#include "base/arena.h"

#include <string.h>

#include "base/alloc.h"
#include "tests/support/test.h"

static void nothing_is_allocated_before_first_use(void **state) {
    (void)state;
    uint64_t before = kiln_alloc_count();
    kiln_arena arena;
    kiln_arena_init(&arena, 0);
    kiln_arena_reset(&arena);
    kiln_arena_deinit(&arena);
    assert_int_equal(kiln_alloc_count(), before);
}

static void a_zeroed_arena_works_and_is_released(void **state) {
    (void)state;
    kiln_arena arena = {0};
    assert_non_null(kiln_arena_alloc(&arena, 1));
    kiln_arena_deinit(&arena);
    assert_null(arena.head);
    assert_int_equal(arena.used_bytes, 0);
    kiln_arena_deinit(&arena);
}

static void objects_are_zeroed_aligned_and_apart(void **state) {
    kiln_arena *arena = *state;
    kiln_arena_init(arena, 256);
    char *before = NULL;
    for (size_t size = 1; size < 600; size += 7) {
        char *object = kiln_arena_alloc(arena, size);
        assert_int_equal((uintptr_t)object % 16, 0);
        for (size_t i = 0; i < size; i++) assert_int_equal(object[i], 0);
        memset(object, 0xff, size);
        assert_ptr_not_equal(object, before);
        before = object;
    }
}

static void alignment_up_to_a_page_is_kept(void **state) {
    kiln_arena *arena = *state;
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        kiln_arena_alloc(arena, 1);
        assert_int_equal((uintptr_t)kiln_arena_alloc_aligned(arena, alignment, 10) % alignment, 0);
    }
}

static void reset_reuses_the_largest_chunk_zeroed(void **state) {
    kiln_arena *arena = *state;
    kiln_arena_init(arena, 128);
    for (int round = 0; round < 3; round++) memset(kiln_arena_alloc(arena, 1000), 0xaa, 1000);
    size_t high_water = arena->high_water_bytes;
    kiln_arena_reset(arena);
    assert_int_equal(arena->used_bytes, 0);
    assert_int_equal(arena->high_water_bytes, high_water);
    uint64_t before = kiln_alloc_count();
    char *again = kiln_arena_alloc(arena, 1000);
    assert_int_equal(kiln_alloc_count(), before);
    for (size_t i = 0; i < 1000; i++) assert_int_equal(again[i], 0);
}

static void copy_copies_and_takes_nothing_of_nothing(void **state) {
    kiln_arena *arena = *state;
    assert_string_equal(kiln_arena_copy(arena, "kiln", 5), "kiln");
    assert_non_null(kiln_arena_copy(arena, NULL, 0));
    int *numbers = KILN_ARENA_ARRAY(arena, int, 3);
    assert_int_equal(numbers[2], 0);
}

static void the_newest_object_grows_in_its_place(void **state) {
    kiln_arena *arena = *state;
    kiln_arena_init(arena, 4096);
    char *object = kiln_arena_grow(arena, NULL, 0, 8);
    memcpy(object, "kiln", 5);
    size_t before = arena->used_bytes;
    assert_ptr_equal(kiln_arena_grow(arena, object, 8, 100), object);
    assert_int_equal(arena->used_bytes, before + 92);
    assert_int_equal(arena->high_water_bytes, arena->used_bytes);
    char *next = kiln_arena_alloc(arena, 1);
    assert_true(next >= object + 100);
    char *moved = kiln_arena_grow(arena, object, 100, 200);
    assert_ptr_not_equal(moved, object);
    assert_string_equal(moved, "kiln");
    char *beyond = kiln_arena_grow(arena, moved, 200, 100000); /* more than the chunk has */
    assert_string_equal(beyond, "kiln");
    memset(beyond, 1, 100000);
    assert_int_equal(*next, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_allocated_before_first_use),
        cmocka_unit_test(a_zeroed_arena_works_and_is_released),
        test_with_arena(objects_are_zeroed_aligned_and_apart),
        test_with_arena(alignment_up_to_a_page_is_kept),
        test_with_arena(reset_reuses_the_largest_chunk_zeroed),
        test_with_arena(copy_copies_and_takes_nothing_of_nothing),
        test_with_arena(the_newest_object_grows_in_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
