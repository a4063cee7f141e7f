/* What a receipt is made of. See receipt.c. */
#ifndef STRANDLINE_RECEIPT_H
#define STRANDLINE_RECEIPT_H
#include "group_commit.h"

typedef struct {
    PyObject_HEAD
    PyObject *outcome;      /* NULL until it is asked for, where `make_outcome` is there. */
    PyObject *make_outcome; /* NULL, or what makes it of `epoch`, `turn` and `placed`. */
    GroupCommit *commit;      /* NULL, or what makes it durable, which was requested. */
    PyObject *round_on_loop;  /* There with it: see core.pyi. */
    PyObject *partition, *level, *durability_max, *offered;
    long long index; /* Which of the request's values. */
    int64_t epoch, turn;
    Placed placed;
} ReceiptFields;

extern PyTypeObject *ReceiptFieldsType;
extern PyType_Spec receipt_spec;

/* --- appender.c --- */

extern PyTypeObject *AppenderType;
extern PyType_Spec appender_spec;
bool appender_prepare(void);
PyObject *append_warm(PyObject *module, PyObject *const *args, Py_ssize_t given);
PyObject *append_many_warm(PyObject *module, PyObject *const *args, Py_ssize_t given);
#endif
