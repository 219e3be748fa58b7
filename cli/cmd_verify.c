/* Compiles models in the layout of ONNX's backend tests with their default schedules, runs them,
 * and compares every output with the expected one:
 *
 *     MODEL-DIR/model.onnx
 *     MODEL-DIR/test_data_set_K/{input,output}_N.pb */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cli/cli.h"
#include "deploy/run/run.h"
#include "deploy/pack/pack.h"

#define FILES_MAX 256u

typedef enum verdict { PASSED, FAILED, UNSUPPORTED } verdict;

typedef struct tally {
    uint32_t passed, failed, unsupported;
    uint32_t bound; /* passed with an input bound as a constant */
    bool json, quiet;
    kiln_onnx_options onnx; /* sizes of open dimensions */
} tally;

typedef struct data_set {
    uint32_t input_count, output_count;
    kiln_named_tensor input[FILES_MAX], output[FILES_MAX];
} data_set;

/* ---- reading --------------------------------------------------------------------------------- */

static kiln_status read_files(const char *folder, const char *kind, kiln_arena *arena,
                              kiln_named_tensor *out, uint32_t *out_count) {
    kiln_status st = KILN_OK;
    uint32_t i = 0;
    for (; !st && i < FILES_MAX; i++) {
        char *path = kiln_arena_printf(arena, "%s/%s_%u.pb", folder, kind, i);
        if (!kiln_file_exists(path)) break;
        st = kiln_onnx_tensor_load(path, arena, &out[i]);
    }
    *out_count = i;
    return st;
}

/* Files are in the order of the model's ports; their own names may be empty. */
static kiln_status read_data_set(const char *folder, const kiln_onnx_ports *ports,
                                 kiln_arena *arena, data_set *out) {
    kiln_status st = read_files(folder, "input", arena, out->input, &out->input_count);
    if (!st) st = read_files(folder, "output", arena, out->output, &out->output_count);
    if (!st && out->input_count > ports->input_count)
        st = KILN_ERROR(INVALID_ARGUMENT, "%s has %u inputs, the model %u", folder,
                        out->input_count, ports->input_count);
    for (uint32_t i = 0; !st && i < out->input_count; i++) out->input[i].name = ports->input[i];
    for (uint32_t i = 0; !st && i < out->output_count && i < ports->output_count; i++)
        out->output[i].name = ports->output[i];
    return st;
}

/* A model that is not supported anyway may come with data of kinds that cannot be read (sequences,
 * optional values): then the model is what to report. */
static kiln_status blame_model(const char *model, kiln_status data_error, kiln_arena *arena) {
    kiln_graph *graph = NULL;
    kiln_status st = kiln_onnx_load(model, NULL, arena, &graph);
    if (kiln_status_code(st) != KILN_UNIMPLEMENTED) {
        kiln_status_free(st);
        return data_error;
    }
    kiln_status_free(data_error);
    return st;
}

/* Data sets store bfloat16 as the uint16 of its bits. */
static kiln_tensor as_dtype(kiln_tensor tensor, kiln_dtype wanted) {
    if (wanted == KILN_BF16 && tensor.dtype == KILN_U16) tensor.dtype = KILN_BF16;
    return tensor;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* design: single operators rtol 1e-3, atol 1e-7 (fp16 2e-2); whole models against the largest
 * value, and the direction of the whole output. */
static bool same(const kiln_tensor *actual, const kiln_tensor *expected, bool single,
                 kiln_strbuf *why) {
    bool half = expected->dtype == KILN_F16 || expected->dtype == KILN_BF16;
    bool is_float = kiln_dtype_is_float(expected->dtype);
    double rtol = half ? 2e-2 : 1e-3;
    if (single || !is_float) {
        double atol = is_float ? (half ? 2e-2 : 1e-7) : (single ? 0 : 1);
        kiln_compare c = kiln_tensor_compare(actual, expected, is_float ? rtol : 0, atol);
        if (c.mismatches)
            kiln_strbuf_printf(why, "%zu elements differ, by at most %.3g, first at %zu",
                               c.mismatches, c.max_abs, c.first_index);
        return c.mismatches == 0;
    }
    kiln_compare c = kiln_tensor_compare(actual, expected, 0, DBL_MAX); /* NaN and infinity only */
    bool near = c.max_abs <= rtol * KILN_MAX(1e-6, c.max_ref) &&
                (c.cosine >= 0.9999 || c.max_ref == 0 || c.max_abs == 0) && c.mismatches == 0;
    if (!near)
        kiln_strbuf_printf(why, "max |a-r| %.3g of max |r| %.3g, cosine %.6f", c.max_abs, c.max_ref,
                           c.cosine);
    return near;
}

static const kiln_named_tensor *find_tensor(const kiln_named_tensor *list, uint32_t count,
                                            const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (kiln_str_is(list[i].name, name)) return &list[i];
    return NULL;
}

static const kiln_module_port *find_output(const kiln_module *module, kiln_str name,
                                           uint32_t *out_index) {
    for (uint32_t i = 0; i < kiln_module_output_count(module); i++) {
        const kiln_module_port *port = kiln_module_output(module, i);
        if (!kiln_str_is(name, port->name)) continue;
        *out_index = i;
        return port;
    }
    return NULL;
}

static bool same_output(const kiln_module *module, const kiln_named_tensor *expected,
                        void **outputs, bool single, kiln_strbuf *why) {
    uint32_t index = 0;
    const kiln_module_port *port = find_output(module, expected->name, &index);
    if (!port) {
        kiln_strbuf_printf(why, "the module has no output %.*s", KILN_STR_ARG(expected->name));
        return false;
    }
    kiln_tensor actual = {(kiln_dtype)port->dtype, kiln_port_shape(port), outputs[index]};
    kiln_tensor wanted = as_dtype(expected->tensor, actual.dtype);
    if (actual.dtype != wanted.dtype || !kiln_shape_equal(&actual.shape, &wanted.shape)) {
        kiln_strbuf_printf(why, "output %s: the dtype or shape differs", port->name);
        return false;
    }
    kiln_strbuf detail = {0};
    bool right = same(&actual, &wanted, single, &detail);
    if (!right) kiln_strbuf_printf(why, "output %s: %s", port->name, detail.data);
    kiln_strbuf_deinit(&detail);
    return right;
}

static bool same_outputs(const kiln_module *module, const data_set *data, void **outputs,
                         bool single, kiln_strbuf *why) {
    for (uint32_t i = 0; i < data->output_count; i++)
        if (!same_output(module, &data->output[i], outputs, single, why)) return false;
    return true;
}

/* `uses`: how often the graph reads each of its values. Data for an input that nothing reads need
 * not fit (CastLike reads no more than a type). */
static kiln_status run_data_set(kiln_module *module, const kiln_graph *graph, const data_set *data,
                                bool single, kiln_arena *arena, bool *out_same, kiln_strbuf *why) {
    const uint32_t *uses = kiln_graph_count_uses(graph, arena);
    uint32_t input_count = kiln_module_input_count(module),
             output_count = kiln_module_output_count(module);
    const void **inputs = KILN_ARENA_ARRAY(arena, const void *, input_count);
    void **outputs = KILN_ARENA_ARRAY(arena, void *, output_count);
    for (uint32_t i = 0; i < input_count; i++) {
        const kiln_module_port *port = kiln_module_input(module, i);
        const kiln_named_tensor *given = find_tensor(data->input, data->input_count, port->name);
        kiln_shape shape = kiln_port_shape(port);
        if (uses[graph->input.data[i]] == 0) {
            inputs[i] = kiln_arena_alloc_aligned(arena, 64, port->size_bytes);
            continue;
        }
        if (!given) return KILN_ERROR(INVALID_ARGUMENT, "the data set has no input %s", port->name);
        kiln_tensor tensor = as_dtype(given->tensor, (kiln_dtype)port->dtype);
        if (tensor.dtype != (kiln_dtype)port->dtype || !kiln_shape_equal(&tensor.shape, &shape))
            return KILN_ERROR(
                INVALID_ARGUMENT,
                "input %s of the data set has another dtype or shape than the model's", port->name);
        inputs[i] = tensor.data;
    }
    for (uint32_t i = 0; i < output_count; i++)
        outputs[i] = kiln_arena_alloc_aligned(arena, 64, kiln_module_output(module, i)->size_bytes);
    if (kiln_module_run(module, inputs, outputs))
        return KILN_ERROR(INTERNAL, "%s", kiln_module_error(module));
    *out_same = same_outputs(module, data, outputs, single, why);
    return KILN_OK;
}

/* ---- one case -------------------------------------------------------------------------------- */

/* Inputs that become constants differ between data sets, so each data set gets its own module. */
static kiln_status check_data_set(const char *model, const data_set *data, bool single,
                                  kiln_onnx_options options, kiln_arena *arena, bool *out_same,
                                  kiln_strbuf *why) {
    options.known_count = data->input_count;
    options.known = data->input;
    kiln_graph *graph = NULL;
    kiln_target target;
    kiln_module *module = NULL;
    kiln_strbuf bytes = {0};
    char error[KILN_MODULE_ERROR_BYTES] = "";
    kiln_status st = kiln_onnx_load(model, &options, arena, &graph);
    if (!st) st = kiln_passes_run(graph, KILN_STR(""));
    if (!st) st = kiln_target_native(arena, &target);
    kiln_pack_options pack = {.target = &target, .model_name = kiln_str_from(model)};
    if (!st) st = kiln_pack(graph, &pack, arena, &bytes, NULL);
    void *aligned = st ? NULL : kiln_arena_alloc_aligned(arena, 4096, bytes.size);
    if (!st) memcpy(aligned, bytes.data, bytes.size);
    if (!st && kiln_module_open_memory(aligned, bytes.size, NULL, &module, error, sizeof error))
        st = KILN_ERROR(INTERNAL, "%s", error);
    if (!st) st = run_data_set(module, graph, data, single, arena, out_same, why);
    kiln_module_close(module);
    kiln_strbuf_deinit(&bytes);
    return st;
}

static kiln_status check_case(const char *folder, const kiln_onnx_options *options,
                              kiln_arena *arena, verdict *out_verdict, kiln_strbuf *why) {
    char *model = kiln_arena_printf(arena, "%s/model.onnx", folder);
    kiln_onnx_ports ports;
    uint32_t sets = 0;
    bool right = true;
    kiln_status st = kiln_onnx_ports_read(model, arena, &ports);
    data_set *data = KILN_ARENA_NEW(arena, data_set);
    for (; !st && right; sets++) {
        char *path = kiln_arena_printf(arena, "%s/test_data_set_%u", folder, sets);
        if (!kiln_file_is_folder(path)) break;
        memset(data, 0, sizeof *data);
        st = read_data_set(path, &ports, arena, data);
        if (st)
            st = blame_model(model, st, arena);
        else
            st = check_data_set(model, data, ports.node_count == 1, *options, arena, &right, why);
    }
    if (!st && sets == 0) st = KILN_ERROR(NOT_FOUND, "%s has no test_data_set_0", folder);
    if (!st) *out_verdict = right ? PASSED : FAILED;
    return st;
}

static const char *name_of(const char *folder, kiln_arena *arena) {
    kiln_str name = kiln_str_from(folder);
    while (name.size > 1 && name.data[name.size - 1] == '/') name.size--;
    for (size_t i = name.size; i > 0; i--)
        if (name.data[i - 1] == '/') return kiln_str_dup(arena, kiln_str_slice(name, i, name.size));
    return kiln_str_dup(arena, name);
}

static void print_case(const tally *t, const char *name, verdict v, const char *why) {
    static const char *const word[] = {
        [PASSED] = "passed", [FAILED] = "FAILED", [UNSUPPORTED] = "unsupported"};
    if (t->json) {
        kiln_json_line(json_pack("{s:s, s:s, s:s, s:s}", "event", "case", "name", name, "verdict",
                                 word[v], "why", why));
    } else if (!t->quiet || v == FAILED) {
        printf("%-11s %s%s%s\n", word[v], name, why[0] ? ": " : "", why);
        fflush(stdout);
    }
}

static void verify_one(const char *folder, tally *t) {
    kiln_arena arena;
    kiln_arena_init(&arena, (size_t)1 << 20);
    verdict v = FAILED;
    uint32_t bound = 0;
    kiln_strbuf why = {0};
    kiln_strbuf_text(&why, "");
    kiln_onnx_options options = t->onnx;
    options.out_bound_count = &bound;
    kiln_status st = check_case(folder, &options, &arena, &v, &why);
    if (st) {
        v = kiln_status_code(st) == KILN_UNIMPLEMENTED ? UNSUPPORTED : FAILED;
        kiln_strbuf_reset(&why);
        kiln_strbuf_text(&why, kiln_status_text(st));
        kiln_status_free(st);
    }
    t->passed += v == PASSED;
    t->failed += v == FAILED;
    t->unsupported += v == UNSUPPORTED;
    t->bound += v == PASSED && bound > 0;
    print_case(t, name_of(folder, &arena), v, why.data ? why.data : "");
    kiln_strbuf_deinit(&why);
    kiln_arena_deinit(&arena);
}

kiln_status kiln_cmd_verify(kiln_arena *process, int argc, char **argv) {
    tally t = {0};
    kiln_opt_list dim = {0};
    const kiln_opt option[] = {
        {"dim", KILN_OPT_LIST, &dim, "NAME=N", kiln_dim_help},
        {"quiet", KILN_OPT_FLAG, &t.quiet, NULL, "print only failures and the last line"},
        {"json", KILN_OPT_FLAG, &t.json, NULL, "print one object per case"},
    };
    const kiln_opt_table table = {
        "kiln verify MODEL-DIR...",
        "Compiles models in the layout of ONNX's backend tests and compares their outputs with the "
        "expected ones.",
        option,
        KILN_ARRAY_COUNT(option),
        1,
        SIZE_MAX};
    kiln_args args;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    st = kiln_dim_option(&dim, process, &t.onnx);
    if (st) return st;
    for (size_t i = 0; i < args.count; i++) {
        kiln_arena scratch;
        kiln_arena_init(&scratch, 0);
        bool there =
            kiln_file_exists(kiln_arena_printf(&scratch, "%s/model.onnx", args.positional[i]));
        kiln_arena_deinit(&scratch);
        if (!there)
            return KILN_ERROR(INVALID_ARGUMENT, "%s holds no model.onnx", args.positional[i]);
    }
    for (size_t i = 0; i < args.count; i++) verify_one(args.positional[i], &t);
    if (t.json)
        kiln_json_line(json_pack("{s:s, s:i, s:i, s:i, s:i}", "event", "verify", "passed",
                                 (int)t.passed, "failed", (int)t.failed, "unsupported",
                                 (int)t.unsupported, "bound", (int)t.bound));
    else if (t.bound)
        printf("%u of the passed cases have inputs bound as constants\n", t.bound);
    if (!t.json)
        printf("verify: %u passed, %u failed, %u unsupported\n", t.passed, t.failed, t.unsupported);
    return t.failed
               ? KILN_ERROR(FAILED_PRECONDITION, "%u of %zu cases failed", t.failed, args.count)
               : KILN_OK;
}
