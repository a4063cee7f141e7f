/* An append on an event loop: from the topic's name to a receipt that is awaited.
 *
 * It does what AsyncLog.append does where the core appends at once, and nothing where Python has
 * to append. Awaiting the receipt of such an append pauses the task if it has to be durable, and
 * else does not.
 */
#include "receipt.h"

PyTypeObject *AsyncReceiptFieldsType;
static PyTypeObject *awaited_type;
static PyObject *last_name;

typedef struct {
    PyObject_HEAD
    PyObject *made;  /* A receipt, or the append that a thread makes. */
    PyObject *block; /* None, or the transaction that it is part of. */
} AsyncReceiptFields;

/* What awaits a receipt of the core's, for its round of syncing, and then, where that is not
 * enough, for what Python awaits. It ends at once if the level is reached. */
typedef enum { BEGUN, AT_ROUND, IN_PYTHON } Awaiting;
typedef struct {
    PyObject_HEAD
    AsyncReceiptFields *receipt; /* NULL once it has ended. */
    PyObject *waits_for;         /* NULL, or the iterator of what is awaited now. */
    Awaiting state;
} Awaited;

/* --- a receipt that is awaited --- */

static PyObject *fields_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *made, *block = Py_None;
    if (kwargs) {
        PyErr_SetString(PyExc_TypeError, "the parts of a receipt have no names");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O|O:AsyncReceipt", &made, &block)) return NULL;
    AsyncReceiptFields *fields = (AsyncReceiptFields *)PyType_GenericAlloc(type, 0);
    if (!fields) return NULL;
    fields->made = new_reference(made);
    fields->block = new_reference(block);
    return (PyObject *)fields;
}

static int fields_traverse(AsyncReceiptFields *fields, visitproc visit, void *arg) {
    Py_VISIT(fields->made);
    Py_VISIT(fields->block);
    Py_VISIT(Py_TYPE(fields));
    return 0;
}

static int fields_clear(AsyncReceiptFields *fields) {
    Py_CLEAR(fields->made);
    Py_CLEAR(fields->block);
    return 0;
}

static void fields_dealloc(AsyncReceiptFields *fields) {
    PyTypeObject *type = Py_TYPE(fields);
    PyObject_GC_UnTrack(fields);
    fields_clear(fields);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(fields);
    Py_DECREF(type);
}

static PyObject *await_in_python(AsyncReceiptFields *fields) {
    return PyObject_CallMethod((PyObject *)fields, "_await_open", NULL);
}

static PyObject *fields_await(AsyncReceiptFields *fields) {
    bool is_ours = fields->block == Py_None
        && PyType_IsSubtype(Py_TYPE(fields->made), ReceiptFieldsType)
        && ((ReceiptFields *)fields->made)->make_outcome;
    if (!is_ours) return await_in_python(fields);
    Awaited *awaited = (Awaited *)PyType_GenericAlloc(awaited_type, 0);
    if (awaited) awaited->receipt = (AsyncReceiptFields *)new_reference((PyObject *)fields);
    return (PyObject *)awaited;
}

/* --- what awaits it --- */

static int awaited_traverse(Awaited *awaited, visitproc visit, void *arg) {
    Py_VISIT((PyObject *)awaited->receipt);
    Py_VISIT(awaited->waits_for);
    Py_VISIT(Py_TYPE(awaited));
    return 0;
}

static int awaited_clear(Awaited *awaited) {
    Py_CLEAR(awaited->receipt);
    Py_CLEAR(awaited->waits_for);
    return 0;
}

static void awaited_dealloc(Awaited *awaited) {
    PyTypeObject *type = Py_TYPE(awaited);
    PyObject_GC_UnTrack(awaited);
    awaited_clear(awaited);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(awaited);
    Py_DECREF(type);
}

static bool is_reached(const Awaited *awaited) {
    return awaited->state == IN_PYTHON ? !awaited->waits_for
                                       : receipt_is_at_level((ReceiptFields *)awaited->receipt->made);
}

/* Begin to wait for what comes next; false with an exception. */
static bool wait_on(Awaited *awaited) {
    PyObject *next;
    awaited->state = awaited->state == BEGUN ? AT_ROUND : IN_PYTHON;
    if (awaited->state == AT_ROUND) {
        PyObject *round = receipt_round((ReceiptFields *)awaited->receipt->made);
        next = round ? PyObject_GetIter(round) : NULL;
        Py_XDECREF(round);
    } else {
        next = await_in_python(awaited->receipt);
    }
    awaited->waits_for = next;
    return next != NULL;
}

static PySendResult awaited_send(Awaited *awaited, PyObject *sent, PyObject **result) {
    *result = NULL;
    while (awaited->receipt && !is_reached(awaited)) {
        PySendResult step = PYGEN_ERROR;
        if (awaited->waits_for || wait_on(awaited)) {
            /* It runs Python, which may end this. */
            PyObject *waits_for = new_reference(awaited->waits_for);
            step = PyIter_Send(waits_for, sent, result);
            Py_DECREF(waits_for);
        }
        if (step == PYGEN_ERROR) awaited_clear(awaited);
        if (step != PYGEN_RETURN) return step;
        Py_CLEAR(*result);
        Py_CLEAR(awaited->waits_for);
    }
    *result = awaited->receipt ? (PyObject *)awaited->receipt : new_reference(Py_None);
    awaited->receipt = NULL;
    return PYGEN_RETURN;
}

/* How Python from 3.12 on resumes, where 3.11 sends None. */
static PyObject *awaited_next(Awaited *awaited) {
    PyObject *result;
    if (awaited_send(awaited, Py_None, &result) != PYGEN_RETURN) return result;
    PyErr_SetObject(PyExc_StopIteration, result);
    Py_DECREF(result);
    return NULL;
}

/* --- one append --- */

/* See core.pyi: what AsyncLog gives besides what is appended. */
enum { QUEUES, USED, NOTE, BOUND, CHECK, RECEIPT_TYPE, AROUND };

static bool is_done(PyObject *result) {
    Py_XDECREF(result);
    return result != NULL;
}

/* Whether this is None; -1 with an exception. Takes over the reference. */
static int is_none(PyObject *answer) {
    Py_XDECREF(answer);
    return answer ? answer == Py_None : -1;
}

/* Whether a loop runs here; false with an exception. */
static bool is_on_loop(PyObject *around) {
    return is_loop_known()
        || is_done(PyObject_CallFunctionObjArgs(PyTuple_GetItem(around, CHECK), NULL));
}

/* Whether no append to the topic is queued, and no transaction is open; -1 with an exception. */
static int may_append_now(PyObject *around, PyObject *topic) {
    PyObject *queue = PyDict_GetItemWithError(PyTuple_GetItem(around, QUEUES), topic);
    int is_idle = queue ? is_none(PyObject_GetAttr(queue, last_name)) : PyErr_Occurred() ? -1 : 1;
    if (is_idle <= 0) return is_idle;
    return is_none(PyObject_CallFunctionObjArgs(PyTuple_GetItem(around, BOUND), NULL));
}

static bool note_use(PyObject *around, PyObject *topic) {
    int is_noted = PySet_Contains(PyTuple_GetItem(around, USED), topic);
    return is_noted ? is_noted > 0 : is_done(call_one(PyTuple_GetItem(around, NOTE), topic));
}

PyObject *append_on_loop(PyObject *module, PyObject *const *args, Py_ssize_t given) {
    if (given != 5 || PyTuple_Size(args[4]) != AROUND) {
        PyErr_SetString(PyExc_TypeError, "give appenders, a topic, an event, terms, the rest");
        return NULL;
    }
    PyObject *topic = args[1], *around = args[4];
    if (Py_TYPE(topic) != &PyUnicode_Type) Py_RETURN_NOTIMPLEMENTED;
    int is_free = is_on_loop(around) ? may_append_now(around, topic) : -1;
    if (is_free < 0) return NULL;
    if (!is_free) Py_RETURN_NOTIMPLEMENTED;
    PyObject *const warm[] = {args[0], topic, args[2], args[3], Py_False};
    PyObject *made = append_warm(module, warm, 5);
    if (!made || made == Py_NotImplemented) return made;
    PyTypeObject *type = (PyTypeObject *)PyTuple_GetItem(around, RECEIPT_TYPE);
    AsyncReceiptFields *fields = note_use(around, topic)
        ? (AsyncReceiptFields *)PyType_GenericAlloc(type, 0) : NULL;
    if (!fields) {
        Py_DECREF(made);
        return NULL;
    }
    fields->made = made;
    fields->block = new_reference(Py_None);
    return (PyObject *)fields;
}

/* --- types --- */

static PyMemberDef members[] = {
    {"_made", T_OBJECT_EX, offsetof(AsyncReceiptFields, made), READONLY, NULL},
    {"_block", T_OBJECT_EX, offsetof(AsyncReceiptFields, block), READONLY, NULL},
    {0}};
static PyType_Slot slots[] = {{Py_tp_new, fields_new},
                              {Py_tp_dealloc, fields_dealloc},
                              {Py_tp_traverse, fields_traverse},
                              {Py_tp_clear, fields_clear},
                              {Py_tp_members, members},
                              {Py_am_await, fields_await},
                              {0}};
PyType_Spec async_receipt_spec = {
    "strandline._core.core.AsyncReceiptFields", sizeof(AsyncReceiptFields), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

static PyType_Slot awaited_slots[] = {{Py_tp_dealloc, awaited_dealloc},
                                      {Py_tp_traverse, awaited_traverse},
                                      {Py_tp_clear, awaited_clear},
                                      {Py_tp_iter, PyObject_SelfIter},
                                      {Py_tp_iternext, awaited_next},
                                      {Py_am_send, awaited_send},
                                      {0}};
static PyType_Spec awaited_spec = {
    "strandline._core.core.Awaited", sizeof(Awaited), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, awaited_slots};

bool async_receipt_prepare(void) {
    awaited_type = (PyTypeObject *)PyType_FromSpec(&awaited_spec);
    last_name = PyUnicode_InternFromString("last");
    return awaited_type && last_name;
}
