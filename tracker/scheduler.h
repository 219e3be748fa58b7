/* Decides which request gets a free device. */
#ifndef KILN_TRACKER_SCHEDULER_H
#define KILN_TRACKER_SCHEDULER_H

#include "tracker/calendar.h"
#include "tracker/quotas.h"

void kiln_tracker_lease_req(kiln_tracker *t, kiln_tracker_peer *tuner, const kiln_message *message);
/* Grants what can be granted on offered devices and to fresh requests. */
void kiln_tracker_grant(kiln_tracker *t);

#endif
