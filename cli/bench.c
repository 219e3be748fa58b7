#include "cli/bench.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/vec.h"
#include "cli/cli.h"
#include "deploy/runtime/peak.h"

#define RUNS_MIN 20u
#define RUNS_MAX 2000u
#define BENCH_NS (KILN_NS_PER_S / 2)
#define WARM_NS (KILN_NS_PER_S / 10)

/* ---- one module, kernel by kernel ------------------------------------------------------------ */

typedef struct step_times {
    uint64_t started_ns;
    double **sample; /* [step][RUNS_MAX] */
    uint32_t run;
} step_times;

static void on_step(void *context, uint32_t step, int done) {
    step_times *times = context;
    uint64_t now_ns = kiln_clock_precise_ns();
    if (done) times->sample[step][times->run] = (double)(now_ns - times->started_ns);
    times->started_ns = kiln_clock_precise_ns();
}

static void **make_outputs(const kiln_module *module, kiln_arena *process) {
    uint32_t count = kiln_module_output_count(module);
    void **outputs = KILN_ARENA_ARRAY(process, void *, count);
    for (uint32_t i = 0; i < count; i++)
        outputs[i] =
            kiln_arena_alloc_aligned(process, 64, kiln_module_output(module, i)->size_bytes);
    return outputs;
}

static kiln_status run_once(kiln_module *module, const void *const *inputs, void *const *outputs,
                            double *out_ns) {
    uint64_t start_ns = kiln_clock_precise_ns();
    int code = kiln_module_run(module, inputs, outputs);
    *out_ns = (double)(kiln_clock_precise_ns() - start_ns);
    return code ? KILN_ERROR(INTERNAL, "%s", kiln_module_error(module)) : KILN_OK;
}

static kiln_status warm_up(kiln_module *module, const void *const *inputs, void *const *outputs) {
    uint64_t end_ns = kiln_clock_ns() + WARM_NS;
    kiln_status st = KILN_OK;
    double ignored = 0;
    do st = run_once(module, inputs, outputs, &ignored);
    while (!st && kiln_clock_ns() < end_ns);
    return st;
}

/* Whole runs first, undisturbed by the hook; then as many runs again step by step. */
static kiln_status measure(kiln_module *module, const void *const *inputs, void *const *outputs,
                           step_times *times, double *whole, uint32_t *out_runs) {
    kiln_status st = warm_up(module, inputs, outputs);
    uint32_t runs = 0;
    uint64_t end_ns = kiln_clock_ns() + BENCH_NS;
    while (!st && runs < RUNS_MAX && (runs < RUNS_MIN || kiln_clock_ns() < end_ns))
        st = run_once(module, inputs, outputs, &whole[runs++]);
    kiln_module_set_hook(module, on_step, times);
    double ignored = 0;
    for (times->run = 0; !st && times->run < runs; times->run++)
        st = run_once(module, inputs, outputs, &ignored);
    kiln_module_set_hook(module, NULL, NULL);
    *out_runs = runs;
    return st;
}

static void print_text(const kiln_module *module, const kiln_stats *whole, const step_times *times,
                       uint32_t runs, double peak) {
    kiln_strbuf median = {0}, minimum = {0};
    for (uint32_t i = 0; i < kiln_module_step_count(module); i++) {
        const kiln_module_step *step = kiln_module_step_at(module, i);
        double ns = kiln_stats_median(times->sample[i], runs);
        if (step->task[0] == 0) continue;
        kiln_strbuf_reset(&median);
        kiln_print_time(ns, &median);
        printf("  %-24s %-28s %10s", step->name, step->op, median.data);
        if (step->flops > 0) /* a conversion of layouts only moves */
            printf(" %8.1f GFLOP/s  %5.1f %% of peak", step->flops / ns,
                   100 * step->flops / ns * 1e9 / peak);
        putchar('\n');
    }
    kiln_strbuf_reset(&median);
    kiln_print_time(whole->median, &median);
    kiln_print_time(whole->minimum, &minimum);
    printf("median %s, min %s, %u runs, %u thread%s, FMA peak of a core %.1f GFLOP/s\n",
           median.data, minimum.data, runs, kiln_module_threads(module),
           kiln_module_threads(module) == 1 ? "" : "s", peak / 1e9);
    kiln_strbuf_deinit(&median);
    kiln_strbuf_deinit(&minimum);
}

static void print_json(const kiln_module *module, const kiln_stats *whole, const step_times *times,
                       uint32_t runs, double peak) {
    json_t *kernels = json_array();
    for (uint32_t i = 0; i < kiln_module_step_count(module); i++) {
        const kiln_module_step *step = kiln_module_step_at(module, i);
        if (step->task[0] == 0) continue;
        kiln_stats own = kiln_stats_of(times->sample[i], runs);
        double per_ns = step->flops / own.median;
        json_array_append_new(
            kernels, json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f}", "name", step->name, "op",
                               step->op, "task", step->task, "median_ms", own.median / 1e6,
                               "min_ms", own.minimum / 1e6, "gflops", per_ns, "share_of_peak",
                               per_ns * 1e9 / peak));
    }
    kiln_json_line(json_pack("{s:s, s:f, s:f, s:f, s:i, s:i, s:f, s:o}", "event", "bench",
                             "median_ms", whole->median / 1e6, "min_ms", whole->minimum / 1e6,
                             "p95_ms", whole->p95 / 1e6, "runs", (int)runs, "threads",
                             (int)kiln_module_threads(module), "peak_gflops", peak / 1e9, "kernels",
                             kernels));
}

kiln_status kiln_bench_print(kiln_module *module, const void *const *inputs, bool json,
                             kiln_arena *process) {
    cpu_set_t before, one;
    sched_getaffinity(0, sizeof before, &before);
    if (kiln_module_threads(module) == 1) {
        CPU_ZERO(&one);
        CPU_SET((size_t)sched_getcpu(), &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    double peak = kiln_peak_flops();
    step_times times = {.sample =
                            KILN_ARENA_ARRAY(process, double *, kiln_module_step_count(module))};
    for (uint32_t i = 0; i < kiln_module_step_count(module); i++)
        times.sample[i] = KILN_ARENA_ARRAY(process, double, RUNS_MAX);
    double *whole = KILN_ARENA_ARRAY(process, double, RUNS_MAX);
    uint32_t runs = 0;
    kiln_status st = measure(module, inputs, make_outputs(module, process), &times, whole, &runs);
    sched_setaffinity(0, sizeof before, &before);
    if (st) return st;
    kiln_stats stats = kiln_stats_of(whole, runs);
    if (json)
        print_json(module, &stats, &times, runs, peak);
    else
        print_text(module, &stats, &times, runs, peak);
    return KILN_OK;
}

/* ---- two modules, interleaved ---------------------------------------------------------------- */

static const void **random_inputs(const kiln_module *module, kiln_arena *process) {
    uint32_t count = kiln_module_input_count(module);
    const void **inputs = KILN_ARENA_ARRAY(process, const void *, count);
    for (uint32_t i = 0; i < count; i++) {
        const kiln_module_port *port = kiln_module_input(module, i);
        kiln_shape shape = kiln_port_shape(port);
        void *data = kiln_arena_alloc_aligned(process, 64, port->size_bytes);
        kiln_fill_data(data, (kiln_dtype)port->dtype, (size_t)kiln_shape_count(&shape), i + 1,
                       KILN_FILL_UNIFORM);
        inputs[i] = data;
    }
    return inputs;
}

kiln_status kiln_bench_compare(kiln_module *a, kiln_module *b, kiln_arena *process,
                               kiln_bench_pair *out) {
    const void **inputs = random_inputs(a, process);
    void **outputs = make_outputs(a, process);
    double *time_a = KILN_ARENA_ARRAY(process, double, RUNS_MAX),
           *time_b = KILN_ARENA_ARRAY(process, double, RUNS_MAX);
    kiln_status st = warm_up(a, inputs, outputs);
    if (!st) st = warm_up(b, inputs, outputs);
    uint32_t runs = 0;
    uint64_t end_ns = kiln_clock_ns() + 2 * BENCH_NS;
    for (; !st && runs < RUNS_MAX && (runs < RUNS_MIN || kiln_clock_ns() < end_ns); runs++) {
        bool a_first = runs % 2 == 0; /* neither always follows the other */
        st = run_once(a_first ? a : b, inputs, outputs, a_first ? &time_a[runs] : &time_b[runs]);
        if (!st)
            st =
                run_once(a_first ? b : a, inputs, outputs, a_first ? &time_b[runs] : &time_a[runs]);
    }
    if (st) return st;
    out->a = kiln_stats_of(time_a, runs);
    out->b = kiln_stats_of(time_b, runs);
    kiln_stats_ratio(time_a, time_b, runs, &out->ratio, &out->low, &out->high);
    return KILN_OK;
}
