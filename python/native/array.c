/* kiln.Array: memory for one input or output, dense and aligned, which needs no numpy. Others get
 * it by the buffer protocol or by DLPack, without a copy. */
#include "python/native/tensor.h"

#include <string.h>

typedef struct array {
    PyObject_HEAD PyObject *shape; /* tuple of int */
    char *memory, *data;           /* what was allocated, and the aligned part of it */
    const kiln_element *element;
    size_t size_bytes;
    int32_t rank;
    int64_t *extent;                       /* [rank] */
    Py_ssize_t *view_shape, *view_strides; /* [rank]; strides in bytes */
} array;

static void array_dealloc(PyObject *self) {
    array *a = (array *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    Py_XDECREF(a->shape);
    PyMem_Free(a->memory);
    PyMem_Free(a->extent);
    PyMem_Free(a->view_shape);
    release(self);
    Py_DECREF(type);
}

static int fill(array *a, const kiln_module_port *port, int is_zeroed) {
    size_t size = port->size_bytes + KILN_TENSOR_ALIGNMENT;
    a->memory = is_zeroed ? PyMem_Calloc(1, size) : PyMem_Malloc(size);
    a->extent = PyMem_Calloc(port->rank + 1, sizeof *a->extent);
    a->view_shape = PyMem_Calloc(2 * port->rank + 1, sizeof *a->view_shape);
    a->shape = PyTuple_New(port->rank);
    if (!a->memory || !a->extent || !a->view_shape || !a->shape) {
        if (!PyErr_Occurred()) PyErr_NoMemory();
        return -1;
    }
    a->data = a->memory + (KILN_TENSOR_ALIGNMENT - (uintptr_t)a->memory % KILN_TENSOR_ALIGNMENT);
    a->element = kiln_element_get(port->dtype);
    a->size_bytes = port->size_bytes;
    a->rank = (int32_t)port->rank;
    a->view_strides = a->view_shape + port->rank;
    Py_ssize_t stride = a->element->type_bits / 8;
    for (uint32_t i = port->rank; i-- > 0; stride *= (Py_ssize_t)port->shape[i]) {
        a->extent[i] = port->shape[i];
        a->view_shape[i] = (Py_ssize_t)port->shape[i];
        a->view_strides[i] = stride;
        PyObject *number = PyLong_FromLongLong(port->shape[i]);
        if (!number || PyTuple_SetItem(a->shape, i, number) < 0) return -1;
    }
    return 0;
}

PyObject *kiln_array_new(kiln_native *native, const kiln_module_port *port, int is_zeroed) {
    PyTypeObject *type = (PyTypeObject *)native->array_type;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = allocate(type, 0);
    if (self && fill((array *)self, port, is_zeroed) < 0) Py_CLEAR(self);
    return self;
}

void kiln_taken_own(const kiln_place *place, PyObject *object, kiln_taken *out) {
    memset(out, 0, sizeof *out);
    Py_INCREF(object);
    out->owner = object;
    out->tensor = kiln_module_tensor_at(place->port, 1, 0, ((array *)object)->data);
}

/* ---- what an extension keeps ---- */

void kiln_native_clear(kiln_native *native) {
    Py_CLEAR(native->errors);
    Py_CLEAR(native->array_type);
    Py_CLEAR(native->call_type);
    Py_CLEAR(native->module_type);
    Py_CLEAR(native->ndarray);
    Py_CLEAR(native->no_arguments);
    Py_CLEAR(native->newest_dlpack);
    for (uint32_t i = 0; i < KILN_ELEMENTS; i++) Py_CLEAR(native->numpy_dtype[i]);
}

/* ---- numpy ---- */

/* Floats of 8 bits are of the package ml_dtypes where it is installed, else their codes. */
static int seek_small_floats(kiln_native *native, PyObject *dtype) {
    PyObject *package = PyImport_ImportModule("ml_dtypes");
    if (!package && !PyErr_ExceptionMatches(PyExc_ImportError)) return -1;
    PyErr_Clear();
    for (uint32_t i = KILN_MODULE_F8E4M3FN; i < KILN_ELEMENTS; i++) {
        PyObject *type =
            package ? PyObject_GetAttrString(package, kiln_element_get(i)->name) : NULL;
        PyErr_Clear(); /* an older one lacks some */
        native->numpy_dtype[i] = type ? PyObject_CallFunctionObjArgs(dtype, type, NULL)
                                      : PyObject_CallFunction(dtype, "s", "uint8");
        Py_XDECREF(type);
        if (!native->numpy_dtype[i]) return -1;
    }
    Py_XDECREF(package);
    return 0;
}

static int seek_numpy(kiln_native *native) {
    if (native->numpy_sought) return 0;
    PyObject *numpy = PyImport_ImportModule("numpy");
    if (!numpy && !PyErr_ExceptionMatches(PyExc_ImportError)) return -1;
    PyErr_Clear();
    PyObject *dtype = numpy ? PyObject_GetAttrString(numpy, "dtype") : NULL;
    for (uint32_t i = 1; dtype && i <= KILN_MODULE_BOOL; i++) {
        native->numpy_dtype[i] = PyObject_CallFunction(dtype, "s", kiln_element_get(i)->name);
        PyErr_Clear(); /* a type that numpy lacks */
    }
    if (dtype && seek_small_floats(native, dtype) < 0) return -1;
    if (dtype) native->ndarray = PyObject_GetAttrString(numpy, "ndarray");
    Py_XDECREF(dtype);
    Py_XDECREF(numpy);
    native->numpy_sought = 1;
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *kiln_array_present(kiln_native *native, PyObject *object) {
    array *a = (array *)object;
    if (seek_numpy(native) < 0) return NULL;
    PyObject *dtype = NULL;
    for (uint32_t i = 1; native->ndarray && i < KILN_ELEMENTS; i++)
        if (kiln_element_get(i) == a->element && i != KILN_MODULE_BF16)
            dtype = native->numpy_dtype[i];
    if (!dtype) {
        Py_INCREF(object);
        return object;
    }
    return PyObject_CallFunctionObjArgs(native->ndarray, a->shape, dtype, object, NULL);
}

/* ---- the buffer protocol ---- */

static int array_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    array *a = (array *)self;
    view->obj = NULL;
    if ((flags & PyBUF_FORMAT) && !a->element->format) {
        PyErr_Format(PyExc_BufferError, "a buffer cannot say %s; use __dlpack__", a->element->name);
        return -1;
    }
    if (PyBuffer_FillInfo(view, self, a->data, (Py_ssize_t)a->size_bytes, 0, flags) < 0) return -1;
    if (!(flags & PyBUF_ND)) return 0;
    view->itemsize = a->element->type_bits / 8;
    view->format = flags & PyBUF_FORMAT ? (char *)a->element->format : NULL;
    view->ndim = a->rank;
    view->shape = a->view_shape;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? a->view_strides : NULL;
    return 0;
}

/* ---- DLPack ---- */

static kiln_module_tensor tensor_of(array *a) {
    return (kiln_module_tensor){.data = a->data,
                                .device_type = 1,
                                .rank = a->rank,
                                .type_code = a->element->type_code,
                                .type_bits = a->element->type_bits,
                                .type_lanes = 1,
                                .shape = a->extent};
}

/* Whoever holds the tensor may be any thread. */
static void let_go(void *exported, void *context) {
    PyGILState_STATE held = PyGILState_Ensure();
    Py_DECREF((PyObject *)context);
    PyMem_Free(exported);
    PyGILState_Release(held);
}

static void let_old_go(kiln_dlpack *exported) { let_go(exported, exported->context); }

static void let_versioned_go(kiln_dlpack_versioned *exported) {
    let_go(exported, exported->context);
}

/* A capsule that nobody took has its first name still. */
static void drop_capsule(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        kiln_dlpack *exported = PyCapsule_GetPointer(capsule, "dltensor");
        exported->deleter(exported);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        kiln_dlpack_versioned *exported = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        exported->deleter(exported);
    }
}

static PyObject *export_versioned(array *a) {
    kiln_dlpack_versioned *exported = PyMem_Calloc(1, sizeof *exported);
    if (!exported) return PyErr_NoMemory();
    *exported = (kiln_dlpack_versioned){
        .major = 1, .context = a, .deleter = let_versioned_go, .tensor = tensor_of(a)};
    exported->tensor.strides = NULL;
    PyObject *capsule = PyCapsule_New(exported, "dltensor_versioned", drop_capsule);
    if (!capsule) PyMem_Free(exported);
    return capsule;
}

static PyObject *export_old(array *a) {
    kiln_dlpack *exported = PyMem_Calloc(1, sizeof *exported);
    if (!exported) return PyErr_NoMemory();
    *exported = (kiln_dlpack){.tensor = tensor_of(a), .context = a, .deleter = let_old_go};
    PyObject *capsule = PyCapsule_New(exported, "dltensor", drop_capsule);
    if (!capsule) PyMem_Free(exported);
    return capsule;
}

static PyObject *array_dlpack(PyObject *self, PyObject *arguments, PyObject *named) {
    static char *const names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    int major = 0, minor = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "|$OOOO", (char **)names, &stream, &version,
                                     &device, &copy))
        return NULL;
    if (version != Py_None && !PyArg_ParseTuple(version, "ii", &major, &minor)) return NULL;
    int type = 1, id = 0;
    if (device != Py_None && !PyArg_ParseTuple(device, "ii", &type, &id)) return NULL;
    if (type != 1 || copy == Py_True || stream != Py_None)
        return PyErr_Format(PyExc_BufferError,
                            "this memory is the process's: no stream, no other device and no copy");
    PyObject *capsule = major >= 1 ? export_versioned((array *)self) : export_old((array *)self);
    if (capsule) Py_INCREF(self); /* until the tensor is let go */
    return capsule;
}

static PyObject *array_dlpack_device(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return Py_BuildValue("(ii)", 1, 0);
}

/* ---- the class ---- */

static PyObject *array_get_shape(PyObject *self, void *unused) {
    (void)unused;
    PyObject *shape = ((array *)self)->shape;
    Py_INCREF(shape);
    return shape;
}

static PyObject *array_get_dtype(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(((array *)self)->element->name);
}

static PyObject *array_get_bytes(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(((array *)self)->size_bytes);
}

static PyObject *array_repr(PyObject *self) {
    array *a = (array *)self;
    return PyUnicode_FromFormat("kiln.Array(%s, %S)", a->element->name, a->shape);
}

static Py_ssize_t array_length(PyObject *self) {
    array *a = (array *)self;
    if (a->rank > 0) return (Py_ssize_t)a->extent[0];
    PyErr_SetString(PyExc_TypeError, "an array without dimensions has no length");
    return -1;
}

PyObject *kiln_array_type_new(PyObject *module) {
    static PyMethodDef methods[] = {
        {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS,
         "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
         "A DLPack capsule on this memory, of version 1 where `max_version` allows it."},
        {"__dlpack_device__", array_dlpack_device, METH_NOARGS,
         "__dlpack_device__()\n--\n\n(1, 0): memory of the process."},
        {NULL, NULL, 0, NULL}};
    static PyGetSetDef properties[] = {
        {"shape", array_get_shape, NULL, "Extents of the dimensions.", NULL},
        {"dtype", array_get_dtype, NULL, "Name of the element type, as 'float32'.", NULL},
        {"nbytes", array_get_bytes, NULL, "Bytes of all elements.", NULL},
        {NULL, NULL, NULL, NULL, NULL}};
    static PyType_Slot slots[] = {
        {Py_tp_doc,
         "Dense memory in rows, aligned to 64 bytes. memoryview, numpy.asarray and from_dlpack of "
         "numpy, torch and others look at it without a copy."},
        {Py_tp_dealloc, (void *)array_dealloc},
        {Py_tp_repr, (void *)array_repr},
        {Py_sq_length, (void *)array_length},
        {Py_tp_methods, methods},
        {Py_tp_getset, properties},
        {Py_bf_getbuffer, (void *)array_getbuffer},
        {0, NULL}};
    static PyType_Spec spec = {"kiln.Array", sizeof(array), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    return PyType_FromModuleAndSpec(module, &spec, NULL);
}
