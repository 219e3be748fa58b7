/* The kernels of one measurement on the parent's side: their artefacts, the memory into which the
 * child writes their outputs, and their verdicts. */
#ifndef KILN_RPC_SERVER_KERNEL_SET_H
#define KILN_RPC_SERVER_KERNEL_SET_H

#include "base/file.h"
#include "base/manifest.h"
#include "proto/net.h"
#include "rpc-server/executor.h"
#include "rpc-server/verdict.h"

typedef struct kiln_kernel_set_item {
    const char *path;
    kiln_mapping file;
    kiln_artefact artefact;
    uint64_t output_bytes;
    kiln_timing timing; /* reported by the child */
} kiln_kernel_set_item;

typedef struct kiln_kernel_set {
    uint32_t count;
    kiln_kernel_set_item *kernel; /* [count]; the trial's own first, then its rivals */
    bool is_module;               /* kernel 0 is a module, and 1 its inputs */
    const kiln_executor *executor;
    uint32_t threads; /* most of any kernel, at least 1 */
    int outputs_fd;   /* -1: none */
} kiln_kernel_set;

/* Reads the artefacts at `path` [count]. `only`: their executor; NULL: the one that they name,
 * which must be of `kind`. Parts live in `arena`. Call kiln_kernel_set_close on success and on
 * failure. `*out_outcome` on failure: INFRA (a file is missing) or LINK_ERROR (not an artefact, or
 * not for this board). */
KILN_MUST_USE kiln_status kiln_kernel_set_open(const char *const *path, uint32_t count,
                                               const kiln_executor *only, kiln_target_kind kind,
                                               kiln_arena *arena, kiln_kernel_set *out_set,
                                               kiln_outcome *out_outcome);
/* The same for a module and its inputs, which only the contained child reads. */
KILN_MUST_USE kiln_status kiln_kernel_set_open_module(const char *module_path,
                                                      const char *inputs_path,
                                                      const kiln_msg_module_run *how,
                                                      kiln_arena *arena, kiln_kernel_set *out_set);
/* Creates memory for all outputs, twice (a module's: once). A child can write but not resize it,
 * and it outlives the child. RESOURCE_EXHAUSTED: the outputs are larger than `bytes_max`, or there
 * is no memory. */
KILN_MUST_USE kiln_status kiln_kernel_set_create_outputs(kiln_kernel_set *set, uint64_t bytes_max);
/* Opens each file for the child into `out_fd` [kiln_child_file_count], which the caller closes. */
KILN_MUST_USE kiln_status kiln_kernel_set_open_files(const kiln_kernel_set *set, int *out_fd);

/* Compares the child's outputs with the reference at `reference_path` and fills `*result` and its
 * rivals. `shared`: evidence common to all kernels. NOT_FOUND, INVALID_ARGUMENT: of the reference.
 * Any thread. */
KILN_MUST_USE kiln_status kiln_kernel_set_judge(const kiln_kernel_set *set,
                                                const char *reference_path,
                                                const kiln_evidence *shared, kiln_arena *arena,
                                                kiln_msg_trial_result *result);
/* The drift reported by the child, the worst of all kernels; zeros: none, or implausible.
 * `*out_again`: number of repeated samples. */
kiln_drift_ratio kiln_kernel_set_drift(const kiln_kernel_set *set, uint32_t *out_again);
/* Puts a module's outputs into that store, through a handle of its own. Any thread. Errors of
 * kiln_blob_store_put. */
KILN_MUST_USE kiln_status kiln_kernel_set_keep(const kiln_kernel_set *set,
                                               const kiln_blob_store_options *blobs,
                                               kiln_msg_blob_ref *out_blob);
/* Accepts a zeroed one with outputs_fd -1. */
void kiln_kernel_set_close(kiln_kernel_set *set);

#endif
