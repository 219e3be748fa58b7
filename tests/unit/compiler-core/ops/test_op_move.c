#include "tests/unit/compiler-core/graph/support.h"

#define MATRIX "input x: f32[2,3]"

static void transpose_moves_dimensions(void **state) {
    expect_op(*state, MATRIX, "y: f32[3,2] = transpose(x)", "f32[3,2]: 1 4 2 5 3 6");
    expect_op(*state, MATRIX, "y: f32[2,3] = transpose(x) perm=[0,1]", "f32[2,3]: 1 2 3 4 5 6");
    expect_op_refused(*state, MATRIX, "y: f32[2,3] = transpose(x) perm=[0,0]",
                      "names dimension 0 twice");
    expect_op_refused(*state, MATRIX, "y: f32[2,3] = transpose(x) perm=[0]",
                      "1 items instead of 2");
}

static void parts_join_and_part_again(void **state) {
    expect_op(*state, MATRIX "\ninput z: f32[2,1]", "y: f32[2,4] = concat(x, z) axis=-1",
              "f32[2,4]: 1 2 3 1 4 5 6 2");
    expect_op(*state, "input a: f32[0]\ninput b: f32[2]", "y: f32[2] = concat(a, b) axis=0",
              "f32[2]: 1 2");
    expect_op(*state, MATRIX, "_, y: f32[2,2] = split(x) axis=1 split=[1,2]", "f32[2,2]: 2 3 5 6");
    expect_op(*state, "input x: f32[5]", "_, _, y: f32[1] = split(x) num_outputs=3", "f32[1]: 5");
    expect_op(*state, MATRIX, "y: f32[0,3], _ = split(x) split=[0,2]", "f32[0,3]:");
    expect_op_refused(*state, MATRIX "\ninput z: f32[3,3]", "y: f32[2,6] = concat(x, z) axis=1",
                      "another shape");
    expect_op_refused(*state, MATRIX, "y: f32[2,2], _ = split(x) axis=1",
                      "cannot be split into 2 equal parts");
    expect_op_refused(*state, MATRIX, "y: f32[2,2], _ = split(x) axis=1 split=[2,2]",
                      "do not add up to 3");
}

static void slices_clamp_and_step_back(void **state) {
    const char *inputs = "input x: f32[6]";
    expect_op(*state, inputs, "y: f32[2] = slice(x) starts=[1] ends=[3]", "f32[2]: 2 3");
    expect_op(*state, inputs, "y: f32[2] = slice(x) starts=[-2] ends=[9223372036854775807]",
              "f32[2]: 5 6");
    expect_op(*state, inputs,
              "y: f32[3] = slice(x) starts=[5] ends=[-9223372036854775808] steps=[-2]",
              "f32[3]: 6 4 2");
    expect_op(*state, inputs, "y: f32[0] = slice(x) starts=[4] ends=[2]", "f32[0]:");
    expect_op(
        *state, inputs,
        "y: f32[1] = slice(x) starts=[-9223372036854775808] ends=[9] steps=[9223372036854775807]",
        "f32[1]: 1");
    expect_op_refused(*state, inputs, "y: f32[1] = slice(x) starts=[0] ends=[1] steps=[0]",
                      "0 goes nowhere");
    expect_op_refused(*state, inputs, "y: f32[1] = slice(x) starts=[0] ends=[1,2]",
                      "differ in length");
    expect_op_refused(*state, inputs, "y: f32[1] = slice(x) starts=[0,0] ends=[1,1] axes=[0,-1]",
                      "differ in length");
}

static void padding_has_four_modes(void **state) {
    const char *inputs = "input x: f32[3]\nconstant v: f32[] = [9]";
    expect_op(*state, inputs, "y: f32[6] = pad(x) pads=[1,2]", "f32[6]: 0 1 2 3 0 0");
    expect_op(*state, inputs, "y: f32[6] = pad(x, v) pads=[1,2]", "f32[6]: 9 1 2 3 9 9");
    expect_op(*state, inputs, "y: f32[7] = pad(x) pads=[2,2] mode=\"reflect\"",
              "f32[7]: 3 2 1 2 3 2 1");
    expect_op(*state, inputs, "y: f32[6] = pad(x) pads=[2,1] mode=\"edge\"", "f32[6]: 1 1 1 2 3 3");
    expect_op(*state, inputs, "y: f32[7] = pad(x) pads=[2,2] mode=\"wrap\"",
              "f32[7]: 2 3 1 2 3 1 2");
    expect_op(*state, inputs, "y: f32[3] = pad(x) pads=[-1,1]", "f32[3]: 2 3 0");
    expect_op_refused(*state, inputs, "y: f32[3] = pad(x) pads=[-2,-2]",
                      "removes more of dimension 0");
    expect_op_refused(*state, inputs, "y: f32[3] = pad(x) pads=[0]", "needs 2 items");
    expect_op_refused(*state, inputs, "y: f32[3] = pad(x) pads=[0,0] mode=\"mirror\"",
                      "\"mirror\"");
    expect_op_refused(*state, "input x: f32[0]", "y: f32[2] = pad(x) pads=[1,1] mode=\"edge\"",
                      "dimension 0 is empty");
}

static void repetition_broadcasts_or_tiles(void **state) {
    expect_op(*state, "input x: f32[2,1]", "y: f32[2,2] = expand(x) shape=[1,2]",
              "f32[2,2]: 1 1 2 2");
    expect_op(*state, "input x: f32[2]", "y: f32[6] = tile(x) repeats=[3]", "f32[6]: 1 2 1 2 1 2");
    expect_op_refused(*state, "input x: f32[2]", "y: f32[3] = expand(x) shape=[3]",
                      "do not broadcast");
    expect_op_refused(*state, "input x: f32[2]", "y: f32[2] = tile(x) repeats=[-1]",
                      "out of range");
}

static void depth_and_space_are_inverse(void **state) {
    expect_op(*state, "input x: f32[1,4,1,1]", "y: f32[1,1,2,2] = depth_to_space(x) blocksize=2",
              "f32[1,1,2,2]: 1 2 3 4");
    expect_op(*state, "input x: f32[1,8,1,1]",
              "y: f32[1,2,2,2] = depth_to_space(x) blocksize=2 mode=\"CRD\"",
              "f32[1,2,2,2]: 1 2 3 4 5 6 7 8");
    expect_op(*state, "input x: f32[1,8,1,1]", "y: f32[1,2,2,2] = depth_to_space(x) blocksize=2",
              "f32[1,2,2,2]: 1 3 5 7 2 4 6 8");
    expect_op(*state, "input x: f32[1,1,2,2]", "y: f32[1,4,1,1] = space_to_depth(x) blocksize=2",
              "f32[1,4,1,1]: 1 2 3 4");
    expect_op_refused(*state, "input x: f32[1,3,1,1]",
                      "y: f32[1,1,2,2] = depth_to_space(x) blocksize=2", "does not divide");
}

static void triangles_keep_one_side(void **state) {
    expect_op(*state, "input x: f32[2,2]", "y: f32[2,2] = trilu(x)", "f32[2,2]: 1 2 0 4");
    expect_op(*state, "input x: f32[2,2]", "y: f32[2,2] = trilu(x) upper=0", "f32[2,2]: 1 0 3 4");
    expect_op(*state, "input x: f32[2,2]", "y: f32[2,2] = trilu(x) k=[1]", "f32[2,2]: 0 2 0 0");
    expect_op(*state, "input x: f32[2,2]", "y: f32[2,2] = trilu(x) k=[9223372036854775807]",
              "f32[2,2]: 0 0 0 0");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(transpose_moves_dimensions),
        test_with_arena(parts_join_and_part_again),
        test_with_arena(slices_clamp_and_step_back),
        test_with_arena(padding_has_four_modes),
        test_with_arena(repetition_broadcasts_or_tiles),
        test_with_arena(depth_and_space_are_inverse),
        test_with_arena(triangles_keep_one_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
