/* Memory of a caller for a port of a module: from any object with the buffer protocol or with
 * `__dlpack__`, never copied, held until it is released. And the package's own arrays, whose memory
 * is aligned as modules like it. */
#ifndef KILN_PYTHON_TENSOR_H
#define KILN_PYTHON_TENSOR_H

#include "python/native/native.h"

#define KILN_TENSOR_ALIGNMENT 64 /* bytes; what is aligned so is not copied by a run */

/* What an extension keeps: made when it is imported, freed with its module object. */
typedef struct kiln_native {
    PyObject *errors;                       /* numbers to classes */
    PyObject *array_type;                   /* kiln.Array */
    PyObject *call_type, *module_type;      /* of kiln._run: Call, the base of kiln.Module */
    PyObject *ndarray;                      /* numpy's class; NULL without numpy */
    PyObject *numpy_dtype[KILN_ELEMENTS];   /* NULL where numpy has no such type */
    int numpy_sought;                       /* 1 once it was looked for */
    PyObject *no_arguments, *newest_dlpack; /* () and {"max_version": (1, 0)} */
} kiln_native;
void kiln_native_clear(kiln_native *native); /* Lets go of all of it. */

/* A port, which memory it takes, and how errors call it. */
typedef struct kiln_place {
    const kiln_module_port *port;
    const char *role;               /* "input" or "output" */
    int is_written;                 /* 1: read-only memory is refused */
    kiln_module_device_info device; /* whose memory is taken, beside the process's */
} kiln_place;

typedef struct kiln_taken {
    kiln_module_tensor tensor; /* refers to the port's shape, or to that of `exported` */
    PyObject *owner;           /* of the package's own arrays; else NULL */
    Py_buffer view;            /* held where `view.obj` is not NULL */
    void *exported;            /* DLPack's managed tensor, or NULL */
    int is_versioned;          /* which of DLPack's two structs it is */
} kiln_taken;

/* The shape of a tensor, as far as it tells one without being taken: its rank, at most `most`; -1
 * where it does not. */
int kiln_shape_told(PyObject *object, int64_t *shape, int most);

/* Takes the memory of `object`; 0, or -1 with an exception:
 *
 * InvalidArgument  it is not a tensor, of another type, shape, device or layout than the port, or
 * is read-only and would be written; the text says what was found and expected */
int kiln_taken_from(kiln_native *native, const kiln_place *place, PyObject *object,
                    kiln_taken *out_taken);
/* Takes the memory of an array of kiln_array_new for this port. */
void kiln_taken_own(const kiln_place *place, PyObject *array, kiln_taken *out_taken);
/* Lets it go; accepts a zeroed one. */
void kiln_taken_release(kiln_taken *taken);

/* A new array for a port; `is_zeroed` 0: its bytes are those that were there before. */
PyObject *kiln_array_new(kiln_native *native, const kiln_module_port *port, int is_zeroed);
/* The array as a numpy array on its memory, or itself where numpy is absent or lacks the type: a
 * new reference. */
PyObject *kiln_array_present(kiln_native *native, PyObject *array);
/* Makes the class; NULL with an exception. */
PyObject *kiln_array_type_new(PyObject *module);

/* DLPack's structs, versions 0 and 1: https://dmlc.github.io/dlpack/latest/c_api.html */
typedef struct kiln_dlpack {
    kiln_module_tensor tensor;
    void *context;
    void (*deleter)(struct kiln_dlpack *);
} kiln_dlpack;

typedef struct kiln_dlpack_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct kiln_dlpack_versioned *);
    uint64_t flags; /* bit 0: read-only */
    kiln_module_tensor tensor;
} kiln_dlpack_versioned;

#endif
