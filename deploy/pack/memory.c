/* First fit over several orders; the best one counts (Pisarchyk and Lee 2020, "Efficient memory
 * management for deep neural net inference", is the first of them). */
#include "deploy/pack/memory.h"

#include "base/kernel_abi.h"
#include "base/macros.h"

static uint64_t aligned(uint64_t bytes) {
    return (bytes + KILN_KERNEL_ALIGNMENT - 1) / KILN_KERNEL_ALIGNMENT * KILN_KERNEL_ALIGNMENT;
}

static bool lives_meet(const kiln_memory_value *a, const kiln_memory_value *b) {
    return a->first_step <= b->last_step && b->first_step <= a->last_step;
}

/* ---- orders: which value takes its place first ----------------------------------------------- */

static int by_start(const kiln_memory_value *a, const kiln_memory_value *b) {
    return (a->first_step > b->first_step) - (a->first_step < b->first_step);
}

static int by_size(const kiln_memory_value *a, const kiln_memory_value *b) {
    return (b->size_bytes > a->size_bytes) - (b->size_bytes < a->size_bytes);
}

static int by_life(const kiln_memory_value *a, const kiln_memory_value *b) {
    uint32_t one = a->last_step - a->first_step, other = b->last_step - b->first_step;
    return (other > one) - (other < one);
}

static int by_area(const kiln_memory_value *a, const kiln_memory_value *b) {
    double one = (double)a->size_bytes * (a->last_step - a->first_step + 1.0);
    double other = (double)b->size_bytes * (b->last_step - b->first_step + 1.0);
    return (other > one) - (other < one);
}

typedef int (*compare)(const kiln_memory_value *a, const kiln_memory_value *b);
static const compare orders[] = {by_size, by_area, by_life, by_start};

/* Stable insertion keeps the plan the same everywhere. */
static void sort_values(const kiln_memory_value *value, uint32_t count, compare less,
                        uint32_t *out_order) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;
        for (; at > 0 && less(&value[out_order[at - 1]], &value[i]) > 0; at--)
            out_order[at] = out_order[at - 1];
        out_order[at] = i;
    }
}

/* ---- places ---------------------------------------------------------------------------------- */

/* The lowest place where `v` meets none of the placed ones that live at the same time. `placed` is
 * in order of offsets. */
static uint64_t lowest_place(const kiln_memory_value *value, const uint32_t *placed, uint32_t count,
                             const kiln_memory_value *v) {
    uint64_t offset = 0;
    for (uint32_t i = 0; i < count; i++) {
        const kiln_memory_value *other = &value[placed[i]];
        if (!lives_meet(v, other)) continue;
        if (other->offset >= offset + aligned(v->size_bytes))
            break; /* the gap before it is large enough */
        offset = KILN_MAX(offset, other->offset + aligned(other->size_bytes));
    }
    return offset;
}

static uint64_t place(kiln_memory_value *value, const uint32_t *order, uint32_t count,
                      uint32_t *placed) {
    uint64_t peak = 0;
    for (uint32_t i = 0; i < count; i++) {
        kiln_memory_value *v = &value[order[i]];
        v->offset = lowest_place(value, placed, i, v);
        peak = KILN_MAX(peak, v->offset + aligned(v->size_bytes));
        uint32_t at = i;
        for (; at > 0 && value[placed[at - 1]].offset > v->offset; at--)
            placed[at] = placed[at - 1];
        placed[at] = order[i];
    }
    return peak;
}

static uint64_t largest_live_set(const kiln_memory_value *value, uint32_t count) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < count; i++) { /* some value's first step is the worst */
        uint64_t live = 0;
        for (uint32_t k = 0; k < count; k++)
            if (value[k].first_step <= value[i].first_step &&
                value[i].first_step <= value[k].last_step)
                live += aligned(value[k].size_bytes);
        most = KILN_MAX(most, live);
    }
    return most;
}

kiln_memory_peak kiln_memory_plan(kiln_memory_value *value, uint32_t count, bool reuse,
                                  kiln_arena *scratch) {
    kiln_memory_peak peak = {.live_bytes = largest_live_set(value, count)};
    uint32_t *order = KILN_ARENA_ARRAY(scratch, uint32_t, count),
             *placed = KILN_ARENA_ARRAY(scratch, uint32_t, count);
    uint64_t *best = KILN_ARENA_ARRAY(scratch, uint64_t, count);
    for (uint32_t i = 0; i < count; i++) {
        best[i] = peak.value_bytes;
        peak.value_bytes += aligned(value[i].size_bytes);
    }
    peak.arena_bytes = peak.value_bytes;
    for (size_t o = 0; reuse && o < KILN_ARRAY_COUNT(orders); o++) {
        sort_values(value, count, orders[o], order);
        uint64_t bytes = place(value, order, count, placed);
        if (bytes >= peak.arena_bytes) continue;
        peak.arena_bytes = bytes;
        for (uint32_t i = 0; i < count; i++) best[i] = value[i].offset;
    }
    for (uint32_t i = 0; i < count; i++) value[i].offset = best[i];
    return peak;
}
