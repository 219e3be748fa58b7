/* Compressed bodies of frames (zstd), between peers that both support it (HELLO, WELCOME). A build
 * without libzstd does not. */
#ifndef KILN_PROTO_NET_COMPRESSION_H
#define KILN_PROTO_NET_COMPRESSION_H

#include <stdbool.h>

#include "base/status.h"
#include "base/str.h"

#define KILN_COMPRESSION_MIN \
    ((size_t)1024) /* compressing shorter bodies costs more than it gains */

/* Whether this build has zstd. */
bool kiln_compression_supported(void);
/* Appends the shorter form. False, and nothing appended, when it would not be an eighth shorter. */
bool kiln_compress(kiln_str body, kiln_strbuf *out);
/* Appends the original body. DATA_LOSS: `compressed` is damaged, does not state its size, or is
 * longer than `size_max`, which is checked before memory is allocated. */
KILN_MUST_USE kiln_status kiln_decompress(kiln_str compressed, size_t size_max, kiln_strbuf *out);

#endif
