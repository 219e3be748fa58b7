/* Files that contained children leave in a folder of the server's. A driver writes there where no
 * file system of the child's own can be had; its folders belong to the children's user, so that
 * only a process with rights empties them. */
#ifndef KILN_RPC_SERVER_LEFTOVERS_H
#define KILN_RPC_SERVER_LEFTOVERS_H

#include <sys/types.h>

#include "base/status.h"

/* Removes all that lies in `folder`, an open folder that belongs to `owner`; the folder itself
 * stays. Follows no link, enters no folder of another user than `owner` and the children's, nor any
 * deeper than 64 levels. Does what it can and then reports the first thing that stayed.
 * PERMISSION_DENIED: the folder is another user's. */
KILN_MUST_USE kiln_status kiln_leftovers_remove(int folder, uid_t owner);

#endif
