/* Timing modules in this process: `kiln run --bench`, and default against tuned, interleaved. */
#ifndef KILN_CLI_BENCH_H
#define KILN_CLI_BENCH_H

#include "base/stats.h"
#include "base/status.h"
#include "base/tensor.h"
#include "deploy/run/run.h"

/* Times a module: warm-up, then at least 20 runs and 0.5 s; prints a line per kernel and the whole.
 * The thread is pinned to its core meanwhile when the module uses one. */
KILN_MUST_USE kiln_status kiln_bench_print(kiln_module *module, const void *const *inputs,
                                           bool json, kiln_arena *process);

/* What was found, here or on a board, in the same form. */
void kiln_bench_print_times(const kiln_module *module, const kiln_run_times *times, bool json);

/* Runs two modules of the same model alternately on the same random inputs. */
typedef struct kiln_bench_pair {
    kiln_stats a, b;         /* ns */
    double ratio, low, high; /* a / b with its 95 % interval */
} kiln_bench_pair;
KILN_MUST_USE kiln_status kiln_bench_compare(kiln_module *a, kiln_module *b, kiln_arena *process,
                                             kiln_bench_pair *out);

#endif
