/* The tracker's shell: carries out what kiln_tracker_step (tracker/tracker.h) decides: sockets, the
 * tracker's own database, blobs. One loop thread; rows to keep are committed beside it
 * (tracker/persistence.h), and what waits for them goes on when they are durable.
 *
 * Trackers that share a database (on a server) stand by until the one that leads is gone, then read
 * what it left and take its place: same fences, same jobs. */
#ifndef KILN_TRACKER_SHELL_H
#define KILN_TRACKER_SHELL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/net.h"

#define KILN_TRACKER_ADDRESSES_MAX 16u
#define KILN_TRACKER_BLOB_BYTES_MAX ((uint64_t)16 << 30)

typedef struct kiln_tracker_shell kiln_tracker_shell;

typedef struct kiln_tracker_shell_options {
    const kiln_address *address; /* [address_count] to listen on, at least one */
    uint32_t address_count;
    kiln_origins origins; /* whose pages may dial "ws:" addresses */
    const char *home;     /* where the loopback token is made */
    const char *keys;     /* key file; NULL: `home`/keys where that is there */
    bool insecure;
    const char *state_folder;
    const char *db_path;   /* NULL: tracker.db in the state folder */
    const char *blobs;     /* a folder; what names a depot (proto/depot.h): the state folder's, and
                              that;     NULL: the state folder's */
    const char *port_file; /* gets the port of the first TCP address; NULL: none */
    const char *http;      /* address of /metrics and /state (tracker/http.h); NULL: none */
    const char *http_port_file;
    uint32_t fences;            /* that boards must have: a bit per kiln_fence */
    uint64_t forget_lost_ns;    /* boards that are lost for so long; 0: never */
    uint64_t keep_blobs_ns;     /* blobs that nobody used for so long go; 0: never */
    uint64_t person_blob_bytes; /* most that a person has of them at once; 0: no bound */
} kiln_tracker_shell_options;

/* Reads what the last tracker left, listens, then writes the port file; where another tracker
 * leads, all of that happens later, in kiln_tracker_shell_run. Strings of `options` outlive it.
 * ALREADY_EXISTS       an address is in use
 * FAILED_PRECONDITION  another tracker uses the state folder, or a newer Kiln wrote it
 * PERMISSION_DENIED    the folder cannot be written, others can read the key file, or an address
 *                      needs keys or --insecure
 * UNAVAILABLE          the database's server cannot be reached */
KILN_MUST_USE kiln_status kiln_tracker_shell_create(const kiln_tracker_shell_options *options,
                                                    kiln_tracker_shell **out_shell);
/* Serves until SIGINT or SIGTERM; SIGHUP reads the key file again.
 * ABORTED              the connection to the database's server was lost, and with it the lead:
 *                      another tracker serves now or soon; started anew this one stands by
 * and the errors of kiln_tracker_shell_create, when its turn comes */
KILN_MUST_USE kiln_status kiln_tracker_shell_run(kiln_tracker_shell *shell);
/* Says GOAWAY to everybody, makes pending rows durable, closes. NULL is fine. */
void kiln_tracker_shell_destroy(kiln_tracker_shell *shell);

#endif
