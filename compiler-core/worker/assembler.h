/* NVIDIA's assembler for a worker, which is caged and starts no program: a process beside it,
 * forked before the cage shuts. It takes nothing but a processor's name and PTX, runs the one
 * program that it was started for, and gives back what that printed. It has no environment and is
 * nobody where the worker was root; its own rights are those of a program that reads text of a
 * compiler. */
#ifndef KILN_COMPILER_CORE_WORKER_ASSEMBLER_H
#define KILN_COMPILER_CORE_WORKER_ASSEMBLER_H

#include "compiler-core/ptxas.h"

#define KILN_ASSEMBLER_PTX_MAX ((size_t)64 << 20)
#define KILN_ASSEMBLER_PROCESSOR_MAX 16u

/* Starts it where ptxas is found, with `fd` as this side's end of the connection; false: there is
 * none, and `fd` is what it was. The process ends when `fd` is closed. This program has one thread.
 */
bool kiln_assembler_start(int fd);
/* What ptxas says of `ptx`. The errors of kiln_ptxas_run and kiln_ptxas_parse; UNAVAILABLE: the
 * process is gone, or does not work. */
KILN_MUST_USE kiln_status kiln_assembler_ask(int fd, kiln_str processor, kiln_str ptx,
                                             kiln_arena *arena, kiln_ptxas_report *out_report);

#endif
