/* Graphs as ONNX models: what these compute when they are read again. */
#include "compiler-core/frontend/onnx/graph_write.h"

#include "tests/unit/compiler-core/frontend/tflite_support.h"

static kiln_graph *written(kiln_arena *arena, kiln_str tflite) {
    kiln_graph *graph = NULL;
    kiln_str bytes = {0};
    expect_ok(kiln_onnx_of_graph(import_tflite(arena, tflite), arena, &bytes));
    assert_string_equal(kiln_import_kind(bytes), "onnx");
    expect_ok(kiln_import_bytes(bytes, NULL, NULL, arena, &graph));
    expect_ok(kiln_graph_verify(graph));
    return graph;
}

static void expect_same(kiln_arena *arena, kiln_str tflite) {
    assert_string_equal(result_of(arena, written(arena, tflite)),
                        result_of(arena, import_tflite(arena, tflite)));
}

/* Attributes that are inputs in ONNX, inputs that are left out, types, and results of several. */
static void operators_mean_the_same_in_onnx(void **state) {
    static const struct {
        int number;
        const char *x, *extra, *y;
    } row[] = {
        {19, "x:2,3", "", "y:2,3"},         /* RELU */
        {21, "x:2,3", "", "y:2,3"},         /* RELU6: Clip with both limits as inputs */
        {25, "x:2,3", "", "y:2,3"},         /* SOFTMAX */
        {34, "x:2", "1,2", "y:5"},          /* PAD */
        {39, "x:2,3", "1,0", "y:3,2"},      /* TRANSPOSE */
        {40, "x:2,3", "1", "y:2"},          /* MEAN */
        {65, "x:2,3", "0,1;2,-1", "y:2,2"}, /* SLICE */
        {69, "x:2,3", "1,2", "y:2,6"},      /* TILE */
        {101, "x:2,3", "", "y:2,3"},        /* ABS */
        {105, "x:2,3", "1", "y:2,3"},       /* REVERSE_V2 */
        {117, "x:2,3", "", "y:2,3"},        /* HARD_SWISH */
        {130, "x:1,3", "2,3", "y:2,3"},     /* BROADCAST_TO */
        {150, "x:2,3", "", "y:2,3"},        /* GELU */
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++)
        expect_same(*state,
                    one_operator(*state, row[i].number, row[i].x, row[i].y, row[i].extra, NULL));
}

/* A convolution with channels last, its weights in another order than ONNX's, then a cast. */
static kiln_str network_of(kiln_arena *arena) {
    static float weights[3 * 2 * 2 * 2], bias[3] = {0.5f, -1, 2};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(weights); i++) weights[i] = (float)(i * 7 % 11) - 5;
    tflite_model m = tflite_model_of(arena);
    tflite_tensor(&m, T_F32, "x:1,4,4,2", NULL, 0);
    tflite_tensor(&m, T_F32, "w:3,2,2,2", weights, sizeof weights);
    tflite_tensor(&m, T_F32, "b:3", bias, sizeof bias);
    tflite_tensor(&m, T_F32, "c:1,2,2,3", NULL, 0);
    tflite_tensor(&m, T_I32, "y:1,2,2,3", NULL, 0);
    flat_table *options = flat_int(flat_table_of(arena), 1, 4, 2);
    tflite_operator(&m, 3 /* CONV_2D */, "0,1,2", "3", flat_int(options, 2, 4, 2));
    tflite_operator(&m, 53 /* CAST */, "3", "4", NULL);
    return tflite_bytes(&m, "0", "3,4");
}

static uint32_t count_of(const kiln_graph *graph, kiln_op op) {
    uint32_t count = 0;
    for (kiln_node n = 1; n < graph->node.count; n++) count += graph->node.data[n].op == op;
    return count;
}

static void weights_are_constants(void **state) {
    expect_same(*state, network_of(*state));
    const kiln_graph *graph = written(*state, network_of(*state));
    for (kiln_node n = 1; n < graph->node.count; n++)
        if (graph->node.data[n].op == KILN_OP_CONV)
            assert_true(kiln_value_is_constant(graph, graph->node.data[n].input[1]));
    assert_int_equal(count_of(graph, KILN_OP_TRANSPOSE), 3); /* of x, c and y */
    assert_true(kiln_str_is(graph->value.data[graph->input.data[0]].name, "x"));
    assert_true(kiln_str_is(graph->value.data[graph->output.data[1]].name, "y"));
}

static void loops_have_no_form(void **state) {
    kiln_graph *graph = kiln_graph_create(*state, KILN_STR("g"));
    kiln_tensor two = kiln_tensor_create(*state, KILN_I64, &(kiln_shape){0});
    kiln_str bytes;
    ((int64_t *)two.data)[0] = 2;
    const kiln_value x = kiln_graph_add_input(graph, KILN_STR("x"), KILN_F32, &(kiln_shape){0}),
                     count = kiln_graph_add_constant(graph, KILN_STR("n"), &two);
    const kiln_node n = kiln_graph_add_node(graph, KILN_OP_LOOP_BEGIN, KILN_STR("loop"), 2, 2);
    kiln_graph_set_int(graph, n, "trips", 2);
    kiln_graph_set_int(graph, n, "carried", 1);
    kiln_graph_set_input(graph, n, 0, count);
    kiln_graph_set_input(graph, n, 1, x);
    for (uint32_t i = 0; i < 2; i++)
        kiln_graph_set_output(graph, n, i, kiln_graph_add_value(graph, KILN_STR("v")));
    kiln_status st = kiln_onnx_of_graph(graph, *state, &bytes);
    assert_int_equal(kiln_status_code(st), KILN_UNIMPLEMENTED);
    expect_contains(kiln_status_text(st), "node \"loop\": loop_begin has no form in ONNX here");
    kiln_status_free(st);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(operators_mean_the_same_in_onnx),
        test_with_arena(weights_are_constants),
        test_with_arena(loops_have_no_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
