/* Does work on hostile input (models, tensors) in processes without rights.
 *
 * `kiln_isolated_run` is for programs that read or compile a file: a child process does the work,
 * which can only compute, ask its caller questions, show it bytes, and return bytes.
 * `kiln_isolated_drop_rights` is for programs that are such a child from their start (a tuner's
 * workers). An isolated process has no files, no network, no other programs, and no descriptors or
 * environment of the parent; its memory and processor time are bounded. Without seccomp, the limit
 * of descriptors alone prevents opening files.
 *
 * Not for candidates on boards, which are machine code (rpc-server/sandbox.h). */
#ifndef KILN_BASE_ISOLATED_ISOLATED_H
#define KILN_BASE_ISOLATED_ISOLATED_H

#include "base/arena.h"
#include "base/file.h"
#include "base/status.h"
#include "base/str.h"

#define KILN_ISOLATED_MEMORY_BYTES ((uint64_t)4 << 30) /* unless --model-memory says otherwise */
#define KILN_ISOLATED_CPU_S 600u /* processor time; the largest models take a minute */

typedef struct kiln_isolated_limits {
    uint64_t memory_bytes; /* of data (not of what is mapped from files); 0:
                              KILN_ISOLATED_MEMORY_BYTES */
    uint32_t cpu_s;        /* 0: KILN_ISOLATED_CPU_S */
} kiln_isolated_limits;

/* The result of an isolated function: the concatenated parts. */
typedef struct kiln_isolated_result {
    uint32_t part_count;
    const kiln_str *part;
} kiln_isolated_result;

typedef struct kiln_isolated_work {
    const char *what; /* begins error texts: "reading m.onnx" */
    /* Runs in the child, on a copy of the caller's memory, so the caller sees no changes. `arena`
     * lasts until the result is written. */
    kiln_status (*run)(void *context, kiln_arena *arena, kiln_isolated_result *out_result);
    void *context;
    const char *folder; /* kiln_isolated_open opens files below it; NULL: none */
    /* Called in the caller's process: answers kiln_isolated_ask. Do not trust the question: the
     * child may be hijacked. NULL: no questions. */
    kiln_status (*answer)(void *context, kiln_str question, kiln_strbuf *out_answer);
    /* Called in the caller's process: answers kiln_isolated_show. The bytes are valid during the
     * call, and may change meanwhile. NULL: nothing can be shown. */
    kiln_status (*look)(void *context, kiln_str bytes, kiln_strbuf *out_answer);
    uint32_t step_s; /* limit of a step (kiln_isolated_step), by the clock; 0: none */
    /* No child: the work runs in kiln_isolated_finish. For debuggers and valgrind, which need
     * rights. */
    bool in_process;
    kiln_isolated_limits limits;
} kiln_isolated_work;

typedef struct kiln_isolated_process kiln_isolated_process;

/* Forks a child with the caller's current memory, which drops its rights and waits for
 * kiln_isolated_finish. It does not see what the caller opens or reads after this call. No other
 * thread of the caller may hold a lock that the work needs. `work` must last until the end.
 * RESOURCE_EXHAUSTED: no process can be started. */
KILN_MUST_USE kiln_status kiln_isolated_start(const kiln_isolated_work *work,
                                              kiln_isolated_process **out_process);
/* Runs the work, waits for its end, and frees the process. `*out_result` is a mapping of the
 * returned bytes, which the caller unmaps. Returns the work's own status. RESOURCE_EXHAUSTED: it
 * needed more memory than allowed. DEADLINE_EXCEEDED: more time. INTERNAL: it died; the text names
 * the signal and the step. */
KILN_MUST_USE kiln_status kiln_isolated_finish(kiln_isolated_process *process,
                                               kiln_mapping *out_result);
/* Ends the process without running the work. NULL is fine. */
void kiln_isolated_cancel(kiln_isolated_process *process);
/* Start and finish. */
KILN_MUST_USE kiln_status kiln_isolated_run(const kiln_isolated_work *work,
                                            kiln_mapping *out_result);

/* In an isolated function: opens a file below the work's folder through the parent. Errors of
 * kiln_file_open_inside. */
KILN_MUST_USE kiln_status kiln_isolated_open(const char *path, int *out_fd, size_t *out_size);
/* In an isolated function: returns the reply of `answer` to a text below 16 KiB, in `arena`, or its
 * error. */
KILN_MUST_USE kiln_status kiln_isolated_ask(const kiln_isolated_work *work, const char *question,
                                            kiln_arena *arena, kiln_str *out_answer);
/* In an isolated function: returns the reply of `look` to the concatenated parts, or its error. */
KILN_MUST_USE kiln_status kiln_isolated_show(const kiln_isolated_work *work,
                                             const kiln_isolated_result *what, kiln_arena *arena,
                                             kiln_str *out_answer);
/* In an isolated function: begins a step, "kernel conv2d". If the work dies or exceeds a limit the
 * error names the step. */
void kiln_isolated_step(const kiln_isolated_work *work, const char *name);

typedef enum kiln_isolated_profile {
    KILN_ISOLATED_PARSE,   /* a single computing thread */
    KILN_ISOLATED_COMPILE, /* also makes and runs code, on several threads */
} kiln_isolated_profile;

/* Drops this process' rights for good: root's user and groups, new privileges, the environment, all
 * descriptors above `keep_fd_max`, writing files, starting processes, outliving its parent, core
 * dumps, memory and time beyond `limits`, and (with seccomp) all system calls that the profile does
 * not need. Forbidden calls fail with EPERM. INTERNAL: a step failed; the process must end. */
KILN_MUST_USE kiln_status kiln_isolated_drop_rights(kiln_isolated_profile profile, int keep_fd_max,
                                                    const kiln_isolated_limits *limits);

#endif
