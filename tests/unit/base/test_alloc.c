#include "base/alloc.h"

#include <sys/wait.h>

#include "tests/support/test.h"

static void memory_is_zeroed_and_never_null(void **state) {
    (void)state;
    unsigned char *memory = kiln_alloc(4096);
    for (size_t i = 0; i < 4096; i++) assert_int_equal(memory[i], 0);
    kiln_free(memory);
    memory = kiln_alloc(0);
    assert_non_null(memory);
    kiln_free(memory);
}

static void aligned_memory_is_aligned_and_zeroed(void **state) {
    (void)state;
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        unsigned char *memory = kiln_alloc_aligned(alignment, 100);
        assert_int_equal((uintptr_t)memory % alignment, 0);
        for (size_t i = 0; i < 100; i++) assert_int_equal(memory[i], 0);
        kiln_free(memory);
    }
}

static void realloc_keeps_content(void **state) {
    (void)state;
    char *memory = kiln_realloc(NULL, 3);
    memory[0] = 'a', memory[1] = 'b', memory[2] = 'c';
    memory = kiln_realloc(memory, 1 << 20);
    assert_memory_equal(memory, "abc", 3);
    kiln_free(memory);
}

static void a_secret_is_wiped(void **state) {
    (void)state;
    char text[] = "secret.";
    kiln_wipe(text, 6);
    assert_memory_equal(text, "\0\0\0\0\0\0.", sizeof text);
}

static void every_allocation_is_counted(void **state) {
    (void)state;
    uint64_t before = kiln_alloc_count();
    void *memory = kiln_alloc(1);
    memory = kiln_realloc(memory, 2);
    kiln_free(memory);
    kiln_free(kiln_alloc_aligned(64, 1));
    assert_int_equal(kiln_alloc_count() - before, 3);
}

static void what_only_tries_is_told(void **state) {
    (void)state;
    char *memory = kiln_try_alloc(3);
    memory[0] = 'a';
    kiln_alloc_fail_nth(1);
    assert_null(kiln_try_alloc(3));
    kiln_alloc_fail_nth(1);
    assert_null(kiln_try_realloc(memory, 300));
    kiln_alloc_fail_nth(0);
    memory = kiln_try_realloc(memory, 300);
    assert_int_equal(memory[0], 'a'); /* it stayed */
    kiln_free(memory);
}

static void fail_the_third(void) {
    kiln_alloc_fail_nth(3);
    void *first = kiln_alloc(1), *second = kiln_realloc(NULL, 1);
    void *third = kiln_alloc_aligned(8, 1);
    (void)first, (void)second, (void)third;
}

static void fail_none(void) {
    kiln_alloc_fail_nth(1);
    kiln_alloc_fail_nth(0);
    kiln_free(kiln_alloc(1));
}

static void ask_for_everything(void) { kiln_free(kiln_alloc(SIZE_MAX / 2)); }

static void out_of_memory_ends_the_process_with_code_16(void **state) {
    (void)state;
    int how = run_in_child(fail_the_third);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 16);
    how = run_in_child(fail_none);
    assert_int_equal(WEXITSTATUS(how), 0);
    if (KILN_SANITIZED) return; /* sanitizers end the process themselves */
    how = run_in_child(ask_for_everything);
    assert_int_equal(WEXITSTATUS(how), 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_never_null),
        cmocka_unit_test(aligned_memory_is_aligned_and_zeroed),
        cmocka_unit_test(realloc_keeps_content),
        cmocka_unit_test(a_secret_is_wiped),
        cmocka_unit_test(every_allocation_is_counted),
        cmocka_unit_test(what_only_tries_is_told),
        cmocka_unit_test(out_of_memory_ends_the_process_with_code_16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
