/* Contained children as processes: each the leader of a group of its own, in a control group of its
 * own where there can be some; one that has no file system of its own gets an empty folder that
 * goes away with it. A spare waits ready, so that starting a process does not cost measuring time.
 * Children are copies of a zygote, or, where a process cannot copy itself so (under an emulator, or
 * a sanitizer), each loads the program. What they are told to do is cage.c's affair. One thread. */
#ifndef KILN_RPC_SERVER_WARD_H
#define KILN_RPC_SERVER_WARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/child.h"
#include "rpc-server/cgroup.h"
#include "rpc-server/zygote.h"

/* Where children come from. */
typedef struct kiln_wards {
    const char *program, *folder; /* of the caller */
    const char *emulator;         /* that the program runs under; NULL: none */
    uint64_t memory_max;          /* of one child, where that can be bound; 0: any */
    kiln_zygote zygote;
    bool copies; /* whether children are the zygote's copies */
    kiln_child spare;
    kiln_cgroups cgroups;
    kiln_cgroup spare_cgroup;
    uint32_t fences; /* bit per kiln_fence that holds for children here */
} kiln_wards;

/* Zeroed but for the descriptors: none. */
#define KILN_WARD_NONE ((kiln_ward){.child = {.in_fd = -1}, .pidfd = -1, .folder_fd = -1})

typedef struct kiln_ward {
    kiln_child child; /* in_fd: the socket of rpc-server/talk.h */
    pid_t group;      /* outlives child.pid, which is 0 once reaped */
    int pidfd;        /* readable when the child has ended */
    int folder_fd;    /* -1: it has files of its own */
    char *folder;
    kiln_cgroup cgroup;
} kiln_ward;

/* Empties the folder of what an earlier server left, starts the first spare and waits until it is
 * ready. Makes this process the parent of what its children leave behind. PERMISSION_DENIED,
 * RESOURCE_EXHAUSTED: the folder; NOT_FOUND: the program. */
KILN_MUST_USE kiln_status kiln_wards_open(kiln_wards *wards);
/* Ends the spare and removes the folder. Accepts one that was not opened. */
void kiln_wards_close(kiln_wards *wards);
/* The next spare, unless one waits. What a machine refuses now it may allow later: the next call
 * tries again, and a trial that finds none starts its own, or says why not. */
void kiln_wards_refill(kiln_wards *wards);

/* The spare, or a new child, in `*out_ward`, which is released by the caller whatever comes.
 * `arena` keeps the folder's name. RESOURCE_EXHAUSTED, PERMISSION_DENIED: this machine's fault. */
KILN_MUST_USE kiln_status kiln_ward_take(kiln_wards *wards, uint64_t run, kiln_arena *arena,
                                         kiln_ward *out_ward);
/* Binds it to these cores, where that can be done from outside. */
void kiln_ward_keep_to(const kiln_ward *ward, const uint32_t *core, uint32_t core_count);
/* Kills all of it; it is gone when kiln_ward_is_gone says so. */
void kiln_ward_kill(const kiln_ward *ward);
/* Whether the child ended and was reaped; then `*out_exit` says how. */
bool kiln_ward_ended(kiln_ward *ward, kiln_child_exit *out_exit);
/* Whether no process is left of the group, nor of its control group. */
bool kiln_ward_is_gone(const kiln_ward *ward);
/* Kills and reaps what is left, closes, removes the folder. Accepts KILN_WARD_NONE, and twice. */
void kiln_ward_release(kiln_ward *ward);

#endif
