/* Times a kernel: warms up until times are steady, takes samples that are long enough for the
 * timer, and ends when the median is known well enough (order-statistic interval; Hoefler and
 * Belli, SC'15). Works on any source of times, so that tests can use an artificial clock. */
#ifndef KILN_RPC_SERVER_TIMING_H
#define KILN_RPC_SERVER_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/proto.h"
#include "rpc-server/drift.h"

#define KILN_TIMING_SAMPLES_MAX 1024u
/* A sample takes at least this many times the timer's own cost, which is then below 0.5 %. */
#define KILN_TIMING_OVERHEADS 200u
/* A kernel is raced out when its first samples, this many, are all slower than the bound. A burst
 * of other work spoils two samples in a row more often than three. */
#define KILN_TIMING_RACE_SAMPLES 3u
/* Time for repeating disturbed samples, in multiples of the policy's total_ns. */
#define KILN_TIMING_PATIENCE 2u
/* After this many disturbed samples in a row, per kernel, no sample is repeated any more, because
 * such a disturbance outlasts a trial. */
#define KILN_TIMING_DISTURBED_MAX 8u
#define KILN_TIMING_PATIENCE_MAX_NS UINT64_C(1000000000) /* limit of total_ns here */
/* Share of a sample during which other work may have had its core. Clock ticks take 0.003; the
 * system's work for files and ended processes takes up to 0.04 of one sample in seven, so the
 * faster half of the samples is free of it. A program that is scheduled takes a tenth or more, and
 * leaves caches cold. */
#define KILN_TIMING_AWAY 0.05
/* Warm-up ends here even if times still change: a kernel that takes longer is warm after its first
 * call. */
#define KILN_TIMING_WARM_NS UINT64_C(10000000)

typedef struct kiln_timing_spent {
    uint64_t elapsed_ns;
    uint64_t away_ns; /* of these the core did other work, if that is known */
} kiln_timing_spent;

/* Runs the kernel `runs` times back to back. */
typedef kiln_timing_spent (*kiln_timing_run)(void *context, uint32_t runs);

typedef struct kiln_timing_source {
    kiln_timing_run run;
    void *context;
    uint64_t overhead_ns; /* time of an empty measurement */
} kiln_timing_source;

/* The reference kernel, which is timed before and after every sample. */
typedef struct kiln_timing_reference {
    kiln_reference_kernel_times (*take)(
        void *context); /* NULL: it is not timed, and no sample is repeated for it */
    void *context;
    kiln_reference_kernel_norm norm; /* usual times; samples are repeated for parts in use */
} kiln_timing_reference;

typedef struct kiln_timing {
    kiln_stop stop;
    uint32_t runs; /* per sample */
    uint32_t sample_count;
    uint32_t again_count;                        /* samples that were repeated or dropped */
    kiln_drift_ratio drift;                      /* median over the samples; zeros: unknown */
    uint64_t sample_ns[KILN_TIMING_SAMPLES_MAX]; /* time of `runs` runs each */
} kiln_timing;

/* The smallest difference of two successive readings of the measuring clock, at least 1. */
uint64_t kiln_timing_overhead_ns(void);

/* Whether the clock of the thread's processor time is fine enough to tell when the thread was off
 * its core. */
bool kiln_timing_knows_absence(void);

/* When a warm-up ends. */
typedef struct kiln_timing_warmth {
    double steady;    /* successive times differ by less than this share */
    uint32_t in_row;  /* this often, at least once */
    uint64_t most_ns; /* limit of the warm-up */
} kiln_timing_warmth;
/* For a core, whose clock follows within microseconds; for a device, whose clock rises for a good
 * part of a second under load (345 to 1,980 MHz were reported of an H200). */
#define KILN_TIMING_WARM_CORE ((kiln_timing_warmth){0.05, 1, KILN_TIMING_WARM_NS})
#define KILN_TIMING_WARM_DEVICE ((kiln_timing_warmth){0.01, 8, UINT64_C(500000000)})
/* Runs the kernel until it is warm. Returns the number of runs that a sample needs. `first_ns`:
 * time of an earlier run. */
uint32_t kiln_timing_warm_up(const kiln_timing_source *source, const kiln_msg_policy *policy,
                             uint64_t first_ns, const kiln_timing_warmth *warmth);
/* One of several kernels that are timed in turns. */
typedef struct kiln_timing_turn {
    kiln_timing_source source;
    uint32_t runs; /* per sample */
    kiln_timing *timing;
    /* Per sample, during kiln_timing_sample. */
    double arithmetic[KILN_TIMING_SAMPLES_MAX], memory[KILN_TIMING_SAMPLES_MAX];
    bool disturbed[KILN_TIMING_SAMPLES_MAX];
} kiln_timing_turn;

/* Takes samples of all kernels in turns, alternately forwards and backwards, until none needs more
 * by `policy`. All get the same number of samples; the n-th samples are taken at about the same
 * time, each after an untimed run of its kernel. A sample is disturbed if `reference` was out of
 * band or other work had the core. It is repeated at once until it is undisturbed, the time for
 * repeating is used up, or KILN_TIMING_DISTURBED_MAX in a row were disturbed; the least slowed try
 * counts. If enough undisturbed samples remain the disturbed ones are dropped, from all kernels. A
 * single kernel is raced out if its first samples all take longer per run than `race_ns` (0:
 * never), with allowance for drift. */
void kiln_timing_sample(kiln_timing_turn *turn, uint32_t count,
                        const kiln_timing_reference *reference, const kiln_msg_policy *policy,
                        double race_ns);
/* Whether the first samples show that the kernel is slower than `race_ns` per run. */
bool kiln_timing_is_raced(const kiln_timing *timing, double race_ns);

/* Half the width of the median's 95 % interval, divided by the median. `sample_ns`: [count], count
 * >= 1. */
double kiln_timing_interval(const uint64_t *sample_ns, uint32_t count);

#endif
