/* Layers with a state against plain loops in double precision, and their refusals. */
#include <math.h>
#include <string.h>

#include "base/rand.h"
#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

static void fill(kiln_arena *arena, const kiln_graph *graph, kiln_tensor *input) {
    kiln_rand rand;
    kiln_rand_init(&rand, 5);
    for (uint32_t i = 0; i < graph->input.count; i++) {
        const kiln_value_info *info = &graph->value.data[graph->input.data[i]];
        input[i] = kiln_tensor_create(arena, info->dtype, &info->shape);
        for (int64_t e = 0; e < kiln_shape_count(&info->shape); e++)
            ((float *)input[i].data)[e] = (float)(kiln_rand_unit(&rand) * 2 - 1);
    }
}

static double at(const kiln_tensor *t, int64_t index) {
    return (double)((const float *)t->data)[index];
}

/* ---- LinearAttention ------------------------------------------------------------------------- */

enum { BATCH = 2, STEPS = 3, QUERY_HEADS = 4, HEADS = 2, SIZE = 2, VALUE = 3 };

typedef struct rule_case {
    const char *rule;
    bool forgets, corrects, shared_rate; /* one rate for all heads */
} rule_case;

static const rule_case rule_table[] = {
    {"linear", false, false, false},
    {"gated", true, false, false},
    {"delta", false, true, true},
    {"gated_delta", true, true, false},
};

/* Inputs: query, key, value, state, decay per row of the state, rate. */
static void one_step(const rule_case *r, const kiln_tensor *in, int64_t b, int64_t t, int64_t h,
                     double state[SIZE][VALUE]) {
    const int64_t step = b * STEPS + t;
    const double rate = r->shared_rate ? at(&in[5], step) : at(&in[5], step * HEADS + h);
    double before[VALUE] = {0};
    for (int64_t i = 0; i < SIZE; i++)
        for (int64_t j = 0; j < VALUE; j++) {
            if (r->forgets) state[i][j] *= exp(at(&in[4], (step * HEADS + h) * SIZE + i));
            before[j] += state[i][j] * at(&in[1], (step * HEADS + h) * SIZE + i);
        }
    for (int64_t i = 0; i < SIZE; i++)
        for (int64_t j = 0; j < VALUE; j++) {
            const double value = at(&in[2], (step * HEADS + h) * VALUE + j);
            state[i][j] += at(&in[1], (step * HEADS + h) * SIZE + i) *
                           (r->corrects ? rate * (value - before[j]) : value);
        }
}

static void reference(const rule_case *r, const kiln_tensor *in, double scale, double *y,
                      double *last) {
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t h = 0; h < HEADS; h++) {
            double state[SIZE][VALUE];
            for (int64_t i = 0; i < SIZE * VALUE; i++)
                state[i / VALUE][i % VALUE] = at(&in[3], (b * HEADS + h) * SIZE * VALUE + i);
            for (int64_t t = 0; t < STEPS; t++) {
                one_step(r, in, b, t, h, state);
                for (int64_t q = h * 2; q < h * 2 + 2; q++)
                    for (int64_t j = 0; j < VALUE; j++) {
                        double sum = 0;
                        for (int64_t i = 0; i < SIZE; i++)
                            sum += state[i][j] *
                                   at(&in[0], ((b * STEPS + t) * QUERY_HEADS + q) * SIZE + i);
                        y[((b * STEPS + t) * QUERY_HEADS + q) * VALUE + j] = scale * sum;
                    }
            }
            for (int64_t i = 0; i < SIZE * VALUE; i++)
                last[(b * HEADS + h) * SIZE * VALUE + i] = state[i / VALUE][i % VALUE];
        }
}

static message linear_node(kiln_arena *arena, const rule_case *r) {
    message node = node_of(arena, "LinearAttention", "q k v s g b", "y p");
    node = with_attr_int(with_attr_int(node, "q_num_heads", QUERY_HEADS), "kv_num_heads", HEADS);
    return with_attr_text(with_attr_float(node, "scale", 0.75f), "update_rule", r->rule);
}

static void linear_attention_follows_each_rule(void **state) {
    for (size_t i = 0; i < 2 * KILN_ARRAY_COUNT(rule_table); i++) {
        const rule_case *r = &rule_table[i / 2];
        model_parts parts = {.opset = 27,
                             .input = r->shared_rate
                                          ? "q:2,3,8 k:2,3,4 v:2,3,6 s:2,2,2,3 g:2,3,4 b:2,3,1"
                                          : "q:2,3,8 k:2,3,4 v:2,3,6 s:2,2,2,3 g:2,3,4 b:2,3,2",
                             .output = "y:2,3,12 p:2,2,2,3",
                             .node_count = 1,
                             .node = {linear_node(*state, r)}};
        const bool stays = i % 2 != 0;
        kiln_graph *graph = import_unrolling(*state, &parts, stays ? 1 : 8);
        kiln_tensor input[6], output[2];
        double wanted[BATCH * STEPS * QUERY_HEADS * VALUE], last[BATCH * HEADS * SIZE * VALUE];
        assert_int_equal(count_loops(graph), stays);
        fill(*state, graph, input);
        expect_ok(kiln_graph_eval(graph, input, *state, output));
        reference(r, input, 0.75, wanted, last);
        for (size_t e = 0; e < KILN_ARRAY_COUNT(wanted); e++)
            assert_true(fabs(at(&output[0], (int64_t)e) - wanted[e]) < 1e-5);
        for (size_t e = 0; e < KILN_ARRAY_COUNT(last); e++)
            assert_true(fabs(at(&output[1], (int64_t)e) - last[e]) < 1e-5);
    }
}

static void rules_name_what_they_miss(void **state) {
    message node = node_of(*state, "LinearAttention", "q k v", "y p");
    model_parts parts = {
        .opset = 27,
        .input = "q:2,3,8 k:2,3,4 v:2,3,6",
        .output = "y:1 p:1",
        .node_count = 1,
        .node = {with_attr_int(with_attr_int(node, "q_num_heads", 4), "kv_num_heads", 2)}};
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "its rule needs decay");
    parts.node[0] = with_attr_text(parts.node[0], "update_rule", "delta");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "its rule needs beta");
    parts.node[0] = with_attr_text(node, "update_rule", "linear");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "divides q_num_heads");
    parts.node[0] = with_attr_text(node, "update_rule", "other");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "update_rule: \"other\"");
}

/* ---- CausalConvWithState --------------------------------------------------------------------- */

static void convolutions_see_what_came_before(void **state) {
    model_parts parts = {.opset = 27,
                         .input = "x:1,1,4 w:1,1,3 p:1,1,2",
                         .output = "y:1,1,4 s:1,1,2",
                         .node_count = 1,
                         .node = {node_of(*state, "CausalConvWithState", "x w - p", "y s")}};
    kiln_tensor input[] = {tensor_from(*state, SHAPE(1, 1, 4), FLOATS(1, 2, 3, 4)),
                           tensor_from(*state, SHAPE(1, 1, 3), FLOATS(1, 10, 100)),
                           tensor_from(*state, SHAPE(1, 1, 2), FLOATS(8, 9))},
                output[2];
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, output));
    expect_tensor(&output[0], SHAPE(1, 1, 4), FLOATS(198, 219, 321, 432));
    expect_tensor(&output[1], SHAPE(1, 1, 2), FLOATS(3, 4));
    parts.input = "x:1,1,4 w:1,1,3";
    parts.node[0] = node_of(*state, "CausalConvWithState", "x w", "y s");
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, output));
    expect_tensor(&output[0], SHAPE(1, 1, 4), FLOATS(100, 210, 321, 432));
}

static void short_inputs_keep_a_part_of_the_state(void **state) {
    model_parts parts = {.opset = 27,
                         .input = "x:1,1,1 w:1,1,4 p:1,1,3",
                         .output = "y:1,1,1 s:1,1,3",
                         .node_count = 1,
                         .node = {node_of(*state, "CausalConvWithState", "x w - p", "y s")}};
    kiln_tensor input[] = {tensor_from(*state, SHAPE(1, 1, 1), FLOATS(5)),
                           tensor_from(*state, SHAPE(1, 1, 4), FLOATS(1, 10, 100, 1000)),
                           tensor_from(*state, SHAPE(1, 1, 3), FLOATS(2, 3, 4))},
                output[2];
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, output));
    expect_tensor(&output[0], SHAPE(1, 1, 1), FLOATS(5432));
    expect_tensor(&output[1], SHAPE(1, 1, 3), FLOATS(3, 4, 5));
    parts.input = "x:1,1,1 w:1,1,4";
    parts.node[0] = node_of(*state, "CausalConvWithState", "x w", "y s");
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, output));
    expect_tensor(&output[1], SHAPE(1, 1, 3), FLOATS(0, 0, 5));
}

static void states_and_activations_are_checked(void **state) {
    model_parts parts = {.opset = 27,
                         .input = "x:1,1,4 w:1,1,3 p:1,1,3",
                         .output = "y:1 s:1",
                         .node_count = 1,
                         .node = {node_of(*state, "CausalConvWithState", "x w - p", "y s")}};
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "past_state must be");
    parts.node[0] = with_attr_text(parts.node[0], "activation", "relu");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "activation: \"relu\"");
    parts.input = "x:1,4 w:1,1,3";
    parts.node[0] = node_of(*state, "CausalConvWithState", "x w", "y s");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "its input must be");
}

/* ---- TensorScatter --------------------------------------------------------------------------- */

static void updates_replace_a_part_of_the_cache(void **state) {
    message node = with_attr_int(node_of(*state, "TensorScatter", "p u i", "y"), "axis", 1);
    static const int64_t first[] = {1, 3};
    model_parts parts = {.opset = 24,
                         .input = "p:2,4 u:2,2",
                         .output = "y:1",
                         .node_count = 1,
                         .node = {with_attr_text(node, "mode", "circular")},
                         .initializer_count = 1,
                         .initializer = {i64s_of(*state, "i", first, 2)}};
    const kiln_tensor input[] = {tensor_from(*state, SHAPE(2, 4), FLOATS(1, 2, 3, 4, 5, 6, 7, 8)),
                                 tensor_from(*state, SHAPE(2, 2), FLOATS(10, 20, 30, 40))};
    kiln_tensor output;
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &output));
    expect_tensor(&output, SHAPE(2, 4), FLOATS(1, 10, 20, 4, 40, 6, 7, 30));
    parts.node[0] = node; /* what would be written behind the end is not */
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &output));
    expect_tensor(&output, SHAPE(2, 4), FLOATS(1, 10, 20, 4, 5, 6, 7, 30));
    parts.node[0] = with_attr_int(node_of(*state, "TensorScatter", "p u", "y"), "axis", 1);
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &output));
    expect_tensor(&output, SHAPE(2, 4), FLOATS(10, 20, 3, 4, 30, 40, 7, 8));
    parts.node[0] = with_attr_int(node_of(*state, "TensorScatter", "p u", "y"), "axis", 0);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "axis: 0 is out of range");
    parts.input = "p:2,4 u:2,5";
    parts.node[0] = with_attr_int(node_of(*state, "TensorScatter", "p u", "y"), "axis", 1);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "does not fit its cache");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(linear_attention_follows_each_rule),
        test_with_arena(rules_name_what_they_miss),
        test_with_arena(convolutions_see_what_came_before),
        test_with_arena(short_inputs_keep_a_part_of_the_state),
        test_with_arena(states_and_activations_are_checked),
        test_with_arena(updates_replace_a_part_of_the_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
