/* Bodies of frames, compressed (zstd): between peers that both say so in HELLO and WELCOME. A build
 * without libzstd says that it cannot, and everything goes as it is. */
#ifndef KILN_PROTO_NET_COMPRESSION_H
#define KILN_PROTO_NET_COMPRESSION_H

#include <stdbool.h>

#include "base/status.h"
#include "base/str.h"

#define KILN_COMPRESSION_MIN ((size_t)1024) /* shorter bodies gain less than they cost */

/* Whether this build has zstd. */
bool kiln_compression_supported(void);
/* Appends the shorter form. False, and nothing appended, when it would not be an eighth shorter. */
bool kiln_compress(kiln_str body, kiln_strbuf *out);
/* Appends the body that `compressed` stands for. DATA_LOSS: it stands for none, does not say how
 * long it is, or is longer than `size_max`, which is decided before room is made. */
KILN_MUST_USE kiln_status kiln_decompress(kiln_str compressed, size_t size_max, kiln_strbuf *out);

#endif
