/* Whether a run computed what its model says: `kiln run --check`. The model is compiled once more,
 * as it is written: each node a kernel of its own, without passes and without a schedule, in serial
 * loops over row-major tensors, by LLVM for this machine. In use:
 *
 *     kiln_run_check_start("net.kiln", NULL, NULL, process, &check)   before the module is opened
 *     kiln_run_check_finish(&check, &run, &given, process, ...) once it ran */
#ifndef KILN_CLI_RUN_CHECK_H
#define KILN_CLI_RUN_CHECK_H

#include "base/opt.h"
#include "deploy/run/run.h"

typedef struct kiln_run_check {
    const char *model; /* the file */
    kiln_str module;   /* of the model as it is written; until the program ends */
} kiln_run_check;

/* Compiles the model of a module's file: `model`, or the one that the module names, beside it or in
 * the present folder. What the model leaves open has the sizes of the module; where it has several,
 * that of `dim` (NAME=N), or the largest where that is NULL. NOT_FOUND: it is in neither.
 * FAILED_PRECONDITION: its bytes are not those that the module was made from. Errors of reading and
 * compiling. */
KILN_MUST_USE kiln_status kiln_run_check_start(const char *module_path, const char *model,
                                               const char *dim, kiln_arena *process,
                                               kiln_run_check *out_check);

typedef struct kiln_run_checked {
    uint64_t different; /* elements, of integers any, of floats those beyond the limit of `right` */
    double error, size; /* largest difference, and largest magnitude of the reference */
    bool right; /* no integer differs, or `error` is at most a thousandth of `size` (2e-2 of halves)
                 */
} kiln_run_checked;

/* Runs the reference on what the run was given, and compares each output: [outputs] of
 * `out_checked`, in `process`. INVALID_ARGUMENT: the ports are not those of the module, as where
 * the inputs chose another size. Errors of kiln_run_samples. */
KILN_MUST_USE kiln_status kiln_run_check_finish(const kiln_run_check *check, const kiln_run *run,
                                                const kiln_opt_list *given, kiln_arena *process,
                                                kiln_run_checked **out_checked);

#endif
