#include "cli/common/options.h"

#include <string.h>

#include "base/str.h"
#include "base/text.h"
#include "cli/common/names.h"
#include "deploy/runtime/calibrate_kept.h"
#include "proto/proto.h"

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
    if (!st) st = kiln_target_find_host(&target, process);
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
const char kiln_exact_help[] =
    "direct sums only, even if the accuracy budget allows other algorithms";
const char kiln_precision_help[] =
    "precision of products: f32, tf32 (f32 for tensor cores), bf16, f16, int8 (of quantised "
    "models) or auto, any that --accuracy allows (default f32)";

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
                          "--exact allows direct sums only: leave out --accuracy");
    if (options->error_max && (!kiln_str_to_f64(kiln_str_from(options->error_max), &error_max) ||
                               !(error_max > 0 && error_max < 1)))
        return KILN_ERROR(INVALID_ARGUMENT, "--accuracy is above 0 and below 1, not '%s'",
                          options->error_max);
    *out_accuracy = (kiln_accuracy){precision, options->exact, error_max};
    return KILN_OK;
}

kiln_status kiln_target_check_modules(const kiln_target *target, const char *option,
                                      const char *model) {
    static const char *const bare[] = {"-none-eabi", "-none-eabihf"};
    bool is_bare = target->kind == KILN_TARGET_MICRO;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(bare); i++)
        is_bare |= target->kind == KILN_TARGET_CPU && kiln_str_ends(target->triple, bare[i]);
    if (!is_bare) return KILN_OK;
    return KILN_ERROR(FAILED_PRECONDITION,
                      "%.*s has no operating system and cannot load modules; write C for its "
                      "compiler instead: kiln compile %s --emit static-c --target %s -o NAME.c",
                      KILN_STR_ARG(target->triple), model, option);
}

const char kiln_dim_help[] = "size of a dimension that the model leaves open, as in --dim batch=8 "
                             "(repeat for each dimension)";
const char kiln_loop_help[] =
    "most iterations of a loop whose length is known at run time only (default: the model's)";
const char kiln_model_name_help[] =
    "name of the model in lists and in the module (default: that of its file)";

kiln_str kiln_model_title(const char *name, const char *path, kiln_arena *arena) {
    return name ? kiln_str_from(name)
                : kiln_text_printable(kiln_str_from(kiln_file_name(path)), KILN_TEXT_LINE,
                                      KILN_MESSAGES_NAME, arena);
}

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
