/* The table of algorithms. */
#include "compiler-core/algorithm/algorithm.h"

#include "tests/support/test.h"
#include "tests/unit/compiler-core/sched/support.h"

static void names_are_found_again(void **state) {
    (void)state;
    for (uint32_t i = 0; i < KILN_ALGORITHM_COUNT; i++) {
        const char *name = kiln_algorithm_name((kiln_algorithm)i);
        assert_int_equal(kiln_algorithm_find(kiln_str_from(name)), i);
        assert_true(kiln_algorithm_error_factor((kiln_algorithm)i) >= 1);
    }
    assert_int_equal(kiln_algorithm_find(KILN_STR("winograd")), KILN_ALGORITHM_COUNT);
    assert_int_equal(kiln_algorithm_find(KILN_STR("direct")), KILN_ALGORITHM_DIRECT);
}

static void the_direct_form_is_a_copy(void **state) {
    kiln_program *te = chain_program(*state, 4, 4);
    kiln_program *p = kiln_algorithm_apply(KILN_ALGORITHM_DIRECT, te, *state);
    assert_true(p != te);
    kiln_program_make_loops(p);
    expect_ok(same_result(te, p, *state));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(names_are_found_again),
        test_with_arena(the_direct_form_is_a_copy),
    };
    return cmocka_run_group_tests_name("compiler-core/algorithm/algorithm", tests, NULL, NULL);
}
