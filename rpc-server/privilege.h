/* What the half of a server that listens to peers gives up (rpc-server/helper.h has the other
 * half): root for a user of its own, every capability, new privileges, being looked at, and the
 * system calls that serve to get some back. Called by main before there are threads or peers. */
#ifndef KILN_RPC_SERVER_PRIVILEGE_H
#define KILN_RPC_SERVER_PRIVILEGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"

/* Who the half becomes where nobody is named kiln-board or kiln: a number in the range that systemd
 * (UIDS-GIDS, "unused") and Debian leave to nobody, and another than the children's
 * (rpc-server/sandbox.h). */
#define KILN_PRIVILEGE_USER 61180u

typedef struct kiln_privilege_user {
    uid_t uid;
    gid_t gid;
} kiln_privilege_user;

/* The user in the file `passwd` (/etc/passwd; read here, because static programs have no name
 * service) that is named kiln-board, else kiln, unless that is root or the children's user; else
 * KILN_PRIVILEGE_USER. */
kiln_privilege_user kiln_privilege_find_user(const char *passwd);

/* Makes the folder, unless it is there, and gives it and what lies in it to `user`. Follows no
 * link; what somebody could have put there to have something else given away (links, files with
 * several names, devices) is removed. Nothing is touched in a folder that belongs to `user`
 * already. PERMISSION_DENIED: it belongs to somebody else, or is a link; FAILED_PRECONDITION:
 * another server uses it. */
KILN_MUST_USE kiln_status kiln_privilege_take_folder(const char *path, kiln_privilege_user user);

/* Becomes that user, without groups and capabilities, for ever. PERMISSION_DENIED: the system does
 * not let us (a container without the right to); then nothing has changed. */
KILN_MUST_USE kiln_status kiln_privilege_leave_root(kiln_privilege_user user);

/* Wipes the environment, also where the kernel shows it, of all but Kiln's own variables and those
 * of drivers (drivers.def) and sanitizers: neither this process nor the builders that it starts
 * have more. */
void kiln_privilege_clean_environment(void);
/* Nobody but root reads or traces this process from now on, nor dumps its core. */
void kiln_privilege_hide(void);
/* No new privileges, hidden, and no system call that gets rights, mounts, loads, traces or starts
 * programs (those only with `may_start`), for this process and what it starts. Where the kernel has
 * no filters there is none. */
void kiln_privilege_shut(bool may_start);

#endif
