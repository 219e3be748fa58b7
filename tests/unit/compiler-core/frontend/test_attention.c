/* Attention against plain loops, and what makes rotary embeddings rotations. */
#include <math.h>
#include <string.h>

#include "base/rand.h"
#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

enum { HEADS = 4, KEY_HEADS = 2, QUERIES = 2, KEYS = 3, PAST = 1, ALL = PAST + KEYS, SIZE = 2 };

static void fill(kiln_arena *arena, const kiln_graph *graph, kiln_tensor *input) {
    kiln_rand rand;
    kiln_rand_init(&rand, 3);
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

/* Key or value number j of a key head: the past comes first. */
static double stored(const kiln_tensor *past, const kiln_tensor *now, int64_t head, int64_t j,
                     int64_t e) {
    return j < PAST ? at(past, (head * PAST + j) * SIZE + e)
                    : at(now, (head * KEYS + j - PAST) * SIZE + e);
}

static void reference(const kiln_tensor *in, double cap, double *y) {
    for (int64_t h = 0; h < HEADS; h++) {
        for (int64_t i = 0; i < QUERIES; i++) {
            double weight[ALL], sum = 0;
            int64_t own = h / (HEADS / KEY_HEADS);
            for (int64_t j = 0; j < ALL; j++) {
                double score = 0;
                for (int64_t e = 0; e < SIZE; e++)
                    score += at(&in[0], (h * QUERIES + i) * SIZE + e) *
                             stored(&in[4], &in[1], own, j, e);
                score = cap * tanh(score / sqrt(SIZE) / cap) + at(&in[3], i * ALL + j);
                weight[j] = j > i + PAST ? 0 : exp(score);
                sum += weight[j];
            }
            for (int64_t e = 0; e < SIZE; e++) {
                double value = 0;
                for (int64_t j = 0; j < ALL; j++)
                    value += weight[j] / sum * stored(&in[5], &in[2], own, j, e);
                y[(h * QUERIES + i) * SIZE + e] = value;
            }
        }
    }
}

static void attention_follows_its_formula(void **state) {
    message node = node_of(*state, "Attention", "q k v m pk pv", "y yk yv");
    node = with_attr_float(with_attr_int(node, "is_causal", 1), "softcap", 0.75f);
    model_parts parts = {.opset = 23,
                         .input = "q:1,4,2,2 k:1,2,3,2 v:1,2,3,2 m:2,4 pk:1,2,1,2 pv:1,2,1,2",
                         .output = "y:1 yk:1 yv:1",
                         .node_count = 1,
                         .node = {node}};
    kiln_graph *graph = import_of(*state, &parts);
    kiln_tensor input[6], output[3];
    double wanted[HEADS * QUERIES * SIZE];
    fill(*state, graph, input);
    expect_ok(kiln_graph_eval(graph, input, *state, output));
    reference(input, 0.75, wanted);
    for (int64_t i = 0; i < HEADS * QUERIES * SIZE; i++)
        assert_true(fabs(at(&output[0], i) - wanted[i]) < 1e-5);
    assert_int_equal(output[1].shape.dim[2], ALL);
    for (int64_t j = 0; j < ALL; j++)
        assert_float_equal(at(&output[1], j * SIZE), stored(&input[4], &input[1], 0, j, 0), 0);
}

static void shared_key_heads_are_not_copied(void **state) {
    model_parts parts = {.opset = 23,
                         .input = "q:1,4,2,2 k:1,2,3,2 v:1,2,3,2",
                         .output = "y:1",
                         .node_count = 1,
                         .node = {node_of(*state, "Attention", "q k v", "y")}};
    const char *text = text_of_import(*state, &parts);
    assert_null(strstr(text, "expand("));
    expect_contains(text, "f32[1,2,4,2] = reshape(");
}

static void heads_may_be_one_dimension_with_their_sizes(void **state) {
    message node = with_attr_int(node_of(*state, "Attention", "q k v", "y"), "q_num_heads", 2);
    model_parts parts = {.opset = 23,
                         .input = "q:1,2,4 k:1,3,4 v:1,3,6",
                         .output = "y:1",
                         .node_count = 1,
                         .node = {with_attr_int(node, "kv_num_heads", 2)}};
    kiln_graph *graph = import_of(*state, &parts);
    const kiln_shape *shape = &graph->value.data[graph->output.data[0]].shape;
    assert_true(kiln_shape_equal(shape, SHAPE(1, 2, 6)));
    parts.node[0] = with_attr_int(node, "kv_num_heads", 3);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "does not divide 4");
    parts.node[0] = node_of(*state, "Attention", "q k v - q", "y");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "belong together");
}

static message graph_of_one(kiln_arena *arena, message node, const char *from, const char *to) {
    const message in = with_text(message_of(arena), 1, from),
                  out = with_text(message_of(arena), 1, to);
    return with_message(with_message(with_message(message_of(arena), 1, node), 11, in), 12, out);
}

/* Scores of 0, or of what a graph makes of them, weigh the values; weights may be changed, too. */
static void flexible_attention_takes_graphs(void **state) {
    const message plain =
        with_text(node_of(*state, "FlexAttention", "q k v", "y"), 7, "ai.onnx.preview");
    const message cumulated = with_attr_int(node_of(*state, "CumSum", "s a", "t"), "reverse", 1);
    const message negated = node_of(*state, "Neg", "w", "n");
    static const int64_t last[] = {3};
    model_parts parts = {.opset = 26,
                         .input = "q:1,1,1,2 k:1,1,2,2 v:1,1,2,1",
                         .output = "y:1",
                         .node_count = 1,
                         .initializer_count = 1,
                         .node = {plain},
                         .initializer = {i64s_of(*state, "a", last, 1)}};
    kiln_tensor input[] = {tensor_from(*state, SHAPE(1, 1, 1, 2), FLOATS(1, 0)),
                           tensor_from(*state, SHAPE(1, 1, 2, 2), FLOATS(1, 5, 1, -5)),
                           tensor_from(*state, SHAPE(1, 1, 2, 1), FLOATS(2, 6))},
                output;
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &output));
    assert_true(fabs(at(&output, 0) - 4) < 1e-6);
    parts.node[0] = with_attr_graph(with_attr_float(plain, "scale", 0.5f), "score_mod",
                                    graph_of_one(*state, cumulated, "s", "t"));
    parts.node[0] =
        with_attr_graph(parts.node[0], "prob_mod", graph_of_one(*state, negated, "w", "n"));
    expect_ok(kiln_graph_eval(import_of(*state, &parts), input, *state, &output));
    const double first = exp(1.0) / (exp(1.0) + exp(0.5)); /* scores are 1 and 0.5 */
    assert_true(fabs(at(&output, 0) + first * 2 + (1 - first) * 6) < 1e-5);
    const message summed = with_attr_int(node_of(*state, "ReduceSum", "s", "t"), "keepdims", 0);
    parts.node[0] = with_attr_graph(plain, "score_mod", graph_of_one(*state, summed, "s", "t"));
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "score_mod changes the type");
}

/* Angles of 0 change nothing; a quarter turn makes (a, b) into (-b, a). */
static void rotary_embeddings_turn_pairs(void **state) {
    const char *inputs = "x:1,1,1,4 c:1,1,2 s:1,1,2";
    model_parts parts = {.opset = 23,
                         .input = inputs,
                         .output = "y:1",
                         .node_count = 1,
                         .node = {node_of(*state, "RotaryEmbedding", "x c s", "y")}};
    static const float cosine[] = {0, 1}, sine[] = {1, 0};
    static const float halves[] = {-3, 2, 1, 4}, neighbours[] = {-2, 1, 3, 4};
    for (uint32_t way = 0; way < 2; way++) {
        if (way) parts.node[0] = with_attr_int(parts.node[0], "interleaved", 1);
        kiln_graph *graph = import_of(*state, &parts);
        kiln_tensor input[] = {tensor_from(*state, SHAPE(1, 1, 1, 4), FLOATS(1, 2, 3, 4)),
                               tensor_from(*state, SHAPE(1, 1, 2), cosine),
                               tensor_from(*state, SHAPE(1, 1, 2), sine)};
        kiln_tensor output;
        expect_ok(kiln_graph_eval(graph, input, *state, &output));
        expect_tensor(&output, SHAPE(1, 1, 1, 4), way ? neighbours : halves);
    }
    parts.node[0] = with_attr_int(parts.node[0], "rotary_embedding_dim", 3);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "rotary_embedding_dim: 3");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(attention_follows_its_formula),
        test_with_arena(shared_key_heads_are_not_copied),
        test_with_arena(heads_may_be_one_dimension_with_their_sizes),
        test_with_arena(flexible_attention_takes_graphs),
        test_with_arena(rotary_embeddings_turn_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
