#include "deploy/run/run.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/small_float.h"

#define SEED 1u

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

kiln_status kiln_module_load_bytes(kiln_str bytes, uint32_t threads, kiln_module **out_module) {
    char error[KILN_MODULE_ERROR_BYTES] = "";
    kiln_module_options options = {.threads = threads};
    int code =
        kiln_module_open_memory(bytes.data, bytes.size, &options, out_module, error, sizeof error);
    return code ? module_error(code, error) : KILN_OK;
}

void kiln_run_note_threads(const kiln_module *module, uint64_t asked) {
    uint32_t used = kiln_module_threads(module);
    if (asked > used)
        fprintf(stderr,
                "note: --threads %llu: the module was compiled for %u thread%s and uses no more; "
                "kiln compile --threads makes one for more\n",
                (unsigned long long)asked, used, used == 1 ? "" : "s");
}

kiln_shape kiln_port_shape(const kiln_module_port *port) {
    kiln_shape shape = {.rank = port->rank};
    memcpy(shape.dim, port->shape, port->rank * sizeof *port->shape);
    return shape;
}

const char kiln_run_dim_help[] = "size of the dimension of a module for several sizes (default: "
                                 "that of the inputs, or the largest)";

kiln_status kiln_run_set_size(kiln_module *module, int64_t size) {
    const int code = kiln_module_set_size(module, size);
    return code ? module_error(code, kiln_module_error(module)) : KILN_OK;
}

kiln_status kiln_run_set_dim(kiln_module *module, const char *dim) {
    const kiln_module_size_info info = kiln_module_describe_sizes(module);
    kiln_str rest = kiln_str_from(dim ? dim : "");
    const kiln_str name = kiln_str_cut(&rest, '=');
    uint64_t size = 0;
    if (!dim) return KILN_OK;
    if (!kiln_str_to_u64(rest, &size) || size > INT64_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "--dim wants NAME=N, not '%s'", dim);
    if (info.dim && !kiln_str_is(name, info.dim))
        return KILN_ERROR(INVALID_ARGUMENT, "--dim %s: the module has several sizes of %s", dim,
                          info.dim);
    return kiln_run_set_size(module, (int64_t)size);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Samples in a tensor: 1 when it has the port's shape, more when they are stacked along its first
 * dimension or along one before it; 0 when it does not fit. */
static size_t samples_in(const kiln_shape *file, const kiln_shape *port) {
    const uint32_t more = file->rank - port->rank; /* dimensions before the port's */
    if (kiln_shape_equal(file, port)) return 1;
    if (file->rank < port->rank || more > 1 || file->rank == 0) return 0;
    for (uint32_t d = more ? 0 : 1; d < port->rank; d++)
        if (file->dim[d + more] != port->dim[d]) return 0;
    if (more) return (size_t)file->dim[0];
    return port->dim[0] > 0 && file->dim[0] % port->dim[0] == 0
               ? (size_t)(file->dim[0] / port->dim[0])
               : 0;
}

/* A module of several sizes takes the size of the first file that does not fit the current one. */
static kiln_status take_size(kiln_module *module, uint32_t input, const kiln_shape *file,
                             bool *is_fixed) {
    const kiln_shape shape = kiln_port_shape(kiln_module_input(module, input));
    const int64_t size = kiln_module_size_of(module, input, file->rank, file->dim);
    const bool fits = samples_in(file, &shape) > 0, may_set = !*is_fixed;
    *is_fixed = *is_fixed || size > 0;
    return size > 0 && may_set && !fits ? kiln_run_set_size(module, size) : KILN_OK;
}

/* A port's type in .npy files, which have no floats of at most 8 bits: bytes, their codes. */
static kiln_dtype dtype_in_files(const kiln_module_port *port) {
    const kiln_dtype dtype = (kiln_dtype)port->dtype;
    return kiln_small_float_of(dtype) ? KILN_U8 : dtype;
}

/* A file fits when it holds one sample, or several stacked along its first dimension. */
static kiln_status feed_from_file(kiln_module *module, uint32_t input, const char *path,
                                  kiln_run_reader reader, kiln_arena *arena, bool *is_fixed,
                                  kiln_run_feed *out) {
    const kiln_module_port *port = kiln_module_input(module, input);
    kiln_tensor tensor;
    kiln_status st = reader(path, arena, &tensor);
    if (!st) st = kiln_status_note(take_size(module, input, &tensor.shape, is_fixed), "%s", path);
    if (st) return st;
    kiln_shape shape = kiln_port_shape(port);
    const size_t samples = samples_in(&tensor.shape, &shape);
    const bool is_type =
        tensor.dtype == (kiln_dtype)port->dtype || tensor.dtype == dtype_in_files(port);
    if (!is_type || samples == 0) {
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
    *out = (kiln_run_feed){tensor.data, samples};
    return KILN_OK;
}

static void feed_random(const kiln_module_port *port, uint32_t index, kiln_arena *arena,
                        kiln_run_feed *out) {
    kiln_shape shape = kiln_port_shape(port);
    char *data = kiln_arena_alloc_aligned(arena, 64, port->size_bytes);
    kiln_fill_data(data, (kiln_dtype)port->dtype, (size_t)kiln_shape_count(&shape), SEED + index,
                   KILN_FILL_UNIFORM);
    *out = (kiln_run_feed){data, 1};
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

/* Reads the given inputs. */
static kiln_status feed_given(kiln_run *run, const kiln_opt_list *given, kiln_run_reader reader,
                              kiln_arena *arena) {
    kiln_status st = KILN_OK;
    bool is_fixed = false;
    for (size_t i = 0; !st && i < given->count; i++) {
        kiln_str rest = kiln_str_from(given->item[i]);
        kiln_str name = kiln_str_cut(&rest, '=');
        uint32_t index = 0;
        if (rest.size == 0)
            return KILN_ERROR(INVALID_ARGUMENT, "--input %s: write NAME=FILE.npy", given->item[i]);
        st = find_input(run->module, name, &index);
        if (!st)
            st = feed_from_file(run->module, index, kiln_str_dup(arena, rest), reader, arena,
                                &is_fixed, &run->feed[index]);
    }
    return st;
}

static kiln_status count_samples(kiln_run *run) {
    run->samples = 1;
    for (uint32_t i = 0; i < kiln_module_input_count(run->module); i++) {
        size_t samples = run->feed[i].samples;
        if (samples > 1 && run->samples > 1 && samples != run->samples)
            return KILN_ERROR(INVALID_ARGUMENT, "the inputs hold %zu and %zu samples", run->samples,
                              samples);
        run->samples = KILN_MAX(run->samples, samples);
    }
    return KILN_OK;
}

kiln_status kiln_run_init_inputs(kiln_run *run, kiln_module *module, const kiln_opt_list *given,
                                 kiln_run_reader reader, kiln_arena *arena) {
    const uint32_t inputs = kiln_module_input_count(module);
    *run = (kiln_run){.module = module,
                      .feed = KILN_ARENA_ARRAY(arena, kiln_run_feed, inputs),
                      .inputs = KILN_ARENA_ARRAY(arena, const void *, inputs)};
    kiln_status st = feed_given(run, given, reader, arena);
    for (uint32_t i = 0; !st && i < inputs; i++)
        if (!run->feed[i].data) feed_random(kiln_module_input(module, i), i, arena, &run->feed[i]);
    if (!st) st = count_samples(run);
    if (!st) kiln_run_point(run, 0);
    return st;
}

kiln_status kiln_run_init(kiln_run *run, kiln_module *module, const kiln_opt_list *given,
                          kiln_run_reader reader, kiln_arena *arena) {
    const uint32_t outputs = kiln_module_output_count(module);
    kiln_status st = kiln_run_init_inputs(run, module, given, reader, arena);
    if (st) return st;
    run->output = KILN_ARENA_ARRAY(arena, char *, outputs);
    run->outputs = KILN_ARENA_ARRAY(arena, void *, outputs);
    for (uint32_t i = 0; i < outputs; i++)
        run->output[i] = kiln_arena_alloc_aligned(
            arena, 64, kiln_module_output(module, i)->size_bytes * run->samples);
    kiln_run_point(run, 0);
    return KILN_OK;
}

void kiln_run_move_near(kiln_run *run) {
    for (uint32_t i = 0; run->samples == 1 && i < kiln_module_input_count(run->module); i++) {
        char *near = kiln_module_input_memory(run->module, i);
        if (!near) continue;
        memcpy(near, run->feed[i].data, kiln_module_input(run->module, i)->size_bytes);
        run->feed[i].data = near;
    }
    for (uint32_t i = 0; run->samples == 1 && i < kiln_module_output_count(run->module); i++) {
        char *near = kiln_module_output_memory(run->module, i);
        if (near) run->output[i] = near;
    }
    kiln_run_point(run, 0);
}

kiln_run kiln_run_near(const kiln_run *run, kiln_module *module, kiln_arena *arena) {
    const uint32_t inputs = kiln_module_input_count(module),
                   outputs = kiln_module_output_count(module);
    kiln_run other = {.module = module,
                      .samples = run->samples,
                      .feed = KILN_ARENA_ARRAY(arena, kiln_run_feed, inputs),
                      .output = KILN_ARENA_ARRAY(arena, char *, outputs),
                      .inputs = KILN_ARENA_ARRAY(arena, const void *, inputs),
                      .outputs = KILN_ARENA_ARRAY(arena, void *, outputs)};
    for (uint32_t i = 0; i < inputs; i++) other.feed[i] = run->feed[i];
    for (uint32_t i = 0; i < outputs; i++) other.output[i] = run->output[i];
    kiln_run_move_near(&other);
    return other;
}

/* ---- runs ------------------------------------------------------------------------------------ */

void kiln_run_point(kiln_run *run, size_t sample) {
    for (uint32_t i = 0; i < kiln_module_input_count(run->module); i++)
        run->inputs[i] = run->feed[i].data + (run->feed[i].samples > 1 ? sample : 0) *
                                                 kiln_module_input(run->module, i)->size_bytes;
    for (uint32_t i = 0; run->output && i < kiln_module_output_count(run->module); i++)
        run->outputs[i] = run->output[i] + sample * kiln_module_output(run->module, i)->size_bytes;
}

kiln_status kiln_run_samples(kiln_run *run) {
    for (size_t sample = 0; sample < run->samples; sample++) {
        kiln_run_point(run, sample);
        int code = kiln_module_run(run->module, run->inputs, run->outputs);
        if (code)
            return kiln_status_note(module_error(code, kiln_module_error(run->module)),
                                    "sample %zu", sample);
    }
    return KILN_OK;
}

/* With several samples each has room for all rows. */
static kiln_shape shape_of(const kiln_run *run, uint32_t output) {
    kiln_shape shape = kiln_port_shape(kiln_module_output(run->module, output));
    if (run->samples == 1 && shape.rank > 0)
        shape.dim[0] = kiln_module_output_rows(run->module, output);
    return shape;
}

kiln_run_range kiln_run_range_of(const kiln_run *run, uint32_t output) {
    const kiln_module_port *port = kiln_module_output(run->module, output);
    kiln_shape shape = shape_of(run, output);
    kiln_run_range range = {.count = (size_t)kiln_shape_count(&shape) * run->samples};
    double sum = 0;
    for (size_t k = 0; k < range.count; k++) {
        double v = kiln_dtype_load_f64((kiln_dtype)port->dtype, run->output[output], k);
        range.low = k == 0 || v < range.low ? v : range.low;
        range.high = k == 0 || v > range.high ? v : range.high;
        sum += v;
    }
    range.mean = range.count ? sum / (double)range.count : 0;
    return range;
}

void kiln_run_print(const kiln_run *run) {
    for (uint32_t i = 0; i < kiln_module_output_count(run->module); i++) {
        const kiln_module_port *port = kiln_module_output(run->module, i);
        const kiln_run_range range = kiln_run_range_of(run, i);
        kiln_shape shape = shape_of(run, i);
        kiln_strbuf text = {0};
        kiln_shape_print(&shape, &text);
        printf("%s: %s%s, %zu sample%s, min %.6g, max %.6g, mean %.6g\n", port->name,
               kiln_dtype_name((kiln_dtype)port->dtype), text.data, run->samples,
               run->samples == 1 ? "" : "s", range.low, range.high, range.mean);
        kiln_strbuf_deinit(&text);
    }
}

/* The shape of all samples: stacked as the inputs were. */
static kiln_shape stacked_shape(const kiln_run *run, uint32_t output) {
    kiln_shape shape = shape_of(run, output);
    if (run->samples == 1) return shape;
    if (shape.rank == 0 || shape.dim[0] != 1) {
        memmove(&shape.dim[1], &shape.dim[0], shape.rank * sizeof shape.dim[0]);
        shape.rank++;
    }
    shape.dim[0] = (int64_t)run->samples;
    return shape;
}

static const char *output_path(const kiln_module *module, uint32_t index, const char *folder,
                               kiln_arena *arena) {
    char *name = kiln_arena_printf(arena, "%s", kiln_module_output(module, index)->name);
    for (char *c = name; *c; c++)
        if (*c == '/') *c = '_';
    return kiln_arena_printf(arena, "%s/%s.npy", folder, name);
}

kiln_status kiln_run_check_output(const kiln_module *module, const char *folder,
                                  kiln_arena *arena) {
    kiln_status st = kiln_folder_create(folder, 0777);
    for (uint32_t i = 0; !st && i < kiln_module_output_count(module); i++)
        st = kiln_file_check_writable(output_path(module, i, folder, arena));
    return st;
}

kiln_status kiln_run_write(const kiln_run *run, const char *folder, kiln_arena *arena) {
    kiln_status st = kiln_folder_create(folder, 0777);
    for (uint32_t i = 0; !st && i < kiln_module_output_count(run->module); i++) {
        const kiln_module_port *port = kiln_module_output(run->module, i);
        const kiln_tensor tensor = {dtype_in_files(port), stacked_shape(run, i), run->output[i]};
        st = kiln_tensor_write_npy(output_path(run->module, i, folder, arena), &tensor);
    }
    return st;
}

static bool is_first(const kiln_module *module, uint32_t step, const void *code) {
    size_t bytes;
    for (uint32_t i = 0; i < step; i++)
        if (kiln_module_step_code(module, i, &bytes) == code) return false;
    return true;
}

void kiln_run_print_perf_map(const kiln_module *module, kiln_strbuf *out) {
    for (uint32_t i = 0; i < kiln_module_step_count(module); i++) {
        size_t bytes;
        const void *code = kiln_module_step_code(module, i, &bytes);
        if (!code || !is_first(module, i, code)) continue;
        const kiln_module_step *step = kiln_module_step_at(module, i);
        kiln_strbuf_printf(out, "%llx %zx kiln:%s:%s\n", (unsigned long long)(uintptr_t)code, bytes,
                           step->op, step->name);
    }
}

kiln_status kiln_run_write_perf_map(const kiln_module *module, kiln_arena *arena) {
    kiln_strbuf text = {0};
    kiln_run_print_perf_map(module, &text);
    const char *path = kiln_arena_printf(arena, "/tmp/perf-%ld.map", (long)getpid());
    kiln_status st = kiln_file_write(path, kiln_strbuf_view(&text), 0644);
    kiln_strbuf_deinit(&text);
    return st;
}
