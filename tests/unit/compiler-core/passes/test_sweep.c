/* Sweeps: readers follow, names and counts of readers stay right. */
#include "compiler-core/passes/rewrite.h"
#include "tests/unit/compiler-core/graph/support.h"

static const char *const text =
    "graph g\ninput x: f32[2]\na: f32[2] = identity(x)\nb: f32[2] = exp(a)\n"
    "c: f32[2] = identity(b)\nd: f32[2] = identity(c)\ne: f32[2] = neg(c)\noutput d\noutput e\n";

static kiln_value through(kiln_sweep *s, kiln_node n) {
    const kiln_node_info *node = &s->graph->node.data[n];
    return node->op == KILN_OP_IDENTITY ? node->input[0] : 0;
}

static void readers_follow_and_outputs_keep_their_names(void **state) {
    kiln_graph *graph = graph_of(*state, text);
    assert_true(kiln_graph_sweep(graph, through, NULL));
    expect_ok(kiln_graph_verify(graph));
    kiln_value d = kiln_graph_find_value(graph, KILN_STR("d"));
    assert_int_equal(graph->output.data[0], d);
    assert_int_equal(graph->node.data[graph->value.data[d].producer].op, KILN_OP_EXP);
    assert_int_equal(graph->node.data[graph->value.data[d].producer].input[0],
                     graph->input.data[0]);
    assert_false(kiln_graph_sweep(graph, through, NULL));
}

static void an_input_does_not_stand_for_an_output(void **state) {
    kiln_graph *graph =
        graph_of(*state, "graph g\ninput x: f32[2]\ny: f32[2] = identity(x)\noutput y\n");
    assert_false(kiln_graph_sweep(graph, through, NULL));
    expect_str(graph->value.data[graph->output.data[0]].name, "y");
}

/* At the last node: b has taken the readers of c and d over; those of a read x. */
static kiln_value count(kiln_sweep *s, kiln_node n) {
    const kiln_node_info *node = &s->graph->node.data[n];
    if (node->op == KILN_OP_NEG) {
        uint32_t *seen = s->context;
        seen[0] = s->uses[node->input[0]];
        seen[1] = s->uses[s->graph->input.data[0]];
    }
    return through(s, n);
}

static void readers_are_counted_as_they_move(void **state) {
    uint32_t seen[2] = {0};
    kiln_graph *graph = graph_of(*state, text);
    kiln_graph_sweep(graph, count, seen);
    assert_int_equal(seen[0], 2); /* the output d, and e */
    assert_int_equal(seen[1], 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(readers_follow_and_outputs_keep_their_names),
        test_with_arena(an_input_does_not_stand_for_an_output),
        test_with_arena(readers_are_counted_as_they_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
