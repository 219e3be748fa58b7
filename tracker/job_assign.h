/* Assigns jobs to tuners, and ends jobs that wait too long for a tuner or a board. */
#ifndef KILN_TRACKER_JOB_ASSIGN_H
#define KILN_TRACKER_JOB_ASSIGN_H

#include "tracker/job_life.h"

typedef struct kiln_tracker_assign {
    uint64_t abandoned; /* jobs, counted */
} kiln_tracker_assign;

/* Returns whether the PERSIST was that of an assignment. */
bool kiln_tracker_assignment_persisted(kiln_tracker *t, uint64_t persist, const char *failure);

void kiln_tracker_jobs_tuner_up(kiln_tracker *t, kiln_tracker_peer *tuner);
/* Assigns waiting jobs, notices missing tuners and boards, and ends jobs that waited too long. */
void kiln_tracker_jobs_tick(kiln_tracker *t);

#endif
