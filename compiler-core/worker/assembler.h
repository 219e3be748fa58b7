/* NVIDIA's assembler for a worker, which is isolated and cannot start programs: a second process,
 * forked before the worker drops its rights. It takes only a processor's name and PTX, runs one
 * fixed program, and returns its output. It has no environment, and runs as user nobody if the
 * worker was root; otherwise it keeps the worker's rights. */
#ifndef KILN_COMPILER_CORE_WORKER_ASSEMBLER_H
#define KILN_COMPILER_CORE_WORKER_ASSEMBLER_H

#include "compiler-core/ptxas.h"

#define KILN_ASSEMBLER_PTX_MAX ((size_t)64 << 20)
#define KILN_ASSEMBLER_PROCESSOR_MAX 16u

/* Starts the process if ptxas is found, with `fd` as this side's end of the connection; false:
 * there is none, and `fd` is unchanged. The process ends when `fd` is closed. The caller must have
 * one thread.
 */
bool kiln_assembler_start(int fd);
/* The report of ptxas on `ptx`. Errors of kiln_ptxas_run and kiln_ptxas_parse; UNAVAILABLE: the
 * process ended, or does not answer correctly. */
KILN_MUST_USE kiln_status kiln_assembler_ask(int fd, kiln_str processor, kiln_str ptx,
                                             kiln_arena *arena, kiln_ptxas_report *out_report);

#endif
