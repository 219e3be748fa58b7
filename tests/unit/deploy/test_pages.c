#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/kernel_abi.h"
#include "base/macros.h"
#include "deploy/runtime/pages.h"

static const size_t sizes[] = {0, 1, 63, 64, 65, 4095, 4096, 4097, 100000, (size_t)5 << 20};
static const kiln_guard guards[] = {KILN_GUARD_NONE, KILN_GUARD_AFTER, KILN_GUARD_BEFORE};

static kiln_pages create(size_t size, kiln_guard guard) {
    kiln_pages pages;
    assert_null(kiln_pages_create(size, guard, &pages));
    return pages;
}

static void memory_is_zeroed_aligned_and_writable(void **state) {
    (void)state;
    for (size_t g = 0; g < KILN_ARRAY_COUNT(guards); g++) {
        for (size_t s = 0; s < KILN_ARRAY_COUNT(sizes); s++) {
            kiln_pages pages = create(sizes[s], guards[g]);
            assert_non_null(pages.data);
            assert_int_equal((uintptr_t)pages.data % KILN_KERNEL_ALIGNMENT, 0);
            for (size_t i = 0; i < sizes[s]; i++) assert_int_equal(((uint8_t *)pages.data)[i], 0);
            memset(pages.data, 1, sizes[s]);
            assert_true(kiln_pages_intact(&pages));
            kiln_pages_destroy(&pages);
            kiln_pages_destroy(&pages); /* an empty one is fine */
        }
    }
}

/* Whether touching one byte at `offset` from the data ends the process. */
static bool faults(const kiln_pages *pages, ptrdiff_t offset) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *((volatile uint8_t *)pages->data + offset) = 1;
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void guard_pages_stop_strays(void **state) {
    (void)state;
    for (size_t s = 1; s < KILN_ARRAY_COUNT(sizes); s++) {
        size_t size = sizes[s];
        ptrdiff_t rounded = (ptrdiff_t)((size + KILN_KERNEL_ALIGNMENT - 1) / KILN_KERNEL_ALIGNMENT *
                                        KILN_KERNEL_ALIGNMENT);
        kiln_pages after = create(size, KILN_GUARD_AFTER), before = create(size, KILN_GUARD_BEFORE);
        assert_true(faults(&after, rounded));
        assert_false(faults(&after, (ptrdiff_t)size - 1));
        assert_true(faults(&after, rounded - (ptrdiff_t)(after.mapping_bytes - after.guard_bytes)));
        assert_true(faults(&before, -1));
        assert_false(faults(&before, 0));
        assert_true(
            faults(&before, (ptrdiff_t)before.mapping_bytes - 2 * (ptrdiff_t)before.guard_bytes));
        kiln_pages_destroy(&after);
        kiln_pages_destroy(&before);
    }
}

static void stray_write_beside_the_guard_is_seen(void **state) {
    (void)state;
    kiln_pages pages = create(100, KILN_GUARD_AFTER);
    uint8_t *data = pages.data;
    ptrdiff_t stray[] = {100, 127, -1};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(stray); i++) {
        uint8_t kept = data[stray[i]];
        data[stray[i]] = (uint8_t)~kept;
        assert_false(kiln_pages_intact(&pages));
        data[stray[i]] = kept;
        assert_true(kiln_pages_intact(&pages));
    }
    kiln_pages_destroy(&pages);
}

static void poison_is_no_number_in_any_float_type(void **state) {
    (void)state;
    static const uint16_t patterns[] = {KILN_POISON_FIRST, KILN_POISON_LAST};
    static const kiln_dtype types[] = {KILN_F32, KILN_F64, KILN_F16, KILN_BF16};
    kiln_pages pages = create(801, KILN_GUARD_NONE);
    for (size_t p = 0; p < KILN_ARRAY_COUNT(patterns); p++) {
        kiln_pages_poison(&pages, patterns[p]);
        for (size_t t = 0; t < KILN_ARRAY_COUNT(types); t++)
            for (size_t i = 0; i < 800 / kiln_dtype_size(types[t]); i++)
                assert_true(isnan(kiln_dtype_load_f64(types[t], pages.data, i)));
        assert_int_equal(((uint8_t *)pages.data)[800], patterns[p] & 0xff);
    }
    kiln_pages_destroy(&pages);
}

static void poisons_differ_in_every_byte(void **state) {
    (void)state;
    uint16_t difference = KILN_POISON_FIRST ^ KILN_POISON_LAST;
    assert_true((difference & 0xff) != 0);
    assert_true((difference >> 8) != 0);
}

static void impossible_size_is_refused(void **state) {
    (void)state;
    static const size_t wrong[] = {SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX / 2, (size_t)1 << 60};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++) {
        kiln_pages pages = {0};
        kiln_status st = kiln_pages_create(wrong[i], KILN_GUARD_AFTER, &pages);
        assert_int_equal(kiln_status_code(st), KILN_RESOURCE_EXHAUSTED);
        kiln_status_free(st);
        assert_null(pages.data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_aligned_and_writable),
        cmocka_unit_test(guard_pages_stop_strays),
        cmocka_unit_test(stray_write_beside_the_guard_is_seen),
        cmocka_unit_test(poison_is_no_number_in_any_float_type),
        cmocka_unit_test(poisons_differ_in_every_byte),
        cmocka_unit_test(impossible_size_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
