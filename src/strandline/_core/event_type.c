/* The attributes and methods of an event. */
#include "core.h"

static void event_dealloc(Event *event) {
    Py_XDECREF(event->kind_text);
    Py_XDECREF(event->key_text);
    Py_XDECREF(event->payload_value);
    Py_XDECREF(event->headers_value);
    free_object(event);
}

static PyObject *text_in_row(const Event *event, Run run) {
    return PyUnicode_FromStringAndSize(event->row + run.at, run.length);
}

PyObject *event_kind(Event *event, void *closure) {
    (void)closure;
    if (!event->kind_text) {
        const byte *kind = (const byte *)event->row + event->kind.at;
        event->kind_text = is_plain_kind(kind, event->kind.length)
            ? text_of_ascii(kind, event->kind.length)
            : text_in_row(event, event->kind);
        if (!event->kind_text) return NULL;
    }
    return new_reference(event->kind_text);
}

PyObject *event_key(Event *event, void *closure) {
    (void)closure;
    if (!event->has_key) Py_RETURN_NONE;
    if (!event->key_text && !(event->key_text = text_in_row(event, event->key))) return NULL;
    return new_reference(event->key_text);
}

static PyObject *event_payload_json(Event *event, void *closure) {
    (void)closure;
    return PyBytes_FromStringAndSize(event->row + event->payload.at, event->payload.length);
}

static PyObject *event_headers_json(Event *event, void *closure) {
    (void)closure;
    return PyBytes_FromStringAndSize(event_headers(event), event->headers.length);
}

/* Return what Python decodes of `stored`, whose reference is taken over. */
static PyObject *decoded_by(PyObject *decode, PyObject *stored) {
    PyObject *value = stored ? call_one(decode, stored) : NULL;
    Py_XDECREF(stored);
    return value;
}

/* Keep the decoded value, unless another thread has stored one while Python decoded. */
static PyObject *kept(PyObject **place, PyObject *value) {
    if (!value) return NULL;
    if (*place) Py_DECREF(value);
    else *place = value;
    return new_reference(*place);
}

PyObject *event_payload(Event *event, void *closure) {
    (void)closure;
    if (event->payload_value) return new_reference(event->payload_value);
    PyObject *value = json_decode(event->row + event->payload.at, event->payload.length);
    if (!value) value = decoded_by(twins.decode_payload, event_payload_json(event, NULL));
    return kept(&event->payload_value, value);
}

/* Whether this is a dict of texts; for any other value Python raises the error. */
static bool is_text_only(PyObject *headers) {
    Py_ssize_t position = 0;
    PyObject *name, *value;
    if (Py_TYPE(headers) != &PyDict_Type) return false;
    while (PyDict_Next(headers, &position, &name, &value))
        if (Py_TYPE(value) != &PyUnicode_Type) return false;
    return true;
}

PyObject *event_get_headers(Event *event, void *closure) {
    (void)closure;
    if (event->headers_value) return new_reference(event->headers_value);
    PyObject *value = NULL, *dict = json_decode(event_headers(event), event->headers.length);
    if (dict && is_text_only(dict)) value = PyDictProxy_New(dict);
    else value = decoded_by(twins.decode_headers, event_headers_json(event, NULL));
    Py_XDECREF(dict);
    return kept(&event->headers_value, value);
}

static PyObject *event_us(Event *event, void *closure) {
    (void)closure;
    if (!event->has_occurred_at) Py_RETURN_NONE;
    return PyLong_FromLongLong(event->occurred_at_us);
}

static PyObject *event_occurred_at(Event *event, void *closure) {
    (void)closure;
    if (!event->has_occurred_at) Py_RETURN_NONE;
    return decoded_by(twins.datetime_from_us, event_us(event, NULL));
}

/* Fill in new references to the five parts; false with an exception. */
static bool parts_of(Event *event, PyObject *parts[5]) {
    parts[0] = event_kind(event, NULL);
    parts[1] = event_payload_json(event, NULL);
    parts[2] = event_key(event, NULL);
    parts[3] = event_headers_json(event, NULL);
    parts[4] = event_us(event, NULL);
    for (int part = 0; part < 5; part++)
        if (!parts[part]) {
            for (int each = 0; each < 5; each++) Py_XDECREF(parts[each]);
            return false;
        }
    return true;
}

static PyObject *event_parts(Event *event, PyObject *unused) {
    (void)unused;
    PyObject *parts[5];
    if (!parts_of(event, parts)) return NULL;
    return Py_BuildValue("(NNNNN)", parts[0], parts[1], parts[2], parts[3], parts[4]);
}

static PyObject *event_columns(PyObject *unused, PyObject *events) {
    (void)unused;
    PyObject *all = PySequence_List(events), *columns[5] = {0}, *made = NULL;
    if (!all) return NULL;
    Py_ssize_t count = PyList_Size(all);
    for (int column = 0; column < 5; column++)
        if (!(columns[column] = PyList_New(count))) goto done;
    for (Py_ssize_t row = 0; row < count; row++) {
        PyObject *event = PyList_GetItem(all, row), *parts[5];
        if (Py_TYPE(event) != EventType) {
            PyErr_SetString(PyExc_TypeError, "columns() takes events");
            goto done;
        }
        if (!parts_of((Event *)event, parts)) goto done;
        for (int column = 0; column < 5; column++) PyList_SetItem(columns[column], row, parts[column]);
    }
    made = PyTuple_Pack(5, columns[0], columns[1], columns[2], columns[3], columns[4]);
done:
    Py_DECREF(all);
    for (int column = 0; column < 5; column++) Py_XDECREF(columns[column]);
    return made;
}

static PyObject *event_row(Event *event, PyObject *unused) {
    (void)unused;
    return PyBytes_FromStringAndSize(event->row, event->row_length);
}

static PyObject *event_reduce(Event *event, PyObject *unused) {
    (void)unused;
    PyObject *load = PyObject_GetAttrString((PyObject *)EventType, "load");
    PyObject *parts = load ? event_parts(event, NULL) : NULL;
    if (!parts) {
        Py_XDECREF(load);
        return NULL;
    }
    return Py_BuildValue("(NN)", load, parts);
}

static PyObject *event_compare(PyObject *one, PyObject *other, int operation) {
    if ((operation != Py_EQ && operation != Py_NE) || Py_TYPE(other) != EventType)
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *answer = PyObject_CallFunctionObjArgs(twins.events_equal, one, other, NULL);
    if (!answer || operation == Py_EQ) return answer;
    int is_equal = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return is_equal < 0 ? NULL : PyBool_FromLong(!is_equal);
}

static PyObject *event_repr(PyObject *event) { return call_one(twins.event_text, event); }

static PyGetSetDef attributes[] = {
    {"kind", (getter)event_kind, NULL, "What happened, such as `order.created`.", NULL},
    {"payload", (getter)event_payload, NULL, "The decoded JSON payload.", NULL},
    {"payload_json", (getter)event_payload_json, NULL, "The payload as it is stored.", NULL},
    {"key", (getter)event_key, NULL, "What the event is about; events of one key keep their order.",
     NULL},
    {"headers", (getter)event_get_headers, NULL, "The headers, immutable, sorted by name.", NULL},
    {"headers_json", (getter)event_headers_json, NULL,
     "The headers as they are stored: a JSON object, sorted by name.", NULL},
    {"occurred_at", (getter)event_occurred_at, NULL,
     "When it happened, by the caller's account, in UTC; may be late or missing.", NULL},
    {"occurred_at_us", (getter)event_us, NULL, "`occurred_at` in microseconds since the epoch.",
     NULL},
    {0}};

static PyMethodDef methods[] = {
    {"load", (PyCFunction)(void *)event_load, METH_FASTCALL | METH_CLASS,
     "load($type, kind, payload_json, key, headers_json, occurred_at_us, /)\n--\n\n"
     "Return the event that was stored as these parts."},
    {"load_many", (PyCFunction)(void *)event_load_many, METH_FASTCALL | METH_CLASS,
     "load_many($type, kinds, payloads_json, keys, headers_json, occurred_at_us, /)\n--\n\n"
     "Do what `load` does for many events, given as columns."},
    {"parts", (PyCFunction)(void *)event_parts, METH_NOARGS,
     "parts($self, /)\n--\n\nReturn what `load` makes the same event of."},
    {"columns", event_columns, METH_O | METH_STATIC,
     "columns(events, /)\n--\n\nReturn what `load_many` makes the same events of."},
    {"stored_row", (PyCFunction)(void *)event_row, METH_NOARGS, "Return the event as a row of a frame."},
    {"__reduce__", (PyCFunction)(void *)event_reduce, METH_NOARGS, NULL},
    {0}};

static PyType_Slot slots[] = {
    {Py_tp_new, event_new},
    {Py_tp_dealloc, event_dealloc},
    {Py_tp_getset, attributes},
    {Py_tp_methods, methods},
    {Py_tp_richcompare, event_compare},
    {Py_tp_repr, event_repr},
    {Py_tp_hash, PyObject_HashNotImplemented},
    {Py_tp_doc,
     "Event(kind, payload=None, *, key=None, headers={}, occurred_at=None)\n--\n\n"
     "A kind, a JSON payload, and optionally a key, headers and the time it occurred."},
    {0}};
PyType_Spec event_spec = {
    "strandline.values.event.Event", sizeof(Event), 1, Py_TPFLAGS_DEFAULT, slots};
