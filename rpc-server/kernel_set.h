/* The kernels that one measurement is about, as the parent of the contained child sees them: what
 * their artefacts say, the memory that the child leaves their outputs in, and what is judged of
 * them in the end. */
#ifndef KILN_RPC_SERVER_KERNEL_SET_H
#define KILN_RPC_SERVER_KERNEL_SET_H

#include "base/file.h"
#include "base/manifest.h"
#include "proto/net.h"
#include "rpc-server/executor.h"
#include "rpc-server/verdict.h"

#define KILN_KERNEL_SET_DRIFT_MAX \
    1000.0 /* a board that is so much slower than usual did not measure */

typedef struct kiln_kernel_set_item {
    const char *path;
    kiln_mapping file;
    kiln_artefact artefact;
    uint64_t output_bytes;
    kiln_timing timing; /* the child's word */
} kiln_kernel_set_item;

typedef struct kiln_kernel_set {
    uint32_t count;
    kiln_kernel_set_item *kernel; /* [count]; the trial's own first, then its rivals */
    bool is_module;               /* it is none: kernel 0 is a module, and 1 its inputs */
    const kiln_executor *executor;
    uint32_t threads; /* most that one of them uses, at least 1 */
    int outputs_fd;   /* -1: none */
} kiln_kernel_set;

/* Reads the artefacts at `path` [count]; `only`: the executor that runs them all, NULL: as they
 * ask, which must be of `kind`. Pieces live in `arena`; kiln_kernel_set_close whatever comes.
 * `*out_outcome`, when it fails: INFRA (a file that is not there) or LINK_ERROR (no artefact, or
 * none for this board). */
KILN_MUST_USE kiln_status kiln_kernel_set_open(const char *const *path, uint32_t count,
                                               const kiln_executor *only, kiln_target_kind kind,
                                               kiln_arena *arena, kiln_kernel_set *out_lot,
                                               kiln_outcome *out_outcome);
/* The same for a module and its inputs. Nothing is read of them here: what they are shows in the
 * contained child. */
KILN_MUST_USE kiln_status kiln_kernel_set_open_module(const char *module_path,
                                                      const char *inputs_path,
                                                      const kiln_msg_module_run *how,
                                                      kiln_arena *arena, kiln_kernel_set *out_lot);
/* Memory for all outputs, twice (a module's: once), that a child can fill but not resize under us.
 * It is not the child's: what kills that does not free it. RESOURCE_EXHAUSTED: they are larger than
 * `bytes_max`, or there is none. */
KILN_MUST_USE kiln_status kiln_kernel_set_create_outputs(kiln_kernel_set *set, uint64_t bytes_max);
/* Opens each file for the child into `out_fd` [kiln_child_file_count], which the caller closes. */
KILN_MUST_USE kiln_status kiln_kernel_set_open_files(const kiln_kernel_set *set, int *out_fd);

/* Compares what a child left with the reference at `path` (unless the executor's outputs are made
 * up) and fills `*result` and its rivals. `shared`: policy, race_ns, elapsed_ns and peak_flops of
 * all. NOT_FOUND, INVALID_ARGUMENT: the reference. Any thread. */
KILN_MUST_USE kiln_status kiln_kernel_set_judge(const kiln_kernel_set *set,
                                                const char *reference_path,
                                                const kiln_evidence *shared, kiln_arena *arena,
                                                kiln_msg_trial_result *result);
/* How fast the board was while they were sampled, by the child's word: the slowest of them stands
 * for all; `*out_again`: samples that were taken again. Zeros: nobody says, or nothing that can be.
 */
kiln_drift_ratio kiln_kernel_set_drift(const kiln_kernel_set *set, uint32_t *out_again);
/* Puts what a module left into that store, by a handle of its own: any thread. Errors of
 * kiln_blob_store_put. */
KILN_MUST_USE kiln_status kiln_kernel_set_keep(const kiln_kernel_set *set,
                                               const kiln_blob_store_options *blobs,
                                               kiln_msg_blob_ref *out_blob);
/* Accepts a zeroed one with outputs_fd -1. */
void kiln_kernel_set_close(kiln_kernel_set *set);

#endif
