/* Depots: storage in which trackers that share a database share their blobs. A tracker serves from
 * a folder of its own (proto/net); a depot keeps a copy of each blob under its digest, so that a
 * tracker that takes over on another machine has it too. Rows of depot/depots.def; this header has
 * no I/O, so that proto/net can call a depot that only the tracker is linked with.
 *
 * Calls block for as long as a transfer takes, and come from threads of a pool, several at a time.
 * Blobs are named by their content, so storing one twice is storing it once. Errors of all calls:
 * UNAVAILABLE (the service cannot be reached, or asks to try later), PERMISSION_DENIED,
 * RESOURCE_EXHAUSTED (no space), and errors of files. */
#ifndef KILN_PROTO_DEPOT_H
#define KILN_PROTO_DEPOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/status.h"
#include "base/str.h"

typedef struct kiln_depot kiln_depot;

typedef struct kiln_depot_blob {
    kiln_digest digest;
    uint64_t size;
    int64_t stored_s; /* since 1970, by the depot's clock */
} kiln_depot_blob;
/* Stops at its first error. */
typedef kiln_status (*kiln_depot_visit)(void *context, const kiln_depot_blob *blob);

typedef struct kiln_depot_row {
    const char *prefix; /* of the text that names one: "s3:" */
    const char *form;   /* the whole text, for people: "s3:URL/BUCKET[/PREFIX]" */
    /* `rest` is the text after the prefix. Does not connect: the first call does.
     * INVALID_ARGUMENT: the text is wrong, or a setting is missing. */
    kiln_status (*open)(kiln_str rest, kiln_depot **out_depot);
    void (*close)(kiln_depot *depot);
    /* Durable when it returns. `path` is a file with that content. */
    kiln_status (*put)(kiln_depot *depot, const kiln_digest *digest, const char *path);
    /* Writes the new file `path` (0600), and checks that its content has that digest; on an error
     * there is none. NOT_FOUND: the depot has no such blob. DATA_LOSS: it has another content.
     * OUT_OF_RANGE: it is larger than `bytes_max`. */
    kiln_status (*get)(kiln_depot *depot, const kiln_digest *digest, uint64_t bytes_max,
                       const char *path);
    /* Absent is fine. */
    kiln_status (*remove)(kiln_depot *depot, const kiln_digest *digest);
    /* Visits every blob, in any order; skips other files. */
    kiln_status (*each)(kiln_depot *depot, kiln_depot_visit visit, void *context);
} kiln_depot_row;

/* A row's own struct begins with it. */
struct kiln_depot {
    const kiln_depot_row *row;
};

/* The depot that `text` names (prefix and rest). INVALID_ARGUMENT also: an unknown prefix. */
KILN_MUST_USE kiln_status kiln_depot_open(kiln_str text, kiln_depot **out_depot);
/* Whether `text` begins as one; other texts are paths of folders. */
bool kiln_depot_is_named(kiln_str text);
void kiln_depot_close(kiln_depot *depot); /* NULL is fine */

#endif
