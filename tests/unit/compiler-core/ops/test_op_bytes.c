/* Sums of products of bytes with zero points: exact, whether they are taken apart or not. Inputs
 * are 1, 2, 3, ... */
#include "tests/unit/compiler-core/graph/support.h"

#define CONV(x, zero) "input x: " x "[1,1,2]\n" zero "constant w: i8[1,1,2] = [3, -5]"

static void padding_stands_for_the_zero_point(void **state) {
    expect_op(*state, CONV("u8", ""), "y: i32[1,1,3] = conv_integer(x, w) pads=[1,1]",
              "i32[1,1,3]: -5 -7 6");
    expect_op(*state, CONV("i8", ""), "y: i32[1,1,3] = conv_integer(x, w) pads=[1,1]",
              "i32[1,1,3]: -5 -7 6");
    expect_op(*state, CONV("u8", "constant z: u8[] = [1]\n"),
              "y: i32[1,1,3] = conv_integer(x, w, z) pads=[1,1]", "i32[1,1,3]: 0 -5 3");
    expect_op(*state, CONV("i8", "constant z: i8[] = [1]\n"),
              "y: i32[1,1,3] = conv_integer(x, w, z) pads=[1,1]", "i32[1,1,3]: 0 -5 3");
}

static void zero_points_may_be_anything_of_their_type(void **state) {
    expect_op(*state, CONV("u8", "constant z: u8[] = [128]\n"),
              "y: i32[1,1,3] = conv_integer(x, w, z) pads=[1,1]", "i32[1,1,3]: 635 249 -378");
    expect_op(*state, CONV("u8", "constant z: u8[] = [255]\n"),
              "y: i32[1,1,3] = conv_integer(x, w, z) pads=[1,1]", "i32[1,1,3]: 1270 503 -759");
    expect_op(*state, CONV("i8", "constant z: i8[] = [-128]\n"),
              "y: i32[1,1,3] = conv_integer(x, w, z) pads=[1,1]", "i32[1,1,3]: -645 -263 390");
}

static void zero_points_may_come_at_run_time(void **state) {
    expect_op(*state, CONV("u8", "input z: u8[]\n"),
              "y: i32[1,1,3] = conv_integer(x, w, z) pads=[1,1]", "i32[1,1,3]: 0 -5 3");
    expect_op(*state, "input x: u8[2,2]\ninput z: u8[]\nconstant w: i8[2,1] = [7, -9]",
              "y: i32[2,1] = matmul_integer(x, w, z)", "i32[2,1]: -9 -13");
}

static void groups_and_channels_have_weights_of_their_own(void **state) {
    expect_op(*state,
              "input x: u8[1,2,1]\nconstant z: u8[] = [4]\nconstant w: i8[4,1,1] = [1, 2, -3, 4]",
              "y: i32[1,4,1] = conv_integer(x, w, z) group=2", "i32[1,4,1]: -3 -6 6 -8");
}

static void products_take_matrices_of_any_rank(void **state) {
    const char *matrix =
        "input x: u8[2,2]\nconstant z: u8[] = [3]\nconstant w: i8[2,2] = [1, 2, -3, "
        "4]\nconstant v: i8[2] = [1, -3]";
    expect_op(*state, matrix, "y: i32[2,2] = matmul_integer(x, w, z)", "i32[2,2]: 1 -8 -3 4");
    expect_op(*state, matrix, "y: i32[2] = matmul_integer(x, v, z)", "i32[2]: 1 -3");
    expect_op(*state,
              "input x: u8[2]\nconstant z: u8[] = [3]\nconstant w: i8[2,2,1] = [1, 2, -3, 4]",
              "y: i32[2,1] = matmul_integer(x, w, z)", "i32[2,1]: -4 2");
    expect_op(*state, "input x: u8[2,1,2]\nconstant z: u8[] = [3]\nconstant w: i8[1,2,1] = [1, -3]",
              "y: i32[2,1,1] = matmul_integer(x, w, z)", "i32[2,1,1]: 1 -3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(padding_stands_for_the_zero_point),
        test_with_arena(zero_points_may_be_anything_of_their_type),
        test_with_arena(zero_points_may_come_at_run_time),
        test_with_arena(groups_and_channels_have_weights_of_their_own),
        test_with_arena(products_take_matrices_of_any_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
