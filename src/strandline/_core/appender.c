/* Appender: the whole of a warm append, from a topic's name to the receipt.
 *
 * There is one for each topic of a single partition that single events were appended to.
 * It does what Log.append, Appends and Lane.append_event do for an event without terms, and
 * answers NotImplemented with nothing done where any of these would do something else.
 */
#include "receipt.h"

PyTypeObject *AppenderType;
static PyObject *reason_name, *value_name, *partitions_name, *durability_name, *durable_text,
    *written_text;

typedef struct {
    PyObject_HEAD
    Lane *lane;
    PyObject *seam;     /* None, or what calls `lane.append` where `io` or `clock` is replaced. */
    PyObject *ending;   /* Its `reason` is None while writes are taken. */
    PyObject *written;  /* The watermark of what is written: its `value` is the last epoch. */
    GroupCommit *commit; /* The rounds of syncing. */
    PyObject *listener; /* Its `partitions` are empty while nothing is watched. */
    PyObject *announce, *failed, *make_outcome, *round_on_loop, *finish; /* See core.pyi. */
    PyObject *receipt_type;
    PyObject *clock; /* None, or what reads the time in place of the system, in tests. */
    PyObject *partition, *level, *durability_max;
    double fresh_until; /* From then on, Python looks at the topic first. */
    long long bytes_max, appends, bytes;
} Appender;

static PyObject *appender_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *lane, *commit, *given[14];
    long long bytes_max;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!OOOO!OOOOOOOOOOOL:Appender", LaneType, &lane, &given[0], &given[1],
                          &given[2], GroupCommitType, &commit, &given[3], &given[4], &given[5],
                          &given[6], &given[7], &given[8], &given[9], &given[10], &given[11],
                          &given[12], &given[13], &bytes_max))
        return NULL;
    Appender *appender = (Appender *)PyType_GenericAlloc(type, 0);
    if (!appender) return NULL;
    PyObject **places[14] = {
        &appender->seam, &appender->ending, &appender->written, &appender->listener,
        &appender->announce, &appender->failed, &appender->make_outcome, &appender->round_on_loop,
        &appender->finish, &appender->receipt_type, &appender->clock, &appender->partition,
        &appender->level, &appender->durability_max};
    for (int index = 0; index < 14; index++) *places[index] = new_reference(given[index]);
    appender->lane = (Lane *)new_reference(lane);
    appender->commit = (GroupCommit *)new_reference(commit);
    appender->bytes_max = bytes_max;
    return (PyObject *)appender;
}

static int appender_traverse(Appender *appender, visitproc visit, void *arg) {
    Py_VISIT(appender->lane);
    Py_VISIT(appender->seam);
    Py_VISIT(appender->ending);
    Py_VISIT(appender->written);
    Py_VISIT(appender->commit);
    Py_VISIT(appender->round_on_loop);
    Py_VISIT(appender->finish);
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
    Py_CLEAR(appender->commit);
    Py_CLEAR(appender->round_on_loop);
    Py_CLEAR(appender->finish);
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

static PyObject *receipt_of(Appender *appender, PyObject *event, PyObject *level,
                            const Placed *placed, int64_t turn, int64_t epoch) {
    ReceiptFields *receipt =
        (ReceiptFields *)PyType_GenericAlloc((PyTypeObject *)appender->receipt_type, 0);
    if (!receipt) return NULL;
    receipt->make_outcome = new_reference(appender->make_outcome);
    receipt->partition = new_reference(appender->partition);
    receipt->level = new_reference(level);
    if (level != appender->level) {
        receipt->commit = (GroupCommit *)new_reference((PyObject *)appender->commit);
        receipt->round_on_loop = new_reference(appender->round_on_loop);
    }
    receipt->durability_max = new_reference(appender->durability_max);
    receipt->offered = new_reference(event);
    receipt->placed = *placed;
    receipt->turn = turn;
    receipt->epoch = epoch;
    /* Nothing that it refers to can refer to it. */
    PyObject_GC_UnTrack(receipt);
    return (PyObject *)receipt;
}

/* Return the receipt once what it says is durable. */
static PyObject *when_durable(Appender *appender, PyObject *receipt, int64_t turn) {
    int is_durable = commit_wait(appender->commit, turn);
    if (LIKELY(is_durable > 0)) return receipt;
    PyObject *answer = is_durable < 0 ? NULL : call_one(appender->finish, receipt);
    if (answer) Py_DECREF(answer);
    else Py_CLEAR(receipt);
    return receipt;
}

static PyObject *append_event(Appender *appender, Event *event, PyObject *level, bool may_wait) {
    Placed placed;
    int64_t epoch;
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
    if (!number_of(appender->written, value_name, &epoch)) return NULL;
    /* After it was written: a round of syncing that begins from now on makes it durable. */
    int64_t turn = commit_turn(appender->commit, epoch);
    if (!announce_end(appender, placed.offset + 1)) return NULL;
    PyObject *receipt = receipt_of(appender, (PyObject *)event, level, &placed, turn, epoch);
    bool waits = may_wait && level != appender->level;
    return receipt && waits ? when_durable(appender, receipt, turn) : receipt;
}

/* The level that these terms request, borrowed; NULL if they say more than that. */
static PyObject *level_of(const Appender *appender, PyObject *terms) {
    if (!PyDict_Size(terms)) return appender->level;
    PyObject *given = PyDict_Size(terms) == 1 ? PyDict_GetItem(terms, durability_name) : NULL;
    if (!given || given == appender->level || given == appender->durability_max) return given;
    /* Names as they stand in a program are one object each. */
    if (given == durable_text) return appender->durability_max;
    return given == written_text ? appender->level : NULL;
}

/* `append_warm(appenders, topic, value, terms, may_wait)`; see core.pyi. */
PyObject *append_warm(PyObject *module, PyObject *const *args, Py_ssize_t given) {
    (void)module;
    if (given != 5 || Py_TYPE(args[3]) != &PyDict_Type) {
        PyErr_SetString(PyExc_TypeError, "append_warm() takes appenders, a topic, a value, terms, may_wait");
        return NULL;
    }
    if (Py_TYPE(args[1]) != &PyUnicode_Type || Py_TYPE(args[2]) != EventType)
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *found = PyDict_GetItemWithError(args[0], args[1]);
    if (!found && PyErr_Occurred()) return NULL;
    if (!found || Py_TYPE(found) != AppenderType) Py_RETURN_NOTIMPLEMENTED;
    PyObject *level = level_of((Appender *)found, args[3]);
    if (!level) Py_RETURN_NOTIMPLEMENTED;
    /* What is called may replace it in the dict. */
    Py_INCREF(found);
    PyObject *receipt = append_event((Appender *)found, (Event *)args[2], level, args[4] == Py_True);
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
    value_name = PyUnicode_InternFromString("value");
    partitions_name = PyUnicode_InternFromString("partitions");
    durability_name = PyUnicode_InternFromString("durability");
    durable_text = PyUnicode_InternFromString("durable");
    written_text = PyUnicode_InternFromString("written");
    return durability_name && reason_name && value_name && partitions_name && durable_text
        && written_text;
}
