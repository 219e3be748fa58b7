/* The contained child's side: one measurement in one process, or one after the other where the
 * executor's device serves until a fault. Its standard input is the socket of
 * rpc-server/child_protocol.h. The child is a copy of a zygote (`kiln-rpc-server --children`), or
 * loads the program by itself
 * (`kiln-rpc-server --child DRIVER [GROUP]`, with - for no driver). */
#ifndef KILN_RPC_SERVER_SANDBOXED_CHILD_H
#define KILN_RPC_SERVER_SANDBOXED_CHILD_H

#include <stdbool.h>

#include "base/macros.h"

/* Whether a program was started as a contained child, or their zygote. */
bool kiln_sandboxed_child_is_asked(int argc, char **argv);
/* The whole life of either, by the same arguments. Never returns. */
KILN_NORETURN void kiln_sandboxed_child_main(int argc, char **argv);

#endif
