/* A blob that comes in over a connection, on its way to the store: the loop hands over bytes, the
 * pool writes and hashes them. One piece of work is under way at a time; the next one takes the
 * bytes that come meanwhile. */
#ifndef KILN_PROTO_NET_BLOB_SINK_H
#define KILN_PROTO_NET_BLOB_SINK_H

#include "proto/net.h"

typedef struct kiln_blob_sink kiln_blob_sink;
typedef struct kiln_blob_sink_events {
    void (*written)(void *context, size_t bytes);     /* so many are no longer in memory */
    void (*ended)(void *context, kiln_status status); /* NULL: the blob is complete and visible. The
                                                         sink is gone when it returns */
} kiln_blob_sink_events;
/* The events come from the loop, never from inside a call. Errors of kiln_blob_writer_* end it. */
kiln_blob_sink *kiln_blob_sink_open(kiln_loop *loop, kiln_blob_store *store,
                                    const kiln_msg_blob_put *put, kiln_blob_sink_events events,
                                    void *context);
void kiln_blob_sink_add(kiln_blob_sink *sink, kiln_str bytes); /* copies them */
void kiln_blob_sink_finish(kiln_blob_sink *sink);              /* no more bytes follow */
/* Ends it without events; `keep` as in kiln_blob_writer_abandon. NULL is fine. */
void kiln_blob_sink_drop(kiln_blob_sink *sink, bool keep);

#endif
