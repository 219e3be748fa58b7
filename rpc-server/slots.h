/* Slots: each runs one trial at a time, on cores of its own, and times on the first of them.
 * The rule of timing: two slots disturb each other when they share a memory (a NUMA node), because
 * then they share its bandwidth, the last cache before it and mostly the clock. Slots that disturb
 * each other link and compare outputs at the same time, but time one after the other, and nothing
 * is linked while one times (rpc-server/server.h). So slots beyond one per memory keep a board
 * busier without making its times worse. */
#ifndef KILN_RPC_SERVER_SLOTS_H
#define KILN_RPC_SERVER_SLOTS_H

#include <stdint.h>

#include "base/status.h"
#include "base/target.h"
#include "rpc-server/executor.h"
#include "rpc-server/server.h"

typedef struct kiln_slot {
    kiln_target_kind kind;     /* of the artefacts that run here */
    const kiln_target *target; /* of a device with a driver; NULL: a slot without one */
    uint32_t device;           /* number of the device among its kind */
    uint32_t core_count;       /* at least 1 */
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
} kiln_slot;

typedef struct kiln_slots {
    uint32_t count;
    uint32_t shared_count; /* the first ones: slots of the processor, which share its cores */
    kiln_slot slot[KILN_SERVER_SLOTS_MAX];
    uint32_t disturbs[KILN_SERVER_SLOTS_MAX]; /* a bit per other slot */
} kiln_slots;

/* Divides cores among `count` slots in order, the same number each; the remainder belongs to none.
 * `system`: the folder that says which core is at which memory, /sys/devices/system; without
 * entries there, all cores are at one memory. INVALID_ARGUMENT: more slots than cores, or than
 * KILN_SERVER_SLOTS_MAX. */
KILN_MUST_USE kiln_status kiln_slots_share(const uint32_t *core, uint32_t core_count,
                                           uint32_t count, const char *system,
                                           kiln_slots *out_slots);
/* Adds a slot of another device of this machine, for targets of `kind`. It gets one core, the last
 * of all, to drive the device from; the cores of the other slots stay the same. If that core shares
 * a memory with other slots they time one after the other, so that measuring on a device disturbs
 * no time of the processor. RESOURCE_EXHAUSTED: there are KILN_SERVER_SLOTS_MAX. */
KILN_MUST_USE kiln_status kiln_slots_add(kiln_slots *slots, kiln_target_kind kind,
                                         const char *system);
/* Devices with drivers that a server offers in place of the processor. */
typedef struct kiln_slot_devices {
    const kiln_target *target; /* [count] */
    const uint32_t *device;    /* [count]: number among its kind */
    uint32_t count;
    uint32_t slots; /* of each */
} kiln_slot_devices;

/* Makes `slots` slots for each device. Each has all cores, because a driver's threads run on them,
 * so all of them disturb each other: children of several slots of one device translate candidates
 * at the same time and then time one after the other. RESOURCE_EXHAUSTED: more than
 * KILN_SERVER_SLOTS_MAX. */
KILN_MUST_USE kiln_status kiln_slots_of_devices(const kiln_slot_devices *devices,
                                                const uint32_t *core, uint32_t core_count,
                                                kiln_slots *out_slots);
/* The cores for a kernel of `threads` threads in `slot`: those of the slot, or, if the kernel has
 * more threads, those of all slots, beginning with the slot's: the tracker leases the whole board
 * to such a kernel. Returns how many; at least 1. A slot added with kiln_slots_add only gets its
 * own core. */
uint32_t kiln_slots_cores(const kiln_slots *slots, uint32_t slot, uint32_t threads,
                          uint32_t out_core[KILN_EXECUTOR_CORES_MAX]);
/* How many cores this process may use on which nothing is timed. */
uint32_t kiln_slots_spare_cores(const kiln_slots *slots);
/* Memory that the child of a slot may use: three quarters of the machine's, divided among `slots`.
 */
uint64_t kiln_slots_memory_share(uint32_t slots);
/* Moves this process, its later threads and its children (until they are pinned) off the cores that
 * are timed on, if there are other cores. */
void kiln_slots_leave(const kiln_slots *slots);

#endif
