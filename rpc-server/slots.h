/* Slots: places for one trial each. Every slot has cores of its own, the first of which it times
 * on.
 *
 * The rule of timing: two slots disturb each other when they share a memory (a NUMA node), because
 * then they share what makes a time: the bandwidth to it, the last cache before it, mostly the
 * clock. Slots that disturb each other link and judge side by side but time one after the other,
 * and nothing is linked while one times (rpc-server/server.h keeps to that). So more slots than
 * memories make a board that is busier, never one whose times are worse. */
#ifndef KILN_RPC_SERVER_SLOTS_H
#define KILN_RPC_SERVER_SLOTS_H

#include <stdint.h>

#include "base/status.h"
#include "base/target.h"
#include "rpc-server/executor.h"
#include "rpc-server/server.h"

typedef struct kiln_slot {
    kiln_target_kind kind;     /* of the artefacts that run here */
    const kiln_target *target; /* of a device with a driver; NULL: of none */
    uint32_t device;           /* which one it is */
    uint32_t core_count;       /* at least 1 */
    uint32_t core[KILN_EXECUTOR_CORES_MAX];
} kiln_slot;

typedef struct kiln_slots {
    uint32_t count;
    uint32_t shared_count; /* of these, the first: those of the processor, which share its cores */
    kiln_slot slot[KILN_SERVER_SLOTS_MAX];
    uint32_t disturbs[KILN_SERVER_SLOTS_MAX]; /* a bit per other slot */
} kiln_slots;

/* Shares cores out to `count` slots, as many to each, in their order; what is left over belongs to
 * none. `system`: the folder that says which core is at which memory, /sys/devices/system; where it
 * does not, all are at one. INVALID_ARGUMENT: more slots than cores, or than there may be. */
KILN_MUST_USE kiln_status kiln_slots_share(const uint32_t *core, uint32_t core_count,
                                           uint32_t count, const char *system,
                                           kiln_slots *out_slots);
/* Adds a slot of another device of the machine, of targets of `kind`: one core to talk to it from,
 * the last of all, so that the cores of the other slots are what they were. Where its memory is
 * theirs it takes turns with them like any slot, so that measuring on a device disturbs no time of
 * the processor. RESOURCE_EXHAUSTED: there are KILN_SERVER_SLOTS_MAX. */
KILN_MUST_USE kiln_status kiln_slots_add(kiln_slots *slots, kiln_target_kind kind,
                                         const char *system);
/* Devices with drivers that a server offers in place of the processor. */
typedef struct kiln_slot_devices {
    const kiln_target *target; /* [count] */
    const uint32_t *device;    /* [count]: which of their kind */
    uint32_t count;
    uint32_t slots; /* of each */
} kiln_slot_devices;

/* Their slots: `slots` for each of them, with all cores, on which a driver's threads run; so they
 * take turns. Children of several slots of one device translate candidates at once, and then time
 * one after the other. RESOURCE_EXHAUSTED: more than KILN_SERVER_SLOTS_MAX. */
KILN_MUST_USE kiln_status kiln_slots_of_devices(const kiln_slot_devices *devices,
                                                const uint32_t *core, uint32_t core_count,
                                                kiln_slots *out_slots);
/* The cores for a kernel of `threads` threads in `slot`: those of the slot, or, when it wants more,
 * those of all, the slot's first: the tracker leases such a kernel the whole board. Returns how
 * many; at least 1. Slots that were added have theirs alone. */
uint32_t kiln_slots_cores(const kiln_slots *slots, uint32_t slot, uint32_t threads,
                          uint32_t out_core[KILN_EXECUTOR_CORES_MAX]);
/* How many cores this process may use that nothing is timed on. */
uint32_t kiln_slots_spare_cores(const kiln_slots *slots);
/* Keeps this process, the threads it starts from now on and its children until they are pinned off
 * the cores that are timed on, where there are others. */
void kiln_slots_leave(const kiln_slots *slots);

#endif
