/* A module on a board of a tracker, as if it ran here: `kiln run --on KEY`, and what `kiln tune`
 * compares. */
#ifndef KILN_CLI_COMMON_RUN_ON_H
#define KILN_CLI_COMMON_RUN_ON_H

#include "cli/common/client.h"
#include "deploy/run/run.h"

#define KILN_RUN_ON_LIMIT_S 60u      /* of a phase on the board, unless --limit says otherwise */
#define KILN_RUN_ON_LIMIT_MAX_S 600u /* what a board allows */

typedef struct kiln_run_on_options {
    kiln_client_options client;
    const char *on;   /* KEY, or KEY,LABEL=VALUE,...; NULL: any board of the module's target */
    const char *name; /* of the module, for people */
    kiln_str module;  /* its bytes */
    uint64_t limit_s; /* 0: KILN_RUN_ON_LIMIT_S */
    uint64_t wait_s;  /* for a board that is free; 0: as long as it takes */
    bool bench;
} kiln_run_on_options;

typedef struct kiln_run_on_done {
    const char *board; /* its key, in `process` */
    bool emulated;
    kiln_run_times times; /* of a bench */
} kiln_run_on_done;

/* Leases a board that is all the run's, sends the module and what `run` is fed (blobs, which go
 * over the wire only once), has the board run it in its contained child, at the size that
 * `run->module` is set to, and fills the outputs of
 * `run` and `*out_done`. `run->module` need not run here (kiln_module_inspect). The
 * board is free when it returns, whatever came. NOT_FOUND, UNAVAILABLE: no such board, which says
 * what there is; FAILED_PRECONDITION: the module is not for that board; INTERNAL: it crashed;
 * DEADLINE_EXCEEDED: it was over its time, or no board was free; CANCELLED: Ctrl-C;
 * RESOURCE_EXHAUSTED: more than the board or the tracker has room for. */
KILN_MUST_USE kiln_status kiln_run_on(const kiln_run_on_options *options, kiln_run *run,
                                      kiln_arena *process, kiln_run_on_done *out_done);

#endif
