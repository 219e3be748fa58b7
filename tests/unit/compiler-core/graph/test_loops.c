/* Where the loops of a graph are, and which graphs have none that make sense. */
#include "compiler-core/graph/loops.h"

#include "tests/support/graph_parse.h"
#include "tests/unit/compiler-core/graph/support.h"

#define HEAD                      \
    "graph t\n"                   \
    "input x: f32[3,2]\n"         \
    "input s: f32[2]\n"           \
    "constant n: i64[] = [3]\n"   \
    "constant two: i64[] = [2]\n" \
    "constant w: f32[2] = [5, 7]\n"
#define BEGIN "i: i64[], a: f32[2], r: f32[2] = loop_begin(n, s, x) carried=1 trips=3\n"

static kiln_node node_of(kiln_graph *graph, const char *result) {
    kiln_value value = kiln_graph_find_value(graph, kiln_str_from(result));
    if (!value) fail_msg("there is no %s", result);
    return graph->value.data[value].producer;
}

static void expect_loop(kiln_graph *graph, const kiln_graph_loops *loops, const char *result,
                        uint32_t loop) {
    if (loops->of[node_of(graph, result)] != loop)
        fail_msg("%s is in loop %u", result, loops->of[node_of(graph, result)]);
}

/* A node that needs nothing of the loop is outside of it, wherever it stands. */
static void what_depends_on_the_iteration_is_the_body(void **state) {
    kiln_arena *arena = *state;
    kiln_graph *graph = graph_of(arena, HEAD BEGIN "outside: f32[2] = neg(w)\n"
                                                   "b: f32[2] = add(a, r)\n"
                                                   "c: f32[2] = mul(b, outside)\n"
                                                   "last: f32[2] = loop_end(i, c)\n"
                                                   "after: f32[2] = neg(last)\n"
                                                   "output after\n");
    kiln_graph_loops loops;
    expect_ok(kiln_graph_loops_find(graph, arena, &loops));
    assert_int_equal(loops.count, 1);
    assert_int_equal(loops.loop[0].begin, node_of(graph, "i"));
    assert_int_equal(loops.loop[0].end, node_of(graph, "last"));
    assert_int_equal(loops.loop[0].parent, 0);
    expect_loop(graph, &loops, "outside", 0);
    expect_loop(graph, &loops, "b", 1);
    expect_loop(graph, &loops, "c", 1);
    expect_loop(graph, &loops, "i", 0);
    expect_loop(graph, &loops, "last", 0);
    expect_loop(graph, &loops, "after", 0);
}

#define INNER(first, factor)                                               \
    "k: i64[], p: f32[2] = loop_begin(two, " first ") carried=1 trips=2\n" \
    "q: f32[2] = mul(p, " factor ")\n"                                     \
    "inner: f32[2] = loop_end(k, q)\n"

static void a_loop_whose_body_reads_a_value_of_another_is_inside(void **state) {
    static const struct {
        const char *first, *factor;
        uint32_t parent;
    } row[] = {{"a", "w", 1}, {"w", "r", 1}, {"w", "w", 0}};
    kiln_arena *arena = *state;
    const char *text[] = {HEAD BEGIN INNER("a", "w"), HEAD BEGIN INNER("w", "r"),
                          HEAD BEGIN INNER("w", "w")};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_graph *graph =
            graph_of(arena, kiln_arena_printf(arena,
                                              "%sb: f32[2] = add(inner, r)\n"
                                              "last: f32[2] = loop_end(i, b)\noutput last\n",
                                              text[i]));
        kiln_graph_loops loops;
        expect_ok(kiln_graph_loops_find(graph, arena, &loops));
        assert_int_equal(loops.count, 2);
        assert_int_equal(loops.loop[1].parent, row[i].parent);
        expect_loop(graph, &loops, "q", 2);
        expect_loop(graph, &loops, "k", row[i].parent);
        expect_loop(graph, &loops, "inner", row[i].parent);
        expect_loop(graph, &loops, "b", 1);
    }
}

static void values_of_a_loop_stay_inside(void **state) {
    kiln_arena *arena = *state;
    static const char *const text[] = {
        HEAD BEGIN "b: f32[2] = add(a, r)\nlast: f32[2] = loop_end(i, b)\noutput b\n",
        HEAD BEGIN "b: f32[2] = add(a, r)\nlast: f32[2] = loop_end(i, b)\n"
                   "c: f32[2] = neg(b)\noutput c\n",
        HEAD BEGIN "b: f32[2] = add(a, r)\noutput b\n",
        /* two loops that cross */
        HEAD BEGIN "k: i64[], p: f32[2] = loop_begin(two, w) carried=1 trips=2\n"
                   "b: f32[2] = add(a, p)\n"
                   "last: f32[2] = loop_end(i, b)\n"
                   "inner: f32[2] = loop_end(k, p)\noutput last\noutput inner\n",
        /* one beginning, two ends */
        HEAD BEGIN "last: f32[2] = loop_end(i, r)\nagain: f32[2] = loop_end(i, a)\n"
                   "output last\noutput again\n",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        kiln_graph *graph = NULL;
        kiln_status st = kiln_graph_parse(kiln_str_from(text[i]), arena, &graph);
        if (!st) fail_msg("graph %zu is accepted", i);
        expect_contains(kiln_status_text(st), "of a loop is read outside of it");
        kiln_status_free(st);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(what_depends_on_the_iteration_is_the_body),
        test_with_arena(a_loop_whose_body_reads_a_value_of_another_is_inside),
        test_with_arena(values_of_a_loop_stay_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
