/* The features of processors' candidates: one row of features_cpu.def per number. Exact: affine
 * analysis counts operations, iterations, touched elements and cache lines as the interpreter would
 * see them. Private to cost/. */
#ifndef KILN_COMPILER_CORE_COST_FEATURES_CPU_H
#define KILN_COMPILER_CORE_COST_FEATURES_CPU_H

#include "compiler-core/cost/features.h"

typedef enum kiln_feature {
#define X(name, text, unit, doc) KILN_FEATURE_##name,
#include "compiler-core/cost/features_cpu.def"
#undef X
    KILN_FEATURE_COUNT
} kiln_feature;

/* About 10 us a program. Source of the analytic model in it: the roofline model, with the footprint
 * analysis of Roller (OSDI'22) per loop and level. */
extern const kiln_feature_set kiln_features_cpu;

#endif
