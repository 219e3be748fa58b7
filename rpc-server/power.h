/* The last resort for a board that does not get well: a command of its owner, who knows which plug
 * it hangs on. Run by the helper (rpc-server/helper.h), which alone knows it, as `/bin/sh -c
 * COMMAND`, with $PATH, the board's name in $KILN_BOARD and the reason in $KILN_REASON and no other
 * environment, one at a time, and killed with all its children when it takes longer than
 * KILN_POWER_LIMIT_NS. What comes of it is logged. On the loop's thread. */
#ifndef KILN_RPC_SERVER_POWER_H
#define KILN_RPC_SERVER_POWER_H

#include "proto/loop.h"
#include "rpc-server/helper.h"

#define KILN_POWER_LIMIT_NS UINT64_C(60000000000)

typedef struct kiln_power kiln_power;

/* The helper outlives it. */
kiln_power *kiln_power_create(kiln_loop *loop, kiln_helper *helper, uint64_t limit_ns);
/* Logs that there is no command where the helper was told none. */
void kiln_power_cycle(kiln_power *power, const char *reason);
/* Whether the command, or what it started, runs. */
bool kiln_power_is_busy(const kiln_power *power);
/* Kills the command when it still runs. NULL is fine. */
void kiln_power_destroy(kiln_power *power);

#endif
