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

/* A clock read from the processor changes at every look; one that ticks changes every few
 * milliseconds. */
#define CLOCK_LOOKS 1000u
#define CLOCK_STEPS 20u

bool kiln_timing_knows_absence(void) {
    uint64_t last_ns = kiln_clock_thread_ns();
    uint32_t steps = 0;
    for (uint32_t look = 0; look < CLOCK_LOOKS && steps < CLOCK_STEPS; look++) {
        const uint64_t now_ns = kiln_clock_thread_ns();
        steps += now_ns != last_ns;
        last_ns = now_ns;
    }
    return steps == CLOCK_STEPS;
}

/* Number of runs that make a sample long enough. */
static uint32_t runs_for(const kiln_timing_source *source, const kiln_msg_policy *policy,
                         double run_ns) {
    double wanted =
        (double)KILN_MAX(policy->sample_ns, source->overhead_ns * KILN_TIMING_OVERHEADS);
    double runs = run_ns > 0 ? wanted / run_ns : (double)UINT16_MAX;
    return runs <= 1 ? 1 : runs >= (double)UINT32_MAX ? UINT32_MAX : (uint32_t)runs + 1;
}

uint32_t kiln_timing_warm_up(const kiln_timing_source *source, const kiln_msg_policy *policy,
                             uint64_t first_ns, const kiln_timing_warmth *warmth) {
    /* The first run was cold, so aim at a quarter of a sample, which is long enough for the timer.
     */
    double before = (double)first_ns;
    uint32_t runs = KILN_MAX(runs_for(source, policy, before) / 4, 1);
    uint64_t spent = first_ns;
    uint32_t in_row = 0;
    while (spent < warmth->most_ns) {
        const uint64_t elapsed = source->run(source->context, runs).elapsed_ns;
        spent += KILN_MAX(elapsed, 1);
        double now = (double)elapsed / runs;
        const bool steady =
            before < now * (1 + warmth->steady) && before > now * (1 - warmth->steady);
        before = now;
        in_row = steady ? in_row + 1 : 0;
        if (in_row == warmth->in_row) break;
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

/* Why the samples are enough; NONE: they are not. */
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

/* State of kiln_timing_sample. */
typedef struct sampling {
    const kiln_timing_reference *reference;
    kiln_reference_kernel_times before;      /* reading after the last try */
    uint64_t spent_ns, patience_ns;          /* on samples that count; left for repeating */
    uint32_t disturbed_count, disturbed_max; /* tries in a row; limit of these */
} sampling;

typedef struct try {
    uint64_t elapsed_ns;
    kiln_drift_ratio drift; /* mean of the readings before and after */
    double slowed;          /* orders tries by how much they were slowed */
    bool disturbed;
}
try;

/* Repeats a slow reading at once: a neighbour is still there, but a clock that the kernel had
 * lowered has risen. */
static kiln_reference_kernel_times read_reference(const kiln_timing_reference *reference) {
    if (!reference->take) return (kiln_reference_kernel_times){0};
    const kiln_reference_kernel_times first = reference->take(reference->context);
    const kiln_drift_ratio ratio = kiln_drift_ratio_of(&first, &reference->norm);
    return kiln_drift_is_slow(&ratio, &reference->norm) ? reference->take(reference->context)
                                                        : first;
}

/* Share of the time off the core, below 1. */
static double away_share(const kiln_timing_spent *spent) {
    return (double)spent->away_ns / (double)(KILN_MAX(spent->elapsed_ns, spent->away_ns) + 1);
}

/* Takes one try of a sample. Other work on the core lasts some milliseconds, so the worse reading
 * decides. The memory part varies by itself, so there the mean decides. */
static try take_try(sampling *s, const kiln_timing_turn *turn) {
    const kiln_timing_spent spent = turn->source.run(turn->source.context, turn->runs);
    try one = {.elapsed_ns = spent.elapsed_ns};
    const kiln_reference_kernel_times before = s->before, after = read_reference(s->reference);
    const kiln_reference_kernel_times middle = {(before.arithmetic_ns + after.arithmetic_ns) / 2,
                                                (before.memory_ns + after.memory_ns) / 2};
    const kiln_reference_kernel_times worse = {KILN_MAX(before.arithmetic_ns, after.arithmetic_ns),
                                               middle.memory_ns};
    const kiln_drift_ratio worst = kiln_drift_ratio_of(&worse, &s->reference->norm);
    one.drift = kiln_drift_ratio_of(&middle, &s->reference->norm);
    const double there = 1 - away_share(&spent);
    one.slowed = (1 + one.drift.arithmetic) / there;
    one.drift.arithmetic /= there; /* the time off the core is no time of the kernel */
    one.disturbed = kiln_drift_is_slow(&worst, &s->reference->norm) || there < 1 - KILN_TIMING_AWAY;
    s->before = after;
    s->disturbed_count = one.disturbed ? s->disturbed_count + 1 : 0;
    if (s->disturbed_count == s->disturbed_max) s->patience_ns = 0;
    return one;
}

static bool is_better(const try *a, const try *b) {
    if (a->disturbed != b->disturbed) return b->disturbed;
    return a->slowed < b->slowed;
}

static void take_sample(sampling *s, kiln_timing_turn *turn) {
    try best = take_try(s, turn);
    while (best.disturbed && s->patience_ns > 0) {
        const try next = take_try(s, turn);
        s->patience_ns -= KILN_MIN(s->patience_ns, next.elapsed_ns);
        turn->timing->again_count++;
        if (is_better(&next, &best)) best = next;
    }
    const uint32_t index = turn->timing->sample_count++;
    s->spent_ns += best.elapsed_ns;
    best.elapsed_ns -= KILN_MIN(best.elapsed_ns, turn->source.overhead_ns);
    turn->timing->sample_ns[index] = KILN_MAX(best.elapsed_ns, 1);
    turn->arithmetic[index] = best.drift.arithmetic;
    turn->memory[index] = best.drift.memory;
    turn->disturbed[index] = best.disturbed;
}

/* Takes one sample of each kernel. After another kernel the caches are full of its data, so each
 * runs once untimed to make its sample as warm as those of a single kernel. */
static void take_round(sampling *s, kiln_timing_turn *turn, uint32_t count, bool backwards) {
    for (uint32_t i = 0; i < count; i++) {
        kiln_timing_turn *one = &turn[backwards ? count - 1 - i : i];
        if (count > 1) (void)one->source.run(one->source.context, 1);
        take_sample(s, one);
    }
}

static bool is_disturbed(const kiln_timing_turn *turn, uint32_t count, uint32_t round) {
    for (uint32_t i = 0; i < count; i++)
        if (turn[i].disturbed[round]) return true;
    return false;
}

static uint32_t count_quiet(const kiln_timing_turn *turn, uint32_t count) {
    uint32_t quiet = 0;
    for (uint32_t round = 0; round < turn->timing->sample_count; round++)
        quiet += !is_disturbed(turn, count, round);
    return quiet;
}

/* Drops disturbed rounds of all kernels, because the n-th samples belong together. */
static void drop_disturbed(kiln_timing_turn *turn, uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t round = 0; round < turn->timing->sample_count; round++) {
        if (is_disturbed(turn, count, round)) continue;
        for (uint32_t i = 0; i < count; i++) {
            turn[i].timing->sample_ns[kept] = turn[i].timing->sample_ns[round];
            turn[i].arithmetic[kept] = turn[i].arithmetic[round];
            turn[i].memory[kept] = turn[i].memory[round];
        }
        kept++;
    }
    for (uint32_t i = 0; i < count; i++) {
        turn[i].timing->again_count += turn[i].timing->sample_count - kept;
        turn[i].timing->sample_count = kept;
    }
}

/* Whether all kernels have enough samples; sets the reason of each. */
static bool have_enough(const kiln_timing_turn *turn, uint32_t count, const kiln_msg_policy *policy,
                        const sampling *s) {
    const bool out_of_patience =
        s->patience_ns == 0 && count_quiet(turn, count) >= KILN_MAX(policy->samples_min, 1);
    bool enough = true;
    for (uint32_t i = 0; i < count; i++) {
        turn[i].timing->stop = stop_reason(policy, turn[i].timing, s->spent_ns / count);
        if (turn[i].timing->stop == KILN_STOP_NONE && out_of_patience)
            turn[i].timing->stop = KILN_STOP_TIME_CAP;
        enough = enough && turn[i].timing->stop != KILN_STOP_NONE;
    }
    return enough;
}

static void summarise_drift(kiln_timing_turn *turn) {
    kiln_timing *timing = turn->timing;
    timing->drift.arithmetic = kiln_stats_median(turn->arithmetic, timing->sample_count);
    timing->drift.memory = kiln_stats_median(turn->memory, timing->sample_count);
}

/* Allows for drift: a disturbance slows no kernel by more than the reference kernel. */
static bool has_lost(kiln_timing_turn *turn, double race_ns) {
    if (turn->timing->sample_count < KILN_TIMING_RACE_SAMPLES) return false;
    summarise_drift(turn);
    const kiln_drift_ratio *drift = &turn->timing->drift;
    const double slower = KILN_MAX(KILN_MAX(drift->arithmetic, drift->memory), 1);
    return kiln_timing_is_raced(turn->timing, race_ns * slower);
}

void kiln_timing_sample(kiln_timing_turn *turn, uint32_t count,
                        const kiln_timing_reference *reference, const kiln_msg_policy *policy,
                        double race_ns) {
    sampling s = {.reference = reference,
                  .before = read_reference(reference),
                  .disturbed_max = KILN_TIMING_DISTURBED_MAX * count,
                  .patience_ns = KILN_TIMING_PATIENCE * count *
                                 KILN_MIN(policy->total_ns, KILN_TIMING_PATIENCE_MAX_NS)};
    for (uint32_t i = 0; i < count; i++) {
        turn[i].timing->runs = turn[i].runs;
        turn[i].timing->sample_count = turn[i].timing->again_count = 0;
    }
    for (bool backwards = false, done = false; !done; backwards = !backwards) {
        take_round(&s, turn, count, backwards);
        done = have_enough(turn, count, policy, &s);
        if (count == 1 && has_lost(turn, race_ns)) {
            turn->timing->stop = KILN_STOP_RACED;
            done = true;
        }
    }
    if (turn->timing->stop != KILN_STOP_RACED &&
        count_quiet(turn, count) >= KILN_MAX(policy->samples_min, 1))
        drop_disturbed(turn, count);
    for (uint32_t i = 0; i < count; i++) summarise_drift(&turn[i]);
}
