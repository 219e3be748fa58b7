#include "cli/worker/network_error.h"

#include <math.h>

#include "base/dtype.h"
#include "deploy/run/run.h"

static kiln_dtype dtype_of(const kiln_module_port *port) { return (kiln_dtype)port->dtype; }

static size_t count_of(const kiln_module_port *port) {
    const kiln_shape shape = kiln_port_shape(port);
    return (size_t)kiln_shape_count(&shape);
}

/* The elements of `from` in the type that `to` has. */
static const void *convert(const kiln_module_port *from, const void *data,
                           const kiln_module_port *to, kiln_arena *arena) {
    if (dtype_of(from) == dtype_of(to)) return data;
    void *converted = kiln_arena_alloc_aligned(arena, 64, to->size_bytes);
    for (size_t i = 0; i < count_of(from); i++)
        kiln_dtype_store_f64(dtype_of(to), converted, i,
                             kiln_dtype_load_f64(dtype_of(from), data, i));
    return converted;
}

static bool same_ports(const kiln_module *a, const kiln_module *b) {
    if (kiln_module_input_count(a) != kiln_module_input_count(b) ||
        kiln_module_output_count(a) != kiln_module_output_count(b))
        return false;
    for (uint32_t i = 0; i < kiln_module_input_count(a); i++)
        if (count_of(kiln_module_input(a, i)) != count_of(kiln_module_input(b, i))) return false;
    for (uint32_t i = 0; i < kiln_module_output_count(a); i++)
        if (count_of(kiln_module_output(a, i)) != count_of(kiln_module_output(b, i))) return false;
    return true;
}

kiln_status kiln_network_run(kiln_module *in_double, kiln_module *module, kiln_arena *arena,
                             kiln_network *out_network) {
    kiln_run run;
    double ns = 0;
    if (!same_ports(in_double, module))
        return KILN_ERROR(INTERNAL, "the module in double precision has other ports");
    kiln_status st = kiln_run_init(&run, module, &(kiln_opt_list){0}, NULL, arena);
    if (st) return st;
    for (uint32_t i = 0; i < kiln_module_input_count(module); i++)
        run.inputs[i] = convert(kiln_module_input(module, i), run.inputs[i],
                                kiln_module_input(in_double, i), arena);
    kiln_network network = {.output_count = kiln_module_output_count(in_double)};
    void **output = kiln_run_make_outputs(in_double, arena);
    network.output = KILN_ARENA_ARRAY(arena, double *, network.output_count);
    st = kiln_run_once(in_double, run.inputs, output, &ns);
    for (uint32_t i = 0; i < network.output_count; i++)
        if (dtype_of(kiln_module_output(in_double, i)) == KILN_F64) network.output[i] = output[i];
    if (!st) *out_network = network;
    return st;
}

static double error_of(const double *wanted, const kiln_module_port *port, const void *got) {
    double magnitude = 0, difference = 0;
    for (size_t k = 0; k < count_of(port); k++) {
        const double distance = fabs(kiln_dtype_load_f64(dtype_of(port), got, k) - wanted[k]);
        if (!isfinite(wanted[k])) continue;
        magnitude = fmax(magnitude, fabs(wanted[k]));
        difference = isnan(distance) ? INFINITY : fmax(difference, distance);
    }
    return difference > 0 ? difference / magnitude : 0;
}

double kiln_network_error_of(const kiln_network *network, const kiln_module *module,
                             void *const *outputs) {
    double error = 0;
    for (uint32_t i = 0; i < network->output_count; i++)
        if (network->output[i])
            error = fmax(error,
                         error_of(network->output[i], kiln_module_output(module, i), outputs[i]));
    return error;
}

bool kiln_network_take_back(kiln_network_part *part, uint32_t count, double error,
                            double error_max) {
    double all = 0, left = 0;
    bool taken = false;
    for (uint32_t i = 0; i < count; i++)
        if (!part[i].taken_back) all += part[i].error * part[i].error;
    for (left = all; !taken || error * sqrt(left / all) > error_max;) {
        kiln_network_part *worst = NULL;
        for (uint32_t i = 0; i < count; i++)
            if (!part[i].taken_back && (!worst || part[i].error > worst->error)) worst = &part[i];
        if (!worst) break;
        worst->taken_back = taken = true;
        left = fmax(left - worst->error * worst->error, 0);
    }
    return taken;
}
