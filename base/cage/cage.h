/* Work on hostile input (models, tensors) without rights.
 *
 * `kiln_cage_run` is for programs that read a file: the work is done in a child process that can
 * compute and give back bytes, and nothing else. `kiln_cage_shut` is for programs that are such a
 * child from their start on (a tuner's workers). In a cage there are no files, no network, no other
 * programs, no descriptors and no environment of the parent; memory and processor time are bounded.
 * Rights that the platform cannot take away (no seccomp) are left out: descriptors run out instead.
 *
 * Not for what runs on boards: rpc-server/sandbox.h has machine code to contain. */
#ifndef KILN_BASE_CAGE_CAGE_H
#define KILN_BASE_CAGE_CAGE_H

#include "base/arena.h"
#include "base/file.h"
#include "base/status.h"
#include "base/str.h"

#define KILN_CAGE_MEMORY_BYTES ((uint64_t)4 << 30) /* unless --model-memory says otherwise */
#define KILN_CAGE_CPU_S 600u /* processor time; the largest models take a minute */

typedef struct kiln_cage_limits {
    uint64_t
        memory_bytes; /* of data (not of what is mapped from files); 0: KILN_CAGE_MEMORY_BYTES */
    uint32_t cpu_s;   /* 0: KILN_CAGE_CPU_S */
} kiln_cage_limits;

/* What a caged function gives back: the parts one after the other. */
typedef struct kiln_cage_result {
    uint32_t part_count;
    const kiln_str *part;
} kiln_cage_result;

typedef struct kiln_cage_work {
    const char *what; /* "reading m.onnx": what its errors say */
    /* Runs in the child, which has a copy of the caller's memory. `arena` lasts until the result
     * has been written. Nothing that it changes is seen by the caller. */
    kiln_status (*run)(void *context, kiln_arena *arena, kiln_cage_result *out_result);
    void *context;
    const char *folder; /* kiln_cage_open opens files below it; NULL: none */
    kiln_cage_limits limits;
} kiln_cage_work;

/* Runs the work in a child and waits for it; the caller has one thread, or none of the others holds
 * a lock that the work needs. `*out_result` is a mapping of the bytes that the work gave back,
 * which the caller ends. Its own status is returned as it is. RESOURCE_EXHAUSTED: more memory than
 * allowed, or no process can be had. DEADLINE_EXCEEDED: more processor time. INTERNAL: it died; the
 * text says of which signal. */
KILN_MUST_USE kiln_status kiln_cage_run(const kiln_cage_work *work, kiln_mapping *out_result);

/* In a caged function: a file below the work's folder, opened by the parent; errors of
 * kiln_file_open_inside. */
KILN_MUST_USE kiln_status kiln_cage_open(const char *path, int *out_fd, size_t *out_size);

typedef enum kiln_cage_profile {
    KILN_CAGE_PARSE,   /* one thread that computes */
    KILN_CAGE_COMPILE, /* also makes code and runs it, on several threads */
} kiln_cage_profile;

/* Gives up this process's rights for good: root's user and groups, new privileges, the environment,
 * all descriptors above `keep_fd_max`, files to write, other processes, outliving its parent, core
 * dumps, memory and time beyond `limits`, and (where there is seccomp) all system calls that the
 * profile does not need. What is not allowed fails with EPERM. INTERNAL: the platform refuses
 * something that it has; the process must end then. */
KILN_MUST_USE kiln_status kiln_cage_shut(kiln_cage_profile profile, int keep_fd_max,
                                         const kiln_cage_limits *limits);

#endif
