/* The part of CPython's stable ABI (3.11) that the core uses.
 *
 * Declared here, so that a machine without Python's headers can build the core. A test
 * compiles the same sources with -DSTRANDLINE_PYTHON_H, against the headers themselves.
 */
#ifndef STRANDLINE_ABI3_H
#define STRANDLINE_ABI3_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000

#ifdef STRANDLINE_PYTHON_H
#include <Python.h>
#include <structmember.h>
#else

#include <sys/types.h>

typedef ssize_t Py_ssize_t;
typedef Py_ssize_t Py_hash_t;
typedef struct _typeobject PyTypeObject;
typedef struct _object {
    Py_ssize_t ob_refcnt;
    PyTypeObject *ob_type;
} PyObject;
typedef struct {
    PyObject ob_base;
    Py_ssize_t ob_size;
} PyVarObject;
#define PyObject_HEAD PyObject ob_base;
#define PyObject_VAR_HEAD PyVarObject ob_base;

typedef PyObject *(*PyCFunction)(PyObject *, PyObject *);
typedef PyObject *(*getter)(PyObject *, void *);
typedef int (*setter)(PyObject *, PyObject *, void *);
typedef void (*freefunc)(void *);
typedef enum { PYGEN_RETURN = 0, PYGEN_ERROR = -1, PYGEN_NEXT = 1 } PySendResult;
typedef int (*visitproc)(PyObject *, void *);
typedef struct {
    const char *ml_name;
    PyCFunction ml_meth;
    int ml_flags;
    const char *ml_doc;
} PyMethodDef;
typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len, itemsize;
    int readonly, ndim;
    char *format;
    Py_ssize_t *shape, *strides, *suboffsets;
    void *internal;
} Py_buffer;
typedef struct {
    const char *name;
    getter get;
    setter set;
    const char *doc;
    void *closure;
} PyGetSetDef;
typedef struct {
    const char *name;
    int type;
    Py_ssize_t offset;
    int flags;
    const char *doc;
} PyMemberDef;
typedef struct {
    int slot;
    void *pfunc;
} PyType_Slot;
typedef struct {
    const char *name;
    int basicsize, itemsize;
    unsigned int flags;
    PyType_Slot *slots;
} PyType_Spec;
typedef struct PyModuleDef {
    struct {
        PyObject ob_base;
        PyObject *(*m_init)(void);
        Py_ssize_t m_index;
        PyObject *m_copy;
    } m_base;
    const char *m_name, *m_doc;
    Py_ssize_t m_size;
    PyMethodDef *m_methods;
    void *m_slots, *m_traverse, *m_clear;
    freefunc m_free;
} PyModuleDef;
#define PyModuleDef_HEAD_INIT {{1, NULL}, NULL, 0, NULL}
#define PyMODINIT_FUNC __attribute__((visibility("default"))) PyObject *

#define METH_VARARGS 1
#define METH_KEYWORDS 2
#define METH_NOARGS 4
#define METH_O 8
#define METH_CLASS 16
#define METH_STATIC 32
#define METH_FASTCALL 128
#define Py_TPFLAGS_DISALLOW_INSTANTIATION (1ul << 7)
#define Py_TPFLAGS_BASETYPE (1ul << 10)
#define Py_TPFLAGS_HAVE_VECTORCALL (1ul << 11)
#define Py_TPFLAGS_HAVE_GC (1ul << 14)
#define Py_TPFLAGS_DEFAULT 0ul
#define Py_EQ 2
#define Py_NE 3
#define Py_DTSF_ADD_DOT_0 2
#define Py_sq_item 44
#define Py_sq_length 45
#define Py_tp_clear 51
#define Py_tp_dealloc 52
#define Py_tp_doc 56
#define Py_tp_hash 59
#define Py_tp_iter 62
#define Py_tp_iternext 63
#define Py_tp_methods 64
#define Py_tp_new 65
#define Py_tp_repr 66
#define Py_tp_richcompare 67
#define Py_tp_traverse 71
#define Py_tp_members 72
#define Py_tp_getset 73
#define Py_tp_free 74
#define Py_am_await 77
#define Py_am_send 81
#define T_INT 1
#define T_OBJECT_EX 16
#define T_DOUBLE 4
#define T_BOOL 14
#define T_LONGLONG 17
#define T_ULONGLONG 18
#define READONLY 1

extern PyObject _Py_NoneStruct, _Py_NotImplementedStruct, _Py_TrueStruct, _Py_FalseStruct;
#define Py_None (&_Py_NoneStruct)
#define Py_NotImplemented (&_Py_NotImplementedStruct)
#define Py_True (&_Py_TrueStruct)
#define Py_False (&_Py_FalseStruct)

void _Py_Dealloc(PyObject *);
static inline void Py_INCREF_(PyObject *object) { object->ob_refcnt++; }
static inline void Py_DECREF_(PyObject *object) {
    if (--object->ob_refcnt == 0) _Py_Dealloc(object);
}
#define Py_INCREF(o) Py_INCREF_((PyObject *)(o))
#define Py_DECREF(o) Py_DECREF_((PyObject *)(o))
static inline void Py_XINCREF_(PyObject *object) {
    if (object) Py_INCREF(object);
}
static inline void Py_XDECREF_(PyObject *object) {
    if (object) Py_DECREF(object);
}
#define Py_XINCREF(o) Py_XINCREF_((PyObject *)(o))
#define Py_XDECREF(o) Py_XDECREF_((PyObject *)(o))
#define Py_CLEAR(o) do { PyObject *x_ = (PyObject *)(o); (o) = NULL; Py_XDECREF(x_); } while (0)
#define Py_VISIT(o) do { int v_ = (o) ? visit((PyObject *)(o), arg) : 0; if (v_) return v_; } while (0)
#define Py_RETURN_NONE return Py_INCREF(Py_None), Py_None
#define Py_RETURN_NOTIMPLEMENTED return Py_INCREF(Py_NotImplemented), Py_NotImplemented
#define Py_RETURN_TRUE return Py_INCREF(Py_True), Py_True
#define Py_RETURN_FALSE return Py_INCREF(Py_False), Py_False

/* Only their addresses are used. */
struct _typeobject { char opaque[1]; };
extern PyTypeObject PyUnicode_Type, PyDict_Type, PyList_Type, PyLong_Type, PyFloat_Type, PyBytes_Type;
extern const unsigned long Py_Version;
extern PyObject *PyExc_IndexError, *PyExc_OSError, *PyExc_StopIteration, *PyExc_TypeError,
    *PyExc_ValueError;

typedef struct _ts PyThreadState;
PyThreadState *PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState *);
#define Py_BEGIN_ALLOW_THREADS { PyThreadState *thread_ = PyEval_SaveThread();
#define Py_END_ALLOW_THREADS PyEval_RestoreThread(thread_); }

PyObject *PyBool_FromLong(long);
char *PyBytes_AsString(PyObject *);
void PyBuffer_Release(Py_buffer *);
PyObject *PyByteArray_FromStringAndSize(const char *, Py_ssize_t);
PyObject *PyBytes_FromStringAndSize(const char *, Py_ssize_t);
Py_ssize_t PyBytes_Size(PyObject *);
PyObject *PyDict_GetItem(PyObject *, PyObject *);
PyObject *PyDict_GetItemWithError(PyObject *, PyObject *);
PyObject *PyDict_New(void);
PyObject *PyDictProxy_New(PyObject *);
int PyDict_Next(PyObject *, Py_ssize_t *, PyObject **, PyObject **);
Py_ssize_t PyDict_Size(PyObject *);
int PyDict_SetItem(PyObject *, PyObject *, PyObject *);
int PyErr_CheckSignals(void);
void PyErr_Clear(void);
int PyErr_ExceptionMatches(PyObject *);
void PyErr_Fetch(PyObject **, PyObject **, PyObject **);
PyObject *PyErr_Format(PyObject *, const char *, ...);
PyObject *PyErr_NoMemory(void);
void PyErr_NormalizeException(PyObject **, PyObject **, PyObject **);
PyObject *PyErr_Occurred(void);
void PyErr_Restore(PyObject *, PyObject *, PyObject *);
PyObject *PyErr_SetFromErrno(PyObject *);
void PyErr_SetNone(PyObject *);
void PyErr_SetObject(PyObject *, PyObject *);
void PyErr_SetString(PyObject *, const char *);
double PyFloat_AsDouble(PyObject *);
PyObject *PyFloat_FromDouble(double);
int PyList_Append(PyObject *, PyObject *);
PyObject *PyList_GetItem(PyObject *, Py_ssize_t);
PyObject *PyList_GetSlice(PyObject *, Py_ssize_t, Py_ssize_t);
PyObject *PyList_New(Py_ssize_t);
int PyList_SetItem(PyObject *, Py_ssize_t, PyObject *);
Py_ssize_t PyList_Size(PyObject *);
long long PyLong_AsLongLong(PyObject *);
long long PyLong_AsLongLongAndOverflow(PyObject *, int *);
PyObject *PyLong_FromLongLong(long long);
PyObject *PyLong_FromUnsignedLong(unsigned long);
void PyMem_Free(void *);
int PyModule_AddObject(PyObject *, const char *, PyObject *);
int PyModule_AddIntConstant(PyObject *, const char *, long);
PyObject *PyModule_Create2(PyModuleDef *, int);
#define PyModule_Create(definition) PyModule_Create2(definition, 3)
char *PyOS_double_to_string(double, char, int, int, int *);
double PyOS_string_to_double(const char *, char **, PyObject *);
PyObject *PyObject_Call(PyObject *, PyObject *, PyObject *);
PyObject *PyObject_CallFunctionObjArgs(PyObject *, ...);
void PyObject_Free(void *);
void PyObject_GC_UnTrack(void *);
PySendResult PyIter_Send(PyObject *, PyObject *, PyObject **);
PyObject *PyObject_GetIter(PyObject *);
PyObject *PyObject_GetAttr(PyObject *, PyObject *);
PyObject *PyObject_GetAttrString(PyObject *, const char *);
Py_hash_t PyObject_Hash(PyObject *);
Py_hash_t PyObject_HashNotImplemented(PyObject *);
int PyObject_IsTrue(PyObject *);
PyObject *PyObject_RichCompare(PyObject *, PyObject *, int);
PyObject *PyObject_SelfIter(PyObject *);
int PyObject_SetAttrString(PyObject *, const char *, PyObject *);
Py_ssize_t PyObject_Size(PyObject *);
PyObject *_PyObject_New(PyTypeObject *);
PyVarObject *_PyObject_NewVar(PyTypeObject *, Py_ssize_t);
#define PyObject_New(T, type) ((T *)_PyObject_New(type))
#define PyObject_NewVar(T, type, n) ((T *)_PyObject_NewVar(type, n))
PyObject *_PyObject_CallFunction_SizeT(PyObject *, const char *, ...);
PyObject *_PyObject_CallMethod_SizeT(PyObject *, const char *, const char *, ...);
PyObject *_Py_BuildValue_SizeT(const char *, ...);
int _PyArg_ParseTuple_SizeT(PyObject *, const char *, ...);
int _PyArg_ParseTupleAndKeywords_SizeT(PyObject *, PyObject *, const char *, char **, ...);
#define PyObject_CallFunction _PyObject_CallFunction_SizeT
#define PyObject_CallMethod _PyObject_CallMethod_SizeT
#define Py_BuildValue _Py_BuildValue_SizeT
#define PyArg_ParseTuple _PyArg_ParseTuple_SizeT
#define PyArg_ParseTupleAndKeywords _PyArg_ParseTupleAndKeywords_SizeT
PyObject *PySequence_List(PyObject *);
int PySet_Contains(PyObject *, PyObject *);
PyObject *PyThreadState_GetDict(void);
PyObject *PyTuple_GetItem(PyObject *, Py_ssize_t);
PyObject *PyTuple_New(Py_ssize_t);
PyObject *PyTuple_Pack(Py_ssize_t, ...);
int PyTuple_SetItem(PyObject *, Py_ssize_t, PyObject *);
Py_ssize_t PyTuple_Size(PyObject *);
PyObject *PyType_FromSpec(PyType_Spec *);
PyObject *PyType_GenericAlloc(PyTypeObject *, Py_ssize_t);
unsigned long PyType_GetFlags(PyTypeObject *);
void *PyType_GetSlot(PyTypeObject *, int);
int PyType_IsSubtype(PyTypeObject *, PyTypeObject *);
const char *PyUnicode_AsUTF8AndSize(PyObject *, Py_ssize_t *);
int PyUnicode_Compare(PyObject *, PyObject *);
PyObject *PyUnicode_DecodeASCII(const char *, Py_ssize_t, const char *);
PyObject *PyUnicode_DecodeUTF8(const char *, Py_ssize_t, const char *);
PyObject *PyUnicode_FromFormat(const char *, ...);
PyObject *PyUnicode_FromString(const char *);
PyObject *PyUnicode_FromStringAndSize(const char *, Py_ssize_t);
PyObject *PyUnicode_InternFromString(const char *);
#endif

/* In both: the type of an object, without a call. */
#undef Py_TYPE
#define Py_TYPE(o) (((PyObject *)(o))->ob_type)
#endif
