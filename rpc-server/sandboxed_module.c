#include "rpc-server/sandboxed_module.h"

#include "deploy/run/parcel.h"
#include "deploy/runtime/module_open.h"

struct kiln_sandboxed_module {
    kiln_module *module;
    kiln_parcel parcel;
    char *outputs;
    kiln_run run;
    kiln_run_times times;
};

/* Checks that the order fits the module and its inputs. */
static kiln_status check_sizes(const kiln_child_order *order, const kiln_parcel *parcel) {
    if (parcel->input_bytes == order->module.input_bytes &&
        parcel->output_bytes == order->kernel[0].output_bytes)
        return NULL;
    return KILN_ERROR(INVALID_ARGUMENT,
                      "the module takes %llu bytes of inputs and writes %llu of outputs, but %llu "
                      "were sent and %llu announced",
                      (unsigned long long)parcel->input_bytes,
                      (unsigned long long)parcel->output_bytes,
                      (unsigned long long)order->module.input_bytes,
                      (unsigned long long)order->kernel[0].output_bytes);
}

static kiln_status set_size(const kiln_child_order *order, kiln_module *module) {
    if (order->module.size == 0) return KILN_OK;
    return kiln_run_set_size(module, order->module.size);
}

static kiln_status measure(const kiln_child_order *order, kiln_sandboxed_module *module) {
    if (kiln_module_input_count(module->module) != order->module.input_count)
        return KILN_ERROR(INVALID_ARGUMENT, "the module has %u inputs, %u were sent",
                          kiln_module_input_count(module->module), order->module.input_count);
    kiln_status st = kiln_parcel_measure(module->module, order->module.samples,
                                         order->module.bench != 0, &module->parcel);
    return st ? st : check_sizes(order, &module->parcel);
}

kiln_status kiln_sandboxed_module_load(const kiln_child_order *order,
                                       const kiln_sandboxed_module_bytes *bytes, kiln_arena *arena,
                                       kiln_sandboxed_module **out_guest) {
    kiln_sandboxed_module *module = KILN_ARENA_NEW(arena, kiln_sandboxed_module);
    const kiln_module_options options = {.threads = order->core_count, .core = order->core};
    const kiln_str content = {bytes->module, (size_t)order->kernel[0].artefact_bytes};
    kiln_status st = kiln_module_link(content, &options, &module->module);
    if (!st) st = set_size(order, module->module);
    if (!st) st = measure(order, module);
    if (st) return st;
    module->outputs = bytes->outputs;
    kiln_parcel_point(module->module, &module->parcel, order->module.samples, bytes->inputs,
                      bytes->outputs, arena, &module->run);
    if (module->parcel.bench)
        kiln_parcel_point_times(module->module, &module->parcel, bytes->outputs, arena,
                                &module->times);
    *out_guest = module;
    return NULL;
}

/* The parent gets only a code, so the text is freed here. */
static bool is_ok(kiln_status st) {
    kiln_status_free(st);
    return !st;
}

bool kiln_sandboxed_module_pack(kiln_sandboxed_module *module) {
    return is_ok(kiln_module_pack(module->module));
}

bool kiln_sandboxed_module_run(kiln_sandboxed_module *module, double peak_flops) {
    kiln_run *run = &module->run;
    if (!is_ok(kiln_run_samples(run))) return false;
    if (!module->parcel.bench) return true;
    kiln_run_point(run, 0);
    module->times.peak_flops = peak_flops;
    if (!is_ok(kiln_run_measure(module->module, run->inputs, run->outputs, module->parcel.runs_max,
                                &module->times)))
        return false;
    kiln_parcel_seal_times(&module->parcel, &module->times, module->outputs);
    return true;
}
