#include "db/plausible.h"

#include <math.h>

#include "base/reading.h"
#include "base/target.h"

#define DAY_NS INT64_C(86400000000000) /* clocks differ, by time zones set wrongly too */

static const char *check_samples(const kiln_db_record *record) {
    bool ok = kiln_str_is(record->outcome, "ok");
    if (record->samples_ns.count > KILN_PLAUSIBLE_SAMPLES_MAX) return "it has too many samples";
    if (ok && record->samples_ns.count == 0) return "it has no samples";
    for (size_t i = 0; i < record->samples_ns.count; i++) {
        double sample = record->samples_ns.data[i];
        if (!isfinite(sample) || sample < 0) return "its samples are not times";
        if (ok && sample < KILN_PLAUSIBLE_RUN_NS) return "a run took less than a nanosecond";
    }
    return NULL;
}

static const char *check_numbers(const kiln_db_record *record) {
    const double number[] = {record->flops,
                             record->peak_flops,
                             record->build_ns,
                             record->gain_low,
                             record->search_ns,
                             record->train_ns,
                             record->board_ns,
                             record->drift,
                             record->drift_memory,
                             record->relative_error,
                             (double)record->registers,
                             (double)record->spill_bytes,
                             (double)record->stack_bytes,
                             (double)record->shared_bytes};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(number); i++)
        if (!isfinite(number[i]) || number[i] < 0) return "a figure is not a number, or negative";
    if (record->drift > KILN_DRIFT_RATIO_MAX || record->drift_memory > KILN_DRIFT_RATIO_MAX)
        return "its board was a hundred times slower than usual";
    if (record->checked && kiln_str_is(record->outcome, "ok") && !(record->error <= 1))
        return "its result is wrong, by its own figure";
    return NULL;
}

static const char *check_speed(const kiln_db_record *record, const kiln_target *target) {
    double most = target->kind == KILN_TARGET_CPU || target->kind == KILN_TARGET_MICRO
                      ? KILN_PLAUSIBLE_CORE_FLOPS * KILN_MAX(target->threads, 1)
                      : KILN_PLAUSIBLE_DEVICE_FLOPS;
    bool direct = record->algorithm.size == 0 || kiln_str_is(record->algorithm, "direct");
    double saving = direct ? 1 : KILN_PLAUSIBLE_SAVING;
    if (record->peak_flops > most) return "no such machine computes at its peak";
    if (record->samples_ns.count == 0 || !kiln_str_is(record->outcome, "ok")) return NULL;
    const kiln_reading reading =
        kiln_reading_of(&(kiln_samples){.ns = record->samples_ns.data,
                                        .count = record->samples_ns.count,
                                        .again = (size_t)KILN_MAX(record->again, 0),
                                        .drift = {record->drift, record->drift_memory},
                                        .flops = record->flops,
                                        .peak_flops = record->peak_flops});
    double rate = record->flops / reading.least_ns * 1e9;
    if (record->peak_flops > 0 && rate > record->peak_flops * KILN_PLAUSIBLE_PEAK_RATIO * saving)
        return "it is faster than the peak of its board";
    return rate > most * saving ? "it is faster than any such machine" : NULL;
}

const char *kiln_record_implausible(const kiln_db_record *record, const kiln_db_task *task,
                                    int64_t now_wall_ns) {
    kiln_arena scratch;
    kiln_arena_init(&scratch, 1024);
    kiln_target target = {0};
    kiln_status unknown = kiln_target_parse(record->target, &scratch, &target);
    const char *why = unknown ? "its target is unknown to this version" : check_numbers(record);
    kiln_status_free(unknown);
    if (!why && record->threads != (int64_t)target.threads)
        why = "its threads are not those of its target";
    if (!why) why = check_samples(record);
    if (!why && task && fabs(task->flops - record->flops) > 1e-6 * task->flops)
        why = "its operations are not those of its task's shape";
    if (!why) why = check_speed(record, &target);
    if (!why && now_wall_ns && record->stored_wall_ns > now_wall_ns + DAY_NS)
        why = "it was stored in the future";
    kiln_arena_deinit(&scratch);
    return why;
}
