/* Conversions between layouts. */
#include "compiler-core/layout/convert.h"

#include "compiler-core/ir/eval.h"
#include "tests/unit/compiler-core/graph/support.h"

static kiln_layout layout_of(const char *text, uint32_t rank) {
    kiln_layout layout;
    expect_ok(kiln_layout_parse(kiln_str_from(text), rank, &layout));
    return layout;
}

static void a_conversion_changes_no_element(void **state) {
    const kiln_layout row = {0}, blocked = layout_of("d0,d1/2,d2,d1%2", 3);
    const kiln_shape *shape = SHAPE(1, 4, 3);
    kiln_program *te = kiln_conversion_te(KILN_F32, shape, &row, &blocked, *state);
    kiln_tensor x = tensor_from(*state, shape, FLOATS(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    kiln_tensor y = kiln_tensor_create(*state, KILN_F32, shape);
    expect_ok(kiln_te_eval(te, (kiln_tensor[]){x, y}, 2));
    expect_tensor(&y, shape, FLOATS(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
}

static void both_layouts_are_part_of_the_task(void **state) {
    const kiln_layout row = {0}, blocked = layout_of("d0,d1/2,d2,d1%2", 3);
    kiln_program *te = kiln_conversion_te(KILN_F32, SHAPE(1, 4, 3), &row, &blocked, *state);
    kiln_arg_buffers arg = kiln_program_args(te);
    assert_int_equal(arg.count, 2);
    assert_true(te->buffer.data[arg.buffer[0]].pinned && te->buffer.data[arg.buffer[1]].pinned);
    assert_true(kiln_layout_equal(&te->buffer.data[arg.buffer[0]].layout, &row));
    assert_true(kiln_layout_equal(&te->buffer.data[arg.buffer[1]].layout, &blocked));
}

static void only_what_moves_elements_costs_time(void **state) {
    (void)state;
    const kiln_layout row = {0}, blocked = layout_of("d0,d1/8,d2,d3,d1%8", 4);
    double small = kiln_conversion_estimate_ns(KILN_F32, SHAPE(1, 64, 8, 8), &row, &blocked);
    double large = kiln_conversion_estimate_ns(KILN_F32, SHAPE(1, 64, 80, 80), &row, &blocked);
    assert_true(small > 0);
    assert_true(large > 10 * small);
    assert_true(kiln_conversion_estimate_ns(KILN_F32, SHAPE(1, 64, 8, 8), &blocked, &blocked) <= 0);
    assert_true(kiln_conversion_estimate_ns(KILN_F32, SHAPE(1, 64, 1, 1), &row, &blocked) <= 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_conversion_changes_no_element),
        test_with_arena(both_layouts_are_part_of_the_task),
        cmocka_unit_test(only_what_moves_elements_costs_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
