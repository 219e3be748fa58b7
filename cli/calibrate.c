#include "cli/calibrate.h"

#include <string.h>

#include "base/macros.h"
#include "cli/common/model_work.h"
#include "compiler-core/frontend/isolated.h"
#include "deploy/pack/pack.h"
#include "deploy/runtime/module_open.h"

/* ---- modules --------------------------------------------------------------------------------- */

/* In a process without rights. */
static kiln_status make_module(const kiln_model_call *call, kiln_graph *graph, kiln_arena *arena,
                               kiln_isolated_result *out_result) {
    const kiln_pack_options options = {.model_name = kiln_str_from(call->work->model->path),
                                       .step = kiln_model_step,
                                       .step_context = (void *)(uintptr_t)call};
    const kiln_target *target = call->work->context;
    kiln_compilation *compilation = NULL;
    kiln_strbuf bytes = {0};
    kiln_status st = kiln_passes_run(graph, KILN_STR(""));
    if (!st) st = kiln_compilation_create(graph, target, arena, &compilation);
    if (!st) st = kiln_pack(compilation, &options, arena, &bytes, NULL);
    if (!st) *out_result = kiln_model_result(kiln_strbuf_end(&bytes, arena), arena);
    kiln_strbuf_deinit(&bytes);
    return st;
}

kiln_status kiln_calibrate_compile(const char *path, kiln_str graph, const kiln_target *target,
                                   const kiln_import_options *import, kiln_arena *arena,
                                   kiln_module **out_module) {
    kiln_model model = {.path = path, .graph = graph};
    kiln_mapping bytes = {0}; /* of the module, which is used until the program ends */
    kiln_model_work work = {.model = &model,
                            .doing = "compiling",
                            .run = make_module,
                            .context = (void *)(uintptr_t)target};
    kiln_status st = kiln_memory_limit(import, &model.memory_bytes);
    if (!st) st = kiln_model_run(&work, NULL, arena, &bytes);
    if (!st) st = kiln_module_link((kiln_str){bytes.data, bytes.size}, NULL, out_module);
    if (!st) st = kiln_module_pack(*out_module);
    return st;
}

static kiln_status run_sample(kiln_module *module, const kiln_samples *samples, size_t sample,
                              void *const *outputs) {
    return kiln_module_run(module, kiln_samples_at(samples, sample), outputs)
               ? KILN_ERROR(INTERNAL, "sample %zu: %s", sample, kiln_module_error(module))
               : KILN_OK;
}

/* The output of each observed value: [observed_count]. */
static kiln_status find_ports(const kiln_module *module, const kiln_observed *observed,
                              uint32_t count, kiln_arena *arena, uint32_t **out_port) {
    uint32_t *port = KILN_ARENA_ARRAY(arena, uint32_t, count);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t outputs = kiln_module_output_count(module);
        while (port[i] < outputs &&
               !kiln_str_is(observed[i].name, kiln_module_output(module, port[i])->name))
            port[i]++;
        if (port[i] == outputs || kiln_module_output(module, port[i])->dtype != KILN_MODULE_F32)
            return KILN_ERROR(UNIMPLEMENTED, "value %.*s is no tensor of f32",
                              KILN_STR_ARG(observed[i].name));
    }
    *out_port = port;
    return KILN_OK;
}

static size_t count_at(const kiln_module *module, uint32_t output) {
    return kiln_module_output(module, output)->size_bytes / sizeof(float);
}

/* ---- calibration ----------------------------------------------------------------------------- */

static void add_means(const kiln_module_port *port, uint32_t axis, const float *data, double *sum) {
    size_t inner = 1, outer = 1;
    for (uint32_t d = 0; d < axis; d++) outer *= (size_t)port->shape[d];
    for (uint32_t d = axis + 1; d < port->rank; d++) inner *= (size_t)port->shape[d];
    const size_t channels = (size_t)port->shape[axis];
    for (size_t o = 0; o < outer; o++)
        for (size_t c = 0; c < channels; c++)
            for (size_t i = 0; i < inner; i++)
                sum[c] += (double)data[(o * channels + c) * inner + i];
}

static void make_means(const kiln_module *module, const kiln_quantize_plan *plan,
                       const uint32_t *port, kiln_arena *arena, kiln_calibration *c) {
    for (uint32_t i = 0; i < plan->observed_count; i++) {
        const kiln_module_port *p = kiln_module_output(module, port[i]);
        const uint32_t axis = plan->observed[i].mean_axis;
        if (axis == 0 || axis >= p->rank) continue;
        c->mean_count[i] = (uint32_t)p->shape[axis];
        c->mean[i] = KILN_ARENA_ARRAY(arena, double, c->mean_count[i]);
    }
}

static kiln_status see_sample(const kiln_module *module, const kiln_quantize_plan *plan,
                              const uint32_t *port, void *const *outputs, kiln_calibration *c) {
    for (uint32_t i = 0; i < plan->observed_count; i++) {
        const float *data = outputs[port[i]];
        if (!kiln_histogram_add(&c->seen[i], data, count_at(module, port[i])))
            return KILN_ERROR(FAILED_PRECONDITION,
                              "value %.*s has an infinite element, or no number",
                              KILN_STR_ARG(plan->observed[i].name));
        if (c->mean[i])
            add_means(kiln_module_output(module, port[i]), plan->observed[i].mean_axis, data,
                      c->mean[i]);
    }
    return KILN_OK;
}

kiln_status kiln_calibrate(kiln_module *module, const kiln_quantize_plan *plan,
                           const kiln_samples *samples, kiln_quantize_method method, bool shift,
                           kiln_arena *arena, kiln_calibration *out) {
    uint32_t *port = NULL;
    kiln_calibration c = {.seen = KILN_ARENA_ARRAY(arena, kiln_histogram, plan->observed_count),
                          .mean = KILN_ARENA_ARRAY(arena, double *, plan->observed_count),
                          .mean_count = KILN_ARENA_ARRAY(arena, uint32_t, plan->observed_count)};
    void **outputs = kiln_run_make_outputs(module, arena);
    kiln_status st = find_ports(module, plan->observed, plan->observed_count, arena, &port);
    if (!st) make_means(module, plan, port, arena, &c);
    for (size_t sample = 0; !st && sample < samples->count; sample++) {
        st = run_sample(module, samples, sample, outputs);
        if (!st)
            st =
                kiln_status_note(see_sample(module, plan, port, outputs, &c), "sample %zu", sample);
    }
    if (st) return st;
    for (uint32_t i = 0; i < plan->observed_count; i++)
        for (uint32_t k = 0; k < c.mean_count[i]; k++)
            c.mean[i][k] /= (double)c.seen[i].count / c.mean_count[i];
    c.group = kiln_quantize_choose(plan, c.seen, method, shift, arena);
    *out = c;
    return KILN_OK;
}

/* ---- comparison ------------------------------------------------------------------------------ */

/* Rows whose largest element is the label's, of labels from `first` on. */
static size_t count_right(const kiln_module_port *port, const float *data, const kiln_samples *s,
                          size_t first) {
    const size_t classes = port->rank ? (size_t)port->shape[port->rank - 1] : 1,
                 rows = classes ? port->size_bytes / sizeof *data / classes : 0;
    size_t right = 0;
    for (size_t r = 0; r < rows; r++) {
        size_t best = 0;
        for (size_t k = 1; k < classes; k++)
            if (data[r * classes + k] > data[r * classes + best]) best = k;
        right += s->label[first + r] == (int64_t)best;
    }
    return right;
}

static kiln_status check_labels(const kiln_module_port *port, const kiln_samples *samples,
                                size_t *out_rows) {
    const size_t classes = port->rank ? (size_t)port->shape[port->rank - 1] : 1;
    *out_rows = classes ? port->size_bytes / sizeof(float) / classes : 0;
    if (!samples->label) return KILN_OK;
    if (port->dtype != KILN_MODULE_F32 || *out_rows == 0)
        return KILN_ERROR(INVALID_ARGUMENT, "there are labels, but output %s has no classes",
                          port->name);
    const size_t rows = samples->count * *out_rows;
    if (samples->label_count < rows || (samples->label_count > rows && !samples->is_part))
        return KILN_ERROR(INVALID_ARGUMENT, "there are %zu labels for %zu rows of output %s",
                          samples->label_count, rows, port->name);
    return KILN_OK;
}

kiln_status kiln_calibration_check_run(kiln_module *module, kiln_module *quantised,
                                       const kiln_quantize_plan *plan, const kiln_observed *name,
                                       const kiln_samples *samples, kiln_arena *arena,
                                       kiln_calibration_check *out) {
    kiln_calibration_check check = {
        .observed = KILN_ARENA_ARRAY(arena, kiln_quantize_error, plan->observed_count),
        .output = KILN_ARENA_ARRAY(arena, kiln_quantize_error, plan->output_count)};
    uint32_t *mine = NULL, *theirs = NULL;
    size_t right = 0, reference_right = 0, rows = 0;
    void **expected = kiln_run_make_outputs(module, arena),
         **actual = kiln_run_make_outputs(quantised, arena);
    const kiln_module_port *first = kiln_module_output(module, 0);
    kiln_status st = check_labels(first, samples, &rows);
    if (!st) st = find_ports(module, plan->observed, plan->observed_count, arena, &mine);
    if (!st) st = find_ports(quantised, name, plan->observed_count, arena, &theirs);
    for (size_t k = 0; !st && k < samples->count; k++) {
        st = run_sample(module, samples, k, expected);
        if (!st) st = run_sample(quantised, samples, k, actual);
        if (st) return st;
        for (uint32_t i = 0; i < plan->observed_count; i++)
            kiln_quantize_error_add(&check.observed[i], expected[mine[i]], actual[theirs[i]],
                                    count_at(module, mine[i]));
        for (uint32_t i = 0; i < plan->output_count; i++)
            if (kiln_module_output(module, i)->dtype == KILN_MODULE_F32)
                kiln_quantize_error_add(&check.output[i], expected[i], actual[i],
                                        count_at(module, i));
        if (!samples->label) continue;
        right += count_right(first, actual[0], samples, k * rows);
        reference_right += count_right(first, expected[0], samples, k * rows);
    }
    const double all = (double)(samples->count * rows);
    check.accuracy = (double)right / all;
    check.reference_accuracy = (double)reference_right / all;
    if (!st) *out = check;
    return st;
}
