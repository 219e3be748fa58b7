/* The contained child's side: one measurement in one process. The child is an exec'd copy of the
 * program (`kiln-rpc-server --child [GROUP]`) whose standard input is the socket of
 * rpc-server/talk.h. */
#ifndef KILN_RPC_SERVER_INMATE_H
#define KILN_RPC_SERVER_INMATE_H

#include <stdbool.h>

#include "base/macros.h"

/* Whether a program was started as a contained child. */
bool kiln_inmate_is_asked(int argc, char **argv);
/* The child's whole life, by the same arguments: the control group that it goes into comes third,
 * where there is one. Never returns. */
KILN_NORETURN void kiln_inmate_main(int argc, char **argv);

#endif
