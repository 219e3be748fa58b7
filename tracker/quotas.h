/* Bounds of what persons and projects may have, and how often they may ask. */
#ifndef KILN_TRACKER_QUOTAS_H
#define KILN_TRACKER_QUOTAS_H

#include "tracker/leases.h"

#define KILN_TRACKER_WATCHERS_OF_PERSON_MAX 64u
#define KILN_TRACKER_WATCHERS_OF_PROJECT_MAX 128u /* of single jobs */
#define KILN_TRACKER_BOARD_REQUESTS_OF_PERSON_MAX 64u
#define KILN_TRACKER_JOBS_OF_PERSON_MAX 1024u /* open ones */
#define KILN_TRACKER_JOBS_OF_PROJECT_MAX 3072u
#define KILN_TRACKER_REQUESTS_OF_PROJECT_MAX 3072u /* in the queue */
#define KILN_TRACKER_RATE_OF_PERSON 200.0 /* messages a second; PING and its like are none */
#define KILN_TRACKER_BURST_S 5.0          /* so much of a rate may come at once */

/* RESOURCE_EXHAUSTED: the project, or the person, has as many as it may; counted. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_jobs(kiln_tracker *t,
                                                     const kiln_tracker_peer *client,
                                                     const kiln_msg_job_spec *spec);
KILN_MUST_USE kiln_status kiln_tracker_quota_of_queue(kiln_tracker *t,
                                                      kiln_tracker_project *project);
/* As many as `of_person` of this person are there already, and `of_project` of the jobs of the
 * job's project; `job`: NULL where boards are watched. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_watchers(kiln_tracker *t,
                                                         const kiln_tracker_peer *client,
                                                         uint32_t of_person,
                                                         const kiln_tracker_job *job,
                                                         uint32_t of_project);
/* One message more of the person, and about the project where that is known; NULL. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_requests(kiln_tracker *t,
                                                         const kiln_tracker_peer *peer,
                                                         kiln_tracker_project *project);
/* Of people who ask boards: as many as `count` of this person are there already. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_board_requests(kiln_tracker *t, uint32_t count);
/* Whether what both hold counts together. */
bool kiln_tracker_is_same_person(const kiln_tracker_peer *a, const kiln_tracker_peer *b);
/* Ends leases of projects whose time of the day is used up; lets those go on that may again. */
void kiln_tracker_quotas_tick(kiln_tracker *t);

#endif
