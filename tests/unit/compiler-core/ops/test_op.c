/* What holds for every row of ops.def. */
#include "compiler-core/graph/op.h"

#include <string.h>

#include "compiler-core/graph/attr.h"
#include "tests/unit/compiler-core/graph/support.h"

static void names_of_operators_are_unique(void **state) {
    (void)state;
    for (uint32_t op = 1; op < KILN_OP_COUNT; op++) {
        kiln_op found;
        assert_true(kiln_op_find(kiln_str_from(kiln_op_get((kiln_op)op)->name), &found));
        assert_int_equal(found, op);
    }
    kiln_op none;
    assert_false(kiln_op_find(KILN_STR("frobnicate"), &none));
}

static void rows_are_whole(void **state) {
    (void)state;
    for (uint32_t op = 1; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_get((kiln_op)op);
        assert_true(info->inputs_min >= 1);
        assert_true(info->inputs_max >= info->inputs_min);
        assert_true(info->outputs_max >= 1);
        assert_true(info->dtypes[0] != '\0');
        assert_int_equal(strspn(info->dtypes, "fiub"), strlen(info->dtypes));
        assert_true(info->shape != NULL && info->build != NULL && info->element != NULL);
    }
}

/* Every word of the attribute column is name:kind or name:kind=default, and the default is of that
 * kind. */
static void attribute_columns_parse(void **state) {
    static const char *const kind_word[] = {"int", "float", "text", "ints", "floats"};
    (void)state;
    for (uint32_t op = 1; op < KILN_OP_COUNT; op++) {
        kiln_str rest = kiln_str_from(kiln_op_get((kiln_op)op)->attrs);
        while (rest.size) {
            kiln_str kind = kiln_str_cut(&rest, ' '), name = kiln_str_cut(&kind, ':');
            kind = kiln_str_cut(&kind, '=');
            kiln_attr attr;
            bool has_default;
            assert_true(kiln_attr_spec_find((kiln_op)op, name, &attr, &has_default));
            expect_str(kind, kind_word[attr.kind]);
        }
    }
}

static void element_types_are_checked(void **state) {
    expect_op_refused(*state, "input x: i32[2]", "y: i32[2] = exp(x)",
                      "not supported on elements of type i32");
    expect_op_refused(*state, "input x: bool[2]", "y: bool[2] = neg(x)", "elements of type bool");
    expect_op_refused(*state, "input x: f32[2]", "y: f32[2] = not(x)", "elements of type f32");
}

static void halves_are_computed_in_f32_and_rounded_once(void **state) {
    /* 2049 is no f16: rounded after each step, the sum would stay at 2048. */
    expect_op(*state, "input i: f16[1]\nconstant k: f16[1,3] = [2048, 1, 1]",
              "y: f16[1,1] = reduce_sum(k) axes=[1]", "f16[1,1]: 2050");
}

static void constants_of_one_element_become_literals(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\n"
                                         "input x: f32[2]\n"
                                         "constant one: f32[1] = [5]\n"
                                         "constant two: f32[2] = [5, 6]\n"
                                         "output x\n");
    assert_true(kiln_value_is_literal(graph, kiln_graph_find_value(graph, KILN_STR("one"))));
    assert_false(kiln_value_is_literal(graph, kiln_graph_find_value(graph, KILN_STR("two"))));
    assert_false(kiln_value_is_literal(graph, kiln_graph_find_value(graph, KILN_STR("x"))));
}

static void known_values_are_evaluated_through_nodes(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\n"
                                         "input x: i64[2]\n"
                                         "constant k: i64[2] = [3, 4]\n"
                                         "a: i64[2] = mul(k, k)\n"
                                         "b: i64[1,2] = reshape(a) shape=[1,2]\n"
                                         "c: i64[1,2] = add(b, x)\n"
                                         "output c\n");
    kiln_tensor tensor, again;
    kiln_evaluation evaluation;
    kiln_value b = kiln_graph_find_value(graph, KILN_STR("b"));
    kiln_evaluation_init(&evaluation, kiln_effort_for(0));
    expect_ok(kiln_value_evaluate(graph, b, &evaluation, &tensor));
    assert_int_equal(((const int64_t *)tensor.data)[0], 9);
    assert_int_equal(((const int64_t *)tensor.data)[1], 16);
    const kiln_effort left = evaluation.effort;
    assert_true(left.points < kiln_effort_for(0).points && left.bytes < kiln_effort_for(0).bytes);
    expect_ok(kiln_value_evaluate(graph, b, &evaluation, &again));
    assert_ptr_equal(again.data, tensor.data); /* once */
    assert_true(evaluation.effort.points == left.points);
    expect_error(kiln_value_evaluate(graph, kiln_graph_find_value(graph, KILN_STR("c")),
                                     &evaluation, &tensor),
                 UNIMPLEMENTED, "depends on the input x");
    kiln_evaluation_deinit(&evaluation);
}

static void evaluation_is_bounded(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\n"
                                         "constant k: f32[1,1] = [1]\n"
                                         "input x: f32[1]\n"
                                         "a: f32[100000,20000] = expand(k) shape=[100000,20000]\n"
                                         "b: f32[300,400] = expand(k) shape=[300,400]\n"
                                         "c: f32[400,300] = expand(k) shape=[400,300]\n"
                                         "d: f32[300,300] = matmul(b, c)\n"
                                         "output a\n");
    kiln_tensor tensor;
    kiln_evaluation evaluation;
    kiln_evaluation_init(&evaluation, kiln_effort_for(0));
    expect_error(kiln_value_evaluate(graph, kiln_graph_find_value(graph, KILN_STR("a")),
                                     &evaluation, &tensor),
                 RESOURCE_EXHAUSTED, "too much data");
    expect_error(kiln_value_evaluate(graph, kiln_graph_find_value(graph, KILN_STR("d")),
                                     &evaluation, &tensor),
                 RESOURCE_EXHAUSTED, "too much work");
    evaluation.effort = kiln_effort_for(100 << 20); /* a large model may ask for more */
    expect_ok(kiln_value_evaluate(graph, kiln_graph_find_value(graph, KILN_STR("d")), &evaluation,
                                  &tensor));
    kiln_evaluation_deinit(&evaluation);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(names_of_operators_are_unique),
        test_with_arena(rows_are_whole),
        test_with_arena(attribute_columns_parse),
        test_with_arena(element_types_are_checked),
        test_with_arena(halves_are_computed_in_f32_and_rounded_once),
        test_with_arena(constants_of_one_element_become_literals),
        test_with_arena(known_values_are_evaluated_through_nodes),
        test_with_arena(evaluation_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
