/* What the connection's input hands to the blobs that move over it. */
#ifndef KILN_PROTO_NET_BLOBS_H
#define KILN_PROTO_NET_BLOBS_H

#include "proto/net.h"

/* True: it was a message of a blob. */
bool kiln_blobs_message(kiln_blobs *blobs, const kiln_message *message);
/* DATA_LOSS: no transfer on that stream, or more bytes than announced. */
KILN_MUST_USE kiln_status kiln_blobs_data(kiln_blobs *blobs, uint32_t stream, kiln_str bytes,
                                          bool end);

#endif
