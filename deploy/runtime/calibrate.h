/* Measures the figures in base/figures.def for the processor of the calling thread. Callers: `kiln
 * doctor --calibrate`, and rpc-servers at their first start.
 *
 * Two halves: `measure` runs short kernels in turns and records times; `settle`, which is pure,
 * computes figures from them. The minimum of several rounds counts, as other programs only slow
 * down. A figure near which there are few rounds, or that no processor can have, is left out with a
 * reason: then the table's is used. Figures are rounded to values that processors have (halves of
 * instructions per cycle, whole cycles), so that the same processor always gives the same
 * schedules. */
#ifndef KILN_DEPLOY_CALIBRATE_H
#define KILN_DEPLOY_CALIBRATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/figures.h"

/* Raised when figures of earlier versions must be measured again. */
#define KILN_CALIBRATE_VERSION 1u
#define KILN_CALIBRATE_ROUNDS 40u
#define KILN_CALIBRATE_POINTS 48u /* sizes of memory whose latency is measured */

typedef enum kiln_calibrate_doubt {
    KILN_CALIBRATE_SURE,
    KILN_CALIBRATE_ABSENT,      /* not measured: this processor has no such instruction, or the time
                                 * limit was reached */
    KILN_CALIBRATE_SCATTERS,    /* too few rounds agree with the minimum */
    KILN_CALIBRATE_DISPUTED,    /* the system reports another size */
    KILN_CALIBRATE_IMPLAUSIBLE, /* outside of its bounds in figures.def */
} kiln_calibrate_doubt;

/* "" for SURE. */
const char *kiln_calibrate_doubt_text(kiln_calibrate_doubt doubt);

/* Times of one kernel. */
typedef struct kiln_calibrate_times {
    double work; /* of one round: instructions, vectors, elements, bytes; additions of the clocks */
    uint32_t count;
    double ns[KILN_CALIBRATE_ROUNDS]; /* [count] */
} kiln_calibrate_times;

typedef struct kiln_calibrate_readings {
    kiln_calibrate_times of[KILN_FIGURE_COUNT]; /* sizes and latencies of caches: none */
    /* Latency by size: [point_count], ascending. */
    uint32_t point_count;
    double point_bytes[KILN_CALIBRATE_POINTS], point_ns[KILN_CALIBRATE_POINTS];
    double told_bytes[3]; /* sizes of the three caches as the system reports them; 0: unknown */
} kiln_calibrate_readings;

typedef struct kiln_calibrate_report {
    kiln_figures calibration;
    kiln_calibrate_doubt doubt[KILN_FIGURE_COUNT];
} kiln_calibrate_report;

/* Sizes and latencies from the curve: a cache ends where the latency has risen halfway to that of
 * the next one. Disturbances only add to latencies, so each is limited to the latency of larger
 * sizes. */
void kiln_calibrate_find_caches(const kiln_calibrate_readings *readings, double hz,
                                kiln_figures *out);
kiln_calibrate_report kiln_calibrate_settle(const kiln_calibrate_readings *readings);

/* Takes about a second, at most three, and up to 256 MiB. Obeys KILN_NATIVE (base/target.h). The
 * result is useless under an emulator. */
kiln_calibrate_readings kiln_calibrate_measure(void);
kiln_calibrate_report kiln_calibrate_core(void);

#endif
