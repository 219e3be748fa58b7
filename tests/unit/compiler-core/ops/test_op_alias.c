#include "compiler-core/graph/op.h"
#include "tests/unit/compiler-core/graph/support.h"

#define BOX "input x: f32[2,1,3]"

static void reshape_keeps_zeros_and_fills_in_one(void **state) {
    expect_op(*state, BOX, "y: f32[3,2] = reshape(x) shape=[3,-1]", "f32[3,2]: 1 2 3 4 5 6");
    expect_op(*state, BOX, "y: f32[2,3] = reshape(x) shape=[0,3]", "f32[2,3]: 1 2 3 4 5 6");
    expect_op(*state, "input x: f32[0,3]", "y: f32[3,0] = reshape(x) shape=[3,0] allowzero=1",
              "f32[3,0]:");
    expect_op_refused(*state, BOX, "y: f32[6] = reshape(x) shape=[-1,-1]",
                      "dimension 1 is out of range");
    expect_op_refused(*state, BOX, "y: f32[6] = reshape(x) shape=[4,-1]", "cannot be divided by 4");
    expect_op_refused(*state, BOX, "y: f32[6] = reshape(x) shape=[5]", "5 elements instead of 6");
    expect_op_refused(*state, BOX, "y: f32[6] = reshape(x) shape=[4294967296,4294967296]",
                      "too many elements");
    expect_op_refused(*state, BOX, "y: f32[6] = reshape(x) shape=[6,1,1,0]", "the input has none");
}

static void flatten_cuts_anywhere(void **state) {
    expect_op(*state, BOX, "y: f32[2,3] = flatten(x)", "f32[2,3]: 1 2 3 4 5 6");
    expect_op(*state, BOX, "y: f32[1,6] = flatten(x) axis=0", "f32[1,6]: 1 2 3 4 5 6");
    expect_op(*state, BOX, "y: f32[6,1] = flatten(x) axis=3", "f32[6,1]: 1 2 3 4 5 6");
    expect_op(*state, BOX, "y: f32[2,3] = flatten(x) axis=-1", "f32[2,3]: 1 2 3 4 5 6");
    expect_op_refused(*state, BOX, "y: f32[2,3] = flatten(x) axis=4", "out of range");
}

static void ones_come_and_go(void **state) {
    expect_op(*state, BOX, "y: f32[2,3] = squeeze(x)", "f32[2,3]: 1 2 3 4 5 6");
    expect_op(*state, BOX, "y: f32[2,3] = squeeze(x) axes=[-2]", "f32[2,3]: 1 2 3 4 5 6");
    expect_op(*state, BOX, "y: f32[1,2,1,3,1] = unsqueeze(x) axes=[0,-1]",
              "f32[1,2,1,3,1]: 1 2 3 4 5 6");
    expect_op_refused(*state, BOX, "y: f32[1,3] = squeeze(x) axes=[0]",
                      "names a dimension that is not 1");
    expect_op_refused(*state, BOX, "y: f32[1,3] = unsqueeze(x) axes=[0,0]",
                      "names dimension 0 twice");
    expect_op_refused(*state, BOX, "y: f32[1,3] = unsqueeze(x) axes=[0,1,2,3,4,5]", "at most 8");
}

static void bits_may_be_another_number(void **state) {
    expect_op(*state, "constant k: f32[2] = [1, -0]\ninput x: f32[1]",
              "y: u32[2] = bit_cast(k) to=\"u32\"", "u32[2]: 1.06535e+09 2.14748e+09");
    expect_op_refused(*state, "input x: f32[2]", "y: u8[8] = bit_cast(x) to=\"u8\"",
                      "differ in size");
}

static void aliases_are_no_kernels(void **state) {
    (void)state;
    assert_true(kiln_op_is_alias(KILN_OP_RESHAPE));
    assert_true(kiln_op_is_alias(KILN_OP_SQUEEZE));
    assert_false(kiln_op_is_alias(KILN_OP_TRANSPOSE));
    assert_true(kiln_op_keeps_elements(KILN_OP_RESHAPE) &&
                kiln_op_keeps_elements(KILN_OP_TRANSPOSE) &&
                kiln_op_keeps_elements(KILN_OP_MAX_POOL));
    assert_false(kiln_op_keeps_elements(KILN_OP_BIT_CAST) || kiln_op_keeps_elements(KILN_OP_RELU));
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(reshape_keeps_zeros_and_fills_in_one),
        test_with_arena(flatten_cuts_anywhere),
        test_with_arena(ones_come_and_go),
        test_with_arena(bits_may_be_another_number),
        test_with_arena(aliases_are_no_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
