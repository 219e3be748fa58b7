/* Modules as Python objects, and calls that are bound to memory. A handle of libkiln is used by one
 * thread at a time: a lock per module keeps the order, and nothing is done with the handle without
 * it. */
#include "python/native/module.h"

#include <string.h>
#include <time.h>

#include "python/native/binding.h"

typedef struct module_object {
    PyObject_HEAD PyObject *owner; /* the extension, which keeps `native` */
    kiln_native *native;
    PyObject *path;          /* bytes */
    PyThread_type_lock lock; /* of runs */
    kiln_module *module;
    kiln_module_size_info sizes; /* as it was opened */
    /* Under the GIL: calls that use `module`. The last one closes it where close() came meanwhile.
     */
    unsigned holders;
    int is_closed;
} module_object;

typedef struct call_object {
    PyObject_HEAD module_object *of;
    kiln_binding *binding;
    PyObject *inputs, *outputs; /* tuples of what the caller gave or gets */
} call_object;

/* ---- the handle ---- */

static void close_handle(module_object *m) {
    kiln_module *module = m->module;
    m->module = NULL;
    Py_BEGIN_ALLOW_THREADS;
    kiln_module_close(module);
    Py_END_ALLOW_THREADS;
}

static PyObject *path_text(module_object *m) {
    return PyUnicode_DecodeFSDefaultAndSize(PyBytes_AsString(m->path), PyBytes_Size(m->path));
}

/* Keeps the handle until `drop`; 0 with an exception where it is closed. */
static int hold(module_object *m) {
    if (!m->is_closed) return (int)++m->holders;
    PyObject *path = path_text(m);
    if (path)
        kiln_error_format(m->native->errors, KILN_NATIVE_FAILED_PRECONDITION,
                          "the module '%S' is closed: expected an open one (kiln.load)", path);
    Py_XDECREF(path);
    return 0;
}

/* Returns `value`, for whoever holds no longer. */
static PyObject *drop(module_object *m, PyObject *value) {
    if (--m->holders == 0 && m->is_closed) close_handle(m);
    return value;
}

/* Raises what `code` says of the module, which nobody else uses meanwhile. */
static int raise_of(module_object *m, int code) {
    if (code) kiln_error_raise(m->native->errors, code, kiln_module_error(m->module));
    return code ? -1 : 0;
}

/* Runs once, after those that run now; 0 or -1 with an exception. The caller holds the module. */
static int run_once(module_object *m, const kiln_binding *binding) {
    kiln_lock_take(m->lock);
    int failed = raise_of(m, kiln_binding_run(m->module, binding));
    PyThread_release_lock(m->lock);
    return failed;
}

PyObject *kiln_module_open_for(PyObject *owner, PyObject *arguments) {
    kiln_native *native = PyModule_GetState(owner);
    char error[KILN_MODULE_ERROR_BYTES] = "";
    PyTypeObject *class;
    PyObject *name;
    unsigned threads;
    if (!PyArg_ParseTuple(arguments, "OOI", &class, &name, &threads)) return NULL;
    PyObject *path = kiln_path_bytes(name);
    if (!path) return NULL;

    kiln_module *opened = NULL;
    kiln_module_options options = {.threads = threads};
    const char *text = PyBytes_AsString(path);
    int code;
    Py_BEGIN_ALLOW_THREADS;
    code = kiln_module_open(text, &options, &opened, error, sizeof error);
    Py_END_ALLOW_THREADS;
    if (code) {
        Py_DECREF(path);
        return kiln_error_raise(native->errors, code, error);
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(class, Py_tp_alloc);
    module_object *m = (module_object *)allocate(class, 0);
    if (m) {
        Py_INCREF(owner);
        m->owner = owner;
        m->native = native;
        m->module = opened;
        m->sizes = kiln_module_describe_sizes(opened);
        m->path = path;
        m->lock = PyThread_allocate_lock();
        if (m->lock) return (PyObject *)m;
        PyErr_NoMemory();
        Py_DECREF((PyObject *)m);
        return NULL;
    }
    kiln_module_close(opened);
    Py_DECREF(path);
    return NULL;
}

static void module_dealloc(PyObject *self) {
    module_object *m = (module_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    close_handle(m);
    if (m->lock) PyThread_free_lock(m->lock);
    Py_XDECREF(m->path);
    Py_XDECREF(m->owner);
    release(self);
    Py_DECREF(type);
}

static PyObject *module_close(PyObject *self, PyObject *unused) {
    (void)unused;
    module_object *m = (module_object *)self;
    m->is_closed = 1;
    if (m->holders == 0) close_handle(m);
    Py_RETURN_NONE;
}

/* ---- finding what was given for each port ---- */

static uint32_t port_count(const kiln_module *module, int is_output) {
    return is_output ? kiln_module_output_count(module) : kiln_module_input_count(module);
}

static const kiln_module_port *port_at(const kiln_module *module, int is_output, uint32_t index) {
    return is_output ? kiln_module_output(module, index) : kiln_module_input(module, index);
}

/* The first port from `index` on that a caller has memory for, as the module does not keep it. */
static uint32_t next_given(const kiln_module *module, int is_output, uint32_t index) {
    while (index < port_count(module, is_output) &&
           kiln_module_kept_with(module, is_output, index) >= 0)
        index++;
    return index;
}

static uint32_t given_count(const kiln_module *module, int is_output) {
    uint32_t count = 0;
    for (uint32_t i = next_given(module, is_output, 0); i < port_count(module, is_output);
         i = next_given(module, is_output, i + 1))
        count++;
    return count;
}

/* "a, b": for errors. */
static PyObject *port_names(const kiln_module *module, int is_output) {
    PyObject *list = PyList_New(0), *text = NULL;
    for (uint32_t i = next_given(module, is_output, 0); list && i < port_count(module, is_output);
         i = next_given(module, is_output, i + 1)) {
        const char *name = port_at(module, is_output, i)->name;
        PyObject *item = PyUnicode_FromString(name);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    PyObject *comma = list ? PyUnicode_FromString(", ") : NULL;
    if (comma) text = PyUnicode_Join(comma, list);
    Py_XDECREF(comma);
    Py_XDECREF(list);
    return text;
}

/* Raises with the ports' names behind. */
static int refuse_ports(module_object *m, int is_output, const char *what, PyObject *which) {
    PyObject *names = port_names(m->module, is_output);
    if (names)
        kiln_error_format(m->native->errors, KILN_NATIVE_INVALID_ARGUMENT,
                          "%s %S: expected %s for %u %s (%S)", what, which,
                          is_output ? "memory" : "values", given_count(m->module, is_output),
                          is_output ? "outputs" : "inputs", names);
    Py_XDECREF(names);
    return -1;
}

static int refuse_count(module_object *m, int is_output, Py_ssize_t count) {
    PyObject *number = PyLong_FromSsize_t(count);
    int failed = number ? refuse_ports(m, is_output, "the number of those given is", number) : -1;
    Py_XDECREF(number);
    return failed;
}

static int refuse_port(module_object *m, int is_output, const char *what, uint32_t index) {
    PyObject *name = PyUnicode_FromString(port_at(m->module, is_output, index)->name);
    int failed = name ? refuse_ports(m, is_output, what, name) : -1;
    Py_XDECREF(name);
    return failed;
}

/* Fills the empty places of `item` from a mapping by name, all of which must be used. */
static int take_named(module_object *m, int is_output, PyObject *named, PyObject **item) {
    Py_ssize_t used = 0;
    for (uint32_t i = 0; i < port_count(m->module, is_output); i++) {
        PyObject *given = PyDict_GetItemString(named, port_at(m->module, is_output, i)->name);
        if (!given) continue;
        if (item[i]) return refuse_port(m, is_output, "given twice is", i);
        if (kiln_module_kept_with(m->module, is_output, i) >= 0)
            return refuse_port(m, is_output, "the module keeps", i);
        item[i] = given;
        used++;
    }
    if (used == PyDict_Size(named)) return 0;
    PyObject *keys = PyDict_Keys(named);
    int failed = keys ? refuse_ports(m, is_output, "some name is unknown of", keys) : -1;
    Py_XDECREF(keys);
    return failed;
}

static int all_given(module_object *m, int is_output, PyObject *const *item) {
    for (uint32_t i = next_given(m->module, is_output, 0); i < port_count(m->module, is_output);
         i = next_given(m->module, is_output, i + 1))
        if (!item[i]) {
            refuse_port(m, is_output, "missing is", i);
            return 0;
        }
    return 1;
}

/* From arguments of a call. `item` [ports], zeroed: gets borrowed references. */
static int take_arguments(module_object *m, PyObject *arguments, PyObject *named, PyObject **item) {
    Py_ssize_t count = PyTuple_Size(arguments);
    if (count > (Py_ssize_t)given_count(m->module, 0)) return refuse_count(m, 0, count);
    uint32_t at = next_given(m->module, 0, 0);
    for (Py_ssize_t i = 0; i < count; i++, at = next_given(m->module, 0, at + 1))
        item[at] = PyTuple_GetItem(arguments, i);
    if (named && take_named(m, 0, named, item) < 0) return -1;
    return all_given(m, 0, item) ? 0 : -1;
}

/* From one object: a dict by name, a list or tuple in order, or the tensor of the only port. */
static int take_collection(module_object *m, int is_output, PyObject *given, PyObject **item) {
    uint32_t ports = given_count(m->module, is_output), at = next_given(m->module, is_output, 0);
    if (PyDict_Check(given)) {
        if (take_named(m, is_output, given, item) < 0) return -1;
        return all_given(m, is_output, item) ? 0 : -1;
    }
    if (!PyList_Check(given) && !PyTuple_Check(given)) {
        if (ports != 1) return refuse_count(m, is_output, 1);
        item[at] = given;
        return 0;
    }
    int is_list = PyList_Check(given);
    Py_ssize_t count = is_list ? PyList_Size(given) : PyTuple_Size(given);
    if (count != (Py_ssize_t)ports) return refuse_count(m, is_output, count);
    for (Py_ssize_t i = 0; i < count; i++, at = next_given(m->module, is_output, at + 1))
        item[at] = is_list ? PyList_GetItem(given, i) : PyTuple_GetItem(given, i);
    return 0;
}

/* ---- sizes ---- */

enum { SHAPE_MAX = 8 }; /* dimensions of a port */

static PyObject *buckets_new(const module_object *m) {
    PyObject *list = PyTuple_New(m->sizes.bucket_count);
    for (uint32_t i = 0; list && i < m->sizes.bucket_count; i++) {
        PyObject *size = PyLong_FromLongLong(m->sizes.bucket[i]);
        if (!size || PyTuple_SetItem(list, i, size) < 0) Py_CLEAR(list);
    }
    return list;
}

static int refuse_size(module_object *m, int64_t size) {
    PyObject *list = buckets_new(m);
    if (list && m->sizes.takes_all)
        kiln_error_format(m->native->errors, KILN_NATIVE_OUT_OF_RANGE,
                          "%s is %lld: expected 1 to %lld", m->sizes.dim, (long long)size,
                          (long long)m->sizes.size_max);
    else if (list)
        kiln_error_format(m->native->errors, KILN_NATIVE_OUT_OF_RANGE,
                          "%s is %lld: expected one of %S", m->sizes.dim, (long long)size, list);
    Py_XDECREF(list);
    return -1;
}

static int takes(const module_object *m, int64_t size) {
    if (size < 1 || size > m->sizes.size_max) return 0;
    for (uint32_t i = 0; !m->sizes.takes_all && i < m->sizes.bucket_count; i++)
        if (m->sizes.bucket[i] == size) return 1;
    return m->sizes.takes_all;
}

/* The size that the first input tells which has one; the largest where none does. -1 with
 * OutOfRange: the module does not take it. 0 for a module of one size. */
static int find_size(module_object *m, PyObject *const *input, int64_t *out_size) {
    *out_size = m->sizes.size_max;
    for (uint32_t i = 0; m->sizes.dim && input && i < port_count(m->module, 0); i++) {
        if (!input[i]) continue; /* it is kept */
        int64_t shape[SHAPE_MAX];
        int rank = kiln_shape_told(input[i], shape, SHAPE_MAX);
        int64_t size = rank < 0 ? 0 : kiln_module_size_of(m->module, i, (uint32_t)rank, shape);
        if (size == 0) continue;
        *out_size = size;
        return takes(m, size) ? 0 : refuse_size(m, size);
    }
    return 0;
}

/* ---- binding ---- */

/* Takes or, where `item` is NULL, makes memory for all inputs or outputs that the module does not
 * keep. Returns what the caller sees of them, in order. */
static PyObject *bind_ports(module_object *m, kiln_binding *binding, int is_output,
                            PyObject *const *item, int is_zeroed) {
    uint32_t count = port_count(m->module, is_output), first = is_output ? binding->inputs : 0;
    PyObject *shown = PyTuple_New(given_count(m->module, is_output));
    Py_ssize_t place = 0;
    for (uint32_t i = next_given(m->module, is_output, 0); shown && i < count;
         i = next_given(m->module, is_output, i + 1)) {
        PyObject *one = item ? item[i] : NULL;
        if (!item)
            one = kiln_binding_make(m->native, m->module, binding, first + i, is_zeroed);
        else if (kiln_binding_take(m->native, m->module, binding, first + i, one) < 0)
            one = NULL;
        else
            Py_INCREF(one);
        if (!one || PyTuple_SetItem(shown, place++, one) < 0) Py_CLEAR(shown);
    }
    return shown;
}

/* `given` Py_None: new memory. */
static PyObject *bind_collection(module_object *m, kiln_binding *binding, int is_output,
                                 PyObject *given) {
    if (given == Py_None) return bind_ports(m, binding, is_output, NULL, 1);
    uint32_t count = port_count(m->module, is_output);
    PyObject **item = PyMem_Calloc(count + 1, sizeof *item);
    if (!item) return PyErr_NoMemory();
    PyObject *shown = NULL;
    Py_INCREF(given); /* its items are borrowed while Python code of tensors runs */
    if (take_collection(m, is_output, given, item) == 0)
        shown = bind_ports(m, binding, is_output, item, 0);
    Py_DECREF(given);
    PyMem_Free(item);
    return shown;
}

/* The same of a collection of inputs, before it is bound. */
static int find_size_in(module_object *m, PyObject *given, int64_t *out_size) {
    if (given == Py_None || !m->sizes.dim) return find_size(m, NULL, out_size);
    PyObject **item = PyMem_Calloc(port_count(m->module, 0) + 1, sizeof *item);
    if (!item) {
        PyErr_NoMemory();
        return -1;
    }
    Py_INCREF(given);
    int failed = take_collection(m, 0, given, item) < 0 || find_size(m, item, out_size) < 0;
    Py_DECREF(given);
    PyMem_Free(item);
    return failed ? -1 : 0;
}

/* What a run returns: the only output, or all of them. Steals `outputs`. */
static PyObject *result_of(PyObject *outputs) {
    if (!outputs || PyTuple_Size(outputs) != 1) return outputs;
    PyObject *only = PyTuple_GetItem(outputs, 0);
    Py_INCREF(only);
    Py_DECREF(outputs);
    return only;
}

static PyObject *module_call(PyObject *self, PyObject *arguments, PyObject *named) {
    module_object *m = (module_object *)self;
    PyObject *inputs = NULL, *outputs = NULL;
    if (!hold(m)) return NULL;
    kiln_binding *binding = NULL;
    int64_t size;
    PyObject **item = PyMem_Calloc(port_count(m->module, 0) + 1, sizeof *item);
    if (!item) PyErr_NoMemory();
    if (item && take_arguments(m, arguments, named, item) == 0 && find_size(m, item, &size) == 0)
        binding = kiln_binding_new(m->module, size);
    if (binding) inputs = bind_ports(m, binding, 0, item, 0);
    if (inputs) outputs = bind_ports(m, binding, 1, NULL, 0);
    if (outputs && run_once(m, binding) < 0) Py_CLEAR(outputs);
    PyMem_Free(item);
    kiln_binding_free(binding);
    Py_XDECREF(inputs);
    return drop(m, result_of(outputs));
}

static PyObject *module_bind(PyObject *self, PyObject *arguments, PyObject *named) {
    static char *const names[] = {"inputs", "outputs", NULL};
    module_object *m = (module_object *)self;
    PyObject *inputs = Py_None, *outputs = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "|OO", (char **)names, &inputs, &outputs))
        return NULL;
    PyTypeObject *type = (PyTypeObject *)m->native->call_type;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    if (!hold(m)) return NULL;
    call_object *call = (call_object *)allocate(type, 0);
    if (!call) return drop(m, NULL);
    Py_INCREF(self);
    call->of = m;
    int64_t size;
    if (find_size_in(m, inputs, &size) == 0) call->binding = kiln_binding_new(m->module, size);
    if (call->binding) call->inputs = bind_collection(m, call->binding, 0, inputs);
    if (call->inputs) call->outputs = bind_collection(m, call->binding, 1, outputs);
    if (!call->outputs || kiln_binding_finish(m->native, m->module, call->binding) < 0)
        Py_CLEAR(call);
    return drop(m, (PyObject *)call);
}

/* ---- bound calls ---- */

static void call_dealloc(PyObject *self) {
    call_object *call = (call_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject_GC_UnTrack(self);
    kiln_binding_free(call->binding);
    Py_XDECREF(call->inputs);
    Py_XDECREF(call->outputs);
    Py_XDECREF((PyObject *)call->of);
    release(self);
    Py_DECREF(type);
}

static int call_traverse(PyObject *self, visitproc visit, void *arg) {
    call_object *call = (call_object *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(call->inputs);
    Py_VISIT(call->outputs);
    Py_VISIT((PyObject *)call->of);
    return 0;
}

static PyObject *call_call(PyObject *self, PyObject *arguments, PyObject *named) {
    call_object *call = (call_object *)self;
    if (PyTuple_Size(arguments) > 0 || (named && PyDict_Size(named) > 0)) {
        PyErr_SetString(PyExc_TypeError, "a bound call takes no arguments: it has its memory");
        return NULL;
    }
    if (!hold(call->of)) return NULL;
    if (run_once(call->of, call->binding) < 0) return drop(call->of, NULL);
    Py_INCREF(call->outputs);
    return drop(call->of, result_of(call->outputs));
}

static PyObject *call_get(PyObject *self, void *is_output) {
    call_object *call = (call_object *)self;
    PyObject *tensors = is_output ? call->outputs : call->inputs;
    Py_INCREF(tensors);
    return tensors;
}

PyObject *kiln_call_type_new(PyObject *module) {
    static int yes;
    static PyGetSetDef properties[] = {
        {"inputs", call_get, NULL, "The memory that the inputs are read from, in order.", NULL},
        {"outputs", call_get, NULL, "The memory that the outputs are written to, in order.", &yes},
        {NULL, NULL, NULL, NULL, NULL}};
    static PyType_Slot slots[] = {
        {Py_tp_doc, "A module with its inputs and outputs at fixed places: calling it runs once, "
                    "reads and writes there, and returns the outputs as the module does."},
        {Py_tp_dealloc, (void *)call_dealloc},
        {Py_tp_traverse, (void *)call_traverse},
        {Py_tp_call, (void *)call_call},
        {Py_tp_getset, properties},
        {0, NULL}};
    static PyType_Spec spec = {
        "kiln.Call", sizeof(call_object), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    return PyType_FromModuleAndSpec(module, &spec, NULL);
}

/* ---- what a module says of itself ---- */

/* Stores a new value, which is stolen, below a name. */
static int put(PyObject *dict, const char *name, PyObject *value) {
    int failed = value ? PyDict_SetItemString(dict, name, value) : -1;
    Py_XDECREF(value);
    return failed;
}

/* Of a module of several sizes in the largest. */
static PyObject *port_new(const module_object *m, int is_output, uint32_t index) {
    const kiln_module_port *port = port_at(m->module, is_output, index);
    int64_t extents[SHAPE_MAX];
    size_t bytes;
    const int64_t *from = port->shape;
    if (m->sizes.dim &&
        !kiln_module_port_at(m->module, is_output, index, m->sizes.size_max, extents, &bytes))
        from = extents;
    PyObject *shape = PyTuple_New(port->rank);
    for (uint32_t i = 0; shape && i < port->rank; i++) {
        PyObject *extent = PyLong_FromLongLong(from[i]);
        if (!extent || PyTuple_SetItem(shape, i, extent) < 0) Py_CLEAR(shape);
    }
    if (!shape) return NULL;
    return Py_BuildValue("(ssN)", port->name, kiln_element_get(port->dtype)->name, shape);
}

static PyObject *module_ports(PyObject *self, PyObject *is_output) {
    module_object *m = (module_object *)self;
    if (!hold(m)) return NULL;
    int output = PyObject_IsTrue(is_output);
    PyObject *list = PyTuple_New(port_count(m->module, output));
    for (uint32_t i = 0; list && i < port_count(m->module, output); i++) {
        PyObject *port = port_new(m, output, i);
        if (!port || PyTuple_SetItem(list, i, port) < 0) Py_CLEAR(list);
    }
    return drop(m, list);
}

static PyObject *module_steps(PyObject *self, PyObject *unused) {
    static const char *const action[] = {"", "kernel", "alias", "copy", "event", "loop", "carry"};
    module_object *m = (module_object *)self;
    (void)unused;
    if (!hold(m)) return NULL;
    uint32_t count = kiln_module_step_count(m->module);
    PyObject *list = PyTuple_New(count);
    for (uint32_t i = 0; list && i < count; i++) {
        const kiln_module_step *s = kiln_module_step_at(m->module, i);
        const char *does = s->action < sizeof action / sizeof action[0] ? action[s->action] : "";
        PyObject *step = Py_BuildValue("(sssssdd)", s->name, s->op, s->task, s->algorithm, does,
                                       s->flops, s->times);
        if (!step || PyTuple_SetItem(list, i, step) < 0) Py_CLEAR(list);
    }
    return drop(m, list);
}

static PyObject *module_metadata(PyObject *self, PyObject *key) {
    module_object *m = (module_object *)self;
    if (!hold(m)) return NULL;
    PyObject *name = PyUnicode_AsUTF8String(key);
    const char *text = name ? PyBytes_AsString(name) : NULL;
    const char *value = text ? kiln_module_metadata(m->module, text) : NULL;
    Py_XDECREF(name);
    return drop(m, text ? Py_BuildValue("z", value) : NULL);
}

/* (dimension, whether it takes all sizes, buckets), or None. */
static PyObject *sizes_new(const module_object *m) {
    if (!m->sizes.dim) Py_RETURN_NONE;
    PyObject *buckets = buckets_new(m);
    return buckets
               ? Py_BuildValue("(sNN)", m->sizes.dim, PyBool_FromLong(m->sizes.takes_all), buckets)
               : NULL;
}

static PyObject *module_numbers(PyObject *self, PyObject *unused) {
    module_object *m = (module_object *)self;
    (void)unused;
    if (!hold(m)) return NULL;
    kiln_module_device_info device = kiln_module_describe_device(m->module);
    PyObject *out = PyDict_New();
    if (out &&
        (put(out, "threads", PyLong_FromUnsignedLong(kiln_module_threads(m->module))) < 0 ||
         put(out, "arena_bytes", PyLong_FromSize_t(kiln_module_arena_bytes(m->module))) < 0 ||
         put(out, "packed_bytes", PyLong_FromSize_t(kiln_module_packed_bytes(m->module))) < 0 ||
         put(out, "constant_bytes", PyLong_FromSize_t(kiln_module_constant_bytes(m->module))) < 0 ||
         put(out, "sizes", sizes_new(m)) < 0 ||
         put(out, "device", Py_BuildValue("(ii)", device.device_type, device.device_id)) < 0))
        Py_CLEAR(out);
    return drop(m, out);
}

static PyObject *module_rows(PyObject *self, PyObject *unused) {
    module_object *m = (module_object *)self;
    (void)unused;
    if (!hold(m)) return NULL;
    uint32_t count = kiln_module_output_count(m->module);
    PyObject *list = PyTuple_New(count);
    for (uint32_t i = 0; list && i < count; i++) {
        PyObject *rows = PyLong_FromLongLong(kiln_module_output_rows(m->module, i));
        if (!rows || PyTuple_SetItem(list, i, rows) < 0) Py_CLEAR(list);
    }
    return drop(m, list);
}

static PyObject *module_is_closed(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(((module_object *)self)->is_closed);
}

static PyObject *module_path(PyObject *self, void *unused) {
    (void)unused;
    return path_text((module_object *)self);
}

/* ---- what stays between runs ---- */

/* 0, or -1 with InvalidArgument: there is none of that name. */
static int find_port(module_object *m, int is_output, const char *name, uint32_t *out_index) {
    for (uint32_t i = 0; i < port_count(m->module, is_output); i++) {
        *out_index = i;
        if (strcmp(port_at(m->module, is_output, i)->name, name) == 0) return 0;
    }
    PyObject *text = PyUnicode_FromString(name);
    if (text) refuse_ports(m, is_output, "there is no", text);
    Py_XDECREF(text);
    return -1;
}

/* The caller holds the module; nobody else does, as calls count the ports that are kept. */
static int keep_held(module_object *m, const char *input, const char *output) {
    uint32_t in, out;
    if (m->holders > 1) {
        kiln_error_format(m->native->errors, KILN_NATIVE_FAILED_PRECONDITION,
                          "the module is in use: expected no call of another thread meanwhile");
        return -1;
    }
    if (find_port(m, 0, input, &in) < 0 || find_port(m, 1, output, &out) < 0) return -1;
    return raise_of(m, kiln_module_keep(m->module, in, out));
}

static PyObject *module_keep(PyObject *self, PyObject *arguments, PyObject *named) {
    static char *const names[] = {"input", "output", NULL};
    module_object *m = (module_object *)self;
    const char *input, *output;
    if (!PyArg_ParseTupleAndKeywords(arguments, named, "ss", (char **)names, &input, &output))
        return NULL;
    if (!hold(m)) return NULL;
    return drop(m, keep_held(m, input, output) < 0 ? NULL : Py_BuildValue(""));
}

/* Pairs of names, in the order of the inputs. */
static PyObject *module_kept(PyObject *self, PyObject *unused) {
    module_object *m = (module_object *)self;
    (void)unused;
    if (!hold(m)) return NULL;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < port_count(m->module, 0); i++) {
        const int64_t with = kiln_module_kept_with(m->module, 0, i);
        if (with < 0) continue;
        PyObject *pair = Py_BuildValue("(ss)", port_at(m->module, 0, i)->name,
                                       port_at(m->module, 1, (uint32_t)with)->name);
        if (!pair || PyList_Append(list, pair) < 0) Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return drop(m, list);
}

static PyObject *module_reset(PyObject *self, PyObject *unused) {
    module_object *m = (module_object *)self;
    (void)unused;
    if (!hold(m)) return NULL;
    kiln_lock_take(m->lock);
    int failed = raise_of(m, kiln_module_reset(m->module));
    PyThread_release_lock(m->lock);
    return drop(m, failed ? NULL : Py_BuildValue(""));
}

/* Reads into a new array, which it returns; or writes `value` and returns None. */
static PyObject *move_state(module_object *m, const char *name, PyObject *value) {
    uint32_t index;
    kiln_taken taken = {0};
    if (find_port(m, 0, name, &index) < 0) return NULL;
    const kiln_place place = {
        .port = kiln_module_input(m->module, index), .role = "input", .device = {.device_type = 1}};
    PyObject *array = value ? NULL : kiln_array_new(m->native, place.port, 0), *result = NULL;
    if (array) kiln_taken_own(&place, array, &taken);
    if (value ? kiln_taken_from(m->native, &place, value, &taken) == 0 : array != NULL) {
        kiln_lock_take(m->lock);
        int failed =
            raise_of(m, value ? kiln_module_write_state(m->module, index, taken.tensor.data)
                              : kiln_module_read_state(m->module, index, taken.tensor.data));
        PyThread_release_lock(m->lock);
        if (!failed) result = value ? Py_BuildValue("") : kiln_array_present(m->native, array);
    }
    kiln_taken_release(&taken);
    Py_XDECREF(array);
    return result;
}

static PyObject *module_state(PyObject *self, PyObject *arguments) {
    module_object *m = (module_object *)self;
    const char *name;
    if (!PyArg_ParseTuple(arguments, "s", &name) || !hold(m)) return NULL;
    return drop(m, move_state(m, name, NULL));
}

static PyObject *module_set_state(PyObject *self, PyObject *arguments) {
    module_object *m = (module_object *)self;
    const char *name;
    PyObject *value;
    if (!PyArg_ParseTuple(arguments, "sO", &name, &value) || !hold(m)) return NULL;
    return drop(m, move_state(m, name, value));
}

/* ---- profiles ---- */

typedef struct step_time {
    uint64_t began_ns, total_ns, device_ns, calls;
} step_time;

typedef struct profile {
    kiln_module *module;
    step_time *step;
} profile;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Called without the GIL. */
static void time_step(void *context, uint32_t step, int done) {
    profile *p = context;
    step_time *time = &p->step[step];
    if (!done) {
        time->began_ns = now_ns();
        return;
    }
    time->total_ns += now_ns() - time->began_ns;
    time->device_ns += kiln_module_step_device_ns(p->module);
    time->calls++;
}

/* Rows (calls, ns of the host, ns of the device) of each step. */
static PyObject *times_new(const step_time *step, uint32_t count) {
    PyObject *list = PyTuple_New(count);
    for (uint32_t i = 0; list && i < count; i++) {
        PyObject *row = Py_BuildValue("(KKK)", (unsigned long long)step[i].calls,
                                      (unsigned long long)step[i].total_ns,
                                      (unsigned long long)step[i].device_ns);
        if (!row || PyTuple_SetItem(list, i, row) < 0) Py_CLEAR(list);
    }
    return list;
}

/* Runs `runs` times with a clock around each step. The caller holds the module and its lock. */
static PyObject *profile_locked(module_object *m, const kiln_binding *binding, unsigned runs) {
    if (binding->size)
        (void)kiln_module_set_size(m->module, binding->size); /* it has those steps */
    uint32_t count = kiln_module_step_count(m->module);
    profile p = {.module = m->module, .step = PyMem_Calloc(count + 1, sizeof *p.step)};
    if (!p.step) return PyErr_NoMemory();
    int code = 0;
    kiln_module_set_hook(m->module, time_step, &p);
    for (unsigned i = 0; !code && !PyErr_Occurred() && i < runs; i++) {
        code = kiln_binding_run(m->module, binding);
        if (code)
            kiln_error_raise(m->native->errors, code, kiln_module_error(m->module));
        else
            PyErr_CheckSignals();
    }
    kiln_module_set_hook(m->module, NULL, NULL);
    PyObject *times = PyErr_Occurred() ? NULL : times_new(p.step, count);
    PyMem_Free(p.step);
    return times;
}

static PyObject *module_profile(PyObject *self, PyObject *arguments) {
    module_object *m = (module_object *)self;
    call_object *call;
    unsigned runs;
    if (!PyArg_ParseTuple(arguments, "O!I", m->native->call_type, &call, &runs)) return NULL;
    if (!hold(call->of)) return NULL;
    kiln_lock_take(call->of->lock);
    PyObject *times = profile_locked(call->of, call->binding, runs);
    PyThread_release_lock(call->of->lock);
    return drop(call->of, times);
}

/* ---- the class ---- */

PyObject *kiln_module_type_new(PyObject *module) {
    static PyMethodDef methods[] = {
        {"bind", (PyCFunction)(void (*)(void))module_bind, METH_VARARGS | METH_KEYWORDS,
         "bind(inputs=None, outputs=None)\n--\n\n"
         "A call with its memory at fixed places, which costs least. `inputs` and `outputs`: a "
         "list or tuple in order, a dict by name, or the only tensor; None: new, zeroed, aligned "
         "arrays, which `inputs` and `outputs` of the call show."},
        {"keep", (PyCFunction)(void (*)(void))module_keep, METH_VARARGS | METH_KEYWORDS,
         "keep(input, output)\n--\n\n"
         "Keeps state between runs: what a run gives `output` is `input` of the next one, zeros at "
         "first. Both are names of ports of one type and shape; from then on the module has their "
         "memory: calls neither take the input nor return the output. A run that fails leaves the "
         "state as it was. Raises InvalidArgument where the two differ, or depend on the size of "
         "a module of several."},
        {"reset", module_reset, METH_NOARGS,
         "reset()\n--\n\nSets everything that is kept between runs to zeros."},
        {"state", module_state, METH_VARARGS,
         "state(input)\n--\n\nA copy of what the next run takes for the kept input of that name."},
        {"set_state", module_set_state, METH_VARARGS,
         "set_state(input, value)\n--\n\n"
         "Copies `value`, a tensor in memory of the process, for the next run to take."},
        {"close", module_close, METH_NOARGS,
         "close()\n--\n\nReturns the module's memory, after a run that goes on. Again: nothing."},
        {"_ports", module_ports, METH_O, NULL},
        {"_kept", module_kept, METH_NOARGS, NULL},
        {"_steps", module_steps, METH_NOARGS, NULL},
        {"_metadata", module_metadata, METH_O, NULL},
        {"_numbers", module_numbers, METH_NOARGS, NULL},
        {"_rows", module_rows, METH_NOARGS, NULL},
        {"_profile", module_profile, METH_VARARGS, NULL},
        {NULL, NULL, 0, NULL}};
    static PyGetSetDef properties[] = {
        {"closed", module_is_closed, NULL, "True once it was closed.", NULL},
        {"path", module_path, NULL, "The file that it was loaded from.", NULL},
        {NULL, NULL, NULL, NULL, NULL}};
    static PyType_Slot slots[] = {{Py_tp_doc, "An open module: the base of kiln.Module."},
                                  {Py_tp_dealloc, (void *)module_dealloc},
                                  {Py_tp_call, (void *)module_call},
                                  {Py_tp_methods, methods},
                                  {Py_tp_getset, properties},
                                  {0, NULL}};
    static PyType_Spec spec = {
        "kiln._run.Module", sizeof(module_object), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    return PyType_FromModuleAndSpec(module, &spec, NULL);
}
