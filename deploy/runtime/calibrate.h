/* Measures what base/figures.def lists of the processor that the calling thread runs on. Callers:
 * `kiln doctor --calibrate`, and rpc-servers at their first start.
 *
 * Two halves: `measure` runs short kernels in turns and writes down times; `settle`, which is pure,
 * makes figures of them. The least time of several rounds counts, as neighbours only slow down. A
 * figure that few rounds come near to, or that no processor can have, is left out, and why is told:
 * then the table's holds. Figures are rounded to what processors have (halves of instructions per
 * cycle, whole cycles), so that the same processor gives the same schedules again. */
#ifndef KILN_DEPLOY_CALIBRATE_H
#define KILN_DEPLOY_CALIBRATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/figures.h"

/* Raised when figures of an earlier version should be measured anew. */
#define KILN_CALIBRATE_VERSION 1u
#define KILN_CALIBRATE_ROUNDS 40u
#define KILN_CALIBRATE_POINTS 48u /* sizes of memory whose latency is measured */

typedef enum kiln_calibrate_doubt {
    KILN_CALIBRATE_SURE,
    KILN_CALIBRATE_ABSENT,   /* nothing was measured: this processor has no such instruction, or the
                                time was over */
    KILN_CALIBRATE_SCATTERS, /* too few rounds agree with the least */
    KILN_CALIBRATE_DISPUTED, /* the system tells another size */
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
    double told_bytes[3]; /* sizes of the three caches as the system tells them; 0: it does not */
} kiln_calibrate_readings;

typedef struct kiln_calibrate_report {
    kiln_figures calibration;
    kiln_calibrate_doubt doubt[KILN_FIGURE_COUNT];
} kiln_calibrate_report;

/* Sizes and latencies from the curve: a cache ends where the latency has risen halfway to that of
 * the next one. Disturbances only add to latencies, so that none counts for more than that of a
 * larger size. */
void kiln_calibrate_find_caches(const kiln_calibrate_readings *readings, double hz,
                                kiln_figures *out);
kiln_calibrate_report kiln_calibrate_settle(const kiln_calibrate_readings *readings);

/* Takes about a second, at most three, and up to 256 MiB. Holds to KILN_NATIVE (base/target.h).
 * Says nothing that is worth keeping under an emulator. */
kiln_calibrate_readings kiln_calibrate_measure(void);
kiln_calibrate_report kiln_calibrate_core(void);

#endif
