#include "cli/bench.h"

#include <stdio.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "deploy/run/run.h"

#define RUNS_MIN 20u
#define COMPARE_NS KILN_NS_PER_S

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

kiln_status kiln_bench_print(kiln_module *module, const void *const *inputs, bool json,
                             kiln_arena *process) {
    kiln_run_times times;
    kiln_status st = kiln_run_time(module, inputs, process, &times);
    if (!st) kiln_bench_print_times(module, &times, json);
    return st;
}

kiln_status kiln_bench_compare(kiln_module *a, kiln_module *b, kiln_arena *process,
                               kiln_bench_pair *out) {
    kiln_run run;
    kiln_status st = kiln_run_init(&run, a, &(kiln_opt_list){0}, NULL, process);
    if (st) return st;
    const void **inputs = run.inputs;
    void **outputs = run.outputs;
    double *time_a = KILN_ARENA_ARRAY(process, double, KILN_RUN_TIMES_MAX),
           *time_b = KILN_ARENA_ARRAY(process, double, KILN_RUN_TIMES_MAX);
    st = kiln_run_warm_up(a, inputs, outputs);
    if (!st) st = kiln_run_warm_up(b, inputs, outputs);
    uint32_t runs = 0;
    uint64_t end_ns = kiln_clock_ns() + COMPARE_NS;
    for (; !st && runs < KILN_RUN_TIMES_MAX && (runs < RUNS_MIN || kiln_clock_ns() < end_ns);
         runs++) {
        bool a_first = runs % 2 == 0; /* neither always follows the other */
        st = kiln_run_once(a_first ? a : b, inputs, outputs,
                           a_first ? &time_a[runs] : &time_b[runs]);
        if (!st)
            st = kiln_run_once(a_first ? b : a, inputs, outputs,
                               a_first ? &time_b[runs] : &time_a[runs]);
    }
    if (st) return st;
    out->a = kiln_stats_of(time_a, runs);
    out->b = kiln_stats_of(time_b, runs);
    kiln_stats_ratio(time_a, time_b, runs, &out->ratio, &out->low, &out->high);
    return KILN_OK;
}
