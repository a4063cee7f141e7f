/* GroupCommit as Python sees it. See group_commit.c for how it waits, core.pyi for the methods. */
#include "group_commit.h"
#include <errno.h>

PyTypeObject *GroupCommitType;

/* --- creating and freeing --- */

static void prepare_locks(GroupCommit *commit) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#ifndef __APPLE__
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    pthread_mutex_init(&commit->mutex, NULL);
    pthread_cond_init(&commit->freed, &attributes);
    pthread_condattr_destroy(&attributes);
    for (int each = 0; each < 2; each++) wake_word_prepare(&commit->changed[each]);
}

static PyObject *commit_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    if (!PyArg_ParseTuple(args, ":GroupCommit")) return NULL;
    GroupCommit *commit = (GroupCommit *)PyType_GenericAlloc(type, 0);
    if (!commit) return NULL;
    prepare_locks(commit);
    return (PyObject *)commit;
}

static int commit_traverse(GroupCommit *commit, visitproc visit, void *arg) {
    Py_VISIT(commit->report);
    Py_VISIT(commit->mark);
    if (commit->place) {
        Py_VISIT(commit->place->files);
        Py_VISIT(commit->place->io);
    }
    Py_VISIT(Py_TYPE(commit));
    return 0;
}

static void free_place(SyncPlace *place) {
    if (!place) return;
    Py_XDECREF(place->files);
    Py_XDECREF(place->io);
    free(place->tail_path);
    free(place);
}

static int commit_clear(GroupCommit *commit) {
    SyncPlace *place = commit->place;
    commit->place = NULL;
    free_place(place);
    Py_CLEAR(commit->report);
    Py_CLEAR(commit->mark);
    return 0;
}

static void commit_dealloc(GroupCommit *commit) {
    PyTypeObject *type = Py_TYPE(commit);
    PyObject_GC_UnTrack(commit);
    commit_clear(commit);
    pthread_mutex_destroy(&commit->mutex);
    for (int each = 0; each < 2; each++) wake_word_end(&commit->changed[each]);
    pthread_cond_destroy(&commit->freed);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(commit);
    Py_DECREF(type);
}

static PyObject *commit_follow(GroupCommit *commit, PyObject *args) {
    PyObject *mark, *report;
    if (!PyArg_ParseTuple(args, "OO:follow", &mark, &report)) return NULL;
    Py_CLEAR(commit->mark);
    Py_CLEAR(commit->report);
    commit->mark = new_reference(mark);
    commit->report = new_reference(report);
    Py_RETURN_NONE;
}

static PyObject *commit_renew(GroupCommit *commit, PyObject *unused) {
    (void)unused;
    /* In the child of a fork: a thread that does not exist there may have held them. */
    prepare_locks(commit);
    commit->is_busy = false;
    commit->waiting = 0;
    Py_RETURN_NONE;
}

static PyObject *commit_close(GroupCommit *commit, PyObject *unused) {
    (void)unused;
    pthread_mutex_lock(&commit->mutex);
    commit->is_closed = true;
    for (int each = 0; each < 2; each++) wake_word_change(&commit->changed[each]);
    pthread_cond_broadcast(&commit->freed);
    pthread_mutex_unlock(&commit->mutex);
    for (int each = 0; each < 2; each++) wake_word_wake(&commit->changed[each], WAKE_ALL);
    Py_RETURN_NONE;
}

/* --- for the stage --- */

static PyObject *commit_acquire(GroupCommit *commit, PyObject *args) {
    int is_blocking = 1;
    double timeout_s = -1;
    bool is_taken = false;
    if (!PyArg_ParseTuple(args, "|pd:acquire", &is_blocking, &timeout_s)) return NULL;
    if (!is_blocking) {
        pthread_mutex_lock(&commit->mutex);
        is_taken = !commit->is_busy;
        commit->is_busy = true;
        pthread_mutex_unlock(&commit->mutex);
        return PyBool_FromLong(is_taken);
    }
    double start = monotonic_s();
    for (;;) {
        double left_s = timeout_s < 0 ? 1 : timeout_s - (monotonic_s() - start);
        /* The interpreter's lock is released while it blocks. */
        Py_BEGIN_ALLOW_THREADS
        pthread_mutex_lock(&commit->mutex);
        if (commit->is_busy && left_s > 0) commit_block(commit, &commit->freed, SIGNALS_MS);
        is_taken = !commit->is_busy;
        commit->is_busy = true;
        pthread_mutex_unlock(&commit->mutex);
        Py_END_ALLOW_THREADS
        if (is_taken || left_s <= 0) return PyBool_FromLong(is_taken);
        if (PyErr_CheckSignals()) return NULL;
    }
}

static PyObject *commit_release(GroupCommit *commit, PyObject *unused) {
    (void)unused;
    pthread_mutex_lock(&commit->mutex);
    int64_t ended = commit_unlock(commit);
    pthread_mutex_unlock(&commit->mutex);
    commit_wake(commit, ended);
    Py_RETURN_NONE;
}

static PyObject *commit_begin(GroupCommit *commit, PyObject *unused) {
    (void)unused;
    pthread_mutex_lock(&commit->mutex);
    commit->begun++;
    pthread_mutex_unlock(&commit->mutex);
    Py_RETURN_NONE;
}

static PyObject *commit_end(GroupCommit *commit, PyObject *unused) {
    (void)unused;
    pthread_mutex_lock(&commit->mutex);
    commit_end_round(commit);
    commit->reported = commit->ended;
    WakeWord *changed = &commit->changed[commit->ended & 1];
    wake_word_change(changed);
    pthread_mutex_unlock(&commit->mutex);
    wake_word_wake(changed, WAKE_ALL);
    Py_RETURN_NONE;
}

/* --- for the thread that syncs in Python --- */

static PyObject *commit_arm(GroupCommit *commit, PyObject *args) {
    PyObject *files, *io;
    const char *path, *same;
    Py_ssize_t same_length;
    unsigned long long device, inode;
    long long durable;
    SyncPlace to = {0};
    if (!PyArg_ParseTuple(args, "OOiisKKIy#L:arm", &files, &io, &to.segment_fd, &to.tail_fd, &path,
                          &device, &inode, &to.tail_seed, &same, &same_length, &durable))
        return NULL;
    SyncPlace *place = same_length == SAME_BYTES ? malloc(sizeof *place) : NULL;
    char *own_path = place ? strdup(path) : NULL;
    if (!own_path) {
        free(place);
        return PyErr_NoMemory();
    }
    *place = to;
    place->tail_path = own_path;
    place->tail_device = device;
    place->tail_inode = inode;
    memcpy(place->same, same, SAME_BYTES);
    place->files = new_reference(files);
    place->io = new_reference(io);
    pthread_mutex_lock(&commit->mutex);
    SyncPlace *before = commit->place;
    commit->place = place;
    commit->durable = durable;
    commit->looked_at = 0;
    pthread_mutex_unlock(&commit->mutex);
    free_place(before);
    Py_RETURN_NONE;
}

static PyObject *commit_disarm(GroupCommit *commit, PyObject *unused) {
    (void)unused;
    pthread_mutex_lock(&commit->mutex);
    SyncPlace *before = commit->place;
    commit->place = NULL;
    pthread_mutex_unlock(&commit->mutex);
    free_place(before);
    Py_RETURN_NONE;
}

/* `sync()`: the caller holds the lock. */
static PyObject *commit_sync(GroupCommit *commit, PyObject *unused) {
    (void)unused;
    Synced synced = {LEFT, false, 0, 0};
    const SyncPlace *place = commit->place;
    int64_t known = commit->durable;
    if (!commit->error && place && place->io != Py_None) {
        synced = sync_round(place, known, true);
        if (synced.is_sync_lost) synced.error = EIO;
    } else if (!commit->error && place) {
        /* The interpreter's lock is released: only the holder of the lock replaces `place`. */
        Py_BEGIN_ALLOW_THREADS
        synced = sync_round(place, known, true);
        Py_END_ALLOW_THREADS
    }
    pthread_mutex_lock(&commit->mutex);
    if (synced.is_sync_lost) commit->error = synced.error;
    if (synced.step == DONE) commit->durable = synced.durable;
    int error = commit->error;
    pthread_mutex_unlock(&commit->mutex);
    if (PyErr_Occurred()) return NULL;
    if (error) {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    if (synced.step != DONE) Py_RETURN_NONE;
    return PyLong_FromLongLong(synced.durable);
}

/* --- state --- */

typedef enum { BEGUN, ENDED_ROUNDS, WAITING } Counted;

static PyObject *commit_counted(GroupCommit *commit, void *which) {
    pthread_mutex_lock(&commit->mutex);
    const int64_t counts[] = {commit->begun, commit->ended,
                              __atomic_load_n(&commit->waiting, __ATOMIC_RELAXED)};
    pthread_mutex_unlock(&commit->mutex);
    return PyLong_FromLongLong(counts[(Counted)(intptr_t)which]);
}

static PyObject *commit_sync_s(GroupCommit *commit, void *closure) {
    (void)closure;
    pthread_mutex_lock(&commit->mutex);
    double sync_s = commit->sync_s;
    pthread_mutex_unlock(&commit->mutex);
    return PyFloat_FromDouble(sync_s);
}

static PyObject *commit_has_failed(GroupCommit *commit, void *closure) {
    (void)closure;
    pthread_mutex_lock(&commit->mutex);
    bool has_failed = commit->error != 0;
    pthread_mutex_unlock(&commit->mutex);
    return PyBool_FromLong(has_failed);
}

static PyObject *commit_locked(GroupCommit *commit, PyObject *unused) {
    (void)unused;
    pthread_mutex_lock(&commit->mutex);
    bool is_busy = commit->is_busy;
    pthread_mutex_unlock(&commit->mutex);
    return PyBool_FromLong(is_busy);
}

static PyObject *commit_wait_turn(GroupCommit *commit, PyObject *args) {
    long long turn;
    if (!PyArg_ParseTuple(args, "L:wait", &turn)) return NULL;
    int is_ended = commit_wait(commit, turn);
    return is_ended < 0 ? NULL : PyBool_FromLong(is_ended);
}

static PyObject *commit_busy(GroupCommit *commit, void *closure) {
    (void)closure;
    return new_reference((PyObject *)commit);
}

static PyGetSetDef attributes[] = {
    {"busy", (getter)commit_busy, NULL, NULL, NULL},
    {"begun", (getter)commit_counted, NULL, NULL, (void *)BEGUN},
    {"ended", (getter)commit_counted, NULL, NULL, (void *)ENDED_ROUNDS},
    {"waiting", (getter)commit_counted, NULL, NULL, (void *)WAITING},
    {"sync_s", (getter)commit_sync_s, NULL, NULL, NULL},
    {"has_failed", (getter)commit_has_failed, NULL, NULL, NULL},
    {0}};
static PyMethodDef methods[] = {
    {"acquire", (PyCFunction)(void *)commit_acquire, METH_VARARGS, NULL},
    {"release", (PyCFunction)(void *)commit_release, METH_NOARGS, NULL},
    {"locked", (PyCFunction)(void *)commit_locked, METH_NOARGS, NULL},
    {"begin", (PyCFunction)(void *)commit_begin, METH_NOARGS, NULL},
    {"end", (PyCFunction)(void *)commit_end, METH_NOARGS, NULL},
    {"follow", (PyCFunction)(void *)commit_follow, METH_VARARGS, NULL},
    {"renew", (PyCFunction)(void *)commit_renew, METH_NOARGS, NULL},
    {"close", (PyCFunction)(void *)commit_close, METH_NOARGS, NULL},
    {"arm", (PyCFunction)(void *)commit_arm, METH_VARARGS, NULL},
    {"disarm", (PyCFunction)(void *)commit_disarm, METH_NOARGS, NULL},
    {"sync", (PyCFunction)(void *)commit_sync, METH_NOARGS, NULL},
    {"wait", (PyCFunction)(void *)commit_wait_turn, METH_VARARGS, NULL},
    {0}};
static PyType_Slot slots[] = {{Py_tp_new, commit_new},
                              {Py_tp_dealloc, commit_dealloc},
                              {Py_tp_traverse, commit_traverse},
                              {Py_tp_clear, commit_clear},
                              {Py_tp_getset, attributes},
                              {Py_tp_methods, methods},
                              {0}};
PyType_Spec group_commit_spec = {"strandline._core.core.GroupCommit", sizeof(GroupCommit), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
