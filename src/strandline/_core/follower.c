/* Follower: waits for the next events of one partition, and reads them, in one call.
 *
 * It reads at the end of the active segment. Python reads everything except frames of events,
 * and large amounts of records.
 */
#include "tail_watch.h"

PyTypeObject *FollowerType;

/* More than a reader finds at a time if it keeps up. The same as in following.py. */
enum { FOLLOWED_BYTES_MAX = 1 << 16 };

typedef struct {
    PyObject_HEAD
    TailWatch *watch;
    PyObject *reader;
    int64_t aim;
    bool is_woken; /* Guarded by the watch's mutex. */
    bool is_busy;  /* A thread waits here. */
} Follower;

static PyObject *follower_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *watch, *reader;
    long long aim;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!LO!:Follower", TailWatchType, &watch, &aim, ReaderType, &reader))
        return NULL;
    Follower *follower = (Follower *)PyType_GenericAlloc(type, 0);
    if (!follower) return NULL;
    follower->watch = (TailWatch *)new_reference(watch);
    follower->reader = new_reference(reader);
    follower->aim = aim;
    tail_watch_add_follower(follower->watch);
    return (PyObject *)follower;
}

static void follower_dealloc(Follower *follower) {
    tail_watch_remove_follower(follower->watch);
    Py_DECREF((PyObject *)follower->watch);
    Py_DECREF(follower->reader);
    free_object(follower);
}

/* Return the events up to `end`; NotImplemented if Python has to read them. */
static PyObject *take(Follower *follower, int64_t next, int64_t end, int64_t position,
                      long long records_max) {
    PyObject *records = end - next <= records_max ? reader_take(follower->reader, position, end) : NULL;
    if (records && PyList_Size(records)) return records;
    if (PyErr_Occurred()) return NULL;
    Py_XDECREF(records);
    Py_RETURN_NOTIMPLEMENTED;
}

static PyObject *follower_wait(Follower *follower, PyObject *args) {
    long long start, records_max;
    double timeout_s;
    if (!PyArg_ParseTuple(args, "LLd:wait", &start, &records_max, &timeout_s)) return NULL;
    int64_t end = 0, position = 0, begin, next = reader_place(follower->reader, &begin);
    if (start != next || follower->is_busy) Py_RETURN_NOTIMPLEMENTED;
    Waited waited;
    follower->is_busy = true;
    if (timeout_s <= 0) {
        waited = tail_watch_look(follower->watch, follower->aim, next, &end, &position);
    } else {
        double until = monotonic_s() + timeout_s;
        do {
            /* The interpreter's lock is released: the watch has a mutex, and `is_busy` keeps other
             * threads out of the reader. */
            Py_BEGIN_ALLOW_THREADS
            waited = tail_watch_wait(follower->watch, follower->aim, next, until,
                                     &follower->is_woken, &end, &position);
            if (waited == GROWN && position - begin <= FOLLOWED_BYTES_MAX)
                reader_fetch(follower->reader, position);
            Py_END_ALLOW_THREADS
        } while (waited == SIGNALS && !PyErr_CheckSignals());
    }
    follower->is_busy = false;
    if (waited == SIGNALS) return NULL;
    if (waited == ODD || (waited == GROWN && position - begin > FOLLOWED_BYTES_MAX))
        Py_RETURN_NOTIMPLEMENTED;
    if (waited != GROWN) Py_RETURN_NONE;
    return take(follower, next, end, position, records_max);
}

static PyObject *follower_wake(Follower *follower, PyObject *unused) {
    (void)unused;
    tail_watch_wake(follower->watch, &follower->is_woken);
    Py_RETURN_NONE;
}

static PyMemberDef members[] = {
    {"watch", T_OBJECT_EX, offsetof(Follower, watch), READONLY, NULL}, {0}};
static PyMethodDef methods[] = {
    {"wait", (PyCFunction)(void *)follower_wait, METH_VARARGS, NULL},
    {"wake", (PyCFunction)(void *)follower_wake, METH_NOARGS, NULL}, {0}};
static PyType_Slot slots[] = {{Py_tp_new, follower_new},
                              {Py_tp_dealloc, follower_dealloc},
                              {Py_tp_members, members},
                              {Py_tp_methods, methods},
                              {0}};
PyType_Spec follower_spec = {
    "strandline._core.core.Follower", sizeof(Follower), 0, Py_TPFLAGS_DEFAULT, slots};
