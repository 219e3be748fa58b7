#include "proto/net/blob_source.h"

#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "proto/net/blob_store.h"
#include "proto/net/compression.h"
#include "proto/net/event_loop.h"

#define PIECE_FRAMES 2u
#define PIECE_BYTES (PIECE_FRAMES * KILN_FRAME_DATA_MAX)

typedef struct piece {
    uint64_t offset;
    size_t size;
    char *data; /* [PIECE_BYTES], or less of a small blob; NULL before it is needed */
    kiln_strbuf compressed[PIECE_FRAMES]; /* each frame, compressed; empty: it gets no shorter */
} piece;

struct kiln_blob_source {
    kiln_loop *loop;
    kiln_blob_store *store;
    kiln_digest digest;
    kiln_blob_source_ready ready;
    void *context;
    piece now, next; /* `next` is the pool's while `busy` */
    bool compresses;
    bool busy, dropped, has_next;
    int fd; /* -1: not open yet */
    uint64_t size;
    kiln_status status;
};

static void free_piece(piece *p) {
    for (uint32_t i = 0; i < PIECE_FRAMES; i++) kiln_strbuf_deinit(&p->compressed[i]);
    kiln_free(p->data);
}

static void destroy(kiln_blob_source *source) {
    if (source->fd >= 0) close(source->fd);
    free_piece(&source->now);
    free_piece(&source->next);
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

static kiln_str frame_of(const piece *p, uint32_t index) {
    const size_t begin = KILN_MIN(p->size, index * KILN_FRAME_DATA_MAX);
    return (kiln_str){p->data + begin, KILN_MIN(p->size - begin, KILN_FRAME_DATA_MAX)};
}

static void compress_piece(piece *p) {
    for (uint32_t i = 0; i < PIECE_FRAMES; i++) {
        const kiln_str frame = frame_of(p, i);
        kiln_strbuf_reset(&p->compressed[i]);
        if (frame.size >= KILN_COMPRESSION_MIN) (void)kiln_compress(frame, &p->compressed[i]);
    }
}

static void work(void *context) {
    kiln_blob_source *source = context;
    kiln_status st = KILN_OK;
    if (source->fd < 0)
        st = kiln_blob_store_reader(source->store, &source->digest, &source->fd, &source->size);
    if (!st) st = read_piece(source);
    if (!st && source->compresses) compress_piece(&source->next);
    source->status = st;
}

/* ---- On the loop ---- */

static void on_worked(void *context) {
    kiln_blob_source *source = context;
    kiln_status st = source->status;
    source->busy = false;
    source->has_next = st == NULL;
    source->status = NULL;
    if (!source->dropped) {
        source->ready(source->context, st); /* which may drop and free it */
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
                                        const kiln_digest *digest, bool compresses,
                                        kiln_blob_source_ready ready, void *context) {
    kiln_blob_source *source = kiln_alloc(sizeof *source);
    *source = (kiln_blob_source){.loop = loop,
                                 .store = store,
                                 .digest = *digest,
                                 .compresses = compresses,
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

/* Only whole frames are compressed: less is sent as it is. */
static kiln_blob_part part_of(const piece *p, uint64_t offset, uint64_t size_max) {
    const size_t skip = (size_t)(offset - p->offset);
    const uint32_t index = (uint32_t)(skip / KILN_FRAME_DATA_MAX);
    const kiln_str frame = frame_of(p, index);
    const kiln_str rest = kiln_str_slice(frame, skip % KILN_FRAME_DATA_MAX, frame.size);
    kiln_blob_part part = {.bytes = {rest.data, (size_t)KILN_MIN(rest.size, size_max)}};
    if (part.bytes.size == frame.size) part.compressed = kiln_strbuf_view(&p->compressed[index]);
    return part;
}

kiln_blob_part kiln_blob_source_at(kiln_blob_source *source, uint64_t offset, uint64_t size_max) {
    if (!covers(&source->now, offset) && source->has_next && covers(&source->next, offset)) {
        const piece old = source->now;
        source->now = source->next;
        source->next = old;
        source->has_next = false;
    }
    const bool here = covers(&source->now, offset);
    const uint64_t behind = here ? source->now.offset + source->now.size : offset;
    if (!source->busy && !source->has_next && behind < source->size) read_from(source, behind);
    /* The piece was read for another offset, before the peer said where to continue. */
    if (!here && !source->busy && offset < source->size) read_from(source, offset);
    return here ? part_of(&source->now, offset, size_max) : (kiln_blob_part){0};
}

void kiln_blob_source_drop(kiln_blob_source *source) {
    if (!source) return;
    source->dropped = true;
    if (!source->busy) destroy(source);
}
