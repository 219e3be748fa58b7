/* What `kiln fleet` asks of boards themselves: pings and logs. */
#ifndef KILN_CLI_FLEET_ASK_H
#define KILN_CLI_FLEET_ASK_H

#include "cli/tracker_command.h"

/* Pings the tracker, and through it the board that `call->tracker.id` names, or all: a line each.
 * UNAVAILABLE names those that do not answer. */
KILN_MUST_USE kiln_status kiln_fleet_ping(kiln_command_call *call);
/* The lines that a board still has of its log; with `call->follow` also those that come, until
 * Ctrl-C. */
KILN_MUST_USE kiln_status kiln_fleet_log(kiln_command_call *call);

/* How the board that `call->tracker.id` names answers; `*out_row` lives in `call->tracker.process`.
 * False: the tracker is too old to ask. */
KILN_MUST_USE kiln_status kiln_fleet_probe_one(kiln_command_call *call, kiln_msg_probe_row *out_row,
                                               bool *out_asked);

#endif
