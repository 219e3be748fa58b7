/* Statistics of timings: medians with order-statistic intervals (Hoefler and Belli, SC'15). */
#ifndef KILN_BASE_STATS_H
#define KILN_BASE_STATS_H

#include <stddef.h>

#include "base/str.h"

typedef struct kiln_stats {
    double median, minimum, maximum, mean;
    double mad;       /* median absolute deviation */
    double low, high; /* 95 % confidence interval of the median */
    double p95;
    size_t count;
} kiln_stats;

/* `sample`: [count], any order, not changed; count >= 1. */
kiln_stats kiln_stats_of(const double *sample, size_t count);
double kiln_stats_median(const double *sample, size_t count);
/* The smallest value that at least `share` of the samples are at or below; 0 < share <= 1. */
double kiln_stats_quantile(const double *sample, size_t count, double share);
/* 95 % interval of that quantile, or as wide as few samples allow. */
void kiln_stats_quantile_interval(const double *sample, size_t count, double share, double *out_low,
                                  double *out_high);
double kiln_stats_geomean(const double *value, size_t count); /* values > 0 */
/* 95 % interval of median(a)/median(b) from paired, interleaved samples: [count] each (bootstrap
 * with a fixed seed). */
void kiln_stats_ratio(const double *a, const double *b, size_t count, double *out_ratio,
                      double *out_low, double *out_high);
/* A time with three significant digits: "1.23 ms", "45.6 us". */
void kiln_print_time(double ns, kiln_strbuf *out);

#endif
