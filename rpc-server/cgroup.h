/* Control groups (version 2), one per contained child: all its processes can be killed at once and
 * are bounded together. Used where this process may make groups below its own (systemd:
 * Delegate=yes; root). Whether a bound holds is tried, not assumed. For rpc-server/helper_serve.c.
 * One thread. */
#ifndef KILN_RPC_SERVER_CGROUP_H
#define KILN_RPC_SERVER_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define KILN_CGROUP_PATH_BYTES 512u
/* Limit per child: its threads, the process that waits for it, and a reserve. */
#define KILN_CGROUP_PIDS (64u + 8u)

/* The server's group, which contains those of its children. */
typedef struct kiln_cgroups {
    char folder[KILN_CGROUP_PATH_BYTES]; /* empty: there is none */
    int lock_fd;                         /* locked while this server lives */
    uint32_t fences;                     /* a bit per kiln_fence that holds */
    uint64_t memory_max;
    uint64_t last;
} kiln_cgroups;

typedef struct kiln_cgroup {
    char folder[KILN_CGROUP_PATH_BYTES]; /* empty: there is none */
} kiln_cgroup;

/* Finds the folder of this process' group. `root`: the folder of /proc; empty for this machine.
 * False without groups of version 2. */
bool kiln_cgroup_find(const char *root, char out_folder[KILN_CGROUP_PATH_BYTES]);
/* Moves this process, a launcher, into a group of its own below its present one, which its children
 * share. kiln_cgroup_find gives the one above, so that servers make their groups there and no
 * process is left in it. Does nothing where the system refuses. */
void kiln_cgroup_enter_launcher(void);
/* Makes the server's group in `parent`, removes groups of servers that have ended, and tries which
 * bounds hold. A group with processes cannot pass bounds on to its children; if `parent` contains
 * this process it moves into a group of its own, with process `also` (0: none). `memory_max`: bytes
 * per child, 0: no limit. If the system refuses, later calls do nothing; close it all the same. */
void kiln_cgroups_open(kiln_cgroups *groups, const char *parent, uint64_t memory_max, pid_t also);
/* Kills and removes what is left. */
void kiln_cgroups_close(kiln_cgroups *groups);

/* Makes a new group with all bounds, or an empty one if the system refuses. */
void kiln_cgroup_create(kiln_cgroups *groups, kiln_cgroup *out_group);
/* Sets the bounds that the group's controllers offer. */
void kiln_cgroup_bind(const kiln_cgroup *group, uint64_t memory_max);
/* Restricts the group to these cores, if its controllers allow it. */
void kiln_cgroup_keep_to(const kiln_cgroup *group, const uint32_t *core, uint32_t core_count);
void kiln_cgroup_kill(const kiln_cgroup *group);
/* Whether the group has no processes. */
bool kiln_cgroup_is_empty(const kiln_cgroup *group);
/* Kills and removes the group; accepts an empty one. */
void kiln_cgroup_destroy(kiln_cgroup *group);

/* Child: enters the group at `folder`, before it starts other processes. */
bool kiln_cgroup_enter(const char *folder);

#endif
