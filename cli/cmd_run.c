/* Runs a module on given or seeded random inputs, or times it. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/stats.h"
#include "base/tensor.h"
#include "base/vec.h"
#include "cli/bench.h"
#include "cli/cli.h"

#define SEED 1u

/* What one input is fed: [samples] stacked along the file's first dimension, or one. */
typedef struct feed {
    const char *data;
    size_t samples;
} feed;

static kiln_status module_error(int code, const char *text) {
    kiln_code kiln = KILN_INTERNAL;
    if (!kiln_code_from_wire((unsigned)code, &kiln)) kiln = KILN_INTERNAL;
    return kiln_status_make(kiln, __FILE__, __LINE__, "%s", text);
}

kiln_status kiln_module_load(const char *path, uint32_t threads, kiln_module **out_module) {
    char error[KILN_MODULE_ERROR_BYTES] = "";
    kiln_module_options options = {.threads = threads};
    int code = kiln_module_open(path, &options, out_module, error, sizeof error);
    return code ? module_error(code, error) : KILN_OK;
}

kiln_shape kiln_port_shape(const kiln_module_port *port) {
    kiln_shape shape = {.rank = port->rank};
    memcpy(shape.dim, port->shape, port->rank * sizeof *port->shape);
    return shape;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static kiln_status read_tensor(const char *path, kiln_arena *process, kiln_tensor *out) {
    if (kiln_str_ends(kiln_str_from(path), ".pb")) {
        kiln_named_tensor named;
        kiln_status st = kiln_onnx_tensor_load(path, process, &named);
        if (!st) *out = named.tensor;
        return st;
    }
    return kiln_tensor_read_npy(path, process, out);
}

/* A file fits when it holds one sample, or several stacked along its first dimension. */
static kiln_status feed_from_file(const kiln_module_port *port, const char *path,
                                  kiln_arena *process, feed *out) {
    kiln_tensor tensor;
    kiln_status st = read_tensor(path, process, &tensor);
    if (st) return st;
    kiln_shape shape = kiln_port_shape(port);
    int64_t one = kiln_shape_count(&shape), all = kiln_shape_count(&tensor.shape);
    if (tensor.dtype != (kiln_dtype)port->dtype || one == 0 || all == 0 || all % one != 0) {
        kiln_strbuf text = {0};
        kiln_shape_print(&tensor.shape, &text);
        kiln_strbuf_text(&text, ", the module wants ");
        kiln_strbuf_printf(&text, "%s", kiln_dtype_name((kiln_dtype)port->dtype));
        kiln_shape_print(&shape, &text);
        st = KILN_ERROR(INVALID_ARGUMENT, "%s: input %s is %s%s", path, port->name,
                        kiln_dtype_name(tensor.dtype), text.data);
        kiln_strbuf_deinit(&text);
        return st;
    }
    *out = (feed){tensor.data, (size_t)(all / one)};
    return KILN_OK;
}

static void feed_random(const kiln_module_port *port, uint32_t index, kiln_arena *process,
                        feed *out) {
    kiln_shape shape = kiln_port_shape(port);
    char *data = kiln_arena_alloc_aligned(process, 64, port->size_bytes);
    kiln_fill_data(data, (kiln_dtype)port->dtype, (size_t)kiln_shape_count(&shape), SEED + index,
                   KILN_FILL_UNIFORM);
    *out = (feed){data, 1};
}

static kiln_status find_input(const kiln_module *module, kiln_str name, uint32_t *out_index) {
    kiln_strbuf known = {0};
    for (uint32_t i = 0; i < kiln_module_input_count(module); i++) {
        const char *input = kiln_module_input(module, i)->name;
        if (kiln_str_is(name, input)) {
            kiln_strbuf_deinit(&known);
            *out_index = i;
            return KILN_OK;
        }
        kiln_strbuf_printf(&known, " %s", input);
    }
    kiln_status st = KILN_ERROR(INVALID_ARGUMENT, "the module has no input '%.*s'; it has%s",
                                KILN_STR_ARG(name), known.data ? known.data : " none");
    kiln_strbuf_deinit(&known);
    return st;
}

static kiln_status make_feeds(const kiln_module *module, const kiln_opt_list *given,
                              kiln_arena *process, feed *feeds, size_t *out_samples) {
    uint32_t count = kiln_module_input_count(module);
    for (size_t i = 0; i < given->count; i++) {
        kiln_str rest = kiln_str_from(given->item[i]);
        kiln_str name = kiln_str_cut(&rest, '=');
        uint32_t index = 0;
        if (rest.size == 0)
            return KILN_ERROR(INVALID_ARGUMENT, "--input %s: write NAME=FILE.npy", given->item[i]);
        kiln_status st = find_input(module, name, &index);
        if (!st)
            st = feed_from_file(kiln_module_input(module, index), kiln_str_dup(process, rest),
                                process, &feeds[index]);
        if (st) return st;
    }
    size_t samples = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (!feeds[i].data) feed_random(kiln_module_input(module, i), i, process, &feeds[i]);
        if (feeds[i].samples > 1 && samples > 1 && feeds[i].samples != samples)
            return KILN_ERROR(INVALID_ARGUMENT, "the inputs hold %zu and %zu samples", samples,
                              feeds[i].samples);
        samples = KILN_MAX(samples, feeds[i].samples);
    }
    *out_samples = samples;
    return KILN_OK;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void point_inputs(const kiln_module *module, const feed *feeds, size_t sample,
                         const void **inputs) {
    for (uint32_t i = 0; i < kiln_module_input_count(module); i++)
        inputs[i] = feeds[i].data +
                    (feeds[i].samples > 1 ? sample : 0) * kiln_module_input(module, i)->size_bytes;
}

static kiln_status write_outputs(const kiln_module *module, char **data, size_t samples,
                                 const char *folder, kiln_arena *process) {
    kiln_status st = kiln_folder_create(folder, 0777);
    for (uint32_t i = 0; !st && i < kiln_module_output_count(module); i++) {
        const kiln_module_port *port = kiln_module_output(module, i);
        kiln_tensor tensor = {(kiln_dtype)port->dtype, kiln_port_shape(port), data[i]};
        if (samples > 1 && tensor.shape.rank > 0 && tensor.shape.dim[0] == 1) {
            tensor.shape.dim[0] = (int64_t)samples; /* stacked as the inputs were */
        } else if (samples > 1) {
            memmove(&tensor.shape.dim[1], &tensor.shape.dim[0],
                    tensor.shape.rank * sizeof tensor.shape.dim[0]);
            tensor.shape.dim[0] = (int64_t)samples;
            tensor.shape.rank++;
        }
        char *name = kiln_arena_printf(process, "%s", port->name);
        for (char *c = name; *c; c++)
            if (*c == '/') *c = '_';
        st = kiln_tensor_write_npy(kiln_arena_printf(process, "%s/%s.npy", folder, name), &tensor);
    }
    return st;
}

static void print_outputs(const kiln_module *module, char **data, size_t samples, bool json) {
    for (uint32_t i = 0; i < kiln_module_output_count(module); i++) {
        const kiln_module_port *port = kiln_module_output(module, i);
        kiln_shape shape = kiln_port_shape(port);
        size_t count = (size_t)kiln_shape_count(&shape) * samples;
        double low = 0, high = 0, sum = 0;
        for (size_t k = 0; k < count; k++) {
            double v = kiln_dtype_load_f64((kiln_dtype)port->dtype, data[i], k);
            low = k == 0 || v < low ? v : low;
            high = k == 0 || v > high ? v : high;
            sum += v;
        }
        double mean = count ? sum / (double)count : 0;
        if (json) {
            kiln_json_line(json_pack("{s:s, s:s, s:I, s:f, s:f, s:f}", "event", "output", "name",
                                     port->name, "elements", (json_int_t)count, "min", low, "max",
                                     high, "mean", mean));
            continue;
        }
        kiln_strbuf text = {0};
        kiln_shape_print(&shape, &text);
        printf("%s: %s%s, %zu sample%s, min %.6g, max %.6g, mean %.6g\n", port->name,
               kiln_dtype_name((kiln_dtype)port->dtype), text.data, samples,
               samples == 1 ? "" : "s", low, high, mean);
        kiln_strbuf_deinit(&text);
    }
}

static kiln_status run_samples(kiln_module *module, const feed *feeds, size_t samples,
                               const char *folder, bool json, kiln_arena *process) {
    uint32_t output_count = kiln_module_output_count(module);
    char **data = KILN_ARENA_ARRAY(process, char *, output_count);
    void **outputs = KILN_ARENA_ARRAY(process, void *, output_count);
    const void **inputs = KILN_ARENA_ARRAY(process, const void *, kiln_module_input_count(module));
    for (uint32_t i = 0; i < output_count; i++)
        data[i] = kiln_arena_alloc_aligned(process, 64,
                                           kiln_module_output(module, i)->size_bytes * samples);
    for (size_t s = 0; s < samples; s++) {
        point_inputs(module, feeds, s, inputs);
        for (uint32_t i = 0; i < output_count; i++)
            outputs[i] = data[i] + s * kiln_module_output(module, i)->size_bytes;
        int code = kiln_module_run(module, inputs, outputs);
        if (code)
            return kiln_status_note(module_error(code, kiln_module_error(module)), "sample %zu", s);
    }
    print_outputs(module, data, samples, json);
    return folder ? write_outputs(module, data, samples, folder, process) : KILN_OK;
}

kiln_status kiln_cmd_run(kiln_arena *process, int argc, char **argv) {
    kiln_opt_list given = {0};
    const char *folder = NULL;
    uint64_t threads = 0;
    bool bench = false, json = false;
    const kiln_opt option[] = {
        {"input", KILN_OPT_LIST, &given, "NAME=FILE",
         "an input from a .npy or .pb file; several samples may be stacked"},
        {"output", KILN_OPT_TEXT, &folder, "DIR", "write each output to DIR/NAME.npy"},
        {"bench", KILN_OPT_FLAG, &bench, NULL, "time runs, and each kernel"},
        {"threads", KILN_OPT_COUNT, &threads, "N", "threads to use (default: as compiled)"},
        {"json", KILN_OPT_FLAG, &json, NULL, "print one object per line"},
    };
    const kiln_opt_table table = {"kiln run MODULE [options]",
                                  "Runs a module once per sample; inputs that are not given are "
                                  "seeded random data.",
                                  option,
                                  KILN_ARRAY_COUNT(option),
                                  1,
                                  1};
    kiln_args args;
    kiln_status st = kiln_args_parse(&table, argc, argv, process, &args);
    if (st || args.help) return st;
    kiln_module *module = NULL;
    size_t samples = 0;
    st = kiln_module_load(args.positional[0], (uint32_t)KILN_MIN(threads, 1024), &module);
    feed *feeds = st ? NULL : KILN_ARENA_ARRAY(process, feed, kiln_module_input_count(module));
    if (!st) st = make_feeds(module, &given, process, feeds, &samples);
    if (!st && !bench) st = run_samples(module, feeds, samples, folder, json, process);
    if (!st && bench) {
        const void **inputs =
            KILN_ARENA_ARRAY(process, const void *, kiln_module_input_count(module));
        point_inputs(module, feeds, 0, inputs);
        st = kiln_bench_print(module, inputs, json, process);
    }
    kiln_module_close(module);
    return st;
}
