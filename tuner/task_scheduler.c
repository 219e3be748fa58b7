#include "tuner/task_scheduler.h"

#include <math.h>

#include "base/macros.h"

#define PROGRESS \
    0.2 /* weight of the gain of the last trials; the rest is the expected gain (Ansor's alpha) */
#define SIMILAR \
    2.0 /* a task can come within this factor of the best speed of similar ones (Ansor's beta) */
#define NEVER_DONE \
    0.01 /* share of the time that can be gained even at the peak, which is a measurement, too */
#define NEAR_PEAK 0.9
#define TRIAL_NS 60e6   /* of a trial whatever its kernel: proposal, build, transfer, load */
#define TRIAL_RUNS 12.0 /* of the kernel in a trial at least: checked, warmed up, sampled */
#define SAMPLES_NS 50e6 /* of samples at most, however short the kernel */

void kiln_tuner_stats_add(kiln_tuner_stats *stats, double median_ns) {
    stats->tried++;
    if (median_ns > 0 && (stats->best_ns <= 0 || median_ns < stats->best_ns))
        stats->best_ns = median_ns;
    stats->recent_ns[stats->recent_count++ % KILN_TUNER_RECENT] = stats->best_ns;
}

void kiln_tuner_stats_limit(kiln_tuner_stats *stats, double peak_flops) {
    if (!(peak_flops > 0)) return;
    double floor_ns = stats->least_flops / peak_flops * 1e9;
    if (stats->floor_ns <= 0 || floor_ns < stats->floor_ns) stats->floor_ns = floor_ns;
}

/* Gain per trial over the last trials. */
static double progress(const kiln_tuner_stats *c) {
    uint32_t count = KILN_MIN(c->recent_count, KILN_TUNER_RECENT);
    if (count < 2) return 0;
    double oldest = c->recent_ns[(c->recent_count - count) % KILN_TUNER_RECENT];
    return oldest > 0 ? (oldest - c->best_ns) / count : 0;
}

/* Gain to expect: the n-th trial saves 1/n of the time above the peak's, or reaches the speed of
 * similar tasks. */
static double expected_gain(const kiln_tuner_stats *c, double flops_per_ns) {
    double above = KILN_MAX(c->best_ns - c->floor_ns, NEVER_DONE * c->best_ns);
    double gain = above / (c->tried + c->under_way + 1);
    double reachable = flops_per_ns > 0 ? SIMILAR * c->flops / flops_per_ns : 0;
    if (reachable > 0) gain = KILN_MAX(gain, (c->best_ns - reachable) / (c->under_way + 1));
    return gain;
}

/* Separate tasks have this many results before a fused task counts as faster: a single time may be
 * disturbed. */
#define TRIED_MIN 3

/* The part of a gain that exceeds the distance to the faster side. */
static double beyond(double gain, double behind_ns) {
    return behind_ns > 0 ? KILN_MAX(gain - behind_ns, 0) : gain;
}

/* Gain of one inference when each call gains so much. */
static double gain_of_inference(const kiln_tuner_stats *c, double gain) {
    double sum = c->weight * gain;
    for (uint32_t r = 0; r < c->substitute_count; r++) {
        const kiln_tuner_substitute *of = c->substitutes[r];
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

double kiln_tuner_stats_gain(const kiln_tuner_stats *c, double flops_per_ns) {
    if (c->best_ns <= 0) return INFINITY;
    double cost_ns = TRIAL_NS + KILN_MAX(TRIAL_RUNS * c->best_ns, SAMPLES_NS);
    double gain = PROGRESS * progress(c) + (1 - PROGRESS) * expected_gain(c, flops_per_ns);
    return gain_of_inference(c, gain) / (cost_ns / 1e9);
}

static double best_speed(const kiln_tuner_stats *const *stats, uint32_t count, kiln_str op) {
    double best = 0;
    for (uint32_t i = 0; i < count; i++)
        if (stats[i]->best_ns > 0 && kiln_str_equal(stats[i]->op, op))
            best = KILN_MAX(best, stats[i]->flops / stats[i]->best_ns);
    return best;
}

uint32_t kiln_tuner_choose(const kiln_tuner_stats *const *stats, uint32_t count) {
    uint32_t chosen = count;
    double most = -1;
    for (uint32_t i = 0; i < count; i++) {
        if (stats[i]->waits) continue;
        double gain = kiln_tuner_stats_gain(stats[i], best_speed(stats, count, stats[i]->op));
        /* Among tasks without a result: the one with the fewest trials under way. */
        if (isinf(gain)) gain = 1e300 / (1 + stats[i]->tried + stats[i]->under_way);
        if (gain <= most) continue;
        most = gain;
        chosen = i;
    }
    return chosen;
}

bool kiln_tuner_is_at_peak(const kiln_tuner_stats *stats) {
    return stats->best_ns > 0 && stats->floor_ns >= NEAR_PEAK * stats->best_ns;
}

bool kiln_tuner_is_worth(const kiln_tuner_stats *const *stats, uint32_t count, uint32_t which) {
    double inference_ns = 0;
    for (uint32_t i = 0; i < count; i++) inference_ns += stats[i]->weight * stats[i]->best_ns;
    double speed = best_speed(stats, count, stats[which]->op);
    return kiln_tuner_stats_gain(stats[which], speed) >= KILN_TUNER_WORTH * inference_ns;
}
