/* kiln quantize: a model in floats to one in bytes, calibrated on data. */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/calibrate.h"
#include "cli/cli.h"
#include "cli/common/json.h"
#include "cli/common/options.h"

typedef struct options {
    const char *model, *output, *method_name;
    kiln_samples_source source;
    kiln_import_options import;
    kiln_quantize_options quantize;
    kiln_quantize_method method;
    kiln_target target;
    bool json;
} options;

/* ---- report ---------------------------------------------------------------------------------- */

typedef struct report {
    const kiln_quantize_plan *plan;
    const kiln_calibration *found;
    const kiln_calibration_check *check;
    const kiln_samples *samples;
    kiln_module *module;
    double seconds;
} report;

/* JSON has no infinity: without an error there is no ratio. */
static json_t *json_sqnr(const kiln_quantize_error *e) {
    const double sqnr = kiln_quantize_error_sqnr(e);
    return isfinite(sqnr) ? json_real(sqnr) : json_null();
}

static void json_layer(const report *r, const kiln_quantize_layer *layer) {
    const kiln_observed *o = &r->plan->observed[layer->result];
    const kiln_histogram *seen = &r->found->seen[layer->result];
    const kiln_quantize_error *e = &r->check->observed[layer->result];
    json_t *line =
        json_pack("{s:s, s:o, s:o, s:i, s:f, s:f, s:o, s:f}", "event", "layer", "name",
                  kiln_json_str(layer->name), "op", kiln_json_str(layer->op), "activation_bits",
                  (int)layer->activation_bits, "low", seen->low, "high", seen->high, "sqnr_db",
                  json_sqnr(e), "error", kiln_quantize_error_relative(e));
    if (layer->weight_bits)
        json_object_set_new(line, "weight_bits", json_integer(layer->weight_bits));
    if (o->quantised) {
        const kiln_quantization q = r->found->group[o->group];
        json_object_set_new(line, "scale", json_real((double)q.scale));
        json_object_set_new(line, "zero_point", json_integer(q.zero));
        json_object_set_new(line, "clipped", json_real(kiln_quantize_clipped(seen, q)));
    }
    kiln_json_line(line);
}

static void json_report(const options *o, const report *r, size_t bytes) {
    for (uint32_t i = 0; i < r->plan->layer_count; i++) json_layer(r, &r->plan->layer[i]);
    for (uint32_t i = 0; i < r->plan->output_count; i++)
        kiln_json_line(
            json_pack("{s:s, s:o, s:f, s:f, s:o}", "event", "output", "name",
                      kiln_json_str(kiln_str_from(kiln_module_output(r->module, i)->name)),
                      "cosine", kiln_quantize_error_cosine(&r->check->output[i]), "error",
                      kiln_quantize_error_relative(&r->check->output[i]), "sqnr_db",
                      json_sqnr(&r->check->output[i])));
    json_t *line =
        json_pack("{s:s, s:s, s:I, s:i, s:I, s:b, s:s, s:f}", "event", "quantized", "model",
                  o->output, "bytes", (json_int_t)bytes, "layers", (int)r->plan->layer_count,
                  "samples", (json_int_t)r->samples->count, "synthetic", o->source.synthetic > 0,
                  "method", o->method_name, "seconds", r->seconds);
    if (r->samples->label) {
        json_object_set_new(line, "accuracy", json_real(r->check->accuracy));
        json_object_set_new(line, "reference_accuracy", json_real(r->check->reference_accuracy));
    }
    kiln_json_line(line);
}

static void print_layer(const report *r, const kiln_quantize_layer *layer) {
    const kiln_observed *o = &r->plan->observed[layer->result];
    const kiln_histogram *seen = &r->found->seen[layer->result];
    const kiln_quantize_error *e = &r->check->observed[layer->result];
    kiln_strbuf name = {0};
    kiln_text_append(&name, layer->name, KILN_TEXT_LINE, 40);
    char bits[32];
    if (layer->weight_bits)
        snprintf(bits, sizeof bits, "w%ua%u", layer->weight_bits, layer->activation_bits);
    else
        snprintf(bits, sizeof bits, "a%u", layer->activation_bits);
    printf("%-40s %-17.*s %4s %10.4g %10.4g ", name.data, KILN_STR_ARG(layer->op), bits, seen->low,
           seen->high);
    if (o->quantised)
        printf("%8.4f%%", 100 * kiln_quantize_clipped(seen, r->found->group[o->group]));
    else
        printf("%9s", "floats");
    printf(" %8.2f %9.2e\n", kiln_quantize_error_sqnr(e), kiln_quantize_error_relative(e));
    kiln_strbuf_deinit(&name);
}

static void print_report(const options *o, const report *r, size_t bytes) {
    printf("%-40s %-17s %4s %10s %10s %9s %8s %9s\n", "layer", "operator", "bits", "lowest",
           "highest", "clipped", "SQNR dB", "error");
    for (uint32_t i = 0; i < r->plan->layer_count; i++) print_layer(r, &r->plan->layer[i]);
    for (uint32_t i = 0; i < r->plan->output_count; i++) {
        printf("output ");
        kiln_print_text(kiln_str_from(kiln_module_output(r->module, i)->name), KILN_TEXT_LINE,
                        stdout);
        printf(": cosine with floats %.6f, largest error %.2e of the largest magnitude\n",
               kiln_quantize_error_cosine(&r->check->output[i]),
               kiln_quantize_error_relative(&r->check->output[i]));
    }
    if (r->samples->label)
        printf("accuracy: %.2f %% in %s, %.2f %% in floats\n", 100 * r->check->accuracy,
               o->quantize.weight_bits < 8 || o->quantize.activation_bits < 8 ? "fewer bits"
                                                                              : "bytes",
               100 * r->check->reference_accuracy);
    printf("%s: %zu bytes, %u layers, calibrated on %zu sample%s%s in %.1f s\n", o->output, bytes,
           r->plan->layer_count, r->samples->count, r->samples->count == 1 ? "" : "s",
           o->source.synthetic ? " of seeded random data: for use give real ones, --data DIR" : "",
           r->seconds);
}

/* ---- the work -------------------------------------------------------------------------------- */

static kiln_status quantize(const options *o, kiln_arena *process) {
    const uint64_t begin_ns = kiln_clock_ns();
    kiln_quantize_plan plan = {0};
    kiln_quantised_model made = {0};
    kiln_module *module = NULL, *quantised = NULL;
    kiln_samples samples;
    kiln_calibration found;
    kiln_calibration_check check;
    kiln_status st = kiln_quantize_read(o->model, &o->quantize, process, &plan);
    if (!st)
        st = kiln_calibrate_compile(o->model, plan.graph, &o->target, &o->import, process, &module);
    if (!st) st = kiln_samples_read(&o->source, module, process, &samples);
    if (!st)
        st = kiln_calibrate(module, &plan, &samples, o->method, o->quantize.shift, process, &found);
    if (!st) {
        const kiln_quantize_found given = {found.group, (const double *const *)found.mean,
                                           found.mean_count};
        st = kiln_quantize_write(o->model, &plan, &given, &o->quantize, process, &made);
    }
    if (!st)
        st = kiln_calibrate_compile(o->model, made.graph, &o->target, &o->import, process,
                                    &quantised);
    if (!st)
        st = kiln_calibration_check_run(module, quantised, &plan, made.observed, &samples, process,
                                        &check);
    if (!st) st = kiln_file_write(o->output, made.model, 0666);
    if (!st) {
        const report r = {&plan,    &found, &check,
                          &samples, module, (double)(kiln_clock_ns() - begin_ns) / 1e9};
        if (o->json)
            json_report(o, &r, made.model.size);
        else
            print_report(o, &r, made.model.size);
    }
    kiln_module_close(module);
    kiln_module_close(quantised);
    kiln_file_unmap(&plan.bytes);
    kiln_file_unmap(&made.bytes);
    return st;
}

/* Zero points of --shift are 0, so its bytes are signed. */
static kiln_status choose_bytes(const char *text, kiln_quantize_options *out) {
    const kiln_str bytes = kiln_str_from(text ? text : out->shift ? "i8" : "u8");
    out->is_unsigned = kiln_str_is(bytes, "u8");
    if (!out->is_unsigned && !kiln_str_is(bytes, "i8"))
        return KILN_ERROR(INVALID_ARGUMENT, "--activations %s: there are u8 and i8", text);
    if (out->is_unsigned && out->shift)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "--shift has zero points of 0: leave out --activations u8");
    return KILN_OK;
}

static kiln_status choose_bits(const char *name, uint64_t given, uint32_t *out_bits) {
    if (given != 1 && given != 2 && given != 4 && given != 8)
        return KILN_ERROR(INVALID_ARGUMENT, "--%s %llu: there are 1, 2, 4 and 8", name,
                          (unsigned long long)given);
    *out_bits = (uint32_t)given;
    return KILN_OK;
}

static kiln_status choose_few(uint64_t weights, uint64_t activations, kiln_quantize_options *out) {
    kiln_status st = choose_bits("weight-bits", weights, &out->weight_bits);
    if (!st) st = choose_bits("activation-bits", activations, &out->activation_bits);
    if (!st && out->shift && activations < 8)
        st = KILN_ERROR(INVALID_ARGUMENT,
                        "--shift has zero points of 0, which leaves too few of %llu bits: leave "
                        "out --activation-bits",
                        (unsigned long long)activations);
    return st;
}

kiln_status kiln_cmd_quantize(kiln_arena *process, int argc, char **argv) {
    options o = {.method_name = "mse", .source = {.seed = 1}};
    kiln_opt_list dim = {0};
    const char *activations = NULL;
    uint64_t threads = 0, weight_bits = 8, activation_bits = 8;
    const kiln_opt option[] = {
        {"data", KILN_OPT_TEXT, &o.source.folder, "DIR",
         "samples: .npy or .pb files (NAME.npy if there are several inputs), or "
         "test_data_set_K/input_N.pb; labels.npy beside them"},
        {"input", KILN_OPT_LIST, &o.source.given, "NAME=FILE",
         "samples of an input, stacked in a .npy or .pb file"},
        {"synthetic", KILN_OPT_COUNT, &o.source.synthetic, "N",
         "calibrate on N samples of seeded random data: for benchmarks, not for use (default: 4 if "
         "no data are given)"},
        {"seed", KILN_OPT_COUNT, &o.source.seed, "N", "seed of that data (default 1)"},
        {"samples", KILN_OPT_COUNT, &o.source.samples_max, "N",
         "use the first N samples only (default: all)"},
        {"labels", KILN_OPT_TEXT, &o.source.labels, "FILE",
         "classes of the samples, to count the correct answers of the first output"},
        {"per-channel", KILN_OPT_FLAG, &o.quantize.per_channel, NULL,
         "a scale for each output channel of weights (default: one for all)"},
        {"method", KILN_OPT_TEXT, &o.method_name, "NAME",
         "how ranges of activations are chosen: minmax, percentile or mse (default mse)"},
        {"activations", KILN_OPT_TEXT, &activations, "u8|i8",
         "type of activations: u8 is fastest on x86-64, i8 on ARM without i8mm (default u8; with "
         "--shift i8)"},
        {"shift", KILN_OPT_FLAG, &o.quantize.shift, NULL,
         "scales are powers of two and zero points 0, for boards that only shift"},
        {"weight-bits", KILN_OPT_COUNT, &weight_bits, "1|2|4|8",
         "bits of weights, with a scale per channel if fewer than 8; one bit: -1 and 1"},
        {"activation-bits", KILN_OPT_COUNT, &activation_bits, "1|2|4|8",
         "bits of the inputs of layers with weights"},
        {"all-layers", KILN_OPT_FLAG, &o.quantize.all_layers, NULL,
         "fewer bits in the first and the last layer, too (default: they keep 8)"},
        {"output|o", KILN_OPT_TEXT, &o.output, "OUT.onnx", "file to write"},
        KILN_THREADS_OPTION(&threads),
        KILN_MODEL_OPTIONS(&dim, kiln_dim_help, &o.import),
        {"json", KILN_OPT_FLAG, &o.json, NULL, "print one object per line"},
    };
    const kiln_opt_table table = {
        "kiln quantize MODEL.onnx [--data DIR | --input NAME=FILE... | --synthetic N] -o OUT.onnx",
        "Quantises a model to int8 or fewer bits (QuantizeLinear, DequantizeLinear), with scales "
        "calibrated on samples, and reports the changes.",
        option,
        KILN_ARRAY_COUNT(option),
        1,
        1};
    kiln_args args;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    o.model = args.positional[0];
    o.quantize.import = &o.import;
    if (!o.output) st = KILN_ERROR(INVALID_ARGUMENT, "-o OUT.onnx is missing");
    if (!st) st = kiln_quantize_method_find(kiln_str_from(o.method_name), &o.method);
    if (!st) st = choose_bytes(activations, &o.quantize);
    if (!st) st = choose_few(weight_bits, activation_bits, &o.quantize);
    if (!st) st = kiln_samples_check(&o.source, process);
    if (!st) st = kiln_file_check_writable(o.output);
    if (!st) st = kiln_dim_option(&dim, process, &o.import);
    if (!st) st = kiln_target_option(NULL, threads, process, &o.target);
    return st ? st : quantize(&o, process);
}
