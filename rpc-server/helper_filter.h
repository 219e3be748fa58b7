/* The helper's own filter of system calls (rpc-server/helper_calls.def): what it never needs it
 * cannot do, whoever comes to speak in its name. All that it starts inherits the filter. */
#ifndef KILN_RPC_SERVER_HELPER_FILTER_H
#define KILN_RPC_SERVER_HELPER_FILTER_H

#include <stdbool.h>

/* From here on every other system call of this process and of what it starts fails with ENOSYS, as
 * if the kernel did not have it, which C libraries are made for. `with_drivers`: what children that
 * open devices need beside it (rpc-server/drivers.def) goes through, too. False: this machine has
 * no filters, and nothing has changed. */
bool kiln_helper_filter_install(bool with_drivers);

#endif
