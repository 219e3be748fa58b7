/* Describes to people what boards there are for a job. */
#ifndef KILN_TRACKER_AVAILABILITY_H
#define KILN_TRACKER_AVAILABILITY_H

#include "tracker/calendar.h"
#include "tracker/queue.h"

/* Appends one line: how many boards fit and the expected wait, or which boards there are instead.
 * Returns whether any board that was ever seen fits. */
bool kiln_tracker_requirement_describe(kiln_tracker *t, kiln_tracker_requirement *required,
                                       kiln_strbuf *out);

/* Whether the calendar (reservations of others, maintenance) keeps each board that is in service
 * and fits the job's oldest request away from it; says why, for people. O(boards), where the
 * calendar has entries. */
bool kiln_tracker_job_is_held_up(kiln_tracker *t, const kiln_tracker_job *job, kiln_strbuf *out);

#endif
