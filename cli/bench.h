/* Timing a module in this process: `kiln run --bench`. */
#ifndef KILN_CLI_BENCH_H
#define KILN_CLI_BENCH_H

#include "base/status.h"
#include "deploy/run/run.h"

/* Times a module: warm-up, then at least 20 runs and 0.5 s; prints a line per kernel and the whole.
 * The thread is pinned to its core meanwhile when the module uses one. */
KILN_MUST_USE kiln_status kiln_bench_print(const kiln_run *run, bool json, kiln_arena *process);

/* What was found, here or on a board, in the same form. */
void kiln_bench_print_times(const kiln_module *module, const kiln_run_times *times, bool json);

#endif
