/* Loops of graphs to loops of modules, and modules for a device and its host: what a module
 * computes is what the interpreter of the graph says, whatever the sizes of rows, the order of
 * carried values and the place of each kernel. */
#include <string.h>

#include "compiler-core/core.h"
#include "deploy/module.h"
#include "deploy/pack/pack.h"
#include "deploy/runtime/module_read.h"
#include "tests/support/interpreter.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

#define PORTS_MAX 8

typedef struct packed {
    kiln_arena *arena;
    kiln_graph *graph;
    kiln_str bytes; /* aligned */
    kiln_module_plan plan;
} packed;

static packed pack_for(kiln_arena *arena, kiln_graph *graph, const char *text) {
    packed m = {.arena = arena, .graph = graph};
    kiln_target target = plain_target(arena);
    if (text) expect_ok(kiln_target_parse(kiln_str_from(text), arena, &target));
    const kiln_pack_options options = {.model_name = KILN_STR("test")};
    kiln_compilation *compilation = NULL;
    kiln_strbuf bytes = {0};
    size_t constant_bytes;
    kiln_module_sizes sizes;
    expect_ok(kiln_compilation_create(graph, &target, arena, &compilation));
    expect_ok(kiln_pack(compilation, &options, arena, &bytes, NULL));
    char *room = kiln_arena_alloc_aligned(arena, KILN_MODULE_SECTION_ALIGNMENT, bytes.size);
    memcpy(room, bytes.data, bytes.size);
    m.bytes = (kiln_str){room, bytes.size};
    kiln_strbuf_deinit(&bytes);
    expect_ok(kiln_module_decode(m.bytes, arena, &sizes, &constant_bytes));
    m.plan = sizes.bucket->plan;
    return m;
}

static packed pack_graph(kiln_arena *arena, kiln_graph *graph) {
    return pack_for(arena, graph, NULL);
}

static uint32_t count_steps(const packed *m, kiln_plan_action action) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->plan.step_count; i++) count += m->plan.step[i].action == action;
    return count;
}

static kiln_tensor tensor_of(const packed *m, kiln_value value) {
    const kiln_value_info *info = &m->graph->value.data[value];
    return kiln_tensor_create(m->arena, info->dtype, &info->shape);
}

static void expect_close(const kiln_tensor *got, const kiln_tensor *wanted, uint32_t output) {
    for (int64_t i = 0; i < kiln_shape_count(&wanted->shape); i++) {
        double a = kiln_dtype_load_f64(got->dtype, got->data, (size_t)i);
        double b = kiln_dtype_load_f64(wanted->dtype, wanted->data, (size_t)i);
        double difference = a > b ? a - b : b - a, size = b > 0 ? b : -b;
        if (!(difference <= 1e-4 * (size + 1)))
            fail_msg("output %u element %lld is %.9g, not %.9g", output, (long long)i, a, b);
    }
}

static kiln_module *open_module(const packed *m) {
    kiln_module *module = NULL;
    char error[KILN_MODULE_ERROR_BYTES] = "";
    if (kiln_module_open_memory(m->bytes.data, m->bytes.size, NULL, &module, error, sizeof error))
        fail_msg("%s", error);
    return module;
}

/* Twice, in memory with old bytes in it: nothing of one run is left for the next. */
static void expect_runs_right(const packed *m) {
    kiln_module *module = open_module(m);
    for (uint64_t seed = 1; seed <= 2; seed++) {
        kiln_tensor input[PORTS_MAX], wanted[PORTS_MAX], got[PORTS_MAX];
        const void *in[PORTS_MAX];
        void *out[PORTS_MAX];
        for (uint32_t i = 0; i < m->graph->input.count; i++) {
            input[i] = tensor_of(m, m->graph->input.data[i]);
            kiln_fill_data(input[i].data, input[i].dtype, (size_t)kiln_shape_count(&input[i].shape),
                           seed * 100 + i, KILN_FILL_UNIFORM);
            if (input[i].dtype == KILN_I64) *(int64_t *)input[i].data = (int64_t)seed * 2;
            in[i] = input[i].data;
        }
        expect_ok(kiln_graph_eval(m->graph, input, m->arena, wanted));
        for (uint32_t i = 0; i < m->graph->output.count; i++) {
            got[i] = tensor_of(m, m->graph->output.data[i]);
            memset(got[i].data, 0x5a, kiln_tensor_bytes(&got[i]));
            out[i] = got[i].data;
        }
        if (kiln_module_run(module, in, out)) fail_msg("%s", kiln_module_error(module));
        for (uint32_t i = 0; i < m->graph->output.count; i++) expect_close(&got[i], &wanted[i], i);
    }
    kiln_module_close(module);
}

/* As written and with all passes. */
static packed expect_right(kiln_arena *arena, const char *text) {
    packed m = pack_graph(arena, graph_of(arena, text));
    expect_runs_right(&m);
    kiln_graph *fused = graph_of(arena, text);
    expect_ok(kiln_passes_run(fused, (kiln_str){0}));
    m = pack_graph(arena, fused);
    expect_runs_right(&m);
    return m;
}

/* Rows of 64 bytes lie aligned in the whole: they are read and written there, and only the carried
 * value is copied. */
static void aligned_rows_are_read_and_written_in_place(void **state) {
    packed m = expect_right(
        *state, "graph g\ninput x: f32[5,16]\ninput s: f32[16]\nconstant n: i64[] = [5]\n"
                "i: i64[], a: f32[16], r: f32[16] = loop_begin(n, s, x) carried=1 trips=5\n"
                "b: f32[16] = add(a, r)\nt: f32[16] = tanh(b)\n"
                "last: f32[16], all: f32[5,16] = loop_end(i, t, t)\n"
                "output last\noutput all\n");
    assert_int_equal(count_steps(&m, KILN_ACTION_LOOP), 1);
    assert_int_equal(count_steps(&m, KILN_ACTION_KERNEL), 1);
    assert_int_equal(count_steps(&m, KILN_ACTION_CARRY), 1);
    assert_int_equal(count_steps(&m, KILN_ACTION_COPY),
                     2); /* s to its place, the last one to the output */
}

static void rows_that_are_not_aligned_are_copied(void **state) {
    packed m = expect_right(
        *state,
        "graph g\ninput x: f32[5,3]\ninput s: f32[3]\nconstant n: i64[] = [5]\n"
        "i: i64[], a: f32[3], r: f32[3] = loop_begin(n, s, x) carried=1 reversed=[1] trips=5\n"
        "b: f32[3] = add(a, r)\nt: f32[3] = tanh(b)\n"
        "last: f32[3], all: f32[5,3], back: f32[5,3] = loop_end(i, t, t, b) reversed=[0,1]\n"
        "output last\noutput all\noutput back\n");
    assert_int_equal(count_steps(&m, KILN_ACTION_COPY), 5);
}

/* A product of the state with weights, which is packed and tuned like any other. */
static void a_recurrent_layer(void **state) {
    packed m = expect_right(
        *state,
        "graph g\ninput x: f32[7,2,20]\nconstant n: i64[] = [7]\n"
        "constant w: f32[20,20] = hash \"00112233445566778899aabbccddeeff\"\n"
        "constant z: f32[2,20] = hash \"10112233445566778899aabbccddeeff\"\n"
        "i: i64[], h: f32[2,20], r: f32[2,20] = loop_begin(n, z, x) carried=1 trips=7\n"
        "p: f32[2,20] = gemm(h, w) transB=1\nq: f32[2,20] = add(p, r)\nt: f32[2,20] = tanh(q)\n"
        "last: f32[2,20], all: f32[7,2,20] = loop_end(i, t, t)\n"
        "y: f32[7,2,20] = neg(all)\noutput last\noutput y\n");
    assert_int_equal(m.plan.kernel_count, 2);
}

/* Beside its constants a module of a loop is small, however long it runs. */
static void a_thousand_steps_are_no_larger_module(void **state) {
    kiln_arena *arena = *state;
    size_t beside[2];
    for (int i = 0; i < 2; i++) {
        int trips = i ? 1000 : 50;
        packed m = expect_right(
            arena,
            kiln_arena_printf(
                arena,
                "graph g\ninput x: f32[%d,1,16]\nconstant n: i64[] = [%d]\n"
                "constant w: f32[16,16] = hash \"00112233445566778899aabbccddeeff\"\n"
                "constant z: f32[1,16] = hash \"10112233445566778899aabbccddeeff\"\n"
                "i: i64[], h: f32[1,16], r: f32[1,16] = loop_begin(n, z, x) carried=1 trips=%d\n"
                "p: f32[1,16] = gemm(h, w) alpha=0.05 transB=1\nq: f32[1,16] = add(p, r)\nt: "
                "f32[1,16] = "
                "tanh(q)\n"
                "last: f32[1,16], all: f32[%d,1,16] = loop_end(i, t, t)\noutput last\noutput all\n",
                trips, trips, trips, trips));
        beside[i] = m.bytes.size - 16 * 17 * sizeof(float);
    }
    assert_true(beside[1] < 64 << 10 && beside[1] < beside[0] + 64);
}

/* Weights of a layer, small enough that no error grows over the steps. */
static message weights(kiln_arena *arena, const char *name, const kiln_shape *shape) {
    kiln_tensor tensor = kiln_tensor_create(arena, KILN_F32, shape);
    kiln_fill_data(tensor.data, KILN_F32, (size_t)kiln_shape_count(shape),
                   (uint64_t)name[0] * 7 + (uint64_t)name[1], KILN_FILL_UNIFORM);
    for (int64_t i = 0; i < kiln_shape_count(shape); i++) ((float *)tensor.data)[i] *= 0.2f;
    return tensor_message(arena, name, &tensor);
}

static message layer(kiln_arena *arena, const char *inputs, const char *outputs) {
    message node = with_attr_int(node_of(arena, "LSTM", inputs, outputs), "hidden_size", 6);
    return with_attr_text(node, "direction", "bidirectional");
}

/* Two layers, both ways, over a thousand steps: four loops, and less than 1 MB beside the weights.
 */
static void a_bidirectional_lstm_of_a_thousand_steps(void **state) {
    static const int64_t swapped[] = {0, 2, 1, 3}, flat[] = {1000, 2, 12};
    kiln_arena *arena = *state;
    const model_parts parts = {
        .opset = 14,
        .input = "x:1000,2,6",
        .output = "z:1000,2,2,6 h:2,2,6",
        .node_count = 4,
        .initializer_count = 7,
        .node = {layer(arena, "x w0 r0 b0", "y"),
                 with_attr_ints(node_of(arena, "Transpose", "y", "t"), "perm", swapped, 4),
                 node_of(arena, "Reshape", "t flat", "x1"), layer(arena, "x1 w1 r1 b1", "z h")},
        .initializer = {weights(arena, "w0", SHAPE(2, 24, 6)),
                        weights(arena, "r0", SHAPE(2, 24, 6)), weights(arena, "b0", SHAPE(2, 48)),
                        weights(arena, "w1", SHAPE(2, 24, 12)),
                        weights(arena, "r1", SHAPE(2, 24, 6)), weights(arena, "b1", SHAPE(2, 48)),
                        i64s_of(arena, "flat", flat, 3)},
    };
    kiln_graph *graph = import_of(arena, &parts);
    expect_ok(kiln_passes_run(graph, (kiln_str){0}));
    packed m = pack_graph(arena, graph);
    assert_int_equal(count_steps(&m, KILN_ACTION_LOOP), 4);
    assert_true(m.bytes.size < 1 << 20);
    expect_runs_right(&m);
}

static void carried_values_change_places(void **state) {
    expect_right(*state,
                 "graph g\ninput s: f32[16]\ninput t: f32[16]\nconstant n: i64[] = [4]\n"
                 "i: i64[], a: f32[16], b: f32[16] = loop_begin(n, s, t) carried=2 trips=4\n"
                 "c: f32[16] = add(a, b)\n"
                 "one: f32[16], two: f32[16] = loop_end(i, b, c)\noutput one\noutput two\n");
    expect_right(
        *state,
        "graph g\ninput s: f32[16]\ninput t: f32[16]\nconstant n: i64[] = [3]\n"
        "i: i64[], a: f32[16], b: f32[16], c: f32[16] = loop_begin(n, s, t, t) carried=3 trips=3\n"
        "d: f32[16] = neg(c)\n"
        "one: f32[16], two: f32[16], three: f32[16] = loop_end(i, b, a, d)\n"
        "output one\noutput two\noutput three\n");
    /* under another shape it is the same place */
    expect_right(*state,
                 "graph g\ninput s: f32[4,4]\ninput t: f32[4,4]\nconstant n: i64[] = [3]\n"
                 "i: i64[], a: f32[4,4], b: f32[4,4] = loop_begin(n, s, t) carried=2 trips=3\n"
                 "e: f32[16] = reshape(a) shape=[16]\nf: f32[4,4] = reshape(e) shape=[4,4]\n"
                 "g: f32[4,4] = add(b, a)\n"
                 "one: f32[4,4], two: f32[4,4] = loop_end(i, g, f)\noutput one\noutput two\n");
}

static void values_that_do_not_change_and_inputs_are_handed_on(void **state) {
    expect_right(*state,
                 "graph g\ninput s: f32[16]\nconstant w: f32[1] = [3]\nconstant n: i64[] = [3]\n"
                 "i: i64[], a: f32[16], b: f32[16] = loop_begin(n, s, s) carried=2 trips=3\n"
                 "o: f32[16] = mul(s, w)\n"
                 "one: f32[16], two: f32[16], all: f32[3,16] = loop_end(i, a, o, s)\n"
                 "output one\noutput two\noutput all\n");
}

/* The input n is 2 in the first run, 4 in the second. */
static void loops_of_unknown_length(void **state) {
    packed m = expect_right(
        *state, "graph g\ninput n: i64[]\ninput s: f32[10]\nconstant w: f32[1] = [2]\n"
                "i: i64[], a: f32[10] = loop_begin(n, s) carried=1 trips=50\n"
                "b: f32[10] = mul(a, w)\nlast: f32[10] = loop_end(i, b)\noutput last\n");
    for (uint32_t i = 0; i < m.plan.step_count; i++)
        if (m.plan.step[i].action == KILN_ACTION_LOOP)
            assert_int_not_equal(m.plan.step[i].count, KILN_PLAN_NONE);
    expect_right(
        *state,
        "graph g\nconstant n: i64[] = [1000]\nconstant go: bool[] = [1]\ninput s: f32[10]\n"
        "constant w: f32[1] = [2]\nconstant limit: f32[1] = [100]\n"
        "i: i64[], a: f32[10], k: i64[] = loop_begin(n, go, s, n) carried=2 guarded=1 trips=1000\n"
        "b: f32[10] = mul(a, w)\nm: f32[1] = reduce_max(b) axes=[0]\n"
        "less: bool[1] = less(m, limit)\n"
        "last: f32[10], times: i64[] = loop_end(i, less, b, i)\noutput last\noutput times\n");
}

/* Runs with these inputs; gives the rows of the second output, or the error's number below 0. */
static int64_t rows_of_run(const packed *m, int64_t n, float *state, float *all) {
    kiln_module *module = open_module(m);
    float last[16];
    int code = kiln_module_run(module, (const void *[]){&n, state}, (void *[]){last, all});
    int64_t rows = code ? -code : kiln_module_output_rows(module, 1);
    assert_int_equal(kiln_module_output_rows(module, 0), m->plan.output[0].shape.dim[0]);
    if (code) assert_non_null(strstr(kiln_module_error(module), "loop"));
    kiln_module_close(module);
    return rows;
}

/* Rows of 64 bytes are written where they end up, the others are copied there. */
static void results_of_a_loop_of_unknown_length(void **state) {
    for (int width = 10; width <= 16; width += 6) {
        packed m = expect_right(
            *state, kiln_arena_printf(
                        *state,
                        "graph g\ninput n: i64[]\ninput s: f32[%d]\nconstant w: f32[1] = [2]\n"
                        "i: i64[], a: f32[%d] = loop_begin(n, s) carried=1 trips=5\n"
                        "b: f32[%d] = mul(a, w)\n"
                        "last: f32[%d], all: f32[5,%d] = loop_end(i, b, b)\n"
                        "output last\noutput all\n",
                        width, width, width, width, width));
        float *data = kiln_arena_alloc_aligned(*state, 64, 100 * sizeof *data);
        for (int i = 0; i < 100; i++) data[i] = 1;
        static const int64_t counts[] = {0, 1, 4, 5, -3};
        for (size_t i = 0; i < KILN_ARRAY_COUNT(counts); i++)
            for (int askew = 0; askew < 2; askew++) { /* memory that is not aligned */
                float *all = data + 16 + askew;
                const int64_t rows = KILN_MAX(counts[i], 0);
                memset(all, 0x5a, 80 * sizeof *all);
                assert_int_equal(rows_of_run(&m, counts[i], data, all), rows);
                for (int k = 0; k < 5 * width; k++)
                    assert_true(all[k] == (k < rows * width ? (float)(2 << k / width) : 0));
            }
        assert_int_equal(rows_of_run(&m, 6, data, data + 16), -KILN_OUT_OF_RANGE);
    }
}

/* A loop whose model gives no bound and that does not end is an error, not a wrong result. */
static void a_loop_that_goes_on_is_an_error(void **state) {
    static const char *const text =
        "graph g\nconstant n: i64[] = [%s]\nconstant go: bool[] = [1]\ninput k: i64[]\n"
        "input s: f32[10]\nconstant w: f32[1] = [2]\n"
        "i: i64[], a: f32[10] = loop_begin(n, go, s) carried=1 guarded=1 trips=20\n"
        "b: f32[10] = mul(a, w)\nless: bool[] = less(i, k)\n"
        "last: f32[10], all: f32[20,10] = loop_end(i, less, b, b)\noutput last\noutput all\n";
    float data[10] = {1}, all[200];
    packed m = pack_graph(*state,
                          graph_of(*state, kiln_arena_printf(*state, text, "9223372036854775807")));
    assert_int_equal(rows_of_run(&m, 6, data, all), 7);
    assert_int_equal(rows_of_run(&m, 19, data, all), 20);
    assert_int_equal(rows_of_run(&m, 20, data, all), -KILN_OUT_OF_RANGE);
    m = pack_graph(*state, graph_of(*state, kiln_arena_printf(*state, text, "20")));
    assert_int_equal(rows_of_run(&m, 20, data, all), 20); /* the model ends it */
}

/* What a loop asks of the processor is copied to it, and the number of the iteration from it. */
static void loops_on_a_device_with_memory_of_its_own(void **state) {
    static const char *const text[] = {
        "graph g\ninput n: i64[]\ninput s: f32[10]\nconstant w: f32[1] = [2]\n"
        "m: i64[] = add(n, n)\n"
        "i: i64[], a: f32[10], k: i64[] = loop_begin(m, s, n) carried=2 trips=50\n"
        "b: f32[10] = mul(a, w)\nt: i64[] = add(k, i)\n"
        "last: f32[10], sum: i64[] = loop_end(i, b, t)\noutput last\noutput sum\n",
        "graph g\nconstant n: i64[] = [1000]\nconstant go: bool[] = [1]\ninput s: f32[10]\n"
        "constant w: f32[1] = [2]\nconstant limit: f32[1] = [100]\nconstant two: i64[] = [2]\n"
        "j: i64[], c: f32[10] = loop_begin(two, s) carried=1 trips=2\n"
        "i: i64[], a: f32[10], k: i64[] = loop_begin(n, go, c, n) carried=2 guarded=1 trips=1000\n"
        "b: f32[10] = mul(a, w)\nm: f32[1] = reduce_max(b) axes=[0]\n"
        "less: bool[1] = less(m, limit)\n"
        "inner: f32[10], times: i64[] = loop_end(i, less, b, i)\n"
        "last: f32[10], all: i64[2] = loop_end(j, inner, times)\noutput last\noutput all\n"};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        packed m = pack_for(*state, graph_of(*state, text[i]), "null");
        assert_int_equal(m.plan.device_count, 1);
        assert_true(count_steps(&m, KILN_ACTION_EVENT) > 1);
        expect_runs_right(&m);
    }
}

/* Steps of kernels on the processor or on the device. */
static uint32_t count_kernels(const packed *m, uint32_t device) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->plan.step_count; i++)
        count += m->plan.step[i].action == KILN_ACTION_KERNEL && m->plan.step[i].device == device;
    return count;
}

#define PARTIAL "null,integers,host=native"
#define QUANTIZED                                                                         \
    "graph g\ninput x: i8[48,48]\n"                                                       \
    "constant w: i8[48,48] = hash \"00112233445566778899aabbccddeeff\"\n"                 \
    "constant z: i8[] = [0]\nconstant scale: f32[] = [0.0625]\nconstant n: i64[] = [3]\n" \
    "constant low: f32[] = [-100]\nconstant high: f32[] = [100]\n"
#define PRODUCT(from, sums, floats, bytes)                                                         \
    #sums ": i32[48,48] = matmul_integer(" #from ", w, z)\n" #floats "0: f32[48,48] = cast(" #sums \
          ") to=\"f32\"\n" #floats ": f32[48,48] = mul(" #floats "0, scale)\n" #floats             \
          "1: f32[48,48] = max(" #floats ", low)\n" #floats "2: f32[48,48] = min(" #floats         \
          "1, high)\n" #bytes ": i8[48,48] = cast(" #floats "2) to=\"i8\"\n"

static packed expect_right_in_part(kiln_arena *arena, const char *text) {
    kiln_graph *fused = graph_of(arena, text);
    expect_ok(kiln_passes_run(fused, (kiln_str){0}));
    packed m = pack_for(arena, fused, PARTIAL);
    expect_runs_right(&m);
    m = pack_for(arena, graph_of(arena, text), PARTIAL);
    expect_runs_right(&m);
    return m;
}

/* Products of integers are the device's, and what is in floats its host's; each value is copied
 * once, and whichever of both computes an output, it is there. */
static void a_device_and_its_host_share_a_module(void **state) {
    packed m = expect_right_in_part(
        *state, QUANTIZED PRODUCT(x, a, f, k) PRODUCT(k, b, g, l) "output b\noutput f2\noutput a\n"
                                                                  "output l\noutput x\n");
    assert_int_equal(m.plan.device_count, 1);
    assert_int_equal(count_kernels(&m, 1), 2);
    assert_int_equal(count_kernels(&m, 0), 10);
}

static void values_pass_between_both_in_every_iteration(void **state) {
    packed m = expect_right_in_part(
        *state, QUANTIZED
        "i: i64[], c: i8[48,48] = loop_begin(n, x) carried=1 trips=3\n" PRODUCT(c, a, f, k)
            PRODUCT(k, b, g, l) "last: i8[48,48], all: f32[3,48,48], sums: i32[3,48,48] = "
                                "loop_end(i, l, g, b)\noutput last\noutput all\noutput sums\n");
    assert_int_equal(count_kernels(&m, 1), 2);
    assert_int_equal(count_steps(&m, KILN_ACTION_LOOP), 1);
}

/* Copies take longer than what the device saves. */
static void a_small_kernel_between_two_of_the_host_is_the_hosts(void **state) {
    packed m = expect_right_in_part(*state, "graph g\ninput x: f32[48]\n"
                                            "a: i32[48] = cast(x) to=\"i32\"\n"
                                            "b: i32[48] = neg(a)\n"
                                            "c: f32[48] = cast(b) to=\"f32\"\noutput c\n");
    assert_int_equal(m.plan.device_count, 0);
}

/* Of eight bytes, on a device whose vectors have four. */
static void elements_may_be_wider_than_vectors(void **state) {
    packed m = pack_for(*state,
                        graph_of(*state, "graph g\ninput a: i64[2,3]\ninput b: i64[2,3]\n"
                                         "y: i64[2,3] = max(a, b)\noutput y\n"),
                        "null");
    assert_int_equal(count_kernels(&m, 1), 1);
    expect_runs_right(&m);
}

static void without_a_host_the_missing_schedule_is_an_error(void **state) {
    kiln_target target;
    kiln_compilation *c = NULL;
    expect_ok(kiln_target_parse(KILN_STR("null,integers"), *state, &target));
    kiln_graph *graph =
        graph_of(*state, "graph g\ninput x: f32[4]\ny: f32[4] = neg(x)\noutput y\n");
    expect_ok(kiln_compilation_create(graph, &target, *state, &c));
    expect_error(kiln_compilation_choose(c, NULL), FAILED_PRECONDITION,
                 "rules for null have no schedule for neg: the device lacks f32, the type of x");
}

static void loops_inside_of_each_other(void **state) {
    packed m = expect_right(
        *state,
        "graph g\ninput x: f32[3,4,16]\ninput s: f32[16]\nconstant n: i64[] = [3]\nconstant four: "
        "i64[] = [4]\n"
        "constant w: f32[16] = hash \"00112233445566778899aabbccddeeff\"\n"
        "i: i64[], a: f32[16], r: f32[4,16] = loop_begin(n, s, x) carried=1 trips=3\n"
        "k: i64[], p: f32[16], e: f32[16] = loop_begin(four, a, r) carried=1 trips=4\n"
        "q: f32[16] = add(p, e)\nt: f32[16] = mul(q, w)\nu: f32[16] = tanh(t)\n"
        "inner: f32[16], rows: f32[4,16] = loop_end(k, u, u)\n"
        "v: f32[16] = neg(inner)\n"
        "last: f32[16], all: f32[3,4,16] = loop_end(i, v, rows)\noutput last\noutput all\n");
    assert_int_equal(count_steps(&m, KILN_ACTION_LOOP), 2);
}

/* Parts of a concatenation, of a state and of a row: windows inside of a body. */
static void values_lie_inside_of_others_in_a_body(void **state) {
    expect_right(*state,
                 "graph g\ninput x: f32[4,1,64]\ninput s: f32[1,32]\nconstant n: i64[] = [4]\n"
                 "i: i64[], a: f32[1,32], r: f32[1,64] = loop_begin(n, s, x) carried=1 trips=4\n"
                 "g: f32[1,32], h: f32[1,32] = split(r) axis=1 num_outputs=2\n"
                 "b: f32[1,32] = tanh(g)\nc: f32[1,32] = mul(b, h)\nd: f32[1,32] = add(c, a)\n"
                 "both: f32[1,64] = concat(b, d) axis=1\nf: f32[1,64] = neg(both)\n"
                 "last: f32[1,32], all: f32[4,1,64], more: f32[4,1,64] = loop_end(i, d, f, both)\n"
                 "output last\noutput all\noutput more\n");
}

/* A task of the body counts as often as it runs. */
static void tasks_of_a_body_weigh_as_much_as_they_run(void **state) {
    kiln_arena *arena = *state;
    kiln_tasks tasks;
    kiln_graph *graph =
        graph_of(arena, "graph g\ninput x: f32[5,16]\ninput s: f32[16]\nconstant n: i64[] = [5]\n"
                        "i: i64[], a: f32[16], r: f32[16] = loop_begin(n, s, x) carried=1 trips=5\n"
                        "b: f32[16] = add(a, r)\nlast: f32[16] = loop_end(i, b)\n"
                        "y: f32[16] = tanh(last)\noutput y\n");
    expect_ok(kiln_tasks_extract(graph, arena, &tasks));
    assert_int_equal(tasks.count, 2);
    assert_true(tasks.task[0].weight == 5 && tasks.task[1].weight == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(aligned_rows_are_read_and_written_in_place),
        test_with_arena(rows_that_are_not_aligned_are_copied),
        test_with_arena(a_recurrent_layer),
        test_with_arena(a_thousand_steps_are_no_larger_module),
        test_with_arena(a_bidirectional_lstm_of_a_thousand_steps),
        test_with_arena(carried_values_change_places),
        test_with_arena(values_that_do_not_change_and_inputs_are_handed_on),
        test_with_arena(loops_of_unknown_length),
        test_with_arena(results_of_a_loop_of_unknown_length),
        test_with_arena(a_loop_that_goes_on_is_an_error),
        test_with_arena(loops_on_a_device_with_memory_of_its_own),
        test_with_arena(a_device_and_its_host_share_a_module),
        test_with_arena(values_pass_between_both_in_every_iteration),
        test_with_arena(a_small_kernel_between_two_of_the_host_is_the_hosts),
        test_with_arena(elements_may_be_wider_than_vectors),
        test_with_arena(without_a_host_the_missing_schedule_is_an_error),
        test_with_arena(loops_inside_of_each_other),
        test_with_arena(values_lie_inside_of_others_in_a_body),
        test_with_arena(tasks_of_a_body_weigh_as_much_as_they_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
