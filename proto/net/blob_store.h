/* Blobs as files: FOLDER/<SHA-256>. They come under another name and are renamed when they are
 * whole and right, so that a file with a digest for a name never lies. Here: blobs in pieces, for
 * transfers. Any thread; each writer one at a time. All of it may
 * wait for the disk, and for others that use the store. */
#ifndef KILN_PROTO_NET_BLOB_STORE_H
#define KILN_PROTO_NET_BLOB_STORE_H

#include "proto/net.h"

/* Opens a blob for reading and marks its use. NOT_FOUND. */
KILN_MUST_USE kiln_status kiln_blob_store_reader(kiln_blob_store *store, const kiln_digest *digest,
                                                 int *out_fd, uint64_t *out_size);
/* A writer of this blob is about to be abandoned (`leaves`), or was: what asks for its half waits
 * in between. Does not wait for the disk itself. */
void kiln_blob_store_leaving(kiln_blob_store *store, const kiln_digest *digest, bool leaves);
typedef struct kiln_blob_writer kiln_blob_writer;
/* Bytes of the blob that a transfer which broke off left behind; 0: none, or another transfer is at
 * it. */
uint64_t kiln_blob_store_half(kiln_blob_store *store, const kiln_digest *digest);
/* Goes on at `offset`, which is 0 or what kiln_blob_store_half said; ABORTED when that is no longer
 * so. */
KILN_MUST_USE kiln_status kiln_blob_writer_open(kiln_blob_store *store, const kiln_digest *digest,
                                                uint64_t size, uint64_t offset,
                                                kiln_blob_writer **out_writer);
KILN_MUST_USE kiln_status kiln_blob_writer_add(kiln_blob_writer *writer, kiln_str bytes);
/* Checks the digest and makes the blob visible; DATA_LOSS when it is another content. Frees the
 * writer either way. */
KILN_MUST_USE kiln_status kiln_blob_writer_finish(kiln_blob_writer *writer);
/* `keep`: another transfer may go on with what is there. NULL is fine. */
void kiln_blob_writer_abandon(kiln_blob_writer *writer, bool keep);

#endif
