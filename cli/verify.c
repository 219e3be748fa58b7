#include "cli/verify.h"

#include <float.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "deploy/pack/pack.h"
#include "deploy/run/run.h"

#define FILES_MAX 256u

typedef struct data_set {
    uint32_t input_count, output_count;
    kiln_named_tensor input[FILES_MAX], output[FILES_MAX];
} data_set;

const char *kiln_verdict_name(kiln_verdict verdict) {
    static const char *const name[] = {[KILN_VERDICT_PASSED] = "passed",
                                       [KILN_VERDICT_FAILED] = "FAILED",
                                       [KILN_VERDICT_UNSUPPORTED] = "unsupported"};
    return name[verdict];
}

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
                                            kiln_str name) {
    for (uint32_t i = 0; i < count; i++)
        if (kiln_str_equal(list[i].name, name)) return &list[i];
    return NULL;
}

static bool find_output(const kiln_graph *graph, kiln_str name, uint32_t *out_index) {
    for (uint32_t i = 0; i < graph->output.count; i++) {
        if (!kiln_str_equal(name, graph->value.data[graph->output.data[i]].name)) continue;
        *out_index = i;
        return true;
    }
    return false;
}

static bool same_output(const kiln_graph *graph, const kiln_named_tensor *expected, void **outputs,
                        bool single, kiln_strbuf *why) {
    uint32_t index = 0;
    if (!find_output(graph, expected->name, &index)) {
        kiln_strbuf_printf(why, "the module has no output %.*s", KILN_STR_ARG(expected->name));
        return false;
    }
    const kiln_value_info *port = &graph->value.data[graph->output.data[index]];
    kiln_tensor actual = {port->dtype, port->shape, outputs[index]};
    kiln_tensor wanted = as_dtype(expected->tensor, actual.dtype);
    if (actual.dtype != wanted.dtype || !kiln_shape_equal(&actual.shape, &wanted.shape)) {
        kiln_strbuf_printf(why, "output %.*s: the dtype or shape differs",
                           KILN_STR_ARG(port->name));
        return false;
    }
    kiln_strbuf detail = {0};
    bool right = same(&actual, &wanted, single, &detail);
    if (!right) kiln_strbuf_printf(why, "output %.*s: %s", KILN_STR_ARG(port->name), detail.data);
    kiln_strbuf_deinit(&detail);
    return right;
}

static bool same_outputs(const kiln_graph *graph, const data_set *data, void **outputs, bool single,
                         kiln_strbuf *why) {
    for (uint32_t i = 0; i < data->output_count; i++)
        if (!same_output(graph, &data->output[i], outputs, single, why)) return false;
    return true;
}

static void *make_buffer(const kiln_value_info *value, kiln_arena *arena) {
    const size_t bytes = (size_t)kiln_shape_count(&value->shape) * kiln_dtype_size(value->dtype);
    return kiln_arena_alloc_aligned(arena, 64, bytes);
}

/* Data for an input that nothing reads need not fit (CastLike reads no more than a type). */
static kiln_status find_inputs(const kiln_graph *graph, const data_set *data, kiln_arena *arena,
                               const void **inputs) {
    const uint32_t *uses = kiln_graph_count_uses(graph, arena);
    for (uint32_t i = 0; i < graph->input.count; i++) {
        const kiln_value_info *port = &graph->value.data[graph->input.data[i]];
        const kiln_named_tensor *given = find_tensor(data->input, data->input_count, port->name);
        if (uses[graph->input.data[i]] == 0) {
            inputs[i] = make_buffer(port, arena);
            continue;
        }
        if (!given)
            return KILN_ERROR(INVALID_ARGUMENT, "the data set has no input %.*s",
                              KILN_STR_ARG(port->name));
        kiln_tensor tensor = as_dtype(given->tensor, port->dtype);
        if (tensor.dtype != port->dtype || !kiln_shape_equal(&tensor.shape, &port->shape))
            return KILN_ERROR(INVALID_ARGUMENT,
                              "input %.*s of the data set has another dtype or shape than the "
                              "model's",
                              KILN_STR_ARG(port->name));
        inputs[i] = tensor.data;
    }
    return KILN_OK;
}

/* ---- one case -------------------------------------------------------------------------------- */

kiln_status kiln_verify_here(void *context, kiln_str bytes, const void *const *inputs,
                             void *const *outputs) {
    (void)context;
    kiln_arena arena;
    kiln_module *module = NULL;
    char error[KILN_MODULE_ERROR_BYTES] = "";
    kiln_arena_init(&arena, 0);
    void *aligned = kiln_arena_alloc_aligned(&arena, 4096, bytes.size);
    memcpy(aligned, bytes.data, bytes.size);
    kiln_status st = KILN_OK;
    if (kiln_module_open_memory(aligned, bytes.size, NULL, &module, error, sizeof error))
        st = KILN_ERROR(INTERNAL, "%s", error);
    else if (kiln_module_run(module, inputs, outputs))
        st = KILN_ERROR(INTERNAL, "%s", kiln_module_error(module));
    kiln_module_close(module);
    kiln_arena_deinit(&arena);
    return st;
}

/* Inputs that become constants differ between data sets, so each data set gets its own module. */
static kiln_status check_data_set(const char *model, const data_set *data, bool single,
                                  const kiln_verify_options *how, kiln_arena *arena, bool *out_same,
                                  kiln_strbuf *why) {
    kiln_onnx_options options = how->onnx;
    options.known_count = data->input_count;
    options.known = data->input;
    kiln_graph *graph = NULL;
    kiln_strbuf bytes = {0};
    kiln_status st = kiln_onnx_load(model, &options, arena, &graph);
    if (!st) st = kiln_passes_run(graph, KILN_STR(""));
    kiln_pack_options pack = {.target = how->target, .model_name = kiln_str_from(model)};
    if (!st) st = kiln_pack(graph, &pack, arena, &bytes, NULL);
    const void **inputs = st ? NULL : KILN_ARENA_ARRAY(arena, const void *, graph->input.count);
    void **outputs = st ? NULL : KILN_ARENA_ARRAY(arena, void *, graph->output.count);
    if (!st) st = find_inputs(graph, data, arena, inputs);
    for (uint32_t i = 0; !st && i < graph->output.count; i++)
        outputs[i] = make_buffer(&graph->value.data[graph->output.data[i]], arena);
    if (!st) st = how->run(how->context, kiln_strbuf_view(&bytes), inputs, outputs);
    if (!st) *out_same = same_outputs(graph, data, outputs, single, why);
    kiln_strbuf_deinit(&bytes);
    return st;
}

static kiln_status check_case(const char *folder, const kiln_verify_options *options,
                              kiln_arena *arena, kiln_verdict *out_verdict, kiln_strbuf *why) {
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
            st = check_data_set(model, data, ports.node_count == 1, options, arena, &right, why);
    }
    if (!st && sets == 0) st = KILN_ERROR(NOT_FOUND, "%s has no test_data_set_0", folder);
    if (!st) *out_verdict = right ? KILN_VERDICT_PASSED : KILN_VERDICT_FAILED;
    return st;
}

kiln_verdict kiln_verify_case(const char *folder, const kiln_verify_options *options,
                              kiln_strbuf *out_why) {
    kiln_arena arena;
    kiln_arena_init(&arena, (size_t)1 << 20);
    kiln_verdict v = KILN_VERDICT_FAILED;
    kiln_status st = check_case(folder, options, &arena, &v, out_why);
    if (st) {
        v = kiln_status_code(st) == KILN_UNIMPLEMENTED ? KILN_VERDICT_UNSUPPORTED
                                                       : KILN_VERDICT_FAILED;
        kiln_strbuf_reset(out_why);
        kiln_strbuf_text(out_why, kiln_status_text(st));
        kiln_status_free(st);
    }
    kiln_arena_deinit(&arena);
    return v;
}
