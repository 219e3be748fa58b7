/* The board's self-check: a fixed kernel for each kind of payload, carried inside the program or
 * made for the device (rpc-server/golden_vta.h), whose every output and whose usual time are known.
 * It takes the way of any candidate: linked, run in a contained child, compared with its reference.
 */
#ifndef KILN_RPC_SERVER_GOLDEN_H
#define KILN_RPC_SERVER_GOLDEN_H

#include "base/arena.h"
#include "base/target.h"
#include "proto/proto.h"

/* A board that takes longer than this many times its best time is not itself. Neighbours on a
 * 2-core virtual machine with ten programs running made it 2.36 at most, in 3 of 40 checks; smaller
 * changes are what rpc-server/drift.h is for. */
#define KILN_GOLDEN_SLOW 3.0

typedef struct kiln_golden {
    const char *artefact, *reference; /* files with the blobs; NULL: there is no kernel for it */
    const char *memory;               /* file with the best time */
    bool is_timed;  /* false of an emulated or simulated device: its times mean nothing */
    double best_ns; /* of a run so far, over restarts too; 0: none */
} kiln_golden;

/* Writes the blobs for `device` (NULL: this machine's processor) into `folder` (made when missing),
 * reads what was remembered there. Texts in `arena`. PERMISSION_DENIED, RESOURCE_EXHAUSTED: the
 * folder. */
KILN_MUST_USE kiln_status kiln_golden_open(const char *folder, const kiln_target *device,
                                           kiln_arena *arena, kiln_golden *out_golden);
/* How it is measured: seed, policy and deadlines. */
kiln_msg_trial kiln_golden_trial(void);
/* NULL when the board may be trusted; else what is wrong, in `arena`. A faster time than ever is
 * remembered, also on disk. */
const char *kiln_golden_judge(kiln_golden *golden, const kiln_msg_trial_result *result,
                              kiln_arena *arena);

#endif
