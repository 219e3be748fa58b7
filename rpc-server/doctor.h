/* Says in words what would keep this machine from being a good board: `kiln-rpc-server --doctor`,
 * for a board that has no other program of ours. */
#ifndef KILN_RPC_SERVER_DOCTOR_H
#define KILN_RPC_SERVER_DOCTOR_H

#include "rpc-server/shell.h"

/* Makes every check of rpc-server/checks.def and prints a line for each: "ok", "note" for what
 * makes a board worse, "BAD" for what keeps it from working. `out` gets the lines.
 * FAILED_PRECONDITION: something is bad. */
KILN_MUST_USE kiln_status kiln_doctor_run(const kiln_server_shell_options *options,
                                          kiln_arena *arena, kiln_strbuf *out);

#endif
