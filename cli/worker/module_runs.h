/* Where `kiln tune` runs whole modules: in this process (on the processor, or on a device that the
 * module opens), or on a board of the job's tracker, the same one for all of them. In use:
 *
 *     kiln_module_runs_open(&runs, bytes, &module)      each
 *     kiln_module_runs_once(&runs, ...)                 what it computes
 *     kiln_module_runs_in_turns(&runs, ...)             which is faster
 *     kiln_module_close(module) */
#ifndef KILN_CLI_WORKER_MODULE_RUNS_H
#define KILN_CLI_WORKER_MODULE_RUNS_H

#include "cli/common/bench_turns.h"
#include "cli/common/run_on.h"

typedef struct kiln_module_runs {
    bool there;                /* on a board */
    kiln_run_on_options board; /* with `there`; `on` becomes the board that the first run got */
    kiln_arena *arena;
    bool emulated; /* known after a run: what it takes there says nothing */
} kiln_module_runs;

typedef struct kiln_shown_module {
    kiln_str bytes; /* outlives `module` */
    kiln_module *module;
} kiln_shown_module;

/* Of a board: looked at only. Errors of opening. */
KILN_MUST_USE kiln_status kiln_module_runs_open(const kiln_module_runs *runs, kiln_str bytes,
                                                kiln_module **out_module);
/* Runs it on seeded inputs: `out_run->outputs`, in `arena`. Errors of kiln_run_once and
 * kiln_run_on. */
KILN_MUST_USE kiln_status kiln_module_runs_once(kiln_module_runs *runs,
                                                const kiln_shown_module *shown, kiln_arena *arena,
                                                kiln_run *out_run);
/* kiln_bench_in_turns. On a board each module runs for about a second before the next one's turn.
 */
KILN_MUST_USE kiln_status kiln_module_runs_in_turns(kiln_module_runs *runs,
                                                    const kiln_shown_module *shown, uint32_t count,
                                                    uint64_t limit_ns, kiln_arena *arena,
                                                    kiln_bench_turns *out_turns);

#endif
