/* The space in its own order, without chance. The stride is the golden-section share of the size,
 * made odd, so that any number of draws covers the whole range about evenly. */
#include "tuner/search/search.h"

kiln_status kiln_search_grid(kiln_search *search) {
    double size = search->points->size(search->points);
    uint64_t count = size < 9e18 ? (uint64_t)size : UINT64_C(9000000000000000000);
    if (count == 0) return KILN_ERROR(OUT_OF_RANGE, "the space is empty");
    uint64_t stride = (uint64_t)((double)count * 0.6180339887498949) | 1u;
    uint64_t index = (uint64_t)(((__uint128_t)search->plans * stride) % count);
    kiln_point point;
    kiln_status st = search->points->at(search->points, index, &search->scratch, &point);
    if (!st) kiln_search_plan_add(search, &point);
    return st;
}
