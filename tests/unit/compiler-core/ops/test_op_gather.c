#include "tests/unit/compiler-core/graph/support.h"

#define DATA "input x: f32[3,2]\nconstant i: i64[3] = [2, -3, 1]\nconstant wild: i64[2] = [99, -99]"

static void gather_takes_rows_by_index(void **state) {
    expect_op(*state, DATA, "y: f32[3,2] = gather(x, i)", "f32[3,2]: 5 6 1 2 3 4");
    expect_op(*state, "input x: f32[2,3]\nconstant i: i32[] = [-1]",
              "y: f32[2] = gather(x, i) axis=1", "f32[2]: 3 6");
    expect_op(*state, "input x: f32[3]\nconstant i: i64[] = [1]", "y: f32[] = gather(x, i)",
              "f32[]: 2");
}

static void indices_out_of_range_are_clamped(void **state) {
    expect_op(*state, DATA, "y: f32[2,2] = gather(x, wild)", "f32[2,2]: 5 6 1 2");
    expect_op(*state, DATA "\nconstant w: i64[1,1] = [-99]", "y: f32[1,2] = gather_nd(x, w)",
              "f32[1,2]: 1 2");
    expect_op(*state, DATA "\nconstant w: i64[1,2] = [99, 7]",
              "y: f32[1,2] = gather_elements(x, w)", "f32[1,2]: 5 6");
}

static void indices_are_integers_into_something(void **state) {
    expect_op_refused(*state, "input x: f32[3]\ninput i: f32[2]", "y: f32[2] = gather(x, i)",
                      "must hold integers");
    expect_op_refused(*state, "input x: f32[0,2]\ninput i: i64[1]", "y: f32[1,2] = gather(x, i)",
                      "dimension 0 is empty");
    expect_op_refused(*state, "input x: f32[2,2]\ninput i: i64[2,3]", "y: f32[2] = gather_nd(x, i)",
                      "3 dimensions do not fit");
}

static void gather_nd_takes_batches(void **state) {
    expect_op(*state, "input x: f32[2,2,2]\nconstant i: i64[2,1] = [1, 0]",
              "y: f32[2,2] = gather_nd(x, i) batch_dims=1", "f32[2,2]: 3 4 5 6");
    expect_op(*state, "input x: f32[2,2]\nconstant i: i64[2,2] = [0, 0, 1, 1]",
              "y: f32[2] = gather_nd(x, i)", "f32[2]: 1 4");
}

static void one_hot_marks_its_index(void **state) {
    const char *inputs =
        "input x: f32[1]\nconstant i: i64[2] = [1, -1]\nconstant v: f32[2] = [0, 7]";
    expect_op(*state, inputs, "y: f32[2,3] = one_hot(i, v) depth=[3]", "f32[2,3]: 0 7 0 0 0 7");
    expect_op(*state, inputs, "y: f32[3,2] = one_hot(i, v) depth=[3] axis=0",
              "f32[3,2]: 0 0 7 0 0 7");
    expect_op_refused(*state, inputs, "y: f32[2,3] = one_hot(i, v) depth=[0]",
                      "one positive number");
}

static void sequences_reverse_up_to_their_length(void **state) {
    expect_op(*state, "input x: f32[3,2]\nconstant n: i64[2] = [3, 2]",
              "y: f32[3,2] = reverse_sequence(x, n)", "f32[3,2]: 5 4 3 2 1 6");
    expect_op(*state, "input x: f32[3,2]\nconstant n: i64[2] = [99, 0]",
              "y: f32[3,2] = reverse_sequence(x, n)", "f32[3,2]: 5 2 5 4 5 6");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(gather_takes_rows_by_index),
        test_with_arena(indices_out_of_range_are_clamped),
        test_with_arena(indices_are_integers_into_something),
        test_with_arena(gather_nd_takes_batches),
        test_with_arena(one_hot_marks_its_index),
        test_with_arena(sequences_reverse_up_to_their_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
