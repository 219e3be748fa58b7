/* Models in floats become models that compute on bytes. */
#include "compiler-core/frontend/quantize.h"

#include <math.h>
#include <string.h>

#include <stdlib.h>

#include "base/macros.h"
#include "base/rand.h"
#include "compiler-core/graph/graph_codec.h"
#include "compiler-core/passes/pass.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/frontend/tflite_support.h"

static message random_tensor(kiln_arena *arena, const char *name, kiln_shape shape, uint64_t seed,
                             kiln_fill fill) {
    kiln_tensor tensor = kiln_tensor_create(arena, KILN_F32, &shape);
    kiln_fill_data(tensor.data, KILN_F32, (size_t)kiln_shape_count(&shape), seed, fill);
    return tensor_message(arena, name, &tensor);
}

/* Convolution, batch normalisation (whose shift is its mean), rectifier, pooling, a residual sum,
 * and a product. */
static model_parts small_net(kiln_arena *a) {
    static const int64_t two[] = {2, 2}, one[] = {1, 1, 1, 1};
    const kiln_shape channels = {1, {3}};
    return (model_parts){
        .opset = 13,
        .input = "x:1,2,4,4",
        .output = "y:1,2",
        .node_count = 10,
        .node = {with_attr_ints(node_of(a, "Conv", "x w1", "c1"), "pads", one, 4),
                 node_of(a, "BatchNormalization", "c1 bs bm bm bv", "n1"),
                 node_of(a, "Relu", "n1", "r1"),
                 with_attr_ints(
                     with_attr_ints(node_of(a, "MaxPool", "r1", "m"), "kernel_shape", two, 2),
                     "strides", two, 2),
                 node_of(a, "Conv", "m w2 b2", "c2"), node_of(a, "Add", "c2 m", "s"),
                 node_of(a, "Relu", "s", "r2"), node_of(a, "GlobalAveragePool", "r2", "g"),
                 node_of(a, "Flatten", "g", "f"), node_of(a, "Gemm", "f w3 b3", "y")},
        .initializer_count = 8,
        .initializer = {random_tensor(a, "w1", (kiln_shape){4, {3, 2, 3, 3}}, 1, KILN_FILL_UNIFORM),
                        random_tensor(a, "bs", channels, 2, KILN_FILL_POSITIVE),
                        random_tensor(a, "bm", channels, 4, KILN_FILL_UNIFORM),
                        random_tensor(a, "bv", channels, 5, KILN_FILL_POSITIVE),
                        random_tensor(a, "w2", (kiln_shape){4, {3, 3, 1, 1}}, 6, KILN_FILL_UNIFORM),
                        random_tensor(a, "b2", channels, 7, KILN_FILL_UNIFORM),
                        random_tensor(a, "w3", (kiln_shape){2, {3, 2}}, 8, KILN_FILL_UNIFORM),
                        random_tensor(a, "b3", (kiln_shape){1, {2}}, 9, KILN_FILL_UNIFORM)}};
}

#define BITS .weight_bits = 8, .activation_bits = 8
static const kiln_quantize_options per_tensor = {BITS}, per_channel = {.per_channel = true, BITS};

static kiln_status read_model(kiln_arena *arena, const model_parts *parts,
                              const kiln_quantize_options *options, kiln_quantize_plan *out) {
    char *folder = make_folder(arena);
    const char *path = kiln_arena_printf(arena, "%s/m.onnx", folder);
    expect_ok(kiln_file_write(path, model_of(arena, parts), 0600));
    kiln_status st = kiln_quantize_read(path, options, arena, out);
    remove_folder(folder);
    return st;
}

static kiln_graph *decode(kiln_arena *arena, kiln_str bytes) {
    kiln_graph *graph = NULL;
    expect_ok(kiln_graph_decode(bytes, arena, &graph));
    return graph;
}

static kiln_tensor *run(kiln_arena *arena, const kiln_graph *graph, uint64_t seed) {
    kiln_tensor *output = KILN_ARENA_ARRAY(arena, kiln_tensor, graph->output.count);
    const kiln_value_info *x = &graph->value.data[graph->input.data[0]];
    kiln_tensor input = kiln_tensor_create(arena, x->dtype, &x->shape);
    kiln_fill_data(input.data, x->dtype, (size_t)kiln_shape_count(&x->shape), seed,
                   KILN_FILL_UNIFORM);
    expect_ok(kiln_graph_eval(graph, &input, arena, output));
    return output;
}

static const float *output_named(const kiln_graph *graph, const kiln_tensor *output, kiln_str name,
                                 size_t *count) {
    for (uint32_t i = 0; i < graph->output.count; i++) {
        if (!kiln_str_equal(graph->value.data[graph->output.data[i]].name, name)) continue;
        *count = (size_t)kiln_shape_count(&output[i].shape);
        return output[i].data;
    }
    fail_msg("no output is called %.*s", KILN_STR_ARG(name));
    return NULL;
}

/* Quantisations from the ranges of one run. */
static kiln_quantization *ranges_of(kiln_arena *arena, const kiln_quantize_plan *plan,
                                    uint64_t seed, bool shift) {
    const kiln_graph *graph = decode(arena, plan->graph);
    const kiln_tensor *output = run(arena, graph, seed);
    kiln_quantization *group = KILN_ARENA_ARRAY(arena, kiln_quantization, plan->group_count);
    kiln_histogram *seen = KILN_ARENA_ARRAY(arena, kiln_histogram, plan->group_count);
    for (uint32_t i = 0; i < plan->observed_count; i++) {
        size_t count = 0;
        const float *data = output_named(graph, output, plan->observed[i].name, &count);
        if (plan->observed[i].quantised)
            assert_true(kiln_histogram_add(&seen[plan->observed[i].group], data, count));
        if (plan->observed[i].few_group != KILN_GROUP_NONE)
            assert_true(kiln_histogram_add(&seen[plan->observed[i].few_group], data, count));
    }
    for (uint32_t g = 0; g < plan->group_count; g++)
        group[g] = kiln_quantize_activation(&seen[g], KILN_QUANTIZE_MINMAX,
                                            (kiln_quantize_form){plan->group_bits[g], shift});
    return group;
}

static kiln_quantised_model write_model(kiln_arena *arena, const kiln_quantize_plan *plan,
                                        const kiln_quantization *group, const double *const *mean,
                                        const uint32_t *mean_count,
                                        const kiln_quantize_options *options) {
    kiln_quantised_model made;
    const kiln_quantize_found found = {
        group, mean ? mean : KILN_ARENA_ARRAY(arena, const double *, plan->observed_count),
        mean_count ? mean_count : KILN_ARENA_ARRAY(arena, uint32_t, plan->observed_count)};
    expect_ok(kiln_quantize_write("m.onnx", plan, &found, options, arena, &made));
    return made;
}

static uint32_t count_ops(const kiln_graph *graph, kiln_op op) {
    uint32_t count = 0;
    for (kiln_node n = 1; n < graph->node.count; n++) count += graph->node.data[n].op == op;
    return count;
}

static void end(kiln_quantize_plan *plan, kiln_quantised_model *made) {
    kiln_file_unmap(&plan->bytes);
    if (made) kiln_file_unmap(&made->bytes);
}

/* ---- what is found in a model ---------------------------------------------------------------- */

static void norms_are_folded_into_convolutions(void **state) {
    const model_parts parts = small_net(*state);
    kiln_quantize_plan plan;
    expect_ok(read_model(*state, &parts, &per_tensor, &plan));
    kiln_graph *folded = decode(*state, plan.graph), *plain = import_of(*state, &parts);
    assert_int_equal(count_ops(plain, KILN_OP_BATCH_NORM), 1);
    assert_int_equal(count_ops(folded, KILN_OP_BATCH_NORM), 0);
    const float *expected = run(*state, plain, 3)->data, *actual = run(*state, folded, 3)->data;
    for (int i = 0; i < 2; i++)
        assert_true(fabsf(actual[i] - expected[i]) < 1e-5f * fmaxf(1, fabsf(expected[i])));
    end(&plan, NULL);
}

static char *plan_text(kiln_arena *arena, const kiln_quantize_plan *plan) {
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < plan->observed_count; i++) {
        const kiln_observed *o = &plan->observed[i];
        kiln_strbuf_printf(&text, "%.*s", KILN_STR_ARG(o->name));
        if (o->quantised) kiln_strbuf_printf(&text, ":%u", o->group);
        kiln_strbuf_printf(&text, "%s ", o->mean_axis ? "*" : "");
    }
    for (uint32_t i = 0; i < plan->layer_count; i++)
        kiln_strbuf_printf(&text, "%.*s>%.*s ", KILN_STR_ARG(plan->layer[i].op),
                           KILN_STR_ARG(plan->observed[plan->layer[i].result].name));
    return kiln_str_dup(arena, kiln_strbuf_end(&text, arena));
}

static void expect_plan(kiln_arena *arena, const model_parts *parts, const char *text) {
    kiln_quantize_plan plan;
    expect_ok(read_model(arena, parts, &per_tensor, &plan));
    assert_string_equal(plan_text(arena, &plan), text);
    end(&plan, NULL);
}

/* Values of a pooling and of a reshape share groups; rectifiers are inside of layers; the result of
 * the model stays one of floats. Stars: means are wanted. */
static void layers_and_values_are_found(void **state) {
    const model_parts parts = small_net(*state);
    expect_plan(*state, &parts,
                "x:0* r1:1 m:1* c2:2 r2:3 g:4 f:4* y "
                "Conv>r1 Conv>c2 Add>r2 GlobalAveragePool>g Gemm>y ");
}

/* Between operators of floats nothing is quantised, and what only they read is not either. */
static void what_stays_in_floats_is_left_alone(void **state) {
    const model_parts parts = {
        .opset = 13,
        .input = "x:2,4 z:2,3",
        .output = "y:2,3",
        .node_count = 6,
        .initializer_count = 2,
        .node = {node_of(*state, "Softmax", "x", "e"), node_of(*state, "MatMul", "e w", "p"),
                 node_of(*state, "Add", "p b", "a"), node_of(*state, "Add", "a z", "s"),
                 node_of(*state, "Reshape", "s shape", "r"), node_of(*state, "Softmax", "r", "y")},
        .initializer = {random_tensor(*state, "w", (kiln_shape){2, {4, 3}}, 1, KILN_FILL_UNIFORM),
                        random_tensor(*state, "b", (kiln_shape){1, {3}}, 2, KILN_FILL_UNIFORM)}};
    model_parts shaped = parts;
    static const int64_t shape[] = {2, 3};
    shaped.initializer[shaped.initializer_count++] = i64s_of(*state, "shape", shape, 2);
    expect_plan(*state, &shaped, "e:0 a MatMul>a ");
}

static void joined_values_have_one_scale(void **state) {
    const kiln_shape one_by_one = {4, {2, 2, 1, 1}}, wide = {4, {2, 4, 1, 1}};
    const model_parts parts = {
        .opset = 13,
        .input = "x:1,2,2,2",
        .output = "y:1,2,2,2",
        .node_count = 4,
        .initializer_count = 2,
        .node = {node_of(*state, "Conv", "x w", "a"), node_of(*state, "Sigmoid", "a", "s"),
                 with_attr_int(node_of(*state, "Concat", "a s", "j"), "axis", 1),
                 node_of(*state, "Conv", "j v", "y")},
        .initializer = {random_tensor(*state, "w", one_by_one, 1, KILN_FILL_UNIFORM),
                        random_tensor(*state, "v", wide, 2, KILN_FILL_UNIFORM)}};
    expect_plan(*state, &parts, "x:0 a:1 s:1 j:1 y Conv>a Conv>y ");
}

/* ---- what is written ------------------------------------------------------------------------- */

static void check_written(kiln_arena *arena, const kiln_quantize_options *options) {
    const model_parts parts = small_net(arena);
    kiln_quantize_plan plan;
    expect_ok(read_model(arena, &parts, options, &plan));
    const kiln_quantization *group = ranges_of(arena, &plan, 3, options->shift);
    kiln_quantised_model made = write_model(arena, &plan, group, NULL, NULL, options);
    const kiln_graph *plain = decode(arena, plan.graph), *bytes = decode(arena, made.graph);
    assert_int_equal(count_ops(bytes, KILN_OP_CONV_INTEGER), 2);
    assert_int_equal(count_ops(bytes, KILN_OP_MATMUL_INTEGER), 1);
    /* Cutting to bytes rectifies, unless 0 is in their middle. */
    assert_int_equal(count_ops(bytes, KILN_OP_RELU), options->shift ? 2 : 0);
    const kiln_tensor *expected = run(arena, plain, 3), *actual = run(arena, bytes, 3);
    for (uint32_t i = 0; i < plan.observed_count; i++) {
        kiln_quantize_error e = {0};
        size_t count = 0, same = 0;
        const float *floats = output_named(plain, expected, plan.observed[i].name, &count),
                    *made_of = output_named(bytes, actual, made.observed[i].name, &same);
        assert_int_equal(count, same);
        kiln_quantize_error_add(&e, floats, made_of, count);
        if (!(kiln_quantize_error_relative(&e) < (options->shift ? 0.1 : 0.05)))
            fail_msg("%.*s differs by %g", KILN_STR_ARG(plan.observed[i].name),
                     kiln_quantize_error_relative(&e));
    }
    end(&plan, &made);
}

static void written_models_compute_nearly_the_same(void **state) {
    const kiln_quantize_options shift = {.shift = true, BITS},
                                both = {.per_channel = true, .shift = true, BITS};
    check_written(*state, &per_tensor);
    check_written(*state, &per_channel);
    check_written(*state, &shift);
    check_written(*state, &both);
}

/* Between its first and its last quantisation such a model has integers alone: it computes the same
 * bits with shifts as with floats. A residual sum adds bytes to what was summed up. */
static void powers_of_two_become_shifts(void **state) {
    const kiln_quantize_options shift = {.shift = true, BITS};
    const model_parts parts = small_net(*state);
    kiln_quantize_plan plan;
    kiln_graph *file = NULL;
    expect_ok(read_model(*state, &parts, &shift, &plan));
    assert_string_equal(plan_text(*state, &plan),
                        "x:0* r1:1 m:1* r2:2 g:3 f:3* c2 y Conv>r1 Conv>c2 Add>r2 "
                        "GlobalAveragePool>g Gemm>y ");
    kiln_quantised_model made =
        write_model(*state, &plan, ranges_of(*state, &plan, 3, true), NULL, NULL, &shift);
    expect_ok(kiln_import_bytes(made.model, NULL, NULL, *state, &file));
    const kiln_tensor *floats = run(*state, file, 5);
    assert_int_equal(count_ops(file, KILN_OP_QUANTIZE_LINEAR), 6); /* x, r1, m, r2, g and f */
    expect_ok(kiln_passes_run(file, KILN_STR("")));
    assert_int_equal(count_ops(file, KILN_OP_QUANTIZE_LINEAR), 2); /* x, and an average */
    assert_int_equal(count_ops(file, KILN_OP_BIT_SHIFT), 3); /* a layer, a residual, its sum */
    assert_int_equal(count_ops(file, KILN_OP_RELU), 0);
    assert_memory_equal(run(*state, file, 5)->data, floats->data, kiln_tensor_bytes(floats));
    end(&plan, &made);
}

/* The file itself, read as any other, computes what its graph does; its names are the model's. */
static void written_files_are_what_was_checked(void **state) {
    const model_parts parts = small_net(*state);
    kiln_quantize_plan plan;
    kiln_graph *file = NULL;
    expect_ok(read_model(*state, &parts, &per_channel, &plan));
    kiln_quantised_model made =
        write_model(*state, &plan, ranges_of(*state, &plan, 3, false), NULL, NULL, &per_channel);
    expect_ok(kiln_import_bytes(made.model, NULL, NULL, *state, &file));
    assert_int_equal(file->output.count, 1);
    expect_str(file->value.data[file->output.data[0]].name, "y");
    assert_memory_equal(run(*state, file, 5)->data,
                        run(*state, decode(*state, made.graph), 5)->data, 2 * sizeof(float));
    for (kiln_value v = 1; v < file->value.count; v++) { /* no weights of floats are left */
        const kiln_value_info *value = &file->value.data[v];
        if (value->data && value->dtype == KILN_F32)
            assert_true(kiln_shape_count(&value->shape) <= 3);
    }
    end(&plan, &made);
}

/* Signed or not, bytes stand for the same numbers. */
static void bytes_of_both_kinds_compute_the_same(void **state) {
    const model_parts parts = small_net(*state);
    const kiln_quantize_options both[] = {{.per_channel = true, BITS},
                                          {.per_channel = true, .is_unsigned = true, BITS}};
    const kiln_tensor *output[2];
    kiln_quantize_plan plan;
    kiln_quantised_model made[2];
    const kiln_graph *graph[2];
    expect_ok(read_model(*state, &parts, &per_channel, &plan));
    const kiln_quantization *group = ranges_of(*state, &plan, 3, false);
    for (int i = 0; i < 2; i++) {
        made[i] = write_model(*state, &plan, group, NULL, NULL, &both[i]);
        graph[i] = decode(*state, made[i].graph);
        output[i] = run(*state, graph[i], 4);
        bool found = false;
        for (kiln_value v = 1; v < graph[i]->value.count; v++)
            found = found || (graph[i]->value.data[v].dtype == KILN_U8);
        assert_int_equal(found, i);
    }
    for (uint32_t k = 0; k < graph[0]->output.count; k++)
        assert_memory_equal(output[0][k].data, output[1][k].data, kiln_tensor_bytes(&output[0][k]));
    kiln_file_unmap(&made[1].bytes);
    end(&plan, &made[0]);
}

/* y = 1 x0 + 0.004 x1, where 0.004 becomes 0.00787 beside 1: with x1 = 100 on average, y would be
 * 0.39 too large. */
static void biases_take_up_what_rounding_weights_shifts(void **state) {
    static const float weights[] = {1, 0.004f}, bias[] = {0.5f};
    const kiln_shape shape = {4, {1, 2, 1, 1}};
    const kiln_tensor w = {KILN_F32, shape, (void *)(uintptr_t)weights};
    const model_parts parts = {
        .opset = 13,
        .input = "x:1,2,1,1",
        .output = "y:1,1,1,1",
        .node_count = 1,
        .initializer_count = 2,
        .node = {node_of(*state, "Conv", "x w b", "y")},
        .initializer = {tensor_message(*state, "w", &w), floats_of(*state, "b", bias, 1)}};
    const kiln_quantization group[] = {{1, 0, 8}};
    const double means[] = {10, 100}, *mean[] = {means, NULL}, *none[] = {NULL, NULL};
    const uint32_t mean_count[] = {2, 0};
    float point[] = {10, 100};
    const kiln_tensor input = {KILN_F32, {4, {1, 2, 1, 1}}, point};
    for (int corrected = 0; corrected < 2; corrected++) {
        kiln_quantize_plan plan;
        expect_ok(read_model(*state, &parts, &per_tensor, &plan));
        kiln_quantised_model made =
            write_model(*state, &plan, group, corrected ? mean : none, mean_count, &per_tensor);
        const kiln_graph *graph = decode(*state, made.graph);
        kiln_tensor *output = KILN_ARENA_ARRAY(*state, kiln_tensor, graph->output.count);
        expect_ok(kiln_graph_eval(graph, &input, *state, output));
        const float y = *(const float *)output[0].data;
        assert_true(fabsf(y - (corrected ? 10.9f : 11.287f)) < 0.01f);
        end(&plan, &made);
    }
}

/* ---- few bits -------------------------------------------------------------------------------- */

static const kiln_quantize_options w1a2 = {
    .is_unsigned = true, .weight_bits = 1, .activation_bits = 2};

static char *bits_text(kiln_arena *arena, const kiln_quantize_plan *plan) {
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < plan->layer_count; i++)
        kiln_strbuf_printf(&text, "%.*s:w%ua%u ", KILN_STR_ARG(plan->layer[i].name),
                           plan->layer[i].weight_bits, plan->layer[i].activation_bits);
    for (uint32_t i = 0; i < plan->observed_count; i++) {
        const kiln_observed *o = &plan->observed[i];
        if (!o->quantised) continue;
        kiln_strbuf_printf(&text, "%.*s:%u", KILN_STR_ARG(o->name), plan->group_bits[o->group]);
        if (o->few_group != KILN_GROUP_NONE)
            kiln_strbuf_printf(&text, "/%u", plan->group_bits[o->few_group]);
        kiln_strbuf_text(&text, " ");
    }
    return kiln_str_dup(arena, kiln_strbuf_end(&text, arena));
}

/* The first and the last layer keep 8 bits, and so does what a residual sum reads; m is read both
 * ways. */
static void few_bits_are_those_of_layers_between_the_first_and_the_last(void **state) {
    const model_parts parts = small_net(*state);
    const kiln_quantize_options all = {.weight_bits = 2, .activation_bits = 1, .all_layers = true};
    kiln_quantize_plan plan;
    expect_ok(read_model(*state, &parts, &w1a2, &plan));
    assert_string_equal(bits_text(*state, &plan),
                        "n1:w8a8 c2:w1a2 s:w0a8 g:w0a8 y:w8a8 x:8 r1:8 m:8/2 c2:8 r2:8 g:8 f:8 ");
    end(&plan, NULL);
    expect_ok(read_model(*state, &parts, &all, &plan));
    assert_string_equal(bits_text(*state, &plan),
                        "n1:w2a1 c2:w2a1 s:w0a8 g:w0a8 y:w2a1 x:1 r1:8 m:8/1 c2:8 r2:8 g:1 f:1 ");
    end(&plan, NULL);
}

static uint32_t count_of_bits(const kiln_graph *graph, int64_t bits) {
    uint32_t count = 0;
    for (kiln_node n = 1; n < graph->node.count; n++) {
        if (graph->node.data[n].op != KILN_OP_QUANTIZE_LINEAR) continue;
        const kiln_attr *own = kiln_node_attr(&graph->node.data[n], "bits");
        count += (own ? own->i : 0) == bits;
    }
    return count;
}

static void models_of_few_bits_are_of_standard_types(void **state) {
    const model_parts parts = small_net(*state);
    kiln_quantize_plan plan;
    kiln_graph *file = NULL;
    expect_ok(read_model(*state, &parts, &w1a2, &plan));
    kiln_quantised_model made =
        write_model(*state, &plan, ranges_of(*state, &plan, 3, false), NULL, NULL, &w1a2);
    expect_ok(kiln_import_bytes(made.model, NULL, NULL, *state, &file));
    assert_int_equal(count_of_bits(file, 2), 1);
    uint32_t binary = 0;
    for (kiln_value v = 1; v < file->value.count; v++) { /* w2 is 3x3 */
        const kiln_value_info *value = &file->value.data[v];
        if (!value->data || value->dtype != KILN_I8 || kiln_shape_count(&value->shape) != 9)
            continue;
        for (int i = 0; i < 9; i++) binary += abs(((const int8_t *)value->data)[i]) == 1;
    }
    assert_int_equal(binary, 9);
    const float *result = run(*state, file, 5)->data;
    assert_true(isfinite(result[0]));
    assert_memory_equal(result, run(*state, decode(*state, made.graph), 5)->data,
                        2 * sizeof(float));
    end(&plan, &made);
}

/* Numbers of one bit are UINT2 behind a clip, and become one bit again when they are simplified. */
static void activations_of_one_bit_are_cut_before_they_are_quantised(void **state) {
    const model_parts parts = small_net(*state);
    const kiln_quantize_options w1a1 = {
        .is_unsigned = true, .weight_bits = 1, .activation_bits = 1};
    kiln_quantize_plan plan;
    kiln_graph *file = NULL;
    expect_ok(read_model(*state, &parts, &w1a1, &plan));
    kiln_quantised_model made =
        write_model(*state, &plan, ranges_of(*state, &plan, 3, false), NULL, NULL, &w1a1);
    expect_ok(kiln_import_bytes(made.model, NULL, NULL, *state, &file));
    assert_int_equal(count_of_bits(file, 2), 1);
    const float before = *(const float *)run(*state, file, 5)->data;
    expect_ok(kiln_passes_run(file, KILN_STR("")));
    assert_int_equal(count_of_bits(file, 1), 1);
    assert_int_equal(count_of_bits(file, 2), 0);
    assert_true(fabsf(*(const float *)run(*state, file, 5)->data - before) <
                1e-5f * fmaxf(1, fabsf(before)));
    end(&plan, &made);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void expect_refused(kiln_arena *arena, const model_parts *parts,
                           const kiln_quantize_options *options, kiln_code code,
                           const char *needle) {
    kiln_quantize_plan plan;
    kiln_status st = read_model(arena, parts, options, &plan);
    assert_non_null(st);
    expect_contains(kiln_status_text(st), needle);
    expect_contains(kiln_status_text(st), "m.onnx");
    assert_int_equal(kiln_status_code(st), code);
    kiln_status_free(st);
}

static void what_cannot_be_quantised_is_refused(void **state) {
    model_parts parts = small_net(*state);
    parts.opset = 6;
    expect_refused(*state, &parts, &per_tensor, KILN_UNIMPLEMENTED, "operator set is 6, 10 is");
    expect_refused(*state, &parts, &per_channel, KILN_UNIMPLEMENTED, "operator set is 6, 13 is");
    const model_parts nothing = {.opset = 13,
                                 .input = "x:2",
                                 .output = "y:2",
                                 .node_count = 1,
                                 .node = {node_of(*state, "Relu", "x", "y")}};
    expect_refused(*state, &nothing, &per_tensor, KILN_FAILED_PRECONDITION, "nothing to quantise");
    static const float scale[] = {1};
    model_parts twice = nothing;
    twice.node[0] = node_of(*state, "QuantizeLinear", "x s", "y");
    twice.initializer[twice.initializer_count++] = floats_of(*state, "s", scale, 1);
    expect_refused(*state, &twice, &per_tensor, KILN_FAILED_PRECONDITION,
                   "quantised already: node 0 is a QuantizeLinear");
    parts = small_net(*state);
    parts.node[2] = node_of(*state, "Unheard", "n1", "r1");
    expect_refused(*state, &parts, &per_tensor, KILN_UNIMPLEMENTED, "Unheard");
}

static kiln_status read_bytes(kiln_arena *arena, kiln_str bytes, kiln_quantize_plan *out) {
    char *folder = make_folder(arena);
    const char *path = kiln_arena_printf(arena, "%s/m.tflite", folder);
    expect_ok(kiln_file_write(path, bytes, 0600));
    kiln_status st = kiln_quantize_read(path, &per_channel, arena, out);
    remove_folder(folder);
    return st;
}

/* y = w x + b by TFLite's FULLY_CONNECTED; quantised: its data are bytes already. */
static kiln_str tflite_product(kiln_arena *arena, bool quantised) {
    static const float w[] = {1, -2, 3, 0.5f, 0, 1}, b[] = {1, 2}, scale = 0.1f;
    static const int8_t w8[6] = {1, 2, 3, 4, 5, 6};
    static const int64_t zero = 0;
    const int type = quantised ? T_I8 : T_F32;
    tflite_model m = tflite_model_of(arena);
    flat_table *tensor[3];
    tensor[0] = tflite_tensor(&m, type, "x:1,3", NULL, 0);
    tensor[1] = tflite_tensor(&m, type, "w:2,3", quantised ? (const void *)w8 : w,
                              quantised ? sizeof w8 : sizeof w);
    tensor[2] = tflite_tensor(&m, type, "y:1,2", NULL, 0);
    tflite_tensor(&m, T_F32, "b:2", b, sizeof b);
    for (int i = 0; quantised && i < 3; i++) tflite_quantise(tensor[i], &scale, &zero, 1, 0);
    tflite_operator(&m, 9, quantised ? "0,1,-1" : "0,1,3", "2", NULL);
    return tflite_bytes(&m, "0", "2");
}

static void models_of_tflite_are_quantised_as_onnx(void **state) {
    kiln_quantize_plan plan = {0};
    expect_ok(read_bytes(*state, tflite_product(*state, false), &plan));
    assert_int_equal(plan.layer_count, 1);
    assert_true(kiln_str_is(plan.layer[0].op, "Gemm"));
    assert_string_equal(kiln_import_kind(plan.model), "onnx");
    kiln_file_unmap(&plan.bytes);
    kiln_status st = read_bytes(*state, tflite_product(*state, true), &plan);
    assert_int_equal(kiln_status_code(st), KILN_FAILED_PRECONDITION);
    kiln_status_free(st);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(models_of_tflite_are_quantised_as_onnx),
        test_with_arena(norms_are_folded_into_convolutions),
        test_with_arena(layers_and_values_are_found),
        test_with_arena(what_stays_in_floats_is_left_alone),
        test_with_arena(joined_values_have_one_scale),
        test_with_arena(written_models_compute_nearly_the_same),
        test_with_arena(powers_of_two_become_shifts),
        test_with_arena(written_files_are_what_was_checked),
        test_with_arena(bytes_of_both_kinds_compute_the_same),
        test_with_arena(biases_take_up_what_rounding_weights_shifts),
        test_with_arena(few_bits_are_those_of_layers_between_the_first_and_the_last),
        test_with_arena(models_of_few_bits_are_of_standard_types),
        test_with_arena(activations_of_one_bit_are_cut_before_they_are_quantised),
        test_with_arena(what_cannot_be_quantised_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
