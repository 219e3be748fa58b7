/* The features of candidates for GPUs: one row of features_gpu.def per number. Private to cost/. */
#ifndef KILN_COMPILER_CORE_COST_FEATURES_GPU_H
#define KILN_COMPILER_CORE_COST_FEATURES_GPU_H

#include "compiler-core/cost/features.h"

typedef enum kiln_gpu_feature {
#define X(name, text, unit, doc) KILN_GPU_FEATURE_##name,
#include "compiler-core/cost/features_gpu.def"
#undef X
    KILN_GPU_FEATURE_COUNT
} kiln_gpu_feature;

/* Some 20 us a program. Sources of the analytic model: the roofline model, and occupancy and
 * transactions as the vendor's programming guide defines them. */
extern const kiln_feature_set kiln_features_gpu;

#endif
