/* bench-device MODULE...: modules timed where their kernels run, with inputs and outputs in the
 * device's memory, so that nothing is copied, and whether that gave what a run with copies gives. A
 * line of JSON each: a run from its call to its end, and the sum of its kernels by the device's
 * clock. What runs on the processor takes memory of the process. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/stats.h"
#include "deploy/run/run.h"
#include "deploy/runtime/device.h"

#define WARM_NS (KILN_NS_PER_S / 5)
#define BENCH_NS (KILN_NS_PER_S / 5)
#define RUNS_MIN 5u
#define RUNS_MAX 5000u
#define PORTS_MAX 64u

typedef struct bench {
    kiln_arena *arena;
    kiln_module *module;
    kiln_device *device; /* NULL: tensors lie in memory of the process */
    kiln_device_memory memory[PORTS_MAX];
    uint32_t memory_count;
    const void **given; /* inputs, in memory of the process */
    const kiln_module_tensor **input, **output;
    double kernels_ns; /* of the present run, without what the hook adds */
    uint64_t begun_ns;
} bench;

static void require(kiln_status st) {
    if (!st) return;
    fprintf(stderr, "bench-device: %s\n", kiln_status_text(st));
    kiln_status_free(st);
    fflush(stderr);
    _Exit(1);
}

static void open_device(bench *b, const kiln_module_device_info *info) {
    kiln_device_setup setup = {.index = (uint32_t)info->device_id};
    b->device = NULL;
    /* The only kind whose memory any part of a process may allocate. */
    if (info->device_type != kiln_device_row_of(KILN_DEVICE_CUDA)->dlpack) return;
    require(kiln_device_open(KILN_DEVICE_CUDA, &setup, &b->device));
}

/* Of the port's size; `data`: what it holds, NULL: nothing. */
static const kiln_module_tensor *make_tensor(bench *b, const kiln_module_port *port,
                                             const void *data) {
    const kiln_module_device_info info = kiln_module_describe_device(b->module);
    kiln_module_tensor *tensor = KILN_ARENA_NEW(b->arena, kiln_module_tensor);
    if (!b->device) {
        void *bytes = data ? (void *)(uintptr_t)data
                           : kiln_arena_alloc_aligned(b->arena, 64, port->size_bytes);
        *tensor = kiln_module_tensor_at(port, 1, 0, bytes);
        return tensor;
    }
    if (b->memory_count == PORTS_MAX) require(KILN_ERROR(OUT_OF_RANGE, "too many ports"));
    kiln_device_memory *memory = &b->memory[b->memory_count++];
    require(kiln_device_allocate(b->device, port->size_bytes, KILN_GUARD_NONE, memory));
    const kiln_device_place there = kiln_device_place_at(b->device, memory, 0);
    if (data && kiln_device_copy(b->device, KILN_COPY_TO_DEVICE, there,
                                 kiln_host_place((void *)(uintptr_t)data), port->size_bytes))
        require(KILN_ERROR(INTERNAL, "%s", kiln_device_error(b->device)));
    *tensor = kiln_module_tensor_at(port, info.device_type, info.device_id, there.data);
    tensor->byte_offset = there.byte_offset;
    return tensor;
}

static void make_tensors(bench *b) {
    kiln_run run;
    const kiln_opt_list none = {0};
    const uint32_t inputs = kiln_module_input_count(b->module),
                   outputs = kiln_module_output_count(b->module);
    require(kiln_run_init_inputs(&run, b->module, &none, NULL, b->arena));
    kiln_run_point(&run, 0);
    b->given = run.inputs;
    b->input = KILN_ARENA_ARRAY(b->arena, const kiln_module_tensor *, inputs);
    b->output = KILN_ARENA_ARRAY(b->arena, const kiln_module_tensor *, outputs);
    for (uint32_t i = 0; i < inputs; i++)
        b->input[i] = make_tensor(b, kiln_module_input(b->module, i), run.inputs[i]);
    for (uint32_t i = 0; i < outputs; i++)
        b->output[i] = make_tensor(b, kiln_module_output(b->module, i), NULL);
    /* Copies are done before a run of the module begins, which has a queue of its own. */
    if (b->device && (kiln_device_record(b->device, 0) || kiln_device_wait(b->device, 0)))
        require(KILN_ERROR(INTERNAL, "%s", kiln_device_error(b->device)));
}

static double run_once(bench *b) {
    const uint64_t start_ns = kiln_clock_precise_ns();
    if (kiln_module_run_tensors(b->module, b->input, b->output))
        require(KILN_ERROR(INTERNAL, "%s", kiln_module_error(b->module)));
    return (double)(kiln_clock_precise_ns() - start_ns);
}

static void on_step(void *context, uint32_t step, int done) {
    bench *b = context;
    if (done && kiln_module_step_at(b->module, step)->action == KILN_MODULE_STEP_KERNEL)
        b->kernels_ns += kiln_run_step_ns(b->module, kiln_clock_precise_ns() - b->begun_ns);
    b->begun_ns = kiln_clock_precise_ns();
}

/* Whether runs on tensors of the device, recorded by now, left there what a run on memory of the
 * process makes, which copies. */
static bool is_same(bench *b) {
    const uint32_t count = kiln_module_output_count(b->module);
    void **expected = kiln_run_make_outputs(b->module, b->arena);
    double ignored = 0;
    bool same = true;
    require(kiln_run_once(b->module, b->given, expected, &ignored));
    for (uint32_t i = 0; i < count; i++) {
        const size_t size = kiln_module_output(b->module, i)->size_bytes;
        void *found = b->output[i]->data;
        if (b->device) {
            const kiln_device_place there = {found, b->output[i]->byte_offset};
            found = kiln_arena_alloc(b->arena, size);
            if (kiln_device_copy(b->device, KILN_COPY_FROM_DEVICE, kiln_host_place(found), there,
                                 size) ||
                kiln_device_record(b->device, 0) || kiln_device_wait(b->device, 0))
                require(KILN_ERROR(INTERNAL, "%s", kiln_device_error(b->device)));
        }
        same &= memcmp(found, expected[i], size) == 0;
    }
    return same;
}

static void measure(bench *b, const char *path) {
    double *run = KILN_ARENA_ARRAY(b->arena, double, RUNS_MAX),
           *kernels = KILN_ARENA_ARRAY(b->arena, double, RUNS_MAX);
    uint32_t runs = 0, stepped = 0;
    uint64_t end_ns = kiln_clock_ns() + WARM_NS;
    do run_once(b);
    while (kiln_clock_ns() < end_ns);
    end_ns = kiln_clock_ns() + BENCH_NS;
    while (runs < RUNS_MAX && (runs < RUNS_MIN || kiln_clock_ns() < end_ns))
        run[runs++] = run_once(b);
    kiln_module_set_hook(b->module, on_step, b);
    end_ns = kiln_clock_ns() + BENCH_NS;
    while (stepped < RUNS_MAX && (stepped < RUNS_MIN || kiln_clock_ns() < end_ns)) {
        b->kernels_ns = 0;
        run_once(b);
        kernels[stepped++] = b->kernels_ns;
    }
    kiln_module_set_hook(b->module, NULL, NULL);
    const kiln_stats whole = kiln_stats_of(run, runs), steps = kiln_stats_of(kernels, stepped);
    printf("{\"module\": \"%s\", \"on_device\": %s, \"same\": %s, \"runs\": %u, \"run_us\": %.2f, "
           "\"run_least_us\": %.2f, \"kernels_us\": %.2f, \"kernels_least_us\": %.2f}\n",
           path, b->device ? "true" : "false", is_same(b) ? "true" : "false", runs,
           whole.median / 1e3, whole.minimum / 1e3, steps.median / 1e3, steps.minimum / 1e3);
    fflush(stdout);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        kiln_arena arena;
        bench b = {.arena = &arena};
        kiln_arena_init(&arena, 0);
        require(kiln_module_load(argv[i], 0, &b.module));
        const kiln_module_device_info info = kiln_module_describe_device(b.module);
        open_device(&b, &info);
        make_tensors(&b);
        measure(&b, argv[i]);
        kiln_module_close(b.module);
        while (b.memory_count) kiln_device_release(b.device, &b.memory[--b.memory_count]);
        kiln_device_close(b.device);
        kiln_arena_deinit(&arena);
    }
    return argc > 1 ? 0 : 2;
}
