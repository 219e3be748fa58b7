/* The features of candidates for devices that run grids of groups of threads: one row of
 * features_grid.def per number. Private to cost/. */
#ifndef KILN_COMPILER_CORE_COST_FEATURES_GRID_H
#define KILN_COMPILER_CORE_COST_FEATURES_GRID_H

#include "compiler-core/cost/features.h"

typedef enum kiln_grid_feature {
#define X(name, text, unit, doc) KILN_GRID_##name,
#include "compiler-core/cost/features_grid.def"
#undef X
    KILN_GRID_FEATURE_COUNT
} kiln_grid_feature;

/* Their analytic model is the null device's clock. */
extern const kiln_feature_set kiln_features_grid;

#endif
