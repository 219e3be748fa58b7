#include "tracker/week_time.h"

#include "base/macros.h"
#include "proto/keys.h"

#define DAY_S 86400u
#define EVERY_DAY 0x7fu
#define FIRST_WEEKDAY 3u /* 1970-01-01 was a Thursday; Monday is 0 */

/* Monday is 0; -1: no day. */
static int day_of(kiln_str text) {
    static const char *const name[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
    for (int i = 0; i < (int)KILN_ARRAY_COUNT(name); i++)
        if (kiln_str_is(text, name[i])) return i;
    return -1;
}

/* "Mon-Fri,Sun" as bits. A range may go over Sunday. */
static bool parse_days(kiln_str text, uint8_t *out_days) {
    uint32_t days = 0;
    while (text.size) {
        const kiln_str range = kiln_str_cut(&text, ',');
        kiln_str last = range;
        const kiln_str first = kiln_str_cut(&last, '-');
        const int from = day_of(first), to = first.size < range.size ? day_of(last) : from;
        if (from < 0 || to < 0) return false;
        for (int day = from; days |= 1u << day, day != to;) day = (day + 1) % 7;
    }
    *out_days = (uint8_t)days;
    return days != 0;
}

/* "HH:MM", up to 24:00. */
static bool parse_clock(kiln_str text, uint32_t *out_s) {
    uint64_t hour = 0, minute = 0;
    if (text.size != 5 || text.data[2] != ':' ||
        !kiln_str_to_u64(kiln_str_slice(text, 0, 2), &hour) ||
        !kiln_str_to_u64(kiln_str_slice(text, 3, 5), &minute) || minute > 59 ||
        hour * 60 + minute > 24 * 60)
        return false;
    *out_s = (uint32_t)(hour * 3600 + minute * 60);
    return true;
}

kiln_status kiln_week_time_parse(kiln_str text, kiln_week_time *out_time) {
    kiln_week_time time = {0};
    uint32_t end_s = 0;
    kiln_str clock = text, days = kiln_str_cut(&clock, ' ');
    kiln_str end = kiln_str_trim(clock), begin = kiln_str_cut(&end, '-');
    bool is_right = parse_clock(begin, &time.begin_s) && parse_clock(end, &end_s) &&
                    time.begin_s < DAY_S && time.begin_s != end_s;
    if (kiln_str_is(days, "daily"))
        time.days = EVERY_DAY;
    else if (!kiln_day_parse(days, &time.day))
        is_right = is_right && parse_days(days, &time.days);
    if (!is_right)
        return KILN_ERROR(
            INVALID_ARGUMENT,
            "'%.*s' is no time: write \"Sat 02:00-06:00\", \"Mon-Fri,Sun "
            "22:00-01:00\", \"daily 03:00-04:00\" or \"2031-12-24 18:00-24:00\" (UTC)",
            KILN_STR_ARG(text));
    time.length_s = end_s > time.begin_s ? end_s - time.begin_s : end_s + DAY_S - time.begin_s;
    *out_time = time;
    return KILN_OK;
}

static bool is_on(const kiln_week_time *time, uint64_t day) {
    return time->days ? (time->days >> (day + FIRST_WEEKDAY) % 7 & 1u) != 0 : day == time->day;
}

bool kiln_week_time_next(const kiln_week_time *time, uint64_t now_s, uint64_t *out_begin_s,
                         uint64_t *out_end_s) {
    const uint64_t today = now_s / DAY_S;
    /* From yesterday, which may not be over, to a week from today. */
    uint64_t day = time->days ? today - KILN_MIN(today, 1u) : time->day;
    const uint64_t last = time->days ? today + 7 : time->day;
    for (; day <= last; day++) {
        const uint64_t begin_s = day * DAY_S + time->begin_s, end_s = begin_s + time->length_s;
        if (!is_on(time, day) || end_s <= now_s) continue;
        *out_begin_s = begin_s;
        *out_end_s = end_s;
        return true;
    }
    return false;
}
