/* Derives from raw samples the one figure that searches, records and users compare, and its
 * uncertainty. Pure.
 *
 * Neighbours slow a kernel down and never make it faster, some for less than a sample, so that only
 * the sample shows it. So the figure is the median of the faster half of the samples (their lower
 * quartile): between processes it scatters half as much as the median of all. It is a measured
 * time, never corrected and never below the least sample.
 *
 * A reference kernel of two parts shows how fast the board was (rpc-server/reference_kernel.h):
 * each part's time divided by its usual time. A kernel that reaches the share s of the arithmetic
 * peak (its roofline) is bound by arithmetic for s of its time and at most by memory for the rest,
 * so the board may have changed it by
 *
 *     log time = log usual time + s * log arithmetic + (1 - s) * log memory
 *
 * Figures are not corrected by it: if all samples of a trial were taken at one speed of the board,
 * the trial does not show whether its kernel follows that speed; if the speed changed during the
 * trial, the faster half of the samples already follows it. But two figures are compared as if
 * taken at the same speed, to the degree that kernels follow it: with exponents of 0.68 to 0.97 of
 * a clock that moved by 0.05 (convolutions, s = 0.9, Sapphire Rapids class); on a processor whose
 * third level of cache others use, a product of one row (s = 0.14) followed the memory part with
 * 0.87, convolutions of s = 0.93 and 0.85 with 0.07 and 0.14.
 *
 * Some neighbours stay longer than a trial, so a disturbance of some samples may have affected all
 * of them. The difference between processes is therefore estimated from the trial itself: its
 * standard deviation is KILN_READING_PROCESS_SHARE of the way from the least sample to the median,
 * times the tries per sample, because many noticed disturbances mean that others went unnoticed. So
 * figures of a quiet board are certain, and those of a busy board are as uncertain as it is
 * disturbed. */
#ifndef KILN_BASE_READING_H
#define KILN_BASE_READING_H

#include <stdbool.h>
#include <stddef.h>

/* Difference between processes that measure the same kernel on an undisturbed board (standard
 * deviation of the logarithm): 0.008 on a Zen 3 class machine; 0.012 to 0.014 on a Sapphire Rapids
 * class one, whose clock depends on neighbours. */
#define KILN_READING_QUIET_SPREAD 0.013
/* The same between samples taken in turns in one process, where only places of code and buffers
 * differ. */
#define KILN_READING_PLACE_SPREAD 0.008
/* Share of the difference between two speeds of the board that kernels may not follow. */
#define KILN_READING_FOLLOW_DOUBT 0.5
/* As above. Of pairs of identical artefacts, on processors that others used half and two thirds of
 * the time, 2 and 6 % are further apart than that says; with 0.25 1 and 5 %, with 0.125 4 and 8 %.
 */
#define KILN_READING_PROCESS_SHARE 0.2

/* Times of the reference kernel's parts divided by their usual times; above 1: slower than usual;
 * 0: unknown. */
typedef struct kiln_drift_ratio {
    double arithmetic, memory;
} kiln_drift_ratio;

/* A board reports at most this; a record that says more is not believed (db/plausible.h). */
#define KILN_DRIFT_RATIO_MAX 100.0

typedef struct kiln_samples {
    const double *ns; /* [count], each the time of one run */
    size_t count;     /* at least 1 */
    size_t again;     /* samples that were repeated because the board was disturbed */
    kiln_drift_ratio drift;
    double flops;      /* of one run; 0: none, it may be bound by memory alone */
    double peak_flops; /* per second, of all cores it used; 0: unknown, as above */
} kiln_samples;

typedef struct kiln_reading {
    double time_ns;  /* of one run */
    double least_ns; /* of all samples; at most time_ns */
    double slower;   /* log of the drift's possible effect on the time; above 0: longer */
    /* Half the 95 % interval of log(time_ns) at that speed of the board, for scatter of samples and
     * differences between processes. */
    double doubt;
} kiln_reading;

/* The figure of a measurement and its uncertainty. */
kiln_reading kiln_reading_of(const kiln_samples *samples);
/* Whether two readings show that their kernels take different times at the same speed of the board.
 */
bool kiln_reading_differs(const kiln_reading *a, const kiln_reading *b);
/* Lower end of the 95 % interval of how many times faster a kernel is, from `gain` [count]: the
 * other's time over its own, of samples that were taken in turns in one process. */
double kiln_reading_gain_low(const double *gain, size_t count);

#endif
