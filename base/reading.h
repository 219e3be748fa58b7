/* What samples say: the one figure that searches, records and people go by, derived from raw
 * samples, and how far it can be trusted. Pure.
 *
 * Neighbours slow a kernel down and never make it faster, some for less than a sample, which
 * nothing but the sample itself shows. So the figure is the median of the faster half of the
 * samples (their lower quartile): between processes it scatters half as much as the median of all.
 * It is a time that was seen: nothing is taken off it, and it is never below the least sample.
 *
 * How fast the board was is told by a reference kernel of two parts
 * (rpc-server/reference_kernel.h), each as its time over what it usually takes. A kernel that
 * reaches the share s of the arithmetic peak (its roofline) is bound by arithmetic for s of its
 * time and at most by memory for the rest, so the board may have changed it by
 *
 *     log time = log usual time + s * log arithmetic + (1 - s) * log memory
 *
 * Figures are not corrected by it: a trial whose samples were all taken at one speed of the board
 * cannot tell whether its kernel follows that speed, and where the speed changed during the trial
 * the faster half of its samples has followed already. But two figures are compared as if they were
 * taken at the same speed, as far as kernels follow: with exponents of 0.68 to 0.97 of a clock that
 * moved by 0.05 (convolutions, s = 0.9, Sapphire Rapids class); on a processor whose third level of
 * cache others use, a product of one row (s = 0.14) followed the memory part with 0.87,
 * convolutions of s = 0.93 and 0.85 with 0.07 and 0.14.
 *
 * Neighbours stay for longer than a trial as well as for shorter, so that what they do to a part of
 * its samples they may have done to all. How far processes differ is therefore taken from the trial
 * itself: the standard deviation is KILN_READING_PROCESS_SHARE of the way from its least sample to
 * its median, times the tries that a sample took, for where much was seen to be disturbed, much was
 * not seen. A quiet board is sure of itself, one that others use doubts as much as they disturb it.
 */
#ifndef KILN_BASE_READING_H
#define KILN_BASE_READING_H

#include <stdbool.h>
#include <stddef.h>

/* What is left between processes that measure the same kernel on an undisturbed board (standard
 * deviation of the logarithm): 0.008 on a Zen 3 class machine; 0.012 to 0.014 on a Sapphire Rapids
 * class one, whose clock others move. */
#define KILN_READING_QUIET_SPREAD 0.013
/* The same between samples in turns in one process, where only code and buffers lie elsewhere. */
#define KILN_READING_PLACE_SPREAD 0.008
/* Share of the difference between two speeds of the board that kernels may not have followed. */
#define KILN_READING_FOLLOW_DOUBT 0.5
/* As above. Of pairs of identical artefacts, on processors that others used half and two thirds of
 * the time, 2 and 6 % are further apart than that says; with 0.25 1 and 5 %, with 0.125 4 and 8 %.
 */
#define KILN_READING_PROCESS_SHARE 0.2

/* Times of the reference kernel's parts over what they usually take; above 1: slower than usual;
 * 0: unknown. */
typedef struct kiln_drift_ratio {
    double arithmetic, memory;
} kiln_drift_ratio;

typedef struct kiln_samples {
    const double *ns; /* [count], each the time of one run */
    size_t count;     /* at least 1 */
    size_t again;     /* others that were taken on a disturbed board and are not among these */
    kiln_drift_ratio drift;
    double flops;      /* of one run; 0: none, all its time may be memory's */
    double peak_flops; /* per second, of all cores it used; 0: unknown, as above */
} kiln_samples;

typedef struct kiln_reading {
    double time_ns;  /* of one run */
    double least_ns; /* of all samples; at most time_ns */
    double slower;   /* log of what the board's drift may have made of the time; above 0: longer */
    /* Half the 95 % interval of log(time_ns) at that speed of the board: of the samples, and of
     * what differs between processes. */
    double doubt;
} kiln_reading;

/* The figure of a measurement and how far it can be trusted, of its raw samples. */
kiln_reading kiln_reading_of(const kiln_samples *samples);
/* Whether the kernels behind two readings take different times at one speed of the board, as far as
 * these can tell. */
bool kiln_reading_differs(const kiln_reading *a, const kiln_reading *b);
/* Lower end of the 95 % interval of how many times faster a kernel is, from `gain` [count]: the
 * other's time over its own, of samples that were taken in turns in one process. */
double kiln_reading_gain_low(const double *gain, size_t count);

#endif
