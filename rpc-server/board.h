/* Describes this board for its registration at the tracker. */
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
    const kiln_executor *executor; /* NULL: every one that artefacts name */
    double peak_flops;             /* of one core; goes into the labels */
    const char *emulator;          /* under which this program runs; NULL: none */
    uint32_t slots;                /* of the processor, or of each device; 0: one */
    /* Devices with a driver to offer instead of the processor; none: the processor is offered. */
    const kiln_found_device *device; /* [device_count] */
    uint32_t device_count;
    const char *const *also; /* [also_count] further targets to offer */
    uint32_t also_count;
    const char *builds;          /* codegen version of its compiler; NULL: it has none */
    const kiln_figures *figures; /* measured on its processor; NULL: none */
    bool remeasured;             /* a user asked to measure them again */
    const char *root; /* of /proc and /sys (rpc-server/discover.h); NULL: this machine's */
} kiln_board_options;

/* The board's name: `key`, or the host's name if that is NULL; cut to the size that messages carry.
 */
const char *kiln_board_name(const char *key, kiln_arena *arena);

/* BOARD_UP without `running` and `missing`. Adds the label `peak_gflops` and, on a board with a
 * compiler, `builds`. INVALID_ARGUMENT: a label is not k=v; a target in `also` does not parse, is
 * of the processor's kind, or has no executor here. */
KILN_MUST_USE kiln_status kiln_board_describe(const kiln_board_options *options, kiln_arena *arena,
                                              kiln_msg_board_up *out_board);

/* Restricts this process and all its children to the cores of one cluster, named by its cores or
 * "big" or "little". INVALID_ARGUMENT: no such cluster; the text lists those of this machine. */
KILN_MUST_USE kiln_status kiln_board_enter_cluster(const char *name, kiln_arena *arena);

/* A reading of this machine (rpc-server/discover.h). */
kiln_msg_env kiln_board_read_env(uint32_t core, kiln_arena *arena);

/* Cores that trials may use, the timing core first: this process' cores, highest first, because
 * systems put interrupts on the low ones and builders stay there. At least 1, at most `limit`. */
uint32_t kiln_board_cores(uint32_t *out_core, uint32_t limit);

#endif
