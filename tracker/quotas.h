/* Quotas: how much persons and projects may have, and how often they may ask. */
#ifndef KILN_TRACKER_QUOTAS_H
#define KILN_TRACKER_QUOTAS_H

#include "tracker/leases.h"

#define KILN_TRACKER_WATCHERS_OF_PERSON_MAX 64u
#define KILN_TRACKER_WATCHERS_OF_PROJECT_MAX 128u /* of single jobs */
#define KILN_TRACKER_BOARD_REQUESTS_OF_PERSON_MAX 64u
#define KILN_TRACKER_JOBS_OF_PERSON_MAX 1024u /* open ones */
#define KILN_TRACKER_JOBS_OF_PROJECT_MAX 3072u
#define KILN_TRACKER_REQUESTS_OF_PROJECT_MAX 3072u /* in the queue */
#define KILN_TRACKER_RATE_OF_PERSON 200.0 /* messages a second, without PING and the like */
#define KILN_TRACKER_BURST_S 5.0 /* a burst may have as many messages as come in this time */

/* All return RESOURCE_EXHAUSTED when the project or the person has as many as allowed; the refusal
 * is counted. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_jobs(kiln_tracker *t,
                                                     const kiln_tracker_peer *client,
                                                     const kiln_msg_job_spec *spec);
KILN_MUST_USE kiln_status kiln_tracker_quota_of_queue(kiln_tracker *t,
                                                      kiln_tracker_project *project);
/* `of_person`: watchers of this person so far. `of_project`: watchers of jobs of the job's project
 * so far. `job`: NULL where boards are watched. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_watchers(kiln_tracker *t,
                                                         const kiln_tracker_peer *client,
                                                         uint32_t of_person,
                                                         const kiln_tracker_job *job,
                                                         uint32_t of_project);
/* One more message of the person, or, where `project` is not NULL, about the project. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_requests(kiln_tracker *t,
                                                         const kiln_tracker_peer *peer,
                                                         kiln_tracker_project *project);
/* `count`: requests of this person to boards so far. */
KILN_MUST_USE kiln_status kiln_tracker_quota_of_board_requests(kiln_tracker *t, uint32_t count);
/* Whether quotas count both peers as the same person. */
bool kiln_tracker_is_same_person(const kiln_tracker_peer *a, const kiln_tracker_peer *b);
/* Ends leases of projects that have used up their board time of the day, and lets projects continue
 * on a new day. */
void kiln_tracker_quotas_tick(kiln_tracker *t);

#endif
