/* Which task of a job gets the next trial: the one whose next trials promise most time saved per
 * inference of the whole model and second of tuning. Pure, and from observed results alone, so that
 * it is the same after a restart.
 *
 * Source: the gradient task scheduler of Ansor (OSDI'20, section 6), with two changes: gains are
 * divided by what a trial costs, the best speed of similar tasks is that of the same operator, and
 * nobody hopes to pass the machine's peak. */
#ifndef KILN_TUNER_TASK_SCHEDULER_H
#define KILN_TUNER_TASK_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define KILN_TUNER_TRAIL 8u /* trials over which progress is looked at */
#define KILN_TUNER_ROW 3u   /* tasks in a row that one may stand in place of */

typedef struct kiln_tuner_chance kiln_tuner_chance;

/* A task that may stand in place of others: only the faster side of the two is of use. */
typedef struct kiln_tuner_rivals {
    const kiln_tuner_chance *joined;
    uint32_t count;
    const kiln_tuner_chance *apart[KILN_TUNER_ROW];
    double times; /* per inference */
} kiln_tuner_rivals;

/* What is known of a task. */
struct kiln_tuner_chance {
    kiln_str op;
    double weight;                     /* calls per inference; 0: only in place of others */
    double flops;                      /* of one call; 0: unknown */
    double best_ns;                    /* 0: nothing was measured */
    double least_flops;                /* of one call by the cheapest algorithm; 0: unknown */
    double floor_ns;                   /* the least operations at the machine's peak; 0: unknown */
    uint32_t tried;                    /* results known, stored ones included */
    uint32_t under_way;                /* proposed, not yet observed */
    double trail_ns[KILN_TUNER_TRAIL]; /* best after each of the last results, in a ring */
    uint32_t trail_count;
    bool waits; /* may not propose now */
    uint32_t rivals_count;
    const kiln_tuner_rivals *const *rivals; /* [rivals_count] on whose one side or other it is */
};

/* Adds a result; `median_ns` 0: it failed. */
void kiln_tuner_chance_add(kiln_tuner_chance *chance, double median_ns);
/* A board can do so many operations per second; 0: it did not say. The fastest counts. */
void kiln_tuner_chance_limit(kiln_tuner_chance *chance, double peak_flops);
/* Nanoseconds per inference that one more trial is expected to save, per second of tuning: of what
 * others replace, or is behind what it would replace, only what goes beyond the distance. Infinite
 * when nothing was measured. `flops_per_ns`: the best speed among similar tasks; 0: unknown. */
double kiln_tuner_chance_gain(const kiln_tuner_chance *chance, double flops_per_ns);
/* The task to propose next, or `count` when all wait. The first of equals. Cost: O(count^2). */
uint32_t kiln_tuner_choose(const kiln_tuner_chance *const *chance, uint32_t count);

/* A second of tuning that is expected to save less of an inference than this is not spent, where
 * time is all that bounds a job. At the peak, or after some hundred trials, hope comes to less. */
#define KILN_TUNER_WORTH 2e-4
/* Whether it runs at nine tenths of the machine's peak or more, as far as that is known. */
bool kiln_tuner_is_at_peak(const kiln_tuner_chance *chance);
/* Whether the next trial of `which` promises that much. */
bool kiln_tuner_is_worth(const kiln_tuner_chance *const *chance, uint32_t count, uint32_t which);

#endif
