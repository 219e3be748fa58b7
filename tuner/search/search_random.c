/* Independent random draws: the baseline that every other searcher must beat, and the file to copy for a new
 * one (docs/how-to/searcher.md). */
#include "tuner/search/searcher.h"

kiln_status kiln_search_random(kiln_draw *draw, kiln_arena *candidate, kiln_trace *out_trace, kiln_program **out_program) {
    return kiln_space_sample(draw->space, &draw->rand, candidate, out_trace, out_program);
}
