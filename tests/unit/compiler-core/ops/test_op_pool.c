#include "tests/unit/compiler-core/graph/support.h"

#define LINE "input x: f32[1,1,5]"

static void maxima_and_their_places(void **state) {
    expect_op(*state, LINE, "y: f32[1,1,2] = max_pool(x) kernel_shape=[2] strides=[2]",
              "f32[1,1,2]: 2 4");
    expect_op(*state, LINE, "_, y: i64[1,1,2] = max_pool(x) kernel_shape=[2] strides=[2]",
              "i64[1,1,2]: 1 3");
    expect_op(*state, "input x: f32[2,1,1,2]",
              "_, y: i64[2,1,1,1] = max_pool(x) kernel_shape=[1,2]", "i64[2,1,1,1]: 1 3");
}

static void places_may_count_by_columns(void **state) {
    expect_op(*state, "input x: f32[1,1,2,3]",
              "_, y: i64[1,1,1,1] = max_pool(x) kernel_shape=[2,2] strides=[2,2] storage_order=1",
              "i64[1,1,1,1]: 3");
}

static void ceil_mode_takes_a_window_that_ends_outside(void **state) {
    expect_op(*state, LINE, "y: f32[1,1,3] = max_pool(x) kernel_shape=[2] strides=[2] ceil_mode=1",
              "f32[1,1,3]: 2 4 5");
    /* but none that starts outside */
    expect_op(*state, "input x: f32[1,1,4]",
              "y: f32[1,1,2] = max_pool(x) kernel_shape=[1] strides=[3] ceil_mode=1",
              "f32[1,1,2]: 1 4");
}

static void averages_count_what_is_inside(void **state) {
    expect_op(*state, LINE, "y: f32[1,1,6] = average_pool(x) kernel_shape=[2] pads=[1,1]",
              "f32[1,1,6]: 1 1.5 2.5 3.5 4.5 5");
    expect_op(*state, LINE,
              "y: f32[1,1,6] = average_pool(x) kernel_shape=[2] pads=[1,1] count_include_pad=1",
              "f32[1,1,6]: 0.5 1.5 2.5 3.5 4.5 2.5");
    expect_op(*state, LINE,
              "y: f32[1,1,3] = average_pool(x) kernel_shape=[2] strides=[2] ceil_mode=1 "
              "count_include_pad=1",
              "f32[1,1,3]: 1.5 3.5 5");
    expect_op(*state, LINE,
              "y: f32[1,1,4] = average_pool(x) kernel_shape=[2] dilations=[3] pads=[1,1]",
              "f32[1,1,4]: 3 2.5 3.5 3");
}

static void norms_are_taken_over_windows(void **state) {
    expect_op(*state, "input x: f32[1,1,2]", "y: f32[1,1,1] = lp_pool(x) kernel_shape=[2] p=1",
              "f32[1,1,1]: 3");
    expect_op(*state, "constant k: f32[1,1,2] = [3, -4]\ninput x: f32[1]",
              "y: f32[1,1,1] = lp_pool(k) kernel_shape=[2]", "f32[1,1,1]: 5");
}

static void global_pools_leave_ones(void **state) {
    const char *inputs = "input x: f32[1,2,2,2]";
    expect_op(*state, inputs, "y: f32[1,2,1,1] = global_average_pool(x)", "f32[1,2,1,1]: 2.5 6.5");
    expect_op(*state, inputs, "y: f32[1,2,1,1] = global_max_pool(x)", "f32[1,2,1,1]: 4 8");
    expect_op(*state, inputs, "y: f32[1,2,1,1] = global_lp_pool(x) p=1", "f32[1,2,1,1]: 10 26");
    expect_op_refused(*state, "input x: f32[1,2]", "y: f32[1,2] = global_max_pool(x)",
                      "at least 3 dimensions");
    expect_op_refused(*state, "input x: f32[1,2,0]", "y: f32[1,2,1] = global_max_pool(x)",
                      "input 0 is empty");
}

static void averages_of_bytes_are_floats(void **state) {
    expect_op(*state, "constant x: u8[1,1,4] = [255, 255, 254, 1]\ninput z: f32[1]",
              "y: f32[1,1,1] = global_average_pool(x)", "f32[1,1,1]: 191.25");
    expect_op(*state, "constant x: i8[1,1,4] = [-128, -128, 127, 1]\ninput z: f32[1]",
              "y: f32[1,1,4] = average_pool(x) kernel_shape=[2] pads=[0,1]",
              "f32[1,1,4]: -128 -0.5 64 1");
}

static void windows_need_a_size(void **state) {
    expect_op_refused(*state, LINE, "y: f32[1,1,5] = max_pool(x)",
                      "attribute kernel_shape is missing");
    expect_op_refused(*state, LINE, "y: f32[1,1,5] = max_pool(x) kernel_shape=[6]",
                      "larger than dimension 2");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(maxima_and_their_places),
        test_with_arena(places_may_count_by_columns),
        test_with_arena(ceil_mode_takes_a_window_that_ends_outside),
        test_with_arena(averages_count_what_is_inside),
        test_with_arena(norms_are_taken_over_windows),
        test_with_arena(global_pools_leave_ones),
        test_with_arena(averages_of_bytes_are_floats),
        test_with_arena(windows_need_a_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
