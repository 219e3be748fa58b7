#include "tuner/race.h"

#include "base/macros.h"

void kiln_tuner_race_take(kiln_tuner_race *race, double median_ns) {
    if (!(median_ns > 0)) return;
    if (race->count == KILN_TUNER_RACE_RANK && median_ns >= race->fastest_ns[race->count - 1])
        return;
    uint32_t at = race->count < KILN_TUNER_RACE_RANK ? race->count++ : race->count - 1;
    for (; at > 0 && race->fastest_ns[at - 1] > median_ns; at--)
        race->fastest_ns[at] = race->fastest_ns[at - 1];
    race->fastest_ns[at] = median_ns;
}

void kiln_tuner_race_judge(kiln_tuner_race *race, double judged_ns) {
    for (uint32_t i = 0; i < race->count; i++)
        race->fastest_ns[i] = KILN_MAX(race->fastest_ns[i], judged_ns);
}

double kiln_tuner_race_bound_ns(const kiln_tuner_race *race) {
    if (race->count < KILN_TUNER_RACE_RANK) return 0;
    return KILN_MAX(race->fastest_ns[race->count - 1],
                    race->fastest_ns[0] * KILN_TUNER_RACE_FACTOR);
}
