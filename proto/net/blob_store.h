/* Blobs as files: FOLDER/<SHA-256>. A blob is written under another name and renamed when it is
 * complete and verified, so that a file with a digest for a name always has that content. Here:
 * blobs in pieces, for transfers. Any thread; each writer one at a time. All of it may wait for the
 * disk, and for other users of the store. */
#ifndef KILN_PROTO_NET_BLOB_STORE_H
#define KILN_PROTO_NET_BLOB_STORE_H

#include "proto/net.h"

/* Opens a blob for reading and marks its use. NOT_FOUND. */
KILN_MUST_USE kiln_status kiln_blob_store_reader(kiln_blob_store *store, const kiln_digest *digest,
                                                 int *out_fd, uint64_t *out_size);
/* A writer of this blob is about to be abandoned (`leaves`), or was: kiln_blob_store_half waits in
 * between. Does not wait for the disk itself. */
void kiln_blob_store_leaving(kiln_blob_store *store, const kiln_digest *digest, bool leaves);
typedef struct kiln_blob_writer kiln_blob_writer;
/* Bytes of the blob that an interrupted transfer left; 0: none, or another transfer writes it. */
uint64_t kiln_blob_store_half(kiln_blob_store *store, const kiln_digest *digest);
/* Continues at `offset`: 0 or the value of kiln_blob_store_half; ABORTED: that has changed. */
KILN_MUST_USE kiln_status kiln_blob_writer_open(kiln_blob_store *store, const kiln_digest *digest,
                                                uint64_t size, uint64_t offset,
                                                kiln_blob_writer **out_writer);
KILN_MUST_USE kiln_status kiln_blob_writer_add(kiln_blob_writer *writer, kiln_str bytes);
/* Checks the digest and makes the blob visible. Always frees the writer. DATA_LOSS: other content.
 */
KILN_MUST_USE kiln_status kiln_blob_writer_finish(kiln_blob_writer *writer);
/* `keep`: another transfer may continue with the bytes so far. NULL is fine. */
void kiln_blob_writer_abandon(kiln_blob_writer *writer, bool keep);

#endif
