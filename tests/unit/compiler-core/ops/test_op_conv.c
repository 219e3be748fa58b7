#include "tests/unit/compiler-core/graph/support.h"

static void every_attribute_counts(void **state) {
    const char *line =
        "input x: f32[1,1,4]\nconstant w: f32[1,1,2] = [1, 10]\nconstant b: f32[1] = [100]";
    expect_op(*state, line, "y: f32[1,1,3] = conv(x, w)", "f32[1,1,3]: 21 32 43");
    expect_op(*state, line, "y: f32[1,1,3] = conv(x, w, b)", "f32[1,1,3]: 121 132 143");
    expect_op(*state, line, "y: f32[1,1,2] = conv(x, w) strides=[2]", "f32[1,1,2]: 21 43");
    expect_op(*state, line, "y: f32[1,1,2] = conv(x, w) dilations=[2]", "f32[1,1,2]: 31 42");
    expect_op(*state, line, "y: f32[1,1,6] = conv(x, w) pads=[1,2]", "f32[1,1,6]: 10 21 32 43 4 0");
    expect_op(*state, line, "y: f32[1,1,4] = conv(x, w) auto_pad=\"SAME_UPPER\"",
              "f32[1,1,4]: 21 32 43 4");
    expect_op(*state, line, "y: f32[1,1,4] = conv(x, w) auto_pad=\"SAME_LOWER\"",
              "f32[1,1,4]: 10 21 32 43");
}

static void groups_keep_channels_apart(void **state) {
    expect_op(*state, "input x: f32[1,2,1]\nconstant w: f32[4,1,1] = [1, 10, 100, 1000]",
              "y: f32[1,4,1] = conv(x, w) group=2", "f32[1,4,1]: 1 10 200 2000");
    expect_op(*state, "input x: f32[1,2,1]\nconstant w: f32[2,1,1] = [3, 5]",
              "y: f32[1,2,1] = conv(x, w) group=2", "f32[1,2,1]: 3 10");
}

static void shapes_that_do_not_fit_are_refused(void **state) {
    const char *inputs =
        "input x: f32[1,2,4]\ninput w: f32[3,2,2]\ninput b: f32[2]\ninput d: f64[3,2,2]";
    expect_op_refused(*state, inputs, "y: f32[1,3,3] = conv(x, w) group=2",
                      "2 groups do not fit 2 input and 3 output channels");
    expect_op_refused(*state, inputs, "y: f32[1,3,3] = conv(x, w, b)",
                      "the bias must be a vector of 3 elements");
    expect_op_refused(*state, inputs, "y: f32[1,3,3] = conv(x, d)", "differ in type");
    expect_op_refused(*state, inputs, "y: f32[1,3,3] = conv(x, w) dilations=[5]",
                      "the window (6) is larger than dimension 2");
    expect_op_refused(*state, inputs, "y: f32[1,3,3] = conv(x, w) kernel_shape=[3]",
                      "kernel_shape contradicts the weights");
    expect_op_refused(*state, inputs, "y: f32[1,3,3] = conv(x, w) strides=[0]",
                      "attribute strides: 0 is out of range");
    expect_op_refused(*state, inputs, "y: f32[1,3,3] = conv(x, w) pads=[1]",
                      "attribute pads has 1 items instead of 2");
    expect_op_refused(*state, inputs, "y: f32[1,3,3] = conv(x, w) auto_pad=\"SOMEHOW\"",
                      "\"SOMEHOW\" is not known");
}

static void integers_take_their_zero_points_off(void **state) {
    /* Padding stands for zero, so it is the zero point before the subtraction. */
    expect_op(*state,
              "input x: u8[1,1,2]\nconstant w: u8[1,1,2] = [3, 5]\nconstant zx: u8[] = "
              "[1]\nconstant zw: u8[] = [2]",
              "y: i32[1,1,3] = conv_integer(x, w, zx, zw) pads=[1,1]", "i32[1,1,3]: 0 3 1");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(every_attribute_counts),
        test_with_arena(groups_keep_channels_apart),
        test_with_arena(shapes_that_do_not_fit_are_refused),
        test_with_arena(integers_take_their_zero_points_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
