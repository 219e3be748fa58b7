/* The fleet of one machine: a tracker, a tuner and an rpc-server as child processes, joined by a
 * Unix socket in a private folder. What `kiln tune` uses when no tracker is named. */
#ifndef KILN_CLI_WORKER_PRIVATE_FLEET_H
#define KILN_CLI_WORKER_PRIVATE_FLEET_H

#include "base/arena.h"
#include "base/status.h"
#include "base/target.h"
#include "cli/worker/events.h"

typedef struct kiln_private_fleet kiln_private_fleet;

/* Starts the three programs; they may not be connected yet. The tuner keeps its records in
 * `db_path`; the server offers what `target` is for: this machine's processor, a device in software
 * beside it, or a device with a driver in its place. NOT_FOUND: a program is not installed beside
 * this one. */
KILN_MUST_USE kiln_status kiln_private_fleet_start(const char *db_path, const kiln_target *target,
                                                   kiln_events *events, kiln_arena *process,
                                                   kiln_private_fleet **out_fleet);
/* Address of its tracker. */
const char *kiln_private_fleet_address(const kiln_private_fleet *fleet);
/* UNAVAILABLE with the last line of its log when one of the programs has ended. */
KILN_MUST_USE kiln_status kiln_private_fleet_check(kiln_private_fleet *fleet);
/* Stops them in order, waits until they are gone, removes the folder; says when one crashes then.
 * NULL is fine. */
void kiln_private_fleet_stop(kiln_private_fleet *fleet, kiln_events *events);

#endif
