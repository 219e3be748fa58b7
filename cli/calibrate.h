/* Running a model on samples: what its values are like, and what quantising it changed. */
#ifndef KILN_CLI_CALIBRATE_H
#define KILN_CLI_CALIBRATE_H

#include "base/target.h"
#include "cli/samples.h"
#include "compiler-core/frontend/quantize.h"

/* A graph's canonical bytes as a module of default schedules, made in a process without rights.
 * `path` is for errors; the module's bytes are in `arena`. */
KILN_MUST_USE kiln_status kiln_calibrate_compile(const char *path, kiln_str graph,
                                                 const kiln_target *target,
                                                 const kiln_import_options *import,
                                                 kiln_arena *arena, kiln_module **out_module);

typedef struct kiln_calibration {
    kiln_histogram *seen;     /* [observed_count] */
    kiln_quantization *group; /* [group_count] */
    double **mean;            /* [observed_count] of channels; NULL: not wanted */
    uint32_t *mean_count;     /* [observed_count] */
} kiln_calibration;

/* Runs `module`, of the plan's graph, on every sample. FAILED_PRECONDITION: a value is infinite or
 * NaN. */
KILN_MUST_USE kiln_status kiln_calibrate(kiln_module *module, const kiln_quantize_plan *plan,
                                         const kiln_samples *samples, kiln_quantize_method method,
                                         bool shift, kiln_arena *arena, kiln_calibration *out);

typedef struct kiln_calibration_check {
    kiln_quantize_error *observed;       /* [observed_count] */
    kiln_quantize_error *output;         /* [output_count] the model's own; zeros: not of f32 */
    double accuracy, reference_accuracy; /* share of labels that the first output names */
} kiln_calibration_check;

/* Runs both on every sample. `name`: [observed_count] what the observed values are called in
 * `quantised`. INVALID_ARGUMENT: labels for another number of rows. */
KILN_MUST_USE kiln_status kiln_calibration_check_run(kiln_module *module, kiln_module *quantised,
                                                     const kiln_quantize_plan *plan,
                                                     const kiln_observed *name,
                                                     const kiln_samples *samples, kiln_arena *arena,
                                                     kiln_calibration_check *out);

#endif
