/* The features of AutoTVM's cost model, a baseline that those of this tree are judged against.
 * Source: AutoTVM (NeurIPS'18), feature_visitor and touch_extractor of TVM 0.8. */
#ifndef KILN_TESTS_SUPPORT_FEATURES_AUTOTVM_H
#define KILN_TESTS_SUPPORT_FEATURES_AUTOTVM_H

#include "base/target.h"
#include "compiler-core/ir/ir.h"

#define FEATURES_AUTOTVM_COUNT 1024

/* Of a loop program as replay leaves it: [FEATURES_AUTOTVM_COUNT], padded with zeros. */
void features_autotvm_compute(const kiln_program *scheduled, const kiln_target *target,
                              kiln_arena *scratch, float *out);

#endif
