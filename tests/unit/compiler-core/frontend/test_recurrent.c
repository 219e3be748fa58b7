/* Recurrent layers against plain loops in double precision, written from the formulas of the ONNX
 * specification. */
#include <math.h>
#include <string.h>

#include "base/rand.h"
#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

enum { STEPS = 3, BATCH = 2, FEATURES = 2, HIDDEN = 2 };

typedef struct layer_case {
    const char *op, *direction;
    uint32_t gates, states;
    bool bias, initial, peephole, lengths, batch_first, input_forget, linear_before_reset;
    float clip;
} layer_case;

static const int64_t sequence_length[BATCH] = {3, 1};

/* ---- the reference --------------------------------------------------------------------------- */

typedef struct operands {
    kiln_tensor x, w, r, b, h, c, p;
} operands;

static double at(const kiln_tensor *t, int64_t index) {
    return t->data ? (double)((const float *)t->data)[index] : 0;
}
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double clamp(const layer_case *k, double x) {
    double limit = (double)k->clip;
    return limit > 0 ? fmax(-limit, fmin(limit, x)) : x;
}

/* (x * W^T + Wb)[gate][j] and (h * R^T + Rb)[gate][j] of direction d. */
static double input_part(const layer_case *k, const operands *o, int64_t d, uint32_t gate,
                         int64_t j, const double *x) {
    int64_t rows = k->gates * HIDDEN, row = gate * HIDDEN + j;
    double sum = at(&o->b, d * 2 * rows + row);
    for (int64_t f = 0; f < FEATURES; f++) sum += at(&o->w, (d * rows + row) * FEATURES + f) * x[f];
    return sum;
}

static double state_part(const layer_case *k, const operands *o, int64_t d, uint32_t gate,
                         int64_t j, const double *h) {
    int64_t rows = k->gates * HIDDEN, row = gate * HIDDEN + j;
    double sum = at(&o->b, d * 2 * rows + rows + row);
    for (int64_t i = 0; i < HIDDEN; i++) sum += at(&o->r, (d * rows + row) * HIDDEN + i) * h[i];
    return sum;
}

static void reference_step(const layer_case *k, const operands *o, int64_t d, const double *x,
                           double *h, double *c) {
    double gate[4][HIDDEN], h_new[HIDDEN], reset[HIDDEN];
    for (uint32_t g = 0; g < k->gates; g++)
        for (int64_t j = 0; j < HIDDEN; j++)
            gate[g][j] = input_part(k, o, d, g, j, x) + state_part(k, o, d, g, j, h);
    for (int64_t j = 0; j < HIDDEN; j++) {
        if (strcmp(k->op, "RNN") == 0) h_new[j] = tanh(clamp(k, gate[0][j]));
        if (strcmp(k->op, "GRU") == 0) reset[j] = sigmoid(clamp(k, gate[1][j])) * h[j];
        if (strcmp(k->op, "LSTM") != 0) continue;
        int64_t p = d * 3 * HIDDEN + j;
        double in = sigmoid(clamp(k, gate[0][j] + at(&o->p, p) * c[j]));
        double forget = sigmoid(clamp(k, gate[2][j] + at(&o->p, p + 2 * HIDDEN) * c[j]));
        if (k->input_forget) forget = 1 - in;
        c[j] = forget * c[j] + in * tanh(clamp(k, gate[3][j]));
        h_new[j] = sigmoid(clamp(k, gate[1][j] + at(&o->p, p + HIDDEN) * c[j])) * tanh(c[j]);
    }
    for (int64_t j = 0; j < HIDDEN && strcmp(k->op, "GRU") == 0; j++) {
        double update = sigmoid(clamp(k, gate[0][j])), own = input_part(k, o, d, 2, j, x);
        double candidate = k->linear_before_reset
                               ? own + sigmoid(clamp(k, gate[1][j])) * state_part(k, o, d, 2, j, h)
                               : own + state_part(k, o, d, 2, j, reset);
        h_new[j] = (1 - update) * tanh(clamp(k, candidate)) + update * h[j];
    }
    memcpy(h, h_new, sizeof h_new);
}

static int64_t output_index(const layer_case *k, int64_t directions, int64_t t, int64_t d,
                            int64_t b) {
    return HIDDEN *
           (k->batch_first ? (b * STEPS + t) * directions + d : (t * directions + d) * BATCH + b);
}

/* `y`: [steps * directions * batch * hidden], zeroed; `last`: of each state, [directions * batch *
 * hidden]. */
static void reference(const layer_case *k, const operands *o, int64_t directions, double *y,
                      double (*last)[2 * BATCH * HIDDEN]) {
    for (int64_t d = 0; d < directions; d++) {
        bool backward = d == 1 || strcmp(k->direction, "reverse") == 0;
        for (int64_t b = 0; b < BATCH; b++) {
            int64_t state = HIDDEN * (k->batch_first ? b * directions + d : d * BATCH + b);
            double h[HIDDEN], c[HIDDEN];
            for (int64_t j = 0; j < HIDDEN; j++)
                h[j] = at(&o->h, state + j), c[j] = at(&o->c, state + j);
            int64_t steps = k->lengths ? sequence_length[b] : STEPS;
            for (int64_t i = 0; i < steps; i++) {
                int64_t t = backward ? steps - 1 - i : i;
                double x[FEATURES];
                for (int64_t f = 0; f < FEATURES; f++)
                    x[f] =
                        at(&o->x, (k->batch_first ? b * STEPS + t : t * BATCH + b) * FEATURES + f);
                reference_step(k, o, d, x, h, c);
                memcpy(y + output_index(k, directions, t, d, b), h, sizeof h);
            }
            memcpy(last[0] + state, h, sizeof h);
            memcpy(last[1] + state, c, sizeof c);
        }
    }
}

/* ---- the import ------------------------------------------------------------------------------ */

static message layer_node(kiln_arena *arena, const layer_case *k) {
    bool lstm = strcmp(k->op, "LSTM") == 0;
    message node =
        node_of(arena, k->op,
                kiln_arena_printf(arena, "x w r %s %s %s %s %s", k->bias ? "b" : "-",
                                  k->lengths ? "n" : "-", k->initial ? "h" : "-",
                                  k->initial && lstm ? "c" : "-", k->peephole ? "p" : "-"),
                lstm ? "y yh yc" : "y yh");
    node = with_attr_int(node, "hidden_size", HIDDEN);
    node = with_attr_text(node, "direction", k->direction);
    if (k->batch_first) node = with_attr_int(node, "layout", 1);
    if (k->input_forget) node = with_attr_int(node, "input_forget", 1);
    if (k->linear_before_reset) node = with_attr_int(node, "linear_before_reset", 1);
    return k->clip > 0 ? with_attr_float(node, "clip", k->clip) : node;
}

static model_parts layer_model(kiln_arena *arena, const layer_case *k, uint32_t directions) {
    uint32_t rows = k->gates * HIDDEN;
    bool lstm = strcmp(k->op, "LSTM") == 0;
    const char *order = k->batch_first ? "x:2,3,2" : "x:3,2,2";
    const char *state = kiln_arena_printf(arena, k->batch_first ? "2,%u,2" : "%u,2,2", directions);
    kiln_strbuf in = {0};
    kiln_strbuf_printf(&in, "%s w:%u,%u,2 r:%u,%u,2", order, directions, rows, directions, rows);
    if (k->bias) kiln_strbuf_printf(&in, " b:%u,%u", directions, 2 * rows);
    if (k->initial) kiln_strbuf_printf(&in, " h:%s", state);
    if (k->initial && lstm) kiln_strbuf_printf(&in, " c:%s", state);
    if (k->peephole) kiln_strbuf_printf(&in, " p:%u,%u", directions, 3 * HIDDEN);
    model_parts parts = {.opset = 14,
                         .node_count = 1,
                         .node = {layer_node(arena, k)},
                         .input = kiln_str_dup(arena, kiln_strbuf_view(&in)),
                         .output = lstm ? "y:1 yh:1 yc:1" : "y:1 yh:1"};
    kiln_strbuf_deinit(&in);
    parts.initializer_count = k->lengths;
    if (k->lengths) parts.initializer[0] = i64s_of(arena, "n", sequence_length, BATCH);
    return parts;
}

static kiln_tensor *operand_of(operands *o, kiln_str name) {
    static const char names[] = "xwrbhcp";
    kiln_tensor *const tensor[] = {&o->x, &o->w, &o->r, &o->b, &o->h, &o->c, &o->p};
    return tensor[strchr(names, name.data[0]) - names];
}

static void fill_inputs(kiln_arena *arena, const kiln_graph *graph, kiln_tensor *input,
                        operands *o) {
    kiln_rand rand;
    kiln_rand_init(&rand, 7);
    for (uint32_t i = 0; i < graph->input.count; i++) {
        const kiln_value_info *info = &graph->value.data[graph->input.data[i]];
        input[i] = kiln_tensor_create(arena, info->dtype, &info->shape);
        for (int64_t e = 0; e < kiln_shape_count(&info->shape); e++)
            ((float *)input[i].data)[e] = (float)(kiln_rand_unit(&rand) * 2 - 1);
        *operand_of(o, info->name) = input[i];
    }
}

static void expect_close(const kiln_tensor *actual, const double *wanted) {
    for (int64_t i = 0; i < kiln_shape_count(&actual->shape); i++)
        assert_true(fabs(at(actual, i) - wanted[i]) < 1e-5);
}

/* Unrolled, or as a loop for each direction. */
static void expect_layer_as(kiln_arena *arena, const layer_case *k, uint32_t unroll_max) {
    uint32_t directions = strcmp(k->direction, "bidirectional") == 0 ? 2 : 1;
    model_parts parts = layer_model(arena, k, directions);
    kiln_graph *graph = import_unrolling(arena, &parts, unroll_max);
    assert_int_equal(count_loops(graph), unroll_max < STEPS ? directions : 0);
    kiln_tensor input[8], output[3];
    operands o = {0};
    double y[STEPS * 2 * BATCH * HIDDEN] = {0}, last[2][2 * BATCH * HIDDEN] = {{0}};
    fill_inputs(arena, graph, input, &o);
    expect_ok(kiln_graph_eval(graph, input, arena, output));
    reference(k, &o, directions, y, last);
    assert_int_equal(output[0].shape.rank, 4);
    assert_int_equal(output[1].shape.rank, 3);
    expect_close(&output[0], y);
    for (uint32_t s = 0; s < k->states; s++) expect_close(&output[1 + s], last[s]);
}

static void expect_layer(kiln_arena *arena, const layer_case *k) {
    expect_layer_as(arena, k, STEPS);
    expect_layer_as(arena, k, STEPS - 1);
}

/* ---- promises -------------------------------------------------------------------------------- */

static void lstm_follows_its_formulas(void **state) {
    static const layer_case cases[] = {
        {.op = "LSTM", .direction = "forward", .gates = 4, .states = 2},
        {.op = "LSTM",
         .direction = "reverse",
         .gates = 4,
         .states = 2,
         .bias = true,
         .initial = true},
        {.op = "LSTM",
         .direction = "bidirectional",
         .gates = 4,
         .states = 2,
         .bias = true,
         .initial = true,
         .peephole = true},
        {.op = "LSTM",
         .direction = "bidirectional",
         .gates = 4,
         .states = 2,
         .initial = true,
         .lengths = true},
        {.op = "LSTM", .direction = "forward", .gates = 4, .states = 2, .lengths = true},
        {.op = "LSTM",
         .direction = "bidirectional",
         .gates = 4,
         .states = 2,
         .initial = true,
         .batch_first = true},
        {.op = "LSTM",
         .direction = "forward",
         .gates = 4,
         .states = 2,
         .initial = true,
         .input_forget = true,
         .clip = 0.2f},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(cases); i++) expect_layer(*state, &cases[i]);
}

static void gru_follows_its_formulas(void **state) {
    static const layer_case cases[] = {
        {.op = "GRU", .direction = "forward", .gates = 3, .states = 1},
        {.op = "GRU",
         .direction = "forward",
         .gates = 3,
         .states = 1,
         .bias = true,
         .linear_before_reset = true},
        {.op = "GRU",
         .direction = "reverse",
         .gates = 3,
         .states = 1,
         .bias = true,
         .initial = true,
         .linear_before_reset = true},
        {.op = "GRU",
         .direction = "bidirectional",
         .gates = 3,
         .states = 1,
         .bias = true,
         .initial = true,
         .lengths = true,
         .clip = 0.3f},
        {.op = "GRU",
         .direction = "forward",
         .gates = 3,
         .states = 1,
         .initial = true,
         .batch_first = true},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(cases); i++) expect_layer(*state, &cases[i]);
}

static void rnn_follows_its_formula(void **state) {
    static const layer_case cases[] = {
        {.op = "RNN", .direction = "forward", .gates = 1, .states = 1},
        {.op = "RNN",
         .direction = "bidirectional",
         .gates = 1,
         .states = 1,
         .bias = true,
         .initial = true,
         .lengths = true},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(cases); i++) expect_layer(*state, &cases[i]);
}

static void activations_are_taken_by_name(void **state) {
    layer_case k = {.op = "RNN", .direction = "forward", .gates = 1, .states = 1};
    model_parts parts = layer_model(*state, &k, 1);
    message name = with_text(with_int(with_text(message_of(*state), 1, "activations"), 20, 8), 9,
                             "HardSigmoid");
    parts.node[0] = with_message(parts.node[0], 5, name);
    const char *text = text_of_import(*state, &parts);
    expect_contains(text, "= hard_sigmoid(");
    expect_contains(text, "beta=0.5");
    name = with_text(with_int(with_text(message_of(*state), 1, "activations"), 20, 8), 9, "Cosine");
    parts.node[0] = with_message(layer_node(*state, &k), 5, name);
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "attribute activations: \"Cosine\"");
}

static void steps_share_their_tasks(void **state) {
    layer_case k = {.op = "LSTM", .direction = "forward", .gates = 4, .states = 2, .initial = true};
    model_parts parts = layer_model(*state, &k, 1);
    kiln_graph *graph = import_of(*state, &parts);
    kiln_tasks tasks;
    uint32_t shared = 0;
    expect_ok(kiln_tasks_extract(graph, *state, &tasks));
    for (uint32_t i = 0; i < tasks.count; i++)
        shared += kiln_str_is(tasks.task[i].op, "gemm") && (int)tasks.task[i].weight >= STEPS;
    assert_int_equal(shared, 1);
}

/* A long sequence is no larger graph than one of some steps. */
static void a_long_sequence_is_a_loop(void **state) {
    layer_case k = {.op = "LSTM", .direction = "bidirectional", .gates = 4, .states = 2};
    model_parts parts = layer_model(*state, &k, 2);
    parts.input = "x:50,2,2 w:2,8,2 r:2,8,2";
    const kiln_graph *some = import_of(*state, &parts);
    parts.input = "x:100000,2,2 w:2,8,2 r:2,8,2";
    const kiln_graph *many = import_of(*state, &parts);
    assert_int_equal(count_loops(many), 2);
    assert_int_equal(many->node.count, some->node.count);
}

static void operands_must_fit_the_layer(void **state) {
    layer_case k = {.op = "LSTM", .direction = "forward", .gates = 4, .states = 2};
    model_parts parts = layer_model(*state, &k, 1);
    parts.input = "x:3,2,2 w:1,7,2 r:1,8,2";
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "W has another shape");
    parts.input = "x:0,2,2 w:1,8,2 r:1,8,2";
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "0 steps");
    parts.input = "x:3,2 w:1,8,2 r:1,8,2";
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "3 dimensions");
    k.direction = "sideways";
    parts = layer_model(*state, &k, 1);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "\"sideways\" is not known");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(lstm_follows_its_formulas),
        test_with_arena(gru_follows_its_formulas),
        test_with_arena(rnn_follows_its_formula),
        test_with_arena(activations_are_taken_by_name),
        test_with_arena(steps_share_their_tasks),
        test_with_arena(a_long_sequence_is_a_loop),
        test_with_arena(operands_must_fit_the_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
