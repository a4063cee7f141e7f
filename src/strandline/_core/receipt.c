/* ReceiptFields: the fields of a receipt; strandline.Receipt adds the methods.
 *
 * The receipt of a warm append (appender.c) knows the offset of the record. Its outcome is created
 * by Python when more than that is requested.
 */
#include "receipt.h"

PyTypeObject *ReceiptFieldsType;

static PyObject *receipt_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *outcome, *partition, *level, *durability_max, *offered;
    long long index = 0;
    if (kwargs) {
        PyErr_SetString(PyExc_TypeError, "Receipt() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OOOOO|L:Receipt", &outcome, &partition, &level, &durability_max,
                          &offered, &index))
        return NULL;
    ReceiptFields *receipt = (ReceiptFields *)PyType_GenericAlloc(type, 0);
    if (!receipt) return NULL;
    receipt->outcome = new_reference(outcome);
    receipt->partition = new_reference(partition);
    receipt->level = new_reference(level);
    receipt->durability_max = new_reference(durability_max);
    receipt->offered = new_reference(offered);
    receipt->index = index;
    return (PyObject *)receipt;
}

static int receipt_traverse(ReceiptFields *receipt, visitproc visit, void *arg) {
    Py_VISIT(receipt->outcome);
    Py_VISIT(receipt->make_outcome);
    Py_VISIT(receipt->commit);
    Py_VISIT(receipt->round_on_loop);
    Py_VISIT(receipt->partition);
    Py_VISIT(receipt->level);
    Py_VISIT(receipt->durability_max);
    Py_VISIT(receipt->offered);
    Py_VISIT(Py_TYPE(receipt));
    return 0;
}

static int receipt_clear(ReceiptFields *receipt) {
    Py_CLEAR(receipt->outcome);
    Py_CLEAR(receipt->make_outcome);
    Py_CLEAR(receipt->commit);
    Py_CLEAR(receipt->round_on_loop);
    Py_CLEAR(receipt->partition);
    Py_CLEAR(receipt->level);
    Py_CLEAR(receipt->durability_max);
    Py_CLEAR(receipt->offered);
    return 0;
}

static void receipt_dealloc(ReceiptFields *receipt) {
    PyTypeObject *type = Py_TYPE(receipt);
    PyObject_GC_UnTrack(receipt);
    receipt_clear(receipt);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(receipt);
    Py_DECREF(type);
}

static PyObject *placement_of(ReceiptFields *receipt) {
    return Py_BuildValue("(LL())", (long long)receipt->placed.offset,
                         (long long)receipt->placed.timestamp_us);
}

static PyObject *receipt_outcome(ReceiptFields *receipt, void *closure) {
    (void)closure;
    if (!receipt->outcome && receipt->make_outcome) {
        PyObject *made = PyObject_CallFunction(receipt->make_outcome, "LLN",
                                               (long long)receipt->epoch, (long long)receipt->turn,
                                               placement_of(receipt));
        if (!made) return NULL;
        /* Python ran: another thread may have set it. */
        if (receipt->outcome) Py_DECREF(made);
        else receipt->outcome = made;
    }
    return new_reference(receipt->outcome ? receipt->outcome : Py_None);
}

static PyObject *receipt_placement(ReceiptFields *receipt, PyObject *unused) {
    (void)unused;
    if (receipt->make_outcome) return placement_of(receipt);
    return PyObject_CallMethod(receipt->outcome ? receipt->outcome : Py_None, "result", NULL);
}

bool receipt_is_at_level(const ReceiptFields *receipt) {
    return receipt->make_outcome
        && (!receipt->commit || commit_is_ended(receipt->commit, receipt->turn));
}

static PyObject *receipt_is_reached(ReceiptFields *receipt, void *closure) {
    (void)closure;
    return PyBool_FromLong(receipt_is_at_level(receipt));
}

PyObject *receipt_round(ReceiptFields *receipt) {
    return PyObject_CallFunction(receipt->round_on_loop, "L", (long long)receipt->turn);
}

static PyObject *receipt_next_round(ReceiptFields *receipt, PyObject *unused) {
    (void)unused;
    return receipt->commit ? receipt_round(receipt) : new_reference(Py_None);
}

static PyMemberDef members[] = {
    {"_partition", T_OBJECT_EX, offsetof(ReceiptFields, partition), READONLY, NULL},
    {"_level", T_OBJECT_EX, offsetof(ReceiptFields, level), READONLY, NULL},
    {"_durability_max", T_OBJECT_EX, offsetof(ReceiptFields, durability_max), READONLY, NULL},
    {"_offered", T_OBJECT_EX, offsetof(ReceiptFields, offered), READONLY, NULL},
    {"_index", T_LONGLONG, offsetof(ReceiptFields, index), READONLY, NULL},
    {0}};
static PyGetSetDef attributes[] = {
    {"_outcome", (getter)receipt_outcome, NULL, NULL, NULL},
    {"_is_reached", (getter)receipt_is_reached, NULL, NULL, NULL},
    {0}};
static PyMethodDef methods[] = {
    {"_placement", (PyCFunction)(void *)receipt_placement, METH_NOARGS, NULL},
    {"_next_round", (PyCFunction)(void *)receipt_next_round, METH_NOARGS, NULL},
    {0}};
static PyType_Slot slots[] = {{Py_tp_new, receipt_new},
                              {Py_tp_dealloc, receipt_dealloc},
                              {Py_tp_traverse, receipt_traverse},
                              {Py_tp_clear, receipt_clear},
                              {Py_tp_members, members},
                              {Py_tp_getset, attributes},
                              {Py_tp_methods, methods},
                              {0}};
PyType_Spec receipt_spec = {"strandline._core.core.ReceiptFields", sizeof(ReceiptFields), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
