/* The board's self-check: a fixed kernel for each kind of payload, part of the program or made for
 * the device (rpc-server/golden_vta.h), with known outputs and a known usual time. It is treated
 * like a candidate: linked, run in a contained child, compared with its reference. */
#ifndef KILN_RPC_SERVER_GOLDEN_H
#define KILN_RPC_SERVER_GOLDEN_H

#include "base/arena.h"
#include "base/target.h"
#include "proto/proto.h"

/* A board that takes more than this many times its best time fails the check. Neighbours on a
 * 2-core virtual machine with ten programs made it 2.36 at most, in 3 of 40 checks; smaller changes
 * are handled by rpc-server/drift.h. */
#define KILN_GOLDEN_SLOW 3.0

typedef struct kiln_golden {
    const char *artefact, *reference; /* files with the blobs; NULL: no kernel for this target */
    const char *memory;               /* file with the best time */
    bool is_timed;  /* false for emulated and simulated devices, whose times mean nothing */
    double best_ns; /* best time of a run, also of earlier starts; 0: none */
} kiln_golden;

/* Writes the blobs for `device` (NULL: this machine's processor) into `folder` (created if missing)
 * and reads the best time stored there. Texts in `arena`. PERMISSION_DENIED, RESOURCE_EXHAUSTED: of
 * the folder. */
KILN_MUST_USE kiln_status kiln_golden_open(const char *folder, const kiln_target *device,
                                           kiln_arena *arena, kiln_golden *out_golden);
/* The trial of the check: seed, policy and deadlines. */
kiln_msg_trial kiln_golden_trial(void);
/* NULL if the board may be trusted; else what is wrong, in `arena`. Stores a new best time, also on
 * disk. */
const char *kiln_golden_judge(kiln_golden *golden, const kiln_msg_trial_result *result,
                              kiln_arena *arena);

#endif
