#include "base/reading.h"

#include <math.h>

#include "base/check.h"
#include "base/macros.h"
#include "base/stats.h"

/* Standard deviations to either side: Student's, for spreads estimated from about twenty readings.
 */
#define SIDE_95 2.1
#define FASTER_HALF 0.25 /* its median is this quantile of all */

/* Of a part that may be unknown. */
static double log_ratio(double ratio) { return ratio > 0 ? log(ratio) : 0; }

/* How much of the kernel's time its arithmetic takes at least. */
static double share_of_peak(const kiln_samples *samples, double time_ns) {
    if (!(samples->peak_flops > 0)) return 0;
    return KILN_MIN(samples->flops / (samples->peak_flops * time_ns * 1e-9), 1);
}

/* Half the interval of the samples' quartile, divided by the quartile. */
static double doubt_of_samples(const kiln_samples *samples, double quartile_ns) {
    double low_ns = 0, high_ns = 0;
    kiln_stats_quantile_interval(samples->ns, samples->count, FASTER_HALF, &low_ns, &high_ns);
    return (high_ns - low_ns) / 2 / quartile_ns;
}

/* The 97.5 % quantile of Student's distribution (Cornish and Fisher's expansion). */
static double student_side(size_t freedom) {
    const double f = (double)freedom;
    return 1.96 + 2.372 / f + 2.823 / (f * f);
}

/* Half the interval of the difference between processes, divided by the figure. */
static double doubt_of_process(const kiln_samples *samples, double least_ns) {
    if (samples->count < 2 || !(least_ns > 0))
        return INFINITY; /* a single sample shows no spread */
    const double median_ns = kiln_stats_median(samples->ns, samples->count);
    const double tries = (double)(samples->count + samples->again) / (double)samples->count;
    const double spread = KILN_READING_PROCESS_SHARE * log(median_ns / least_ns) * tries;
    return hypot(SIDE_95 * KILN_READING_QUIET_SPREAD, student_side(samples->count - 1) * spread);
}

static double slower_by_drift(const kiln_samples *samples, double time_ns) {
    const double share = share_of_peak(samples, time_ns);
    return share * log_ratio(samples->drift.arithmetic) +
           (1 - share) * log_ratio(samples->drift.memory);
}

kiln_reading kiln_reading_of(const kiln_samples *samples) {
    KILN_CHECK(samples->count >= 1);
    const double time_ns = kiln_stats_quantile(samples->ns, samples->count, FASTER_HALF);
    kiln_reading reading = {.time_ns = time_ns,
                            .least_ns = kiln_stats_of(samples->ns, samples->count).minimum,
                            .doubt = INFINITY};
    if (!(time_ns > 0)) return reading;
    reading.slower = slower_by_drift(samples, time_ns);
    reading.doubt =
        hypot(doubt_of_samples(samples, time_ns), doubt_of_process(samples, reading.least_ns));
    return reading;
}

bool kiln_reading_differs(const kiln_reading *a, const kiln_reading *b) {
    if (!(a->time_ns > 0) || !(b->time_ns > 0)) return false;
    const double speeds = a->slower - b->slower;
    return fabs(log(a->time_ns / b->time_ns) - speeds) >
           hypot(hypot(a->doubt, b->doubt), KILN_READING_FOLLOW_DOUBT * speeds);
}

/* Drift affects both of a pair, but places of code and buffers differ. */
double kiln_reading_gain_low(const double *gain, size_t count) {
    const kiln_stats stats = kiln_stats_of(gain, count);
    if (!(stats.low > 0)) return 0;
    return stats.median *
           exp(-hypot(log(stats.median / stats.low), SIDE_95 * KILN_READING_PLACE_SPREAD));
}
