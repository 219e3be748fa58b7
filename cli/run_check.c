#include "cli/run_check.h"

#include "base/file.h"
#include "base/macros.h"
#include "cli/cli.h"
#include "cli/common/model_work.h"
#include "cli/common/names.h"
#include "cli/common/options.h"
#include "deploy/runtime/module_open.h"

static kiln_str metadata_of(const kiln_module *module, const char *key) {
    const kiln_module_plan *plan = &kiln_module_sizes_of(module)->bucket->plan;
    for (uint32_t i = 0; i < plan->metadata_count; i++)
        if (kiln_str_is(plan->metadata[i].key, key)) return plan->metadata[i].value;
    return (kiln_str){0};
}

/* ---- the model's file ------------------------------------------------------------------------ */

static kiln_status find_model(const char *module_path, kiln_str name, kiln_arena *process,
                              const char **out_path) {
    const size_t folder = (size_t)(kiln_file_name(module_path) - module_path);
    const char *beside =
        kiln_arena_printf(process, "%.*s%.*s", (int)folder, module_path, KILN_STR_ARG(name));
    const char *here = kiln_str_dup(process, name);
    *out_path = kiln_file_exists(beside) ? beside : here;
    if (name.size && kiln_file_exists(*out_path)) return KILN_OK;
    return KILN_ERROR(NOT_FOUND,
                      "the model '%.*s' is neither beside the module nor here: --model FILE says "
                      "where it is",
                      KILN_STR_ARG(name));
}

static kiln_status check_bytes(const char *path, kiln_str wanted, kiln_arena *process) {
    kiln_pack_provenance found;
    kiln_status st = kiln_model_provenance(path, NULL, NULL, process, &found);
    if (st || kiln_str_equal(found.model_sha256, wanted)) return st;
    return KILN_ERROR(FAILED_PRECONDITION, "%s is not the model that the module was made from",
                      path);
}

/* The sizes that the module was compiled for as options --dim. Of the dimension of which it has
 * several: `dim`, or the largest. */
static kiln_opt_list dims_of(const kiln_module *module, const char *dim, kiln_arena *process) {
    const kiln_module_sizes *sizes = kiln_module_sizes_of(module);
    const int64_t largest = sizes->bucket[sizes->bucket_count - 1].size;
    kiln_str rest = metadata_of(module, "dims");
    kiln_opt_list list = {.item = KILN_ARENA_ARRAY(process, const char *, rest.size + 1)};
    while (rest.size) {
        const kiln_str option = kiln_str_cut(&rest, ';');
        kiln_str size = option;
        const kiln_str name = kiln_str_cut(&size, '=');
        const char *item = kiln_str_dup(process, option);
        if (sizes->dim.size && kiln_str_equal(name, sizes->dim))
            item = dim ? dim
                       : kiln_arena_printf(process, "%.*s=%lld", KILN_STR_ARG(name),
                                           (long long)largest);
        list.item[list.count++] = item;
    }
    return list;
}

static kiln_status find_source(const char *module_path, const char *model, const char *dim,
                               kiln_arena *process, const char **out_path,
                               kiln_import_options *out_import) {
    kiln_mapping file;
    kiln_module *module = NULL;
    kiln_status st = kiln_file_map(module_path, &file);
    if (st) return st;
    st = kiln_module_inspect((kiln_str){file.data, file.size}, 0, &module);
    *out_path = model;
    if (!st && !model)
        st = find_model(module_path, metadata_of(module, "model"), process, out_path);
    if (!st) st = check_bytes(*out_path, metadata_of(module, "model_sha256"), process);
    if (!st) {
        const kiln_opt_list dims = dims_of(module, dim, process);
        st = kiln_dim_option(&dims, process, out_import);
    }
    kiln_module_close(module);
    kiln_file_unmap(&file);
    return st;
}

/* ---- the reference --------------------------------------------------------------------------- */

/* In a process without rights. */
static kiln_status compile_as_written(const kiln_model_call *call, kiln_graph *graph,
                                      kiln_arena *arena, kiln_isolated_result *out_result) {
    kiln_compilation *c = NULL;
    kiln_strbuf bytes = {0};
    kiln_status st = kiln_compilation_create(graph, call->work->context, arena, &c);
    if (st) return st;
    kiln_pack_given *given = KILN_ARENA_ARRAY(arena, kiln_pack_given, c->plan.tasks.count);
    for (uint32_t t = 0; t < c->plan.tasks.count; t++)
        given[t].task_key = c->plan.tasks.task[t].key; /* with a trace of no instructions */
    const kiln_pack_options options = {.given = given,
                                       .given_count = c->plan.tasks.count,
                                       .model_name = KILN_STR("reference"),
                                       .without = 1u << KILN_PLANNER_WINDOWS,
                                       .step = kiln_model_step,
                                       .step_context = (void *)(uintptr_t)call};
    st = kiln_pack(c, &options, arena, &bytes, NULL);
    if (!st) *out_result = kiln_model_result(kiln_strbuf_end(&bytes, arena), arena);
    return st;
}

kiln_status kiln_run_check_start(const char *module_path, const char *model, const char *dim,
                                 kiln_arena *process, kiln_run_check *out_check) {
    kiln_target native;
    kiln_model read = {0};
    kiln_mapping result;
    const char *path = NULL;
    kiln_import_options import = {0};
    kiln_status st = find_source(module_path, model, dim, process, &path, &import);
    if (!st) st = kiln_target_native(process, &native);
    if (!st) st = kiln_model_read(path, &import, process, &read);
    kiln_model_work work = {.model = &read,
                            .doing = "compiling the reference of",
                            .run = compile_as_written,
                            .context = &native};
    if (!st) st = kiln_model_run(&work, NULL, process, &result);
    kiln_model_deinit(&read);
    if (st) return kiln_status_note(st, "--check");
    *out_check = (kiln_run_check){path, {result.data, result.size}};
    return KILN_OK;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool same_port(const kiln_module_port *a, const kiln_module_port *b) {
    const kiln_shape one = kiln_port_shape(a), other = kiln_port_shape(b);
    return a->dtype == b->dtype && kiln_shape_equal(&one, &other);
}

static bool same_ports(const kiln_module *a, const kiln_module *b) {
    bool same = kiln_module_input_count(a) == kiln_module_input_count(b) &&
                kiln_module_output_count(a) == kiln_module_output_count(b);
    for (uint32_t i = 0; same && i < kiln_module_input_count(a); i++)
        same = same_port(kiln_module_input(a, i), kiln_module_input(b, i));
    for (uint32_t i = 0; same && i < kiln_module_output_count(a); i++)
        same = same_port(kiln_module_output(a, i), kiln_module_output(b, i));
    return same;
}

/* All samples of an output as one row of elements. */
static kiln_run_checked compare(const kiln_module_port *port, size_t samples, char *got,
                                char *wanted) {
    const kiln_dtype dtype = (kiln_dtype)port->dtype;
    const bool half = kiln_dtype_is_float(dtype) && kiln_dtype_size(dtype) < 4;
    const int64_t count = (int64_t)(port->size_bytes / kiln_dtype_size(dtype) * samples);
    const kiln_shape shape = {.rank = 1, .dim = {count}};
    const kiln_tensor actual = {dtype, shape, got}, expected = {dtype, shape, wanted};
    const double share = half ? 2e-2 : 1e-3;
    kiln_compare c = kiln_tensor_compare(&actual, &expected, 0, 0);
    if (kiln_dtype_is_float(dtype))
        c = kiln_tensor_compare(&actual, &expected, 0, share * KILN_MAX(1e-6, c.max_ref));
    return (kiln_run_checked){c.mismatches, c.max_abs, c.max_ref, c.mismatches == 0};
}

kiln_status kiln_run_check_finish(const kiln_run_check *check, const kiln_run *run,
                                  const kiln_opt_list *given, kiln_arena *process,
                                  kiln_run_checked **out_checked) {
    const uint32_t count = kiln_module_output_count(run->module);
    kiln_module *module = NULL;
    kiln_run reference = {0};
    kiln_run_checked *checked = KILN_ARENA_ARRAY(process, kiln_run_checked, count);
    kiln_status st = kiln_module_load_bytes(check->module, 0, &module);
    if (!st && !same_ports(module, run->module))
        st = KILN_ERROR(INVALID_ARGUMENT,
                        "%s read as it is has other inputs or outputs than the run: where the "
                        "module has several sizes, --dim says which one is checked",
                        check->model);
    if (!st) st = kiln_run_init(&reference, module, given, kiln_read_tensor, process);
    if (!st) st = kiln_run_samples(&reference);
    for (uint32_t i = 0; !st && i < count; i++)
        checked[i] = compare(kiln_module_output(run->module, i), run->samples, run->output[i],
                             reference.output[i]);
    kiln_module_close(module);
    if (st) return kiln_status_note(st, "--check");
    *out_checked = checked;
    return KILN_OK;
}
