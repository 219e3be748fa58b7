/* Independent random draws: the baseline that every other searcher must beat, and the file to copy
 * for a new one (docs/how-to/searcher.md). */
#include "tuner/search/search.h"

kiln_status kiln_search_random(kiln_search *search) {
    kiln_point point;
    kiln_status st = search->points->draw(search->points, &search->rand, &search->scratch, &point);
    if (!st) kiln_search_plan_add(search, &point);
    return st;
}
