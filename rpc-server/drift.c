#include "rpc-server/drift.h"

#include "base/check.h"
#include "base/macros.h"
#include "base/stats.h"

void kiln_drift_take(kiln_drift *drift, const kiln_pace *pace) {
    KILN_CHECK(pace->arithmetic_ns > 0);
    KILN_CHECK(pace->memory_ns > 0);
    drift->reading[drift->count++ % KILN_DRIFT_WINDOW] = *pace;
}

kiln_pace kiln_drift_usual(const kiln_drift *drift) {
    double arithmetic[KILN_DRIFT_WINDOW], memory[KILN_DRIFT_WINDOW];
    const uint32_t known = KILN_MIN(drift->count, KILN_DRIFT_WINDOW);
    if (known < KILN_DRIFT_KNOWN) return (kiln_pace){0};
    for (uint32_t i = 0; i < known; i++) {
        arithmetic[i] = drift->reading[i].arithmetic_ns;
        memory[i] = drift->reading[i].memory_ns;
    }
    return (kiln_pace){kiln_stats_quantile(arithmetic, known, 1.0 / KILN_DRIFT_FASTER),
                       kiln_stats_quantile(memory, known, 1.0 / KILN_DRIFT_FASTER)};
}

static double over(double now_ns, double usual_ns) { return usual_ns > 0 ? now_ns / usual_ns : 0; }

kiln_drift_ratio kiln_drift_ratio_of(const kiln_pace *pace, const kiln_pace *usual) {
    return (kiln_drift_ratio){over(pace->arithmetic_ns, usual->arithmetic_ns),
                              over(pace->memory_ns, usual->memory_ns)};
}

bool kiln_drift_is_out(const kiln_drift_ratio *ratio, const kiln_msg_env *before,
                       const kiln_msg_env *after) {
    if (before->throttle_bits || after->throttle_bits) return true;
    if (before->throttle_count != after->throttle_count) return true;
    return kiln_reading_is_out(ratio);
}
