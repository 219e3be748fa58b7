/* Whose turn it is when a board is free. */
#ifndef KILN_TRACKER_SCHEDULER_H
#define KILN_TRACKER_SCHEDULER_H

#include "tracker/quotas.h"

void kiln_tracker_lease_req(kiln_tracker *t, kiln_tracker_peer *tuner, const kiln_message *message);
/* Grants what can be granted on boards that were offered, and to requests that are new. */
void kiln_tracker_grant(kiln_tracker *t);

#endif
