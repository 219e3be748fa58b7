#include "deploy/run/parcel.h"

#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/macros.h"

#define ALIGNMENT 64u
#define HEAD_BYTES 64u /* of the times */

/* Adds `count` values of a port. RESOURCE_EXHAUSTED. */
static kiln_status add(uint64_t *total, const kiln_module_port *port, uint64_t count) {
    if (count > KILN_PARCEL_BYTES_MAX || port->size_bytes > KILN_PARCEL_BYTES_MAX / count ||
        *total + KILN_ALIGN_UP(count * port->size_bytes, ALIGNMENT) > KILN_PARCEL_BYTES_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED,
                          "%llu samples of %s, %llu bytes each, after %llu bytes: a board takes "
                          "and gives at most %llu bytes of all inputs and of all outputs",
                          (unsigned long long)count, port->name,
                          (unsigned long long)port->size_bytes, (unsigned long long)*total,
                          (unsigned long long)KILN_PARCEL_BYTES_MAX);
    *total += KILN_ALIGN_UP(count * port->size_bytes, ALIGNMENT);
    return KILN_OK;
}

static kiln_status add_inputs(const kiln_module *module, const uint64_t *samples,
                              kiln_parcel *parcel) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; !st && i < kiln_module_input_count(module); i++) {
        const kiln_module_port *port = kiln_module_input(module, i);
        if (samples[i] == 0 ||
            (samples[i] > 1 && parcel->samples > 1 && samples[i] != parcel->samples))
            return KILN_ERROR(INVALID_ARGUMENT, "%llu samples of input %s",
                              (unsigned long long)samples[i], port->name);
        parcel->samples = KILN_MAX(parcel->samples, samples[i]);
        st = add(&parcel->input_bytes, port, samples[i]);
    }
    /* A module without inputs gets some bytes, because a store cannot name an empty blob. */
    parcel->input_bytes = KILN_MAX(parcel->input_bytes, ALIGNMENT);
    return st;
}

static void add_times(const kiln_module *module, kiln_parcel *parcel) {
    const uint64_t rows = UINT64_C(1) + kiln_module_step_count(module);
    const uint64_t fit = KILN_PARCEL_TIMES_MAX / rows;
    parcel->runs_max = (uint32_t)KILN_MIN(KILN_MAX(fit, KILN_RUN_TIMES_MIN), KILN_RUN_TIMES_MAX);
    parcel->times_at = parcel->output_bytes;
    parcel->output_bytes +=
        HEAD_BYTES + KILN_ALIGN_UP(rows * parcel->runs_max * sizeof(double), ALIGNMENT);
}

kiln_status kiln_parcel_measure(const kiln_module *module, const uint64_t *samples, bool bench,
                                kiln_parcel *out_parcel) {
    kiln_parcel parcel = {.samples = 1, .bench = bench};
    kiln_status st = add_inputs(module, samples, &parcel);
    for (uint32_t i = 0; !st && i < kiln_module_output_count(module); i++)
        st = add(&parcel.output_bytes, kiln_module_output(module, i), parcel.samples);
    if (!st && bench) add_times(module, &parcel);
    if (!st) *out_parcel = parcel;
    return st;
}

void kiln_parcel_write_inputs(const kiln_run *run, char *out_inputs) {
    for (uint32_t i = 0; i < kiln_module_input_count(run->module); i++) {
        const size_t bytes = kiln_module_input(run->module, i)->size_bytes * run->feed[i].samples;
        memcpy(out_inputs, run->feed[i].data, bytes);
        out_inputs += KILN_ALIGN_UP(bytes, ALIGNMENT);
    }
}

void kiln_parcel_point(kiln_module *module, const kiln_parcel *parcel, const uint64_t *samples,
                       const char *inputs, char *outputs, kiln_arena *arena, kiln_run *out_run) {
    const uint32_t input_count = kiln_module_input_count(module);
    const uint32_t output_count = kiln_module_output_count(module);
    *out_run = (kiln_run){.module = module,
                          .samples = (size_t)parcel->samples,
                          .feed = KILN_ARENA_ARRAY(arena, kiln_run_feed, input_count),
                          .output = KILN_ARENA_ARRAY(arena, char *, output_count),
                          .inputs = KILN_ARENA_ARRAY(arena, const void *, input_count),
                          .outputs = KILN_ARENA_ARRAY(arena, void *, output_count)};
    for (uint32_t i = 0; i < input_count; i++) {
        out_run->feed[i] = (kiln_run_feed){inputs, (size_t)samples[i]};
        inputs += KILN_ALIGN_UP(kiln_module_input(module, i)->size_bytes * samples[i], ALIGNMENT);
    }
    for (uint32_t i = 0; i < output_count; i++) {
        out_run->output[i] = outputs;
        outputs +=
            KILN_ALIGN_UP(kiln_module_output(module, i)->size_bytes * parcel->samples, ALIGNMENT);
    }
    kiln_run_point(out_run, 0);
}

void kiln_parcel_read_outputs(const kiln_parcel *parcel, const char *outputs, kiln_run *run) {
    for (uint32_t i = 0; i < kiln_module_output_count(run->module); i++) {
        const size_t bytes =
            kiln_module_output(run->module, i)->size_bytes * (size_t)parcel->samples;
        memcpy(run->output[i], outputs, bytes);
        outputs += KILN_ALIGN_UP(bytes, ALIGNMENT);
    }
}

/* ---- times ----------------------------------------------------------------------------------- */

typedef struct times_head {
    uint64_t runs;
    double peak_flops;
} times_head;

void kiln_parcel_point_times(const kiln_module *module, const kiln_parcel *parcel, char *outputs,
                             kiln_arena *arena, kiln_run_times *out_times) {
    const uint32_t step_count = kiln_module_step_count(module);
    double *row = (double *)(void *)(outputs + parcel->times_at + HEAD_BYTES);
    *out_times =
        (kiln_run_times){.whole = row, .step = KILN_ARENA_ARRAY(arena, double *, step_count)};
    for (uint32_t i = 0; i < step_count; i++) out_times->step[i] = row += parcel->runs_max;
}

void kiln_parcel_seal_times(const kiln_parcel *parcel, const kiln_run_times *times, char *outputs) {
    const times_head head = {times->runs, times->peak_flops};
    memcpy(outputs + parcel->times_at, &head, sizeof head);
}

static bool are_times(const double *time, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!isfinite(time[i]) || time[i] < 0) return false;
    return true;
}

kiln_status kiln_parcel_read_times(const kiln_module *module, const kiln_parcel *parcel,
                                   char *outputs, kiln_arena *arena, kiln_run_times *out_times) {
    times_head head;
    memcpy(&head, outputs + parcel->times_at, sizeof head);
    kiln_parcel_point_times(module, parcel, outputs, arena, out_times);
    if (head.runs == 0 || head.runs > parcel->runs_max || !are_times(&head.peak_flops, 1))
        return KILN_ERROR(DATA_LOSS, "the board reports %llu runs, at most %u were requested",
                          (unsigned long long)head.runs, parcel->runs_max);
    out_times->runs = (uint32_t)head.runs;
    out_times->peak_flops = head.peak_flops;
    bool sane = are_times(out_times->whole, out_times->runs);
    for (uint32_t i = 0; i < kiln_module_step_count(module); i++)
        sane = sane && are_times(out_times->step[i], out_times->runs);
    return sane ? KILN_OK : KILN_ERROR(DATA_LOSS, "the board reports invalid times");
}
