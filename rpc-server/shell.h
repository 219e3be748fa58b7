/* The rpc-server's shell: carries out what kiln_server_step (rpc-server/server.h) decides. One loop
 * thread; what candidates do, they do in contained children (rpc-server/supervisor.h). */
#ifndef KILN_RPC_SERVER_SHELL_H
#define KILN_RPC_SERVER_SHELL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/net.h"
#include "rpc-server/batch.h"
#include "rpc-server/board.h"
#include "rpc-server/helper.h"
#include "rpc-server/server.h"

#define KILN_SERVER_READING_NS \
    UINT64_C(5000000000) /* between two readings of clock and temperature */

typedef struct kiln_server_shell kiln_server_shell;

typedef struct kiln_server_shell_options {
    kiln_addresses tracker;
    kiln_batch *batch;        /* in place of a tracker; NULL: there is one. Outlives the shell */
    kiln_helper *helper;      /* which has the same addresses; outlives the shell */
    bool is_split;            /* the helper has rights that this process has given up */
    uint32_t required;        /* fences without which it is not to serve: a bit per kiln_fence */
    const char *state_folder; /* as this process reaches it */
    const char *state_name;   /* the same for people */
    const char *program;      /* of builders */
    uint64_t builders; /* of a server with a compiler; more than there are cores that nothing is
                          timed on are not used, so that they do not disturb */
    kiln_board_options board;
    /* Of an executor with a driver: which devices to offer, by number or name
     * (kiln_find_device_named); none: the first. */
    const char *device[KILN_SERVER_SLOTS_MAX];
    uint32_t device_count;
} kiln_server_shell_options;

/* Takes the state folder for this process, describes the board, starts the first spare child, and
 * dials. Strings of `options` outlive it. FAILED_PRECONDITION  another rpc-server uses the folder;
 * or a fence that is required does not hold: the note says which, and what to do
 * PERMISSION_DENIED, RESOURCE_EXHAUSTED  the folder cannot be written */
KILN_MUST_USE kiln_status kiln_server_shell_create(const kiln_server_shell_options *options,
                                                   kiln_server_shell **out_shell);
/* Serves until SIGINT or SIGTERM, or the end of the batch. UNAVAILABLE: the helper has ended.
 * Errors of kiln_batch_end. */
KILN_MUST_USE kiln_status kiln_server_shell_run(kiln_server_shell *shell);
/* Kills what is measured, hangs up, leaves the folder. NULL is fine. */
void kiln_server_shell_destroy(kiln_server_shell *shell);

#endif
