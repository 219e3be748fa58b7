/* The extension `kiln._query`: databases of records, over the query part of libkiln. */
#include "libkiln/records.h"
#include "python/native/native.h"

enum { ERROR_BYTES = 1024 };

typedef struct query_state {
    PyObject *errors;
} query_state;

typedef struct records_object {
    PyObject_HEAD PyObject *owner, *errors;
    PyThread_type_lock lock; /* of `records` */
    kiln_records *records;   /* NULL once closed */
} records_object;

/* ---- an answer as Python objects ---- */

static PyObject *reals_new(const double *number, size_t count) {
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *value = PyFloat_FromDouble(number[i]);
        if (!value || PyList_SetItem(list, (Py_ssize_t)i, value) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *value_new(const kiln_rows *rows, size_t row, uint32_t column) {
    size_t count = 0;
    if (kiln_rows_is_null(rows, row, column)) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    switch (kiln_rows_column_type(rows, column)) {
    case KILN_ROWS_TEXT: {
        const char *text = kiln_rows_text(rows, row, column, &count);
        return kiln_text_new(text, count);
    }
    case KILN_ROWS_BYTES: {
        const char *bytes = kiln_rows_text(rows, row, column, &count);
        return PyBytes_FromStringAndSize(bytes, (Py_ssize_t)count);
    }
    case KILN_ROWS_INT: return PyLong_FromLongLong(kiln_rows_int(rows, row, column));
    case KILN_ROWS_REAL: return PyFloat_FromDouble(kiln_rows_real(rows, row, column));
    default: {
        const double *number = kiln_rows_reals(rows, row, column, &count);
        return reals_new(number, count);
    }
    }
}

/* `names`: of the columns; keys are made once for all rows. */
static PyObject *row_new(const kiln_rows *rows, size_t row, PyObject *names) {
    PyObject *dict = PyDict_New();
    for (uint32_t i = 0; dict && i < kiln_rows_column_count(rows); i++) {
        PyObject *value = value_new(rows, row, i);
        if (!value || PyDict_SetItem(dict, PyList_GetItem(names, i), value) < 0) Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *names_new(const kiln_rows *rows) {
    PyObject *list = PyList_New(kiln_rows_column_count(rows));
    for (uint32_t i = 0; list && i < kiln_rows_column_count(rows); i++) {
        PyObject *name = PyUnicode_FromString(kiln_rows_column_name(rows, i));
        if (!name || PyList_SetItem(list, i, name) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *columns_new(const kiln_rows *rows) {
    PyObject *list = PyList_New(kiln_rows_column_count(rows));
    for (uint32_t i = 0; list && i < kiln_rows_column_count(rows); i++) {
        PyObject *column = Py_BuildValue("(ss)", kiln_rows_column_name(rows, i),
                                         kiln_rows_column_meaning(rows, i));
        if (!column || PyList_SetItem(list, i, column) < 0) Py_CLEAR(list);
    }
    return list;
}

/* (columns, rows): columns are pairs of a name and what it holds. Frees `rows`. */
static PyObject *answer_new(kiln_rows *rows) {
    Py_ssize_t count = (Py_ssize_t)kiln_rows_count(rows);
    PyObject *columns = columns_new(rows), *names = columns ? names_new(rows) : NULL;
    PyObject *list = names ? PyList_New(count) : NULL;
    for (Py_ssize_t i = 0; list && i < count; i++) {
        PyObject *row = row_new(rows, (size_t)i, names);
        if (!row || PyList_SetItem(list, i, row) < 0) Py_CLEAR(list);
    }
    kiln_rows_free(rows);
    Py_XDECREF(names);
    if (list) return Py_BuildValue("(NN)", columns, list);
    Py_XDECREF(columns);
    return NULL;
}

/* ---- the handle ---- */

static PyObject *records_open(PyObject *owner, PyObject *path) {
    query_state *state = PyModule_GetState(owner);
    PyObject *class = PyObject_GetAttrString(owner, "Records");
    PyObject *name = NULL;
    char error[ERROR_BYTES] = "";
    if (!class) return NULL;
    if (path != Py_None && !(name = kiln_path_bytes(path))) {
        Py_DECREF(class);
        return NULL;
    }
    kiln_records *opened = NULL;
    const char *text = name ? PyBytes_AsString(name) : NULL;
    int code;
    Py_BEGIN_ALLOW_THREADS;
    code = kiln_records_open(text, &opened, error, sizeof error);
    Py_END_ALLOW_THREADS;
    Py_XDECREF(name);
    if (code) {
        Py_DECREF(class);
        return kiln_error_raise(state->errors, code, error);
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)class, Py_tp_alloc);
    records_object *r = (records_object *)allocate((PyTypeObject *)class, 0);
    Py_DECREF(class);
    if (!r) {
        kiln_records_close(opened);
        return NULL;
    }
    Py_INCREF(owner);
    Py_INCREF(state->errors);
    r->owner = owner;
    r->errors = state->errors;
    r->records = opened;
    r->lock = PyThread_allocate_lock();
    if (r->lock) return (PyObject *)r;
    PyErr_NoMemory();
    Py_DECREF((PyObject *)r);
    return NULL;
}

static void records_dealloc(PyObject *self) {
    records_object *r = (records_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    kiln_records_close(r->records);
    if (r->lock) PyThread_free_lock(r->lock);
    Py_XDECREF(r->errors);
    Py_XDECREF(r->owner);
    release(self);
    Py_DECREF(type);
}

static PyObject *records_shut(PyObject *self, PyObject *unused) {
    records_object *r = (records_object *)self;
    (void)unused;
    kiln_lock_take(r->lock);
    kiln_records *records = r->records;
    r->records = NULL;
    kiln_records_close(records);
    PyThread_release_lock(r->lock);
    Py_RETURN_NONE;
}

/* ---- questions ---- */

/* Asks with one of the three functions, by itself among threads and without the GIL. */
static PyObject *ask(records_object *r, int is_best, const kiln_records_filter *filter,
                     const char *statement) {
    char error[ERROR_BYTES] = "";
    kiln_rows *rows = NULL;
    int code = KILN_NATIVE_FAILED_PRECONDITION;
    kiln_lock_take(r->lock);
    kiln_records *records = r->records;
    if (records) {
        Py_BEGIN_ALLOW_THREADS;
        if (statement)
            code = kiln_records_sql(records, statement, &rows, error, sizeof error);
        else if (is_best)
            code = kiln_records_best(records, filter, &rows, error, sizeof error);
        else
            code = kiln_records_find(records, filter, &rows, error, sizeof error);
        Py_END_ALLOW_THREADS;
    }
    PyThread_release_lock(r->lock);
    if (code)
        return kiln_error_raise(r->errors, code,
                                records ? error
                                        : "the database is closed: expected an open one "
                                          "(kiln.Database)");
    return answer_new(rows);
}

static PyObject *records_select(PyObject *self, PyObject *arguments) {
    kiln_records_filter filter = {.struct_bytes = sizeof filter};
    int is_best;
    unsigned order, limit;
    if (!PyArg_ParseTuple(arguments, "pzzzII", &is_best, &filter.task, &filter.target, &filter.job,
                          &order, &limit))
        return NULL;
    filter.order = order;
    filter.limit = limit;
    return ask((records_object *)self, is_best, &filter, NULL);
}

static PyObject *records_sql(PyObject *self, PyObject *arguments) {
    const char *statement;
    if (!PyArg_ParseTuple(arguments, "s", &statement)) return NULL;
    return ask((records_object *)self, 0, NULL, statement);
}

/* ---- the extension ---- */

static int query_exec(PyObject *module) {
    static PyMethodDef methods[] = {
        {"close", records_shut, METH_NOARGS, "close()\n--\n\nCloses it if it is open."},
        {"_select", records_select, METH_VARARGS, NULL},
        {"_sql", records_sql, METH_VARARGS, NULL},
        {NULL, NULL, 0, NULL}};
    static PyType_Slot slots[] = {{Py_tp_doc, "An open database."},
                                  {Py_tp_dealloc, (void *)records_dealloc},
                                  {Py_tp_methods, methods},
                                  {0, NULL}};
    static PyType_Spec spec = {"kiln._query.Records", sizeof(records_object), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    static const struct {
        const char *name;
        int number;
    } order[] = {{"FASTEST", KILN_RECORDS_FASTEST},
                 {"OLDEST", KILN_RECORDS_OLDEST},
                 {"NEWEST", KILN_RECORDS_NEWEST}};
    query_state *state = PyModule_GetState(module);
    state->errors = kiln_errors_import();
    if (!state->errors) return -1;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        if (PyModule_AddIntConstant(module, order[i].name, order[i].number) < 0) return -1;
    return kiln_class_add(module, "Records", &spec);
}

static int query_clear(PyObject *module) {
    query_state *state = PyModule_GetState(module);
    Py_CLEAR(state->errors);
    return 0;
}

static void query_free(void *module) { query_clear(module); }

PyMODINIT_FUNC PyInit__query(void) {
    static PyMethodDef functions[] = {{"open", records_open, METH_O, "open(path, /)"},
                                      {NULL, NULL, 0, NULL}};
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)query_exec}, {0, NULL}};
    static struct PyModuleDef definition = {
        PyModuleDef_HEAD_INIT,  .m_name = "kiln._query", .m_size = sizeof(query_state),
        .m_methods = functions, .m_slots = slots,        .m_clear = query_clear,
        .m_free = query_free};
    return PyModuleDef_Init(&definition);
}
