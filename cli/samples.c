#include "cli/samples.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/vec.h"
#include "cli/cli.h"

#define LABELS "labels.npy"

static bool is_tensor_file(const char *name) {
    const kiln_str text = kiln_str_from(name);
    return (kiln_str_ends(text, ".npy") || kiln_str_ends(text, ".pb")) &&
           !kiln_str_is(text, LABELS);
}

static bool is_data_set(const char *folder, const char *name, kiln_arena *arena) {
    return strncmp(name, "test_data_set_", strlen("test_data_set_")) == 0 &&
           kiln_file_is_folder(kiln_arena_printf(arena, "%s/%s", folder, name));
}

kiln_status kiln_samples_check(kiln_samples_source *source, kiln_arena *arena) {
    const int kinds =
        (source->folder != NULL) + (source->given.count > 0) + (source->synthetic > 0);
    char **name = NULL;
    size_t count = 0;
    if (kinds > 1)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "there is more than one kind of data: give --data DIR, --input "
                          "NAME=FILE... or --synthetic N");
    if (kinds == 0) source->synthetic = KILN_SAMPLES_SYNTHETIC;
    if (!source->folder) return KILN_OK;
    if (!kiln_file_is_folder(source->folder))
        return KILN_ERROR(NOT_FOUND, "--data %s: there is no such folder", source->folder);
    kiln_status st = kiln_folder_list(source->folder, arena, &name, &count);
    if (st) return st;
    for (size_t i = 0; i < count; i++)
        if (is_tensor_file(name[i]) || is_data_set(source->folder, name[i], arena)) return KILN_OK;
    return KILN_ERROR(NOT_FOUND,
                      "--data %s: it has no data: neither .npy or .pb files nor test_data_set_0",
                      source->folder);
}

/* ---- batches --------------------------------------------------------------------------------- */

typedef struct reader {
    const kiln_samples_source *source;
    kiln_module *module;
    kiln_arena *arena;
    KILN_VEC(kiln_run) batch;
} reader;

static kiln_status check_finite(const kiln_run *run, const kiln_opt_list *given) {
    for (uint32_t i = 0; i < kiln_module_input_count(run->module); i++) {
        const kiln_module_port *port = kiln_module_input(run->module, i);
        const float *data = (const float *)(const void *)run->feed[i].data;
        const size_t each = port->size_bytes / sizeof *data;
        for (size_t k = 0; port->dtype == KILN_MODULE_F32 && k < each * run->feed[i].samples; k++)
            if (!isfinite((double)data[k]))
                return KILN_ERROR(INVALID_ARGUMENT,
                                  "%s: sample %zu of input %s has an element that is %s",
                                  given->count > i ? given->item[i] : "the data", k / each,
                                  port->name, isnan((double)data[k]) ? "no number" : "infinite");
    }
    return KILN_OK;
}

/* Every input is among what is given. */
static kiln_status check_complete(const kiln_module *module, const kiln_opt_list *given) {
    for (uint32_t i = 0; i < kiln_module_input_count(module); i++) {
        const char *name = kiln_module_input(module, i)->name;
        bool found = false;
        for (size_t k = 0; k < given->count; k++) {
            kiln_str rest = kiln_str_from(given->item[k]);
            found = found || kiln_str_is(kiln_str_cut(&rest, '='), name);
        }
        if (!found) return KILN_ERROR(INVALID_ARGUMENT, "there is no data for input %s", name);
    }
    return KILN_OK;
}

/* One file for each input. */
static kiln_status add_files(reader *r, const kiln_opt_list *given) {
    kiln_run run;
    kiln_status st = check_complete(r->module, given);
    if (!st) st = kiln_run_init_inputs(&run, r->module, given, kiln_read_tensor, r->arena);
    if (!st) st = check_finite(&run, given);
    if (!st) kiln_vec_push_in(r->arena, &r->batch, run);
    return st;
}

/* The K-th file is that of the K-th input. */
static kiln_status add_data_set(reader *r, const char *folder) {
    const uint32_t inputs = kiln_module_input_count(r->module);
    kiln_opt_list given = {KILN_ARENA_ARRAY(r->arena, const char *, inputs), inputs};
    for (uint32_t i = 0; i < inputs; i++)
        given.item[i] = kiln_arena_printf(r->arena, "%s=%s/input_%u.pb",
                                          kiln_module_input(r->module, i)->name, folder, i);
    return add_files(r, &given);
}

static kiln_status add_of_only_input(reader *r, const char *path) {
    const char *item =
        kiln_arena_printf(r->arena, "%s=%s", kiln_module_input(r->module, 0)->name, path);
    return add_files(r, &(kiln_opt_list){&item, 1});
}

/* NAME.npy or NAME.pb of each input. */
static kiln_status add_by_names(reader *r, const char *folder) {
    const uint32_t inputs = kiln_module_input_count(r->module);
    kiln_opt_list given = {KILN_ARENA_ARRAY(r->arena, const char *, inputs), inputs};
    for (uint32_t i = 0; i < inputs; i++) {
        const char *name = kiln_module_input(r->module, i)->name,
                   *path = kiln_arena_printf(r->arena, "%s/%s.npy", folder, name);
        if (!kiln_file_exists(path)) path = kiln_arena_printf(r->arena, "%s/%s.pb", folder, name);
        if (!kiln_file_exists(path))
            return KILN_ERROR(NOT_FOUND, "--data %s: there is no %s.npy or %s.pb for that input",
                              folder, name, name);
        given.item[i] = kiln_arena_printf(r->arena, "%s=%s", name, path);
    }
    return add_files(r, &given);
}

static kiln_status add_folder(reader *r, const char *folder) {
    char **name = NULL;
    size_t count = 0;
    bool sets = false;
    kiln_status st = kiln_folder_list(folder, r->arena, &name, &count);
    for (size_t i = 0; !st && i < count; i++) {
        if (!is_data_set(folder, name[i], r->arena)) continue;
        st = add_data_set(r, kiln_arena_printf(r->arena, "%s/%s", folder, name[i]));
        sets = true;
    }
    if (st || sets) return st;
    if (kiln_module_input_count(r->module) != 1) return add_by_names(r, folder);
    for (size_t i = 0; !st && i < count; i++)
        if (is_tensor_file(name[i]))
            st = add_of_only_input(r, kiln_arena_printf(r->arena, "%s/%s", folder, name[i]));
    return st;
}

/* All samples of an input are one run of random data. */
static kiln_status add_synthetic(reader *r) {
    const uint32_t inputs = kiln_module_input_count(r->module);
    const uint64_t count = r->source->synthetic;
    kiln_run run = {.module = r->module,
                    .samples = (size_t)count,
                    .feed = KILN_ARENA_ARRAY(r->arena, kiln_run_feed, inputs),
                    .inputs = KILN_ARENA_ARRAY(r->arena, const void *, inputs)};
    for (uint32_t i = 0; i < inputs; i++) {
        const kiln_module_port *port = kiln_module_input(r->module, i);
        const kiln_shape shape = kiln_port_shape(port);
        if (port->size_bytes && count > KILN_TENSOR_BYTES_MAX / port->size_bytes)
            return KILN_ERROR(OUT_OF_RANGE, "--synthetic %llu: more bytes than a tensor may have",
                              (unsigned long long)count);
        char *data = kiln_arena_alloc_aligned(r->arena, 64, port->size_bytes * (size_t)count);
        kiln_fill_data(data, (kiln_dtype)port->dtype,
                       (size_t)kiln_shape_count(&shape) * (size_t)count, r->source->seed + i,
                       KILN_FILL_UNIFORM);
        run.feed[i] = (kiln_run_feed){data, (size_t)count};
    }
    kiln_vec_push_in(r->arena, &r->batch, run);
    return KILN_OK;
}

/* ---- labels ---------------------------------------------------------------------------------- */

static kiln_status read_labels(const reader *r, kiln_samples *samples) {
    const char *path = r->source->labels;
    kiln_tensor tensor;
    if (!path && r->source->folder) {
        path = kiln_arena_printf(r->arena, "%s/" LABELS, r->source->folder);
        if (!kiln_file_exists(path)) return KILN_OK;
    }
    if (!path) return KILN_OK;
    kiln_status st = kiln_read_tensor(path, r->arena, &tensor);
    if (st) return st;
    if (kiln_dtype_is_float(tensor.dtype) || tensor.shape.rank != 1)
        return KILN_ERROR(INVALID_ARGUMENT, "%s: labels are a vector of integers", path);
    int64_t *label = KILN_ARENA_ARRAY(r->arena, int64_t, tensor.shape.dim[0]);
    for (int64_t i = 0; i < tensor.shape.dim[0]; i++)
        label[i] = kiln_dtype_load_i64(tensor.dtype, tensor.data, (size_t)i);
    samples->label = label;
    samples->label_count = (size_t)tensor.shape.dim[0];
    return KILN_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

kiln_status kiln_samples_read(const kiln_samples_source *source, kiln_module *module,
                              kiln_arena *arena, kiln_samples *out_samples) {
    reader r = {.source = source, .module = module, .arena = arena};
    kiln_samples samples = {0};
    kiln_status st = source->folder      ? add_folder(&r, source->folder)
                     : source->synthetic ? add_synthetic(&r)
                                         : add_files(&r, &source->given);
    if (!st) st = read_labels(&r, &samples);
    if (st) return st;
    samples.batch = r.batch.data;
    samples.batch_count = r.batch.count;
    for (uint32_t i = 0; i < r.batch.count; i++) samples.count += r.batch.data[i].samples;
    samples.is_part = source->samples_max && source->samples_max < samples.count;
    if (samples.is_part) samples.count = source->samples_max;
    *out_samples = samples;
    return KILN_OK;
}

const void *const *kiln_samples_at(const kiln_samples *samples, size_t sample) {
    kiln_run *batch = samples->batch;
    for (; sample >= batch->samples; batch++) sample -= batch->samples;
    kiln_run_point(batch, sample);
    return batch->inputs;
}
