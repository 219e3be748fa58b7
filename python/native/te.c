/* The extension `kiln._te`: operators and schedules, over the te part of libkiln. Memory is taken
 * and given as by modules (tensor.h); arrays are those of `kiln._run`. */
#include "libkiln/operator.h"

#include "python/native/tensor.h"

enum { ERROR_BYTES = 1024 };

/* An operator of its own, or a schedule. */
typedef struct handle {
    PyObject_HEAD PyObject *owner; /* the extension */
    PyThread_type_lock lock;       /* of the two below */
    kiln_operator *op;             /* NULL of schedules */
    kiln_schedule *schedule;
} handle;

static kiln_native *native_of(handle *h) { return PyModule_GetState(h->owner); }

static PyObject *raise(handle *h, int code, const char *error) {
    return kiln_error_raise(native_of(h)->errors, code, error);
}

static const kiln_operator *operator_of(const handle *h) {
    return h->schedule ? kiln_schedule_operator(h->schedule) : h->op;
}

/* ---- making and unmaking ---- */

static handle *handle_new(PyObject *owner, const char *class_name) {
    PyObject *class = PyObject_GetAttrString(owner, class_name);
    if (!class) return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)class, Py_tp_alloc);
    handle *h = (handle *)allocate((PyTypeObject *)class, 0);
    Py_DECREF(class);
    if (!h) return NULL;
    Py_INCREF(owner);
    h->owner = owner;
    h->lock = PyThread_allocate_lock();
    if (h->lock) return h;
    Py_DECREF((PyObject *)h);
    PyErr_NoMemory();
    return NULL;
}

static void handle_dealloc(PyObject *self) {
    handle *h = (handle *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    kiln_operator_destroy(h->op);
    kiln_schedule_destroy(h->schedule);
    if (h->lock) PyThread_free_lock(h->lock);
    Py_XDECREF(h->owner);
    release(self);
    Py_DECREF(type);
}

static PyObject *operator_new(PyObject *owner, PyObject *argument) {
    char error[ERROR_BYTES] = "";
    PyObject *name = PyUnicode_AsUTF8String(argument);
    handle *h = name ? handle_new(owner, "Operator") : NULL;
    int code = h ? kiln_operator_create(PyBytes_AsString(name), &h->op, error, sizeof error) : 0;
    Py_XDECREF(name);
    if (!code) return (PyObject *)h;
    raise(h, code, error);
    Py_DECREF((PyObject *)h);
    return NULL;
}

static PyObject *operator_schedule(PyObject *self, PyObject *unused) {
    handle *from = (handle *)self;
    char error[ERROR_BYTES] = "";
    (void)unused;
    handle *h = handle_new(from->owner, "Schedule");
    if (!h) return NULL;
    kiln_lock_take(from->lock);
    int code = kiln_schedule_create(from->op, &h->schedule, error, sizeof error);
    PyThread_release_lock(from->lock);
    if (!code) return (PyObject *)h;
    raise(h, code, error);
    Py_DECREF((PyObject *)h);
    return NULL;
}

/* ---- running ---- */

static kiln_place place_of(const kiln_operator *op, uint32_t role, uint32_t index) {
    return (kiln_place){.port = kiln_operator_tensor(op, role, index),
                        .role = role == KILN_OPERATOR_OUTPUT     ? "output"
                                : role == KILN_OPERATOR_CONSTANT ? "constant"
                                                                 : "input",
                        .is_written = role == KILN_OPERATOR_OUTPUT,
                        .device = {.device_type = 1}};
}

static PyObject *bad_count(handle *h, Py_ssize_t found, uint32_t expected) {
    return kiln_error_format(native_of(h)->errors, KILN_NATIVE_INVALID_ARGUMENT,
                             "%zd inputs are given: expected %u", found, expected);
}

/* Memory of one call: inputs, then outputs. */
typedef struct call {
    uint32_t inputs, outputs;
    kiln_taken *taken; /* [inputs + outputs] */
    void **data;       /* likewise */
} call;

static void call_free(call *c) {
    for (uint32_t i = 0; c->taken && i < c->inputs + c->outputs; i++)
        kiln_taken_release(&c->taken[i]);
    PyMem_Free(c->taken);
    PyMem_Free(c->data);
}

/* Takes the inputs and makes the outputs: a tuple of what callers see, or NULL. */
static PyObject *call_begin(handle *h, PyObject *inputs, call *c) {
    const kiln_operator *op = operator_of(h);
    kiln_native *native = native_of(h);
    *c = (call){.inputs = kiln_operator_tensor_count(op, KILN_OPERATOR_INPUT),
                .outputs = kiln_operator_tensor_count(op, KILN_OPERATOR_OUTPUT)};
    if (PyTuple_Size(inputs) != (Py_ssize_t)c->inputs)
        return bad_count(h, PyTuple_Size(inputs), c->inputs);
    c->taken = PyMem_Calloc(c->inputs + c->outputs + 1, sizeof *c->taken);
    c->data = PyMem_Calloc(c->inputs + c->outputs + 1, sizeof *c->data);
    if (!c->taken || !c->data) return PyErr_NoMemory();
    for (uint32_t i = 0; i < c->inputs; i++) {
        kiln_place place = place_of(op, KILN_OPERATOR_INPUT, i);
        PyObject *input = PyTuple_GetItem(inputs, i);
        if (!input || kiln_taken_from(native, &place, input, &c->taken[i]) < 0) return NULL;
        c->data[i] = c->taken[i].tensor.data;
    }
    PyObject *shown = PyTuple_New((Py_ssize_t)c->outputs);
    for (uint32_t i = 0; shown && i < c->outputs; i++) {
        kiln_place place = place_of(op, KILN_OPERATOR_OUTPUT, i);
        PyObject *array = kiln_array_new(native, place.port, 1);
        PyObject *output = array ? kiln_array_present(native, array) : NULL;
        if (array) kiln_taken_own(&place, array, &c->taken[c->inputs + i]);
        c->data[c->inputs + i] = c->taken[c->inputs + i].tensor.data;
        Py_XDECREF(array);
        if (!output || PyTuple_SetItem(shown, (Py_ssize_t)i, output) < 0) Py_CLEAR(shown);
    }
    return shown;
}

static int interpret(handle *h, const call *c, char *error) {
    const void *const *inputs = (const void *const *)c->data;
    return h->schedule
               ? kiln_schedule_run(h->schedule, inputs, c->data + c->inputs, error, ERROR_BYTES)
               : kiln_operator_run(h->op, inputs, c->data + c->inputs, error, ERROR_BYTES);
}

static PyObject *handle_run(PyObject *self, PyObject *inputs) {
    handle *h = (handle *)self;
    char error[ERROR_BYTES] = "";
    call c;
    int code = 0;
    kiln_lock_take(h->lock);
    PyObject *outputs = call_begin(h, inputs, &c);
    if (outputs) {
        Py_BEGIN_ALLOW_THREADS;
        code = interpret(h, &c, error);
        Py_END_ALLOW_THREADS;
    }
    PyThread_release_lock(h->lock);
    call_free(&c);
    if (!code) return outputs;
    Py_DECREF(outputs);
    return raise(h, code, error);
}

/* ---- operators ---- */

static PyObject *operator_add(PyObject *self, PyObject *argument) {
    handle *h = (handle *)self;
    char error[ERROR_BYTES] = "";
    PyObject *lines = PyUnicode_AsUTF8String(argument);
    if (!lines) return NULL;
    kiln_lock_take(h->lock);
    int code = kiln_operator_add(h->op, PyBytes_AsString(lines), error, sizeof error);
    PyThread_release_lock(h->lock);
    Py_DECREF(lines);
    if (code) return raise(h, code, error);
    Py_RETURN_NONE;
}

static int set_constant(handle *h, uint32_t index, PyObject *object) {
    const kiln_place place = place_of(h->op, KILN_OPERATOR_CONSTANT, index);
    char error[ERROR_BYTES] = "";
    kiln_taken taken;
    if (kiln_taken_from(native_of(h), &place, object, &taken) < 0) return -1;
    int code = kiln_operator_set_constant(h->op, place.port->name, taken.tensor.data,
                                          place.port->size_bytes, error, sizeof error);
    kiln_taken_release(&taken);
    if (code) raise(h, code, error);
    return code ? -1 : 0;
}

static PyObject *operator_set_constant(PyObject *self, PyObject *arguments) {
    handle *h = (handle *)self;
    unsigned index;
    PyObject *object;
    int failed = -1;
    if (!PyArg_ParseTuple(arguments, "IO", &index, &object)) return NULL;
    kiln_lock_take(h->lock);
    if (index < kiln_operator_tensor_count(h->op, KILN_OPERATOR_CONSTANT))
        failed = set_constant(h, index, object);
    else
        PyErr_SetString(PyExc_IndexError, "there is no such constant");
    PyThread_release_lock(h->lock);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyObject *operator_repeat(PyObject *self, PyObject *arguments) {
    handle *h = (handle *)self;
    char error[ERROR_BYTES] = "";
    long long steps;
    unsigned states, rows;
    if (!PyArg_ParseTuple(arguments, "LII", &steps, &states, &rows)) return NULL;
    kiln_lock_take(h->lock);
    int code = kiln_operator_repeat(h->op, steps, states, rows, error, sizeof error);
    PyThread_release_lock(h->lock);
    if (code) return raise(h, code, error);
    Py_RETURN_NONE;
}

static PyObject *operator_text(PyObject *self, PyObject *unused) {
    handle *h = (handle *)self;
    (void)unused;
    kiln_lock_take(h->lock);
    PyObject *text = PyUnicode_FromString(kiln_operator_text(h->op));
    PyThread_release_lock(h->lock);
    return text;
}

static PyObject *port_new(const kiln_module_port *port) {
    PyObject *shape = PyTuple_New((Py_ssize_t)port->rank);
    for (uint32_t i = 0; shape && i < port->rank; i++) {
        PyObject *extent = PyLong_FromLongLong(port->shape[i]);
        if (!extent || PyTuple_SetItem(shape, (Py_ssize_t)i, extent) < 0) Py_CLEAR(shape);
    }
    if (!shape) return NULL;
    return Py_BuildValue("(ssN)", port->name, kiln_element_get(port->dtype)->name, shape);
}

static PyObject *operator_tensors(PyObject *self, PyObject *argument) {
    handle *h = (handle *)self;
    const uint32_t role = (uint32_t)PyLong_AsUnsignedLongMask(argument);
    if (PyErr_Occurred()) return NULL;
    kiln_lock_take(h->lock);
    const uint32_t count = kiln_operator_tensor_count(h->op, role);
    PyObject *list = PyTuple_New((Py_ssize_t)count);
    for (uint32_t i = 0; list && i < count; i++) {
        PyObject *port = port_new(kiln_operator_tensor(h->op, role, i));
        if (!port || PyTuple_SetItem(list, (Py_ssize_t)i, port) < 0) Py_CLEAR(list);
    }
    PyThread_release_lock(h->lock);
    return list;
}

static PyObject *operator_model(PyObject *self, PyObject *unused) {
    handle *h = (handle *)self;
    char error[ERROR_BYTES] = "";
    const void *data = NULL;
    size_t size = 0;
    PyObject *bytes = NULL;
    (void)unused;
    kiln_lock_take(h->lock);
    int code = kiln_operator_model(h->op, &data, &size, error, sizeof error);
    if (!code) bytes = PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
    PyThread_release_lock(h->lock);
    return code ? raise(h, code, error) : bytes;
}

/* ---- schedules ---- */

static PyObject *names_new(kiln_names names) {
    PyObject *list = PyTuple_New((Py_ssize_t)names.count);
    for (uint32_t i = 0; list && i < names.count; i++) {
        PyObject *name = PyUnicode_FromString(names.name[i]);
        if (!name || PyTuple_SetItem(list, (Py_ssize_t)i, name) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *schedule_apply(PyObject *self, PyObject *argument) {
    handle *h = (handle *)self;
    char error[ERROR_BYTES] = "";
    PyObject *made = NULL, *lines = PyUnicode_AsUTF8String(argument);
    if (!lines) return NULL;
    kiln_lock_take(h->lock);
    int code = kiln_schedule_apply(h->schedule, PyBytes_AsString(lines), error, sizeof error);
    if (!code)
        made =
            Py_BuildValue("(NNN)", names_new(kiln_schedule_made(h->schedule, KILN_SCHEDULE_LOOPS)),
                          names_new(kiln_schedule_made(h->schedule, KILN_SCHEDULE_BLOCKS)),
                          names_new(kiln_schedule_made(h->schedule, KILN_SCHEDULE_BUFFERS)));
    PyThread_release_lock(h->lock);
    Py_DECREF(lines);
    return code ? raise(h, code, error) : made;
}

/* The text that `get` gives. */
static PyObject *text_of(PyObject *self, const char *(*get)(const kiln_schedule *)) {
    handle *h = (handle *)self;
    kiln_lock_take(h->lock);
    PyObject *text = PyUnicode_FromString(get(h->schedule));
    PyThread_release_lock(h->lock);
    return text;
}

static PyObject *schedule_program(PyObject *self, PyObject *unused) {
    (void)unused;
    return text_of(self, kiln_schedule_program);
}

static PyObject *schedule_trace(PyObject *self, PyObject *unused) {
    (void)unused;
    return text_of(self, kiln_schedule_trace);
}

static PyObject *schedule_task(PyObject *self, PyObject *unused) {
    (void)unused;
    return text_of(self, kiln_schedule_task);
}

static PyObject *schedule_tensor(PyObject *self, PyObject *argument) {
    handle *h = (handle *)self;
    PyObject *name = PyUnicode_AsUTF8String(argument);
    if (!name) return NULL;
    kiln_lock_take(h->lock);
    const char *found = kiln_schedule_tensor(h->schedule, PyBytes_AsString(name));
    PyObject *text = found ? PyUnicode_FromString(found) : NULL;
    PyThread_release_lock(h->lock);
    Py_DECREF(name);
    if (found) return text;
    Py_RETURN_NONE;
}

static PyObject *schedule_names(PyObject *self, PyObject *argument) {
    handle *h = (handle *)self;
    const uint32_t what = (uint32_t)PyLong_AsUnsignedLongMask(argument);
    if (PyErr_Occurred()) return NULL;
    kiln_lock_take(h->lock);
    PyObject *list = names_new(kiln_schedule_names(h->schedule, what));
    PyThread_release_lock(h->lock);
    return list;
}

static PyObject *schedule_around(PyObject *self, PyObject *argument) {
    handle *h = (handle *)self;
    PyObject *block = PyUnicode_AsUTF8String(argument);
    if (!block) return NULL;
    kiln_lock_take(h->lock);
    PyObject *list = names_new(kiln_schedule_loops_around(h->schedule, PyBytes_AsString(block)));
    PyThread_release_lock(h->lock);
    Py_DECREF(block);
    return list;
}

/* ---- the extension ---- */

static int add_operator_class(PyObject *module) {
    static PyMethodDef methods[] = {{"add", operator_add, METH_O, NULL},
                                    {"set_constant", operator_set_constant, METH_VARARGS, NULL},
                                    {"repeat", operator_repeat, METH_VARARGS, NULL},
                                    {"text", operator_text, METH_NOARGS, NULL},
                                    {"tensors", operator_tensors, METH_O, NULL},
                                    {"run", handle_run, METH_VARARGS, NULL},
                                    {"model", operator_model, METH_NOARGS, NULL},
                                    {"schedule", operator_schedule, METH_NOARGS, NULL},
                                    {NULL, NULL, 0, NULL}};
    static PyType_Slot slots[] = {{Py_tp_doc, "An operator under construction."},
                                  {Py_tp_dealloc, (void *)handle_dealloc},
                                  {Py_tp_methods, methods},
                                  {0, NULL}};
    static PyType_Spec spec = {"kiln._te.Operator", sizeof(handle), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    return kiln_class_add(module, "Operator", &spec);
}

static int add_schedule_class(PyObject *module) {
    static PyMethodDef methods[] = {{"apply", schedule_apply, METH_O, NULL},
                                    {"program", schedule_program, METH_NOARGS, NULL},
                                    {"trace", schedule_trace, METH_NOARGS, NULL},
                                    {"task", schedule_task, METH_NOARGS, NULL},
                                    {"tensor", schedule_tensor, METH_O, NULL},
                                    {"names", schedule_names, METH_O, NULL},
                                    {"loops_around", schedule_around, METH_O, NULL},
                                    {"run", handle_run, METH_VARARGS, NULL},
                                    {NULL, NULL, 0, NULL}};
    static PyType_Slot slots[] = {{Py_tp_doc, "A schedule under construction."},
                                  {Py_tp_dealloc, (void *)handle_dealloc},
                                  {Py_tp_methods, methods},
                                  {0, NULL}};
    static PyType_Spec spec = {"kiln._te.Schedule", sizeof(handle), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    return kiln_class_add(module, "Schedule", &spec);
}

static int te_exec(PyObject *module) {
    kiln_native *native = PyModule_GetState(module);
    native->errors = kiln_errors_import();
    PyObject *run = native->errors ? PyImport_ImportModule("kiln._run") : NULL;
    native->array_type = run ? PyObject_GetAttrString(run, "Array") : NULL;
    Py_XDECREF(run);
    if (native->array_type) native->no_arguments = PyTuple_New(0);
    if (native->no_arguments)
        native->newest_dlpack = Py_BuildValue("{s:(ii)}", "max_version", 1, 0);
    if (!native->newest_dlpack || add_operator_class(module) < 0) return -1;
    return add_schedule_class(module);
}

static int te_clear(PyObject *module) {
    kiln_native_clear(PyModule_GetState(module));
    return 0;
}

static void te_free(void *module) { te_clear(module); }

PyMODINIT_FUNC PyInit__te(void) {
    static PyMethodDef functions[] = {{"operator", operator_new, METH_O, "operator(name, /)"},
                                      {NULL, NULL, 0, NULL}};
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)te_exec}, {0, NULL}};
    static struct PyModuleDef definition = {
        PyModuleDef_HEAD_INIT,  .m_name = "kiln._te", .m_size = sizeof(kiln_native),
        .m_methods = functions, .m_slots = slots,     .m_clear = te_clear,
        .m_free = te_free};
    return PyModuleDef_Init(&definition);
}
