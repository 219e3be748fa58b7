#include "tests/support/graph_parse.h"
#include "tests/unit/compiler-core/graph/support.h"

static void expect_refused(kiln_arena *arena, const char *text, const char *needle) {
    kiln_graph *graph = NULL;
    expect_error(kiln_graph_parse(kiln_str_from(text), arena, &graph), INVALID_ARGUMENT, needle);
    assert_null(graph);
}

static void text_means_what_it_says(void **state) {
    kiln_graph *graph = graph_of(*state, "# a comment\n"
                                         "graph \"my net\"\n"
                                         "\n"
                                         "input x: i32[3]\n"
                                         "constant k: i32[] = [-7] # seven\n"
                                         "y: i32[3] = add(x, k) name \"the # sum\" kernel 4\n"
                                         "output y\n");
    expect_str(graph->name, "my net");
    expect_str(graph->node.data[1].name, "the # sum");
    assert_int_equal(graph->node.data[1].group, 4);
    assert_string_equal(result_of(*state, graph), "i32[3]: -6 -5 -4");
}

static void hashed_constants_are_made_up_from_the_hash(void **state) {
    const char *text = "graph g\n"
                       "constant a: f32[20] = hash \"00112233445566778899aabbccddeeff\"\n"
                       "constant b: f32[20] = hash \"00112233445566778899aabbccddeeff\"\n"
                       "constant c: f32[20] = hash \"ff112233445566778899aabbccddee00\"\n"
                       "d: f32[20] = sub(a, b)\n"
                       "e: f32[20] = sub(a, c)\n"
                       "output d\n"
                       "output e\n";
    const kiln_graph *graph = graph_of(*state, text);
    const float *a = graph->value.data[1].data;
    const float *c = graph->value.data[3].data;
    assert_memory_equal(a, graph->value.data[2].data, 80);
    assert_memory_not_equal(a, c, 80);
}

static void places_of_errors_are_told(void **state) {
    expect_refused(*state, "", "1:1: 'graph' is expected here");
    expect_refused(*state, "graph g\ninput x f32[2]\n", "2:9: ':' is expected here");
    expect_refused(*state, "graph g\ninput x: f33[2]\n", "2:10: an element type is expected here");
    expect_refused(*state, "graph g\ninput x: f32[2]\noutput z\n", "3:9: z is not defined");
    expect_refused(*state, "graph g\ninput x: f32[2] 3\n", "2:17: the end of the line is expected");
}

static void names_are_defined_once_and_before_use(void **state) {
    expect_refused(*state, "graph g\ninput x: f32[2]\ninput x: f32[2]\noutput x\n",
                   "x is defined twice");
    expect_refused(
        *state, "graph g\ninput x: f32[2]\ny: f32[2] = add(x, z)\nz: f32[2] = neg(x)\noutput y\n",
        "z is not defined");
    expect_refused(*state, "graph g\ninput x: f32[2]\n", "the graph has no output");
}

static void sizes_are_bounded(void **state) {
    expect_refused(*state, "graph g\ninput x: f32[1,1,1,1,1,1,1,1,1]\n", "at most 8 dimensions");
    expect_refused(*state, "graph g\ninput x: f32[-1]\n", "negative");
    expect_refused(*state, "graph g\ninput x: f32[4294967296,4294967296]\n", "too large");
    expect_refused(
        *state, "graph g\nconstant x: f32[99999999] = hash \"00112233445566778899aabbccddeeff\"\n",
        "constants take more than");
    expect_refused(*state, "graph g\nconstant x: f32[99] = hash \"0011\"\n", "32 digits");
}

static void nodes_must_fit_their_operator(void **state) {
    const char *x = "input x: f32[2]";
    expect_op_refused(*state, x, "y: f32[2] = frobnicate(x)", "no operator frobnicate");
    expect_op_refused(*state, x, "y: f32[2] = relu(x, x)", "2 inputs; 1 to 1 are allowed");
    expect_op_refused(*state, x, "y: f32[2], z: f32[2] = relu(x)", "2 outputs");
    expect_op_refused(*state, x, "y: f32[3] = relu(x)", "y is of another type");
    expect_op_refused(*state, x, "y: f32[2] = relu(x) alpha=1", "relu has no attribute alpha");
    expect_op_refused(*state, x, "y: f32[2] = leaky_relu(x) alpha=\"1\"",
                      "a number is expected here");
    expect_op_refused(*state, x, "y: f32[2] = relu(_)", "input 0 is missing");
}

static void numbers_keep_all_their_bits(void **state) {
    const char *text = "graph g\n"
                       "constant a: i64[2] = [-9223372036854775808, 9223372036854775807]\n"
                       "constant b: u64[1] = [18446744073709551615]\n"
                       "constant c: f64[2] = [0.10000000000000001, -inf]\n"
                       "input x: f32[1]\n"
                       "output a\n"
                       "output b\n"
                       "output c\n";
    const kiln_graph *graph = graph_of(*state, text);
    assert_true(((const int64_t *)graph->value.data[1].data)[0] == INT64_MIN);
    assert_true(((const int64_t *)graph->value.data[1].data)[1] == INT64_MAX);
    assert_true(((const uint64_t *)graph->value.data[2].data)[0] == UINT64_MAX);
    assert_true(((const double *)graph->value.data[3].data)[0] == 0.1);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(text_means_what_it_says),
        test_with_arena(hashed_constants_are_made_up_from_the_hash),
        test_with_arena(places_of_errors_are_told),
        test_with_arena(names_are_defined_once_and_before_use),
        test_with_arena(sizes_are_bounded),
        test_with_arena(nodes_must_fit_their_operator),
        test_with_arena(numbers_keep_all_their_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
