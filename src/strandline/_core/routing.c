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

uint32_t event_partition(const Event *event, uint32_t partitions) {
    uint32_t hash = murmur2((const byte *)event->row + event->key.at, event->key.length);
    return (hash & 0x7fffffff) % partitions;
}

/* The partition of each event, how many events each partition gets, and its lists. */
typedef struct {
    uint32_t *numbers, *counts;
    PyObject **indices, **events; /* By partition; borrowed from `routed`, or NULL. */
} Routes;

static bool routes_open(Routes *routes, size_t count, size_t partitions) {
    routes->numbers = malloc(count * sizeof *routes->numbers);
    routes->counts = calloc(partitions, sizeof *routes->counts);
    routes->indices = calloc(partitions, sizeof *routes->indices);
    routes->events = calloc(partitions, sizeof *routes->events);
    return routes->numbers && routes->counts && routes->indices && routes->events;
}

static void routes_close(Routes *routes) {
    free(routes->numbers);
    free(routes->counts);
    free(routes->indices);
    free(routes->events);
}

/* Create the lists of a partition; false with an exception. */
static bool open_partition(Routes *routes, PyObject *routed, uint32_t number) {
    Py_ssize_t count = (Py_ssize_t)routes->counts[number];
    PyObject *indices = PyList_New(count), *events = PyList_New(count);
    PyObject *key = PyLong_FromLongLong(number);
    PyObject *lists = indices && events ? Py_BuildValue("(OO)", indices, events) : NULL;
    bool is_done = key && lists && PyDict_SetItem(routed, key, lists) == 0;
    routes->indices[number] = indices;
    routes->events[number] = events;
    routes->counts[number] = 0; /* From now on: how many are in the lists. */
    Py_XDECREF(indices);
    Py_XDECREF(events);
    Py_XDECREF(key);
    Py_XDECREF(lists);
    return is_done;
}

static bool add_to(Routes *routes, PyObject *routed, Py_ssize_t index, PyObject *event) {
    uint32_t number = routes->numbers[index];
    if (!routes->events[number] && !open_partition(routes, routed, number)) return false;
    PyObject *place = PyLong_FromLongLong(index);
    Py_ssize_t at = (Py_ssize_t)routes->counts[number]++;
    return place && !PyList_SetItem(routes->indices[number], at, place)
        && !PyList_SetItem(routes->events[number], at, new_reference(event));
}

/* The caller has checked that each event has a key. */
static PyObject *routed_by_key(PyObject *events, Py_ssize_t count, uint32_t partitions) {
    Routes routes;
    PyObject *routed = PyDict_New();
    if (!routes_open(&routes, (size_t)count, partitions)) {
        PyErr_NoMemory();
        Py_CLEAR(routed);
    }
    for (Py_ssize_t index = 0; routed && index < count; index++) {
        const Event *event = (const Event *)PyList_GetItem(events, index);
        routes.numbers[index] = event_partition(event, partitions);
        routes.counts[routes.numbers[index]]++;
    }
    for (Py_ssize_t index = 0; routed && index < count; index++)
        if (!add_to(&routes, routed, index, PyList_GetItem(events, index))) Py_CLEAR(routed);
    routes_close(&routes);
    return routed;
}

PyObject *route(PyObject *module, PyObject *args) {
    PyObject *events;
    int partitions;
    long long bytes_max;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!iL:route", &PyList_Type, &events, &partitions, &bytes_max))
        return NULL;
    Py_ssize_t count = PyList_Size(events);
    if (partitions < 1 || count < 1 || count > UINT32_MAX) Py_RETURN_NOTIMPLEMENTED;
    for (Py_ssize_t index = 0; index < count; index++) {
        Event *event = (Event *)PyList_GetItem(events, index);
        bool is_plain = Py_TYPE(event) == EventType && event->has_key && event_size(event) <= bytes_max;
        if (!is_plain) Py_RETURN_NOTIMPLEMENTED;
    }
    return routed_by_key(events, count, (uint32_t)partitions);
}
