/* Appender: the whole of a warm append, from a topic's name to the receipt.
 *
 * There is one for each topic of a single partition that single events were appended to.
 * It does what Log.append, Appends and Lane.append_event do for an event without terms, and
 * answers NotImplemented with nothing done where any of these would do something else.
 */
#include "receipt.h"

PyTypeObject *AppenderType;
static PyObject *reason_name, *begun_name, *value_name, *partitions_name, *durability_name;

typedef struct {
    PyObject_HEAD
    Lane *lane;
    PyObject *seam;     /* None, or what calls `lane.append` where `io` or `clock` is replaced. */
    PyObject *ending;   /* Its `reason` is None while writes are taken. */
    PyObject *written;  /* The watermark of what is written: its `value` is the last epoch. */
    PyObject *durable;  /* The stage of syncing: `begun` rounds of it have begun. */
    PyObject *listener; /* Its `partitions` are empty while nothing is watched. */
    PyObject *announce, *failed, *make_outcome; /* See core.pyi. */
    PyObject *receipt_type;
    PyObject *clock; /* None, or what reads the time in place of the system, in tests. */
    PyObject *partition, *level, *durability_max;
    double fresh_until; /* From then on, Python looks at the topic first. */
    long long bytes_max, appends, bytes;
} Appender;

static PyObject *appender_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *lane, *given[13];
    long long bytes_max;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!OOOOOOOOOOOOOL:Appender", LaneType, &lane, &given[0], &given[1],
                          &given[2], &given[3], &given[4], &given[5], &given[6], &given[7],
                          &given[8], &given[9], &given[10], &given[11], &given[12], &bytes_max))
        return NULL;
    Appender *appender = (Appender *)PyType_GenericAlloc(type, 0);
    if (!appender) return NULL;
    PyObject **places[13] = {
        &appender->seam, &appender->ending, &appender->written, &appender->durable,
        &appender->listener, &appender->announce, &appender->failed, &appender->make_outcome,
        &appender->receipt_type, &appender->clock, &appender->partition, &appender->level,
        &appender->durability_max};
    for (int index = 0; index < 13; index++) *places[index] = new_reference(given[index]);
    appender->lane = (Lane *)new_reference(lane);
    appender->bytes_max = bytes_max;
    return (PyObject *)appender;
}

static int appender_traverse(Appender *appender, visitproc visit, void *arg) {
    Py_VISIT(appender->lane);
    Py_VISIT(appender->seam);
    Py_VISIT(appender->ending);
    Py_VISIT(appender->written);
    Py_VISIT(appender->durable);
    Py_VISIT(appender->listener);
    Py_VISIT(appender->announce);
    Py_VISIT(appender->failed);
    Py_VISIT(appender->make_outcome);
    Py_VISIT(appender->receipt_type);
    Py_VISIT(appender->clock);
    Py_VISIT(appender->partition);
    Py_VISIT(appender->level);
    Py_VISIT(appender->durability_max);
    Py_VISIT(Py_TYPE(appender));
    return 0;
}

static int appender_clear(Appender *appender) {
    Py_CLEAR(appender->lane);
    Py_CLEAR(appender->seam);
    Py_CLEAR(appender->ending);
    Py_CLEAR(appender->written);
    Py_CLEAR(appender->durable);
    Py_CLEAR(appender->listener);
    Py_CLEAR(appender->announce);
    Py_CLEAR(appender->failed);
    Py_CLEAR(appender->make_outcome);
    Py_CLEAR(appender->receipt_type);
    Py_CLEAR(appender->clock);
    Py_CLEAR(appender->partition);
    Py_CLEAR(appender->level);
    Py_CLEAR(appender->durability_max);
    return 0;
}

static void appender_dealloc(Appender *appender) {
    PyTypeObject *type = Py_TYPE(appender);
    PyObject_GC_UnTrack(appender);
    appender_clear(appender);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(appender);
    Py_DECREF(type);
}

/* --- one append --- */

static bool number_of(PyObject *object, PyObject *name, int64_t *number) {
    PyObject *value = PyObject_GetAttr(object, name);
    *number = value ? PyLong_AsLongLong(value) : -1;
    Py_XDECREF(value);
    return *number >= 0 || !PyErr_Occurred();
}

/* Whether the coordinator takes writes; -1 with an exception. */
static int takes_writes(Appender *appender) {
    PyObject *reason = PyObject_GetAttr(appender->ending, reason_name);
    Py_XDECREF(reason);
    return reason ? reason == Py_None : -1;
}

/* Append through what holds the mutex, where calls are made through `io` and `clock`. */
static Step append_by_seam(Appender *appender, Event *event, Placed *placed) {
    PyObject *answer = PyObject_CallFunction(
        appender->seam, "OL", (PyObject *)event, appender->bytes_max);
    long long offset, timestamp_us;
    PyObject *originals;
    Step step = answer == Py_NotImplemented ? LEFT : FAILED;
    if (answer && step != LEFT
        && PyArg_ParseTuple(answer, "LLO", &offset, &timestamp_us, &originals)) {
        placed->offset = offset;
        placed->timestamp_us = timestamp_us;
        step = DONE;
    }
    Py_XDECREF(answer);
    return step;
}

/* Raise what the caller gets of the exception that is set. */
static PyObject *raise_failed(Appender *appender, Event *event) {
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    PyObject *answer = error ? PyObject_CallFunctionObjArgs(
        appender->failed, error, (PyObject *)event, NULL) : NULL;
    /* It has raised; if it has not, the error itself is. */
    if (answer || !error) PyErr_Restore(type, error, traceback);
    else {
        Py_XDECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(traceback);
    }
    Py_XDECREF(answer);
    return NULL;
}

static bool announce_end(Appender *appender, int64_t end) {
    PyObject *watched = PyObject_GetAttr(appender->listener, partitions_name);
    int is_watched = watched ? PyObject_IsTrue(watched) : -1;
    Py_XDECREF(watched);
    if (LIKELY(!is_watched)) return true;
    PyObject *answer = is_watched > 0
        ? PyObject_CallFunction(appender->announce, "L", (long long)end) : NULL;
    Py_XDECREF(answer);
    return answer != NULL;
}

static PyObject *receipt_of(Appender *appender, PyObject *event, const Placed *placed, int64_t turn,
                            int64_t epoch) {
    ReceiptFields *receipt =
        (ReceiptFields *)PyType_GenericAlloc((PyTypeObject *)appender->receipt_type, 0);
    if (!receipt) return NULL;
    receipt->make_outcome = new_reference(appender->make_outcome);
    receipt->partition = new_reference(appender->partition);
    receipt->level = new_reference(appender->level);
    receipt->durability_max = new_reference(appender->durability_max);
    receipt->offered = new_reference(event);
    receipt->placed = *placed;
    receipt->turn = turn;
    receipt->epoch = epoch;
    /* Nothing that it refers to can refer to it. */
    PyObject_GC_UnTrack(receipt);
    return (PyObject *)receipt;
}

static PyObject *append_event(Appender *appender, Event *event) {
    Placed placed;
    int64_t begun, epoch;
    double now;
    if (!clock_monotonic(appender->clock, &now)) return NULL;
    if (now >= appender->fresh_until) Py_RETURN_NOTIMPLEMENTED;
    int is_open = takes_writes(appender);
    if (is_open < 0) return NULL;
    if (!is_open) Py_RETURN_NOTIMPLEMENTED;
    Step step = LIKELY(appender->seam == Py_None)
        ? lane_append_event(appender->lane, event, appender->bytes_max, &placed)
        : append_by_seam(appender, event, &placed);
    if (step == LEFT) Py_RETURN_NOTIMPLEMENTED;
    if (step == FAILED) return raise_failed(appender, event);
    appender->appends++;
    appender->bytes += event_size(event);
    /* After it was written: a round of syncing that begins from now on makes it durable. */
    if (!number_of(appender->durable, begun_name, &begun)
        || !number_of(appender->written, value_name, &epoch)
        || !announce_end(appender, placed.offset + 1))
        return NULL;
    return receipt_of(appender, (PyObject *)event, &placed, begun + 1, epoch);
}

/* Whether these terms say no more than what is done without any: the appender's own level. */
static bool are_plain(const Appender *appender, PyObject *terms) {
    if (!PyDict_Size(terms)) return true;
    return PyDict_Size(terms) == 1 && PyDict_GetItem(terms, durability_name) == appender->level;
}

/* `append_warm(appenders, topic, value, terms)`; see core.pyi. */
PyObject *append_warm(PyObject *module, PyObject *const *args, Py_ssize_t given) {
    (void)module;
    if (given != 4 || Py_TYPE(args[3]) != &PyDict_Type) {
        PyErr_SetString(PyExc_TypeError, "append_warm() takes appenders, a topic, a value, terms");
        return NULL;
    }
    if (Py_TYPE(args[1]) != &PyUnicode_Type || Py_TYPE(args[2]) != EventType)
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *found = PyDict_GetItemWithError(args[0], args[1]);
    if (!found && PyErr_Occurred()) return NULL;
    if (!found || Py_TYPE(found) != AppenderType || !are_plain((Appender *)found, args[3]))
        Py_RETURN_NOTIMPLEMENTED;
    /* What is called may replace it in the dict. */
    Py_INCREF(found);
    PyObject *receipt = append_event((Appender *)found, (Event *)args[2]);
    Py_DECREF(found);
    return receipt;
}

static PyObject *appender_take_counts(Appender *appender, PyObject *unused) {
    (void)unused;
    PyObject *counts = Py_BuildValue("(LL)", appender->appends, appender->bytes);
    if (counts) appender->appends = appender->bytes = 0;
    return counts;
}

static PyObject *appender_is_closed(Appender *appender, void *closure) {
    (void)closure;
    return PyBool_FromLong(appender->lane->is_closed);
}

static PyMemberDef members[] = {
    {"fresh_until", T_DOUBLE, offsetof(Appender, fresh_until), 0, NULL}, {0}};
static PyGetSetDef attributes[] = {
    {"is_closed", (getter)appender_is_closed, NULL, NULL, NULL}, {0}};
static PyMethodDef methods[] = {
    {"take_counts", (PyCFunction)(void *)appender_take_counts, METH_NOARGS, NULL}, {0}};
static PyType_Slot slots[] = {{Py_tp_new, appender_new},
                              {Py_tp_dealloc, appender_dealloc},
                              {Py_tp_traverse, appender_traverse},
                              {Py_tp_clear, appender_clear},
                              {Py_tp_members, members},
                              {Py_tp_getset, attributes},
                              {Py_tp_methods, methods},
                              {0}};
PyType_Spec appender_spec = {"strandline._core.core.Appender", sizeof(Appender), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

bool appender_prepare(void) {
    reason_name = PyUnicode_InternFromString("reason");
    begun_name = PyUnicode_InternFromString("begun");
    value_name = PyUnicode_InternFromString("value");
    partitions_name = PyUnicode_InternFromString("partitions");
    durability_name = PyUnicode_InternFromString("durability");
    return durability_name && reason_name && begun_name && value_name && partitions_name;
}
