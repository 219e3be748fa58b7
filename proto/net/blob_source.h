/* A blob that is sent over a connection: the pool reads and compresses a piece ahead of the loop.
 */
#ifndef KILN_PROTO_NET_BLOB_SOURCE_H
#define KILN_PROTO_NET_BLOB_SOURCE_H

#include "proto/net.h"

typedef struct kiln_blob_source kiln_blob_source;
/* From the loop: the blob is open, or more of it was read. `status` is the callee's: NOT_FOUND;
 * DATA_LOSS when the file is damaged. */
typedef void (*kiln_blob_source_ready)(void *context, kiln_status status);
kiln_blob_source *kiln_blob_source_open(kiln_loop *loop, kiln_blob_store *store,
                                        const kiln_digest *digest, bool compresses,
                                        kiln_blob_source_ready ready, void *context);
uint64_t kiln_blob_source_size(const kiln_blob_source *source); /* after `ready` */
typedef struct kiln_blob_part {
    kiln_str bytes;      /* at most KILN_FRAME_DATA_MAX */
    kiln_str compressed; /* the same, compressed; empty: send `bytes` */
} kiln_blob_part;
/* The bytes of one frame from `offset` on, at most `size_max`; empty: they are being read, and
 * `ready` follows. Valid until the next call. */
kiln_blob_part kiln_blob_source_at(kiln_blob_source *source, uint64_t offset, uint64_t size_max);
void kiln_blob_source_drop(kiln_blob_source *source); /* NULL is fine */

#endif
