/* Tasks that only move, and where their parts lie. */
#include "compiler-core/layout/parts.h"

#include "compiler-core/task/task.h"
#include "tests/unit/compiler-core/graph/support.h"

/* The parts of the only kernel of a graph. */
static kiln_parts parts_of(kiln_arena *arena, const char *body, kiln_program **out_te) {
    kiln_graph *graph = graph_of(arena, kiln_arena_printf(arena, "graph g\n%s", body));
    kiln_tasks tasks;
    expect_ok(kiln_tasks_extract(graph, arena, &tasks));
    assert_int_equal(tasks.count, 1);
    *out_te = tasks.task[0].te;
    return kiln_parts_of(tasks.task[0].te, arena);
}

static void expect_part(const kiln_parts *parts, uint32_t index, uint32_t arg, uint32_t whole,
                        uint32_t axis, int64_t begin) {
    assert_true(index < parts->count);
    const kiln_part *part = &parts->part[index];
    assert_int_equal(part->arg, arg);
    assert_int_equal(part->whole, whole);
    assert_int_equal(part->axis, axis);
    assert_int_equal(part->begin, begin);
}

static void operands_of_a_concatenation_are_parts_of_the_result(void **state) {
    kiln_program *te = NULL;
    kiln_parts parts = parts_of(*state,
                                "input a: f32[1,8,5]\ninput b: f32[1,16,5]\ninput c: f32[1,8,5]\n"
                                "y: f32[1,32,5] = concat(a, b, c) axis=1\noutput y\n",
                                &te);
    assert_true(parts.joins);
    assert_int_equal(parts.count, 3);
    expect_part(&parts, 0, 0, 3, 1, 0);
    expect_part(&parts, 1, 1, 3, 1, 8);
    expect_part(&parts, 2, 2, 3, 1, 24);
}

static void an_operand_may_stand_twice(void **state) {
    kiln_program *te = NULL;
    kiln_parts parts =
        parts_of(*state, "input a: f32[1,8]\ny: f32[1,16] = concat(a, a) axis=1\noutput y\n", &te);
    assert_int_equal(parts.count, 2);
    expect_part(&parts, 1, 0, 1, 1, 8);
}

static void slices_and_splits_are_parts_of_their_input(void **state) {
    kiln_program *te = NULL;
    kiln_parts parts = parts_of(*state,
                                "input a: f32[6,32]\np: f32[2,32], q: f32[4,32] = split(a) axis=0 "
                                "split=[2,4]\noutput p\noutput q\n",
                                &te);
    assert_false(parts.joins);
    assert_int_equal(parts.count, 2);
    expect_part(&parts, 0, 1, 0, 0, 0);
    expect_part(&parts, 1, 2, 0, 0, 2);
    parts = parts_of(*state,
                     "input a: f32[6,32]\ny: f32[3,32] = slice(a) starts=[1] ends=[4] "
                     "axes=[0]\noutput y\n",
                     &te);
    assert_int_equal(parts.count, 1);
    expect_part(&parts, 0, 1, 0, 0, 1);
}

static void what_computes_or_moves_otherwise_has_no_parts(void **state) {
    static const char *const body[] = {
        "input a: f32[4,8]\ny: f32[4,8] = relu(a)\noutput y\n",
        "input a: f32[4,8]\ny: f32[8,4] = transpose(a)\noutput y\n",
        "input a: f32[4,8]\ny: f32[2,8] = slice(a) starts=[0] ends=[4] axes=[0] steps=[2]\noutput "
        "y\n",
        "input a: f32[4,8]\ny: f32[4,8] = slice(a) starts=[-1] ends=[-5] axes=[0] "
        "steps=[-1]\noutput y\n",
        "input a: f32[4,8]\ny: f32[2,3] = slice(a) starts=[1,2] ends=[3,5] axes=[0,1]\noutput y\n",
        "input a: f32[4,8]\ny: f32[8,8] = pad(a) pads=[2,0,2,0]\noutput y\n",
        "input a: f32[4,8]\ny: f32[4] = reduce_sum(a) axes=[1] keepdims=0\noutput y\n",
        "input a: f32[4,8]\nb: f32[4,8] = relu(a) kernel 1\n"
        "y: f32[8,8] = concat(a, b) axis=0 kernel 1\noutput y\n",
    };
    for (size_t i = 0; i < sizeof body / sizeof *body; i++) {
        kiln_program *te = NULL;
        kiln_parts parts = parts_of(*state, body[i], &te);
        if (parts.count) fail_msg("graph %zu has %u parts", i, parts.count);
    }
}

static bool offset_in(const char *layout_text, const kiln_shape *whole, uint32_t axis,
                      int64_t begin, int64_t extent, uint64_t *out_bytes) {
    kiln_layout layout;
    expect_ok(kiln_layout_parse(kiln_str_from(layout_text), whole->rank, &layout));
    const kiln_part part = {.axis = axis, .begin = begin};
    return kiln_part_offset(&part, whole, extent, KILN_F32, &layout, out_bytes);
}

static void a_part_is_a_run_of_bytes_where_its_axis_is_outermost(void **state) {
    (void)state;
    uint64_t bytes = 0;
    const kiln_shape *image = SHAPE(1, 24, 3, 5);
    assert_true(offset_in("row", SHAPE(4, 32), 0, 1, 2, &bytes));
    assert_int_equal(bytes, 128);
    assert_false(offset_in("row", SHAPE(4, 32), 1, 16, 16, &bytes)); /* rows lie between */
    assert_true(offset_in("row", image, 1, 16, 8, &bytes));
    assert_int_equal(bytes, 16 * 15 * 4);
    assert_true(offset_in("d0,d1/8,d2,d3,d1%8", image, 1, 16, 8, &bytes));
    assert_int_equal(bytes, 16 * 15 * 4);
    assert_false(offset_in("d0,d1/8,d2,d3,d1%8", image, 1, 12, 12, &bytes)); /* within a block */
    assert_false(offset_in("d0,d1/8,d2,d3,d1%8", image, 1, 0, 12, &bytes));
    assert_false(offset_in("d0,d1/8,d2,d3,d1%8", SHAPE(2, 24, 3, 5), 1, 16, 8, &bytes));
    assert_false(offset_in("d0,d2,d3,d1", image, 1, 16, 8, &bytes));
}

static void padding_ends_the_last_part_only(void **state) {
    (void)state;
    uint64_t bytes = 0;
    const kiln_shape *image = SHAPE(1, 20, 4, 4);
    assert_true(offset_in("d0,d1/8,d2,d3,d1%8", image, 1, 16, 4, &bytes));
    assert_false(offset_in("d0,d1/8,d2,d3,d1%8", image, 1, 8, 4, &bytes));
}

static void parts_begin_where_kernels_may_write(void **state) {
    (void)state;
    uint64_t bytes = 0;
    assert_true(offset_in("row", SHAPE(4, 16), 0, 1, 3, &bytes));
    assert_false(offset_in("row", SHAPE(4, 8), 0, 1, 3, &bytes)); /* at byte 32 */
}

static void no_kernel_runs_where_all_layouts_agree(void **state) {
    kiln_program *te = NULL;
    kiln_parts parts = parts_of(*state,
                                "input a: f32[1,8,4,4]\ninput b: f32[1,16,4,4]\n"
                                "y: f32[1,24,4,4] = concat(a, b) axis=1\noutput y\n",
                                &te);
    kiln_layout layout[3] = {0};
    assert_true(kiln_parts_are_windows(&parts, te, layout));
    for (int i = 0; i < 3; i++)
        expect_ok(kiln_layout_parse(KILN_STR("d0,d1/8,d2,d3,d1%8"), 4, &layout[i]));
    assert_true(kiln_parts_are_windows(&parts, te, layout));
    layout[1] = (kiln_layout){0};
    assert_false(kiln_parts_are_windows(&parts, te, layout));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(operands_of_a_concatenation_are_parts_of_the_result),
        test_with_arena(an_operand_may_stand_twice),
        test_with_arena(slices_and_splits_are_parts_of_their_input),
        test_with_arena(what_computes_or_moves_otherwise_has_no_parts),
        cmocka_unit_test(a_part_is_a_run_of_bytes_where_its_axis_is_outermost),
        cmocka_unit_test(padding_ends_the_last_part_only),
        cmocka_unit_test(parts_begin_where_kernels_may_write),
        test_with_arena(no_kernel_runs_where_all_layouts_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
