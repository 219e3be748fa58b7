/* The feature set of each kind of targets. */
#include "compiler-core/cost/features.h"

#include "compiler-core/cost/features_cpu.h"
#include "compiler-core/cost/features_gpu.h"
#include "compiler-core/cost/features_grid.h"
#include "compiler-core/cost/features_vta.h"

static const kiln_feature_set *const set_of[] = {
#define X(NAME, name, rules, lowering, features, PAYLOAD, executor, doc) \
    [KILN_TARGET_##NAME] = &kiln_features_##features,
#include "base/target_kinds.def"
#undef X
};

const kiln_feature_set *kiln_features_of(const kiln_target *target) { return set_of[target->kind]; }
