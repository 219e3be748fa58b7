#include "proto/net/compression.h"

#ifdef KILN_WITH_ZSTD

#include <zstd.h>

#include "base/alloc.h"
#include "base/thread_work.h"

#define LEVEL 1 /* faster than any network that it is worth on */

bool kiln_compression_supported(void) { return true; }

bool kiln_compress(kiln_str body, kiln_strbuf *out) {
    size_t room = body.size - body.size / 8;
    kiln_thread_work_here()->compressed_bytes += body.size;
    char *compressed = kiln_alloc(room);
    size_t size = ZSTD_compress(compressed, room, body.data, body.size, LEVEL);
    bool shorter = !ZSTD_isError(size); /* else it did not fit */
    if (shorter) kiln_strbuf_append(out, compressed, size);
    kiln_free(compressed);
    return shorter;
}

kiln_status kiln_decompress(kiln_str compressed, size_t size_max, kiln_strbuf *out) {
    unsigned long long size = ZSTD_getFrameContentSize(compressed.data, compressed.size);
    if (size > size_max) /* also what stands for an error or an unknown size */
        return KILN_ERROR(DATA_LOSS, "a compressed frame of no size, or of more than %zu bytes",
                          size_max);
    char *body = kiln_alloc((size_t)size + 1);
    size_t got = ZSTD_decompress(body, (size_t)size, compressed.data, compressed.size);
    bool whole = !ZSTD_isError(got) && got == size;
    if (whole) kiln_strbuf_append(out, body, got);
    kiln_free(body);
    return whole ? KILN_OK : KILN_ERROR(DATA_LOSS, "a compressed frame is damaged");
}

#else

bool kiln_compression_supported(void) { return false; }

bool kiln_compress(kiln_str body, kiln_strbuf *out) {
    (void)body, (void)out;
    return false;
}

kiln_status kiln_decompress(kiln_str compressed, size_t size_max, kiln_strbuf *out) {
    (void)compressed, (void)size_max, (void)out;
    return KILN_ERROR(DATA_LOSS, "a compressed frame, which this program never asked for");
}

#endif
