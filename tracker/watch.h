/* Watchers: peers that are sent changed rows. */
#ifndef KILN_TRACKER_WATCH_H
#define KILN_TRACKER_WATCH_H

#include "tracker/rows.h"

#define KILN_TRACKER_WATCHERS_MAX 256u

/* A watch of a peer. */
typedef struct kiln_tracker_watcher {
    kiln_tracker_peer *peer;
    uint32_t stream;
    kiln_topic topic;
    char id[KILN_MESSAGES_NAME + 1]; /* of the watched board or job; empty: all */
    uint64_t seen;                   /* changes up to this number were sent */
    bool waits;                      /* the reader has not acknowledged the last page yet */
    bool more;                       /* more rows had changed than fit the last page */
} kiln_tracker_watcher;

typedef struct kiln_tracker_watchers {
    KILN_VEC(kiln_tracker_watcher *) all;
} kiln_tracker_watchers;

void kiln_tracker_watch(kiln_tracker *t, kiln_tracker_peer *client, const kiln_message *message);
void kiln_tracker_watches_tick(kiln_tracker *t);
void kiln_tracker_watches_peer_gone(kiln_tracker *t, const kiln_tracker_peer *peer);
void kiln_tracker_watches_free(kiln_tracker *t);

#endif
