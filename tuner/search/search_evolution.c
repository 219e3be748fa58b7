/* Evolution without a model: children of the fastest measured traces, by crossover and mutation,
 * and some newcomers by chance. The baseline of what a model adds. */
#include "base/macros.h"
#include "tuner/search/search.h"

#define FIRST_DRAWS 16u /* results before the first children */
#define PARENTS 16u     /* the fastest results */
#define NEWCOMERS 0.1   /* chance of a proposal drawn at random */
#define CROSSED 0.5     /* chance that a child has two parents; otherwise it is mutated */

/* Fast parents more often: the better of two by chance. */
static const kiln_point *choose_parent(kiln_search *search, uint32_t count) {
    uint64_t a = kiln_rand_below(&search->rand, count), b = kiln_rand_below(&search->rand, count);
    return search->result.data[KILN_MIN(a, b)].point;
}

static uint32_t count_parents(const kiln_search *search) {
    uint32_t count = 0;
    while (count < search->result.count && count < PARENTS &&
           search->result.data[count].latency_ns > 0)
        count++;
    return count;
}

kiln_status kiln_search_evolution(kiln_search *search) {
    kiln_points *points = search->points;
    uint32_t parents = count_parents(search);
    kiln_point child;
    kiln_status st = KILN_OK;
    if (search->result.count < FIRST_DRAWS || parents == 0 ||
        kiln_rand_unit(&search->rand) < NEWCOMERS)
        st = points->draw(points, &search->rand, &search->scratch, &child);
    else if (kiln_rand_unit(&search->rand) < CROSSED)
        st = points->cross(points, choose_parent(search, parents), choose_parent(search, parents),
                           &search->rand, &search->scratch, &child);
    else
        st = points->mutate(points, choose_parent(search, parents), &search->rand, &search->scratch,
                            &child);
    if (!st) kiln_search_plan_add(search, &child);
    return st;
}
