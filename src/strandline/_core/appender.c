/* Appender: the whole of a warm append, from a topic's name to the receipt.
 *
 * Each partition to which single events were appended has one. It does the same as Log.append,
 * Appends and Lane.append_event for an event, or a list of events, without terms. In all other
 * cases it does nothing and returns NotImplemented.
 */
#include "receipt.h"

PyTypeObject *AppenderType;
static PyObject *reason_name, *value_name, *partitions_name, *durability_name, *durable_text,
    *written_text;

typedef struct {
    PyObject_HEAD
    Lane *lane;
    /* None, or what calls `lane.append` and `lane.append_many` where `io` or `clock` is replaced. */
    PyObject *seam, *seam_many;
    PyObject *ending;   /* Its `reason` is None while writes are taken. */
    PyObject *written;  /* The watermark of what is written: its `value` is the last epoch. */
    GroupCommit *commit; /* The rounds of syncing. */
    PyObject *listener; /* Its `partitions` are empty while nothing is watched. */
    PyObject *announce, *failed, *make_outcome, *round_on_loop, *finish; /* See core.pyi. */
    PyObject *receipt_type, *receipts_of;
    PyObject *clock; /* None for the clock of the system; another one in tests. */
    PyObject *partition, *level, *durability_max;
    double fresh_until; /* From then on, Python checks the topic first. */
    long long bytes_max, appends, records, bytes;
} Appender;

static PyObject *appender_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *lane, *commit, *given[16];
    long long bytes_max;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!OOOOO!OOOOOOOOOOOOL:Appender", LaneType, &lane, &given[0],
                          &given[1], &given[2], &given[3], GroupCommitType, &commit, &given[4],
                          &given[5], &given[6], &given[7], &given[8], &given[9], &given[10],
                          &given[11], &given[12], &given[13], &given[14], &given[15], &bytes_max))
        return NULL;
    Appender *appender = (Appender *)PyType_GenericAlloc(type, 0);
    if (!appender) return NULL;
    PyObject **places[16] = {
        &appender->seam, &appender->seam_many, &appender->ending, &appender->written,
        &appender->listener, &appender->announce, &appender->failed, &appender->make_outcome,
        &appender->round_on_loop, &appender->finish, &appender->receipt_type,
        &appender->receipts_of, &appender->clock, &appender->partition, &appender->level,
        &appender->durability_max};
    for (int index = 0; index < 16; index++) *places[index] = new_reference(given[index]);
    appender->lane = (Lane *)new_reference(lane);
    appender->commit = (GroupCommit *)new_reference(commit);
    appender->bytes_max = bytes_max;
    return (PyObject *)appender;
}

static int appender_traverse(Appender *appender, visitproc visit, void *arg) {
    Py_VISIT(appender->lane);
    Py_VISIT(appender->seam);
    Py_VISIT(appender->seam_many);
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
    Py_VISIT(appender->receipts_of);
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
    Py_CLEAR(appender->seam_many);
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
    Py_CLEAR(appender->receipts_of);
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

/* Append by a function of Python, which holds the mutex, if `io` or `clock` is replaced. */
static Step append_by_seam(Appender *appender, PyObject *seam, PyObject *value, Placed *placed) {
    PyObject *answer = PyObject_CallFunction(seam, "OL", value, appender->bytes_max);
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

/* Append an event or a list of events, and set `size_bytes` to their size. */
static Step append_by_lane(Appender *appender, PyObject *value, Placed *placed, int64_t *size_bytes) {
    bool is_list = Py_TYPE(value) == &PyList_Type, is_seam = appender->seam != Py_None;
    if (!is_list) {
        *size_bytes = event_size((Event *)value);
        return LIKELY(!is_seam)
            ? lane_append_event(appender->lane, (Event *)value, appender->bytes_max, placed)
            : append_by_seam(appender, appender->seam, value, placed);
    }
    if (LIKELY(!is_seam))
        return lane_append_events(appender->lane, value, appender->bytes_max, placed, size_bytes);
    Step step = append_by_seam(appender, appender->seam_many, value, placed);
    *size_bytes = step == DONE ? events_size(value) : 0;
    return step;
}

/* Replace the exception that is set by the one that the caller gets. */
static PyObject *raise_failed(Appender *appender, PyObject *value) {
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    PyObject *answer = error ? PyObject_CallFunctionObjArgs(
        appender->failed, error, value, NULL) : NULL;
    /* It should have raised; if it has not, raise the original error. */
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

static PyObject *receipt_of(Appender *appender, PyObject *value, PyObject *level,
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
    receipt->offered = new_reference(value);
    receipt->placed = *placed;
    receipt->turn = turn;
    receipt->epoch = epoch;
    /* No object that it refers to can refer to it. */
    PyObject_GC_UnTrack(receipt);
    return (PyObject *)receipt;
}

/* Return the receipt once its records are durable. */
static PyObject *when_durable(Appender *appender, PyObject *receipt, int64_t turn) {
    int is_durable = commit_wait(appender->commit, turn);
    if (LIKELY(is_durable > 0)) return receipt;
    PyObject *answer = is_durable < 0 ? NULL : call_one(appender->finish, receipt);
    if (answer) Py_DECREF(answer);
    else Py_CLEAR(receipt);
    return receipt;
}

/* Append `value`, an event or a list of `count` events; return the receipt of the first. */
static PyObject *append_value(Appender *appender, PyObject *value, Py_ssize_t count, PyObject *level,
                              bool may_wait) {
    Placed placed;
    int64_t epoch, size_bytes;
    double now;
    if (!clock_monotonic(appender->clock, &now)) return NULL;
    if (now >= appender->fresh_until) Py_RETURN_NOTIMPLEMENTED;
    int is_open = takes_writes(appender);
    if (is_open < 0) return NULL;
    if (!is_open) Py_RETURN_NOTIMPLEMENTED;
    Step step = append_by_lane(appender, value, &placed, &size_bytes);
    if (step == LEFT) Py_RETURN_NOTIMPLEMENTED;
    if (step == FAILED) return raise_failed(appender, value);
    appender->appends++;
    appender->records += count;
    appender->bytes += size_bytes;
    if (!number_of(appender->written, value_name, &epoch)) return NULL;
    /* After the write: the next round of syncing that begins makes it durable. */
    int64_t turn = commit_turn(appender->commit, epoch);
    if (!announce_end(appender, placed.offset + count)) return NULL;
    PyObject *receipt = receipt_of(appender, value, level, &placed, turn, epoch);
    bool waits = may_wait && level != appender->level;
    return receipt && waits ? when_durable(appender, receipt, turn) : receipt;
}

/* Append a list of events; return the receipts. */
static PyObject *append_list(Appender *appender, PyObject *events, PyObject *level, bool may_wait) {
    Py_ssize_t count = PyList_Size(events);
    /* The receipts keep a copy, because the caller may change its list. */
    PyObject *own = PyList_GetSlice(events, 0, count);
    PyObject *first = own ? append_value(appender, own, count, level, may_wait) : NULL;
    Py_XDECREF(own);
    if (!first || first == Py_NotImplemented) return first;
    PyObject *receipts = PyObject_CallFunction(appender->receipts_of, "On", first, count);
    Py_DECREF(first);
    return receipts;
}

/* The durability that these terms request, borrowed; NULL if they have any other term. */
static PyObject *level_of(const Appender *appender, PyObject *terms) {
    if (!PyDict_Size(terms)) return appender->level;
    PyObject *given = PyDict_Size(terms) == 1 ? PyDict_GetItem(terms, durability_name) : NULL;
    if (!given || given == appender->level || given == appender->durability_max) return given;
    /* Python interns names in a program, so that pointers can be compared. */
    if (given == durable_text) return appender->durability_max;
    return given == written_text ? appender->level : NULL;
}

/* The appender of a topic for this value, a new reference; None if there is none. It may be a
 * function of Python, for single events, which is called with the value, terms and may_wait. */
static PyObject *appender_for(PyObject *appenders, PyObject *topic, PyObject *value) {
    PyObject *found = Py_TYPE(topic) == &PyUnicode_Type ? PyDict_GetItemWithError(appenders, topic)
                                                        : NULL;
    if (found && Py_TYPE(found) == &PyList_Type) {
        Event *event = (Event *)value;
        Py_ssize_t partitions = PyList_Size(found);
        bool is_routed = Py_TYPE(value) == EventType && event->has_key && partitions > 0;
        found = is_routed ? PyList_GetItem(found, event_partition(event, (uint32_t)partitions)) : NULL;
    }
    if (!found && PyErr_Occurred()) return NULL;
    /* A call may replace it in `appenders`. */
    return new_reference(found ? found : Py_None);
}

/* See core.pyi for these two: appenders, a topic, what to append, terms, may_wait. */
static PyObject *warm(PyObject *const *args, Py_ssize_t given, bool is_list) {
    if (given != 5 || Py_TYPE(args[3]) != &PyDict_Type) {
        PyErr_SetString(PyExc_TypeError, "expected appenders, a topic, what to append, terms, may_wait");
        return NULL;
    }
    PyObject *value = args[2];
    if (Py_TYPE(value) != (is_list ? &PyList_Type : EventType)) Py_RETURN_NOTIMPLEMENTED;
    PyObject *found = appender_for(args[0], args[1], value);
    if (!found) return NULL;
    Appender *appender = (Appender *)found;
    bool is_ours = Py_TYPE(found) == AppenderType, may_wait = args[4] == Py_True;
    PyObject *level = is_ours ? level_of(appender, args[3]) : NULL, *receipt;
    if (!is_ours && !is_list && found != Py_None)
        receipt = PyObject_CallFunctionObjArgs(found, value, args[3], args[4], NULL);
    else if (!level) receipt = new_reference(Py_NotImplemented);
    else if (is_list) receipt = append_list(appender, value, level, may_wait);
    else receipt = append_value(appender, value, 1, level, may_wait);
    Py_DECREF(found);
    return receipt;
}

PyObject *append_warm(PyObject *module, PyObject *const *args, Py_ssize_t given) {
    (void)module;
    return warm(args, given, false);
}

PyObject *append_many_warm(PyObject *module, PyObject *const *args, Py_ssize_t given) {
    (void)module;
    return warm(args, given, true);
}

static PyObject *appender_append(Appender *appender, PyObject *events) {
    if (Py_TYPE(events) != &PyList_Type) Py_RETURN_NOTIMPLEMENTED;
    return append_value(appender, events, PyList_Size(events), appender->level, false);
}

static PyObject *appender_take_counts(Appender *appender, PyObject *unused) {
    (void)unused;
    PyObject *counts = Py_BuildValue("(LLL)", appender->appends, appender->records,
                                     appender->bytes);
    if (counts) appender->appends = appender->records = appender->bytes = 0;
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
    {"append", (PyCFunction)(void *)appender_append, METH_O, NULL},
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
