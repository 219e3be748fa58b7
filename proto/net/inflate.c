#include "proto/inflate.h"

#ifdef KILN_WITH_ZSTD

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/alloc.h"

#define WINDOW_LOG 23 /* 8 MiB: docs/reference/release.md */

typedef struct inflation {
    ZSTD_DStream *stream;
    char *in, *out;
    size_t in_size, out_size;
    uint64_t left; /* bytes that may still come out */
    size_t wanted; /* as ZSTD_decompressStream returned it; 0: the frame has ended */
} inflation;

/* Gives the sink all that the piece becomes. */
static kiln_status inflate_piece(inflation *i, size_t size, kiln_inflate_sink sink, void *context) {
    ZSTD_inBuffer in = {i->in, size, 0};
    kiln_status st = KILN_OK;
    bool more = true;
    while (!st && more) {
        ZSTD_outBuffer out = {i->out, i->out_size, 0};
        if (i->wanted == 0) return KILN_ERROR(DATA_LOSS, "more follows the compressed archive");
        i->wanted = ZSTD_decompressStream(i->stream, &out, &in);
        if (ZSTD_isError(i->wanted))
            return KILN_ERROR(DATA_LOSS, "the compressed archive is damaged: %s",
                              ZSTD_getErrorName(i->wanted));
        if (out.pos > i->left)
            return KILN_ERROR(OUT_OF_RANGE, "the archive is larger than it may be");
        i->left -= out.pos;
        if (out.pos) st = sink(context, (kiln_str){i->out, out.pos});
        more = in.pos < in.size || (out.pos == out.size && i->wanted);
    }
    return st;
}

static kiln_status read_piece(int fd, inflation *i, size_t *out_size) {
    ssize_t size;
    do size = read(fd, i->in, i->in_size);
    while (size < 0 && errno == EINTR);
    if (size < 0) return KILN_ERROR(DATA_LOSS, "reading the archive: %s", strerror(errno));
    *out_size = (size_t)size;
    return KILN_OK;
}

kiln_status kiln_inflate(int fd, uint64_t size_max, kiln_inflate_sink sink, void *context) {
    inflation i = {.stream = ZSTD_createDStream(),
                   .in_size = ZSTD_DStreamInSize(),
                   .out_size = ZSTD_DStreamOutSize(),
                   .left = size_max,
                   .wanted = 1};
    size_t size = 1;
    kiln_status st = KILN_OK;
    i.in = kiln_alloc(i.in_size);
    i.out = kiln_alloc(i.out_size);
    if (!i.stream) st = KILN_ERROR(RESOURCE_EXHAUSTED, "no memory to decompress the archive");
    if (!st) ZSTD_DCtx_setParameter(i.stream, ZSTD_d_windowLogMax, WINDOW_LOG);
    while (!st && size) {
        st = read_piece(fd, &i, &size);
        if (!st && size) st = inflate_piece(&i, size, sink, context);
    }
    if (!st && i.wanted) st = KILN_ERROR(DATA_LOSS, "the compressed archive has no end");
    ZSTD_freeDStream(i.stream);
    kiln_free(i.in);
    kiln_free(i.out);
    return st;
}

#else

kiln_status kiln_inflate(int fd, uint64_t size_max, kiln_inflate_sink sink, void *context) {
    (void)fd, (void)size_max, (void)sink, (void)context;
    return KILN_ERROR(UNIMPLEMENTED, "this build has no zstd, which archives of releases need");
}

#endif
