/* The tracker's shell: carries out what kiln_tracker_step (tracker/tracker.h) decides. Its parts
 * are the listeners (listeners.h), the key list (key_list.h), blobs (blob_files.h), rows on disk
 * (persistence.h), HTTP pages (pages.h) and the audit log (audit.h). One loop thread; rows are
 * committed on a pool thread.
 *
 * Of trackers that share a database on a server one leads and the others stand by. When the leader
 * is gone another reads its rows and continues with the same leases and jobs. */
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
    kiln_origins origins;     /* web origins whose pages may dial "ws:" addresses */
    const char *home;         /* where the loopback token is made */
    uint32_t keep_audit_days; /* see kiln_audit_expire */
    const char *keys;         /* key file; NULL: `home`/keys, if it exists */
    bool insecure;
    const char *state_folder;
    const char *db_path;   /* NULL: tracker.db in the state folder */
    const char *blobs;     /* as in kiln_tracker_blob_files_open */
    const char *port_file; /* gets the port of the first TCP address; NULL: none */
    const char *http;      /* address of /metrics and /state (tracker/http.h); NULL: none */
    const char *http_port_file;
    uint32_t fences;            /* required of boards: a bit per kiln_fence */
    uint64_t forget_lost_ns;    /* boards that are lost this long are forgotten; 0: never */
    uint64_t keep_blobs_ns;     /* blobs that are unused this long are removed; 0: never */
    uint64_t person_blob_bytes; /* bound of the blobs of one person; 0: none */
} kiln_tracker_shell_options;

/* Restores the state of the last tracker, listens, and writes the port file. If another tracker
 * leads, kiln_tracker_shell_run does so later. Strings of `options` outlive the shell.
 * ALREADY_EXISTS       an address is in use
 * FAILED_PRECONDITION  another tracker uses the state folder, or a newer Kiln wrote it
 * PERMISSION_DENIED    the folder cannot be written, others can read the key file, or an address
 *                      needs keys or --insecure
 * UNAVAILABLE          the database's server cannot be reached */
KILN_MUST_USE kiln_status kiln_tracker_shell_create(const kiln_tracker_shell_options *options,
                                                    kiln_tracker_shell **out_shell);
/* Serves until SIGINT or SIGTERM; SIGHUP reads the key file again.
 * ABORTED  the connection to the database's server was lost, and with it the lead: another tracker
 *          takes over, and this one, restarted, stands by
 * Errors of kiln_tracker_shell_create, when it takes the lead. */
KILN_MUST_USE kiln_status kiln_tracker_shell_run(kiln_tracker_shell *shell);
/* Sends GOAWAY to all peers, commits pending rows, and closes. NULL is fine. */
void kiln_tracker_shell_destroy(kiln_tracker_shell *shell);

#endif
