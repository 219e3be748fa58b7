/* What the rows of depots.def share; private to proto/depot. */
#ifndef KILN_PROTO_DEPOT_PARTS_H
#define KILN_PROTO_DEPOT_PARTS_H

#include <stdio.h>

#include "proto/depot.h"

#define DEPOT(name) extern const kiln_depot_row kiln_depot_##name;
#include "proto/depot/depots.def"
#undef DEPOT

/* A new file that is written, hashed and bounded piece by piece. */
typedef struct kiln_depot_sink {
    const char *path;
    int fd; /* -1: nothing was written yet */
    uint64_t size, bytes_max;
    kiln_hasher hasher;
    kiln_status failure; /* of a write; kept for the end */
} kiln_depot_sink;

void kiln_depot_sink_begin(kiln_depot_sink *sink, const char *path, uint64_t bytes_max);
/* False: it failed, and the rest need not come. */
bool kiln_depot_sink_write(kiln_depot_sink *sink, const void *data, size_t size);
/* Closes the file, which is synced. With `transfer`, which is taken, or another content than
 * `digest`, the file is removed; the first error is returned. */
KILN_MUST_USE kiln_status kiln_depot_sink_end(kiln_depot_sink *sink, const kiln_digest *digest,
                                              kiln_status transfer);

#endif
