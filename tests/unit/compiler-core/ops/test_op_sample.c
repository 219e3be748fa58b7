#include "tests/unit/compiler-core/graph/support.h"

/* x = 1 2 / 3 4; positions are (x, y). */
#define AT(positions) "input x: f32[1,1,2,2]\nconstant g: f32[1,1,2,2] = [" positions "]"

static void positions_run_from_corner_to_corner(void **state) {
    expect_op(*state, AT("-1, -1, 1, 1"), "y: f32[1,1,1,2] = grid_sample(x, g) align_corners=1",
              "f32[1,1,1,2]: 1 4");
    expect_op(*state, AT("0, 0, 1, -1"), "y: f32[1,1,1,2] = grid_sample(x, g) align_corners=1",
              "f32[1,1,1,2]: 2.5 2");
    /* Without align_corners the ends are the outer edges of the elements. */
    expect_op(*state, AT("-0.5, -0.5, 0, 0.5"), "y: f32[1,1,1,2] = grid_sample(x, g)",
              "f32[1,1,1,2]: 1 3.5");
}

static void positions_outside_are_padded(void **state) {
    const char *op =
        "y: f32[1,1,1,2] = grid_sample(x, g) align_corners=1 mode=\"%s\" padding_mode=\"%s\"";
    const char *positions = AT("3, -1, -7, -1");
    expect_op(*state, positions, kiln_arena_printf(*state, op, "linear", "zeros"),
              "f32[1,1,1,2]: 0 0");
    expect_op(*state, positions, kiln_arena_printf(*state, op, "linear", "border"),
              "f32[1,1,1,2]: 2 1");
    expect_op(*state, positions, kiln_arena_printf(*state, op, "nearest", "reflection"),
              "f32[1,1,1,2]: 1 2");
    expect_op(*state, AT("1.5, -1, nan, -1"), kiln_arena_printf(*state, op, "linear", "zeros"),
              "f32[1,1,1,2]: 1.5 0");
}

static void cubic_keeps_what_is_constant(void **state) {
    expect_op(*state,
              "input x: f32[1]\nconstant k: f32[1,1,3,3] = [5, 5, 5, 5, 5, 5, 5, 5, 5]\n"
              "constant g: f32[1,1,1,2] = [0.3, -0.7]",
              "y: f32[1,1,1,1] = grid_sample(k, g) mode=\"cubic\" padding_mode=\"border\"",
              "f32[1,1,1,1]: 5");
}

static void what_does_not_fit_is_refused(void **state) {
    expect_op_refused(*state, AT("0, 0, 0, 0"),
                      "y: f32[1,1,1,2] = grid_sample(x, g) mode=\"magic\"", "\"magic\"");
    expect_op_refused(*state, AT("0, 0, 0, 0"),
                      "y: f32[1,1,1,2] = grid_sample(x, g) padding_mode=\"odd\"",
                      "padding_mode: \"odd\"");
    expect_op_refused(*state, "input x: f32[1,1,2,2]\ninput g: f32[1,1,2,3]",
                      "y: f32[1,1,1,2] = grid_sample(x, g)", "does not hold a position");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(positions_run_from_corner_to_corner),
        test_with_arena(positions_outside_are_padded),
        test_with_arena(cubic_keeps_what_is_constant),
        test_with_arena(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
