/* Who works on a job, and for how long it waits for that. */
#ifndef KILN_TRACKER_JOB_ASSIGN_H
#define KILN_TRACKER_JOB_ASSIGN_H

#include "tracker/job_life.h"

typedef struct kiln_tracker_assign {
    uint64_t abandoned; /* jobs, counted */
} kiln_tracker_assign;

/* Whether it was about an assignment. */
bool kiln_tracker_assignment_persisted(kiln_tracker *t, uint64_t persist, const char *failure);

void kiln_tracker_jobs_tuner_up(kiln_tracker *t, kiln_tracker_peer *tuner);
/* Assigns, notices what is missing, ends what waited too long. */
void kiln_tracker_jobs_tick(kiln_tracker *t);

#endif
