/* How `Event(...)` is called: with the arguments of the caller, without a tuple and a dict of them
 * where the interpreter supports it. */
#include "core.h"

static PyObject **argument_named(Arguments *given, PyObject *name) {
    static const char *const texts[] = {"kind", "payload", "key", "headers", "occurred_at"};
    static PyObject *known[5];
    PyObject **places[] = {
        &given->kind, &given->payload, &given->key, &given->headers, &given->occurred_at};
    for (int index = 0; index < 5; index++) {
        if (!known[index]) known[index] = PyUnicode_InternFromString(texts[index]);
        if (name == known[index]) return places[index];
    }
    for (int index = 0; index < 5; index++)
        if (known[index] && PyUnicode_Compare(name, known[index]) == 0) return places[index];
    return NULL;
}

/* Whether there are at most two; raises TypeError otherwise. */
static bool may_be_positions(Py_ssize_t count) {
    if (count > 2)
        PyErr_SetString(PyExc_TypeError, "Event() takes a kind and a payload by position");
    return count <= 2;
}

static bool take_named(Arguments *given, PyObject *name, PyObject *value) {
    PyObject **place = argument_named(given, name);
    if (!place || *place) {
        PyErr_Format(PyExc_TypeError, place
            ? "Event() got multiple values for argument '%U'"
            : "Event() got an unexpected keyword argument '%U'", name);
        return false;
    }
    *place = value;
    return true;
}

static PyObject *made_of(Arguments *given) {
    if (!given->kind) {
        PyErr_SetString(PyExc_TypeError, "Event() missing 1 required argument: 'kind'");
        return NULL;
    }
    if (!given->payload) given->payload = Py_None;
    if (!given->key) given->key = Py_None;
    if (!given->occurred_at) given->occurred_at = Py_None;
    return event_of_arguments(given);
}

PyObject *event_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)type; /* Final. */
    Arguments given = {0};
    PyObject *name, *value;
    Py_ssize_t count = PyTuple_Size(args), position = 0;
    if (!may_be_positions(count)) return NULL;
    if (count > 0) given.kind = PyTuple_GetItem(args, 0);
    if (count > 1) given.payload = PyTuple_GetItem(args, 1);
    while (kwargs && PyDict_Next(kwargs, &position, &name, &value))
        if (!take_named(&given, name, value)) return NULL;
    return made_of(&given);
}

static PyObject *event_called(PyObject *type, PyObject *const *args, size_t flagged, PyObject *names) {
    (void)type;
    Arguments given = {0};
    /* The highest bit is PY_VECTORCALL_ARGUMENTS_OFFSET, which does not matter here. */
    Py_ssize_t count = (Py_ssize_t)(flagged & (SIZE_MAX >> 1));
    if (!may_be_positions(count)) return NULL;
    if (count > 0) given.kind = args[0];
    if (count > 1) given.payload = args[1];
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t index = 0; index < named; index++)
        if (!take_named(&given, PyTuple_GetItem(names, index), args[count + index])) return NULL;
    return made_of(&given);
}

typedef PyObject *(*Call)(PyObject *, PyObject *const *, size_t, PyObject *);

/* Return the offset of `tp_vectorcall` in a type; 0 if it is unknown.
 *
 * The stable ABI of 3.11 has no slot for it. In every Python up to 3.13, types themselves are
 * called by it, so `tp_vectorcall_offset` of their type, `type`, is the offset. */
static Py_ssize_t place_of_call(PyTypeObject *of_types, long long type_bytes) {
    enum { NAMED_AT = 7 * sizeof(void *), NEWER = 0x030e0000, HAS_CALL = 1 << 11 };
    Py_ssize_t place;
    bool is_known = Py_Version < NEWER && sizeof place == sizeof(void *)
        && PyType_GetFlags(of_types) & HAS_CALL;
    if (!is_known) return 0;
    memcpy(&place, (const char *)of_types + NAMED_AT, sizeof place);
    bool is_within = place > NAMED_AT && place % (Py_ssize_t)sizeof(Call) == 0
        && place <= type_bytes - (Py_ssize_t)sizeof(Call);
    return is_within ? place : 0;
}

bool event_set_call(void) {
    PyTypeObject *of_types = Py_TYPE(EventType);
    PyObject *size = PyObject_GetAttrString((PyObject *)of_types, "__basicsize__");
    long long type_bytes = size ? PyLong_AsLongLong(size) : -1;
    Py_XDECREF(size);
    if (type_bytes < 0) return false;
    Py_ssize_t place = place_of_call(of_types, type_bytes);
    Call call = event_called, before = NULL;
    if (place) memcpy(&before, (const char *)EventType + place, sizeof before);
    /* Otherwise `event_new` is called, as for other types. */
    if (place && !before) memcpy((char *)EventType + place, &call, sizeof call);
    return true;
}
