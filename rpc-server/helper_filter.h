/* The helper's filter of system calls (rpc-server/helper_calls.def). An attacker who takes the
 * helper over can use only the calls that it needs. Its children inherit the filter. */
#ifndef KILN_RPC_SERVER_HELPER_FILTER_H
#define KILN_RPC_SERVER_HELPER_FILTER_H

#include <stdbool.h>

/* From here on every other system call of this process and its children fails with ENOSYS, which C
 * libraries can handle. `with_drivers`: also allows the calls of children that open devices
 * (rpc-server/drivers.def). False: this machine has no filters, and nothing has changed. */
bool kiln_helper_filter_install(bool with_drivers);

#endif
