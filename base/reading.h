/* What samples say: the one figure that searches, records and people go by, derived from raw
 * samples and from how fast the board was meanwhile, and how far it can be trusted. Pure.
 *
 * Neighbours slow a kernel down and never make it faster, some for less than a sample, which
 * nothing but the sample itself shows. So the figure is the median of the faster half of the
 * samples (their lower quartile): between processes it scatters half as much as the median of all.
 *
 * How fast the board was is told by a reference kernel of two parts (rpc-server/pace.h), each as
 * its time over what it usually takes. A kernel that reaches the share s of the arithmetic peak
 * (its roofline) is bound by arithmetic for s of its time and at most by memory for the rest:
 *
 *     log time = log usual time + s * log arithmetic + (1 - s) * log memory
 *
 * (log t = kernel + board + drift, with the drift split along the roofline). Measured on a virtual
 * processor whose third level of cache others use as well: a product of one row (s = 0.14) follows
 * the memory part with an exponent of 0.87, convolutions of s = 0.93 and 0.85 with 0.07 and 0.14.
 *
 * Neighbours stay for longer than a trial as well as for shorter, so that what they do to a part of
 * its samples they may have done to all. How far processes differ is therefore taken from the trial
 * itself: the standard deviation is KILN_READING_PROCESS_SHARE of the way from its least sample to
 * its median, times the tries that a sample took, for where much was seen to be disturbed, much was
 * not seen. A quiet board is sure of itself, one that others use doubts as much as they disturb it.
 *
 * Beyond the band nobody knows what slowed the kernel down: a neighbour on the other thread of the
 * same core makes the arithmetic part 1.5 times as long, and kernels 1.25 to 1.6 times. Such
 * readings are marked, and corrected no further than to the edge of the band. */
#ifndef KILN_BASE_READING_H
#define KILN_BASE_READING_H

#include <stdbool.h>
#include <stddef.h>

/* The parts stay within these in undisturbed moments: 0.02 and 0.25 of their usual time (95 % of
 * readings, the same processor). */
#define KILN_READING_ARITHMETIC_BAND 0.05
#define KILN_READING_MEMORY_BAND 0.25
/* What is left between processes that measure the same kernel on an undisturbed board (standard
 * deviation of the logarithm; where code and buffers lie). */
#define KILN_READING_QUIET_SPREAD 0.008
/* As above. Of pairs of identical artefacts, on processors that others used half and two thirds of
 * the time, 2 and 6 % are further apart than that says; with 0.25 1 and 5 %, with 0.125 4 and 8 %.
 */
#define KILN_READING_PROCESS_SHARE 0.2
/* Share of a correction that may be wrong: exponents above were within 0.5 of the roofline's. */
#define KILN_READING_CORRECTION_DOUBT 0.5

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
    double time_ns;          /* of one run, as if the board had been as fast as usual */
    double raw_ns, least_ns; /* the same as it was, and the least of all samples */
    /* Half the 95 % interval of log(time_ns): of the samples, of what differs between processes,
     * and of the correction. */
    double doubt;
} kiln_reading;

kiln_reading kiln_reading_of(const kiln_samples *samples);
/* Whether the drift is more than a correction can be trusted with. Unknown ones are not. */
bool kiln_reading_is_out(const kiln_drift_ratio *drift);
/* Whether the kernels behind two readings take different times, as far as these can tell. */
bool kiln_reading_differs(const kiln_reading *a, const kiln_reading *b);
/* Lower end of the 95 % interval of how many times faster a kernel is, from `gain` [count]: the
 * other's time over its own, of samples that were taken in turns in one process. */
double kiln_reading_gain_low(const double *gain, size_t count);

#endif
