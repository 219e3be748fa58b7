#include "tuner/task_scheduler.h"

#include <math.h>

#include "base/macros.h"

#define PROGRESS 0.2 /* weight of what the last trials gained; the rest is hope (Ansor's alpha) */
#define SIMILAR 2.0  /* a task may come this near to the best speed of its like (Ansor's beta) */
#define NEVER_DONE 0.01 /* of the time may be gained even at the peak: that is measured, too */
#define NEAR_PEAK 0.9
#define TRIAL_NS 60e6   /* of a trial whatever its kernel: proposal, build, transfer, load */
#define TRIAL_RUNS 12.0 /* of the kernel in a trial at least: checked, warmed up, sampled */
#define SAMPLES_NS 50e6 /* of samples at most, however short the kernel */

void kiln_tuner_chance_add(kiln_tuner_chance *chance, double median_ns) {
    chance->tried++;
    if (median_ns > 0 && (chance->best_ns <= 0 || median_ns < chance->best_ns))
        chance->best_ns = median_ns;
    chance->trail_ns[chance->trail_count++ % KILN_TUNER_TRAIL] = chance->best_ns;
}

void kiln_tuner_chance_limit(kiln_tuner_chance *chance, double peak_flops) {
    if (!(peak_flops > 0)) return;
    double floor_ns = chance->least_flops / peak_flops * 1e9;
    if (chance->floor_ns <= 0 || floor_ns < chance->floor_ns) chance->floor_ns = floor_ns;
}

/* Gained per trial lately. */
static double progress(const kiln_tuner_chance *c) {
    uint32_t count = KILN_MIN(c->trail_count, KILN_TUNER_TRAIL);
    if (count < 2) return 0;
    double oldest = c->trail_ns[(c->trail_count - count) % KILN_TUNER_TRAIL];
    return oldest > 0 ? (oldest - c->best_ns) / count : 0;
}

/* What may be gained yet: the n-th trial some 1/n of the time above the peak's, or as much as the
 * like allow. */
static double hope(const kiln_tuner_chance *c, double flops_per_ns) {
    double above = KILN_MAX(c->best_ns - c->floor_ns, NEVER_DONE * c->best_ns);
    double gain = above / (c->tried + c->under_way + 1);
    double reachable = flops_per_ns > 0 ? SIMILAR * c->flops / flops_per_ns : 0;
    if (reachable > 0) gain = KILN_MAX(gain, (c->best_ns - reachable) / (c->under_way + 1));
    return gain;
}

/* Tasks are not left to what joins them before they were tried so often: a single time may be one
 * that something else disturbed. */
#define TRIED_MIN 3

/* What remains of a gain on the side that is behind by so much. */
static double beyond(double gain, double behind_ns) {
    return behind_ns > 0 ? KILN_MAX(gain - behind_ns, 0) : gain;
}

/* Of one inference, when each call gains so much. */
static double gain_of_inference(const kiln_tuner_chance *c, double gain) {
    double sum = c->weight * gain;
    for (uint32_t r = 0; r < c->rivals_count; r++) {
        const kiln_tuner_rivals *of = c->rivals[r];
        double apart_ns = 0, calls = 0;
        bool known = of->joined->best_ns > 0, sure = true;
        for (uint32_t i = 0; i < of->count; i++) {
            known = known && of->apart[i]->best_ns > 0;
            sure = sure && of->apart[i]->tried >= TRIED_MIN;
            apart_ns += of->apart[i]->best_ns;
            calls += of->apart[i] == c ? of->times : 0;
        }
        const double ahead_ns =
            !known ? 0 : KILN_MIN(apart_ns - of->joined->best_ns, sure ? INFINITY : 0);
        if (c == of->joined) sum += of->times * beyond(gain, -ahead_ns);
        sum += calls * (beyond(gain, ahead_ns) - gain);
    }
    return KILN_MAX(sum, 0);
}

double kiln_tuner_chance_gain(const kiln_tuner_chance *c, double flops_per_ns) {
    if (c->best_ns <= 0) return INFINITY;
    double cost_ns = TRIAL_NS + KILN_MAX(TRIAL_RUNS * c->best_ns, SAMPLES_NS);
    double gain = PROGRESS * progress(c) + (1 - PROGRESS) * hope(c, flops_per_ns);
    return gain_of_inference(c, gain) / (cost_ns / 1e9);
}

static double best_speed(const kiln_tuner_chance *const *chance, uint32_t count, kiln_str op) {
    double best = 0;
    for (uint32_t i = 0; i < count; i++)
        if (chance[i]->best_ns > 0 && kiln_str_equal(chance[i]->op, op))
            best = KILN_MAX(best, chance[i]->flops / chance[i]->best_ns);
    return best;
}

uint32_t kiln_tuner_choose(const kiln_tuner_chance *const *chance, uint32_t count) {
    uint32_t chosen = count;
    double most = -1;
    for (uint32_t i = 0; i < count; i++) {
        if (chance[i]->waits) continue;
        double gain = kiln_tuner_chance_gain(chance[i], best_speed(chance, count, chance[i]->op));
        /* Of those that nothing is known of, the one with fewest trials under way. */
        if (isinf(gain)) gain = 1e300 / (1 + chance[i]->tried + chance[i]->under_way);
        if (gain <= most) continue;
        most = gain;
        chosen = i;
    }
    return chosen;
}

bool kiln_tuner_is_at_peak(const kiln_tuner_chance *chance) {
    return chance->best_ns > 0 && chance->floor_ns >= NEAR_PEAK * chance->best_ns;
}

bool kiln_tuner_is_worth(const kiln_tuner_chance *const *chance, uint32_t count, uint32_t which) {
    double inference_ns = 0;
    for (uint32_t i = 0; i < count; i++) inference_ns += chance[i]->weight * chance[i]->best_ns;
    double speed = best_speed(chance, count, chance[which]->op);
    return kiln_tuner_chance_gain(chance[which], speed) >= KILN_TUNER_WORTH * inference_ns;
}
