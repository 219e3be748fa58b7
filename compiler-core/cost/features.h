/* What a cost model knows of a candidate: a vector of numbers computed from the replayed loop
 * program, before lowering and without running anything. One row of features.def per number.
 *
 * The numbers are exact: affine analysis counts operations, iterations, touched elements and cache
 * lines as the interpreter would see them. They are of fixed length whatever the program, count
 * integers as well as floats, and are comparable between tasks, so that a model learnt on one
 * network ranks the candidates of another.
 *
 * Used by the tuner's searchers and model, and by `kiln explain --why`. */
#ifndef KILN_COMPILER_CORE_COST_FEATURES_H
#define KILN_COMPILER_CORE_COST_FEATURES_H

#include "base/target.h"
#include "compiler-core/ir/ir.h"

typedef enum kiln_feature {
#define X(name, text, unit, doc) KILN_FEATURE_##name,
#include "compiler-core/cost/features.def"
#undef X
    KILN_FEATURE_COUNT
} kiln_feature;

/* Sets of features that a model can be trained on. */
typedef enum kiln_feature_set {
    KILN_FEATURES_EXACT,   /* features.def */
    KILN_FEATURES_AUTOTVM, /* loop variables and curves as AutoTVM defines them: the baseline */
    KILN_FEATURE_SET_COUNT
} kiln_feature_set;
#define KILN_FEATURES_AUTOTVM_COUNT 1024
#define KILN_FEATURES_MAX 1024

/* Numbers in one vector of the set. */
uint32_t kiln_features_count(kiln_feature_set set);
/* Name ("innermost.lanes"), unit and one sentence of a feature of features.def. */
const char *kiln_feature_name(kiln_feature feature);
const char *kiln_feature_unit(kiln_feature feature);
const char *kiln_feature_doc(kiln_feature feature);

/* The exact features of `scheduled`, a loop program as replay leaves it: [KILN_FEATURE_COUNT].
 * Never fails; what a program lacks is 0. Large counts and sizes are log2(1 + x). Pure; about 10
 * us. `scratch` is left as it was used: reset it when convenient. */
void kiln_features_compute(const kiln_program *scheduled, const kiln_target *target,
                           kiln_arena *scratch, float *out);
/* The baseline's: [KILN_FEATURES_AUTOTVM_COUNT], padded with zeros. Source: AutoTVM (NeurIPS'18),
 * feature_visitor and touch_extractor of TVM 0.8. */
void kiln_features_autotvm_compute(const kiln_program *scheduled, const kiln_target *target,
                                   kiln_arena *scratch, float *out);

#endif
