#include "tests/unit/compiler-core/graph/support.h"

#define MATRIX "input x: f32[2,3]"

static void dimensions_are_kept_or_dropped(void **state) {
    expect_op(*state, MATRIX, "y: f32[1,1] = reduce_sum(x)", "f32[1,1]: 21");
    expect_op(*state, MATRIX, "y: f32[2,1] = reduce_sum(x) axes=[1]", "f32[2,1]: 6 15");
    expect_op(*state, MATRIX, "y: f32[3] = reduce_sum(x) axes=[-2] keepdims=0", "f32[3]: 5 7 9");
    expect_op(*state, MATRIX, "y: f32[] = reduce_sum(x) keepdims=0", "f32[]: 21");
    expect_op(*state, MATRIX, "y: f32[2,3] = reduce_sum(x) axes=[] noop_with_empty_axes=1",
              "f32[2,3]: 1 2 3 4 5 6");
    expect_op(*state, MATRIX, "y: f32[1,1] = reduce_sum(x) axes=[]", "f32[1,1]: 21");
}

static void each_kind_reduces_in_its_way(void **state) {
    const char *inputs = "input x: f32[1]\nconstant k: f32[3] = [3, -4, 0]";
    expect_op(*state, inputs, "y: f32[1] = reduce_mean(k)", "f32[1]: -0.333333");
    expect_op(*state, inputs, "y: f32[1] = reduce_max(k)", "f32[1]: 3");
    expect_op(*state, inputs, "y: f32[1] = reduce_min(k)", "f32[1]: -4");
    expect_op(*state, inputs, "y: f32[1] = reduce_prod(k)", "f32[1]: -0");
    expect_op(*state, inputs, "y: f32[1] = reduce_l1(k)", "f32[1]: 7");
    expect_op(*state, inputs, "y: f32[1] = reduce_l2(k)", "f32[1]: 5");
    expect_op(*state, inputs, "y: f32[1] = reduce_sum_square(k)", "f32[1]: 25");
    expect_op(*state, MATRIX, "y: f32[1,1] = reduce_log_sum(x)", "f32[1,1]: 3.04452");
}

static void log_sum_exp_does_not_overflow(void **state) {
    const char *inputs =
        "input x: f32[1]\nconstant k: f32[2] = [1000, 1000]\nconstant m: f32[2] = [-inf, -inf]";
    expect_op(*state, inputs, "y: f32[1] = reduce_log_sum_exp(k)", "f32[1]: 1000.69");
    expect_op(*state, inputs, "y: f32[1] = reduce_log_sum_exp(m)", "f32[1]: -inf");
}

static void integers_reduce_as_integers(void **state) {
    expect_op(*state, "input x: i64[3]", "y: i64[1] = reduce_sum(x)", "i64[1]: 6");
    expect_op(*state, "input x: i32[4]", "y: i32[1] = reduce_mean(x)", "i32[1]: 2");
    expect_op(*state, "input x: bool[2]", "y: bool[1] = reduce_max(x)", "bool[1]: 1");
}

static void extremes_tell_their_first_or_last_place(void **state) {
    const char *inputs = "input x: f32[1]\nconstant k: f32[2,3] = [5, 9, 9, 1, 0, 0]";
    expect_op(*state, inputs, "y: i64[2,1] = arg_max(k) axis=1", "i64[2,1]: 1 0");
    expect_op(*state, inputs, "y: i64[2] = arg_max(k) axis=1 keepdims=0 select_last_index=1",
              "i64[2]: 2 0");
    expect_op(*state, inputs, "y: i64[2,1] = arg_min(k) axis=-1 select_last_index=1",
              "i64[2,1]: 0 2");
    expect_op_refused(*state, "input x: f32[0]", "y: i64[1] = arg_max(x)", "dimension 0 is empty");
}

static void running_sums_go_either_way(void **state) {
    expect_op(*state, "input x: f32[4]", "y: f32[4] = cum_sum(x) axis=[0]", "f32[4]: 1 3 6 10");
    expect_op(*state, "input x: f32[4]", "y: f32[4] = cum_sum(x) axis=[0] exclusive=1",
              "f32[4]: 0 1 3 6");
    expect_op(*state, "input x: f32[4]", "y: f32[4] = cum_sum(x) axis=[0] reverse=1",
              "f32[4]: 10 9 7 4");
    expect_op(*state, "input x: f32[4]", "y: f32[4] = cum_prod(x) axis=[0]", "f32[4]: 1 2 6 24");
    expect_op(*state, "input x: i32[4]", "y: i32[4] = cum_prod(x) axis=[0] reverse=1 exclusive=1",
              "i32[4]: 24 12 4 1");
    expect_op_refused(*state, MATRIX, "y: f32[2,3] = cum_sum(x) axis=[0,1]",
                      "attribute axis must be one dimension");
    expect_op_refused(*state, MATRIX, "y: f32[2,3] = cum_sum(x) axis=[]",
                      "attribute axis must be one dimension");
}

static void hardmax_marks_the_first_maximum(void **state) {
    const char *inputs = "input x: f32[1]\nconstant k: f32[2,2,2] = [1, 1, 2, 0, 3, 4, 4, 0]";
    expect_op(*state, inputs, "y: f32[2,2,2] = hardmax(k)", "f32[2,2,2]: 1 0 1 0 0 1 1 0");
    expect_op(*state, inputs, "y: f32[2,2,2] = hardmax(k) axis=1 flatten=1",
              "f32[2,2,2]: 0 0 1 0 0 1 0 0");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(dimensions_are_kept_or_dropped),
        test_with_arena(each_kind_reduces_in_its_way),
        test_with_arena(log_sum_exp_does_not_overflow),
        test_with_arena(integers_reduce_as_integers),
        test_with_arena(extremes_tell_their_first_or_last_place),
        test_with_arena(running_sums_go_either_way),
        test_with_arena(hardmax_marks_the_first_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
