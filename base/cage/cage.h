/* Work on hostile input (models, tensors) without rights.
 *
 * `kiln_cage_run` is for programs that read or compile a file: the work is done in a child process
 * that can compute, ask what its caller answers, show and give back bytes, and nothing else.
 * `kiln_cage_shut` is for programs that are such a
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
#define KILN_SUPERVISOR_CPU_S 600u /* processor time; the largest models take a minute */

typedef struct kiln_cage_limits {
    uint64_t
        memory_bytes; /* of data (not of what is mapped from files); 0: KILN_CAGE_MEMORY_BYTES */
    uint32_t cpu_s;   /* 0: KILN_SUPERVISOR_CPU_S */
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
    /* In the caller's process: answers kiln_cage_ask. Questions may be of a hijacked child. NULL:
     * nothing is answered. */
    kiln_status (*answer)(void *context, kiln_str question, kiln_strbuf *out_answer);
    /* In the caller's process: answers kiln_cage_show. The bytes are gone afterwards, and may
     * change while they are read. NULL: nothing can be shown. */
    kiln_status (*look)(void *context, kiln_str bytes, kiln_strbuf *out_answer);
    uint32_t step_s; /* that one step (kiln_cage_step) may last, by the clock; 0: any */
    /* There is no child: everything happens in kiln_cage_finish. For debuggers and valgrind, which
     * a process without rights does not let work. */
    bool uncaged;
    kiln_cage_limits limits;
} kiln_cage_work;

typedef struct kiln_cage kiln_cage;

/* Starts a child that has the caller's memory as it is now, and waits without rights for
 * kiln_cage_finish. What the caller opens or learns in between the child does not see. The caller
 * has one thread, or none of the others holds a lock that the work needs. `work` stays until the
 * end. RESOURCE_EXHAUSTED: no process can be had. */
KILN_MUST_USE kiln_status kiln_cage_start(const kiln_cage_work *work, kiln_cage **out_cage);
/* Runs the work, waits for its end, and frees the cage. `*out_result` is a mapping of the bytes
 * that the work gave back, which the caller ends. Its own status is returned as it is.
 * RESOURCE_EXHAUSTED: more memory than allowed. DEADLINE_EXCEEDED: more time. INTERNAL: it died;
 * the text says of which signal, and in which step. */
KILN_MUST_USE kiln_status kiln_cage_finish(kiln_cage *cage, kiln_mapping *out_result);
/* Ends one that is not wanted any more. NULL is fine. */
void kiln_cage_cancel(kiln_cage *cage);
/* Start and finish. */
KILN_MUST_USE kiln_status kiln_cage_run(const kiln_cage_work *work, kiln_mapping *out_result);

/* In a caged function: a file below the work's folder, opened by the parent; errors of
 * kiln_file_open_inside. */
KILN_MUST_USE kiln_status kiln_cage_open(const char *path, int *out_fd, size_t *out_size);
/* In a caged function: what `answer` says to a text of less than 16 KiB, or its error. The answer
 * lasts as long as `arena`. */
KILN_MUST_USE kiln_status kiln_cage_ask(const kiln_cage_work *work, const char *question,
                                        kiln_arena *arena, kiln_str *out_answer);
/* In a caged function: what `look` says to the parts, one after the other, or its error. */
KILN_MUST_USE kiln_status kiln_cage_show(const kiln_cage_work *work, const kiln_cage_result *what,
                                         kiln_arena *arena, kiln_str *out_answer);
/* In a caged function: a step of the work begins, "kernel conv2d". When the work dies or takes too
 * much, the error names the step. */
void kiln_cage_step(const kiln_cage_work *work, const char *name);

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
