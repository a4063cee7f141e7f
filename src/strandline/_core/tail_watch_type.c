/* TailWatch as Python sees it. See tail_watch.c for how it waits, core.pyi for the methods. */
#include "tail_watch.h"
#include <unistd.h>

PyTypeObject *TailWatchType;

void tail_watch_add_follower(TailWatch *watch) { watch->followers++; }

void tail_watch_remove_follower(TailWatch *watch) {
    if (--watch->followers) return;
    pthread_mutex_lock(&watch->mutex);
    tail_close_notices(watch);
    pthread_mutex_unlock(&watch->mutex);
}

static void prepare_locks(TailWatch *watch) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#ifdef __linux__
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    pthread_mutex_init(&watch->mutex, NULL);
    pthread_cond_init(&watch->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static PyObject *watch_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    if (!PyArg_ParseTuple(args, ":TailWatch")) return NULL;
    TailWatch *watch = (TailWatch *)PyType_GenericAlloc(type, 0);
    if (!watch) return NULL;
    prepare_locks(watch);
    watch->notices = watch->wake_fd = watch->number = watch->tail_fd = -1;
    for (int each = 0; each < LOOPS_MAX; each++) watch->loop_wake_fds[each] = -1;
    return (PyObject *)watch;
}

static void watch_dealloc(TailWatch *watch) {
    tail_close_notices(watch);
    Py_XDECREF(watch->file);
    free(watch->path);
    pthread_mutex_destroy(&watch->mutex);
    pthread_cond_destroy(&watch->changed);
    free_object(watch);
}

/* With `mutex` held: whether it watches this file already, and is not odd. */
static bool is_aimed_at(const TailWatch *watch, const PyObject *file, const char *raw) {
    return watch->file == file && watch->notices >= 0 && !watch->is_odd
        && !memcmp(watch->same, raw + SAME_AT, SAME_BYTES)
        && !memcmp(watch->low, raw + LOW_AT, LOW_BYTES);
}

/* See core.pyi. */
static PyObject *watch_aim(TailWatch *watch, PyObject *args) {
    PyObject *file, *before = NULL;
    int fd;
    const char *path, *raw;
    unsigned long long device, inode;
    unsigned int seed;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "OisKKIy#:aim", &file, &fd, &path, &device, &inode, &seed, &raw,
                          &length))
        return NULL;
    char *own_path = length == TAIL_BYTES ? strdup(path) : NULL;
    if (!own_path) return PyLong_FromLongLong(0);
    pthread_mutex_lock(&watch->mutex);
    if (!is_aimed_at(watch, file, raw)) {
        before = watch->file;
        watch->file = new_reference(file);
        watch->tail_fd = fd;
        char *old_path = watch->path;
        watch->path = own_path;
        own_path = old_path;
        watch->device = device;
        watch->inode = inode;
        watch->seed = seed;
        memcpy(watch->same, raw + SAME_AT, SAME_BYTES);
        memcpy(watch->low, raw + LOW_AT, LOW_BYTES);
        watch->aim++;
        watch->end = 0;
        watch->place_at = 0;
        memset(watch->end_slot, 0, END_BYTES);
        /* Watch before the look: later writes cause a notice. Ends that are only stored by then
         * belong to an earlier write, whose second look `again_at` is for. */
        watch->is_odd = !tail_begin_notices(watch, watch->path);
        watch->again_at = monotonic_s() + TOUCH_S;
        if (!watch->is_odd) tail_look(watch, -1);
        pthread_cond_broadcast(&watch->changed);
    }
    int64_t aim = watch->is_odd ? 0 : watch->aim;
    pthread_mutex_unlock(&watch->mutex);
    Py_XDECREF(before);
    free(own_path);
    return PyLong_FromLongLong(aim);
}

/* --- for event loops --- */

static PyObject *watch_begin_loop(TailWatch *watch, PyObject *unused) {
    (void)unused;
    int loop = 0, wake_fd = -1, notices;
    pthread_mutex_lock(&watch->mutex);
    while (loop < LOOPS_MAX && watch->loop_wake_fds[loop] >= 0) loop++;
    notices = watch->notices;
    if (loop < LOOPS_MAX && notices >= 0) {
        wake_fd = tail_new_wake_fd();
        watch->loop_wake_fds[loop] = wake_fd;
        if (wake_fd >= 0) __atomic_store_n(&watch->loops, watch->loops + 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&watch->mutex);
    if (wake_fd < 0) Py_RETURN_NONE;
    return Py_BuildValue("(iii)", loop, notices, wake_fd);
}

static PyObject *watch_end_loop(TailWatch *watch, PyObject *args) {
    int loop;
    if (!PyArg_ParseTuple(args, "i:end_loop", &loop)) return NULL;
    pthread_mutex_lock(&watch->mutex);
    if (loop >= 0 && loop < LOOPS_MAX && watch->loop_wake_fds[loop] >= 0) {
        close(watch->loop_wake_fds[loop]);
        watch->loop_wake_fds[loop] = -1;
        __atomic_store_n(&watch->loops, watch->loops - 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&watch->mutex);
    Py_RETURN_NONE;
}

static bool is_open(const TailWatch *watch, int loop) {
    return loop >= 0 && loop < LOOPS_MAX && watch->loop_wake_fds[loop] >= 0 && watch->notices >= 0;
}

/* Look on behalf of a loop, after a notice or a wake-up, or `is_again`; see core.pyi. */
static PyObject *look(TailWatch *watch, PyObject *args, bool is_again) {
    int loop;
    if (!PyArg_ParseTuple(args, "i:look_on_loop", &loop)) return NULL;
    bool is_due = false, has_changed = false;
    pthread_mutex_lock(&watch->mutex);
    if (is_again && monotonic_s() < watch->again_at) {
        is_due = true;
    } else if (is_open(watch, loop)) {
        tail_drain(watch->loop_wake_fds[loop]);
        if (tail_take_notices(watch)) {
            watch->again_at = monotonic_s() + TOUCH_S;
            /* Other threads and loops wait for the same notices. */
            tail_wake_all(watch, false, loop);
        } else if (watch->again_at && monotonic_s() >= watch->again_at) {
            watch->again_at = 0;
        }
        int64_t before = watch->end;
        if (!watch->is_odd) tail_look(watch, loop);
        has_changed = watch->end != before || watch->is_odd;
        is_due = watch->again_at != 0;
    }
    pthread_mutex_unlock(&watch->mutex);
    return Py_BuildValue("(OO)", is_due ? Py_True : Py_False, has_changed ? Py_True : Py_False);
}

static PyObject *watch_look_on_loop(TailWatch *watch, PyObject *args) {
    return look(watch, args, false);
}

static PyObject *watch_look_again_on_loop(TailWatch *watch, PyObject *args) {
    return look(watch, args, true);
}

static PyMethodDef methods[] = {
    {"begin_loop", (PyCFunction)(void *)watch_begin_loop, METH_NOARGS, NULL},
    {"end_loop", (PyCFunction)(void *)watch_end_loop, METH_VARARGS, NULL},
    {"look_on_loop", (PyCFunction)(void *)watch_look_on_loop, METH_VARARGS, NULL},
    {"look_again_on_loop", (PyCFunction)(void *)watch_look_again_on_loop, METH_VARARGS, NULL},
    {"aim", (PyCFunction)(void *)watch_aim, METH_VARARGS, NULL}, {0}};
static PyType_Slot slots[] = {{Py_tp_new, watch_new},
                              {Py_tp_dealloc, watch_dealloc},
                              {Py_tp_methods, methods},
                              {0}};
PyType_Spec tail_watch_spec = {
    "strandline._core.core.TailWatch", sizeof(TailWatch), 0, Py_TPFLAGS_DEFAULT, slots};
