/* One run's memory: what is given for every input and output of a module, in the forms that
 * libkiln's two calls take. What the module keeps between runs has none. */
#ifndef KILN_PYTHON_BINDING_H
#define KILN_PYTHON_BINDING_H

#include "python/native/tensor.h"

typedef struct kiln_binding {
    uint32_t inputs, outputs;
    int64_t size;           /* of a module of several; 0: it has one */
    kiln_module_port *port; /* [inputs + outputs] in that size, with shapes of the binding's own */
    int is_on_device;       /* something lies elsewhere than in the process's memory */
    kiln_taken *taken;      /* [inputs + outputs] */
    const kiln_module_tensor **tensor; /* [inputs + outputs], into `taken` */
    void **data;                       /* [inputs + outputs] */
} kiln_binding;

/* A binding to be filled, for a size that the module takes; NULL with an exception. */
kiln_binding *kiln_binding_new(const kiln_module *module, int64_t size);
/* Accepts NULL. */
void kiln_binding_free(kiln_binding *binding);

/* The place of an input, or, from `inputs` on, of an output. */
kiln_place kiln_binding_place(const kiln_module *module, const kiln_binding *binding,
                              uint32_t index);
/* Takes `object` for the port `index`; -1 with an exception. */
int kiln_binding_take(kiln_native *native, const kiln_module *module, kiln_binding *binding,
                      uint32_t index, PyObject *object);
/* A new array for the port: what callers shall see of it (kiln_array_present), or NULL with an
 * exception. */
PyObject *kiln_binding_make(kiln_native *native, const kiln_module *module, kiln_binding *binding,
                            uint32_t index, int is_zeroed);
/* After everything was taken: -1 with InvalidArgument where an output overlaps anything else. */
int kiln_binding_finish(kiln_native *native, const kiln_module *module, kiln_binding *binding);

/* Runs once, without the GIL. Returns a code; the text is in kiln_module_error. */
int kiln_binding_run(kiln_module *module, const kiln_binding *binding);

#endif
