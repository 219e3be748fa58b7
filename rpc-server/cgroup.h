/* Control groups (version 2) of contained children, one for each: what is in it can be killed as
 * one, wherever it went, and all of it together is bounded. Used where this process may make groups
 * below its own (systemd: Delegate=yes; root); whether a bound holds is tried, not assumed. For
 * rpc-server/child_process.c. One thread. */
#ifndef KILN_RPC_SERVER_CGROUP_H
#define KILN_RPC_SERVER_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define KILN_CGROUP_PATH_BYTES 512u
/* Of a child: its threads, the process that guards it, and some room. */
#define KILN_CGROUP_PIDS (64u + 8u)

/* The server's own group, which those of its children lie in. */
typedef struct kiln_cgroups {
    char folder[KILN_CGROUP_PATH_BYTES]; /* empty: there is none */
    int lock_fd;                         /* says that its server lives */
    uint32_t fences;                     /* bit per kiln_fence that was seen to hold */
    uint64_t memory_max;
    uint64_t last;
} kiln_cgroups;

typedef struct kiln_cgroup {
    char folder[KILN_CGROUP_PATH_BYTES]; /* empty: there is none */
} kiln_cgroup;

/* Folder of the group that this process is in. `root`: where /proc is; empty for this machine's.
 * False where there is none of version 2. */
bool kiln_cgroup_find(const char *root, char out_folder[KILN_CGROUP_PATH_BYTES]);
/* Makes the server's own group in `parent`, removes those of servers that are gone, and tries what
 * holds. When the parent's bounds cannot be handed on because this process is in it, it moves into
 * a group beside its children, with process `also` (0: none). `memory_max`: bytes for each child,
 * 0: any. Nothing works afterwards where it is refused; close it all the same. */
void kiln_cgroups_open(kiln_cgroups *groups, const char *parent, uint64_t memory_max, pid_t also);
/* Kills and removes what is left. */
void kiln_cgroups_close(kiln_cgroups *groups);

/* A new group with all bounds; empty where there can be none. */
void kiln_cgroup_create(kiln_cgroups *groups, kiln_cgroup *out_group);
/* Sets the bounds that there are. */
void kiln_cgroup_bind(const kiln_cgroup *group, uint64_t memory_max);
/* Only these cores, where that can be bound. */
void kiln_cgroup_keep_to(const kiln_cgroup *group, const uint32_t *core, uint32_t core_count);
void kiln_cgroup_kill(const kiln_cgroup *group);
/* Whether no process is in it. */
bool kiln_cgroup_is_empty(const kiln_cgroup *group);
/* Kills, and removes it; accepts an empty one. */
void kiln_cgroup_destroy(kiln_cgroup *group);

/* Child: goes into the group at `folder`, before it starts any other. */
bool kiln_cgroup_enter(const char *folder);

#endif
