/* Layers of TFLite with a state. Gates are open or shut: a sigmoid of 100 is 1, of -200 nothing. */
#include "tests/unit/compiler-core/frontend/tflite_support.h"

#include <string.h>

enum { RELU = 19, LSTM = 16, SVDF = 27, SEQUENCE_LSTM = 44 };
#define OPEN 100.0f
#define SHUT (-200.0f)

static void variable(tflite_model *m, int type, const char *name_and_shape) {
    flat_int(tflite_tensor(m, type, name_and_shape, NULL, 0), 5, 1, 1);
}

static int constant(tflite_model *m, const char *name_and_shape, const float *data,
                    uint32_t count) {
    tflite_tensor(m, T_F32, name_and_shape, data, count * sizeof *data);
    return (int)m->tensor_count - 1;
}

/* A layer of one input and one cell. Weights of the cell gate are 2 for the input and 3 for what
 * the step before gave, its bias is 1; those of the gates are 0. */
typedef struct layer {
    float gate[4]; /* biases of the input, forget and output gate: 0, 1, 3 */
    bool coupled;
    float peephole;   /* of the output gate; 0: none */
    float projection; /* 0: none */
    float cell_clip;
    int steps; /* 0: operator LSTM */
} layer;

static const char *lstm_inputs(tflite_model *m, const layer *l) {
    const float zero = 0, of_x = 2, of_h = 3, bias[] = {l->gate[0], l->gate[1], 1, l->gate[3]};
    int input[20];
    for (int i = 0; i < 20; i++) input[i] = -1;
    input[0] = 0;
    for (int gate = l->coupled; gate < 4; gate++) {
        input[1 + gate] = constant(m, "w:1,1", gate == 2 ? &of_x : &zero, 1);
        input[5 + gate] = constant(m, "r:1,1", gate == 2 ? &of_h : &zero, 1);
        input[12 + gate] = constant(m, "b:1", &bias[gate], 1);
    }
    if (l->peephole != 0) input[11] = constant(m, "p:1", &l->peephole, 1);
    if (l->projection != 0) input[16] = constant(m, "q:1,1", &l->projection, 1);
    input[18] = 2;
    input[19] = 3;
    kiln_strbuf text = {0};
    for (int i = 0; i < 20; i++) kiln_strbuf_printf(&text, "%s%d", i ? "," : "", input[i]);
    char *copy = kiln_str_dup(m->arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

/* x, h and c to y, h.next and c.next; the cell's activation is the identity. */
static kiln_str model_of_layer(kiln_arena *arena, const layer *l) {
    tflite_model m = tflite_model_of(arena);
    const char *const sequence = kiln_arena_printf(arena, ":1,%d,1", l->steps);
    const char *const shape = l->steps ? sequence : ":1,1";
    tflite_tensor(&m, T_F32, kiln_arena_printf(arena, "x%s", shape), NULL, 0);
    tflite_tensor(&m, T_F32, kiln_arena_printf(arena, "y%s", shape), NULL, 0);
    variable(&m, T_F32, "h:1,1");
    variable(&m, T_F32, "c:1,1");
    flat_table *options = flat_float(flat_table_of(arena), 1, l->cell_clip);
    tflite_operator(&m, l->steps ? SEQUENCE_LSTM : LSTM, lstm_inputs(&m, l), "1", options);
    return tflite_bytes(&m, "0", "1");
}

/* x = 1, h = 1, c = 1. */
static void a_step_of_an_lstm_has_four_gates(void **state) {
    const layer row[] = {
        {.gate = {OPEN, OPEN, 0, OPEN}},
        {.gate = {OPEN, SHUT, 0, OPEN}},
        {.gate = {SHUT, OPEN, 0, OPEN}},
        {.gate = {OPEN, OPEN, 0, SHUT}},
        {.gate = {0, SHUT, 0, OPEN}, .coupled = true},
        {.gate = {0, OPEN, 0, OPEN}, .coupled = true},
        {.gate = {OPEN, OPEN, 0, SHUT}, .peephole = 50},
        {.gate = {OPEN, OPEN, 0, OPEN}, .projection = 5},
        {.gate = {OPEN, OPEN, 0, OPEN}, .cell_clip = 4},
    };
    static const char *const wanted[] = {"7; 7; 7", "6; 6; 6", "1; 1; 1",   "0; 0; 7", "6; 6; 6",
                                         "1; 1; 1", "7; 7; 7", "35; 35; 7", "4; 4; 4"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_str rest = kiln_str_from(wanted[i]);
        kiln_str y = kiln_str_cut(&rest, ';'), h = kiln_str_cut(&rest, ';');
        expect_tflite(*state, model_of_layer(*state, &row[i]),
                      kiln_arena_printf(*state, "f32[1,1]: %.*s; f32[1,1]:%.*s; f32[1,1]:%.*s",
                                        KILN_STR_ARG(y), KILN_STR_ARG(h), KILN_STR_ARG(rest)));
    }
}

/* c: 1, then 1 + 2*1 + 3*1 + 1 = 7, then 7 + 2*2 + 3*7 + 1 = 33, then 33 + 2*3 + 3*33 + 1 = 139. */
static void a_sequence_is_a_loop_over_steps(void **state) {
    const layer l = {.gate = {OPEN, OPEN, 0, OPEN}, .steps = 3};
    const kiln_str bytes = model_of_layer(*state, &l);
    expect_tflite(*state, bytes, "f32[1,3,1]: 7 33 139; f32[1,1]: 139; f32[1,1]: 139");
    const kiln_graph *graph = import_tflite(*state, bytes);
    assert_int_equal(count_loops(graph), 1);
    assert_int_equal(graph->input.count, 3);
    assert_true(kiln_str_is(graph->value.data[graph->input.data[1]].name, "h"));
    assert_true(kiln_str_is(graph->value.data[graph->output.data[1]].name, "h.next"));
    assert_true(kiln_str_is(graph->value.data[graph->output.data[2]].name, "c.next"));
}

/* Two inputs, four filters over three steps; a unit sums `rank` of them. */
static kiln_str svdf_of(kiln_arena *arena, int rank, int type, bool quantised) {
    static const float feature[] = {1, 0, 0, 1, 1, 1, 2, 0},
                       time[] = {1, 10, 100, 1, 10, 100, 1, 10, 100, 1, 10, 100}, bias[] = {1, 2};
    static const float scale = 0.5f;
    static const int64_t zero = 0;
    tflite_model m = tflite_model_of(arena);
    tflite_tensor(&m, T_F32, "x:1,2", NULL, 0);
    tflite_tensor(&m, T_F32, kiln_arena_printf(arena, "y:1,%d", 4 / rank), NULL, 0);
    flat_table *s = flat_int(tflite_tensor(&m, type, "s:1,12", NULL, 0), 5, 1, 1);
    if (quantised) tflite_quantise(s, &scale, &zero, 1, 0);
    constant(&m, "f:4,2", feature, 8);
    constant(&m, "t:4,3", time, 12);
    constant(&m, "b:2", bias, 2);
    flat_table *options = flat_int(flat_table_of(arena), 0, 4, rank);
    tflite_operator(&m, SVDF, rank == 2 ? "0,3,4,5,2" : "0,3,4,-1,2", "1", options);
    return tflite_bytes(&m, "0", "1");
}

/* x = 1 2, features 1 2 3 2; the state is 1 to 12, of which each filter's oldest goes. */
static void an_svdf_keeps_features_of_the_last_steps(void **state) {
    expect_tflite(*state, svdf_of(*state, 1, T_F32, false),
                  "f32[1,4]: 132 265 398 331; f32[1,12]: 2 3 1 5 6 2 8 9 3 11 12 2");
    expect_tflite(*state, svdf_of(*state, 2, T_F32, false),
                  "f32[1,2]: 398 731; f32[1,12]: 2 3 1 5 6 2 8 9 3 11 12 2");
}

/* The state is in steps of 0.5: what is kept is half as much. */
static void a_state_may_be_quantised(void **state) {
    expect_tflite(*state, svdf_of(*state, 1, T_I16, true),
                  "f32[1,4]: 116 232.5 349 265.5; i16[1,12]: 2 3 2 5 6 4 8 9 6 11 12 4");
}

static void states_are_variables(void **state) {
    tflite_model m = tflite_model_of(*state);
    const layer l = {.gate = {OPEN, OPEN, 0, OPEN}};
    tflite_tensor(&m, T_F32, "x:1,1", NULL, 0);
    tflite_tensor(&m, T_F32, "y:1,1", NULL, 0);
    tflite_tensor(&m, T_F32, "h:1,1", NULL, 0);
    variable(&m, T_F32, "c:1,1");
    tflite_operator(&m, LSTM, lstm_inputs(&m, &l), "1", NULL);
    expect_tflite_refused(*state, tflite_bytes(&m, "0", "1"), KILN_INVALID_ARGUMENT,
                          "operator 0 (LSTM): input 18, its state, is no variable");
}

/* A variable that nothing writes is an input, and no output. */
static void variables_are_inputs(void **state) {
    tflite_model m = tflite_model_of(*state);
    variable(&m, T_F32, "v:2");
    tflite_tensor(&m, T_F32, "y:2", NULL, 0);
    tflite_operator(&m, RELU, "0", "1", NULL);
    expect_tflite(*state, tflite_bytes(&m, "", "1"), "f32[2]: 1 2");
}

static void what_is_not_there_is_refused(void **state) {
    const layer l = {.gate = {OPEN, OPEN, 0, OPEN}};
    for (int basic = 0; basic < 2; basic++) {
        tflite_model m = tflite_model_of(*state);
        tflite_tensor(&m, T_F32, "x:1,1", NULL, 0);
        tflite_tensor(&m, T_F32, "y:1,1", NULL, 0);
        variable(&m, T_F32, "h:1,1");
        variable(&m, T_F32, "c:1,1");
        flat_table *options = flat_int(flat_table_of(*state), basic ? 3 : 0, 1, basic ? 1 : 3);
        tflite_operator(&m, LSTM, lstm_inputs(&m, &l), "1", options);
        expect_tflite_refused(*state, tflite_bytes(&m, "0", "1"), KILN_UNIMPLEMENTED,
                              basic ? "the basic kernel" : "activation number 3");
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(a_step_of_an_lstm_has_four_gates),
        test_with_arena(a_sequence_is_a_loop_over_steps),
        test_with_arena(an_svdf_keeps_features_of_the_last_steps),
        test_with_arena(a_state_may_be_quantised),
        test_with_arena(states_are_variables),
        test_with_arena(variables_are_inputs),
        test_with_arena(what_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
