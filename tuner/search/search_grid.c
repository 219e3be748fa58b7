/* The space in its own order, without chance. The stride is the golden-section share of the size, made odd,
 * so that any number of draws covers the whole range about evenly. */
#include "tuner/search/searcher.h"

kiln_status kiln_search_grid(kiln_draw *draw, kiln_arena *candidate, kiln_trace *out_trace, kiln_program **out_program) {
    double size = kiln_space_size(draw->space);
    uint64_t count = size < 9e18 ? (uint64_t)size : UINT64_C(9000000000000000000);
    if (count == 0) return KILN_ERROR(OUT_OF_RANGE, "the space is empty");
    uint64_t stride = (uint64_t)((double)count * 0.6180339887498949) | 1u;
    uint64_t index = (uint64_t)(((__uint128_t)draw->attempt * stride) % count);
    return kiln_space_at(draw->space, index, candidate, out_trace, out_program);
}
