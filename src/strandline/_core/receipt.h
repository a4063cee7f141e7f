/* The fields of a receipt. See receipt.c. */
#ifndef STRANDLINE_RECEIPT_H
#define STRANDLINE_RECEIPT_H
#include "group_commit.h"

typedef struct {
    PyObject_HEAD
    PyObject *outcome;      /* NULL until first requested, if there is `make_outcome`. */
    PyObject *make_outcome; /* NULL, or creates it from `epoch`, `turn` and `placed`. */
    GroupCommit *commit;      /* NULL, or, if durability was requested, its rounds. */
    PyObject *round_on_loop;  /* Set with `commit`: see core.pyi. */
    PyObject *partition, *level, *durability_max, *offered;
    long long index; /* Which of the request's values. */
    int64_t epoch, turn;
    Placed placed;
} ReceiptFields;

extern PyTypeObject *ReceiptFieldsType;
extern PyType_Spec receipt_spec;
/* Whether an Appender made it, and it has reached the level that was requested. */
bool receipt_is_at_level(const ReceiptFields *receipt);
/* Return a future for the round of syncing that makes it durable; it has a `commit`. */
PyObject *receipt_round(ReceiptFields *receipt);

/* --- async_receipt.c --- */

extern PyTypeObject *AsyncReceiptFieldsType;
extern PyType_Spec async_receipt_spec;
bool async_receipt_prepare(void);
PyObject *append_on_loop(PyObject *module, PyObject *const *args, Py_ssize_t given);

/* --- appender.c --- */

extern PyTypeObject *AppenderType;
extern PyType_Spec appender_spec;
bool appender_prepare(void);
PyObject *append_warm(PyObject *module, PyObject *const *args, Py_ssize_t given);
PyObject *append_many_warm(PyObject *module, PyObject *const *args, Py_ssize_t given);
#endif
