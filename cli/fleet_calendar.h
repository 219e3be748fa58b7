/* What `kiln fleet` orders about the calendar of boards: reservations and maintenance windows. */
#ifndef KILN_CLI_FLEET_CALENDAR_H
#define KILN_CLI_FLEET_CALENDAR_H

#include "cli/tracker_command.h"

/* "90s", "30m", "2h", "1d". INVALID_ARGUMENT: none of these, 0, or more than
 * KILN_RESERVE_S_MAX seconds. */
KILN_MUST_USE kiln_status kiln_duration_parse(const char *text, uint32_t *out_seconds);

/* Reserves the board that `call->tracker.id` names for --for, or ends that (--end). `*out_answer`
 * has its row, and lives in `call->tracker.process`. */
KILN_MUST_USE kiln_status kiln_fleet_reserve(kiln_command_call *call, kiln_message *out_answer);
/* Adds or removes a maintenance window; lists them. Both print. */
KILN_MUST_USE kiln_status kiln_fleet_window(kiln_command_call *call);
KILN_MUST_USE kiln_status kiln_fleet_windows(kiln_command_call *call);

#endif
