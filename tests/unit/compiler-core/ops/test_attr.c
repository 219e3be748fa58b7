#include "compiler-core/graph/attr.h"

#include "compiler-core/ops/rules.h"
#include "tests/unit/compiler-core/graph/support.h"

static const kiln_node_info *node_of(kiln_arena *arena, const char *line) {
    kiln_graph *graph = graph_of(
        arena, kiln_arena_printf(arena, "graph g\ninput x: f32[2,3,4]\n%s\noutput y\n", line));
    return &graph->node.data[1];
}

static void defaults_stand_in_for_what_is_not_given(void **state) {
    const kiln_node_info *node = node_of(*state, "y: f32[2,1,4] = reduce_sum(x) axes=[1]");
    uint32_t count = 0;
    assert_int_equal(kiln_node_int(node, "keepdims"), 1);
    assert_true(kiln_node_has(node, "axes"));
    assert_false(kiln_node_has(node, "keepdims"));
    assert_int_equal(kiln_node_ints(node, "axes", &count)[0], 1);
    assert_int_equal(count, 1);
    node = node_of(*state, "y: f32[2,3,4] = leaky_relu(x)");
    assert_true(kiln_node_float(node, "alpha") == 0.01);
    node = node_of(*state, "y: f32[2,3,4] = gelu(x)");
    expect_str(kiln_node_text(node, "approximate"), "none");
}

static void axes_count_from_either_end(void **state) {
    (void)state;
    uint32_t axis = 9;
    expect_ok(kiln_axis_resolve(-1, 3, "axis", &axis));
    assert_int_equal(axis, 2);
    expect_ok(kiln_axis_resolve(0, 3, "axis", &axis));
    assert_int_equal(axis, 0);
    expect_error(kiln_axis_resolve(3, 3, "axis", &axis), INVALID_ARGUMENT,
                 "attribute axis: 3 is no dimension");
    expect_error(kiln_axis_resolve(-4, 3, "axis", &axis), INVALID_ARGUMENT, "rank 3");
    expect_error(kiln_axis_resolve(0, 0, "axis", &axis), INVALID_ARGUMENT, "rank 0");
    expect_error(kiln_axis_resolve(INT64_MIN, 8, "axis", &axis), INVALID_ARGUMENT, "rank 8");
}

static void an_axis_is_named_once(void **state) {
    expect_op_refused(*state, "input x: f32[2,3]", "y: f32[1,1] = reduce_sum(x) axes=[1,-1]",
                      "names dimension 1 twice");
}

static kiln_shape shape_of(int64_t a, int64_t b) { return (kiln_shape){.rank = 2, .dim = {a, b}}; }

static void shapes_broadcast_from_the_right(void **state) {
    (void)state;
    kiln_shape shape = shape_of(3, 1), other = {.rank = 3, .dim = {2, 1, 4}};
    expect_ok(kiln_shape_broadcast(&shape, &other));
    assert_int_equal(shape.rank, 3);
    assert_int_equal(shape.dim[0], 2);
    assert_int_equal(shape.dim[1], 3);
    assert_int_equal(shape.dim[2], 4);
    shape = shape_of(2, 3);
    other = shape_of(2, 2);
    expect_error(kiln_shape_broadcast(&shape, &other), INVALID_ARGUMENT,
                 "3 and 2 do not broadcast");
    shape = shape_of(0, 1); /* no elements stay no elements */
    other = shape_of(1, 5);
    expect_ok(kiln_shape_broadcast(&shape, &other));
    assert_int_equal(shape.dim[0], 0);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(defaults_stand_in_for_what_is_not_given),
        test_with_arena(axes_count_from_either_end),
        test_with_arena(an_axis_is_named_once),
        test_with_arena(shapes_broadcast_from_the_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
