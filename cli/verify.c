#include "cli/verify.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/small_float.h"
#include "cli/common/model_work.h"
#include "deploy/pack/pack.h"
#include "deploy/pack/static_c.h"
#include "deploy/run/run.h"

const char *kiln_verdict_name(kiln_verdict verdict) {
    static const char *const name[] = {[KILN_VERDICT_PASSED] = "passed",
                                       [KILN_VERDICT_FAILED] = "FAILED",
                                       [KILN_VERDICT_UNSUPPORTED] = "unsupported"};
    return name[verdict];
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A model that is not supported anyway may come with data of kinds that cannot be read (sequences,
 * optional values): then the model is what to report. */
static kiln_status blame_model(const char *model, kiln_status data_error, kiln_arena *arena) {
    kiln_graph *graph = NULL;
    kiln_mapping constants = {0};
    kiln_status st = kiln_import_isolated(model, NULL, arena, &graph, &constants);
    kiln_file_unmap(&constants);
    if (kiln_status_code(st) != KILN_UNIMPLEMENTED) {
        kiln_status_free(st);
        return data_error;
    }
    kiln_status_free(data_error);
    return st;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* What an output is compared by. */
typedef struct rule {
    bool single; /* the model is one operator */
    kiln_rounding rounding;
} rule;

static bool same_elements(const kiln_tensor *actual, const kiln_tensor *expected, double rtol,
                          double atol, kiln_strbuf *why) {
    kiln_compare c = kiln_tensor_compare(actual, expected, rtol, atol);
    if (c.mismatches)
        kiln_strbuf_printf(why, "%zu elements differ, by at most %.3g, first at %zu", c.mismatches,
                           c.max_abs, c.first_index);
    return c.mismatches == 0;
}

/* Errors add up in a model: against the largest value, and the direction of the whole output. */
static bool same_whole(const kiln_tensor *actual, const kiln_tensor *expected, double rtol,
                       double quantum, kiln_strbuf *why) {
    kiln_compare c = kiln_tensor_compare(actual, expected, 0, DBL_MAX); /* NaN and infinity only */
    const double limit = rtol * KILN_MAX(1e-6, c.max_ref);
    bool near = c.max_abs <= limit && (c.cosine >= 0.9999 || c.max_ref == 0 || c.max_abs == 0);
    bool right = c.mismatches == 0 && (near || (quantum > 0 && c.max_abs <= quantum + limit));
    if (!right)
        kiln_strbuf_printf(why, "max |a-r| %.3g of max |r| %.3g, cosine %.6f", c.max_abs, c.max_ref,
                           c.cosine);
    return right;
}

/* What a single element may be off by near 0. Where terms cancel each other out, the expected f32
 * itself is off by a unit in the last place of the terms, which are about as large as the largest
 * element. */
static double near_zero(const kiln_tensor *expected) {
    if (expected->dtype != KILN_F32) return 1e-7;
    return KILN_MAX(1e-7,
                    (double)FLT_EPSILON * kiln_tensor_compare(expected, expected, 0, 0).max_ref);
}

/* The rule is told by `kiln verify --help` and docs/decisions/0015-what-verify-accepts.md. */
static bool same(const kiln_tensor *actual, const kiln_tensor *expected, const rule *by,
                 kiln_strbuf *why) {
    if (!kiln_dtype_is_float(expected->dtype))
        return same_elements(actual, expected, 0, by->rounding.steps, why);
    const kiln_small_float *small = kiln_small_float_of(expected->dtype);
    const bool half = kiln_dtype_size(expected->dtype) < 4;
    const double quantum = by->rounding.quantum;
    double rtol = half ? 2e-2 : 1e-3;
    if (small) { /* a cast ends the operator; in models errors before it make it the neighbour */
        if (by->single) return same_elements(actual, expected, 0, quantum, why);
        rtol = ldexp(1, -(int)small->fraction_bits);
    }
    if (by->single)
        return same_elements(actual, expected, rtol, (half ? 2e-2 : near_zero(expected)) + quantum,
                             why);
    return same_whole(actual, expected, rtol, quantum, why);
}

static const kiln_named_tensor *find_tensor(const kiln_named_tensor *list, uint32_t count,
                                            kiln_str name) {
    for (uint32_t i = 0; i < count; i++)
        if (kiln_str_equal(list[i].name, name)) return &list[i];
    return NULL;
}

static bool same_output(const kiln_value_info *port, void *output, int64_t rows,
                        const kiln_tensor *expected, const rule *by, kiln_strbuf *why) {
    kiln_tensor actual = {port->dtype, port->shape, output};
    if (port->shape.rank > 0) actual.shape.dim[0] = rows;
    kiln_strbuf detail = {0};
    bool right = false;
    if (actual.dtype == expected->dtype && kiln_shape_equal(&actual.shape, &expected->shape)) {
        right = same(&actual, expected, by, &detail);
    } else {
        kiln_strbuf_printf(&detail, "%s", kiln_dtype_name(actual.dtype));
        kiln_shape_print(&actual.shape, &detail);
        kiln_strbuf_printf(&detail, " where the data set has %s", kiln_dtype_name(expected->dtype));
        kiln_shape_print(&expected->shape, &detail);
    }
    if (!right) kiln_strbuf_printf(why, "output %.*s: %s", KILN_STR_ARG(port->name), detail.data);
    kiln_strbuf_deinit(&detail);
    return right;
}

/* Outputs that the data set has not are named: what is not compared is not right. */
static bool has_every_output(const kiln_graph *graph, const kiln_data_set *data, const char *folder,
                             kiln_strbuf *why) {
    if (data->output_count == graph->output.count) return true;
    kiln_strbuf_printf(why, "%s has no expected", folder);
    for (uint32_t i = data->output_count; i < graph->output.count; i++) {
        const kiln_value_info *port = &graph->value.data[graph->output.data[i]];
        kiln_strbuf_printf(why, "%s output %.*s (output_%u.pb)", i == data->output_count ? "" : ",",
                           KILN_STR_ARG(port->name), i);
    }
    return false;
}

static void *make_buffer(const kiln_value_info *value, kiln_arena *arena) {
    const size_t bytes = (size_t)kiln_shape_count(&value->shape) * kiln_dtype_size(value->dtype);
    return kiln_arena_alloc_aligned(arena, 64, bytes);
}

/* Data for an input that nothing reads need not fit (CastLike reads no more than a type). */
static kiln_status find_inputs(const kiln_graph *graph, const uint32_t *uses,
                               const kiln_data_set *data, kiln_arena *arena, const void **inputs) {
    for (uint32_t i = 0; i < graph->input.count; i++) {
        const kiln_value_info *port = &graph->value.data[graph->input.data[i]];
        const kiln_named_tensor *given = find_tensor(data->input, data->input_count, port->name);
        if (uses[i] == 0) {
            inputs[i] = make_buffer(port, arena);
            continue;
        }
        if (!given)
            return KILN_ERROR(INVALID_ARGUMENT, "the data set has no input %.*s",
                              KILN_STR_ARG(port->name));
        kiln_tensor tensor = given->tensor;
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
                             void *const *outputs, int64_t *rows) {
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
    for (uint32_t i = 0; !st && rows && i < kiln_module_output_count(module); i++)
        rows[i] = kiln_module_output_rows(module, i);
    kiln_module_close(module);
    kiln_arena_deinit(&arena);
    return st;
}

static kiln_status write_c(kiln_compilation *compilation, const kiln_pack_options *pack,
                           kiln_arena *arena, kiln_strbuf *out) {
    kiln_module_bucket only = {0};
    const kiln_module_sizes module = {.bucket_count = 1, .bucket = &only};
    kiln_static_c_sizes sizes;
    kiln_strbuf header = {0};
    kiln_status st = kiln_pack_plan(compilation, pack, arena, &only.plan, NULL);
    if (!st) st = kiln_static_c(&module, KILN_STR("net"), arena, out, &header, &sizes);
    kiln_strbuf_deinit(&header);
    return st;
}

/* In a process without rights: how often each input of the compiled graph is read ([inputs]
 * uint32_t), then the module or its text. */
static kiln_status compile(const kiln_model_call *call, kiln_graph *graph, kiln_arena *arena,
                           kiln_isolated_result *out_result) {
    const kiln_verify_options *how = call->work->context;
    kiln_pack_options pack = {.model_name = kiln_str_from(call->work->model->path),
                              .as_c = how->as_c,
                              .step = kiln_model_step,
                              .step_context = (void *)(uintptr_t)call};
    kiln_strbuf bytes = {0};
    kiln_compilation *compilation = NULL;
    kiln_status st = kiln_passes_run(graph, KILN_STR(""));
    if (!st) st = kiln_compilation_create(graph, how->target, arena, &compilation);
    if (!st)
        st = how->as_c ? write_c(compilation, &pack, arena, &bytes)
                       : kiln_pack(compilation, &pack, arena, &bytes, NULL);
    if (!st) {
        const uint32_t *of_value = kiln_graph_count_uses(graph, arena);
        uint32_t *uses = KILN_ARENA_ARRAY(arena, uint32_t, graph->input.count);
        kiln_str *part = KILN_ARENA_ARRAY(arena, kiln_str, 2);
        for (uint32_t i = 0; i < graph->input.count; i++) uses[i] = of_value[graph->input.data[i]];
        part[0] = (kiln_str){(const char *)uses, graph->input.count * sizeof *uses};
        part[1] = kiln_strbuf_end(&bytes, arena);
        *out_result = (kiln_isolated_result){2, part};
    }
    kiln_strbuf_deinit(&bytes);
    return st;
}

/* The data set of a case, and what its model became. */
typedef struct trial {
    const kiln_graph *graph; /* as it was read */
    kiln_str module;
    const uint32_t *uses; /* [inputs] by the module's kernels */
    bool single;          /* the model is one operator */
} trial;

static kiln_status run_and_compare(const trial *t, const char *folder, const kiln_data_set *data,
                                   const kiln_verify_options *how, kiln_arena *arena,
                                   bool *out_same, kiln_strbuf *why) {
    const kiln_graph *graph = t->graph;
    const kiln_rounding *rounding = kiln_graph_rounding(graph, arena);
    const void **inputs = KILN_ARENA_ARRAY(arena, const void *, graph->input.count);
    void **outputs = KILN_ARENA_ARRAY(arena, void *, graph->output.count);
    int64_t *rows = KILN_ARENA_ARRAY(arena, int64_t, graph->output.count);
    kiln_status st = find_inputs(graph, t->uses, data, arena, inputs);
    if (!st && !has_every_output(graph, data, folder, why)) *out_same = false;
    for (uint32_t i = 0; !st && i < graph->output.count; i++) {
        const kiln_value_info *port = &graph->value.data[graph->output.data[i]];
        outputs[i] = make_buffer(port, arena);
        rows[i] = port->shape.dim[0];
    }
    if (!st && *out_same) st = how->run(how->context, t->module, inputs, outputs, rows);
    for (uint32_t i = 0; !st && *out_same && i < data->output_count; i++) {
        const rule by = {t->single, rounding[i]};
        *out_same = same_output(&graph->value.data[graph->output.data[i]], outputs[i], rows[i],
                                &data->output[i].tensor, &by, why);
    }
    return st;
}

/* Inputs that become constants differ between data sets, so each data set gets its own module. */
static kiln_status check_data_set(const char *path, const char *folder, const kiln_data_set *data,
                                  bool single, const kiln_verify_options *how, kiln_arena *arena,
                                  bool *out_same, kiln_strbuf *why) {
    kiln_import_options options = how->onnx;
    kiln_verify_options own = *how;
    kiln_model model = {0};
    kiln_mapping result = {0};
    kiln_graph *graph = NULL;
    kiln_model_work work = {.model = &model, .doing = "compiling", .run = compile, .context = &own};
    options.known_count = data->input_count;
    options.known = data->input;
    kiln_status st = kiln_model_read(path, &options, arena, &model);
    if (!st) st = kiln_graph_decode(model.graph, arena, &graph);
    if (!st) st = kiln_model_run(&work, NULL, arena, &result);
    if (!st) {
        const size_t head = graph->input.count * sizeof(uint32_t);
        const trial t = {
            .graph = graph,
            .module = kiln_str_slice((kiln_str){result.data, result.size}, head, result.size),
            .uses = result.data,
            .single = single};
        st = run_and_compare(&t, folder, data, how, arena, out_same, why);
    }
    kiln_file_unmap(&result);
    kiln_model_deinit(&model);
    return st;
}

static kiln_status check_case(const char *folder, const kiln_verify_options *options,
                              kiln_arena *arena, kiln_verdict *out_verdict, kiln_strbuf *why) {
    char *model = kiln_arena_printf(arena, "%s/model.onnx", folder);
    kiln_onnx_ports ports;
    uint32_t sets = 0;
    bool right = true;
    kiln_status st = kiln_onnx_ports_read(model, arena, &ports);
    for (; !st && right; sets++) {
        char *path = kiln_arena_printf(arena, "%s/test_data_set_%u", folder, sets);
        kiln_data_set data = {0};
        if (!kiln_file_is_folder(path)) break;
        st = kiln_onnx_data_set_load(folder, sets, arena, &data);
        if (st)
            st = blame_model(model, st, arena);
        else
            st = check_data_set(model, path, &data, ports.node_count == 1, options, arena, &right,
                                why);
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
