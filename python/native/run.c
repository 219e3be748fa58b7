/* The extension `kiln._run`: modules, over the run part of libkiln. */
#include "libkiln/version.h"
#include "python/native/module.h"

static int run_exec(PyObject *module) {
    kiln_native *native = PyModule_GetState(module);
    native->errors = kiln_errors_import();
    if (native->errors) native->array_type = kiln_array_type_new(module);
    if (native->array_type) native->call_type = kiln_call_type_new(module);
    if (native->call_type) native->module_type = kiln_module_type_new(module);
    if (native->module_type) native->no_arguments = PyTuple_New(0);
    if (native->no_arguments)
        native->newest_dlpack = Py_BuildValue("{s:(ii)}", "max_version", 1, 0);
    if (!native->newest_dlpack || PyModule_AddObjectRef(module, "Array", native->array_type) < 0 ||
        PyModule_AddObjectRef(module, "Call", native->call_type) < 0 ||
        PyModule_AddObjectRef(module, "Module", native->module_type) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "version", kiln_version());
}

static int run_clear(PyObject *module) {
    kiln_native_clear(PyModule_GetState(module));
    return 0;
}

static void run_free(void *module) { run_clear(module); }

static PyObject *verify(PyObject *module, PyObject *path) {
    kiln_native *native = PyModule_GetState(module);
    char error[KILN_MODULE_ERROR_BYTES] = "";
    PyObject *name = kiln_path_bytes(path);
    if (!name) return NULL;
    const char *text = PyBytes_AsString(name);
    int code;
    Py_BEGIN_ALLOW_THREADS;
    code = kiln_module_verify(text, error, sizeof error);
    Py_END_ALLOW_THREADS;
    Py_DECREF(name);
    if (code) return kiln_error_raise(native->errors, code, error);
    Py_RETURN_NONE;
}

PyMODINIT_FUNC PyInit__run(void) {
    static PyMethodDef functions[] = {
        {"open", kiln_module_open_for, METH_VARARGS, "open(class, path, threads)"},
        {"verify", verify, METH_O,
         "verify(path, /)\n--\n\n"
         "Checks every byte of a module for any machine, without loading its code."},
        {NULL, NULL, 0, NULL}};
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)run_exec}, {0, NULL}};
    static struct PyModuleDef definition = {
        PyModuleDef_HEAD_INIT,  .m_name = "kiln._run", .m_size = sizeof(kiln_native),
        .m_methods = functions, .m_slots = slots,      .m_clear = run_clear,
        .m_free = run_free};
    return PyModuleDef_Init(&definition);
}
