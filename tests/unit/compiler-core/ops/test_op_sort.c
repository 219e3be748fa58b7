#include "tests/unit/compiler-core/graph/support.h"

#define DATA "input x: f32[1]\nconstant v: f32[2,3] = [3, 1, 2, 5, 6, 5]"

static void values_and_positions_come_in_order(void **state) {
    expect_op(*state, DATA, "y: f32[2,2], i: i64[2,2] = top_k(v) k=[2]", "f32[2,2]: 3 2 6 5");
    expect_op(*state, DATA, "v2: f32[2,2], y: i64[2,2] = top_k(v) k=[2]", "i64[2,2]: 0 2 1 0");
    expect_op(*state, DATA, "y: f32[2,1] = top_k(v) k=[1] largest=0", "f32[2,1]: 1 5");
    expect_op(*state, DATA, "y: f32[1,3] = top_k(v) k=[1] axis=0", "f32[1,3]: 5 6 5");
}

static void of_equals_the_earlier_comes_first(void **state) {
    expect_op(*state, "input x: f32[1]\nconstant v: i32[4] = [7, 7, 7, 7]",
              "a: i32[4], y: i64[4] = top_k(v) k=[4]", "i64[4]: 0 1 2 3");
}

static void k_must_fit(void **state) {
    expect_op_refused(*state, DATA, "y: f32[2,4] = top_k(v) k=[4]", "at most 3");
    expect_op_refused(*state, DATA, "y: f32[2,4] = top_k(v)", "attribute k must be one number");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(values_and_positions_come_in_order),
        test_with_arena(of_equals_the_earlier_comes_first),
        test_with_arena(k_must_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
