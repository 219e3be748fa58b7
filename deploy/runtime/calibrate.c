#include "deploy/runtime/calibrate.h"

#include <math.h>

#include "base/check.h"
#include "base/macros.h"

/* Required number of rounds within the figure's `spread` of the minimum, itself included. */
#define AGREEING 3
/* Times inside a core repeat well; resources that cores share are disturbed by others. */
#define SPREAD_CORE 0.08
#define SPREAD_SHARED 0.3
/* Between the latencies of two levels of caches, which differ by a factor of two or more. */
#define STEP_RATIO 1.6
/* Size over a cache's size at which the latency is that of the next one. */
#define BEYOND_RATIO 2.0

/* Pages that share sets of a cache make its size uncertain by a quarter. */
#define TOLD_NEAR 0.3
#define SPREAD_SHORT 0.15 /* of loops whose times depend on their address */

/* How a figure is computed from work and time. */
typedef enum shape {
    NO_TIMES, /* sizes and latencies, from the latency curve */
    HERTZ,
    PER_CYCLE, /* work over cycles */
    CYCLES,    /* cycles over work */
} shape;
typedef enum rounding {
    DIGITS, /* two of them; four of clocks */
    HALVES, /* to halves, if one is near */
    WHOLE,
} rounding;

static const struct figure_rule {
    shape shape;
    rounding rounding;
    double spread;
} rule_table[KILN_FIGURE_COUNT] = {
    [KILN_FIGURE_CLOCK] = {HERTZ, DIGITS, SPREAD_CORE},
    [KILN_FIGURE_WIDE_CLOCK] = {HERTZ, DIGITS, SPREAD_CORE},
    [KILN_FIGURE_VECTOR] = {PER_CYCLE, HALVES, SPREAD_CORE},
    [KILN_FIGURE_LATENCY] = {CYCLES, WHOLE, SPREAD_CORE},
    [KILN_FIGURE_LOADS] = {PER_CYCLE, HALVES, SPREAD_CORE},
    [KILN_FIGURE_STORES] = {PER_CYCLE, HALVES, SPREAD_CORE},
    [KILN_FIGURE_FORWARD] = {CYCLES, WHOLE, SPREAD_CORE},
    [KILN_FIGURE_ISSUE] = {PER_CYCLE, HALVES, SPREAD_CORE},
    [KILN_FIGURE_DIVIDE] = {CYCLES, DIGITS, SPREAD_SHORT},
    [KILN_FIGURE_GATHER] = {CYCLES, DIGITS, SPREAD_SHORT},
    [KILN_FIGURE_CONVERT_F16] = {CYCLES, DIGITS, SPREAD_SHORT},
    [KILN_FIGURE_CONVERT_BF16] = {CYCLES, DIGITS, SPREAD_SHORT},
    [KILN_FIGURE_CONVERT_I8] = {CYCLES, DIGITS, SPREAD_SHORT},
    [KILN_FIGURE_DOT] = {CYCLES, DIGITS, SPREAD_SHORT},
    [KILN_FIGURE_L1_RATE] = {PER_CYCLE, DIGITS, SPREAD_SHORT},
    [KILN_FIGURE_L2_RATE] = {PER_CYCLE, DIGITS, SPREAD_SHARED},
    [KILN_FIGURE_L3_RATE] = {PER_CYCLE, DIGITS, SPREAD_SHARED},
    [KILN_FIGURE_MEMORY_RATE] = {PER_CYCLE, DIGITS, SPREAD_SHARED},
    [KILN_FIGURE_FORK] = {CYCLES, DIGITS, SPREAD_SHARED},
};

const char *kiln_calibrate_doubt_text(kiln_calibrate_doubt doubt) {
    switch (doubt) {
    case KILN_CALIBRATE_SURE: return "";
    case KILN_CALIBRATE_ABSENT: return "not measured";
    case KILN_CALIBRATE_SCATTERS: return "left out: the readings scatter";
    case KILN_CALIBRATE_DISPUTED: return "left out: the system reports another size";
    case KILN_CALIBRATE_IMPLAUSIBLE: return "left out: implausible for any processor";
    }
    return "";
}

static double in_digits(double value, int digits) {
    const double unit = pow(10, floor(log10(value)) - digits + 1);
    return round(value / unit) * unit;
}

static double rounded(double value, const struct figure_rule *rule) {
    if (!(value > 0) || !isfinite(value)) return value;
    if (rule->rounding == WHOLE) return round(value);
    const double half = round(value * 2) / 2;
    if (rule->rounding == HALVES && half > 0 && fabs(value / half - 1) < 0.1) return half;
    return in_digits(value, rule->shape == HERTZ ? 4 : 2);
}

/* Whether enough rounds are near the minimum. */
static bool agree(const kiln_calibrate_times *t, double spread, double *out_least_ns) {
    double least = INFINITY;
    uint32_t near = 0;
    for (uint32_t i = 0; i < t->count; i++) least = fmin(least, t->ns[i]);
    for (uint32_t i = 0; i < t->count; i++) near += t->ns[i] <= least * (1 + spread);
    *out_least_ns = least;
    return near >= AGREEING;
}

/* `hz`: of the clock that the kernel ran at. */
static kiln_calibrate_doubt settle_times(const kiln_calibrate_times *t, kiln_figure figure,
                                         double hz, double *out) {
    const struct figure_rule *rule = &rule_table[figure];
    double ns = 0;
    if (t->count == 0 || (rule->shape != HERTZ && !(hz > 0))) return KILN_CALIBRATE_ABSENT;
    if (!agree(t, rule->spread, &ns)) return KILN_CALIBRATE_SCATTERS;
    const double cycles = ns * hz * 1e-9;
    *out = rounded(rule->shape == HERTZ       ? t->work / ns * 1e9
                   : rule->shape == PER_CYCLE ? t->work / cycles
                                              : cycles / t->work,
                   rule);
    return KILN_CALIBRATE_SURE;
}

/* ---- caches ---------------------------------------------------------------------------------- */

enum { LEVELS = 3 };
static const kiln_figure cache_size[LEVELS] = {KILN_FIGURE_L1_BYTES, KILN_FIGURE_L2_BYTES,
                                               KILN_FIGURE_L3_BYTES};

/* Latency of a point: no larger one is faster. */
static double ns_of(const kiln_calibrate_readings *r, uint32_t at) {
    double ns = r->point_ns[at];
    while (++at < r->point_count) ns = fmin(ns, r->point_ns[at]);
    return ns;
}

/* First point from `from` whose latency is above `ns`; the count where none is. */
static uint32_t find_above(const kiln_calibrate_readings *r, uint32_t from, double ns) {
    while (from < r->point_count && ns_of(r, from) <= ns) from++;
    return from;
}

/* First point of at least so many bytes. */
static uint32_t find_size(const kiln_calibrate_readings *r, double bytes) {
    uint32_t at = 0;
    while (at < r->point_count && r->point_bytes[at] < bytes) at++;
    return at;
}

void kiln_calibrate_find_caches(const kiln_calibrate_readings *r, double hz, kiln_figures *out) {
    static const kiln_figure latency[LEVELS] = {KILN_FIGURE_L1_LATENCY, KILN_FIGURE_L2_LATENCY,
                                                KILN_FIGURE_L3_LATENCY};
    uint32_t at = 0; /* point with the latency of the level */
    for (uint32_t level = 0; level < LEVELS && at < r->point_count; level++) {
        const double ns = ns_of(r, at);
        uint32_t end = find_above(r, at, ns * STEP_RATIO);
        if (end == r->point_count) return; /* the last level found may be memory */
        /* Other cores use the last cache, too, so its end is gradual: the last point shows
         * memory. */
        const uint32_t next = level + 1 == LEVELS
                                  ? r->point_count - 1
                                  : find_size(r, r->point_bytes[end] * BEYOND_RATIO);
        if (next >= r->point_count) return;
        end = find_above(r, at, sqrt(ns * ns_of(r, next)));
        if (end == r->point_count) return;
        out->figure[cache_size[level]] = r->point_bytes[end - 1];
        out->figure[latency[level]] = round(ns * hz * 1e-9);
        out->figure[KILN_FIGURE_MEMORY_LATENCY] =
            in_digits(r->point_ns[r->point_count - 1] * hz * 1e-9, 2);
        at = next;
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool is_of_the_core(kiln_figure figure) {
    return rule_table[figure].shape != HERTZ && figure != KILN_FIGURE_FORK;
}

/* The system's size is taken where it is close to the measured one. Otherwise none is taken: caches
 * that a virtual machine shares are reported whole and measured smaller, depending on the load of
 * others. */
static void compare_sizes(const kiln_calibrate_readings *r, kiln_calibrate_report *report) {
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(cache_size); i++) {
        double *size = &report->calibration.figure[cache_size[i]];
        const double told = r->told_bytes[i];
        if (!(told > 0) || *size == 0) continue;
        const bool near = fabs(*size / told - 1) < TOLD_NEAR;
        *size = near ? told : 0;
        if (!near) report->doubt[cache_size[i]] = KILN_CALIBRATE_DISPUTED;
    }
}

/* Drops figures that no processor can have, so that the table's are used. */
static void drop_implausible(kiln_calibrate_report *report) {
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++) {
        kiln_figures alone = {0};
        alone.figure[i] = report->calibration.figure[i];
        if (kiln_figures_is_plausible(&alone)) continue;
        report->calibration.figure[i] = 0;
        report->doubt[i] = KILN_CALIBRATE_IMPLAUSIBLE;
    }
    KILN_CHECK(kiln_figures_is_plausible(&report->calibration));
}

kiln_calibrate_report kiln_calibrate_settle(const kiln_calibrate_readings *r) {
    kiln_calibrate_report report = {0};
    double *figure = report.calibration.figure;
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++)
        if (rule_table[i].shape == HERTZ)
            report.doubt[i] = settle_times(&r->of[i], (kiln_figure)i, 0, &figure[i]);
    const double hz = figure[KILN_FIGURE_CLOCK];
    const double wide_hz = figure[KILN_FIGURE_WIDE_CLOCK] > 0 ? figure[KILN_FIGURE_WIDE_CLOCK] : hz;
    if (hz > 0) kiln_calibrate_find_caches(r, hz, &report.calibration);
    for (uint32_t i = 0; i < KILN_FIGURE_COUNT; i++) {
        if (rule_table[i].shape == HERTZ) continue;
        if (rule_table[i].shape == NO_TIMES)
            report.doubt[i] = figure[i] > 0 ? KILN_CALIBRATE_SURE : KILN_CALIBRATE_ABSENT;
        else
            report.doubt[i] =
                settle_times(&r->of[i], (kiln_figure)i,
                             is_of_the_core((kiln_figure)i) ? wide_hz : hz, &figure[i]);
    }
    compare_sizes(r, &report);
    drop_implausible(&report);
    return report;
}

kiln_calibrate_report kiln_calibrate_core(void) {
    const kiln_calibrate_readings readings = kiln_calibrate_measure();
    return kiln_calibrate_settle(&readings);
}
