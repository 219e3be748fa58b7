/* Whether modules compute what ONNX's backend tests expect of them, on this machine or on another
 * that the caller reaches:
 *
 *     FOLDER/model.onnx
 *     FOLDER/test_data_set_K/{input,output}_N.pb */
#ifndef KILN_CLI_VERIFY_H
#define KILN_CLI_VERIFY_H

#include "base/target.h"
#include "compiler-core/core.h"
#include "compiler-core/frontend/data_set.h"
#include "compiler-core/frontend/isolated.h"

typedef enum kiln_verdict {
    KILN_VERDICT_PASSED,
    KILN_VERDICT_FAILED,
    KILN_VERDICT_UNSUPPORTED,
    KILN_VERDICT_COUNT,
} kiln_verdict;
const char *kiln_verdict_name(kiln_verdict verdict); /* "passed", "FAILED", "unsupported" */

/* Runs the bytes of a module once, or with `as_c` the text that kiln_static_c writes for the name
 * "net". `inputs`, `outputs`: in the order of its ports, aligned as kernels want it. `rows`:
 * [outputs] how many each has, set to how many it got; NULL: nobody asks. */
typedef kiln_status (*kiln_verify_run)(void *context, kiln_str module, const void *const *inputs,
                                       void *const *outputs, int64_t *rows);

typedef struct kiln_verify_options {
    kiln_import_options onnx;  /* sizes of open dimensions */
    const kiln_target *target; /* modules are made for, with default schedules */
    bool as_c;
    kiln_verify_run run;
    void *context; /* of `run` */
} kiln_verify_options;

/* A kiln_verify_run: in this process. */
KILN_MUST_USE kiln_status kiln_verify_here(void *context, kiln_str module,
                                           const void *const *inputs, void *const *outputs,
                                           int64_t *rows);
/* Compiles the model of a folder, once per data set, runs it and compares every output with the
 * expected one. Appends why it did not pass. */
kiln_verdict kiln_verify_case(const char *folder, const kiln_verify_options *options,
                              kiln_strbuf *out_why);

#endif
