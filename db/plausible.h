/* Whether a record of another database can be true. A signature proves who measured, not that the
 * figures are true. No kernel on any machine exceeds these bounds: a record that does is forged,
 * has wrong units, or comes from a broken clock. Pure. Used by db/import.h. */
#ifndef KILN_DB_PLAUSIBLE_H
#define KILN_DB_PLAUSIBLE_H

#include "db/db.h"

#define KILN_PLAUSIBLE_SAMPLES_MAX 1000000u
#define KILN_PLAUSIBLE_RUN_NS 1.0        /* shortest run: a call takes longer */
#define KILN_PLAUSIBLE_CORE_FLOPS 2e13   /* per second and core: twice the densest matrix unit */
#define KILN_PLAUSIBLE_DEVICE_FLOPS 1e16 /* per second of another device than a processor */
/* Of the measured fp32 peak: int8 does four times as many, and clocks move (rpc-server/verdict.c).
 */
#define KILN_PLAUSIBLE_PEAK_RATIO 5.0
/* Operations that an algorithm other than the direct one may save. */
#define KILN_PLAUSIBLE_SAVING 9.0

/* NULL: it can. Otherwise why not, for people: "its samples are not times". `task`: the task's row;
 * NULL: unknown. `now_wall_ns` 0: the time is not known. */
const char *kiln_record_implausible(const kiln_db_record *record, const kiln_db_task *task,
                                    int64_t now_wall_ns);

#endif
