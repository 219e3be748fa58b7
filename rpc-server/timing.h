/* How a kernel is timed: warm-up until steady, samples that are long enough for the timer, and an
 * end when the median is known well enough (order-statistic interval; Hoefler and Belli, SC'15).
 * Works on any source of times, so that tests use a made-up clock. */
#ifndef KILN_RPC_SERVER_TIMING_H
#define KILN_RPC_SERVER_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/proto.h"
#include "rpc-server/drift.h"

#define KILN_TIMING_SAMPLES_MAX 1024u
/* A sample is at least this many times the timer's own cost, which is then within 0.5 %. */
#define KILN_TIMING_OVERHEADS 200u
/* A kernel is raced out when so many first samples are all slower than the bound. Three: one burst
 * of somebody else's work spoils two samples in a row more often than three. */
#define KILN_TIMING_RACE_SAMPLES 3u
/* Work beyond the policy's, in multiples of its total_ns, that is spent on taking disturbed samples
 * again. */
#define KILN_TIMING_PATIENCE 2u
/* Disturbed samples in a row, of each kernel, after which the board is taken as it is: what stays
 * for so long stays for longer than a trial. */
#define KILN_TIMING_DISTURBED_MAX 8u
#define KILN_TIMING_PATIENCE_MAX_NS UINT64_C(1000000000) /* of a total_ns */
/* Share of a sample that others may have had its core for. Clock ticks take 0.003, what the kernel
 * does for files and dead processes up to 0.04 of one sample in seven, which the faster half of the
 * samples is free of; a program that takes its turn takes a tenth or more, and leaves caches cold.
 */
#define KILN_TIMING_AWAY 0.05
/* Warm-up ends here even when the times still drift: a kernel that takes longer is warm after its
 * first call. */
#define KILN_TIMING_WARM_NS UINT64_C(10000000)

typedef struct kiln_timing_spent {
    uint64_t elapsed_ns;
    uint64_t away_ns; /* of these others had the core, as far as that is known */
} kiln_timing_spent;

/* Runs the kernel `runs` times back to back. */
typedef kiln_timing_spent (*kiln_timing_run)(void *context, uint32_t runs);

typedef struct kiln_timing_source {
    kiln_timing_run run;
    void *context;
    uint64_t overhead_ns; /* what a measurement of nothing takes */
} kiln_timing_source;

/* How fast the board is: read before and after every sample. */
typedef struct kiln_timing_reference {
    kiln_reference_kernel_times (*take)(
        void *context); /* NULL: it is not read, and no sample is taken again for it */
    void *context;
    kiln_reference_kernel_norm
        norm; /* what is usual; samples are taken again for the parts that are used */
} kiln_timing_reference;

typedef struct kiln_timing {
    kiln_stop stop;
    uint32_t runs; /* per sample */
    uint32_t sample_count;
    uint32_t again_count;   /* samples that were taken again and are not among these */
    kiln_drift_ratio drift; /* median over the samples; zeros: unknown */
    uint64_t sample_ns[KILN_TIMING_SAMPLES_MAX]; /* each the time of `runs` runs */
} kiln_timing;

/* The smallest time that two readings of the measuring clock in a row show, at least 1. */
uint64_t kiln_timing_overhead_ns(void);

/* Whether the clock of the thread's own time steps finely enough to tell who had its core. */
bool kiln_timing_knows_absence(void);

/* When a warm-up ends. */
typedef struct kiln_timing_warmth {
    double steady;    /* times in a row differ by less than this share */
    uint32_t in_row;  /* so many of them, at least 1 */
    uint64_t most_ns; /* or this is spent */
} kiln_timing_warmth;
/* A core, whose clock follows within microseconds; and a device, whose clock rises for a good part
 * of a second under load (345 to 1,980 MHz were reported of an H200). */
#define KILN_TIMING_WARM_CORE ((kiln_timing_warmth){0.05, 1, KILN_TIMING_WARM_NS})
#define KILN_TIMING_WARM_DEVICE ((kiln_timing_warmth){0.01, 8, UINT64_C(500000000)})
/* Runs until it is warm. Returns how many runs a sample needs, by the last time. `first_ns`: time
 * of one run that was made already. */
uint32_t kiln_timing_warm_up(const kiln_timing_source *source, const kiln_msg_policy *policy,
                             uint64_t first_ns, const kiln_timing_warmth *warmth);
/* One of several kernels that are timed in turns. */
typedef struct kiln_timing_turn {
    kiln_timing_source source;
    uint32_t runs; /* per sample */
    kiln_timing *timing;
    /* Of each sample, while it lasts. */
    double arithmetic[KILN_TIMING_SAMPLES_MAX], memory[KILN_TIMING_SAMPLES_MAX];
    bool disturbed[KILN_TIMING_SAMPLES_MAX];
} kiln_timing_turn;

/* Takes samples as `policy` says, of all kernels in turns, forwards and backwards alternately,
 * until none of them needs more: they all get as many samples as each other, and the n-th of each
 * were taken at about the same time, behind an untimed run of their own. A sample that `reference`
 * was out of band for, or that others took the core from, is taken again, at once, until it is not,
 * patience is at an end, or KILN_TIMING_DISTURBED_MAX in a row were disturbed; of several tries the
 * one that was slowed least stays. What is left of disturbed ones goes, of all kernels, when enough
 * others remain. A single kernel is raced out when its first samples all take longer per run than
 * `race_ns` (0: never), with allowance for drift. */
void kiln_timing_sample(kiln_timing_turn *turn, uint32_t count,
                        const kiln_timing_reference *reference, const kiln_msg_policy *policy,
                        double race_ns);
/* Whether the first samples say that the kernel is slower than `race_ns` per run. */
bool kiln_timing_is_raced(const kiln_timing *timing, double race_ns);

/* Half the width of the median's 95 % interval over the median. `sample_ns`: [count], count >= 1.
 */
double kiln_timing_interval(const uint64_t *sample_ns, uint32_t count);

#endif
