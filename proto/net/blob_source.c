/* A blob that goes out: the pool reads a piece ahead of what the loop sends. */
#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "proto/net/internal.h"

#define PIECE_BYTES ((size_t)128 << 10) /* two frames */

typedef struct piece {
    uint64_t offset;
    size_t size;
    char *data; /* [PIECE_BYTES], or less of a small blob; NULL before it is needed */
} piece;

struct kiln_blob_source {
    kiln_loop *loop;
    kiln_blob_store *store;
    kiln_digest digest;
    kiln_blob_source_ready ready;
    void *context;
    piece now, next; /* `next` is the pool's while `busy` */
    bool busy, dropped, has_next;
    int fd; /* -1: not open yet */
    uint64_t size;
    kiln_status status;
};

static void destroy(kiln_blob_source *source) {
    if (source->fd >= 0) close(source->fd);
    kiln_free(source->now.data);
    kiln_free(source->next.data);
    kiln_status_free(source->status);
    kiln_free(source);
}

/* ---- On a thread of the pool ---- */

static kiln_status read_piece(kiln_blob_source *source) {
    piece *p = &source->next;
    const size_t room = (size_t)KILN_MIN(source->size - p->offset, (uint64_t)PIECE_BYTES);
    if (!p->data) p->data = kiln_alloc((size_t)KILN_MIN(source->size, (uint64_t)PIECE_BYTES) + 1);
    for (p->size = 0; p->size < room;) {
        ssize_t got =
            pread(source->fd, p->data + p->size, room - p->size, (off_t)(p->offset + p->size));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return KILN_ERROR(DATA_LOSS, "a blob of the store is shorter than it was");
        p->size += (size_t)got;
    }
    return KILN_OK;
}

static void work(void *context) {
    kiln_blob_source *source = context;
    kiln_status st = KILN_OK;
    if (source->fd < 0)
        st = kiln_blob_store_reader(source->store, &source->digest, &source->fd, &source->size);
    source->status = st ? st : read_piece(source);
}

/* ---- On the loop ---- */

static void on_worked(void *context) {
    kiln_blob_source *source = context;
    kiln_status st = source->status;
    source->busy = false;
    source->has_next = st == NULL;
    source->status = NULL;
    if (!source->dropped) {
        source->ready(source->context, st); /* which may drop it: then it is gone */
        return;
    }
    kiln_status_free(st);
    destroy(source);
}

static void read_from(kiln_blob_source *source, uint64_t offset) {
    source->busy = true;
    source->has_next = false;
    source->next.offset = offset;
    kiln_loop_bulk(source->loop, work, on_worked, source);
}

kiln_blob_source *kiln_blob_source_open(kiln_loop *loop, kiln_blob_store *store,
                                        const kiln_digest *digest, kiln_blob_source_ready ready,
                                        void *context) {
    kiln_blob_source *source = kiln_alloc(sizeof *source);
    *source = (kiln_blob_source){.loop = loop,
                                 .store = store,
                                 .digest = *digest,
                                 .ready = ready,
                                 .context = context,
                                 .fd = -1};
    read_from(source, 0);
    return source;
}

uint64_t kiln_blob_source_size(const kiln_blob_source *source) { return source->size; }

static bool covers(const piece *p, uint64_t offset) {
    return offset >= p->offset && offset - p->offset < p->size;
}

kiln_str kiln_blob_source_at(kiln_blob_source *source, uint64_t offset) {
    if (!covers(&source->now, offset) && source->has_next && covers(&source->next, offset)) {
        const piece old = source->now;
        source->now = source->next;
        source->next = old;
        source->has_next = false;
    }
    const bool here = covers(&source->now, offset);
    const uint64_t behind = here ? source->now.offset + source->now.size : offset;
    if (!source->busy && !source->has_next && behind < source->size) read_from(source, behind);
    /* What was read for another offset, before the peer said where it goes on. */
    if (!here && !source->busy && offset < source->size) read_from(source, offset);
    if (!here) return (kiln_str){0};
    const size_t skip = (size_t)(offset - source->now.offset);
    return (kiln_str){source->now.data + skip, source->now.size - skip};
}

void kiln_blob_source_drop(kiln_blob_source *source) {
    if (!source) return;
    source->dropped = true;
    if (!source->busy) destroy(source);
}
