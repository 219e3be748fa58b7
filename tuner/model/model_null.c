/* A model that knows nothing: what a row has to have, and no more. */
#include <string.h>

#include "tuner/model/model_row.h"

static kiln_status encode(const kiln_program *scheduled, const kiln_target *target,
                          kiln_arena *scratch, kiln_arena *arena, kiln_encoding *out) {
    (void)scheduled, (void)scratch, (void)arena;
    *out = (kiln_encoding){.data = "", .fits = true, .features = kiln_features_of(target)};
    return KILN_OK;
}

static double distance(const kiln_encoding *a, const kiln_encoding *b) {
    (void)a, (void)b;
    return 0;
}

static kiln_status predict(void *fitted, bool uninformed, const kiln_encoding *candidate,
                           uint32_t count, float *out_score) {
    (void)fitted, (void)uninformed, (void)candidate;
    memset(out_score, 0, count * sizeof *out_score);
    return KILN_OK;
}

static kiln_status explain(void *fitted, bool uninformed, const kiln_encoding *candidate,
                           kiln_arena *arena, kiln_reason **out_reason, uint32_t *out_count) {
    (void)fitted, (void)uninformed, (void)candidate;
    *out_count = 1;
    *out_reason = KILN_ARENA_NEW(arena, kiln_reason);
    **out_reason = (kiln_reason){.name = "", .unit = "", .doc = "what is not known"};
    return KILN_OK;
}

const kiln_model_row kiln_model_null = {
    .encode = encode, .distance = distance, .predict = predict, .explain = explain};
