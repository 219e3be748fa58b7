#include "compiler-core/frontend/zoo/zoo.h"

#include <string.h>

#include "compiler-core/passes/pass.h"
#include "compiler-core/task/task.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

static kiln_str build(kiln_arena *arena, const char *name, uint64_t seed) {
    kiln_strbuf bytes = {0};
    expect_ok(kiln_zoo_build(kiln_str_from(name), seed, &bytes));
    kiln_str copy = {kiln_arena_copy(arena, bytes.data, bytes.size), bytes.size};
    kiln_strbuf_deinit(&bytes);
    return copy;
}

/* As a tuner gets it. */
static kiln_graph *import_zoo(kiln_arena *arena, const char *name) {
    kiln_strbuf bytes = {0};
    kiln_graph *graph = NULL;
    expect_ok(kiln_zoo_build(kiln_str_from(name), 1, &bytes));
    expect_ok(kiln_import_bytes(kiln_strbuf_view(&bytes), NULL, NULL, arena, &graph));
    kiln_strbuf_deinit(&bytes);
    return sent_and_read(arena, graph);
}

static kiln_tasks tasks_of(kiln_arena *arena, kiln_graph *graph) {
    kiln_tasks tasks = {0};
    expect_ok(kiln_passes_run(graph, (kiln_str){0}));
    expect_ok(kiln_tasks_extract(graph, arena, &tasks));
    return tasks;
}

/* Where a model is imported and where it is tuned, its tasks have the same keys. */
static void every_network_survives_the_way_to_a_tuner(void **state) {
    static const char *const name[] = {
#define X(name, function, doc) name,
#include "compiler-core/frontend/zoo/networks.def"
#undef X
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(name); i++) {
        kiln_arena arena;
        kiln_graph *graph = NULL;
        kiln_arena_init(&arena, 0);
        expect_ok(kiln_import_bytes(build(&arena, name[i], 1), NULL, NULL, &arena, &graph));
        kiln_graph *sent = sent_and_read(&arena, graph);
        kiln_tasks here = tasks_of(&arena, graph), there = tasks_of(&arena, sent);
        assert_int_equal(here.count, there.count);
        for (uint32_t t = 0; t < here.count; t++) {
            assert_true(kiln_str_equal(here.task[t].key, there.task[t].key));
            assert_true(here.task[t].weight == there.task[t].weight);
        }
        kiln_arena_deinit(&arena);
    }
    (void)state;
}

/* Elements of vectors and larger constants, without running statistics. */
static int64_t count_parameters(const kiln_graph *graph) {
    int64_t count = 0;
    for (kiln_value v = 1; v < graph->value.count; v++) {
        const kiln_value_info *info = &graph->value.data[v];
        bool learned = info->data && info->dtype == KILN_F32 && info->shape.rank > 0 &&
                       !kiln_str_ends(info->name, ".mean") &&
                       !kiln_str_ends(info->name, ".variance");
        if (learned) count += kiln_shape_count(&info->shape);
    }
    return count;
}

static void same_seed_gives_the_same_bytes(void **state) {
    kiln_str a = build(*state, "gemm:8x16x32", 1), b = build(*state, "gemm:8x16x32", 1),
             c = build(*state, "gemm:8x16x32", 2);
    assert_true(kiln_str_equal(a, b));
    assert_false(kiln_str_equal(a, c));
    assert_int_equal(a.size, c.size);
}

/* Millions of multiply-adds, twice: the work that the literature gives for these layers, less the
 * products with zeros of their padding. Bytes are padded with what stands for zero. */
static void workloads_are_as_large_as_they_are_known_to_be(void **state) {
    static const struct {
        const char *name;
        double mflop;
    } rows[] = {{"conv:C1", 232.43},         {"conv:C2", 225.74},     {"conv:C3", 25.69},
                {"conv:C5", 12.85},          {"conv:C9", 209.72},     {"conv:C12", 189.27},
                {"qconv:C9", 231.26},        {"conv:D1", 7.13},       {"conv:D9", 0.73},
                {"layernorm:128x768", 0.68}, {"gemm:100x200x300", 12}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rows); i++) {
        kiln_arena arena;
        kiln_graph *graph = NULL;
        kiln_tasks tasks;
        kiln_arena_init(&arena, 0);
        expect_ok(kiln_import_bytes(build(&arena, rows[i].name, 1), NULL, NULL, &arena, &graph));
        expect_ok(kiln_passes_run(graph, (kiln_str){0}));
        expect_ok(kiln_tasks_extract(graph, &arena, &tasks));
        assert_int_equal(tasks.count, 1);
        assert_true(tasks.task[0].flops / 1e6 > rows[i].mflop - 0.01 &&
                    tasks.task[0].flops / 1e6 < rows[i].mflop + 1);
        kiln_arena_deinit(&arena);
    }
    (void)state;
}

/* Learned parameters as published; for those without a published count, the sum over the layers. */
static void networks_have_as_many_parameters_as_published(void **state) {
    static const struct {
        const char *name;
        int64_t parameters;
    } rows[] = {{"resnet18", 11689512},
                {"resnet50", 25557032},
                {"mobilenet_v1", 4231976},
                {"mobilenet_v2", 3504872},
                {"squeezenet1_1", 1235496},
                {"dqn", 8224 + 32832 + 36928 + 1606144 + 9234},
                {"dcgan", 100 * 512 * 16 + 16 * (512 * 256 + 256 * 128 + 128 * 64 + 64 * 3) +
                              2 * (512 + 256 + 128 + 64)},
                {"bert_mini", 30522 * 256 + 128 * 256 + 512 + 4 * 789760}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rows); i++) {
        kiln_arena arena;
        kiln_arena_init(&arena, 0);
        kiln_graph *graph = import_zoo(&arena, rows[i].name);
        assert_int_equal(count_parameters(graph), rows[i].parameters);
        kiln_arena_deinit(&arena);
    }
    (void)state;
}

static void networks_make_what_they_are_known_for(void **state) {
    static const struct {
        const char *name;
        kiln_shape in, out;
    } rows[] = {{"squeezenet1_1", {4, {1, 3, 224, 224}}, {2, {1, 1000}}},
                {"dqn", {4, {1, 4, 84, 84}}, {2, {1, 18}}},
                {"dcgan", {4, {1, 100, 1, 1}}, {4, {1, 3, 64, 64}}},
                {"bert_mini", {2, {1, 128}}, {3, {1, 128, 256}}}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rows); i++) {
        kiln_arena arena;
        kiln_arena_init(&arena, 0);
        kiln_graph *graph = import_zoo(&arena, rows[i].name);
        expect_ok(kiln_passes_run(graph, (kiln_str){0}));
        assert_int_equal(graph->input.count, 1);
        assert_int_equal(graph->output.count, 1);
        const kiln_value_info *value = graph->value.data;
        assert_true(kiln_shape_equal(&value[graph->input.data[0]].shape, &rows[i].in));
        assert_true(kiln_shape_equal(&value[graph->output.data[0]].shape, &rows[i].out));
        kiln_arena_deinit(&arena);
    }
    (void)state;
}

/* Activations, residual sums and normalisations are part of the convolutions' kernels. */
static void every_convolution_is_one_kernel(void **state) {
    static const struct {
        const char *name;
        uint32_t others; /* pooling, the last layer, quantisation of the input */
    } rows[] = {{"resnet18", 3}, {"mobilenet_v1", 2}, {"mobilenet_v2", 2}, {"resnet18_int8", 4}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(rows); i++) {
        kiln_arena arena;
        kiln_plan plan;
        uint32_t convolutions = 0, kernels = 0;
        kiln_arena_init(&arena, 0);
        kiln_graph *graph = import_zoo(&arena, rows[i].name);
        expect_ok(kiln_passes_run(graph, (kiln_str){0}));
        expect_ok(kiln_plan_create(graph, &arena, &plan));
        for (kiln_node n = 1; n < graph->node.count; n++)
            convolutions += graph->node.data[n].op == KILN_OP_CONV ||
                            graph->node.data[n].op == KILN_OP_CONV_INTEGER;
        for (uint32_t s = 0; s < plan.step_count; s++)
            kernels += plan.step[s].kind == KILN_STEP_KERNEL;
        assert_int_equal(kernels, convolutions + rows[i].others);
        kiln_arena_deinit(&arena);
    }
    (void)state;
}

/* A transposition, two products of 2 * 2 * 4 * 8 * 8 operations each, softmax between them. */
static void attention_is_two_products_and_a_softmax(void **state) {
    kiln_graph *graph = NULL;
    kiln_tasks tasks;
    double flops = 0;
    expect_ok(kiln_import_bytes(build(*state, "attention:2x8x4", 1), NULL, NULL, *state, &graph));
    expect_ok(kiln_passes_run(graph, (kiln_str){0}));
    expect_ok(kiln_tasks_extract(graph, *state, &tasks));
    for (uint32_t t = 0; t < tasks.count; t++) flops += tasks.task[t].flops;
    assert_int_equal(tasks.count, 4);
    assert_true(flops >= 2 * 1024 && flops < 3 * 1024);
}

static void unknown_names_are_refused_with_the_known_ones(void **state) {
    static const char *const names[] = {"",
                                        "conv:C13",
                                        "conv:",
                                        "gemm:",
                                        "gemm:8x8",
                                        "gemm:0x1x1",
                                        "gemm:8x8x8x8",
                                        "gemm:8x8x99999999",
                                        "resnet",
                                        "softmax:8",
                                        "layernorm:8x8x8",
                                        "attention:8x8",
                                        "attention:1x0x8",
                                        "attention:1x8x8_n2",
                                        "gemm:8x8x8_n2",
                                        "lstm_lm_n2",
                                        "resnet18_n0",
                                        "resnet18_f16_w1a2",
                                        "resnet18_f16_int8"};
    kiln_strbuf bytes = {0};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(names); i++) {
        kiln_status st = kiln_zoo_build(kiln_str_from(names[i]), 1, &bytes);
        assert_int_equal(kiln_status_code(st), KILN_INVALID_ARGUMENT);
        kiln_status_free(st);
        assert_int_equal(bytes.size, 0);
    }
    kiln_strbuf_deinit(&bytes);
    (void)state;
}

/* Same seed, same bytes; weights of few bits are packed, four to a byte, and nearly all there is.
 */
static void names_may_end_in_bits(void **state) {
    static const struct {
        const char *name;
        size_t weights, others_max;
    } row[] = {{"resnet18_w1a2", 11000000, 700000},
               {"conv:C6_w2a2", 147456, 8000},
               {"gemm:8x512x512_w1a1", 262144, 8000}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        const kiln_str first = build(*state, row[i].name, 3),
                       second = build(*state, row[i].name, 3);
        kiln_graph *graph = NULL;
        assert_int_equal(first.size, second.size);
        assert_memory_equal(first.data, second.data, first.size);
        assert_true(first.size < row[i].weights / 4 + row[i].others_max);
        expect_ok(kiln_import_bytes(first, NULL, NULL, *state, &graph));
        expect_str(graph->value.data[graph->output.data[0]].name, "y");
    }
}

/* Bytes go in and come out, integers are all that is between; but for the ends of a network. */
static void names_may_ask_for_bytes_and_shifts(void **state) {
    static const struct {
        const char *name;
        kiln_dtype input, output;
        uint32_t shifts, quantisations; /* right; of floats */
    } row[] = {{"conv:C3_int8", KILN_I8, KILN_I8, 1, 0},
               {"conv:D9_int8", KILN_I8, KILN_I8, 1, 0},
               {"conv:C12_n2_int8", KILN_I8, KILN_I8, 1, 0},
               {"gemm:8x16x32_int8", KILN_I8, KILN_I8, 1, 0},
               {"resnet18_int8", KILN_F32, KILN_F32, 20, 2}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_graph *graph = import_zoo(*state, row[i].name);
        uint32_t shifts = 0, quantisations = 0;
        expect_ok(kiln_passes_run(graph, (kiln_str){0}));
        for (kiln_node n = 1; n < graph->node.count; n++) {
            const kiln_attr *to = kiln_node_attr(&graph->node.data[n], "direction");
            shifts += to && kiln_str_is(to->text, "RIGHT");
            quantisations += graph->node.data[n].op == KILN_OP_QUANTIZE_LINEAR;
        }
        const kiln_value_info *x = &graph->value.data[graph->input.data[0]],
                              *y = &graph->value.data[graph->output.data[0]];
        expect_str(x->name, "x");
        expect_str(y->name, "y");
        assert_int_equal(x->dtype, row[i].input);
        assert_int_equal(y->dtype, row[i].output);
        assert_int_equal(shifts, row[i].shifts);
        assert_int_equal(quantisations, row[i].quantisations);
    }
}

static void names_may_ask_for_halves_and_images(void **state) {
    static const struct {
        const char *name;
        kiln_dtype dtype;
        int64_t images, size; /* of the output: images by all else */
    } row[] = {
        {"resnet18_n4_f16", KILN_F16, 4, 1000},      {"mobilenet_v1_bf16", KILN_BF16, 1, 1000},
        {"dcgan_n2", KILN_F32, 2, 3 * 64 * 64},      {"conv:C6_f16_n3", KILN_F16, 3, 128 * 28 * 28},
        {"qconv:C6_n2", KILN_F32, 2, 128 * 28 * 28}, {"gemm:8x16x4_f16", KILN_F16, 8, 16}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_graph *graph = NULL;
        expect_ok(kiln_import_bytes(build(*state, row[i].name, 3), NULL, NULL, *state, &graph));
        const kiln_value_info *y = &graph->value.data[graph->output.data[0]];
        assert_int_equal(y->dtype, row[i].dtype);
        assert_int_equal(y->shape.dim[0], row[i].images);
        assert_int_equal(kiln_shape_count(&y->shape), row[i].images * row[i].size);
    }
}

static void every_listed_workload_builds(void **state) {
    kiln_strbuf list = {0};
    kiln_zoo_list(&list);
    kiln_str rest = kiln_strbuf_view(&list);
    uint32_t convs = 0;
    while (rest.size) {
        kiln_str line = kiln_str_cut(&rest, '\n'), name = kiln_str_cut(&line, ' ');
        bool named = kiln_str_starts(name, "conv:C") || kiln_str_starts(name, "conv:D");
        if (!named || kiln_str_find_char(name, '|') < name.size) continue; /* a form */
        kiln_arena arena;
        kiln_arena_init(&arena, 0);
        build(&arena, kiln_str_dup(&arena, name), 1);
        kiln_arena_deinit(&arena);
        convs++;
    }
    assert_int_equal(convs, 21);
    kiln_strbuf_deinit(&list);
    (void)state;
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(every_network_survives_the_way_to_a_tuner),
        test_with_arena(names_may_end_in_bits),
        test_with_arena(names_may_ask_for_bytes_and_shifts),
        test_with_arena(names_may_ask_for_halves_and_images),
        test_with_arena(same_seed_gives_the_same_bytes),
        test_with_arena(workloads_are_as_large_as_they_are_known_to_be),
        test_with_arena(networks_have_as_many_parameters_as_published),
        test_with_arena(networks_make_what_they_are_known_for),
        test_with_arena(every_convolution_is_one_kernel),
        test_with_arena(attention_is_two_products_and_a_softmax),
        test_with_arena(unknown_names_are_refused_with_the_known_ones),
        test_with_arena(every_listed_workload_builds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
