#include "tests/unit/compiler-core/graph/support.h"

#define LINE                                                                  \
    "input x: f32[4]\nconstant i: i64[3] = [2, -4, 2]\nconstant u: f32[3] = " \
    "[10, 20, 30]"
#define SQUARE                                                                  \
    "input x: f32[2,3]\nconstant i: i64[1,2] = [1, 0]\nconstant u: f32[1,2] = " \
    "[10, 20]"

static void updates_replace_and_the_last_one_stays(void **state) {
    expect_op(*state, LINE, "y: f32[4] = scatter_elements(x, i, u)", "f32[4]: 20 2 30 4");
}

static void updates_combine_with_what_is_there(void **state) {
    const char *op = "y: f32[4] = scatter_elements(x, i, u) reduction=\"%s\"";
    expect_op(*state, LINE, kiln_arena_printf(*state, op, "add"), "f32[4]: 21 2 43 4");
    expect_op(*state, LINE, kiln_arena_printf(*state, op, "mul"), "f32[4]: 20 2 900 4");
    expect_op(*state, LINE, kiln_arena_printf(*state, op, "max"), "f32[4]: 20 2 30 4");
    expect_op(*state, LINE, kiln_arena_printf(*state, op, "min"), "f32[4]: 1 2 3 4");
    expect_op_refused(*state, LINE, kiln_arena_printf(*state, op, "mean"), "\"mean\" is not known");
}

static void updates_may_cover_a_part(void **state) {
    expect_op(*state, SQUARE, "y: f32[2,3] = scatter_elements(x, i, u)", "f32[2,3]: 1 20 3 10 5 6");
    expect_op(*state, SQUARE, "y: f32[2,3] = scatter_elements(x, i, u) axis=1",
              "f32[2,3]: 20 10 3 4 5 6");
}

static void indices_out_of_range_name_no_element(void **state) {
    expect_op(*state, "input x: f32[2]\nconstant i: i64[2] = [2, -3]\nconstant u: f32[2] = [7, 8]",
              "y: f32[2] = scatter_elements(x, i, u)", "f32[2]: 1 2");
}

static void rows_of_indices_name_elements_or_slices(void **state) {
    expect_op(
        *state,
        "input x: f32[2,2]\nconstant i: i64[2,2] = [0, 1, -1, 0]\nconstant u: f32[2] = [7, 8]",
        "y: f32[2,2] = scatter_nd(x, i, u)", "f32[2,2]: 1 7 8 4");
    expect_op(*state,
              "input x: f32[3,2]\nconstant i: i64[1,1] = [1]\nconstant u: f32[1,2] = [7, 8]",
              "y: f32[3,2] = scatter_nd(x, i, u) reduction=\"add\"", "f32[3,2]: 1 2 10 12 5 6");
}

static void operands_must_fit(void **state) {
    expect_op_refused(*state, "input x: f32[4]\ninput i: f32[1]\ninput u: f32[1]",
                      "y: f32[4] = scatter_elements(x, i, u)", "must hold integers");
    expect_op_refused(*state, "input x: f32[4]\ninput i: i64[1]\ninput u: f32[2]",
                      "y: f32[4] = scatter_elements(x, i, u)", "must have one shape");
    expect_op_refused(*state, "input x: f32[4,1]\ninput i: i64[1,2]\ninput u: f32[1,2]",
                      "y: f32[4,1] = scatter_elements(x, i, u)", "larger than input 0");
    expect_op_refused(*state, "input x: f32[4]\ninput i: i64[1,2]\ninput u: f32[1]",
                      "y: f32[4] = scatter_nd(x, i, u)", "rows of at most 1 indices");
    expect_op_refused(*state, "input x: f32[4,2]\ninput i: i64[3,1]\ninput u: f32[3,1]",
                      "y: f32[4,2] = scatter_nd(x, i, u)", "input 2 does not fit");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(updates_replace_and_the_last_one_stays),
        test_with_arena(updates_combine_with_what_is_there),
        test_with_arena(updates_may_cover_a_part),
        test_with_arena(indices_out_of_range_name_no_element),
        test_with_arena(rows_of_indices_name_elements_or_slices),
        test_with_arena(operands_must_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
