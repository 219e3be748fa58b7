#include <sched.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/stats.h"
#include "deploy/run/run.h"
#include "deploy/runtime/device.h"
#include "deploy/runtime/module_open.h"
#include "deploy/runtime/peak.h"

#define RUNS_MIN KILN_RUN_TIMES_MIN
#define BENCH_NS (KILN_NS_PER_S / 2)
#define WARM_NS (KILN_NS_PER_S / 10)

typedef struct step_times {
    const kiln_module *module;
    uint64_t started_ns;
    double sum_ns;   /* of all steps so far */
    double **sample; /* [step][runs]; NULL: the sum alone is wanted */
    uint32_t run;
} step_times;

double kiln_run_step_ns(const kiln_module *module, uint64_t host_ns) {
    const uint64_t device_ns = kiln_module_step_device_ns(module);
    return (double)(device_ns > 0 ? device_ns : host_ns);
}

static void on_step(void *context, uint32_t step, int done) {
    step_times *times = context;
    const uint64_t now_ns = kiln_clock_precise_ns();
    /* A loop's time is that of its steps, each of which is counted once per iteration. */
    if (done && kiln_module_step_at(times->module, step)->action != KILN_MODULE_STEP_LOOP) {
        const double ns = kiln_run_step_ns(times->module, now_ns - times->started_ns);
        times->sum_ns += ns;
        if (times->sample) times->sample[step][times->run] += ns;
    }
    times->started_ns = kiln_clock_precise_ns();
}

void **kiln_run_make_outputs(const kiln_module *module, kiln_arena *arena) {
    uint32_t count = kiln_module_output_count(module);
    void **outputs = KILN_ARENA_ARRAY(arena, void *, count);
    for (uint32_t i = 0; i < count; i++)
        outputs[i] = kiln_arena_alloc_aligned(arena, 64, kiln_module_output(module, i)->size_bytes);
    return outputs;
}

kiln_status kiln_run_once(kiln_module *module, const void *const *inputs, void *const *outputs,
                          double *out_ns) {
    uint64_t start_ns = kiln_clock_precise_ns();
    int code = kiln_module_run(module, inputs, outputs);
    *out_ns = (double)(kiln_clock_precise_ns() - start_ns);
    return code ? KILN_ERROR(INTERNAL, "%s", kiln_module_error(module)) : KILN_OK;
}

/* Whether its device counts times that differ from the host's clock. */
static bool is_counted(const kiln_module *module) {
    const kiln_target *device = kiln_module_device(module);
    const kiln_device_row *row = device ? kiln_device_row_for(kiln_payload_of(device->kind)) : NULL;
    return row && row->counts;
}

kiln_status kiln_run_timed(kiln_module *module, const void *const *inputs, void *const *outputs,
                           double *out_ns) {
    step_times steps = {.module = module};
    double passed_ns = 0;
    if (!is_counted(module)) return kiln_run_once(module, inputs, outputs, out_ns);
    kiln_module_set_hook(module, on_step, &steps);
    kiln_status st = kiln_run_once(module, inputs, outputs, &passed_ns);
    kiln_module_set_hook(module, NULL, NULL);
    if (!st) *out_ns = steps.sum_ns;
    return st;
}

kiln_status kiln_run_warm_up(kiln_module *module, const void *const *inputs, void *const *outputs) {
    uint64_t end_ns = kiln_clock_ns() + WARM_NS;
    kiln_status st = KILN_OK;
    double ignored = 0;
    do st = kiln_run_once(module, inputs, outputs, &ignored);
    while (!st && kiln_clock_ns() < end_ns);
    return st;
}

kiln_status kiln_run_measure(kiln_module *module, const void *const *inputs, void *const *outputs,
                             uint32_t runs_max, kiln_run_times *times) {
    kiln_status st = kiln_run_warm_up(module, inputs, outputs);
    step_times steps = {.module = module, .sample = times->step};
    uint64_t end_ns = kiln_clock_ns() + BENCH_NS;
    times->runs = 0;
    while (!st && times->runs < runs_max && (times->runs < RUNS_MIN || kiln_clock_ns() < end_ns))
        st = kiln_run_timed(module, inputs, outputs, &times->whole[times->runs++]);
    kiln_module_set_hook(module, on_step, &steps);
    double ignored = 0;
    for (; !st && steps.run < times->runs; steps.run++) {
        for (uint32_t i = 0; i < kiln_module_step_count(module); i++)
            steps.sample[i][steps.run] = 0;
        st = kiln_run_once(module, inputs, outputs, &ignored);
    }
    kiln_module_set_hook(module, NULL, NULL);
    return st;
}

/* Pins the thread to its current core. */
static void pin(cpu_set_t *before) {
    cpu_set_t one;
    sched_getaffinity(0, sizeof *before, before);
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
}

kiln_status kiln_run_time(const kiln_run *run, kiln_arena *arena, kiln_run_times *out_times) {
    kiln_module *module = run->module;
    const uint32_t step_count = kiln_module_step_count(module);
    const bool pinned = kiln_module_threads(module) == 1;
    cpu_set_t before;
    if (pinned) pin(&before);
    kiln_run_times times = {.whole = KILN_ARENA_ARRAY(arena, double, KILN_RUN_TIMES_MAX),
                            .step = KILN_ARENA_ARRAY(arena, double *, step_count),
                            .peak_flops = kiln_module_device(module) ? 0 : kiln_peak_flops()};
    for (uint32_t i = 0; i < step_count; i++)
        times.step[i] = KILN_ARENA_ARRAY(arena, double, KILN_RUN_TIMES_MAX);
    kiln_status st =
        kiln_run_measure(module, run->inputs, run->outputs, KILN_RUN_TIMES_MAX, &times);
    if (pinned) sched_setaffinity(0, sizeof before, &before);
    if (!st) *out_times = times;
    return st;
}

/* GFLOP/s, and the share of the peak if that is known. */
static void print_rate(double flops, double ns, double peak) {
    printf(" %8.1f GFLOP/s", flops / ns);
    if (peak > 0) printf("  %5.1f %% of peak", 100 * flops / ns * 1e9 / peak);
}

void kiln_run_print_times(const kiln_module *module, const kiln_run_times *times) {
    kiln_strbuf median = {0}, minimum = {0};
    for (uint32_t i = 0; i < kiln_module_step_count(module); i++) {
        const kiln_module_step *step = kiln_module_step_at(module, i);
        double ns = kiln_stats_median(times->step[i], times->runs);
        if (step->task[0] == 0) continue;
        kiln_strbuf_reset(&median);
        kiln_print_time(ns, &median);
        printf("  %-24s %-28s %10s", step->name, step->op, median.data);
        if (step->flops * step->times > 0) /* a conversion of layouts only moves */
            print_rate(step->flops * step->times, ns, times->peak_flops);
        putchar('\n');
    }
    const kiln_stats whole = kiln_stats_of(times->whole, times->runs);
    kiln_strbuf_reset(&median);
    kiln_print_time(whole.median, &median);
    kiln_print_time(whole.minimum, &minimum);
    printf("median %s, min %s, %u runs, %u thread%s", median.data, minimum.data, times->runs,
           kiln_module_threads(module), kiln_module_threads(module) == 1 ? "" : "s");
    if (times->peak_flops > 0) printf(", FMA peak of a core %.1f GFLOP/s", times->peak_flops / 1e9);
    putchar('\n');
    kiln_strbuf_deinit(&median);
    kiln_strbuf_deinit(&minimum);
}
