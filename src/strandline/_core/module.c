/* The module, and what Python binds to it. */
#include "receipt.h"

Twins twins;

static PyObject *bind(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {
        "encode_payload", "encode_headers", "check_kind", "check_key", "us_from_datetime",
        "datetime_from_us", "decode_payload", "decode_headers", "events_equal", "event_text",
        "raise_too_large", "raise_no_event", "record_text", NULL};
    Twins given;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "OOOOOOOOOOOOO:bind", names, &given.encode_payload, &given.encode_headers,
            &given.check_kind, &given.check_key, &given.us_from_datetime, &given.datetime_from_us,
            &given.decode_payload, &given.decode_headers, &given.events_equal, &given.event_text,
            &given.raise_too_large, &given.raise_no_event, &given.record_text))
        return NULL;
    PyObject **all = (PyObject **)&given;
    for (size_t index = 0; index < sizeof given / sizeof *all; index++) Py_INCREF(all[index]);
    /* Functions that were bound before may be in use: they are never released. */
    twins = given;
    Py_RETURN_NONE;
}

static PyObject *checksum(PyObject *module, PyObject *args) {
    unsigned int seed;
    const char *data;
    Py_ssize_t length;
    (void)module;
    if (!PyArg_ParseTuple(args, "Iy#:crc32c", &seed, &data, &length)) return NULL;
    return PyLong_FromUnsignedLong(crc32c(seed, data, (size_t)length));
}

static PyObject *encode(PyObject *module, PyObject *value) {
    Buffer out = {0};
    PyObject *json = NULL;
    (void)module;
    if (json_encode(&out, value)) json = PyBytes_FromStringAndSize(out.bytes, (Py_ssize_t)out.length);
    else json = new_reference(Py_NotImplemented);
    free(out.bytes);
    return json;
}

static PyObject *decode(PyObject *module, PyObject *json) {
    (void)module;
    const char *text = PyBytes_AsString(json);
    if (!text) return NULL;
    PyObject *value = json_decode(text, (size_t)PyBytes_Size(json));
    return value ? value : new_reference(Py_NotImplemented);
}

/* Whether all are events; raises TypeError if it is no list. */
static int are_events(PyObject *events) {
    Py_ssize_t count = PyList_Size(events);
    for (Py_ssize_t index = 0; index < count; index++)
        if (Py_TYPE(PyList_GetItem(events, index)) != EventType) return 0;
    return count < 0 ? -1 : count > 0;
}

static PyObject *encode_columns(PyObject *module, PyObject *events) {
    (void)module;
    int are = are_events(events);
    if (are < 0) return NULL;
    Py_ssize_t count = PyList_Size(events);
    ColumnsLayout layout;
    size_t length = are ? columns_measure(&layout, events, count) : 0;
    if (!length || length > FRAME_BYTES_MAX) Py_RETURN_NOTIMPLEMENTED;
    PyObject *message = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
    if (message) columns_write(PyBytes_AsString(message), &layout, events, count);
    return message;
}

static PyObject *size_of(PyObject *module, PyObject *values) {
    (void)module;
    if (Py_TYPE(values) == EventType) return PyLong_FromLongLong(event_size((Event *)values));
    int are = are_events(values);
    if (are < 0) return NULL;
    return PyLong_FromLongLong(are ? events_size(values) : 0);
}

static PyMethodDef functions[] = {
    {"bind", (PyCFunction)(void *)bind, METH_VARARGS | METH_KEYWORDS, NULL},
    {"columns_learn", columns_learn, METH_VARARGS, NULL},
    {"encode_columns", encode_columns, METH_O, NULL},
    {"size_of", size_of, METH_O, NULL},
    {"copies_of", copies_of, METH_O, NULL},
    {"records_of", records_of, METH_VARARGS, NULL},
    {"route", route, METH_VARARGS, NULL},
    {"record_rows", record_rows, METH_VARARGS, NULL},
    {"record_row", record_row, METH_VARARGS, NULL},
    {"sizes_of", sizes_of, METH_VARARGS, NULL},
    {"text_numbers", text_numbers, METH_VARARGS, NULL},
    {"are_json", are_json, METH_VARARGS, NULL},
    {"are_texts", are_texts, METH_VARARGS, NULL},
    {"header_columns", header_columns, METH_VARARGS, NULL},
    {"append_warm", (PyCFunction)(void *)append_warm, METH_FASTCALL, NULL},
    {"append_many_warm", (PyCFunction)(void *)append_many_warm, METH_FASTCALL, NULL},
    {"append_on_loop", (PyCFunction)(void *)append_on_loop, METH_FASTCALL, NULL},
    {"answer_of_append", answer_of_append, METH_VARARGS, NULL},
    {"split_request", split_request, METH_O, NULL},
    {"events_of_json", events_of_json, METH_VARARGS, NULL},
    {"crc32c", checksum, METH_VARARGS, NULL},
    {"running_loop", running_loop, METH_NOARGS, NULL},
    {"know_running_loop", know_running_loop, METH_O, NULL},
    {"start_writeback", start_writeback, METH_VARARGS, NULL},
    {"is_signed", is_signed, METH_O, NULL},
    {"encode", encode, METH_O, NULL},
    {"decode", decode, METH_O, NULL},
    {0}};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "core", "See core.pyi.", -1, functions, NULL, NULL, NULL, NULL};

static bool add_match_args(PyTypeObject *type, const char *format, const char *names[7]) {
    PyObject *tuple = Py_BuildValue(format, names[0], names[1], names[2], names[3], names[4],
                                    names[5], names[6]);
    int failed = !tuple || PyObject_SetAttrString((PyObject *)type, "__match_args__", tuple);
    Py_XDECREF(tuple);
    return !failed;
}

static bool add_types(PyObject *module) {
    struct {
        const char *name;
        PyType_Spec *spec;
        PyTypeObject **type;
    } types[] = {{"Event", &event_spec, &EventType},
                 {"Record", &record_spec, &RecordType},
                 {"Reader", &reader_spec, &ReaderType},
                 {"Lane", &lane_spec, &LaneType},
                 {"TailWatch", &tail_watch_spec, &TailWatchType},
                 {"Follower", &follower_spec, &FollowerType},
                 {"GroupCommit", &group_commit_spec, &GroupCommitType},
                 {"ReceiptFields", &receipt_spec, &ReceiptFieldsType},
                 {"AsyncReceiptFields", &async_receipt_spec, &AsyncReceiptFieldsType},
                 {"Appender", &appender_spec, &AppenderType}};
    for (size_t index = 0; index < sizeof types / sizeof *types; index++) {
        PyObject *type = PyType_FromSpec(types[index].spec);
        if (!type) return false;
        /* One reference is the module's, the other stays with `*types[index].type`. */
        *types[index].type = (PyTypeObject *)new_reference(type);
        if (PyModule_AddObject(module, types[index].name, type)) return false;
    }
    const char *of_event[7] = {"kind", "payload"};
    const char *of_record[7] = {"topic", "partition", "offset", "timestamp_us", "key", "tenant", "value"};
    return add_match_args(EventType, "(ss)", of_event)
        && add_match_args(RecordType, "(sssssss)", of_record);
}

PyMODINIT_FUNC PyInit_core(void);
PyMODINIT_FUNC PyInit_core(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    crc32c_prepare();
    utf8_prepare();
    if (!text_prepare() || !appender_prepare() || !async_receipt_prepare() || !add_types(module) || !event_set_call()
        || PyModule_AddIntConstant(module, "INTERFACE", CORE_INTERFACE)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
