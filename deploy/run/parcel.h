/* Inputs and results of a module that runs on another machine, as two runs of bytes. Both ends have
 * the module, which defines the places: `kiln run --on` writes the inputs, a board's contained
 * child (rpc-server/sandboxed_module.h) runs over both, and the workstation reads the results.
 * Numbers are little-endian, as all machines of kiln are.
 *
 *     inputs:   per input its samples, one or all of them, from a multiple of 64 on
 *     outputs:  per output all samples likewise; then, for a bench, the number of runs (u64), the
 * peak of a core (f64) and, from the next multiple of 64 on, a row of times in ns (f64) for the
 *               whole and one for each step, each of `runs_max` places */
#ifndef KILN_DEPLOY_PARCEL_H
#define KILN_DEPLOY_PARCEL_H

#include "base/model_size.h"
#include "deploy/run/run.h"

#define KILN_PARCEL_BYTES_MAX KILN_MODEL_SENT_BYTES_MAX /* of either: each is a blob */
#define KILN_PARCEL_TIMES_MAX ((uint64_t)1 << 20)       /* of a bench, all rows together */

typedef struct kiln_parcel {
    uint64_t samples; /* that the module is run for */
    bool bench;
    uint32_t runs_max; /* of a bench */
    uint64_t input_bytes, output_bytes;
    uint64_t times_at; /* in the outputs */
} kiln_parcel;

/* `samples` [input count]: 1 for an input, or the number of runs. INVALID_ARGUMENT: they do not
 * agree; RESOURCE_EXHAUSTED: more bytes than a parcel may have.
 */
KILN_MUST_USE kiln_status kiln_parcel_measure(const kiln_module *module, const uint64_t *samples,
                                              bool bench, kiln_parcel *out_parcel);
/* Copies the inputs of `run` to `out_inputs` [input_bytes]; gaps are not written. */
void kiln_parcel_write_inputs(const kiln_run *run, char *out_inputs);
/* A run over both, which must outlive it; pointers lie in `arena`. */
void kiln_parcel_point(kiln_module *module, const kiln_parcel *parcel, const uint64_t *samples,
                       const char *inputs, char *outputs, kiln_arena *arena, kiln_run *out_run);
/* Copies the results to the outputs of `run`. */
void kiln_parcel_read_outputs(const kiln_parcel *parcel, const char *outputs, kiln_run *run);

/* Rows of times in the outputs; `runs` is not set. */
void kiln_parcel_point_times(const kiln_module *module, const kiln_parcel *parcel, char *outputs,
                             kiln_arena *arena, kiln_run_times *out_times);
/* Writes number of runs and peak before the rows. */
void kiln_parcel_seal_times(const kiln_parcel *parcel, const kiln_run_times *times, char *outputs);
/* Reads them. DATA_LOSS: no runs, more than the maximum, or invalid times. */
KILN_MUST_USE kiln_status kiln_parcel_read_times(const kiln_module *module,
                                                 const kiln_parcel *parcel, char *outputs,
                                                 kiln_arena *arena, kiln_run_times *out_times);

#endif
