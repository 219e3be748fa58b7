#include "rpc-server/guest.h"

#include "deploy/run/parcel.h"
#include "deploy/runtime/module_open.h"

struct kiln_guest {
    kiln_module *module;
    kiln_parcel parcel;
    char *outputs;
    kiln_run run;
    kiln_run_times times;
};

/* Whether both ends mean the same module and the same inputs. */
static kiln_status check_sizes(const kiln_inmate_order *order, const kiln_parcel *parcel) {
    if (parcel->input_bytes == order->module.input_bytes &&
        parcel->output_bytes == order->kernel[0].output_bytes)
        return NULL;
    return KILN_ERROR(
        INVALID_ARGUMENT,
        "the module takes %llu bytes of inputs and leaves %llu, but %llu came and %llu "
        "were announced",
        (unsigned long long)parcel->input_bytes, (unsigned long long)parcel->output_bytes,
        (unsigned long long)order->module.input_bytes,
        (unsigned long long)order->kernel[0].output_bytes);
}

static kiln_status set_size(const kiln_inmate_order *order, kiln_module *module) {
    if (order->module.size == 0) return KILN_OK;
    return kiln_run_set_size(module, order->module.size);
}

static kiln_status measure(const kiln_inmate_order *order, kiln_guest *guest) {
    if (kiln_module_input_count(guest->module) != order->module.input_count)
        return KILN_ERROR(INVALID_ARGUMENT, "the module has %u inputs, %u were sent",
                          kiln_module_input_count(guest->module), order->module.input_count);
    kiln_status st = kiln_parcel_measure(guest->module, order->module.samples,
                                         order->module.bench != 0, &guest->parcel);
    return st ? st : check_sizes(order, &guest->parcel);
}

kiln_status kiln_guest_load(const kiln_inmate_order *order, const kiln_guest_bytes *bytes,
                            kiln_arena *arena, kiln_guest **out_guest) {
    kiln_guest *guest = KILN_ARENA_NEW(arena, kiln_guest);
    const kiln_module_options options = {.threads = order->core_count, .core = order->core};
    const kiln_str content = {bytes->module, (size_t)order->kernel[0].artefact_bytes};
    kiln_status st = kiln_module_link(content, &options, &guest->module);
    if (!st) st = set_size(order, guest->module);
    if (!st) st = measure(order, guest);
    if (st) return st;
    guest->outputs = bytes->outputs;
    kiln_parcel_point(guest->module, &guest->parcel, order->module.samples, bytes->inputs,
                      bytes->outputs, arena, &guest->run);
    if (guest->parcel.bench)
        kiln_parcel_point_times(guest->module, &guest->parcel, bytes->outputs, arena,
                                &guest->times);
    *out_guest = guest;
    return NULL;
}

/* The process ends soon, and what a failure says is said in one word. */
static bool is_ok(kiln_status st) {
    kiln_status_free(st);
    return !st;
}

bool kiln_guest_pack(kiln_guest *guest) { return is_ok(kiln_module_pack(guest->module)); }

bool kiln_guest_run(kiln_guest *guest, double peak_flops) {
    kiln_run *run = &guest->run;
    if (!is_ok(kiln_run_samples(run))) return false;
    if (!guest->parcel.bench) return true;
    kiln_run_point(run, 0);
    guest->times.peak_flops = peak_flops;
    if (!is_ok(kiln_run_measure(guest->module, run->inputs, run->outputs, guest->parcel.runs_max,
                                &guest->times)))
        return false;
    kiln_parcel_seal_times(&guest->parcel, &guest->times, guest->outputs);
    return true;
}
