/* Records: one offset of one partition, with its value. */
#include "core.h"

PyTypeObject *RecordType;

typedef struct {
    PyObject_HEAD
    PyObject *topic, *partition, *tenant, *value;
    PyObject *key; /* NULL: the event's. */
    long long offset, timestamp_us;
} Record;

PyObject *record_of(PyObject *topic, PyObject *partition, int64_t offset, int64_t timestamp_us,
                    PyObject *key, PyObject *tenant, PyObject *value) {
    Record *record = value ? PyObject_New(Record, RecordType) : NULL;
    if (!record) {
        Py_XDECREF(value);
        return NULL;
    }
    record->topic = new_reference(topic);
    record->partition = new_reference(partition);
    record->tenant = new_reference(tenant);
    record->key = key ? new_reference(key) : NULL;
    record->value = value;
    record->offset = offset;
    record->timestamp_us = timestamp_us;
    return (PyObject *)record;
}

/* --- copies of events, for the memory store --- */

/* Return a copy of the event at this place; NULL with an exception where there is none. */
static PyObject *copy_at(PyObject *events, Py_ssize_t index) {
    PyObject *event = PyList_GetItem(events, index);
    if (event && Py_TYPE(event) == EventType) return (PyObject *)event_copy((Event *)event);
    if (event) PyErr_SetString(PyExc_TypeError, "expected a list of events");
    return NULL;
}

PyObject *copies_of(PyObject *module, PyObject *events) {
    (void)module;
    Py_ssize_t count = PyList_Size(events);
    PyObject *copies = count < 0 ? NULL : PyList_New(count);
    for (Py_ssize_t index = 0; copies && index < count; index++) {
        PyObject *copy = copy_at(events, index);
        if (copy) PyList_SetItem(copies, index, copy);
        else Py_CLEAR(copies);
    }
    return copies;
}

PyObject *records_of(PyObject *module, PyObject *args) {
    PyObject *topic, *partition, *tenant, *events;
    long long offset, timestamp_us;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOLLOO!:records_of", &topic, &partition, &offset, &timestamp_us,
                          &tenant, &PyList_Type, &events))
        return NULL;
    Py_ssize_t count = PyList_Size(events);
    PyObject *records = PyList_New(count);
    for (Py_ssize_t index = 0; records && index < count; index++) {
        PyObject *record = record_of(topic, partition, offset + index, timestamp_us, NULL, tenant,
                                     copy_at(events, index));
        if (record) PyList_SetItem(records, index, record);
        else Py_CLEAR(records);
    }
    return records;
}

static PyObject *record_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {
        "topic", "partition", "offset", "timestamp_us", "key", "tenant", "value", NULL};
    PyObject *topic, *partition, *key, *tenant, *value;
    long long offset, timestamp_us;
    (void)type; /* Final. */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOLLOOO:Record", names, &topic, &partition,
                                     &offset, &timestamp_us, &key, &tenant, &value))
        return NULL;
    return record_of(
        topic, partition, offset, timestamp_us, key, tenant, new_reference(value));
}

static void record_dealloc(Record *record) {
    Py_DECREF(record->topic);
    Py_DECREF(record->partition);
    Py_DECREF(record->tenant);
    Py_XDECREF(record->key);
    Py_DECREF(record->value);
    free_object(record);
}

static PyObject *record_key(Record *record, void *closure) {
    (void)closure;
    if (record->key) return new_reference(record->key);
    return event_key((Event *)record->value, NULL);
}

/* Return the event, borrowed; NULL with InvalidError if the record holds none. */
static Event *event_in(Record *record) {
    if (LIKELY(Py_TYPE(record->value) == EventType)) return (Event *)record->value;
    PyObject *answer = call_one(twins.raise_no_event, (PyObject *)record);
    Py_XDECREF(answer);
    return NULL;
}

static PyObject *record_event(Record *record, void *closure) {
    (void)closure;
    Event *event = event_in(record);
    return event ? new_reference((PyObject *)event) : NULL;
}

static PyObject *record_kind(Record *record, void *closure) {
    Event *event = event_in(record);
    return event ? event_kind(event, closure) : NULL;
}

static PyObject *record_payload(Record *record, void *closure) {
    Event *event = event_in(record);
    return event ? event_payload(event, closure) : NULL;
}

static PyObject *record_headers(Record *record, void *closure) {
    Event *event = event_in(record);
    return event ? event_get_headers(event, closure) : NULL;
}

static PyObject *record_timestamp(Record *record, void *closure) {
    (void)closure;
    PyObject *us = PyLong_FromLongLong(record->timestamp_us);
    PyObject *timestamp = us ? call_one(twins.datetime_from_us, us) : NULL;
    Py_XDECREF(us);
    return timestamp;
}

static PyObject *as_tuple(Record *record) {
    PyObject *key = record_key(record, NULL);
    if (!key) return NULL;
    return Py_BuildValue("(OOLLNOO)", record->topic, record->partition, record->offset,
                         record->timestamp_us, key, record->tenant, record->value);
}

static PyObject *record_compare(PyObject *one, PyObject *other, int operation) {
    if ((operation != Py_EQ && operation != Py_NE) || Py_TYPE(other) != RecordType)
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *mine = as_tuple((Record *)one), *theirs = mine ? as_tuple((Record *)other) : NULL;
    PyObject *answer = theirs ? PyObject_RichCompare(mine, theirs, operation) : NULL;
    Py_XDECREF(mine);
    Py_XDECREF(theirs);
    return answer;
}

static Py_hash_t record_hash(PyObject *record) {
    PyObject *fields = as_tuple((Record *)record);
    if (!fields) return -1;
    Py_hash_t hash = PyObject_Hash(fields);
    Py_DECREF(fields);
    return hash;
}

static PyObject *record_repr(PyObject *record) { return call_one(twins.record_text, record); }

static PyObject *record_reduce(Record *record, PyObject *unused) {
    (void)unused;
    PyObject *fields = as_tuple(record);
    return fields ? Py_BuildValue("(ON)", (PyObject *)RecordType, fields) : NULL;
}

static PyMemberDef members[] = {
    {"topic", T_OBJECT_EX, offsetof(Record, topic), READONLY, NULL},
    {"partition", T_OBJECT_EX, offsetof(Record, partition), READONLY, NULL},
    {"offset", T_LONGLONG, offsetof(Record, offset), READONLY, NULL},
    {"timestamp_us", T_LONGLONG, offsetof(Record, timestamp_us), READONLY,
     "Append time in microseconds since the epoch; never goes back within a partition."},
    {"tenant", T_OBJECT_EX, offsetof(Record, tenant), READONLY, NULL},
    {"value", T_OBJECT_EX, offsetof(Record, value), READONLY, NULL},
    {0}};

static PyGetSetDef attributes[] = {
    {"key", (getter)record_key, NULL, NULL, NULL},
    {"timestamp", (getter)record_timestamp, NULL, "Append time, in UTC.", NULL},
    {"event", (getter)record_event, NULL,
     "The value of a record in an event topic; InvalidError in any other.", NULL},
    {"kind", (getter)record_kind, NULL, "The kind of the event.", NULL},
    {"payload", (getter)record_payload, NULL, "The decoded payload of the event.", NULL},
    {"headers", (getter)record_headers, NULL, "The headers of the event.", NULL},
    {0}};

static PyMethodDef methods[] = {
    {"__reduce__", (PyCFunction)(void *)record_reduce, METH_NOARGS, NULL}, {0}};

static PyType_Slot slots[] = {
    {Py_tp_new, record_new},
    {Py_tp_dealloc, record_dealloc},
    {Py_tp_members, members},
    {Py_tp_getset, attributes},
    {Py_tp_methods, methods},
    {Py_tp_richcompare, record_compare},
    {Py_tp_hash, record_hash},
    {Py_tp_repr, record_repr},
    {Py_tp_doc,
     "Record(topic, partition, offset, timestamp_us, key, tenant, value)\n--\n\n"
     "One offset of one partition, with its value."},
    {0}};
PyType_Spec record_spec = {
    "strandline.values.record.Record", sizeof(Record), 0, Py_TPFLAGS_DEFAULT, slots};
