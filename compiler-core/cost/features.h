/* What is known of a candidate before it is built: a vector of numbers computed from the replayed
 * loop program, before lowering and without running anything. Each kind of targets has a set of its
 * own (column `features` of base/target_kinds.def); only cost models (tuner/model) know which.
 *
 * The numbers are of fixed length whatever the program, and are comparable between tasks, so that a
 * model learnt on one network ranks the candidates of another. */
#ifndef KILN_COMPILER_CORE_COST_FEATURES_H
#define KILN_COMPILER_CORE_COST_FEATURES_H

#include "base/assembled.h"
#include "base/target.h"
#include "compiler-core/ir/ir.h"

typedef struct kiln_feature_info {
    const char *name; /* "innermost.lanes" */
    const char *unit;
    const char *doc; /* one sentence */
} kiln_feature_info;

typedef struct kiln_feature_set {
    uint32_t count;                /* numbers in one vector; 0: candidates of the kind have none */
    const kiln_feature_info *info; /* [count] */
    /* The analytic model, whose answers are among the numbers: log2 of the nanoseconds that it
     * predicts, at a nominal clock (ratios count, not the value); and log2(1 + cycles) of each of
     * its terms. */
    uint32_t predicted_ns, first_term, term_count;
    /* The numbers of `scheduled`, a loop program as replay leaves it: [count]. Never fails; what a
     * program lacks is 0. Pure. `scratch` is left as it was used: reset it when convenient. */
    void (*compute)(const kiln_program *scheduled, const kiln_target *target, kiln_arena *scratch,
                    float *out);
    /* Whether the candidate can be built, as far as that can be told before lowering, which refuses
     * what does not fit the registers. */
    bool (*fits)(const float *vector);
    /* Puts what an assembler said of a built candidate in the place of what `compute` expected of
     * it; NULL, or 0 registers: it is missing (NaN), which is not what was expected. NULL: no
     * assembler is asked about targets of the kind. */
    void (*take_assembled)(float *vector, const kiln_assembled *said);
    /* What the analytic model sees of each launch, in lines for people, all of it counted; NULL:
     * the kind has no launches. */
    void (*describe)(const kiln_program *scheduled, const kiln_target *target, kiln_arena *scratch,
                     kiln_strbuf *out);
} kiln_feature_set;

/* The set of the target's kind. */
const kiln_feature_set *kiln_features_of(const kiln_target *target);

#endif
