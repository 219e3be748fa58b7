#include "base/stats.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/macros.h"
#include "base/rand.h"

#define BOOTSTRAP_DRAWS 2000
#define BOOTSTRAP_SEED 1

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double *sorted_copy(const double *sample, size_t count) {
    KILN_CHECK(count > 0);
    double *copy = kiln_alloc(count * sizeof *copy);
    memcpy(copy, sample, count * sizeof *copy);
    qsort(copy, count, sizeof *copy, by_value);
    return copy;
}

static double sorted_median(const double *sorted, size_t count) {
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* Value at the nearest rank: the smallest with at least `share` of the samples at or below it. */
static double sorted_quantile(const double *sorted, size_t count, double share) {
    double rank = ceil(share * (double)count);
    size_t index = rank < 1 ? 0 : (size_t)rank - 1;
    return sorted[KILN_MIN(index, count - 1)];
}

/* Largest k with P(Binomial(count, share) < k) <= 2.5 %, so that the k-th smallest sample is below
 * the quantile with 97.5 % confidence. 0: too few samples for any such. */
static size_t interval_rank(size_t count, double share) {
    double below = 0;
    for (size_t k = 0; k < count; k++) {
        double log_ways =
            lgamma((double)count + 1) - lgamma((double)k + 1) - lgamma((double)(count - k) + 1);
        below += exp(log_ways + (double)k * log(share) + (double)(count - k) * log1p(-share));
        if (below > 0.025) return k;
    }
    return 0;
}

static void sorted_interval(const double *sorted, size_t count, double share, double *out_low,
                            double *out_high) {
    size_t low = interval_rank(count, share), high = interval_rank(count, 1 - share);
    *out_low = low ? sorted[low - 1] : sorted[0];
    *out_high = high ? sorted[count - high] : sorted[count - 1];
}

kiln_stats kiln_stats_of(const double *sample, size_t count) {
    double *sorted = sorted_copy(sample, count);
    kiln_stats stats = {.count = count, .minimum = sorted[0], .maximum = sorted[count - 1]};
    stats.median = sorted_median(sorted, count);
    stats.p95 = sorted_quantile(sorted, count, 0.95);
    sorted_interval(sorted, count, 0.5, &stats.low, &stats.high);
    for (size_t i = 0; i < count; i++) stats.mean += sorted[i] / (double)count;
    for (size_t i = 0; i < count; i++) sorted[i] = fabs(sorted[i] - stats.median);
    qsort(sorted, count, sizeof *sorted, by_value);
    stats.mad = sorted_median(sorted, count);
    kiln_free(sorted);
    return stats;
}

double kiln_stats_median(const double *sample, size_t count) {
    double *sorted = sorted_copy(sample, count);
    double median = sorted_median(sorted, count);
    kiln_free(sorted);
    return median;
}

double kiln_stats_quantile(const double *sample, size_t count, double share) {
    double *sorted = sorted_copy(sample, count);
    double value = sorted_quantile(sorted, count, share);
    kiln_free(sorted);
    return value;
}

void kiln_stats_quantile_interval(const double *sample, size_t count, double share, double *out_low,
                                  double *out_high) {
    double *sorted = sorted_copy(sample, count);
    sorted_interval(sorted, count, share, out_low, out_high);
    kiln_free(sorted);
}

double kiln_stats_geomean(const double *value, size_t count) {
    KILN_CHECK(count > 0);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        KILN_CHECK(value[i] > 0);
        sum += log(value[i]);
    }
    return exp(sum / (double)count);
}

void kiln_stats_ratio(const double *a, const double *b, size_t count, double *out_ratio,
                      double *out_low, double *out_high) {
    KILN_CHECK(count > 0);
    double *drawn_a = kiln_alloc(count * sizeof *drawn_a),
           *drawn_b = kiln_alloc(count * sizeof *drawn_b);
    double *ratio = kiln_alloc(BOOTSTRAP_DRAWS * sizeof *ratio);
    kiln_rand r;
    kiln_rand_init(&r, BOOTSTRAP_SEED);
    for (size_t draw = 0; draw < BOOTSTRAP_DRAWS; draw++) {
        for (size_t i = 0; i < count;
             i++) { /* pairs stay together, because they were taken at the same moment */
            size_t pair = (size_t)kiln_rand_below(&r, count);
            drawn_a[i] = a[pair];
            drawn_b[i] = b[pair];
        }
        qsort(drawn_a, count, sizeof *drawn_a, by_value);
        qsort(drawn_b, count, sizeof *drawn_b, by_value);
        ratio[draw] = sorted_median(drawn_a, count) / sorted_median(drawn_b, count);
    }
    qsort(ratio, BOOTSTRAP_DRAWS, sizeof *ratio, by_value);
    *out_ratio = kiln_stats_median(a, count) / kiln_stats_median(b, count);
    *out_low = sorted_quantile(ratio, BOOTSTRAP_DRAWS, 0.025);
    *out_high = sorted_quantile(ratio, BOOTSTRAP_DRAWS, 0.975);
    kiln_free(drawn_a);
    kiln_free(drawn_b);
    kiln_free(ratio);
}

void kiln_print_time(double ns, kiln_strbuf *out) {
    if (ns >= 1e9)
        kiln_strbuf_printf(out, "%.3g s", ns / 1e9);
    else if (ns >= 1e6)
        kiln_strbuf_printf(out, "%.3g ms", ns / 1e6);
    else if (ns >= 1e3)
        kiln_strbuf_printf(out, "%.3g us", ns / 1e3);
    else
        kiln_strbuf_printf(out, "%.3g ns", ns);
}
