/* The fleet of one machine: a tracker, a tuner and an rpc-server as child processes, joined by a
 * Unix socket in a private folder. What `kiln tune` and `kiln web` use when no tracker is there. */
#ifndef KILN_CLI_WORKER_PRIVATE_FLEET_H
#define KILN_CLI_WORKER_PRIVATE_FLEET_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/target.h"

typedef struct kiln_private_fleet kiln_private_fleet;

typedef struct kiln_private_fleet_options {
    const char *db_path; /* the tuner's records */
    /* What the server offers: this machine's processor, a device in software beside it, or a device
     * with a driver in its place. NULL: the processor. */
    const kiln_target *target;
    bool calibrates; /* the server measures its core; else the caller brings what is known of it */
} kiln_private_fleet_options;

/* Starts the three programs; they may not be connected yet. NOT_FOUND: a program is not installed
 * beside this one. */
KILN_MUST_USE kiln_status kiln_private_fleet_start(const kiln_private_fleet_options *options,
                                                   kiln_arena *process,
                                                   kiln_private_fleet **out_fleet);
/* Address of its tracker. */
const char *kiln_private_fleet_address(const kiln_private_fleet *fleet);
/* UNAVAILABLE with the last line of its log when one of the programs has ended. */
KILN_MUST_USE kiln_status kiln_private_fleet_check(kiln_private_fleet *fleet);
/* Stops them in order, waits until they are gone, removes the folder. Returns the name of a program
 * that crashed when it was asked to end, for KILN_FLEET_CRASHED; NULL: none. NULL is fine. */
const char *kiln_private_fleet_stop(kiln_private_fleet *fleet);
#define KILN_FLEET_CRASHED                                                                     \
    "%s of the private fleet crashed when it was asked to end: please report it; results are " \
    "stored"

#endif
