/* What `kiln compile --emit static-c` writes computes what the interpreter of the graph says:
 * compiled by gcc and by clang as ordinary C, and on a Cortex-M under qemu without an operating
 * system. It needs no allocation, no files and no threads. */
#include "deploy/pack/static_c.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/proc.h"
#include "compiler-core/core.h"
#include "compiler-core/frontend/frontend.h"
#include "deploy/pack/pack.h"
#include "deploy/pack/wasm_module.h"
#include "tests/support/interpreter.h"
#include "tests/support/targets.h"
#include "tests/unit/compiler-core/graph/support.h"
#include "tests/unit/deploy/networks.h"

#define PORTS_MAX 8
#define DIGITS "examples/digits/digits.onnx"
#define CONVOLUTION                                                           \
    "graph convolution\n"                                                     \
    "input x: f32[1,8,12,12]\n"                                               \
    "constant w: f32[16,8,3,3] = hash \"00112233445566778899aabbccddeeff\"\n" \
    "constant b: f32[16] = hash \"10112233445566778899aabbccddeeff\"\n"       \
    "y: f32[1,16,12,12] = conv(x, w, b) pads=[1,1,1,1] kernel 1\n"            \
    "z: f32[1,16,12,12] = relu(y) kernel 1\n"                                 \
    "output z\n"
#define BYTES                                                                \
    "graph bytes\n"                                                          \
    "input x: u8[1,16,6,6]\n"                                                \
    "constant w: i8[8,16,3,3] = hash \"00112233445566778899aabbccddeeff\"\n" \
    "constant z: u8[] = [7]\n"                                               \
    "y: i32[1,8,6,6] = conv_integer(x, w, z) pads=[1,1,1,1] kernel 1\n"      \
    "output y\n"

static const char *const compiler[] = {"gcc", "clang-19"};

/* A graph with drawn inputs and what they give. */
typedef struct network {
    kiln_arena *arena;
    kiln_graph *graph;
    kiln_tensor input[PORTS_MAX], wanted[PORTS_MAX];
    char *folder;
    kiln_static_c_sizes sizes;
} network;

static kiln_tensor value_like(const network *n, kiln_value value) {
    const kiln_value_info *info = &n->graph->value.data[value];
    return kiln_tensor_create(n->arena, info->dtype, &info->shape);
}

static network network_of(kiln_arena *arena, kiln_graph *graph) {
    network n = {.arena = arena, .graph = graph, .folder = make_folder(arena)};
    for (uint32_t i = 0; i < graph->input.count; i++) {
        n.input[i] = value_like(&n, graph->input.data[i]);
        kiln_fill_data(n.input[i].data, n.input[i].dtype,
                       (size_t)kiln_shape_count(&n.input[i].shape), 7 + i, KILN_FILL_UNIFORM);
    }
    expect_ok(kiln_graph_eval(graph, n.input, arena, n.wanted));
    return n;
}

static network digits(kiln_arena *arena) {
    kiln_graph *graph = NULL;
    expect_ok(kiln_import_file(DIGITS, NULL, arena, &graph));
    expect_ok(kiln_passes_run(graph, KILN_STR("")));
    return network_of(arena, graph);
}

static char *path_of(const network *n, const char *name) {
    return kiln_arena_printf(n->arena, "%s/%s", n->folder, name);
}

static void write_file(const network *n, const char *name, kiln_str text) {
    expect_ok(kiln_file_write(path_of(n, name), text, 0600));
}

static void emit(network *n, const char *target_text) {
    kiln_strbuf source = {0}, header = {0};
    kiln_module_bucket only = {0};
    const kiln_module_sizes module = {.bucket_count = 1, .bucket = &only};
    kiln_target target = target_of(n->arena, target_text);
    const kiln_pack_options options = {.model_name = KILN_STR("test"), .as_c = true};
    kiln_compilation *compilation = NULL;
    expect_ok(kiln_compilation_create(n->graph, &target, n->arena, &compilation));
    expect_ok(kiln_pack_plan(compilation, &options, n->arena, &only.plan, NULL));
    expect_ok(kiln_static_c(&module, KILN_STR("net"), n->arena, &source, &header, &n->sizes));
    write_file(n, "net.c", kiln_strbuf_view(&source));
    write_file(n, "net.h", kiln_strbuf_view(&header));
    kiln_strbuf_deinit(&source);
    kiln_strbuf_deinit(&header);
}

/* Output of a command that succeeds, in the network's folder. */
static kiln_str run(const network *n, const char *const *argv) {
    const kiln_proc_options options = {
        .argv = argv, .cwd = n->folder, .output_max = 1 << 20, .deadline_ns = 300000000000};
    kiln_proc_result result;
    expect_ok(kiln_proc_run(&options, n->arena, &result));
    if (result.exit_code != 0)
        fail_msg("%s ended with %d: %.2000s", argv[0], result.exit_code, result.err.data);
    return result.out;
}

static void expect_outputs(const network *n, const kiln_tensor *got) {
    for (uint32_t k = 0; k < n->graph->output.count; k++) {
        for (int64_t i = 0; i < kiln_shape_count(&n->wanted[k].shape); i++) {
            double a = kiln_dtype_load_f64(got[k].dtype, got[k].data, (size_t)i);
            double b = kiln_dtype_load_f64(n->wanted[k].dtype, n->wanted[k].data, (size_t)i);
            double difference = a > b ? a - b : b - a, size = b > 0 ? b : -b;
            if (!(difference <= 1e-4 * (size + 1)))
                fail_msg("output %u element %lld is %.9g, not %.9g", k, (long long)i, a, b);
        }
    }
}

/* ---- here ------------------------------------------------------------------------------------ */

typedef int (*entry)(const void *const *inputs, void *const *outputs);

/* Gives the library, to be closed. */
static void *run_here(network *n, const char *by) {
    const char *const build[] = {by,        "-std=c11",   "-O2",     "-Wall", "-Wextra",
                                 "-Werror", "-Wno-psabi", "-shared", "-fPIC", "-o",
                                 "net.so",  "net.c",      "-lm",     NULL};
    kiln_tensor got[PORTS_MAX];
    const void *in[PORTS_MAX];
    void *out[PORTS_MAX];
    run(n, build);
    void *library = dlopen(path_of(n, "net.so"), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    entry net_run = (entry)(uintptr_t)dlsym(library, "net_run");
    assert_non_null(net_run);
    for (uint32_t i = 0; i < n->graph->input.count; i++) in[i] = n->input[i].data;
    for (uint32_t i = 0; i < n->graph->output.count; i++) {
        got[i] = value_like(n, n->graph->output.data[i]);
        out[i] = got[i].data;
    }
    for (uint32_t round = 0; round < 2; round++) { /* the second finds what the first left */
        for (uint32_t i = 0; i < n->graph->output.count; i++)
            memset(got[i].data, 0x5a, kiln_tensor_bytes(&got[i]));
        assert_int_equal(net_run(in, out), 0);
        expect_outputs(n, got);
    }
    return library;
}

/* Text for other vectors is C all the same. */
static void expect_everywhere(network *n) {
    static const char *const target[] = {"x86-64", "x86-64-v3", "cortex-m7"};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(target); i++) {
        emit(n, target[i]);
        for (uint32_t k = 0; k < KILN_ARRAY_COUNT(compiler); k++) dlclose(run_here(n, compiler[k]));
    }
    remove_folder(n->folder);
}

static void digits_run_as_ordinary_c(void **state) {
    network n = digits(*state);
    expect_everywhere(&n);
}

static void a_convolution_runs_as_ordinary_c(void **state) {
    network n = network_of(*state, graph_of(*state, CONVOLUTION));
    expect_everywhere(&n);
}

static void aliases_copies_and_functions_run_as_ordinary_c(void **state) {
    network n = network_of(*state, graph_of(*state, SEVERAL_STEPS));
    expect_everywhere(&n);
}

/* Loops of the module's plan are loops of C: carried state, rows forwards and backwards, a layer
 * whose weights are packed. */
static void loops_run_as_ordinary_c(void **state) {
    static const char *const text[] = {LOOP_OF_ROWS, LOOP_OF_A_LAYER, LOOP_OVER_ITS_COUNT};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(text); i++) {
        network n = network_of(*state, graph_of(*state, text[i]));
        expect_everywhere(&n);
    }
}

/* A row behind another until the state is large: as many as have an element that is not zero. */
static void results_of_unknown_number_say_how_many_they_are(void **state) {
    network n = network_of(*state, graph_of(*state, LOOP_UNTIL_LARGE));
    const float *all = n.wanted[1].data;
    unsigned long wanted = 0;
    for (uint32_t i = 0; i < 20 * 10; i++)
        if (all[i] != 0) wanted = i / 10 + 1;
    assert_true(wanted > 1 && wanted < 20);
    emit(&n, "x86-64");
    for (uint32_t k = 0; k < KILN_ARRAY_COUNT(compiler); k++) {
        void *library = run_here(&n, compiler[k]);
        const unsigned long *rows = dlsym(library, "net_rows");
        assert_non_null(rows);
        assert_int_equal(rows[0], 10);
        assert_int_equal(rows[1], wanted);
        dlclose(library);
    }
    remove_folder(n.folder);
}

/* The same convolution once, and twice in a row. */
static void steps_with_the_same_weights_pack_them_once(void **state) {
    static const char text[] =
        "graph twice\ninput x: f32[1,16,8,8]\n"
        "constant w: f32[16,16,3,3] = hash \"00112233445566778899aabbccddeeff\"\n"
        "a: f32[1,16,8,8] = conv(x, w) pads=[1,1,1,1]\n"
        "b: f32[1,16,8,8] = conv(a, w) pads=[1,1,1,1]\noutput b\n";
    network n = network_of(*state, graph_of(*state, text));
    emit(&n, "x86-64");
    assert_true(n.sizes.packed_bytes == 16 * 16 * 3 * 3 * sizeof(float));
    dlclose(run_here(&n, compiler[0]));
    remove_folder(n.folder);
}

static void it_needs_no_allocation_no_files_and_no_threads(void **state) {
    static const char *const compile[] = {"gcc", "-O2", "-c", "-o", "net.o", "net.c", NULL};
    static const char *const list[] = {"nm", "-u", "net.o", NULL};
    static const char *const allowed[] = {"memcpy", "memset", "memmove"};
    network n = digits(*state);
    emit(&n, "x86-64");
    run(&n, compile);
    kiln_str rest = run(&n, list);
    while (rest.size) {
        kiln_str line = kiln_str_trim(kiln_str_cut(&rest, '\n'));
        bool known = line.size == 0;
        for (uint32_t i = 0; i < KILN_ARRAY_COUNT(allowed); i++)
            known |= kiln_str_ends(line, allowed[i]);
        if (!known) fail_msg("undefined: %.*s", KILN_STR_ARG(line));
    }
    remove_folder(n.folder);
}

static void digits_take_at_most_64_kb_beside_their_weights(void **state) {
    static const char *const compile[] = {"gcc", "-O2", "-c", "-o", "net.o", "net.c", NULL};
    static const char *const size[] = {"size", "net.o", NULL};
    network n = digits(*state);
    emit(&n, "x86-64");
    run(&n, compile);
    kiln_str out = run(&n, size);
    kiln_str_cut(&out, '\n'); /* the heading; code and constants come first */
    kiln_str text = kiln_str_trim(out);
    uint64_t bytes = 0;
    text.size = strcspn(text.data, " \t");
    assert_true(kiln_str_to_u64(text, &bytes));
    assert_true(n.sizes.constant_bytes > 90000 && bytes > n.sizes.constant_bytes);
    assert_true(bytes - n.sizes.constant_bytes <= 64 << 10);
    remove_folder(n.folder);
}

/* Gives the plan's first kernel a cluster. */
static void spoil_kernel(kiln_module_plan *plan, kiln_arena *arena) {
    kiln_artefact artefact;
    kiln_strbuf bytes = {0};
    expect_ok(kiln_artefact_decode(plan->kernel[0], arena, &artefact));
    kiln_manifest_launch *launch = kiln_arena_copy(arena, artefact.manifest.launch,
                                                   artefact.manifest.launch_count * sizeof *launch);
    launch[0].grid[0] = launch[0].cluster = 2;
    artefact.manifest.launch = launch;
    kiln_artefact_encode(&artefact, &bytes);
    kiln_str *kernel = kiln_arena_copy(arena, plan->kernel, plan->kernel_count * sizeof *kernel);
    kernel[0] = kiln_strbuf_end(&bytes, arena);
    plan->kernel = kernel;
}

static void kernels_with_clusters_are_refused(void **state) {
    kiln_strbuf source = {0}, header = {0};
    kiln_static_c_sizes sizes;
    static const char *const target_text[] = {"x86-64", "wasm"};
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(target_text); i++) {
        kiln_module_bucket only = {0};
        const kiln_module_sizes module = {.bucket_count = 1, .bucket = &only};
        kiln_target target = target_of(*state, target_text[i]);
        const kiln_pack_options options = {.model_name = KILN_STR("test"), .as_c = i == 0};
        kiln_compilation *compilation = NULL;
        expect_ok(
            kiln_compilation_create(graph_of(*state, CONVOLUTION), &target, *state, &compilation));
        expect_ok(kiln_pack_plan(compilation, &options, *state, &only.plan, NULL));
        spoil_kernel(&only.plan, *state);
        kiln_status st =
            i == 0 ? kiln_static_c(&module, KILN_STR("net"), *state, &source, &header, &sizes)
                   : kiln_wasm_module_encode(&module, *state, &source);
        expect_error(st, UNIMPLEMENTED,
                     i == 0 ? "kernel 0: launch 0 has clusters of 2 groups and 0 tensor maps; "
                              "static C runs neither"
                            : "WebAssembly runs neither clusters nor tensor maps");
    }
    kiln_strbuf_deinit(&source);
    kiln_strbuf_deinit(&header);
}

static void a_plan_of_objects_is_refused(void **state) {
    kiln_strbuf source = {0}, header = {0};
    kiln_module_bucket only = {0};
    const kiln_module_sizes module = {.bucket_count = 1, .bucket = &only};
    kiln_static_c_sizes sizes;
    kiln_target target = target_of(*state, "x86-64");
    const kiln_pack_options options = {.model_name = KILN_STR("test")};
    kiln_compilation *compilation = NULL;
    expect_ok(
        kiln_compilation_create(graph_of(*state, CONVOLUTION), &target, *state, &compilation));
    expect_ok(kiln_pack_plan(compilation, &options, *state, &only.plan, NULL));
    expect_error(kiln_static_c(&module, KILN_STR("net"), *state, &source, &header, &sizes),
                 UNIMPLEMENTED, "is no C text");
    only.plan.threads = 2;
    expect_error(kiln_static_c(&module, KILN_STR("net"), *state, &source, &header, &sizes),
                 UNIMPLEMENTED, "has no threads");
    assert_int_equal(source.size + header.size, 0);
}

/* ---- a Cortex-M ------------------------------------------------------------------------------ */

static void append_array(kiln_strbuf *text, const char *what, uint32_t index,
                         const kiln_tensor *value, bool with_data) {
    const uint8_t *data = value->data;
    size_t bytes = kiln_tensor_bytes(value);
    kiln_strbuf_printf(text, "static %s_Alignas(64) unsigned char %s%u[%zu]%s",
                       with_data ? "const " : "", what, index, bytes, with_data ? " = {" : ";\n");
    for (size_t i = 0; with_data && i < bytes; i++) kiln_strbuf_printf(text, "%u,", data[i]);
    if (with_data) kiln_strbuf_text(text, "};\n");
}

/* Inputs, and room for outputs. */
static void write_data(const network *n) {
    kiln_strbuf text = {0};
    kiln_strbuf_text(&text, "#include <stdint.h>\n");
    for (uint32_t i = 0; i < n->graph->input.count; i++)
        append_array(&text, "in", i, &n->input[i], true);
    for (uint32_t i = 0; i < n->graph->output.count; i++)
        append_array(&text, "out", i, &n->wanted[i], false);
    kiln_strbuf_text(&text, "static const void *const inputs[] = {");
    for (uint32_t i = 0; i < n->graph->input.count; i++) kiln_strbuf_printf(&text, "in%u,", i);
    kiln_strbuf_text(&text, "};\nstatic void *const outputs[] = {");
    for (uint32_t i = 0; i < n->graph->output.count; i++) kiln_strbuf_printf(&text, "out%u,", i);
    kiln_strbuf_text(&text, "};\nstatic const uint32_t output_bytes[] = {");
    for (uint32_t i = 0; i < n->graph->output.count; i++)
        kiln_strbuf_printf(&text, "%zu,", kiln_tensor_bytes(&n->wanted[i]));
    kiln_strbuf_text(&text, "};\n");
    write_file(n, "data.h", kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
}

static uint8_t hex_digit(char c) { return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10); }

static void take_outputs(const network *n, kiln_str lines, kiln_tensor *got) {
    for (uint32_t k = 0; k < n->graph->output.count; k++) {
        kiln_str line = kiln_str_trim(kiln_str_cut(&lines, '\n'));
        got[k] = value_like(n, n->graph->output.data[k]);
        size_t bytes = kiln_tensor_bytes(&got[k]);
        if (line.size != 2 * bytes) fail_msg("output %u: %.*s", k, KILN_STR_ARG(line));
        for (size_t i = 0; i < bytes; i++)
            ((uint8_t *)got[k].data)[i] =
                (uint8_t)(hex_digit(line.data[2 * i]) << 4 | hex_digit(line.data[2 * i + 1]));
    }
}

static bool is_installed(const network *n, const char *program) {
    const char *const argv[] = {program, "--version", NULL};
    const kiln_proc_options options = {.argv = argv, .output_max = 4096};
    kiln_proc_result result;
    kiln_status st = kiln_proc_run(&options, n->arena, &result);
    bool found = st == NULL && result.exit_code == 0;
    kiln_status_free(st);
    return found;
}

typedef struct board {
    const char *machine, *processor, *triple; /* of qemu-system-arm; of the compiler */
} board;

static const board cortex_m7 = {"mps2-an500", "cortex-m7", "thumbv7em-none-eabihf"},
                   cortex_m55 = {"mps3-an547", "cortex-m55", "thumbv8.1m.main-none-eabihf"};

/* `calls`: what is in the text for the target; NULL: anything. */
static void expect_on(const board *b, network *n, const char *target_text, const char *calls) {
    static const char *const link[] = {"ld.lld-19", "-T",         "cortex_m.ld", "-o",
                                       "net.elf",   "cortex_m.o", "net.o",       NULL};
    const char *const boot[] = {ENDS_WITH_US,
                                "qemu-system-arm",
                                "-machine",
                                b->machine,
                                "-cpu",
                                b->processor,
                                "-display",
                                "none",
                                "-monitor",
                                "none",
                                "-serial",
                                "none",
                                "-chardev",
                                "stdio,id=out",
                                "-semihosting-config",
                                "enable=on,target=native,chardev=out",
                                "-kernel",
                                "net.elf",
                                NULL};
    static const char *const copied[] = {"cortex_m.c", "cortex_m.ld"};
    kiln_tensor got[PORTS_MAX];
    if (!is_installed(n, "qemu-system-arm")) {
        remove_folder(n->folder);
        skip_because("no qemu-system-arm: install qemu-system-arm");
    }
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(copied); i++) {
        kiln_str text;
        expect_ok(kiln_file_read(kiln_arena_printf(n->arena, "tests/boards/%s", copied[i]), 1 << 20,
                                 n->arena, &text));
        write_file(n, copied[i], text);
    }
    emit(n, target_text);
    if (calls) {
        kiln_str text;
        expect_ok(kiln_file_read(path_of(n, "net.c"), 1 << 20, n->arena, &text));
        assert_non_null(strstr(text.data, calls));
    }
    write_data(n);
    for (uint32_t i = 0; i < 2; i++) {
        const char *const compile[] = {"clang-19",
                                       kiln_arena_printf(n->arena, "--target=%s", b->triple),
                                       kiln_arena_printf(n->arena, "-mcpu=%s", b->processor),
                                       "-std=c11",
                                       "-O2",
                                       "-Wall",
                                       "-Werror",
                                       "-ffreestanding",
                                       "-c",
                                       i ? "cortex_m.c" : "net.c",
                                       i ? "-include" : NULL,
                                       "data.h",
                                       "-include",
                                       "net.h",
                                       NULL};
        run(n, compile);
    }
    run(n, link);
    take_outputs(n, run(n, boot), got);
    expect_outputs(n, got);
    remove_folder(n->folder);
}

static void digits_run_on_a_cortex_m(void **state) {
    network n = digits(*state);
    expect_on(&cortex_m7, &n, "cortex-m7", NULL);
}

static void a_convolution_runs_on_a_cortex_m(void **state) {
    network n = network_of(*state, graph_of(*state, CONVOLUTION));
    expect_on(&cortex_m7, &n, "cortex-m7", NULL);
}

static void bytes_are_multiplied_in_pairs(void **state) {
    network n = network_of(*state, graph_of(*state, BYTES));
    expect_on(&cortex_m7, &n, "cortex-m7", "SMLAD(v");
}

static void bytes_are_multiplied_in_whole_vectors(void **state) {
    network n = network_of(*state, graph_of(*state, BYTES));
    expect_on(&cortex_m55, &n, "cortex-m55", "vmlava_s8(&v");
}

static void text_for_vectors_runs_on_a_cortex_m(void **state) {
    network n = digits(*state);
    expect_on(&cortex_m55, &n, "x86-64", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(digits_run_as_ordinary_c),
        test_with_arena(a_convolution_runs_as_ordinary_c),
        test_with_arena(aliases_copies_and_functions_run_as_ordinary_c),
        test_with_arena(loops_run_as_ordinary_c),
        test_with_arena(results_of_unknown_number_say_how_many_they_are),
        test_with_arena(steps_with_the_same_weights_pack_them_once),
        test_with_arena(it_needs_no_allocation_no_files_and_no_threads),
        test_with_arena(digits_take_at_most_64_kb_beside_their_weights),
        test_with_arena(kernels_with_clusters_are_refused),
        test_with_arena(a_plan_of_objects_is_refused),
        test_with_arena(digits_run_on_a_cortex_m),
        test_with_arena(a_convolution_runs_on_a_cortex_m),
        test_with_arena(bytes_are_multiplied_in_pairs),
        test_with_arena(bytes_are_multiplied_in_whole_vectors),
        test_with_arena(text_for_vectors_runs_on_a_cortex_m),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
