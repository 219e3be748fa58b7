/* The features of candidates for accelerator cores of the VTA class: one row of features_vta.def
 * per number. Private to cost/. */
#ifndef KILN_COMPILER_CORE_COST_FEATURES_VTA_H
#define KILN_COMPILER_CORE_COST_FEATURES_VTA_H

#include "compiler-core/cost/features.h"

typedef enum kiln_vta_feature_number {
#define X(name, text, unit, doc) KILN_VTA_FEATURE_##name,
#include "compiler-core/cost/features_vta.def"
#undef X
    KILN_VTA_FEATURES
} kiln_vta_feature_number;

extern const kiln_feature_set kiln_features_vta; /* Its analytic model is core_time.h. */

#endif
