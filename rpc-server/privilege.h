/* How the server process, which listens to peers, gives up its rights (rpc-server/helper.h keeps
 * them): it changes from root to a user of its own, drops all capabilities and new privileges,
 * forbids others to read or trace it, and filters the system calls that could regain rights. Called
 * by main before there are threads or peers. */
#ifndef KILN_RPC_SERVER_PRIVILEGE_H
#define KILN_RPC_SERVER_PRIVILEGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"

/* User number of the server process if no user is named kiln-board or kiln: from a range that
 * systemd (UIDS-GIDS, "unused") and Debian leave free, and different from the children's
 * (rpc-server/sandbox.h). */
#define KILN_PRIVILEGE_USER 61180u

typedef struct kiln_privilege_user {
    uid_t uid;
    gid_t gid;
} kiln_privilege_user;

/* Finds the user kiln-board, else kiln, in the file `passwd` (/etc/passwd; parsed here, because
 * static programs have no name service). Without one, or if it is root or the children's user:
 * KILN_PRIVILEGE_USER. */
kiln_privilege_user kiln_privilege_find_user(const char *passwd);

/* Makes the folder if needed and changes the owner of everything in it to `user`. Follows no link,
 * and removes entries through which other files could be given away (links, files with several
 * names, devices). Changes nothing if the folder already belongs to `user`. PERMISSION_DENIED: the
 * folder belongs to another user, or is a link; FAILED_PRECONDITION: another server uses it. */
KILN_MUST_USE kiln_status kiln_privilege_take_folder(const char *path, kiln_privilege_user user);

/* Becomes that user, without groups and capabilities, for good. PERMISSION_DENIED: the system
 * refuses (a container without that right), and nothing has changed. */
KILN_MUST_USE kiln_status kiln_privilege_leave_root(kiln_privilege_user user);

/* Removes all variables from the environment, and from where the kernel shows it, except Kiln's,
 * drivers' (drivers.def) and sanitizers'. Builders inherit the rest. */
void kiln_privilege_clean_environment(void);
/* From now on only root can read or trace this process, and it dumps no core. */
void kiln_privilege_hide(void);
/* Sets no-new-privileges, hides the process, and refuses system calls that gain rights, mount, load
 * modules, trace, or start programs (allowed with `may_start`), for this process and its children.
 * Without filters in the kernel the calls stay allowed. */
void kiln_privilege_shut(bool may_start);

#endif
