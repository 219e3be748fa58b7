/* The contained child: a process that runs one measurement, or several where the executor's device
 * is kept until a fault. Its standard input is the socket of rpc-server/child_protocol.h. The child
 * is a fork of a zygote (`kiln-rpc-server --children`), or is started as `kiln-rpc-server --child
 * DRIVER [GROUP]`, with - for no driver. */
#ifndef KILN_RPC_SERVER_SANDBOXED_CHILD_H
#define KILN_RPC_SERVER_SANDBOXED_CHILD_H

#include <stdbool.h>

#include "base/macros.h"

/* Whether this process was started as a contained child or a zygote. */
bool kiln_sandboxed_child_is_asked(int argc, char **argv);
/* Main function of both. Never returns. */
KILN_NORETURN void kiln_sandboxed_child_main(int argc, char **argv);

#endif
