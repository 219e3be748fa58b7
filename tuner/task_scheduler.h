/* Which task of a job gets the next trial: the one whose next trials promise most time saved per
 * inference of the whole model and second of tuning. Pure, and from observed results alone, so that
 * it is the same after a restart.
 * Source: the gradient task scheduler of Ansor (OSDI'20, section 6), with three changes: gains are
 * * divided by the cost of a trial, similar tasks are those of the same operator, and no task is *
 * expected to exceed the machine's peak. */
#ifndef KILN_TUNER_TASK_SCHEDULER_H
#define KILN_TUNER_TASK_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define KILN_TUNER_RECENT 8u /* trials over which progress is looked at */
#define KILN_TUNER_ROW 3u    /* consecutive tasks that one fused task may replace */

typedef struct kiln_tuner_stats kiln_tuner_stats;

/* A fused task that can replace others: only the faster of the two sides is used. */
typedef struct kiln_tuner_substitute {
    const kiln_tuner_stats *joined;
    uint32_t count;
    const kiln_tuner_stats *apart[KILN_TUNER_ROW];
    double times; /* per inference */
} kiln_tuner_substitute;

/* Statistics of a task. */
struct kiln_tuner_stats {
    kiln_str op;
    double weight;      /* calls per inference; 0: only in place of others */
    double flops;       /* of one call; 0: unknown */
    double best_ns;     /* 0: nothing was measured */
    double least_flops; /* of one call by the cheapest algorithm; 0: unknown */
    double floor_ns;    /* the least operations at the machine's peak; 0: unknown */
    uint32_t tried;     /* results known, stored ones included */
    uint32_t under_way; /* proposed, not yet observed */
    double recent_ns[KILN_TUNER_RECENT]; /* best after each of the last results, in a ring */
    uint32_t recent_count;
    bool waits; /* may not propose now */
    uint32_t substitute_count;
    const kiln_tuner_substitute *const
        *substitutes; /* [substitute_count] on whose one side or other it is */
};

/* Adds a result; `median_ns` 0: it failed. */
void kiln_tuner_stats_add(kiln_tuner_stats *stats, double median_ns);
/* A board can do so many operations per second; 0: it did not say. The fastest counts. */
void kiln_tuner_stats_limit(kiln_tuner_stats *stats, double peak_flops);
/* Nanoseconds per inference that one more trial is expected to save, per second of tuning. A task
 * on the slower side of a substitution saves only what exceeds the difference. Infinite when
 * nothing was measured. `flops_per_ns`: the best speed among similar tasks; 0: unknown. */
double kiln_tuner_stats_gain(const kiln_tuner_stats *stats, double flops_per_ns);
/* The task to propose next, or `count` when all wait. The first of equals. Cost: O(count^2). */
uint32_t kiln_tuner_choose(const kiln_tuner_stats *const *stats, uint32_t count);

/* Where only time bounds a job, a trial must be expected to save this share of an inference per
 * second of tuning. At the peak, or after some hundred trials, the expected gain is smaller. */
#define KILN_TUNER_WORTH 2e-4
/* Whether it runs at nine tenths of the machine's peak or more, as far as that is known. */
bool kiln_tuner_is_at_peak(const kiln_tuner_stats *stats);
/* Whether the next trial of `which` promises that much. */
bool kiln_tuner_is_worth(const kiln_tuner_stats *const *stats, uint32_t count, uint32_t which);

#endif
