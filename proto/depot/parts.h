/* Shared by the rows of depots.def; private to proto/depot. */
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
/* False: it failed; further bytes are of no use. */
bool kiln_depot_sink_write(kiln_depot_sink *sink, const void *data, size_t size);
/* Syncs and closes the file. Removes it when `transfer` (taken) is an error, or the content has
 * another digest; returns the first error. */
KILN_MUST_USE kiln_status kiln_depot_sink_end(kiln_depot_sink *sink, const kiln_digest *digest,
                                              kiln_status transfer);

#endif
