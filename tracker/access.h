/* Who may do what. */
#ifndef KILN_TRACKER_ACCESS_H
#define KILN_TRACKER_ACCESS_H

#include "tracker/quotas.h"

typedef struct kiln_tracker_access {
    uint64_t refused; /* for want of a right */
} kiln_tracker_access;

/* Counts one that is refused elsewhere. */
void kiln_tracker_count_refusal(kiln_tracker *t);

/* What a peer is in a project, which need not be known. */
kiln_standing kiln_tracker_standing(kiln_tracker *t, const kiln_tracker_peer *peer,
                                    kiln_str project);
/* Whether the peer has the right on the project; `job`: on this job of it, which may be its own;
 * NULL. Programs have none. */
bool kiln_tracker_may(kiln_tracker *t, const kiln_tracker_peer *peer, kiln_right right,
                      kiln_str project, const kiln_tracker_job *job);
/* ERROR: who lacks which right on which project, and who gives it. */
void kiln_tracker_refuse(kiln_tracker *t, const kiln_tracker_peer *peer, uint32_t stream,
                         kiln_str about, kiln_right right, kiln_str project);
/* Whether the person may send that, as far as it can be told before it is carried out; else it has
 * been refused. A job that the person may not even see is not told from one that is not there. */
bool kiln_tracker_is_allowed(kiln_tracker *t, const kiln_tracker_peer *peer,
                             const kiln_message *message);
/* Whether the peer may see that the job is there; NULL: yes. */
bool kiln_tracker_sees(kiln_tracker *t, const kiln_tracker_peer *reader,
                       const kiln_tracker_job *job);

#endif
