#include "rpc-server/drift.h"

#include <math.h>
#include <stddef.h>

#include "base/check.h"
#include "base/macros.h"
#include "base/stats.h"

/* ---- The usual times ---- */

#define READINGS_MAX (KILN_DRIFT_WINDOW * KILN_REFERENCE_KERNEL_STATE_COUNT)

/* One part's readings, [round][state], and each divided by the median of its round. */
typedef struct readings {
    double ns[READINGS_MAX], in_round[READINGS_MAX];
    uint32_t count; /* of all */
} readings;

static double part_of(const kiln_reference_kernel_times *times, size_t part) {
    return *(const double *)((const char *)times + part);
}

/* `part`: offset of its field in kiln_reference_kernel_times. */
static void collect(const kiln_reference_kernel_round *round, uint32_t count, size_t part,
                    readings *out) {
    out->count = count * KILN_REFERENCE_KERNEL_STATE_COUNT;
    for (uint32_t r = 0; r < count; r++) {
        double *ns = out->ns + r * KILN_REFERENCE_KERNEL_STATE_COUNT;
        for (uint32_t s = 0; s < KILN_REFERENCE_KERNEL_STATE_COUNT; s++) {
            ns[s] = part_of(&round[r].reading[s], part);
            KILN_CHECK(ns[s] > 0);
        }
        const double middle = kiln_stats_median(ns, KILN_REFERENCE_KERNEL_STATE_COUNT);
        for (uint32_t s = 0; s < KILN_REFERENCE_KERNEL_STATE_COUNT; s++)
            out->in_round[r * KILN_REFERENCE_KERNEL_STATE_COUNT + s] = ns[s] / middle;
    }
}

static double state_median(const readings *r, uint32_t state) {
    double value[KILN_DRIFT_WINDOW];
    uint32_t count = 0;
    for (uint32_t i = state; i < r->count; i += KILN_REFERENCE_KERNEL_STATE_COUNT)
        value[count++] = r->in_round[i];
    return kiln_stats_median(value, count);
}

static bool is_within(double ratio, double band) { return fabs(log(ratio)) <= log1p(band); }

static kiln_part_use use_of(const kiln_part_norm *norm) {
    double least = INFINITY, most = 0;
    for (uint32_t s = 0; s < KILN_REFERENCE_KERNEL_STATE_COUNT; s++) {
        least = KILN_MIN(least, norm->state[s]);
        most = KILN_MAX(most, norm->state[s]);
    }
    if (!is_within(most / least, KILN_DRIFT_BAND_MOST)) return KILN_PART_DEPENDS;
    return norm->scatter > KILN_DRIFT_SCATTER_MAX ? KILN_PART_SCATTERS : KILN_PART_USED;
}

static kiln_part_norm part_norm_of(const kiln_reference_kernel_round *round, uint32_t count,
                                   size_t part) {
    readings r;
    uint32_t scattered = 0;
    collect(round, count, part, &r);
    kiln_part_norm norm = {.usual_ns = kiln_stats_quantile(r.ns, r.count, 1.0 / KILN_DRIFT_FASTER)};
    const double in_band = kiln_stats_quantile(r.ns, r.count, KILN_DRIFT_IN_BAND) / norm.usual_ns;
    norm.band = KILN_MIN(KILN_MAX(in_band - 1, KILN_DRIFT_BAND_LEAST), KILN_DRIFT_BAND_MOST);
    for (uint32_t s = 0; s < KILN_REFERENCE_KERNEL_STATE_COUNT; s++)
        norm.state[s] = state_median(&r, s);
    for (uint32_t i = 0; i < r.count; i += KILN_REFERENCE_KERNEL_STATE_COUNT) {
        uint32_t of_round = 0;
        for (uint32_t s = 0; s < KILN_REFERENCE_KERNEL_STATE_COUNT; s++)
            of_round += !is_within(r.ns[i + s] / norm.usual_ns, norm.band);
        if (of_round < KILN_REFERENCE_KERNEL_STATE_COUNT) scattered += of_round;
    }
    norm.scatter = (double)scattered / r.count;
    norm.use = use_of(&norm);
    return norm;
}

kiln_reference_kernel_norm kiln_reference_kernel_norm_of(const kiln_reference_kernel_round *round,
                                                         uint32_t count) {
    KILN_CHECK(count >= 1);
    KILN_CHECK(count <= KILN_DRIFT_WINDOW);
    return (kiln_reference_kernel_norm){
        part_norm_of(round, count, offsetof(kiln_reference_kernel_times, arithmetic_ns)),
        part_norm_of(round, count, offsetof(kiln_reference_kernel_times, memory_ns))};
}

void kiln_drift_take(kiln_drift *drift, const kiln_reference_kernel_round *round) {
    drift->round[drift->count++ % KILN_DRIFT_WINDOW] = *round;
    drift->norm =
        kiln_reference_kernel_norm_of(drift->round, KILN_MIN(drift->count, KILN_DRIFT_WINDOW));
}

/* ---- Comparing with them ---- */

static double over(double now_ns, const kiln_part_norm *norm) {
    return norm->use == KILN_PART_USED ? now_ns / norm->usual_ns : 0;
}

kiln_drift_ratio kiln_drift_ratio_of(const kiln_reference_kernel_times *times,
                                     const kiln_reference_kernel_norm *norm) {
    return (kiln_drift_ratio){over(times->arithmetic_ns, &norm->arithmetic),
                              over(times->memory_ns, &norm->memory)};
}

bool kiln_drift_is_slow(const kiln_drift_ratio *ratio, const kiln_reference_kernel_norm *norm) {
    return ratio->arithmetic > 1 + norm->arithmetic.band || ratio->memory > 1 + norm->memory.band;
}

bool kiln_part_is_out(double ratio, const kiln_part_norm *norm) {
    return ratio > 0 && !is_within(ratio, norm->band);
}

bool kiln_drift_is_out(const kiln_drift_ratio *ratio, const kiln_reference_kernel_norm *norm,
                       const kiln_msg_env *before, const kiln_msg_env *after) {
    if (before->throttle_bits || after->throttle_bits) return true;
    if (before->throttle_count != after->throttle_count) return true;
    return kiln_part_is_out(ratio->arithmetic, &norm->arithmetic) ||
           kiln_part_is_out(ratio->memory, &norm->memory);
}

/* ---- For people ---- */

void kiln_part_norm_print(const kiln_part_norm *norm, kiln_strbuf *out) {
    static const char *const state_name[] = {"after a pause", "after arithmetic",
                                             "after a pass over memory", "after another reading"};
    _Static_assert(KILN_ARRAY_COUNT(state_name) == KILN_REFERENCE_KERNEL_STATE_COUNT,
                   "a name per state");
    uint32_t least = 0, most = 0;
    for (uint32_t s = 1; s < KILN_REFERENCE_KERNEL_STATE_COUNT; s++) {
        if (norm->state[s] < norm->state[least]) least = s;
        if (norm->state[s] > norm->state[most]) most = s;
    }
    switch (norm->use) {
    case KILN_PART_UNKNOWN: kiln_strbuf_text(out, "unknown"); break;
    case KILN_PART_USED:
        kiln_print_time(norm->usual_ns, out);
        kiln_strbuf_printf(out, " within %.0f %%", 100 * norm->band);
        break;
    case KILN_PART_DEPENDS:
        kiln_strbuf_printf(out, "off: it takes %.2f times as long %s as %s",
                           norm->state[most] / norm->state[least], state_name[most],
                           state_name[least]);
        break;
    case KILN_PART_SCATTERS:
        kiln_strbuf_printf(out,
                           "off: %.0f %% of its readings are far from others of the same moment",
                           100 * norm->scatter);
        break;
    }
}
