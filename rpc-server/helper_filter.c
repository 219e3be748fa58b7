#include "rpc-server/helper_filter.h"

#include <errno.h>
#include <seccomp.h>
#include <sys/socket.h>

#include "base/macros.h"

static const int calls[] = {
#define CALL(name) SCMP_SYS(name),
#define CALLS(why, names) names
#include "rpc-server/helper_calls.def"
#undef CALLS
#undef CALL
};

/* A call that this processor does not have needs no rule. */
static bool add_rules(scmp_filter_ctx filter) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < KILN_ARRAY_COUNT(calls); i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
    /* To the tracker on this machine, and to children: no network. */
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                              SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0));
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
                              SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0));
    return rc == 0;
}

bool kiln_helper_filter_install(void) {
    if (KILN_SANITIZED) return false; /* a leak checker traces itself */
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (!filter) return false;
    const bool done = add_rules(filter) && seccomp_load(filter) == 0;
    seccomp_release(filter);
    return done;
}
