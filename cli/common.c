#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "compiler-core/frontend/data_set.h"
#include "db/trust.h"
#include "deploy/runtime/calibrate_kept.h"
#include "proto/signing.h"

kiln_status kiln_args_parse(const kiln_opt_table *table, int argc, char **argv, kiln_arena *process,
                            kiln_args *out) {
    *out = (kiln_args){0};
    kiln_status st =
        kiln_opt_parse(table, argc, argv, process, &out->positional, &out->count, &out->help);
    if (!st && !out->help) out->given = kiln_opt_list_given(table, argc, argv, process);
    if (st || !out->help) return st;
    kiln_strbuf text = {0};
    kiln_opt_print_help(table, &text);
    fputs(text.data, stdout);
    kiln_strbuf_deinit(&text);
    return KILN_OK;
}

void kiln_print_text(kiln_str text, kiln_text_form form, FILE *out) {
    kiln_strbuf printable = {0};
    kiln_text_append(&printable, text, form, SIZE_MAX);
    fwrite(printable.data, 1, printable.size, out);
    kiln_strbuf_deinit(&printable);
}

kiln_status kiln_read_tensor(const char *path, kiln_arena *process, kiln_tensor *out) {
    if (kiln_str_ends(kiln_str_from(path), ".pb")) {
        kiln_named_tensor named;
        kiln_status st = kiln_onnx_tensor_load(path, process, &named);
        if (!st) *out = named.tensor;
        return st;
    }
    return kiln_tensor_read_npy(path, process, out);
}

/* Makes every string in `value` printable; names of members are ours, or columns'. */
static json_t *printable(json_t *value) {
    size_t i = 0;
    const char *name = NULL;
    json_t *member = NULL;
    if (json_is_string(value))
        return kiln_json_str((kiln_str){json_string_value(value), json_string_length(value)});
    json_object_foreach(value, name, member) json_object_set_new(value, name, printable(member));
    json_array_foreach(value, i, member) json_array_set_new(value, i, printable(member));
    return json_incref(value);
}

static int append(const char *data, size_t size, void *out) {
    kiln_strbuf_append(out, data, size);
    return 0;
}

void kiln_json_print(json_t *object, kiln_strbuf *out) {
    json_decref(printable(object));
    json_dump_callback(object, append, out, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
}

void kiln_json_line(json_t *object) {
    kiln_strbuf text = {0};
    kiln_json_print(object, &text);
    puts(text.data);
    fflush(stdout);
    kiln_strbuf_deinit(&text);
}

json_t *kiln_json_str(kiln_str text) {
    kiln_strbuf printable = {0};
    kiln_text_append(&printable, text, KILN_TEXT_PAGE, SIZE_MAX);
    json_t *value = json_stringn(printable.data ? printable.data : "", printable.size);
    kiln_strbuf_deinit(&printable);
    return value;
}

kiln_status kiln_db_path(const char *option, kiln_arena *process, const char **out_path) {
    char *home = NULL;
    if (option) {
        *out_path = option;
        return KILN_OK;
    }
    kiln_status st = kiln_home(process, &home);
    if (!st) *out_path = kiln_arena_printf(process, "%s/kiln.db", home);
    return st;
}

kiln_status kiln_trust_own(kiln_db *db, kiln_arena *process) {
    char *home = NULL;
    kiln_signing own = {0};
    kiln_status st = kiln_home(process, &home);
    if (st || !kiln_file_exists(kiln_arena_printf(process, "%s/signing.key", home))) return st;
    st = kiln_signing_load(home, NULL, &own);
    if (!st && own.signer)
        st = kiln_db_trust_own(db, kiln_signer_public(own.signer),
                               own.has_before ? &own.succession : NULL,
                               (int64_t)kiln_clock_wall_ns());
    kiln_signer_destroy(own.signer);
    return st;
}

bool kiln_target_is_native(const char *option) {
    kiln_str text = kiln_str_from(option ? option : "native");
    return kiln_str_is(kiln_str_cut(&text, ','), "native");
}

kiln_figures kiln_own_calibration(kiln_arena *process) {
    const kiln_figures none = {0};
    char *home = NULL;
    if (!kiln_calibration_is_wanted()) return none;
    kiln_status st = kiln_home(process, &home);
    if (!st) return kiln_calibration_kept(home, process);
    kiln_status_free(st); /* what needs the folder says so */
    return none;
}

const char kiln_threads_help[] =
    "threads that a kernel may use: part of the target, as threads=N in --target (default 1)";

kiln_status kiln_target_option(const char *option, uint64_t threads, kiln_arena *process,
                               kiln_target *out_target) {
    kiln_target target;
    const char *text = option ? option : "native";
    kiln_status st = kiln_target_parse(kiln_str_from(text), process, &target);
    if (!st && threads && target.kind != KILN_TARGET_CPU)
        st = KILN_ERROR(INVALID_ARGUMENT, "--threads is for processors, not for %s", text);
    if (!st && threads > KILN_TARGET_CORES_MAX)
        st = KILN_ERROR(INVALID_ARGUMENT, "--threads is at most %u", KILN_TARGET_CORES_MAX);
    if (!st && threads && strstr(text, "threads=") && target.threads != threads)
        st = KILN_ERROR(INVALID_ARGUMENT,
                        "--threads %llu, but --target says threads=%u: leave one out",
                        (unsigned long long)threads, target.threads);
    if (st) return st;
    if (threads) target.threads = (uint32_t)threads;
    if (kiln_target_is_native(option)) {
        const kiln_figures kept = kiln_own_calibration(process);
        kiln_target_calibrate(&target, &kept);
    }
    *out_target = target;
    return KILN_OK;
}

const char kiln_accuracy_help[] = "largest error of a kernel and of the whole, over the output's "
                                  "largest magnitude (default 1e-4; "
                                  "of tf32 1e-2, of bf16 and f16 2e-2)";
const char kiln_exact_help[] = "direct sums only, whatever the budget leaves room for";
const char kiln_precision_help[] =
    "what products may be computed in: f32, tf32 (f32 for tensor cores), bf16, f16, int8 (of "
    "quantised models) or auto, which is "
    "any that --accuracy leaves room for (default f32)";

kiln_status kiln_accuracy_option(const kiln_accuracy_options *options,
                                 kiln_accuracy *out_accuracy) {
    const char *name = options->precision ? options->precision : "f32";
    const kiln_precision precision = kiln_precision_find(kiln_str_from(name));
    if (precision == KILN_PRECISION_COUNT)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "--precision is f32, tf32, bf16, f16, int8 or auto, not '%s'", name);
    double error_max = 0;
    if (options->error_max && options->exact)
        return KILN_ERROR(INVALID_ARGUMENT,
                          "--exact keeps to direct sums: it leaves --accuracy nothing to bound");
    if (options->error_max && (!kiln_str_to_f64(kiln_str_from(options->error_max), &error_max) ||
                               !(error_max > 0 && error_max < 1)))
        return KILN_ERROR(INVALID_ARGUMENT, "--accuracy is above 0 and below 1, not '%s'",
                          options->error_max);
    *out_accuracy = (kiln_accuracy){precision, options->exact, error_max};
    return KILN_OK;
}

kiln_db_allowed kiln_allowed_by(const kiln_accuracy *accuracy, kiln_arena *arena) {
    return (kiln_db_allowed){kiln_algorithm_allowed(accuracy, arena),
                             kiln_accuracy_error_max(accuracy)};
}

kiln_status kiln_target_check_modules(const kiln_target *target, const char *option,
                                      const char *model) {
    static const char *const bare[] = {"-none-eabi", "-none-eabihf"};
    bool is_bare = target->kind == KILN_TARGET_MICRO;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bare); i++)
        is_bare |= target->kind == KILN_TARGET_CPU && kiln_str_ends(target->triple, bare[i]);
    if (!is_bare) return KILN_OK;
    return KILN_ERROR(FAILED_PRECONDITION,
                      "nothing loads modules on %.*s, which has no operating system; as C, which "
                      "its compiler takes: kiln compile %s --emit static-c --target %s -o NAME.c",
                      KILN_STR_ARG(target->triple), model, option);
}

const char *kiln_user_name(kiln_arena *process) {
    char buffer[1024];
    struct passwd entry, *found = NULL;
    if (kiln_env("USER")) return kiln_env("USER");
    if (getpwuid_r(getuid(), &entry, buffer, sizeof buffer, &found) == 0 && found &&
        *found->pw_name)
        return kiln_str_dup(process, kiln_str_from(found->pw_name));
    return kiln_arena_printf(process, "uid-%lu", (unsigned long)getuid());
}

const char kiln_dim_help[] =
    "size of a dimension that the model leaves open, as in --dim batch=8 (again for each)";
const char kiln_loop_help[] =
    "most iterations of a loop whose length is known at run time only (default: the model's)";

kiln_status kiln_dim_option(const kiln_opt_list *option, kiln_arena *process,
                            kiln_import_options *out_options) {
    kiln_str *name = KILN_ARENA_ARRAY(process, kiln_str, option->count);
    int64_t *value = KILN_ARENA_ARRAY(process, int64_t, option->count);
    for (size_t i = 0; i < option->count; i++) {
        uint64_t size = 0;
        kiln_str rest = kiln_str_from(option->item[i]);
        name[i] = kiln_str_cut(&rest, '=');
        if (!name[i].size || !kiln_str_to_u64(rest, &size) || size == 0 || size > INT32_MAX)
            return KILN_ERROR(INVALID_ARGUMENT, "--dim wants NAME=N with N of 1 or more, not '%s'",
                              option->item[i]);
        for (size_t k = 0; k < i; k++)
            if (kiln_str_equal(name[k], name[i]))
                return KILN_ERROR(INVALID_ARGUMENT, "--dim %.*s is given twice",
                                  KILN_STR_ARG(name[i]));
        value[i] = (int64_t)size;
    }
    out_options->dim_count = (uint32_t)option->count;
    out_options->dim_name = name;
    out_options->dim_value = value;
    return KILN_OK;
}

const char kiln_memory_help[] =
    "MiB of memory that reading and compiling the model may take, in processes without rights "
    "(default 4096)";

kiln_status kiln_db_check_there(const char *path) {
    if (!kiln_db_is_there(path))
        return KILN_ERROR(NOT_FOUND, "%s: there is no such database", path);
    return !kiln_file_exists(path) || access(path, R_OK) == 0
               ? KILN_OK
               : KILN_ERROR(PERMISSION_DENIED, "%s: the file cannot be opened", path);
}

/* How well the default that `record` holds compares with `best`. */
static uint32_t default_rank(const kiln_db_record *record, const kiln_db_record *best) {
    if (!record->final) return 1;
    if (!best || !best->final || !kiln_str_equal(record->job_id, best->job_id)) return 2;
    return record->stored_wall_ns == best->stored_wall_ns ? 4 : 3; /* a job may have several */
}

const kiln_db_record *kiln_record_default(const kiln_db_record *record, uint32_t count,
                                          const kiln_db_record *best) {
    const kiln_db_record *found = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const kiln_db_record *r = &record[i];
        bool ran = kiln_str_is(r->outcome, "ok") && r->checked && r->median_ns > 0;
        if (!ran || !kiln_str_is(r->searcher, "default")) continue;
        if (!found || default_rank(r, best) >= default_rank(found, best)) found = r;
    }
    return found;
}

const char *kiln_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
