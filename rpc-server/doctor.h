/* `kiln-rpc-server --doctor`: prints what keeps this machine from being a good board. Part of the
 * server, because a board may have no other program of Kiln. */
#ifndef KILN_RPC_SERVER_DOCTOR_H
#define KILN_RPC_SERVER_DOCTOR_H

#include "rpc-server/shell.h"

/* Runs every check of rpc-server/checks.def and prints a line for each to `out`: "ok", "note" if it
 * makes a board worse, "BAD" if it keeps a board from working. FAILED_PRECONDITION: a check is BAD.
 */
KILN_MUST_USE kiln_status kiln_doctor_run(const kiln_server_shell_options *options,
                                          kiln_arena *arena, kiln_strbuf *out);

#endif
