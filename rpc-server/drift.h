/* Whether the board is as fast as it usually is: what the reference kernel (rpc-server/pace.h)
 * takes now, over what it took in the faster of the latest trials. Pure. */
#ifndef KILN_RPC_SERVER_DRIFT_H
#define KILN_RPC_SERVER_DRIFT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/reading.h"
#include "proto/proto.h"
#include "rpc-server/pace.h"

#define KILN_DRIFT_WINDOW 64u /* trials that are remembered */
#define KILN_DRIFT_KNOWN 5u   /* before so many nothing is usual */
#define KILN_DRIFT_START 32u  /* readings before the first trial */
/* One in so many of the remembered is at least as fast as usual. Neighbours only slow a board down,
 * and some do so most of the time: on a busy machine 0.1 to 0.7 of all moments were undisturbed.
 * A board that stays slower or faster is taken as it is after a window. */
#define KILN_DRIFT_FASTER 16u

typedef struct kiln_drift {
    kiln_pace reading[KILN_DRIFT_WINDOW];
    uint32_t count; /* of all readings so far: the newest is at (count - 1) % WINDOW */
} kiln_drift;

/* Takes what the reference kernel took in a trial before any code of the candidate ran; both parts
 * above 0. */
void kiln_drift_take(kiln_drift *drift, const kiln_pace *pace);
/* What it usually takes: each part by itself; zeros while too little is known. */
kiln_pace kiln_drift_usual(const kiln_drift *drift);
/* `pace` over `usual`; a part that is not known is 0. */
kiln_drift_ratio kiln_drift_ratio_of(const kiln_pace *pace, const kiln_pace *usual);

/* Whether samples with that drift, taken between these readings, are out of band. */
bool kiln_drift_is_out(const kiln_drift_ratio *ratio, const kiln_msg_env *before,
                       const kiln_msg_env *after);

#endif
