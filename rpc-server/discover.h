/* Reads what /proc and /sys say about a machine. All paths are below a root: "" on a machine, a
 * folder of such files in tests. Values that cannot be read are left out; nothing here fails. */
#ifndef KILN_RPC_SERVER_DISCOVER_H
#define KILN_RPC_SERVER_DISCOVER_H

#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "proto/proto.h"

#define KILN_MACHINE_CORES_MAX 256
#define KILN_MACHINE_CLUSTERS_MAX 4

/* Cores of one kind. */
typedef struct kiln_cluster {
    kiln_str cpu;       /* LLVM's name of the core, "cortex-a72"; empty: unknown */
    uint64_t clock_khz; /* the highest; 0: unknown */
    uint32_t core_count;
    uint32_t core[KILN_MACHINE_CORES_MAX]; /* ascending */
} kiln_cluster;

typedef struct kiln_machine {
    kiln_str model; /* "Raspberry Pi 4 Model B Rev 1.4", or the processor's name */
    /* The slowest first. Kinds that do not fit are added to the last one. */
    uint32_t cluster_count;
    kiln_cluster cluster[KILN_MACHINE_CLUSTERS_MAX];
    uint64_t l1_bytes, l2_bytes, l3_bytes, line_bytes; /* of a core of the last cluster */
    uint64_t memory_bytes;
    kiln_str governor; /* of the last cluster */
    kiln_str kernel;   /* release */
    kiln_str libc;     /* "glibc arm64", "bionic arm64", "musl amd64": of this machine's programs */
    uint32_t zones;    /* thermal zones that can be read */
    uint32_t throttle_bits; /* of a Raspberry Pi's firmware: now (0xf), and since boot (0xf0000) */
} kiln_machine;

/* Reads /proc and /sys below `root` ("" for this machine). Values that are not found stay zero. */
void kiln_machine_discover(const char *root, kiln_arena *arena, kiln_machine *out_machine);
/* "cortex-a53:0-3@1800,cortex-a73:4-7@2400": clusters, their cores and their clocks in MHz. */
void kiln_machine_print_clusters(const kiln_machine *machine, kiln_strbuf *out);
/* Finds the cluster `name` (a core's name; "big" is the last, "little" the first); NULL: none. */
const kiln_cluster *kiln_machine_find_cluster(const kiln_machine *machine, kiln_str name);

/* The machine's facts for BOARD_UP (rpc-server/facts.def), in `arena`; at most KILN_MESSAGES_FACTS.
 */
uint32_t kiln_machine_facts(const kiln_machine *machine, kiln_arena *arena,
                            kiln_msg_label **out_facts);

/* Reads the current state: clock of `core`, the hottest thermal zone, load, throttling (the
 * thermal_throttle counter of x86; the current bits of a Raspberry Pi's get_throttled). Costs some
 * file reads. */
kiln_msg_env kiln_machine_read_env(const char *root, uint32_t core, kiln_arena *arena);

#endif
