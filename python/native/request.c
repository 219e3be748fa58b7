/* The extension `kiln._request`: tuning, compiling and the jobs of fleets, over the tune part of
 * libkiln. */
#include <string.h>

#include "libkiln/tune/tune.h"
#include "python/native/native.h"

enum { ERROR_BYTES = 16384, SETTINGS_MAX = 1000 };

typedef struct request_state {
    PyObject *errors;
} request_state;

typedef struct request_object {
    PyObject_HEAD PyObject *owner, *errors;
    PyThread_type_lock lock; /* of waiting */
    kiln_request *request;
    PyObject *heard; /* list of what came during a wait; NULL: nobody waits, or no memory for it */
} request_object;

/* Called without the GIL. */
static void hear(void *context, kiln_request *request, const kiln_request_event *event) {
    request_object *r = context;
    PyGILState_STATE state = PyGILState_Ensure();
    (void)request;
    PyObject *text = kiln_text_new(event->text, strlen(event->text));
    PyObject *pair = text ? Py_BuildValue("(IN)", event->kind, text) : NULL;
    if (r->heard && (!pair || PyList_Append(r->heard, pair) < 0)) Py_CLEAR(r->heard);
    Py_XDECREF(pair);
    PyErr_Clear(); /* the wait raises MemoryError */
    PyGILState_Release(state);
}

/* Settings as ("name", "value" or None); -1 with an exception. */
static int take_settings(PyObject *list, kiln_request_setting *setting) {
    const Py_ssize_t count = PyList_Size(list);
    if (count < 0 || count > SETTINGS_MAX) {
        if (count >= 0) PyErr_Format(PyExc_ValueError, "at most %d settings", SETTINGS_MAX);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "sz", &setting[i].name, &setting[i].value))
            return -1;
    setting[count] = (kiln_request_setting){NULL, NULL};
    return 0;
}

static PyObject *request_start(PyObject *owner, PyObject *arguments) {
    request_state *state = PyModule_GetState(owner);
    kiln_request_setting setting[SETTINGS_MAX + 1];
    kiln_request_options options = {
        .struct_bytes = sizeof options, .settings = setting, .heard = hear};
    PyObject *list;
    char error[ERROR_BYTES] = "";
    if (!PyArg_ParseTuple(arguments, "IzOz", &options.what, &options.subject, &list,
                          &options.programs) ||
        take_settings(list, setting) < 0)
        return NULL;
    PyObject *class = PyObject_GetAttrString(owner, "Request");
    if (!class) return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)class, Py_tp_alloc);
    request_object *r = (request_object *)allocate((PyTypeObject *)class, 0);
    Py_DECREF(class);
    if (!r) return NULL;
    Py_INCREF(owner);
    Py_INCREF(state->errors);
    r->owner = owner;
    r->errors = state->errors;
    r->lock = PyThread_allocate_lock();
    options.context = r;
    int code;
    Py_BEGIN_ALLOW_THREADS;
    code = kiln_request_start(&options, &r->request, error, sizeof error);
    Py_END_ALLOW_THREADS;
    if (!code && r->lock) return (PyObject *)r;
    Py_DECREF((PyObject *)r);
    return code ? kiln_error_raise(state->errors, code, error) : PyErr_NoMemory();
}

static void request_dealloc(PyObject *self) {
    request_object *r = (request_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    kiln_request_free(r->request); /* waits for a program that was killed */
    if (r->lock) PyThread_free_lock(r->lock);
    Py_XDECREF(r->errors);
    Py_XDECREF(r->owner);
    release(self);
    Py_DECREF(type);
}

static PyObject *request_wait(PyObject *self, PyObject *arguments) {
    request_object *r = (request_object *)self;
    int timeout_ms, ended = 0, code;
    char error[ERROR_BYTES] = "";
    if (!PyArg_ParseTuple(arguments, "i", &timeout_ms)) return NULL;
    kiln_lock_take(r->lock);
    r->heard = PyList_New(0);
    int is_there = r->heard != NULL;
    Py_BEGIN_ALLOW_THREADS;
    code = kiln_request_wait(r->request, timeout_ms, &ended, error, sizeof error);
    Py_END_ALLOW_THREADS;
    PyObject *heard = r->heard;
    r->heard = NULL;
    PyThread_release_lock(r->lock);
    if (!heard) return is_there ? PyErr_NoMemory() : NULL;
    PyObject *text = kiln_text_new(error, strlen(error));
    if (text) return Py_BuildValue("(ONiN)", ended ? Py_True : Py_False, heard, code, text);
    Py_DECREF(heard);
    return NULL;
}

static PyObject *request_cancel(PyObject *self, PyObject *unused) {
    (void)unused;
    kiln_request_cancel(((request_object *)self)->request);
    Py_RETURN_NONE;
}

/* ---- the extension ---- */

static int request_exec(PyObject *module) {
    static PyMethodDef methods[] = {
        {"wait", request_wait, METH_VARARGS,
         "wait(timeout_ms, /)\n--\n\nHears it for at most so long: whether it has ended, what was "
         "heard, and the number and text of the error that it ended with."},
        {"cancel", request_cancel, METH_NOARGS,
         "cancel()\n--\n\nAsks for the end. From any thread."},
        {NULL, NULL, 0, NULL}};
    static PyType_Slot slots[] = {{Py_tp_doc, "A request that is served."},
                                  {Py_tp_dealloc, (void *)request_dealloc},
                                  {Py_tp_methods, methods},
                                  {0, NULL}};
    static PyType_Spec spec = {"kiln._request.Request", sizeof(request_object), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    static const struct {
        const char *name;
        int number;
    } constant[] = {{"TUNE", KILN_REQUEST_TUNE},
                    {"COMPILE", KILN_REQUEST_COMPILE},
                    {"JOBS", KILN_REQUEST_JOBS},
                    {"JOB", KILN_REQUEST_JOB},
                    {"CANCEL", KILN_REQUEST_CANCEL},
                    {"WATCH", KILN_REQUEST_WATCH},
                    {"ATTACH", KILN_REQUEST_ATTACH},
                    {"EXPLAIN", KILN_REQUEST_EXPLAIN},
                    {"COST_MODEL", KILN_REQUEST_COST_MODEL},
                    {"PROGRESS", KILN_REQUEST_PROGRESS},
                    {"RESULT", KILN_REQUEST_RESULT}};
    request_state *state = PyModule_GetState(module);
    state->errors = kiln_errors_import();
    if (!state->errors) return -1;
    for (size_t i = 0; i < sizeof constant / sizeof constant[0]; i++)
        if (PyModule_AddIntConstant(module, constant[i].name, constant[i].number) < 0) return -1;
    return kiln_class_add(module, "Request", &spec);
}

static int request_clear(PyObject *module) {
    request_state *state = PyModule_GetState(module);
    Py_CLEAR(state->errors);
    return 0;
}

static void request_free(void *module) { request_clear(module); }

PyMODINIT_FUNC PyInit__request(void) {
    static PyMethodDef functions[] = {
        {"start", request_start, METH_VARARGS, "start(what, subject, settings, programs, /)"},
        {NULL, NULL, 0, NULL}};
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)request_exec}, {0, NULL}};
    static struct PyModuleDef definition = {
        PyModuleDef_HEAD_INIT,  .m_name = "kiln._request", .m_size = sizeof(request_state),
        .m_methods = functions, .m_slots = slots,          .m_clear = request_clear,
        .m_free = request_free};
    return PyModuleDef_Init(&definition);
}
