/* The contained child's side: one measurement in one process. The child is an exec'd copy of the
 * program
 * (`kiln-rpc-server --child`) whose standard input is the socket of rpc-server/talk.h. */
#ifndef KILN_RPC_SERVER_INMATE_H
#define KILN_RPC_SERVER_INMATE_H

#include "base/macros.h"

/* The child's whole life. Never returns. */
KILN_NORETURN void kiln_inmate_main(void);

#endif
