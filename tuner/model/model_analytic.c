/* The analytic model of the target's kind, by itself: good from the first candidate on, and never
 * better. An encoding is log2 of the nanoseconds that it predicts. */
#include "tuner/model/model_row.h"

static float predicted(const kiln_encoding *candidate) { return *(const float *)candidate->data; }

static kiln_status encode(const kiln_program *scheduled, const kiln_target *target,
                          kiln_arena *scratch, kiln_arena *arena, kiln_encoding *out) {
    kiln_status st = kiln_model_compute(scheduled, target, scratch, scratch, out);
    if (st) return st;
    const float *ns = (const float *)out->data + out->features->predicted_ns;
    out->data = kiln_arena_copy(arena, ns, sizeof *ns);
    out->size_bytes = sizeof *ns;
    return KILN_OK;
}

static double distance(const kiln_encoding *a, const kiln_encoding *b) {
    double difference = (double)predicted(a) - (double)predicted(b);
    return difference * difference;
}

static kiln_status predict(void *fitted, bool uninformed, const kiln_encoding *candidate,
                           uint32_t count, float *out_score) {
    (void)fitted;
    for (uint32_t i = 0; i < count; i++) out_score[i] = uninformed ? 0 : -predicted(&candidate[i]);
    return KILN_OK;
}

static kiln_status explain(void *fitted, bool uninformed, const kiln_encoding *candidate,
                           kiln_arena *arena, kiln_reason **out_reason, uint32_t *out_count) {
    (void)fitted;
    const kiln_feature_info *info = &candidate->features->info[candidate->features->predicted_ns];
    float ns = predicted(candidate);
    *out_count = 2;
    *out_reason = KILN_ARENA_ARRAY(arena, kiln_reason, 2);
    (*out_reason)[0] =
        (kiln_reason){info->name, info->unit, info->doc, (double)ns, uninformed ? 0 : -ns};
    (*out_reason)[1] = (kiln_reason){.name = "", .unit = "", .doc = "what all have in common"};
    return KILN_OK;
}

const kiln_model_row kiln_model_analytic = {
    .encode = encode, .distance = distance, .predict = predict, .explain = explain};
