/* Days, as keys expire on them; see proto/keys.h. */
#include <time.h>

#include "base/clock.h"
#include "base/macros.h"
#include "proto/keys.h"

#define SECONDS_OF_DAY 86400

bool kiln_day_parse(kiln_str text, uint32_t *out_day) {
    uint64_t year = 0, month = 0, day = 0;
    char again[KILN_DAY_TEXT];
    if (!kiln_str_to_u64(kiln_str_slice(text, 0, 4), &year) ||
        !kiln_str_to_u64(kiln_str_slice(text, 5, 7), &month) ||
        !kiln_str_to_u64(kiln_str_slice(text, 8, 10), &day) || year < 1970)
        return false;
    struct tm utc = {.tm_year = (int)year - 1900, .tm_mon = (int)month - 1, .tm_mday = (int)day};
    uint32_t found = (uint32_t)(timegm(&utc) / SECONDS_OF_DAY);
    kiln_day_print(found, again); /* other than the text without dashes, or a 30th of February */
    if (found == 0 || !kiln_str_is(text, again)) return false;
    *out_day = found;
    return true;
}

void kiln_day_print(uint32_t day, char out_text[KILN_DAY_TEXT]) {
    time_t seconds = (time_t)KILN_MIN(day, KILN_DAY_MAX) * SECONDS_OF_DAY;
    struct tm utc;
    gmtime_r(&seconds, &utc);
    kiln_strbuf text = {0};
    kiln_strbuf_printf(&text, "%04d-%02d-%02d", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
    memcpy(out_text, text.data, KILN_DAY_TEXT);
    kiln_strbuf_deinit(&text);
}

uint32_t kiln_day_of(uint64_t wall_ns) {
    return (uint32_t)(wall_ns / KILN_NS_PER_S / SECONDS_OF_DAY);
}
