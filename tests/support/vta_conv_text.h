/* The convolutions of vta_conv.h as texts of loop programs in the form that lowering hands to the
 * back end of accelerator cores (compiler-core/codegen/vta_calls.h), but for virtual threads and
 * allocations, which lowering makes. */
#ifndef KILN_TESTS_SUPPORT_VTA_CONV_TEXT_H
#define KILN_TESTS_SUPPORT_VTA_CONV_TEXT_H

#include "base/arena.h"
#include "tests/support/vta_conv.h"

/* Arguments x [in][height][width], w [out][in][kernel][kernel], bias [out], y, tiles all, as
 * vta_conv_build's. Threads are a loop over virtual threads, or with `in_turn` stages of a
 * pipeline.
 */
const char *vta_conv_text(const kiln_vta_config *config, const vta_conv *conv,
                          const vta_conv_cut *cut, kiln_arena *arena);

#endif
