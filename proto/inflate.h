/* Decompressing files (zstd), for archives of releases. Implemented in proto/net, where the library
 * is. */
#ifndef KILN_PROTO_INFLATE_H
#define KILN_PROTO_INFLATE_H

#include "base/status.h"
#include "base/str.h"

/* Takes the next bytes; an error ends the decompression and is returned by it. */
typedef kiln_status (*kiln_inflate_sink)(void *context, kiln_str bytes);

/* Decompresses what the descriptor gives from its position to its end, one frame with a window of
 * at most 8 MiB, in pieces.
 * DATA_LOSS      it is damaged or has no end, or cannot be read
 * OUT_OF_RANGE   it has more than `size_max` bytes
 * UNIMPLEMENTED  a build without zstd
 * Errors of the sink. */
KILN_MUST_USE kiln_status kiln_inflate(int fd, uint64_t size_max, kiln_inflate_sink sink,
                                       void *context);

#endif
