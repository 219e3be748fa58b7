/* Options that several commands and requests have: rows of their tables, and what becomes of them.
 */
#ifndef KILN_CLI_COMMON_OPTIONS_H
#define KILN_CLI_COMMON_OPTIONS_H

#include "base/arena.h"
#include "base/opt.h"
#include "base/status.h"
#include "base/target.h"
#include "compiler-core/core.h"
#include "compiler-core/frontend/frontend.h"

/* ---- --target T, --threads N ---- */
#define KILN_THREADS_OPTION(threads) {"threads", KILN_OPT_COUNT, threads, "N", kiln_threads_help}
extern const char kiln_threads_help[];
/* T, or native, for kernels of `threads` threads (0: as T says, else 1). INVALID_ARGUMENT: T says
 * another number, or is no processor. */
KILN_MUST_USE kiln_status kiln_target_option(const char *option, uint64_t threads,
                                             kiln_arena *process, kiln_target *out_target);
/* Whether T means this machine, by its name or by default. */
bool kiln_target_is_native(const char *option);
/* What was measured of this machine and is kept in $KILN_HOME; empty where nothing is, or where
 * only the table counts (calibrate_kept.h). Targets that mean this machine have it. */
kiln_figures kiln_own_calibration(kiln_arena *process);
/* What a module is for: FAILED_PRECONDITION where nothing loads modules, as without an operating
 * system; the note says which command makes C of `model` instead. */
KILN_MUST_USE kiln_status kiln_target_check_modules(const kiln_target *target, const char *option,
                                                    const char *model);

/* ---- --accuracy X, --exact, --precision P: of what chooses among schedules ---- */
typedef struct kiln_accuracy_options {
    const char *precision, *error_max; /* NULL: not given */
    bool exact;
} kiln_accuracy_options;
#define KILN_ACCURACY_OPTIONS(options)                                              \
    {"accuracy", KILN_OPT_TEXT, &(options)->error_max, "X", kiln_accuracy_help},    \
        {"exact", KILN_OPT_FLAG, &(options)->exact, NULL, kiln_exact_help}, {       \
        "precision", KILN_OPT_TEXT, &(options)->precision, "P", kiln_precision_help \
    }
extern const char kiln_accuracy_help[], kiln_exact_help[], kiln_precision_help[];
/* INVALID_ARGUMENT: no such precision; X is no error (0 < X < 1), or together with --exact. */
KILN_MUST_USE kiln_status kiln_accuracy_option(const kiln_accuracy_options *options,
                                               kiln_accuracy *out_accuracy);

/* ---- --dim NAME=N..., --loop-max N, --model-memory MIB: how a model is read ---- */
/* `dim`: kiln_opt_list, and kiln_dim_help, or kiln_sizes_help (sizes.h) where it may list sizes;
 * `import`: kiln_import_options. Both by their address. */
#define KILN_MODEL_OPTIONS(dim, dim_help, import)                                      \
    {"dim", KILN_OPT_LIST, dim, "NAME=N", dim_help},                                   \
        {"loop-max", KILN_OPT_COUNT, &(import)->loop_max, "N", kiln_loop_help}, {      \
        "model-memory", KILN_OPT_COUNT, &(import)->memory_mib, "MIB", kiln_memory_help \
    }
extern const char kiln_dim_help[], kiln_loop_help[], kiln_memory_help[], kiln_model_name_help[];
/* What people see as the name of a model: `name`, or the printable form of its file's name. */
kiln_str kiln_model_title(const char *name, const char *path, kiln_arena *arena);
/* Takes --dim NAME=N...; other members of `*out_options` stay. INVALID_ARGUMENT: not of that form,
 * or a name twice. */
KILN_MUST_USE kiln_status kiln_dim_option(const kiln_opt_list *option, kiln_arena *process,
                                          kiln_import_options *out_options);

#endif
