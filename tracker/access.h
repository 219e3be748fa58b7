/* Rights of peers, applied to messages, projects and jobs. */
#ifndef KILN_TRACKER_ACCESS_H
#define KILN_TRACKER_ACCESS_H

#include "tracker/quotas.h"

typedef struct kiln_tracker_access {
    uint64_t refused; /* requests, for lack of a right */
} kiln_tracker_access;

/* Counts a request that another file refuses for lack of a right. */
void kiln_tracker_count_refusal(kiln_tracker *t);

/* The peer's role in a project, which need not exist. */
kiln_standing kiln_tracker_standing(kiln_tracker *t, const kiln_tracker_peer *peer,
                                    kiln_str project);
/* Whether the peer has the right on the project, or, where `job` is not NULL, on this job of it,
 * which may be its own. Programs have no rights. */
bool kiln_tracker_may(kiln_tracker *t, const kiln_tracker_peer *peer, kiln_right right,
                      kiln_str project, const kiln_tracker_job *job);
/* Whether the peer has the right in any project. */
bool kiln_tracker_may_anywhere(kiln_tracker *t, const kiln_tracker_peer *peer, kiln_right right);
/* Sends ERROR: the missing right, the project, and who can grant it. */
void kiln_tracker_refuse(kiln_tracker *t, const kiln_tracker_peer *peer, uint32_t stream,
                         kiln_str about, kiln_right right, kiln_str project);
/* Whether the peer may send the message, as far as that can be told before it is carried out.
 * False: it was refused. A job that the person may not see counts as one that does not exist. */
bool kiln_tracker_is_allowed(kiln_tracker *t, const kiln_tracker_peer *peer,
                             const kiln_message *message);
/* Whether the peer may know of the job; NULL, the tracker's own user: yes. */
bool kiln_tracker_sees(kiln_tracker *t, const kiln_tracker_peer *reader,
                       const kiln_tracker_job *job);

#endif
