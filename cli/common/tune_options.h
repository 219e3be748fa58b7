/* Options of `kiln tune`: of its command line, and settings of its request. */
#ifndef KILN_CLI_COMMON_TUNE_OPTIONS_H
#define KILN_CLI_COMMON_TUNE_OPTIONS_H

#include "cli/common/options.h"

#define KILN_TUNE_TRIALS_UNSAID UINT64_MAX

typedef struct kiln_tune_options {
    const char *model, *target_text, *tasks, *tracker, *db, *search, *out, *key_file, *on, *project;
    const char *person;
    const char *model_name; /* for people; NULL: of the file */
    const char *job, *weights, *schedule;
    uint64_t trials; /* KILN_TUNE_TRIALS_UNSAID: the tuner decides; 0: there is no job */
    uint64_t seed, priority, weight, threads;
    double seconds;
    bool detach, json, insecure;
    kiln_opt_list dim;
    kiln_import_options import; /* without the sizes of `dim` */
    kiln_accuracy_options accuracy;
} kiln_tune_options;

/* Sets the defaults; `model` is the caller's to set. The table's places are in `*out_options`, its
 * rows in `process`. */
kiln_opt_table kiln_tune_options_init(kiln_tune_options *out_options, kiln_arena *process);

#endif
