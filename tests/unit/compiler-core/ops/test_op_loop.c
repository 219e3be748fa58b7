/* What loops compute, and which ones are refused. Inputs hold 1, 2, 3, ... */
#include "compiler-core/graph/op.h"
#include "tests/support/graph_parse.h"
#include "tests/unit/compiler-core/graph/support.h"

#define INPUTS            \
    "input x: f32[3,2]\n" \
    "input s: f32[2]\n"   \
    "constant n: i64[] = [3]\n"

static void expect_result(kiln_arena *arena, const char *text, const char *result) {
    kiln_graph *graph = graph_of(arena, kiln_arena_printf(arena, "graph t\n%s", text));
    assert_string_equal(result_of(arena, graph), result);
}

static void a_sum_is_carried_and_stacked(void **state) {
    expect_result(*state,
                  INPUTS "i: i64[], a: f32[2], r: f32[2] = loop_begin(n, s, x) carried=1 trips=3\n"
                         "b: f32[2] = add(a, r)\n"
                         "last: f32[2], all: f32[3,2] = loop_end(i, b, b)\n"
                         "output last\noutput all\n",
                  "f32[2]: 10 14; f32[3,2]: 2 4 5 8 10 14");
}

static void rows_and_stacks_go_backwards(void **state) {
    expect_result(*state,
                  INPUTS "i: i64[], a: f32[2], r: f32[2] = loop_begin(n, s, x) carried=1 "
                         "reversed=[1] trips=3\n"
                         "b: f32[2] = add(a, r)\n"
                         "last: f32[2], all: f32[3,2], there: f32[3,2] = loop_end(i, b, b, r) "
                         "reversed=[1, 0]\n"
                         "output all\noutput there\n",
                  "f32[3,2]: 10 14 9 12 6 8; f32[3,2]: 5 6 3 4 1 2");
}

/* Both carried values change places, and a Fibonacci pair: each is read before one is written. */
static void carried_values_are_handed_on_at_once(void **state) {
    static const char *const text =
        "constant n: i64[] = [3]\ninput s: f32[2]\nconstant t: f32[2] = [7, 8]\n"
        "i: i64[], a: f32[2], b: f32[2] = loop_begin(n, s, t) carried=2 trips=3\n%s"
        "one: f32[2], two: f32[2] = loop_end(i, %s)\noutput one\noutput two\n";
    expect_result(*state, kiln_arena_printf(*state, text, "", "b, a"), "f32[2]: 7 8; f32[2]: 1 2");
    expect_result(*state, kiln_arena_printf(*state, text, "c: f32[2] = add(a, b)\n", "b, c"),
                  "f32[2]: 15 18; f32[2]: 23 28");
}

static void the_iteration_has_a_number(void **state) {
    expect_result(*state,
                  "constant n: i64[] = [4]\nconstant zero: i64[] = [0]\ninput one: i64[]\n"
                  "i: i64[], a: i64[] = loop_begin(n, zero) carried=1 trips=4\n"
                  "b: i64[] = add(a, i)\nc: i64[] = mul(b, one)\n"
                  "last: i64[], all: i64[4] = loop_end(i, c, i)\noutput last\noutput all\n",
                  "i64[]: 6; i64[4]: 0 1 2 3");
}

/* The input is 1: one iteration of at most five. */
static void a_count_ends_the_loop(void **state) {
    expect_result(*state,
                  "input n: i64[]\ninput s: f32[2]\n"
                  "i: i64[], a: f32[2] = loop_begin(n, s) carried=1 trips=5\n"
                  "b: f32[2] = add(a, a)\nlast: f32[2] = loop_end(i, b)\noutput last\n",
                  "f32[2]: 2 4");
    expect_result(*state,
                  "constant n: i64[] = [-2]\ninput s: f32[2]\n"
                  "i: i64[], a: f32[2] = loop_begin(n, s) carried=1 trips=5\n"
                  "b: f32[2] = add(a, a)\nlast: f32[2] = loop_end(i, b)\noutput last\n",
                  "f32[2]: 1 2");
}

static void grows(kiln_arena *arena, const char *rest) {
    kiln_graph *graph = NULL;
    const char *text = kiln_arena_printf(
        arena,
        "graph t\ninput n: i64[]\ninput s: f32[2]\n"
        "i: i64[], a: f32[2] = loop_begin(n, s) carried=1 trips=3\nb: f32[2] = add(a, a)\n"
        "last: f32[2], all: f32[3,2] = loop_end(i, b, b)\noutput last\n%s",
        rest);
    kiln_status st = kiln_graph_parse(kiln_str_from(text), arena, &graph);
    if (!st) st = kiln_graph_verify(graph);
    expect_error(st, UNIMPLEMENTED, "%all has as many rows");
}

/* What is stacked then has room for the most iterations there can be. */
static void a_count_says_how_much_is_stacked(void **state) {
    expect_result(*state,
                  "input n: i64[]\ninput s: f32[2]\n"
                  "i: i64[], a: f32[2] = loop_begin(n, s) carried=1 trips=3\n"
                  "b: f32[2] = add(a, a)\nlast: f32[2], all: f32[3,2] = loop_end(i, b, b)\n"
                  "output last\noutput all\n",
                  "f32[2]: 2 4; f32[3,2]: 2 4 0 0 0 0");
    grows(*state, "output all\noutput all\n");
    grows(*state, "c: f32[3,2] = neg(all)\noutput c\n");
}

static void a_condition_ends_the_loop(void **state) {
    static const char *const text =
        "constant n: i64[] = [100]\nconstant go: bool[] = [%d]\ninput s: f32[1]\n"
        "constant limit: f32[1] = [20]\n"
        "i: i64[], a: f32[1] = loop_begin(n, go, s) carried=1 guarded=1 trips=100\n"
        "b: f32[1] = add(a, a)\nless: bool[1] = less(b, limit)\n"
        "last: f32[1] = loop_end(i, less, b)\noutput last\n";
    expect_result(*state, kiln_arena_printf(*state, text, 1), "f32[1]: 32");
    expect_result(*state, kiln_arena_printf(*state, text, 0), "f32[1]: 1");
}

static void loops_stand_inside_of_each_other(void **state) {
    expect_result(*state,
                  INPUTS "constant two: i64[] = [2]\n"
                         "i: i64[], a: f32[2], r: f32[2] = loop_begin(n, s, x) carried=1 trips=3\n"
                         "k: i64[], p: f32[2], e: f32[] = loop_begin(two, a, r) carried=1 trips=2\n"
                         "q: f32[2] = add(p, e)\n"
                         "inner: f32[2], rows: f32[2,2] = loop_end(k, q, q)\n"
                         "last: f32[2], all: f32[3,2,2] = loop_end(i, inner, rows)\n"
                         "output last\noutput all\n",
                  "f32[2]: 22 23; f32[3,2,2]: 2 3 4 5 7 8 11 12 16 17 22 23");
}

static void refused(kiln_arena *arena, const char *begin, const char *end, const char *needle) {
    expect_op_refused(arena,
                      kiln_arena_printf(arena,
                                        INPUTS "input k: f32[]\ninput c: i64[]\n"
                                               "constant yes: bool[] = [1]\n%s",
                                        begin),
                      end, needle);
}

#define GOOD "i: i64[], a: f32[2], r: f32[2] = loop_begin(n, s, x) carried=1 trips=3"

static void wrong_loops_are_refused(void **state) {
    kiln_arena *arena = *state;
    static const char *const end = "y: f32[2] = loop_end(i, a)";
    static const struct {
        const char *begin, *end, *needle;
    } row[] = {
        {"i: i64[], a: f32[2], r: f32[2] = loop_begin(n, s, x) carried=1", end, "trips: 0"},
        {"i: i64[], a: f32[2], r: f32[2] = loop_begin(n, s, x) carried=1 trips=4", end,
         "no 4 rows"},
        {"i: i64[], a: f32[2], r: f32[2] = loop_begin(n, s, x) carried=3 trips=3", end,
         "3 carried"},
        {"i: i64[], a: f32[2] = loop_begin(n, s, x) carried=1 trips=3", end,
         "3 inputs and 2 outputs"},
        {"i: i64[], a: f32[2], r: f32[] = loop_begin(n, s, k) carried=1 trips=3", end, "no 3 rows"},
        {"i: i64[], a: f32[2] = loop_begin(x, s) carried=1 trips=3", end, "elements of type f32"},
        {"i: i64[], a: f32[2] = loop_begin(n, k, s) carried=1 guarded=1 trips=3", end,
         "truth value"},
        {GOOD " reversed=[1, 1]", end, "2 items instead of 1"},
        {GOOD, "y: f32[2] = loop_end(c, a)", "no number of an iteration"},
        {GOOD, "y: f32[] = loop_end(i, k)", "carried value 0 changes its type"},
        {GOOD, "y: f32[2], z: f32[3,2] = loop_end(i, a)", "2 inputs and 2 outputs"},
        {GOOD, "y: f32[2], z: f32[3,2] = loop_end(i, a, r) reversed=[0, 1]",
         "2 items instead of 1"},
        {"i: i64[], a: f32[2] = loop_begin(c, s) carried=1 trips=3",
         "y: f32[2], z: f32[3,2] = loop_end(i, a, a) reversed=[1]", "known at run time only"},
        {"i: i64[], a: f32[2] = loop_begin(n, yes, s) carried=1 guarded=1 trips=3",
         "y: f32[2] = loop_end(i, s, a)", "truth value"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        refused(arena, row[i].begin, row[i].end, row[i].needle);
}

static void a_loop_is_not_evaluated_when_compiling(void **state) {
    kiln_graph *graph =
        graph_of(*state, "graph t\nconstant n: i64[] = [3]\nconstant s: f32[2] = [1, 2]\n"
                         "i: i64[], a: f32[2] = loop_begin(n, s) carried=1 trips=3\n"
                         "last: f32[2] = loop_end(i, a)\noutput last\n");
    kiln_tensor input[2] = {kiln_value_tensor(graph, 1), kiln_value_tensor(graph, 2)}, output[2];
    kiln_effort effort = kiln_effort_for(0);
    kiln_status st = kiln_node_eval(graph, 1, input, &effort, *state, output);
    assert_int_equal(kiln_status_code(st), KILN_UNIMPLEMENTED);
    kiln_status_free(st);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_sum_is_carried_and_stacked),
        test_with_arena(rows_and_stacks_go_backwards),
        test_with_arena(carried_values_are_handed_on_at_once),
        test_with_arena(the_iteration_has_a_number),
        test_with_arena(a_count_ends_the_loop),
        test_with_arena(a_count_says_how_much_is_stacked),
        test_with_arena(a_condition_ends_the_loop),
        test_with_arena(loops_stand_inside_of_each_other),
        test_with_arena(wrong_loops_are_refused),
        test_with_arena(a_loop_is_not_evaluated_when_compiling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
