/* What the compiler makes of a convolution for an accelerator of the VTA class: the schedules of
 * its space in the order of their predictions, and the fastest of them by the cycle simulator. For
 * `./dev bench vta`: in this process, without a fleet; a candidate takes some 20 ms. */
#ifndef KILN_TESTS_SUPPORT_VTA_TUNING_H
#define KILN_TESTS_SUPPORT_VTA_TUNING_H

#include "compiler-core/core.h"
#include "vta/csim.h"
#include "vta/search/layer.h"

/* A schedule that was compiled and simulated. */
typedef struct kiln_vta_compiled {
    uint32_t threads, stages; /* virtual threads side by side; places that blocks take in turn */
    uint32_t instructions;
    uint64_t stream_bytes; /* of instructions and micro-ops */
    kiln_vta_timing timing;
    kiln_str program; /* its bytes (vta/program.h) */
} kiln_vta_compiled;

/* A closed trace of the space. */
typedef struct kiln_vta_candidate {
    uint64_t index; /* of kiln_space_at */
    double cycles;  /* predicted */
    uint32_t threads, stages;
} kiln_vta_candidate;

typedef struct kiln_vta_tuning {
    kiln_target target;
    kiln_program *te;
    kiln_space space;
    uint32_t count;
    kiln_vta_candidate *candidate; /* [count] the fewest predicted cycles first */
} kiln_vta_tuning;

/* The layer's task and space on the machine, with the prediction of every trace. All lies in
 * `arena`; the space points to `*out_tuning`, which must stay where it is. Errors of
 * kiln_space_create: FAILED_PRECONDITION where the machine has no schedule for the layer. */
KILN_MUST_USE kiln_status kiln_vta_tuning_create(const kiln_vta_layer *layer,
                                                 const kiln_vta_config *config, kiln_arena *arena,
                                                 kiln_vta_tuning *out_tuning);
/* The schedule that is chosen without measuring; its program lies in `arena`. Errors of kiln_build.
 */
KILN_MUST_USE kiln_status kiln_vta_tuning_default(const kiln_vta_tuning *tuning, kiln_arena *arena,
                                                  kiln_vta_compiled *out_compiled);
/* The trace number `index` of the space and what becomes of it, in `arena`. Errors of kiln_space_at
 * and kiln_build. */
KILN_MUST_USE kiln_status kiln_vta_tuning_at(const kiln_vta_tuning *tuning, uint64_t index,
                                             kiln_arena *arena, kiln_trace *out_trace,
                                             kiln_vta_compiled *out_compiled);
/* The fastest of the first `simulate_count` candidates; `alone`: of those with one virtual thread
 * and one stage, where nothing hides latency. What the back end refuses is left out. NOT_FOUND:
 * there is none. */
KILN_MUST_USE kiln_status kiln_vta_tuning_best(const kiln_vta_tuning *tuning, bool alone,
                                               uint32_t simulate_count, kiln_arena *arena,
                                               kiln_vta_compiled *out_best);
#endif
