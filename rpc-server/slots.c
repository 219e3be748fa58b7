#include "rpc-server/slots.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/macros.h"

#define MEMORIES_MAX 64u
#define PATH_BYTES 512

static uint32_t memory_of(uint32_t core, const char *system) {
    char path[PATH_BYTES];
    for (uint32_t memory = 0; memory < MEMORIES_MAX; memory++) {
        int size = snprintf(path, sizeof path, "%s/cpu/cpu%u/node%u", system, core, memory);
        if (size > 0 && size < PATH_BYTES && kiln_file_exists(path)) return memory;
    }
    return 0;
}

/* A bit per memory at which the slot has cores. */
static uint64_t memories_of(const kiln_slot *slot, const char *system) {
    uint64_t memories = 0;
    for (uint32_t i = 0; i < slot->core_count; i++)
        memories |= UINT64_C(1) << memory_of(slot->core[i], system);
    return memories;
}

/* Records which of the earlier slots this slot disturbs. */
static void join(kiln_slots *slots, uint32_t slot, const char *system) {
    const uint64_t memories = memories_of(&slots->slot[slot], system);
    for (uint32_t other = 0; other < slot; other++) {
        if (!(memories & memories_of(&slots->slot[other], system))) continue;
        slots->disturbs[slot] |= 1U << other;
        slots->disturbs[other] |= 1U << slot;
    }
}

kiln_status kiln_slots_share(const uint32_t *core, uint32_t core_count, uint32_t count,
                             const char *system, kiln_slots *out_slots) {
    if (count == 0 || count > KILN_SERVER_SLOTS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "a board has 1 to %u slots, not %u",
                          KILN_SERVER_SLOTS_MAX, count);
    if (count > core_count)
        return KILN_ERROR(INVALID_ARGUMENT, "%u slots need as many cores, and there are %u", count,
                          core_count);
    const uint32_t each = core_count / count;
    *out_slots = (kiln_slots){.count = count, .shared_count = count};
    for (uint32_t i = 0; i < count; i++) {
        kiln_slot *slot = &out_slots->slot[i];
        slot->kind = KILN_TARGET_CPU;
        for (uint32_t k = 0; k < each; k++) slot->core[slot->core_count++] = core[i * each + k];
        join(out_slots, i, system);
    }
    return NULL;
}

kiln_status kiln_slots_add(kiln_slots *slots, kiln_target_kind kind, const char *system) {
    if (slots->count == KILN_SERVER_SLOTS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "a board has at most %u slots, of all its targets",
                          KILN_SERVER_SLOTS_MAX);
    const kiln_slot *last = &slots->slot[slots->shared_count - 1];
    slots->slot[slots->count] =
        (kiln_slot){.kind = kind, .core_count = 1, .core = {last->core[last->core_count - 1]}};
    join(slots, slots->count++, system);
    return NULL;
}

kiln_status kiln_slots_of_devices(const kiln_slot_devices *devices, const uint32_t *core,
                                  uint32_t core_count, kiln_slots *out_slots) {
    if (devices->slots > KILN_SERVER_SLOTS_MAX / KILN_MAX(devices->count, 1))
        return KILN_ERROR(RESOURCE_EXHAUSTED, "a board has at most %u slots, of all its targets",
                          KILN_SERVER_SLOTS_MAX);
    const uint32_t count = devices->count * devices->slots;
    *out_slots = (kiln_slots){.count = count, .shared_count = 1};
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t of = i / devices->slots;
        kiln_slot *slot = &out_slots->slot[i];
        *slot = (kiln_slot){
            devices->target[of].kind, &devices->target[of], devices->device[of], core_count, {0}};
        for (uint32_t k = 0; k < core_count; k++) slot->core[k] = core[k];
        for (uint32_t other = 0; other < count; other++)
            if (other != i) out_slots->disturbs[i] |= 1U << other;
    }
    return NULL;
}

uint32_t kiln_slots_cores(const kiln_slots *slots, uint32_t slot, uint32_t threads,
                          uint32_t out_core[KILN_EXECUTOR_CORES_MAX]) {
    const kiln_slot *own = &slots->slot[slot];
    if (own->target) { /* the driver decides which of them it uses */
        for (uint32_t i = 0; i < own->core_count; i++) out_core[i] = own->core[i];
        return own->core_count;
    }
    const bool shares = slot < slots->shared_count;
    uint32_t count = 0;
    for (uint32_t i = 0; i < (shares ? slots->shared_count : 1); i++) {
        const kiln_slot *from = &slots->slot[shares ? (slot + i) % slots->shared_count : slot];
        for (uint32_t k = 0; k < from->core_count && count < KILN_MAX(threads, 1); k++)
            out_core[count++] = from->core[k];
    }
    return count;
}

/* Cores of this process on which nothing is timed. */
static cpu_set_t spare_cores(const kiln_slots *slots) {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (uint32_t i = 0; i < slots->shared_count; i++) CPU_CLR(slots->slot[i].core[0], &set);
    return set;
}

uint32_t kiln_slots_spare_cores(const kiln_slots *slots) {
    const cpu_set_t set = spare_cores(slots);
    return (uint32_t)CPU_COUNT(&set);
}

uint64_t kiln_slots_memory_share(uint32_t slots) {
    const uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return all / 4 * 3 / slots;
}

void kiln_slots_leave(const kiln_slots *slots) {
    const cpu_set_t set = spare_cores(slots);
    if (CPU_COUNT(&set) > 0 && sched_setaffinity(0, sizeof set, &set) != 0)
        kiln_log(KILN_LOG_DEBUG, "cannot leave the measuring cores");
}
