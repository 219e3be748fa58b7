/* Whether the board is as fast as it was: a fixed reference kernel (the multiply-adds of
 * deploy/runtime/peak.h, timed before each measurement on its core, in its process, before any code
 * of the candidate ran) against its own running median. It sees clocks that fall and cores that are
 * shared; memory that others keep busy it does not see. Pure. */
#ifndef KILN_RPC_SERVER_DRIFT_H
#define KILN_RPC_SERVER_DRIFT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/proto.h"

#define KILN_DRIFT_WINDOW 32u /* readings that the median is taken of */
#define KILN_DRIFT_KNOWN 5u   /* before so many there is no median to speak of */
/* Samples of a board that drifted further are not to be trusted. 286 of 288 readings on a 2-core
 * virtual machine lay within 0.03 of their median while others kept it busy; throttled boards lose
 * 0.25. */
#define KILN_DRIFT_BAND 0.05

typedef struct kiln_drift {
    double reading[KILN_DRIFT_WINDOW];
    uint32_t count; /* of all readings so far: the newest is at (count - 1) % WINDOW */
} kiln_drift;

/* Takes a reading, `speed` > 0 in any unit that grows with speed. Returns the running median over
 * it: the reference's time now over what it usually is; 0 while too few readings are known. */
double kiln_drift_take(kiln_drift *drift, double speed);

/* Whether samples taken between these readings are out of band. `ratio` 0 is not. */
bool kiln_drift_is_out(double ratio, const kiln_msg_env *before, const kiln_msg_env *after);

#endif
