#include "tests/unit/compiler-core/graph/support.h"

#define LINE "input x: f32[4]"

static void nearest_takes_one_element(void **state) {
    expect_op(*state, LINE, "y: f32[8] = resize(x) scales=[2]", "f32[8]: 1 1 2 2 3 3 4 4");
    expect_op(*state, LINE,
              "y: f32[2] = resize(x) sizes=[2] coordinate_transformation_mode=\"asymmetric\" "
              "nearest_mode=\"floor\"",
              "f32[2]: 1 3");
    expect_op(*state, LINE, "y: f32[2] = resize(x) sizes=[2] nearest_mode=\"ceil\"", "f32[2]: 2 4");
}

static void linear_weighs_two(void **state) {
    expect_op(*state, "input x: f32[2]", "y: f32[4] = resize(x) scales=[2] mode=\"linear\"",
              "f32[4]: 1 1.25 1.75 2");
    expect_op(*state, "input x: f32[2]",
              "y: f32[3] = resize(x) sizes=[3] mode=\"linear\" "
              "coordinate_transformation_mode=\"align_corners\"",
              "f32[3]: 1 1.5 2");
}

static void cubic_keeps_what_is_constant(void **state) {
    expect_op(*state, "input x: f32[1]\nconstant k: f32[4] = [5, 5, 5, 5]",
              "y: f32[6] = resize(k) sizes=[6] mode=\"cubic\"", "f32[6]: 5 5 5 5 5 5");
    expect_op(*state, "input x: f32[1]\nconstant k: f32[4] = [5, 5, 5, 5]",
              "y: f32[6] = resize(k) sizes=[6] mode=\"cubic\" exclude_outside=1",
              "f32[6]: 5 5 5 5 5 5");
}

static void only_named_axes_change(void **state) {
    expect_op(*state, "input x: f32[2,2]", "y: f32[2,4] = resize(x) scales=[2] axes=[1]",
              "f32[2,4]: 1 1 2 2 3 3 4 4");
}

static void the_ratio_of_dimensions_can_be_kept(void **state) {
    expect_op(*state, "input x: f32[1,2]",
              "y: f32[2,4] = resize(x) sizes=[9,4] keep_aspect_ratio_policy=\"not_larger\"",
              "f32[2,4]: 1 1 2 2 1 1 2 2");
    expect_op(*state, "input x: f32[2,1]",
              "y: f32[4,2] = resize(x) sizes=[2,2] keep_aspect_ratio_policy=\"not_smaller\"",
              "f32[4,2]: 1 1 1 1 2 2 2 2");
}

/* Without it every second element is not looked at. */
static void making_smaller_can_weigh_all_elements(void **state) {
    expect_op(*state, "input x: f32[8]",
              "y: f32[2] = resize(x) scales=[0.25] mode=\"linear\" antialias=1",
              "f32[2]: 2.65625 6.34375");
}

static void what_cannot_be_is_refused(void **state) {
    expect_op_refused(*state, LINE, "y: f32[4] = resize(x)", "either scales or sizes");
    expect_op_refused(*state, LINE, "y: f32[4] = resize(x) scales=[0]", "out of range");
    expect_op_refused(*state, LINE, "y: f32[4] = resize(x) scales=[nan]", "out of range");
    expect_op_refused(*state, LINE, "y: f32[4] = resize(x) scales=[1] mode=\"magic\"",
                      "attribute mode: \"magic\"");
    expect_op_refused(*state, LINE,
                      "y: f32[1] = resize(x) scales=[0.01] mode=\"linear\" antialias=1",
                      "antialias");
    expect_op_refused(*state, LINE,
                      "y: f32[4] = resize(x) sizes=[4] keep_aspect_ratio_policy=\"never\"",
                      "keep_aspect_ratio_policy: \"never\"");
    expect_op_refused(*state, "input x: i32[4]", "y: i32[8] = resize(x) scales=[2] mode=\"linear\"",
                      "interpolation of integers");
    expect_op_refused(*state, "input x: f32[0]", "y: f32[4] = resize(x) sizes=[4]",
                      "dimension 0 is empty");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(nearest_takes_one_element),
        test_with_arena(linear_weighs_two),
        test_with_arena(cubic_keeps_what_is_constant),
        test_with_arena(only_named_axes_change),
        test_with_arena(the_ratio_of_dimensions_can_be_kept),
        test_with_arena(making_smaller_can_weigh_all_elements),
        test_with_arena(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
