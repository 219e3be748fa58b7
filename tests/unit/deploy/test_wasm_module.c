/* What packing writes for WebAssembly computes in node, through the package for JavaScript, what
 * the interpreter of the graph says. Arguments: node, and the package's folder. */
#include "deploy/pack/wasm_module.h"

#include <string.h>

#include "base/file.h"
#include "base/proc.h"
#include "base/wasm.h"
#include "compiler-core/core.h"
#include "compiler-core/frontend/frontend.h"
#include "deploy/pack/pack.h"
#include "tests/support/interpreter.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/graph/support.h"
#include "tests/unit/deploy/networks.h"

#define PORTS_MAX 8
#define RUNNER "tests/unit/deploy/run_wasm.mjs"

static const char *node, *package;

static kiln_str encode(kiln_arena *arena, kiln_graph *graph, const char *target_text) {
    kiln_target target = target_of(arena, target_text);
    const kiln_pack_options options = {.model_name = KILN_STR("a \"test\"")};
    kiln_compilation *compilation = NULL;
    kiln_strbuf bytes = {0};
    expect_ok(kiln_compilation_create(graph, &target, arena, &compilation));
    expect_ok(kiln_pack(compilation, &options, arena, &bytes, NULL));
    return kiln_strbuf_end(&bytes, arena);
}

static void run(kiln_arena *arena, const char *module, const char *folder) {
    const char *const argv[] = {node, RUNNER, package, module, folder, NULL};
    const kiln_proc_options options = {
        .argv = argv, .output_max = 1 << 20, .deadline_ns = UINT64_C(300000000000)};
    kiln_proc_result result;
    expect_ok(kiln_proc_run(&options, arena, &result));
    if (result.exit_code != 0) fail_msg("node: %.2000s", result.err.data);
}

static void expect_output(kiln_arena *arena, const char *path, const kiln_tensor *wanted) {
    kiln_str bytes;
    expect_ok(kiln_file_read(path, kiln_tensor_bytes(wanted), arena, &bytes));
    assert_int_equal(bytes.size, kiln_tensor_bytes(wanted));
    for (int64_t i = 0; i < kiln_shape_count(&wanted->shape); i++) {
        double a = kiln_dtype_load_f64(wanted->dtype, bytes.data, (size_t)i);
        double b = kiln_dtype_load_f64(wanted->dtype, wanted->data, (size_t)i);
        double difference = a > b ? a - b : b - a, size = b > 0 ? b : -b;
        if (!(difference <= 1e-4 * (size + 1)))
            fail_msg("%s: element %lld is %.9g, not %.9g", path, (long long)i, a, b);
    }
}

static void expect_same(kiln_arena *arena, kiln_graph *graph, const char *target) {
    char *folder = make_folder(arena);
    kiln_tensor input[PORTS_MAX], wanted[PORTS_MAX];
    for (uint32_t i = 0; i < graph->input.count; i++) {
        const kiln_value_info *info = &graph->value.data[graph->input.data[i]];
        input[i] = kiln_tensor_create(arena, info->dtype, &info->shape);
        kiln_fill_data(input[i].data, info->dtype, (size_t)kiln_shape_count(&info->shape), 7 + i,
                       KILN_FILL_UNIFORM);
        expect_ok(kiln_file_write(kiln_arena_printf(arena, "%s/in%u", folder, i),
                                  (kiln_str){input[i].data, kiln_tensor_bytes(&input[i])}, 0600));
    }
    expect_ok(kiln_graph_eval(graph, input, arena, wanted));
    const char *module = kiln_arena_printf(arena, "%s/m.wasm", folder);
    expect_ok(kiln_file_write(module, encode(arena, graph, target), 0600));
    run(arena, module, folder);
    for (uint32_t i = 0; i < graph->output.count; i++)
        expect_output(arena, kiln_arena_printf(arena, "%s/out%u", folder, i), &wanted[i]);
    remove_folder(folder);
}

static void a_network_runs_in_node(void **state) {
    kiln_graph *graph = NULL;
    expect_ok(kiln_import_file("examples/digits/digits.onnx", NULL, *state, &graph));
    expect_ok(kiln_passes_run(graph, KILN_STR("")));
    expect_same(*state, graph, "wasm");
    expect_same(*state, graph, "wasm,threads=2");
}

static void aliases_copies_and_two_outputs_run_in_node(void **state) {
    expect_same(*state, graph_of(*state, SEVERAL_STEPS), "wasm");
}

/* Carried state, rows forwards and backwards, weights that are packed once, and a number of
 * iterations that is known at run time only. */
static void loops_run_in_node(void **state) {
    static const char *const text[] = {LOOP_OF_ROWS, LOOP_OF_A_LAYER, LOOP_OVER_ITS_COUNT,
                                       LOOP_UNTIL_LARGE};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        expect_same(*state, graph_of(*state, text[i]), "wasm");
}

static void same_plan_gives_the_same_bytes(void **state) {
    static const char text[] = "graph g\ninput x: f32[1,8,12,12]\n"
                               "constant w: f32[16,8,3,3] = hash "
                               "\"00112233445566778899aabbccddeeff\"\n"
                               "y: f32[1,16,10,10] = conv(x, w)\noutput y\n";
    kiln_graph *graph = graph_of(*state, text);
    kiln_str once = encode(*state, graph, "wasm"), again = encode(*state, graph, "wasm");
    assert_true(kiln_str_equal(once, again));
    assert_memory_equal(once.data, KILN_WASM_HEAD, sizeof KILN_WASM_HEAD - 1);
}

int main(int argc, char **argv) {
    assert_int_equal(argc, 3);
    node = argv[1];
    package = argv[2];
    const struct CMUnitTest tests[] = {
        test_with_arena(a_network_runs_in_node),
        test_with_arena(aliases_copies_and_two_outputs_run_in_node),
        test_with_arena(loops_run_in_node),
        test_with_arena(same_plan_gives_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
