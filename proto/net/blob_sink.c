#include "proto/net/blob_sink.h"

#include "base/alloc.h"
#include "base/check.h"
#include "proto/net/blob_store.h"
#include "proto/net/event_loop.h"

struct kiln_blob_sink {
    kiln_loop *loop;
    kiln_blob_store *store;
    kiln_digest digest;
    uint64_t size, offset;
    kiln_blob_sink_events events;
    void *context;
    kiln_strbuf pending;
    bool finish;        /* what is pending is the rest */
    bool dropped, keep; /* no events any more; whether another transfer may continue */
    bool busy;          /* the pool has what follows */
    kiln_strbuf writing;
    kiln_blob_writer *writer; /* NULL: not open yet, or over */
    bool finishing, is_open, over;
    kiln_status status;
};

static void destroy(kiln_blob_sink *sink) {
    kiln_strbuf_deinit(&sink->pending);
    kiln_strbuf_deinit(&sink->writing);
    kiln_status_free(sink->status);
    kiln_free(sink);
}

/* ---- On a thread of the pool ---- */

static void work(void *context) {
    kiln_blob_sink *sink = context;
    kiln_status st = KILN_OK;
    if (!sink->is_open)
        st = kiln_blob_writer_open(sink->store, &sink->digest, sink->size, sink->offset,
                                   &sink->writer);
    sink->is_open = true;
    if (!st && sink->writing.size > 0)
        st = kiln_blob_writer_add(sink->writer, kiln_strbuf_view(&sink->writing));
    if (st) {
        kiln_blob_writer_abandon(sink->writer, false);
        sink->writer = NULL;
    } else if (sink->finishing) {
        st = kiln_blob_writer_finish(sink->writer);
        sink->writer = NULL;
    }
    sink->over = st || sink->finishing;
    sink->status = st;
}

static void leave(void *context) {
    kiln_blob_sink *sink = context;
    kiln_blob_writer_abandon(sink->writer, sink->keep);
    kiln_blob_store_leaving(sink->store, &sink->digest, false);
}

/* ---- On the loop ---- */

static void on_left(void *context) { destroy(context); }

static void on_worked(void *context);

static void start(kiln_blob_sink *sink) {
    if (sink->busy) return;
    const kiln_strbuf empty = sink->writing;
    sink->busy = true;
    sink->writing = sink->pending;
    sink->pending = empty;
    sink->finishing = sink->finish;
    kiln_loop_bulk(sink->loop, work, on_worked, sink);
}

/* Not in the bulk queue, where work may wait for this. */
static void start_leaving(kiln_blob_sink *sink) {
    kiln_loop_work(sink->loop, leave, on_left, sink);
}

static void on_worked(void *context) {
    kiln_blob_sink *sink = context;
    const size_t written = sink->writing.size;
    sink->busy = false;
    kiln_strbuf_reset(&sink->writing);
    if (sink->dropped) {
        start_leaving(sink);
    } else if (sink->over) {
        kiln_status st = sink->status;
        sink->status = NULL;
        sink->events.ended(sink->context, st);
        destroy(sink);
    } else {
        if (sink->pending.size > 0 || sink->finish) start(sink);
        sink->events.written(sink->context, written); /* which may drop it */
    }
}

kiln_blob_sink *kiln_blob_sink_open(kiln_loop *loop, kiln_blob_store *store,
                                    const kiln_msg_blob_put *put, kiln_blob_sink_events events,
                                    void *context) {
    kiln_blob_sink *sink = kiln_alloc(sizeof *sink);
    *sink = (kiln_blob_sink){.loop = loop,
                             .store = store,
                             .digest = put->blob.digest,
                             .size = put->blob.size,
                             .offset = put->offset,
                             .events = events,
                             .context = context};
    start(sink);
    return sink;
}

void kiln_blob_sink_add(kiln_blob_sink *sink, kiln_str bytes) {
    KILN_CHECK(!sink->finish && !sink->dropped);
    kiln_strbuf_append(&sink->pending, bytes.data, bytes.size);
    start(sink);
}

void kiln_blob_sink_finish(kiln_blob_sink *sink) {
    sink->finish = true;
    start(sink);
}

void kiln_blob_sink_drop(kiln_blob_sink *sink, bool keep) {
    if (!sink) return;
    sink->dropped = true;
    sink->keep = keep;
    kiln_blob_store_leaving(sink->store, &sink->digest, true);
    if (!sink->busy) start_leaving(sink);
}
