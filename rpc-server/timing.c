#include "rpc-server/timing.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/stats.h"

uint64_t kiln_timing_overhead_ns(void) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t begin = kiln_clock_precise_ns();
        uint64_t elapsed = kiln_clock_precise_ns() - begin;
        least = KILN_MIN(least, elapsed);
    }
    return KILN_MAX(least, 1);
}

/* Runs that make a sample long enough, from the time of one. */
static uint32_t runs_for(const kiln_timing_source *source, const kiln_msg_policy *policy,
                         double run_ns) {
    double wanted =
        (double)KILN_MAX(policy->sample_ns, source->overhead_ns * KILN_TIMING_OVERHEADS);
    double runs = run_ns > 0 ? wanted / run_ns : (double)UINT16_MAX;
    return runs <= 1 ? 1 : runs >= (double)UINT32_MAX ? UINT32_MAX : (uint32_t)runs + 1;
}

uint32_t kiln_timing_warm_up(const kiln_timing_source *source, const kiln_msg_policy *policy,
                             uint64_t first_ns) {
    /* The first run was cold: aim at a quarter of a sample, and trust no time that is mostly the
     * timer. */
    double before = (double)first_ns;
    uint32_t runs = KILN_MAX(runs_for(source, policy, before) / 4, 1);
    uint64_t spent = first_ns;
    while (spent < KILN_TIMING_WARM_NS) {
        uint64_t elapsed = 0;
        source->run(source->context, runs, &elapsed);
        spent += KILN_MAX(elapsed, 1);
        double now = (double)elapsed / runs;
        bool steady = now > 0 && before < now * 1.05 && before > now * 0.95;
        before = now;
        if (steady) break;
        runs = KILN_MAX(runs_for(source, policy, now) / 4, 1);
    }
    return runs_for(source, policy, before);
}

double kiln_timing_interval(const uint64_t *sample_ns, uint32_t count) {
    KILN_CHECK(count >= 1 && count <= KILN_TIMING_SAMPLES_MAX);
    double sample[KILN_TIMING_SAMPLES_MAX];
    for (uint32_t i = 0; i < count; i++) sample[i] = (double)sample_ns[i];
    kiln_stats stats = kiln_stats_of(sample, count);
    return stats.median > 0 ? (stats.high - stats.low) / 2 / stats.median : 1;
}

/* Whether the samples are enough, and why. */
static kiln_stop stop_reason(const kiln_msg_policy *policy, const kiln_timing *timing,
                             uint64_t spent_ns) {
    uint32_t most = KILN_MIN(policy->samples_max, KILN_TIMING_SAMPLES_MAX);
    if (timing->sample_count < KILN_MIN(policy->samples_min, most)) return KILN_STOP_NONE;
    if (kiln_timing_interval(timing->sample_ns, timing->sample_count) <= policy->interval)
        return KILN_STOP_CONVERGED;
    if (timing->sample_count >= most) return KILN_STOP_COUNT_CAP;
    return spent_ns >= policy->total_ns ? KILN_STOP_TIME_CAP : KILN_STOP_NONE;
}

bool kiln_timing_is_raced(const kiln_timing *timing, double race_ns) {
    if (race_ns <= 0 || timing->sample_count < KILN_TIMING_RACE_SAMPLES) return false;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < KILN_TIMING_RACE_SAMPLES; i++)
        least = KILN_MIN(least, timing->sample_ns[i]);
    return (double)least > race_ns * timing->runs;
}

static void take_sample(const kiln_timing_turn *turn, uint64_t *spent_ns) {
    uint64_t elapsed = 0;
    turn->source.run(turn->source.context, turn->runs, &elapsed);
    *spent_ns += elapsed;
    elapsed -= KILN_MIN(elapsed, turn->source.overhead_ns);
    turn->timing->sample_ns[turn->timing->sample_count++] = KILN_MAX(elapsed, 1);
}

/* One sample of each. */
static void take_round(const kiln_timing_turn *turn, uint32_t count, bool backwards,
                       uint64_t *spent_ns) {
    for (uint32_t i = 0; i < count; i++)
        take_sample(&turn[backwards ? count - 1 - i : i], spent_ns);
}

/* Whether all have enough; then each has its reason. */
static bool have_enough(const kiln_timing_turn *turn, uint32_t count, const kiln_msg_policy *policy,
                        uint64_t spent_ns) {
    bool enough = true;
    for (uint32_t i = 0; i < count; i++) {
        turn[i].timing->stop = stop_reason(policy, turn[i].timing, spent_ns / count);
        enough = enough && turn[i].timing->stop != KILN_STOP_NONE;
    }
    return enough;
}

void kiln_timing_sample(const kiln_timing_turn *turn, uint32_t count, const kiln_msg_policy *policy,
                        double race_ns) {
    for (uint32_t i = 0; i < count; i++) {
        turn[i].timing->runs = turn[i].runs;
        turn[i].timing->sample_count = 0;
    }
    uint64_t spent_ns = 0;
    for (bool backwards = false;; backwards = !backwards) {
        take_round(turn, count, backwards, &spent_ns);
        if (count == 1 && kiln_timing_is_raced(turn->timing, race_ns)) {
            turn->timing->stop = KILN_STOP_RACED;
            return;
        }
        if (have_enough(turn, count, policy, spent_ns)) return;
    }
}
