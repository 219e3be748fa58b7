/* Programs for GPU schedules to be tried on: drawn ones of the patterns that the rules for GPUs
 * tell apart, and tasks of models made small. And oclgrind, which runs OpenCL kernels one
 * instruction at a time and sees data races, accesses out of bounds and barriers that not all
 * threads reach. */
#ifndef KILN_TESTS_SUPPORT_GPU_PROGRAMS_H
#define KILN_TESTS_SUPPORT_GPU_PROGRAMS_H

#include "base/rand.h"
#include "compiler-core/ir/ir.h"

/* What oclgrind simulates: groups of 256 threads that share 32 KiB. */
#define GPU_PROGRAMS_TARGET "opencl"

/* A program of up to some ten thousand multiply-adds. */
kiln_program *gpu_program_draw(kiln_rand *rand, kiln_arena *arena);
/* A product of halves, tf32 or bytes, or windows of halves, in sizes that instructions of warps
 * take, of up to half a million multiply-adds. */
kiln_program *gpu_program_draw_product(kiln_rand *rand, kiln_arena *arena);
/* Makes every extent at most `most` that says nothing but how much there is: iterators that index
 * plainly wherever they occur, and the dimensions that they run over. Windows and paddings stay. */
void gpu_program_shrink(kiln_program *p, int64_t most);

/* Before the first OpenCL call of a process: runs all kernels under oclgrind, and lets it write
 * what it finds. Version 21.10 computes some kernels wrong that its compiler has optimised; others
 * take four times as long to run. False: it is not installed (Debian's oclgrind). */
bool gpu_oclgrind_begin(const char *folder, bool optimised, kiln_arena *arena);
/* What it has found since; "": nothing. */
const char *gpu_oclgrind_findings(kiln_arena *arena);

#endif
