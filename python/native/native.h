/* What the extensions `kiln._run` and `kiln._query` share: errors as exceptions, element types, and
 * a lock that waits without Python's own. Only the stable interface of Python 3.11 is used, so one
 * build serves every later Python. */
#ifndef KILN_PYTHON_NATIVE_H
#define KILN_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "deploy/module.h"

/* Codes of errors, as numbered in base/status.def. */
enum {
#define X(name, number, exit_code, meaning) KILN_NATIVE_##name = number,
#include "base/status.def"
#undef X
};

/* How an element type is called and coded outside of Kiln. */
typedef struct kiln_element {
    const char *name;             /* numpy's and torch's: "float32" */
    const char *format;           /* of the buffer protocol; NULL: it has none for this type */
    uint8_t type_code, type_bits; /* DLPack's */
} kiln_element;

enum {
    KILN_ELEMENTS = 1 /* dtypes are below */
#define X(name, text, size, kind, c_type, number) +1
#include "base/dtype.def"
#undef X
};

/* Of a port's dtype. */
const kiln_element *kiln_element_get(uint32_t dtype);

/* The table from numbers of errors to exception classes, which the package makes of
 * base/status.def: a new reference, or NULL with an exception. */
PyObject *kiln_errors_import(void);
/* Raises the exception class of `code` and returns NULL. `text` may be damaged UTF-8. */
PyObject *kiln_error_raise(PyObject *errors, int code, const char *text);
/* The same; the format is that of PyUnicode_FromFormat. */
PyObject *kiln_error_format(PyObject *errors, int code, const char *format, ...);

/* Waits for a lock; other threads of Python run meanwhile. Needs the GIL. */
void kiln_lock_take(PyThread_type_lock lock);

/* Text of a module, a record or an operating system, which may be damaged UTF-8. */
PyObject *kiln_text_new(const char *text, size_t size_bytes);

/* The file name `path` (str, bytes or os.PathLike) as bytes: a new reference, or NULL with an
 * exception. */
PyObject *kiln_path_bytes(PyObject *path);

/* Adds a class to an extension; -1 with an exception. */
int kiln_class_add(PyObject *module, const char *name, PyType_Spec *spec);

#endif
