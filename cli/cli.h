/* `kiln`, the command a person types. Each command is a row of commands.def and a file cmd_NAME.c;
 * this header holds what they share. Results go to standard output, one JSON object per line with
 * --json; errors and progress go to standard error. */
#ifndef KILN_CLI_CLI_H
#define KILN_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/opt.h"
#include "base/stats.h"
#include "base/status.h"
#include "base/str.h"
#include "base/target.h"
#include "base/text.h"
#include "compiler-core/core.h"
#include "compiler-core/frontend/frontend.h"
#include "db/db.h"

/* A command gets its own name as argv[0]. `process` lives as long as the program. */
typedef kiln_status (*kiln_command)(kiln_arena *process, int argc, char **argv);
#define X(name, function, doc) kiln_status function(kiln_arena *process, int argc, char **argv);
#include "cli/commands.def"
#undef X

/* What a command line gave. */
typedef struct kiln_args {
    const char **positional;
    size_t count;
    kiln_opt_given_list given; /* options, as they were given */
    bool help;                 /* help was printed: the command returns at once */
} kiln_args;

/* Reads options into the table's places; what is left over is positional. INVALID_ARGUMENT: an
 * unknown option or a bad value; the note names it. */
KILN_MUST_USE kiln_status kiln_args_parse(const kiln_opt_table *table, int argc, char **argv,
                                          kiln_arena *process, kiln_args *out);

/* Prints text of others (files, models, errors) in its printable form. What peers said is printable
 * already (cli/client.h). */
void kiln_print_text(kiln_str text, kiln_text_form form, FILE *out);
/* Prints one JSON object, its strings in their printable form, and frees it: into `out`, or as a
 * line of standard output. */
void kiln_json_print(json_t *object, kiln_strbuf *out);
void kiln_json_line(json_t *object);
/* A string in its printable form, with its line ends. What may be no UTF-8 needs it. */
json_t *kiln_json_str(kiln_str text);

/* The tensor of a .pb or a .npy file, in `process`. Errors of reading one. */
KILN_MUST_USE kiln_status kiln_read_tensor(const char *path, kiln_arena *process, kiln_tensor *out);

/* --db PATH, or $KILN_HOME/kiln.db. */
/* This user's own tuner counts in `db`: $KILN_HOME/signing.key, where there is one. */
KILN_MUST_USE kiln_status kiln_trust_own(kiln_db *db, kiln_arena *process);
KILN_MUST_USE kiln_status kiln_db_path(const char *option, kiln_arena *process,
                                       const char **out_path);
/* --target T, or native, for kernels of --threads `threads` (0: as T says, else 1).
 * INVALID_ARGUMENT: T says another number, or is no processor. */
extern const char kiln_threads_help[];
KILN_MUST_USE kiln_status kiln_target_option(const char *option, uint64_t threads,
                                             kiln_arena *process, kiln_target *out_target);
/* Whether --target means this machine, by its name or by default. */
bool kiln_target_is_native(const char *option);
/* What was measured of this machine and is kept in $KILN_HOME; empty where nothing is, or where
 * only the table counts (calibrate_kept.h). Targets that mean this machine have it. */
kiln_figures kiln_own_calibration(kiln_arena *process);
/* What a module is for: FAILED_PRECONDITION where nothing loads modules, as without an operating
 * system; the note says which command makes C of `model` instead. */
KILN_MUST_USE kiln_status kiln_target_check_modules(const kiln_target *target, const char *option,
                                                    const char *model);
/* --accuracy X, --exact and --precision P, of commands that choose among schedules.
 * INVALID_ARGUMENT: no such precision; X is no error (0 < X < 1), or together with --exact. */
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
KILN_MUST_USE kiln_status kiln_accuracy_option(const kiln_accuracy_options *options,
                                               kiln_accuracy *out_accuracy);
/* As filters on records have it. */
kiln_db_allowed kiln_allowed_by(const kiln_accuracy *accuracy, kiln_arena *arena);
/* This person's name: $USER, else that of the user's account, else "uid-1000". */
const char *kiln_user_name(kiln_arena *process);
/* --dim NAME=N...: sizes of dimensions that the model leaves open. INVALID_ARGUMENT: not of that
 * form, or a name twice. */
extern const char kiln_dim_help[];
extern const char kiln_loop_help[];   /* of --loop-max, kiln_import_options.loop_max */
extern const char kiln_memory_help[]; /* of --model-memory, kiln_import_options.memory_mib */
KILN_MUST_USE kiln_status kiln_dim_option(const kiln_opt_list *option, kiln_arena *process,
                                          kiln_import_options *out_options);
/* Whether a database that a person named can be opened for reading, without opening it. NOT_FOUND,
 * PERMISSION_DENIED. */
KILN_MUST_USE kiln_status kiln_db_check_there(const char *path);
/* What the best record of a task is compared with: the default of its own final, where both ran in
 * turns; else of another final, else of the search; of equals the one stored last. NULL: the
 * default never ran. `best` may be NULL. */
const kiln_db_record *kiln_record_default(const kiln_db_record *record, uint32_t count,
                                          const kiln_db_record *best);
/* Of temporary folders that a command holds (kiln_folder_hold_temp): one prefix for all, so that
 * each takes away what any killed one left. */
#define KILN_COMMAND_FOLDER "kiln-command"
/* The last part of a path. */
const char *kiln_file_name(const char *path);

/* Whether this is the task that a person names: by its number, by the beginning of its key, or not
 * at all (NULL: every task is). */
bool kiln_task_is(const kiln_task *task, uint32_t number, const char *wanted);
/* INVALID_ARGUMENT saying which tasks there are. */
KILN_MUST_USE kiln_status kiln_no_such_task(const kiln_tasks *tasks, const char *wanted);

/* The stages of `kiln explain` and `kiln compile --emit`. */
typedef struct kiln_stage_options {
    const char *stage, *after; /* `after` NULL: all passes */
    const kiln_target *target;
    const char *db_path;             /* NULL: default schedules */
    const kiln_import_options *onnx; /* NULL: none */
    const char *task;                /* number or key prefix; NULL: all */
    bool refused;                    /* space: also what rules tried in vain */
    kiln_accuracy accuracy;          /* of the schedules that may be taken */
} kiln_stage_options;
/* The text of a stage, made in processes without rights (model_work.h); it lasts until the program
 * ends. INVALID_ARGUMENT: no such stage, pass or task, the note lists those there are; `refused` of
 * another stage than space. */
KILN_MUST_USE kiln_status kiln_stage_make(const char *model_path, const kiln_stage_options *options,
                                          kiln_arena *process, kiln_str *out_text);

#endif
