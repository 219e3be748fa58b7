/* Times of a maintenance window as text, in UTC: some days of the week, every day, or one day.
 * Pure: knows no tracker. */
#ifndef KILN_TRACKER_WEEK_TIME_H
#define KILN_TRACKER_WEEK_TIME_H

#include "base/status.h"
#include "base/str.h"

typedef struct kiln_week_time {
    uint8_t days;      /* bit 0: Monday; 0: only on `day` */
    uint32_t day;      /* since 1970 */
    uint32_t begin_s;  /* of the day */
    uint32_t length_s; /* at most a day; the next day may begin meanwhile */
} kiln_week_time;

/* "Sat 02:00-06:00", "Mon-Fri,Sun 22:00-01:00", "daily 03:00-04:00", "2031-12-24 18:00-24:00".
 * INVALID_ARGUMENT: none of these; the error shows them. */
KILN_MUST_USE kiln_status kiln_week_time_parse(kiln_str text, kiln_week_time *out_time);
/* The time that contains `now_s` (since 1970), else the next one. False: there is none any more. */
bool kiln_week_time_next(const kiln_week_time *time, uint64_t now_s, uint64_t *out_begin_s,
                         uint64_t *out_end_s);

#endif
