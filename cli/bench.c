#include "cli/bench.h"

#include <stdio.h>

#include "base/stats.h"
#include "base/target.h"
#include "cli/cli.h"
#include "deploy/runtime/module_open.h"

static void print_json(const kiln_module *module, const kiln_run_times *times) {
    const kiln_stats whole = kiln_stats_of(times->whole, times->runs);
    const double peak = times->peak_flops;
    json_t *kernels = json_array();
    for (uint32_t i = 0; i < kiln_module_step_count(module); i++) {
        const kiln_module_step *step = kiln_module_step_at(module, i);
        if (step->task[0] == 0) continue;
        kiln_stats own = kiln_stats_of(times->step[i], times->runs);
        double per_ns = step->flops * step->times / own.median;
        json_array_append_new(
            kernels, json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f}", "name", step->name, "op",
                               step->op, "task", step->task, "median_ms", own.median / 1e6,
                               "min_ms", own.minimum / 1e6, "gflops", per_ns, "share_of_peak",
                               peak > 0 ? per_ns * 1e9 / peak : 0));
    }
    kiln_json_line(json_pack("{s:s, s:f, s:f, s:f, s:i, s:i, s:f, s:o}", "event", "bench",
                             "median_ms", whole.median / 1e6, "min_ms", whole.minimum / 1e6,
                             "p95_ms", whole.p95 / 1e6, "runs", (int)times->runs, "threads",
                             (int)kiln_module_threads(module), "peak_gflops", peak / 1e9, "kernels",
                             kernels));
}

void kiln_bench_print_times(const kiln_module *module, const kiln_run_times *times, bool json) {
    if (json)
        print_json(module, times);
    else
        kiln_run_print_times(module, times);
}

kiln_status kiln_bench_print(const kiln_run *run, bool json, kiln_arena *process) {
    kiln_run_times times;
    kiln_status st = kiln_run_time(run, process, &times);
    const kiln_target *device = kiln_module_device(run->module);
    if (!st && device && device->emulated)
        fprintf(stderr, "the device is emulated: these times say nothing about a GPU\n");
    if (!st) kiln_bench_print_times(run->module, &times, json);
    return st;
}
