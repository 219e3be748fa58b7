/* The rpc-server's shell: carries out the actions of kiln_server_step (rpc-server/server.h). One
 * loop thread; candidates run in contained children (rpc-server/supervisor.h). */
#ifndef KILN_RPC_SERVER_SHELL_H
#define KILN_RPC_SERVER_SHELL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sign/release.h"
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
    kiln_batch *batch; /* replaces the tracker; NULL: there is a tracker. Outlives the shell */
    int launcher;      /* socket to the launcher; -1: there is none */
    kiln_server_launch launch;             /* what it said */
    const kiln_release_keys *release_keys; /* whose releases this board takes; NULL: none */
    kiln_helper *helper;      /* knows the tracker's addresses, too; outlives the shell */
    bool is_split;            /* the helper has rights that this process has given up */
    uint32_t required;        /* a bit per kiln_fence without which the server does not start */
    const char *state_folder; /* path for this process */
    const char *state_name;   /* path for messages */
    const char *program;      /* path of the builders' program */
    uint64_t builders; /* of a server with a compiler; at most one per core on which nothing is
                          timed, so that builders disturb no timing */
    kiln_board_options board;
    /* Of an executor with a driver: the devices to offer, by number or name
     * (kiln_find_device_named); none: the first. */
    const char *device[KILN_SERVER_SLOTS_MAX];
    uint32_t device_count;
} kiln_server_shell_options;

/* Locks the state folder, describes the board, starts the first spare child, and dials. Strings of
 * `options` outlive the shell. FAILED_PRECONDITION: another rpc-server uses the folder, or a
 * required fence does not hold (the note names it and says what to do). PERMISSION_DENIED,
 * RESOURCE_EXHAUSTED: the folder cannot be written. */
KILN_MUST_USE kiln_status kiln_server_shell_create(const kiln_server_shell_options *options,
                                                   kiln_server_shell **out_shell);
/* Serves until SIGINT or SIGTERM, or the end of the batch. UNAVAILABLE: the helper has ended.
 * Errors of kiln_batch_end. */
KILN_MUST_USE kiln_status kiln_server_shell_run(kiln_server_shell *shell);
/* Kills running children, hangs up, unlocks the folder. NULL is fine. */
void kiln_server_shell_destroy(kiln_server_shell *shell);

#endif
