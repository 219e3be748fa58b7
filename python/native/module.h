/* The classes of modules and of bound calls. */
#ifndef KILN_PYTHON_MODULE_H
#define KILN_PYTHON_MODULE_H

#include "python/native/tensor.h"

/* Make the classes; NULL with an exception. */
PyObject *kiln_module_type_new(PyObject *module);
PyObject *kiln_call_type_new(PyObject *module);

/* open(class, path, threads): what kiln.load calls. `owner`: the extension's module object, whose
 * state is a kiln_native. */
PyObject *kiln_module_open_for(PyObject *owner, PyObject *arguments);

#endif
