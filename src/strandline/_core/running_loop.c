/* The running event loop of a thread, without a system call.
 *
 * Up to 3.11 `asyncio.get_running_loop` calls getpid() each time, to detect a fork. While a loop
 * runs, the thread's state holds an object that is created for that run. As long as it is the
 * object that was there when Python was asked, the loop is the same. */
#include "core.h"
#include <pthread.h>

static PyObject *run_name, *known_run, *known_loop;
static bool is_watching_forks;

static PyObject *run_of_thread(void) {
    PyObject *kept = PyThreadState_GetDict();
    return kept ? PyDict_GetItem(kept, run_name) : NULL;
}

/* In a child no loop runs. The references are the parent's; they are not released, because Python
 * must not be called here. */
static void forget_in_child(void) { known_run = known_loop = NULL; }

bool is_loop_known(void) { return known_run && run_of_thread() == known_run; }

PyObject *running_loop(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return new_reference(is_loop_known() ? known_loop : Py_None);
}

PyObject *know_running_loop(PyObject *module, PyObject *loop) {
    (void)module;
    if (!run_name) run_name = PyUnicode_InternFromString("__asyncio_running_event_loop__");
    if (!run_name) return NULL;
    PyObject *run = run_of_thread(), *run_before = known_run, *loop_before = known_loop;
    if (!run || (!is_watching_forks && pthread_atfork(NULL, NULL, forget_in_child))) Py_RETURN_NONE;
    is_watching_forks = true;
    known_run = new_reference(run);
    known_loop = new_reference(loop);
    /* Last: this may run Python. */
    Py_XDECREF(run_before);
    Py_XDECREF(loop_before);
    Py_RETURN_NONE;
}
