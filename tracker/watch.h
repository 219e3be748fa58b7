/* Who is told what changes. */
#ifndef KILN_TRACKER_WATCH_H
#define KILN_TRACKER_WATCH_H

#include "tracker/rows.h"

#define KILN_TRACKER_WATCHERS_MAX 256u

/* Somebody who is told what changes (watch.c). */
typedef struct kiln_tracker_watcher {
    kiln_tracker_peer *peer;
    uint32_t stream;
    kiln_topic topic;
    char id[KILN_MESSAGES_NAME + 1]; /* of the one board or job; empty: all */
    uint64_t seen;                   /* what changed up to here was sent */
    bool waits;                      /* for the reader to say that it has that */
    bool more;                       /* there was more than one page holds */
} kiln_tracker_watcher;

typedef struct kiln_tracker_watchers {
    KILN_VEC(kiln_tracker_watcher *) all;
} kiln_tracker_watchers;

void kiln_tracker_watch(kiln_tracker *t, kiln_tracker_peer *client, const kiln_message *message);
void kiln_tracker_watches_tick(kiln_tracker *t);
void kiln_tracker_watches_peer_gone(kiln_tracker *t, const kiln_tracker_peer *peer);
void kiln_tracker_watches_free(kiln_tracker *t);

#endif
