/* Graphs in double precision. */
#include "compiler-core/passes/widen.h"

#include "compiler-core/passes/pass.h"
#include "tests/unit/compiler-core/graph/support.h"

static void every_float_becomes_a_double(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\n"
                                         "input x: f32[2]\n"
                                         "input i: i64[2]\n"
                                         "constant k: f32[2] = [1, 2]\n"
                                         "h: f16[2] = cast(k) to=\"f16\"\n"
                                         "a: f32[2] = cast(h) to=\"f32\"\n"
                                         "b: f32[2] = add(x, a)\n"
                                         "c: f32[2] = cast(i) to=\"f32\"\n"
                                         "d: f32[2] = add(b, c)\n"
                                         "e: i64[2] = cast(d) to=\"i64\"\n"
                                         "output d\n"
                                         "output e\n");
    expect_ok(kiln_graph_widen(graph));
    for (kiln_value v = 1; v < graph->value.count; v++)
        assert_true(graph->value.data[v].dtype == KILN_F64 ||
                    graph->value.data[v].dtype == KILN_I64);
    expect_ok(kiln_passes_run(graph, (kiln_str){0}));
}

/* 1 + 2^-30 is no f32. */
static void results_keep_what_f32_would_lose(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\n"
                                         "input x: f32[1]\n"
                                         "constant one: f32[1] = [1]\n"
                                         "constant tiny: f32[1] = [9.31322574615478515625e-10]\n"
                                         "a: f32[1] = add(one, tiny)\n"
                                         "b: f32[1] = sub(a, one)\n"
                                         "output b\n");
    expect_ok(kiln_graph_widen(graph));
    expect_ok(kiln_pass_run(KILN_PASS_FOLD_CONSTANTS, graph));
    const kiln_value b = kiln_graph_find_value(graph, KILN_STR("b"));
    assert_true(kiln_value_is_constant(graph, b));
    assert_true(*(const double *)graph->value.data[b].data == 0x1p-30);
}

static void operators_of_a_users_own_become_wide(void **state) {
    kiln_graph *graph = graph_of(
        *state, "graph g\n"
                "input x: f32[2]\n"
                "y: f32[2] = expression(x) program=\"program p\\x0ainput a: f32[2]\\x0a"
                "output b: f32[2]\\x0ablock b(i:2): b[i] = (a[i] + 1e10)*0.5 - 5e9\\x0a\"\n"
                "output y\n");
    expect_ok(kiln_graph_widen(graph));
    assert_string_equal(result_of(*state, graph), "f64[2]: 0.5 1");
}

static void what_depends_on_the_type_is_refused(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\n"
                                         "input x: f32[4]\n"
                                         "constant s: f32[] = [0.5]\n"
                                         "a: u8[4] = quantize_linear(x, s)\n"
                                         "output a\n");
    expect_error(kiln_graph_widen(graph), UNIMPLEMENTED, "depends on the type");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(every_float_becomes_a_double),
        test_with_arena(results_keep_what_f32_would_lose),
        test_with_arena(operators_of_a_users_own_become_wide),
        test_with_arena(what_depends_on_the_type_is_refused),
    };
    return cmocka_run_group_tests_name("compiler-core/passes/widen", tests, NULL, NULL);
}
