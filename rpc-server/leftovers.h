/* Removes files that contained children leave in a folder of the server. A driver writes there if
 * the child has no file system of its own. Its folders belong to the children's user, so only the
 * helper can empty them. */
#ifndef KILN_RPC_SERVER_LEFTOVERS_H
#define KILN_RPC_SERVER_LEFTOVERS_H

#include <sys/types.h>

#include "base/status.h"

/* Removes everything in `folder`, an open folder of `owner`, but not the folder itself. Follows no
 * link, and enters only folders of `owner` and of the children's user, at most 64 levels deep.
 * Removes what it can and reports the first failure. PERMISSION_DENIED: the folder belongs to
 * another user. */
KILN_MUST_USE kiln_status kiln_leftovers_remove(int folder, uid_t owner);

#endif
