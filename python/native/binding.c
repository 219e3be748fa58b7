#include "python/native/binding.h"

static const kiln_module_port *port_of(const kiln_module *module, uint32_t index) {
    uint32_t inputs = kiln_module_input_count(module);
    return index < inputs ? kiln_module_input(module, index)
                          : kiln_module_output(module, index - inputs);
}

/* The ports in the binding's size: `shape` is room for all of their shapes. */
static void copy_ports(const kiln_module *module, kiln_binding *binding, int64_t *shape) {
    for (uint32_t i = 0; i < binding->inputs + binding->outputs; i++) {
        kiln_module_port *port = &binding->port[i];
        int is_output = i >= binding->inputs;
        *port = *port_of(module, i);
        if (!binding->size) continue;
        (void)kiln_module_port_at(module, is_output, i - (is_output ? binding->inputs : 0),
                                  binding->size, shape, &port->size_bytes);
        port->shape = shape;
        shape += port->rank;
    }
}

kiln_binding *kiln_binding_new(const kiln_module *module, int64_t size) {
    uint32_t inputs = kiln_module_input_count(module), outputs = kiln_module_output_count(module);
    size_t count = inputs + outputs, ranks = 0;
    size_t each = sizeof(kiln_taken) + sizeof(kiln_module_tensor *) + sizeof(void *) +
                  sizeof(kiln_module_port);
    for (uint32_t i = 0; size && i < count; i++) ranks += port_of(module, i)->rank;
    kiln_binding *binding =
        PyMem_Calloc(1, sizeof *binding + count * each + ranks * sizeof(int64_t));
    if (!binding) {
        PyErr_NoMemory();
        return NULL;
    }
    binding->inputs = inputs;
    binding->outputs = outputs;
    binding->taken = (kiln_taken *)(binding + 1);
    binding->tensor = (const kiln_module_tensor **)(binding->taken + count);
    binding->data = (void **)(binding->tensor + count);
    binding->port = (kiln_module_port *)(binding->data + count);
    binding->size = size;
    copy_ports(module, binding, (int64_t *)(binding->port + count));
    return binding;
}

void kiln_binding_free(kiln_binding *binding) {
    if (!binding) return;
    for (uint32_t i = 0; i < binding->inputs + binding->outputs; i++)
        kiln_taken_release(&binding->taken[i]);
    PyMem_Free(binding);
}

kiln_place kiln_binding_place(const kiln_module *module, const kiln_binding *binding,
                              uint32_t index) {
    int is_output = index >= binding->inputs;
    return (kiln_place){.port = &binding->port[index],
                        .role = is_output ? "output" : "input",
                        .is_written = is_output,
                        .device = kiln_module_describe_device(module)};
}

static void note(kiln_binding *binding, uint32_t index) {
    const kiln_module_tensor *tensor = &binding->taken[index].tensor;
    binding->tensor[index] = tensor;
    binding->data[index] = tensor->data;
    if (tensor->device_type != 1) binding->is_on_device = 1;
}

int kiln_binding_take(kiln_native *native, const kiln_module *module, kiln_binding *binding,
                      uint32_t index, PyObject *object) {
    kiln_place place = kiln_binding_place(module, binding, index);
    if (kiln_taken_from(native, &place, object, &binding->taken[index]) < 0) return -1;
    note(binding, index);
    return 0;
}

PyObject *kiln_binding_make(kiln_native *native, const kiln_module *module, kiln_binding *binding,
                            uint32_t index, int is_zeroed) {
    kiln_place place = kiln_binding_place(module, binding, index);
    PyObject *array = kiln_array_new(native, place.port, is_zeroed);
    if (!array) return NULL;
    kiln_taken_own(&place, array, &binding->taken[index]);
    note(binding, index);
    PyObject *shown = kiln_array_present(native, array);
    Py_DECREF(array);
    return shown;
}

static int overlap(const kiln_module_tensor *a, size_t a_bytes, const kiln_module_tensor *b,
                   size_t b_bytes) {
    if (a->device_type != 1 || b->device_type != 1) return 0; /* libkiln knows about devices */
    uintptr_t a_first = (uintptr_t)a->data, b_first = (uintptr_t)b->data;
    return a_first < b_first + b_bytes && b_first < a_first + a_bytes;
}

int kiln_binding_finish(kiln_native *native, const kiln_module *module, kiln_binding *binding) {
    for (uint32_t i = binding->inputs; i < binding->inputs + binding->outputs; i++) {
        for (uint32_t j = 0; binding->tensor[i] && j < i; j++) {
            if (!binding->tensor[j]) continue;
            kiln_place a = kiln_binding_place(module, binding, i),
                       b = kiln_binding_place(module, binding, j);
            if (!overlap(binding->tensor[i], a.port->size_bytes, binding->tensor[j],
                         b.port->size_bytes))
                continue;
            kiln_error_format(native->errors, KILN_NATIVE_INVALID_ARGUMENT,
                              "output '%s' shares memory with %s '%s': expected memory of its own",
                              a.port->name, b.role, b.port->name);
            return -1;
        }
    }
    return 0;
}

int kiln_binding_run(kiln_module *module, const kiln_binding *binding) {
    int code;
    Py_BEGIN_ALLOW_THREADS;
    code = binding->size ? kiln_module_set_size(module, binding->size) : 0;
    if (code)
        ; /* it says why */
    else if (binding->is_on_device)
        code = kiln_module_run_tensors(module, binding->tensor, binding->tensor + binding->inputs);
    else
        code = kiln_module_run(module, (const void *const *)binding->data,
                               binding->data + binding->inputs);
    Py_END_ALLOW_THREADS;
    return code;
}
