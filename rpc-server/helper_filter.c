#include "rpc-server/helper_filter.h"

#include <errno.h>
#include <seccomp.h>
#include <sys/socket.h>

#include "base/macros.h"
#include "rpc-server/driver.h"

static const int calls[] = {
#define CALL(name) SCMP_SYS(name),
#define CALLS(why, names) names
#include "rpc-server/helper_calls.def"
#undef CALLS
#undef CALL
};

/* Children that open devices mount the driver's files, and use the driver's calls. */
static bool add_driver_rules(scmp_filter_ctx filter) {
    static const int mounting[] = {
        SCMP_SYS(mount),         SCMP_SYS(umount2),    SCMP_SYS(open_tree), SCMP_SYS(move_mount),
        SCMP_SYS(mount_setattr), SCMP_SYS(pivot_root), SCMP_SYS(chown),     SCMP_SYS(fchownat),
        SCMP_SYS(symlink),       SCMP_SYS(symlinkat)};
    int rc = 0, call = 0;
    for (size_t i = 0; rc == 0 && i < KILN_ARRAY_COUNT(mounting); i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, mounting[i], 0);
    for (uint32_t i = 0; i < kiln_driver_count(); i++)
        for (uint32_t at = 0; rc == 0 && kiln_driver_next_call(kiln_driver_at(i), &at, &call);)
            rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0);
    return rc == 0;
}

/* Calls that this processor lacks get no rule. */
static bool add_rules(scmp_filter_ctx filter) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < KILN_ARRAY_COUNT(calls); i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
    /* Sockets only to a tracker on this machine and to children; no network. */
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                              SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0));
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
                              SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0));
    return rc == 0;
}

bool kiln_helper_filter_install(bool with_drivers) {
    if (KILN_SANITIZED) return false; /* a leak checker traces itself */
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (!filter) return false;
    const bool done = add_rules(filter) && (!with_drivers || add_driver_rules(filter)) &&
                      seccomp_load(filter) == 0;
    seccomp_release(filter);
    return done;
}
