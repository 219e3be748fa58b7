#include "rpc-server/drift.h"

#include <math.h>

#include "base/check.h"
#include "base/macros.h"
#include "base/stats.h"

double kiln_drift_take(kiln_drift *drift, double speed) {
    KILN_CHECK(speed > 0);
    drift->reading[drift->count++ % KILN_DRIFT_WINDOW] = speed;
    uint32_t known = KILN_MIN(drift->count, KILN_DRIFT_WINDOW);
    return known < KILN_DRIFT_KNOWN ? 0 : kiln_stats_median(drift->reading, known) / speed;
}

bool kiln_drift_is_out(double ratio, const kiln_msg_env *before, const kiln_msg_env *after) {
    if (before->throttle_bits || after->throttle_bits) return true;
    if (before->throttle_count != after->throttle_count) return true;
    return ratio > 0 && fabs(ratio - 1) > KILN_DRIFT_BAND;
}
