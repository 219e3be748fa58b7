/* Runs the owner's --power-cycle command for a board that stays sick. The helper
 * (rpc-server/helper.h), which alone knows the command, runs it as `/bin/sh -c COMMAND` with only
 * $PATH, the board's name in $KILN_BOARD and the reason in $KILN_REASON in its environment. One
 * command runs at a time; it is killed with all its children after KILN_POWER_LIMIT_NS. Its end is
 * logged. Belongs to the loop's thread. */
#ifndef KILN_RPC_SERVER_POWER_H
#define KILN_RPC_SERVER_POWER_H

#include "proto/loop.h"
#include "rpc-server/helper.h"

#define KILN_POWER_LIMIT_NS UINT64_C(60000000000)

typedef struct kiln_power kiln_power;

/* The helper outlives it. */
kiln_power *kiln_power_create(kiln_loop *loop, kiln_helper *helper, uint64_t limit_ns);
/* Starts the command; logs if there is none. */
void kiln_power_cycle(kiln_power *power, const char *reason);
/* Whether the command or a process that it started runs. */
bool kiln_power_is_busy(const kiln_power *power);
/* Kills the command if it runs. NULL is fine. */
void kiln_power_destroy(kiln_power *power);

#endif
