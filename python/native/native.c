#include "python/native/native.h"

#include <string.h>

static const kiln_element element_table[] = {
    [KILN_MODULE_F32] = {"float32", "f", 2, 32},
    [KILN_MODULE_F64] = {"float64", "d", 2, 64},
    [KILN_MODULE_F16] = {"float16", "e", 2, 16},
    [KILN_MODULE_BF16] = {"bfloat16", NULL, 4, 16},
    [KILN_MODULE_I8] = {"int8", "b", 0, 8},
    [KILN_MODULE_I16] = {"int16", "h", 0, 16},
    [KILN_MODULE_I32] = {"int32", "i", 0, 32},
    [KILN_MODULE_I64] = {"int64", "q", 0, 64},
    [KILN_MODULE_U8] = {"uint8", "B", 1, 8},
    [KILN_MODULE_U16] = {"uint16", "H", 1, 16},
    [KILN_MODULE_U32] = {"uint32", "I", 1, 32},
    [KILN_MODULE_U64] = {"uint64", "Q", 1, 64},
    [KILN_MODULE_BOOL] = {"bool", "?", 6, 8},
    [KILN_MODULE_F8E4M3FN] = {"float8_e4m3fn", NULL, 10, 8},
    [KILN_MODULE_F8E4M3FNUZ] = {"float8_e4m3fnuz", NULL, 11, 8},
    [KILN_MODULE_F8E5M2] = {"float8_e5m2", NULL, 12, 8},
    [KILN_MODULE_F8E5M2FNUZ] = {"float8_e5m2fnuz", NULL, 13, 8},
    [KILN_MODULE_F8E8M0] = {"float8_e8m0fnu", NULL, 14, 8},
    [KILN_MODULE_F4E2M1] = {"float4_e2m1fn", NULL, 17, 8},
};

_Static_assert(sizeof element_table / sizeof element_table[0] == KILN_ELEMENTS,
               "one row per element type; numbers begin with 1");

const kiln_element *kiln_element_get(uint32_t dtype) { return &element_table[dtype]; }

PyObject *kiln_errors_import(void) {
    PyObject *module = PyImport_ImportModule("kiln._errors");
    if (!module) return NULL;
    PyObject *table = PyObject_GetAttrString(module, "BY_NUMBER");
    Py_DECREF(module);
    return table;
}

/* Steals `text`. */
static PyObject *raise_text(PyObject *errors, int code, PyObject *text) {
    PyObject *number = PyLong_FromLong(code);
    PyObject *class = number ? PyObject_GetItem(errors, number) : NULL;
    if (class && text) PyErr_SetObject(class, text);
    Py_XDECREF(class);
    Py_XDECREF(number);
    Py_XDECREF(text);
    return NULL;
}

PyObject *kiln_error_raise(PyObject *errors, int code, const char *text) {
    return raise_text(errors, code, kiln_text_new(text, strlen(text)));
}

PyObject *kiln_error_format(PyObject *errors, int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    PyObject *text = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    return raise_text(errors, code, text);
}

void kiln_lock_take(PyThread_type_lock lock) {
    if (PyThread_acquire_lock(lock, NOWAIT_LOCK)) return;
    Py_BEGIN_ALLOW_THREADS;
    PyThread_acquire_lock(lock, WAIT_LOCK);
    Py_END_ALLOW_THREADS;
}

PyObject *kiln_text_new(const char *text, size_t size_bytes) {
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)size_bytes, "replace");
}

PyObject *kiln_path_bytes(PyObject *path) {
    PyObject *bytes = NULL;
    return PyUnicode_FSConverter(path, &bytes) ? bytes : NULL;
}

int kiln_class_add(PyObject *module, const char *name, PyType_Spec *spec) {
    PyObject *class = PyType_FromModuleAndSpec(module, spec, NULL);
    const int failed = class ? PyModule_AddObjectRef(module, name, class) : -1;
    Py_XDECREF(class);
    return failed;
}
