/* Answers queries of `kiln fleet` and `kiln jobs`. */
#ifndef KILN_TRACKER_QUERY_H
#define KILN_TRACKER_QUERY_H

#include "tracker/rows.h"

void kiln_tracker_query(kiln_tracker *t, kiln_tracker_peer *client, const kiln_message *message);

#endif
