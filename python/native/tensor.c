#include "python/native/tensor.h"

#include <stdio.h>
#include <string.h>

enum { PROCESSOR = 1, CUDA = 2, CUDA_HOST = 3, OPENCL = 4 }; /* DLPack's kinds of devices */
enum { TEXT_BYTES = 512 };                                   /* of a shape in an error */

/* ---- what errors say ---- */

static void print_numbers(const int64_t *number, int32_t count, char *out) {
    size_t at = (size_t)snprintf(out, TEXT_BYTES, "[");
    for (int32_t i = 0; i < count && at < TEXT_BYTES - 32; i++)
        at += (size_t)snprintf(out + at, TEXT_BYTES - at, "%s%lld", i ? ", " : "",
                               (long long)number[i]);
    snprintf(out + at, TEXT_BYTES - at, "]");
}

static void print_type(uint8_t code, uint32_t bits, uint32_t lanes, char out[64]) {
    static const char *const kind[] = {"int",    "uint",    "float", "handle",
                                       "bfloat", "complex", "bool"};
    for (uint32_t i = KILN_MODULE_F8E4M3FN; i < KILN_ELEMENTS && lanes == 1; i++) {
        const kiln_element *small = kiln_element_get(i);
        if (small->type_code != code || small->type_bits != bits) continue;
        snprintf(out, 64, "%s", small->name);
        return;
    }
    const char *name = code < sizeof kind / sizeof kind[0] ? kind[code] : "unknown";
    if (strcmp(name, "bool") == 0 && bits == 8 && lanes == 1)
        snprintf(out, 64, "bool");
    else if (lanes == 1)
        snprintf(out, 64, "%s%u", name, bits);
    else
        snprintf(out, 64, "%s%ux%u", name, bits, lanes);
}

static const char *device_name(int32_t type) {
    switch (type) {
    case PROCESSOR:
    case CUDA_HOST: return "the processor";
    case CUDA: return "a CUDA device";
    case OPENCL: return "an OpenCL device";
    default: return "a device of another kind";
    }
}

static int refuse(kiln_native *native, const kiln_place *place, const char *found,
                  const char *expected) {
    kiln_error_format(native->errors, KILN_NATIVE_INVALID_ARGUMENT, "%s '%s' %s: expected %s",
                      place->role, place->port->name, found, expected);
    return -1;
}

/* ---- is it what the port takes ---- */

static int is_type(const kiln_place *place, uint8_t code, uint32_t bits) {
    const kiln_element *element = kiln_element_get(place->port->dtype);
    if (code == element->type_code && bits == element->type_bits) return 1;
    return !element->format && code == 1 && bits == element->type_bits; /* its bits */
}

static int is_shape(const kiln_module_port *port, const kiln_module_tensor *found) {
    return found->rank == (int32_t)port->rank &&
           (port->rank == 0 ||
            memcmp(found->shape, port->shape, port->rank * sizeof port->shape[0]) == 0);
}

/* Strides of dimensions with one element say nothing. */
static int is_row_major(const kiln_module_tensor *found) {
    int64_t dense = 1;
    for (int32_t i = found->rank; found->strides && i-- > 0; dense *= found->shape[i])
        if (found->shape[i] == 0)
            return 1;
        else if (found->shape[i] != 1 && found->strides[i] != dense)
            return 0;
    return 1;
}

static int check(kiln_native *native, const kiln_place *place, const kiln_module_tensor *found,
                 int is_read_only) {
    char type[64], shape[TEXT_BYTES], wanted[TEXT_BYTES], strides[TEXT_BYTES];
    char is[2 * TEXT_BYTES + 128], expected[TEXT_BYTES + 64];
    int of_process = found->device_type == PROCESSOR || found->device_type == CUDA_HOST;
    if (!of_process && (found->device_type != place->device.device_type ||
                        found->device_id != place->device.device_id)) {
        snprintf(is, sizeof is, "lies on %s (%d:%d of DLPack)", device_name(found->device_type),
                 found->device_type, found->device_id);
        if (place->device.device_type == PROCESSOR)
            snprintf(expected, sizeof expected, "memory of the process");
        else
            snprintf(expected, sizeof expected, "memory of the process or of %s (%d:%d)",
                     device_name(place->device.device_type), place->device.device_type,
                     place->device.device_id);
        return refuse(native, place, is, expected);
    }
    print_type(found->type_code, found->type_bits, found->type_lanes, type);
    print_numbers(found->shape, found->rank, shape);
    if (found->type_lanes != 1 || !is_type(place, found->type_code, found->type_bits) ||
        !is_shape(place->port, found)) {
        print_numbers(place->port->shape, (int32_t)place->port->rank, wanted);
        snprintf(is, sizeof is, "is %s %s", type, shape);
        snprintf(expected, sizeof expected, "%s %s", kiln_element_get(place->port->dtype)->name,
                 wanted);
        return refuse(native, place, is, expected);
    }
    if (!is_row_major(found)) {
        print_numbers(found->strides, found->rank, strides);
        snprintf(is, sizeof is, "is %s %s with strides %s in elements", type, shape, strides);
        return refuse(native, place, is,
                      "rows without gaps (numpy.ascontiguousarray and torch's contiguous() copy "
                      "to such)");
    }
    if (is_read_only && place->is_written)
        return refuse(native, place, "is read-only", "memory that can be written");
    return 0;
}

/* ---- the buffer protocol ---- */

/* Type code of one element; -1: none of ours. */
static int code_of_format(const char *format) {
    if (!format) return 1; /* bytes */
    if (*format == '@' || *format == '=' || *format == '<') format++;
    if (format[0] == 0 || format[1] != 0) return -1;
    if (strchr("bhilqn", *format)) return 0;
    if (strchr("BHILQN", *format)) return 1;
    if (strchr("efd", *format)) return 2;
    return *format == '?' ? 6 : -1;
}

static int take_buffer(kiln_native *native, const kiln_place *place, PyObject *object,
                       kiln_taken *out) {
    char text[160];
    int64_t shape[PyBUF_MAX_NDIM], strides[PyBUF_MAX_NDIM];
    Py_buffer *view = &out->view;
    if (PyObject_GetBuffer(object, view, PyBUF_RECORDS_RO) < 0) return -1;
    int code = code_of_format(view->format);
    int failed = 0;
    if (code < 0) {
        snprintf(text, sizeof text, "has elements of format '%.60s'", view->format);
        failed = refuse(native, place, text, kiln_element_get(place->port->dtype)->name);
    }
    /* Strides that no whole number of elements makes become ones that no dense array has. */
    for (int i = 0; !failed && i < view->ndim; i++) {
        shape[i] = view->shape[i];
        strides[i] = view->strides[i] % view->itemsize ? 0 : view->strides[i] / view->itemsize;
    }
    if (!failed) {
        kiln_module_tensor found = {.data = view->buf,
                                    .device_type = PROCESSOR,
                                    .rank = view->ndim,
                                    .type_code = (uint8_t)code,
                                    .type_bits = (uint8_t)(8 * view->itemsize),
                                    .type_lanes = 1,
                                    .shape = shape,
                                    .strides = strides};
        failed = check(native, place, &found, view->readonly);
    }
    if (failed) {
        PyBuffer_Release(view);
        view->obj = NULL;
        return -1;
    }
    out->tensor = kiln_module_tensor_at(place->port, PROCESSOR, 0, view->buf);
    return 0;
}

/* ---- DLPack ---- */

/* The capsule of an object; in the newest form that its maker knows. */
static PyObject *export_of(kiln_native *native, PyObject *method) {
    PyObject *capsule = PyObject_Call(method, native->no_arguments, native->newest_dlpack);
    if (capsule || !PyErr_ExceptionMatches(PyExc_TypeError)) return capsule;
    PyErr_Clear();
    return PyObject_Call(method, native->no_arguments, NULL);
}

static int take_capsule(kiln_native *native, const kiln_place *place, PyObject *capsule,
                        kiln_taken *out) {
    int is_versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
    void *exported =
        PyCapsule_GetPointer(capsule, is_versioned ? "dltensor_versioned" : "dltensor");
    if (!exported) return -1;
    kiln_dlpack_versioned *versioned = exported;
    if (is_versioned && versioned->major != 1)
        return refuse(native, place, "is of a later version of DLPack", "version 1 or before");
    kiln_module_tensor found = is_versioned ? versioned->tensor : ((kiln_dlpack *)exported)->tensor;
    if (check(native, place, &found, is_versioned && (versioned->flags & 1)) < 0) return -1;
    if (PyCapsule_SetName(capsule, is_versioned ? "used_dltensor_versioned" : "used_dltensor") < 0)
        return -1;
    if (found.device_type == CUDA_HOST) found.device_type = PROCESSOR;
    if (found.device_type == PROCESSOR) {
        found = kiln_module_tensor_at(place->port, PROCESSOR, 0,
                                      (char *)found.data + found.byte_offset);
    } else {
        found.type_code = kiln_element_get(place->port->dtype)->type_code;
    }
    out->exported = exported;
    out->is_versioned = is_versioned;
    out->tensor = found;
    return 0;
}

/* Replaces the exception of an object that gives no memory by ours, which names the port. */
static int refuse_with_cause(kiln_native *native, const kiln_place *place) {
    PyObject *type, *value, *trace;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1; /* Control-C */
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    kiln_error_format(native->errors, KILN_NATIVE_INVALID_ARGUMENT,
                      "%s '%s' does not give its memory: %S", place->role, place->port->name,
                      value ? value : type);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return -1;
}

static int take_exported(kiln_native *native, const kiln_place *place, PyObject *method,
                         kiln_taken *out) {
    PyObject *capsule = export_of(native, method);
    if (!capsule) return refuse_with_cause(native, place);
    int failed = take_capsule(native, place, capsule, out);
    Py_DECREF(capsule);
    return failed;
}

/* ---- both ---- */

int kiln_shape_told(PyObject *object, int64_t *shape, int most) {
    PyObject *told = PyObject_GetAttrString(object, "shape");
    PyObject *list = told ? PySequence_Tuple(told) : NULL;
    Py_ssize_t rank = list ? PyTuple_Size(list) : -1;
    if (rank > most) rank = -1;
    for (Py_ssize_t i = 0; i < rank; i++) {
        shape[i] = PyLong_AsLongLong(PyTuple_GetItem(list, i));
        if (PyErr_Occurred()) rank = -1;
    }
    Py_XDECREF(told);
    Py_XDECREF(list);
    PyErr_Clear(); /* taking it says what is wrong */
    return (int)rank;
}

/* An array of numpy whose type a buffer cannot say, as ml_dtypes has them, is taken as its bits. */
static PyObject *bits_of(const kiln_place *place, PyObject *object) {
    const kiln_element *element = kiln_element_get(place->port->dtype);
    if (element->format) return NULL;
    PyObject *dtype = PyObject_GetAttrString(object, "dtype");
    PyObject *name = dtype ? PyObject_Str(dtype) : NULL;
    PyObject *bytes = name ? PyUnicode_AsUTF8String(name) : NULL;
    PyObject *bits = NULL;
    if (bytes && strcmp(PyBytes_AsString(bytes), element->name) == 0)
        bits =
            PyObject_CallMethod(object, "view", "s", element->type_bits == 8 ? "uint8" : "uint16");
    Py_XDECREF(bytes);
    Py_XDECREF(name);
    Py_XDECREF(dtype);
    PyErr_Clear();
    return bits;
}

int kiln_taken_from(kiln_native *native, const kiln_place *place, PyObject *object,
                    kiln_taken *out) {
    memset(out, 0, sizeof *out);
    PyObject *bits = PyObject_CheckBuffer(object) ? bits_of(place, object) : NULL;
    if (bits) {
        int failed = take_buffer(native, place, bits, out);
        Py_DECREF(bits);
        return failed;
    }
    if (PyObject_CheckBuffer(object)) {
        if (take_buffer(native, place, object, out) == 0) return 0;
        if (!PyErr_ExceptionMatches(PyExc_BufferError) && !PyErr_ExceptionMatches(PyExc_ValueError))
            return -1;
        return refuse_with_cause(native, place);
    }
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
    if (method) {
        int failed = take_exported(native, place, method, out);
        Py_DECREF(method);
        return failed;
    }
    PyErr_Clear();
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__name__");
    if (name)
        kiln_error_format(native->errors, KILN_NATIVE_INVALID_ARGUMENT,
                          "%s '%s' is of type %S: expected a buffer, as numpy's arrays are, or an "
                          "object with __dlpack__",
                          place->role, place->port->name, name);
    Py_XDECREF(name);
    return -1;
}

void kiln_taken_release(kiln_taken *taken) {
    if (taken->view.obj) PyBuffer_Release(&taken->view);
    if (taken->exported && taken->is_versioned) {
        kiln_dlpack_versioned *tensor = taken->exported;
        if (tensor->deleter) tensor->deleter(tensor);
    } else if (taken->exported) {
        kiln_dlpack *tensor = taken->exported;
        if (tensor->deleter) tensor->deleter(tensor);
    }
    Py_XDECREF(taken->owner);
    memset(taken, 0, sizeof *taken);
}
