/* Whether a board may be trusted with measurements. Pure; server.c is its only user. A board is
 * sick while a killed child has not ended, while its readings say so, and from the second failed
 * self-check in a row until one passes (the golden kernel of rpc-server/golden.h; a single failure
 * may be caused by a neighbour). It checks itself before the first trial, after each kill, after
 * KILN_HEALTH_FAULTS trials in a row without a result, and every KILN_HEALTH_PERIOD_NS. When the
 * checks keep failing, or a stray stays, it asks for a power cycle. */
#ifndef KILN_RPC_SERVER_HEALTH_H
#define KILN_RPC_SERVER_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/outcome.h"

#define KILN_HEALTH_FAULTS 5u                        /* in a row, then the board checks itself */
#define KILN_HEALTH_PERIOD_NS UINT64_C(600000000000) /* between two checks without a reason */
#define KILN_HEALTH_RETRY_NS UINT64_C(500000000)     /* after a failed check, doubled each time */
#define KILN_HEALTH_RETRY_MAX_NS UINT64_C(60000000000)
#define KILN_HEALTH_STRAY_NS UINT64_C(30000000000) /* a child that lives longer never ends */
#define KILN_HEALTH_CHECK_NS UINT64_C(10000000000) /* deadline of a check */
/* The same through a driver, which the check opens and which compiles: 7 s of processor time under
 * qemu-user with PoCL. */
#define KILN_HEALTH_DRIVER_CHECK_NS UINT64_C(60000000000)
#define KILN_HEALTH_CHECKS 4u /* failed in a row: only a power cycle may help */
#define KILN_HEALTH_CYCLE_NS UINT64_C(600000000000) /* between two power cycles */

typedef struct kiln_health {
    uint64_t check_ns; /* deadline of a check, from its start; 0: it never checks itself */
    bool stray;
    uint64_t stray_since_ns;
    char *unwell;  /* failure of the last reading; NULL: healthy */
    char *ailment; /* failure of the last self-check; NULL: it passed, or there was none */
    bool check_due, checking;
    uint64_t check_until_ns; /* its deadline; UINT64_MAX: none, or it was killed */
    uint64_t check_at_ns;    /* a due check starts then; else the next regular one */
    uint32_t failed_checks;  /* in a row */
    uint32_t fault_run;      /* trials in a row without a result */
    uint64_t cycle_not_before_ns;
} kiln_health;

/* `check_ns`: deadline of a check, of which the first one is due at once; 0: the board never checks
 * itself. */
void kiln_health_init(kiln_health *health, uint64_t check_ns, uint64_t now_ns);
void kiln_health_deinit(kiln_health *health);

/* A reading of clock and temperature came; `failure`: NULL, or why the board is sick (copied). */
void kiln_health_reading(kiln_health *health, const char *failure);
/* Whether some killed child is not gone at its deadline. */
void kiln_health_stray(kiln_health *health, bool stray, uint64_t now_ns);
/* A killed child is gone. */
void kiln_health_killed(kiln_health *health, uint64_t now_ns);
/* A started trial ended. A wrong result counts as healthy, because the board computed. */
void kiln_health_ended(kiln_health *health, kiln_outcome outcome, kiln_blame blame,
                       uint64_t now_ns);
/* A check started. A check ended; `failure`: NULL, or what is wrong (copied). */
void kiln_health_check_begun(kiln_health *health, uint64_t now_ns);
void kiln_health_checked(kiln_health *health, const char *failure, uint64_t now_ns);
/* A power cycle was ordered. */
void kiln_health_cycled(kiln_health *health, uint64_t now_ns);

/* Whether no trial may start until a check passes or the cause is gone. */
bool kiln_health_is_sick(const kiln_health *health);
/* Why; NULL when it is not. Lasts until the next change. */
const char *kiln_health_text(const kiln_health *health);
/* Whether a trial may start: not while a check is due or under way, not while it is sick. */
bool kiln_health_may_start(const kiln_health *health);
/* Whether a check shall start now, if nothing else runs. */
bool kiln_health_wants_check(const kiln_health *health, uint64_t now_ns);
/* Whether the running check is over its deadline. Returns true once; from then on the check counts
 * as a stray until it has ended. */
bool kiln_health_check_is_over(kiln_health *health, uint64_t now_ns);
bool kiln_health_wants_cycle(const kiln_health *health, uint64_t now_ns);
/* When the answers may change by time alone; UINT64_MAX: never. */
uint64_t kiln_health_next_ns(const kiln_health *health, uint64_t now_ns);

#endif
