/* The loop that asyncio runs in a thread, without asking the system.
 *
 * Up to 3.11 Python makes a system call with each question for the running loop, in case that the
 * process is the child of a fork. What it keeps in the thread meanwhile is an object of its own for
 * each run of a loop: as long as that is the one that was there when Python answered, so is the
 * loop. */
#include "core.h"
#include <pthread.h>

static PyObject *run_name, *known_run, *known_loop;
static bool is_watching_forks;

static PyObject *run_of_thread(void) {
    PyObject *kept = PyThreadState_GetDict();
    return kept ? PyDict_GetItem(kept, run_name) : NULL;
}

/* In a child no loop runs. What was known belongs to the parent, and is not released here, where
 * Python may not be used. */
static void forget_in_child(void) { known_run = known_loop = NULL; }

PyObject *running_loop(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    PyObject *run = known_run ? run_of_thread() : NULL;
    return new_reference(run && run == known_run ? known_loop : Py_None);
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
