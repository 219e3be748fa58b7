#include "tests/unit/compiler-core/graph/support.h"

static void transposed_convolution_scatters(void **state) {
    const char *inputs = "input x: f32[1,1,2]\nconstant w: f32[1,1,2] = [1, 10]";
    expect_op(*state, inputs, "y: f32[1,1,3] = conv_transpose(x, w)", "f32[1,1,3]: 1 12 20");
    expect_op(*state, inputs, "y: f32[1,1,4] = conv_transpose(x, w) strides=[2]",
              "f32[1,1,4]: 1 10 2 20");
    expect_op(*state, inputs, "y: f32[1,1,2] = conv_transpose(x, w) strides=[2] pads=[1,1]",
              "f32[1,1,2]: 10 2");
    expect_op(*state, inputs, "y: f32[1,1,5] = conv_transpose(x, w) strides=[2] output_padding=[1]",
              "f32[1,1,5]: 1 10 2 20 0");
}

/* Strides that divide kernel and output are summed phase by phase, others tap by tap: both give
 * what scattering gives. */
static void phases_and_taps_agree(void **state) {
    const char *even = "input x: f32[1,1,3]\nconstant w: f32[1,1,4] = [1, 10, 100, 1000]";
    expect_op(*state, even, "y: f32[1,1,8] = conv_transpose(x, w) strides=[2]",
              "f32[1,1,8]: 1 10 102 1020 203 2030 300 3000");
    expect_op(*state, even, "y: f32[1,1,6] = conv_transpose(x, w) strides=[2] pads=[1,1]",
              "f32[1,1,6]: 10 102 1020 203 2030 300");
    expect_op(*state, even, "y: f32[1,1,7] = conv_transpose(x, w) strides=[2] pads=[1,0]",
              "f32[1,1,7]: 10 102 1020 203 2030 300 3000");
    expect_op(*state, even, "y: f32[1,1,2] = conv_transpose(x, w) strides=[2] pads=[3,3]",
              "f32[1,1,2]: 1020 203");
    const char *odd = "input x: f32[1,1,2]\nconstant w: f32[1,1,3] = [1, 10, 100]";
    expect_op(*state, odd, "y: f32[1,1,4] = conv_transpose(x, w)", "f32[1,1,4]: 1 12 120 200");
    expect_op(*state, odd, "y: f32[1,1,6] = conv_transpose(x, w) strides=[2] output_padding=[1]",
              "f32[1,1,6]: 1 10 102 20 200 0");
    expect_op(*state, odd, "y: f32[1,1,6] = conv_transpose(x, w) dilations=[2]",
              "f32[1,1,6]: 1 2 10 20 100 200");
}

static void one_pixel_becomes_the_kernel(void **state) {
    const char *inputs = "input x: f32[1,2,1]\nconstant w: f32[2,1,3] = [1, 10, 100, 2, 20, 200]\n"
                         "constant b: f32[1] = [5]";
    expect_op(*state, inputs, "y: f32[1,1,3] = conv_transpose(x, w, b)", "f32[1,1,3]: 10 55 505");
    expect_op(*state, inputs, "y: f32[1,1,1] = conv_transpose(x, w, b) pads=[1,1]",
              "f32[1,1,1]: 55");
}

static void groups_and_dimensions_stay_apart(void **state) {
    expect_op(*state,
              "input x: f32[1,2,1,2]\nconstant w: f32[2,1,2,2] = [1, 10, 100, 1000, 2, 20, 200, "
              "2000]",
              "y: f32[1,2,2,4] = conv_transpose(x, w) strides=[2,2] group=2",
              "f32[1,2,2,4]: 1 10 2 20 100 1000 200 2000 6 60 8 80 600 6000 800 8000");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(transposed_convolution_scatters),
        test_with_arena(phases_and_taps_agree),
        test_with_arena(one_pixel_becomes_the_kernel),
        test_with_arena(groups_and_dimensions_stay_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
