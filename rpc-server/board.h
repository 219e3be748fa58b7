/* What a board says about itself when it registers. */
#ifndef KILN_RPC_SERVER_BOARD_H
#define KILN_RPC_SERVER_BOARD_H

#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "proto/proto.h"
#include "rpc-server/find_device.h"

typedef struct kiln_board_options {
    const char *key;               /* NULL: the host's name */
    const char *labels;            /* "k=v,..."; NULL: none */
    const kiln_executor *executor; /* NULL: all that an artefact can ask for */
    double peak_flops;             /* of one core; goes into the labels */
    const char *emulator;          /* that this program runs under; NULL: none */
    uint32_t slots; /* of this machine's processor, or of each device below; 0: one */
    /* Devices with a driver that are offered in place of the processor; none: it is offered. */
    const kiln_found_device *device; /* [device_count] */
    uint32_t device_count;
    const char *const *also; /* [also_count] targets that are offered beside it */
    uint32_t also_count;
    const char *builds;          /* codegen version with which it builds; NULL: it does not */
    const kiln_figures *figures; /* measured of its processor; NULL: none */
    bool remeasured;             /* these are new, as a person asked */
    const char *root; /* of /proc and /sys (rpc-server/discover.h); NULL: this machine's */
} kiln_board_options;

/* Its name: `key`, or the host's where that is NULL; cut to what messages carry. */
const char *kiln_board_name(const char *key, kiln_arena *arena);

/* BOARD_UP without `running` and `missing`. The labels `peak_gflops` and, of one that builds,
 * `builds` are added to the given ones. INVALID_ARGUMENT: a label is not k=v; a target in `also`
 * does not parse, is of the processor's kind, or of one that this server has no executor for. */
KILN_MUST_USE kiln_status kiln_board_describe(const kiln_board_options *options, kiln_arena *arena,
                                              kiln_msg_board_up *out_board);

/* Keeps this process, what it starts and what is measured on the cores of one cluster of the
 * machine, by the name of its cores or "big" or "little". INVALID_ARGUMENT: no such cluster; says
 * which there are. */
KILN_MUST_USE kiln_status kiln_board_enter_cluster(const char *name, kiln_arena *arena);

/* A reading of this machine (rpc-server/discover.h). */
kiln_msg_env kiln_board_read_env(uint32_t core, kiln_arena *arena);

/* Cores that trials may use, the measuring one first: the process' own, highest first, because
 * systems put their interrupts on the low ones and builders stay there. At least 1, at most
 * `limit`. */
uint32_t kiln_board_cores(uint32_t *out_core, uint32_t limit);

#endif
