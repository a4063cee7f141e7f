/* Which partition a key goes to: murmur2, as in values/partitioning.py. */
#include "core.h"

static uint32_t murmur2(const byte *data, size_t size) {
    const uint32_t factor = 0x5bd1e995u;
    uint32_t value = 0x9747b28cu ^ (uint32_t)size;
    for (; size >= 4; size -= 4, data += 4) {
        uint32_t mixed = read_u32(data) * factor;
        mixed = (mixed ^ (mixed >> 24)) * factor;
        value = (value * factor) ^ mixed;
    }
    if (size) {
        uint32_t rest = 0;
        memcpy(&rest, data, size);
        value = (value ^ rest) * factor;
    }
    value = (value ^ (value >> 13)) * factor;
    return value ^ (value >> 15);
}

/* Append an index and its event to those of a partition; false with an exception. */
static bool add_to(PyObject *routed, long partition, Py_ssize_t index, PyObject *event) {
    PyObject *number = PyLong_FromLongLong(partition), *place = PyLong_FromLongLong(index);
    PyObject *lists = number ? PyDict_GetItemWithError(routed, number) : NULL;
    bool is_done = false;
    if (number && place && !lists && !PyErr_Occurred()) {
        lists = Py_BuildValue("([][])");
        if (lists && PyDict_SetItem(routed, number, lists) == 0) Py_DECREF(lists);
        else Py_CLEAR(lists);
    }
    if (lists)
        is_done = PyList_Append(PyTuple_GetItem(lists, 0), place) == 0
            && PyList_Append(PyTuple_GetItem(lists, 1), event) == 0;
    Py_XDECREF(number);
    Py_XDECREF(place);
    return is_done;
}

PyObject *route(PyObject *module, PyObject *args) {
    PyObject *events;
    int partitions;
    long long bytes_max;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!iL:route", &PyList_Type, &events, &partitions, &bytes_max))
        return NULL;
    Py_ssize_t count = PyList_Size(events);
    if (partitions < 1) Py_RETURN_NOTIMPLEMENTED;
    for (Py_ssize_t index = 0; index < count; index++) {
        Event *event = (Event *)PyList_GetItem(events, index);
        bool is_plain = Py_TYPE(event) == EventType && event->has_key && event_size(event) <= bytes_max;
        if (!is_plain) Py_RETURN_NOTIMPLEMENTED;
    }
    PyObject *routed = PyDict_New();
    for (Py_ssize_t index = 0; routed && index < count; index++) {
        Event *event = (Event *)PyList_GetItem(events, index);
        uint32_t hash = murmur2((const byte *)event->row + event->key.at, event->key.length);
        long partition = (long)((hash & 0x7fffffff) % (uint32_t)partitions);
        if (!add_to(routed, partition, index, (PyObject *)event)) Py_CLEAR(routed);
    }
    return routed;
}
