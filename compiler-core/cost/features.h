/* Features of a candidate: a vector of numbers computed from the replayed loop program, before
 * lowering and without running anything. Each kind of targets has its own set (column `features` of
 * base/target_kinds.def); only cost models (tuner/model) know the meaning.
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
    /* The analytic model's entries in the vector: log2 of the nanoseconds that it predicts, at a
     * nominal clock (ratios count, not the value); and log2(1 + cycles) of each of its terms. */
    uint32_t predicted_ns, first_term, term_count;
    /* The numbers of `scheduled`, a loop program as replay leaves it: [count]. Never fails; a
     * feature that does not apply is 0. Pure. `scratch` is left as it was used: reset it when
     * convenient. */
    void (*compute)(const kiln_program *scheduled, const kiln_target *target, kiln_arena *scratch,
                    float *out);
    /* False when lowering would certainly refuse the candidate because it needs too many
     * registers. */
    bool (*fits)(const float *vector);
    /* Replaces the expected values of `compute` by the assembler's report on the built candidate.
     * Report NULL, or 0 registers: the values become missing (NaN). Member NULL: targets of the
     * kind need no assembler. */
    void (*take_assembled)(float *vector, const kiln_assembled *said);
    /* The analytic model's counts for each launch, in lines for people; NULL: the kind has no
     * launches. */
    void (*describe)(const kiln_program *scheduled, const kiln_target *target, kiln_arena *scratch,
                     kiln_strbuf *out);
} kiln_feature_set;

/* The set of the target's kind. */
const kiln_feature_set *kiln_features_of(const kiln_target *target);

#endif
