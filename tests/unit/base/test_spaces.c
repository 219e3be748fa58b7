#include "base/spaces.h"

#include "base/kernel_abi.h"
#include "tests/support/test.h"

static void every_space_is_found_by_name_and_number(void **state) {
    (void)state;
#define X(id, number, text, seen, capacity, bytes, allocator, doc)         \
    assert_int_equal(kiln_memory_find(KILN_STR(text)), KILN_MEMORY_##id);  \
    assert_string_equal(kiln_memory_row_of(KILN_MEMORY_##id)->name, text); \
    assert_int_equal(kiln_memory_row_of(KILN_MEMORY_##id)->alignment, bytes);
#include "base/spaces.def"
#undef X
    assert_int_equal(kiln_memory_find(KILN_STR("heap")), KILN_MEMORY_SPACES_END);
    assert_null(kiln_memory_row_of((kiln_memory_space)0));
    assert_null(kiln_memory_row_of(KILN_MEMORY_SPACES_END));
}

/* Plans give out places at multiples of the alignment, and kernels of the host count on theirs. */
static void alignments_are_powers_of_two_that_kernels_can_use(void **state) {
    (void)state;
    for (unsigned i = 0; i < KILN_MEMORY_SPACES_END; i++) {
        const kiln_memory_row *row = kiln_memory_row_of((kiln_memory_space)i);
        if (!row) continue;
        assert_true(row->alignment > 0 && (row->alignment & (row->alignment - 1)) == 0);
        if (row->allocator == KILN_ALLOCATOR_OWNER)
            assert_int_equal(row->alignment % KILN_KERNEL_ALIGNMENT, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_space_is_found_by_name_and_number),
        cmocka_unit_test(alignments_are_powers_of_two_that_kernels_can_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
