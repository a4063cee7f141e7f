/* One sync of a partition: what Syncing does if only frames were written since the last one. The
 * same calls in the same order; everything else is left to Python. */
#include "group_commit.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The positions of fields in the end, and in the durable mark. */
enum {
    SEGMENT_AT = 28,
    MARK_FAILED_AT = 6,
    MARK_SEGMENT_AT = 8,
    MARK_POSITION_AT = 12,
    MARK_NEXT_AT = 20,
    MARK_CRC_AT = 28,
    MARK_LAST_US_AT = 32,
    MARK_SIZE_AT = 40
};

enum { READ_TRIES = 50 };

static const Synced left = {LEFT, false, 0, 0}, raised = {FAILED, false, 0, 0};

/* --- calls of the system, or of `io` with the interpreter's lock --- */

static bool is_done(PyObject *result) {
    Py_XDECREF(result);
    return result != NULL;
}

/* DONE if the tail file was not replaced; LEFT if it was, or if that is unknown. */
static Step look_at_path(const SyncPlace *place) {
    if (UNLIKELY(place->io != Py_None)) {
        unsigned long long device = 0, inode = 0;
        PyObject *identity = PyObject_CallMethod(place->io, "identity", "s", place->tail_path);
        bool is_known = identity && PyArg_ParseTuple(identity, "KK", &device, &inode);
        Py_XDECREF(identity);
        if (!is_known && PyErr_ExceptionMatches(PyExc_OSError)) PyErr_Clear();
        if (PyErr_Occurred()) return FAILED;
        return is_known && device == place->tail_device && inode == place->tail_inode ? DONE : LEFT;
    }
    struct stat found;
    bool is_there = lstat(place->tail_path, &found) == 0
        && (uint64_t)found.st_dev == place->tail_device
        && (uint64_t)found.st_ino == place->tail_inode;
    return is_there ? DONE : LEFT;
}

static Step read_tail(const SyncPlace *place, char *tail) {
    /* 0xff for the part that the file lacks: an invalid slot, which is not a missing fence. */
    memset(tail, 0xff, TAIL_BYTES);
    if (UNLIKELY(place->io != Py_None)) {
        PyObject *bytes = PyObject_CallMethod(place->io, "pread", "iii", place->tail_fd, TAIL_BYTES, 0);
        const char *content = bytes ? PyBytes_AsString(bytes) : NULL;
        if (content) {
            size_t got = (size_t)PyBytes_Size(bytes);
            memcpy(tail, content, got < TAIL_BYTES ? got : TAIL_BYTES);
        }
        Py_XDECREF(bytes);
        return content ? DONE : FAILED;
    }
    return pread(place->tail_fd, tail, TAIL_BYTES, 0) >= 0 ? DONE : LEFT;
}

/* 0, or the errno of a failed sync. */
static int sync_segment(const SyncPlace *place) {
    int failed;
#ifdef __APPLE__
    failed = fcntl(place->segment_fd, F_FULLFSYNC);
#else
    do failed = fdatasync(place->segment_fd);
    while (failed && errno == EINTR);
#endif
    return failed ? errno : 0;
}

static Synced sync_by_io(const SyncPlace *place) {
    Synced synced = {DONE, false, 0, 0};
    if (is_done(PyObject_CallMethod(place->io, "sync", "i", place->segment_fd))) return synced;
    synced.step = FAILED;
    synced.is_sync_lost = PyErr_ExceptionMatches(PyExc_OSError);
    return synced;
}

static Step try_lock(const SyncPlace *place, bool *is_locked) {
    if (UNLIKELY(place->io != Py_None)) {
        PyObject *answer = PyObject_CallMethod(place->io, "try_lock", "i", place->tail_fd);
        int is_true = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        *is_locked = is_true > 0;
        return is_true < 0 ? FAILED : DONE;
    }
    *is_locked = flock(place->tail_fd, LOCK_EX | LOCK_NB) == 0;
    return *is_locked || errno == EWOULDBLOCK ? DONE : LEFT;
}

/* Keeps the exception that is set, if one is. */
static Step unlock(const SyncPlace *place, Step step) {
    if (LIKELY(place->io == Py_None)) return flock(place->tail_fd, LOCK_UN) == 0 ? step : LEFT;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (!is_done(PyObject_CallMethod(place->io, "unlock", "i", place->tail_fd)) && !type) return FAILED;
    if (type) PyErr_Restore(type, value, traceback);
    return step;
}

static Step write_mark(const SyncPlace *place, const char *mark) {
    if (UNLIKELY(place->io != Py_None))
        return is_done(PyObject_CallMethod(place->io, "pwrite", "iy#i", place->tail_fd, mark,
                                           (Py_ssize_t)DURABLE_BYTES, DURABLE_AT))
            ? DONE : FAILED;
    return pwrite(place->tail_fd, mark, DURABLE_BYTES, DURABLE_AT) == DURABLE_BYTES ? DONE : LEFT;
}

/* --- the content of the tail --- */

static bool is_sealed(const SyncPlace *place, const char *slot, size_t length) {
    return !memcmp(slot + 4, "\xf5T", 2)
        && read_u32(slot) == crc32c(place->tail_seed, slot + 4, length - 4);
}

/* Read the tail; read it again if a writer was in the middle of a write. */
static Step read_whole_tail(const SyncPlace *place, char *tail) {
    Step step = read_tail(place, tail);
    for (int tries = 1; tries < READ_TRIES && step == DONE; tries++) {
        if (place->io != Py_None || is_sealed(place, tail, END_BYTES)) break;
        step = read_tail(place, tail);
    }
    return step;
}

/* Whether the epoch and the segment are still the same, and there is no fence. */
static bool is_same(const SyncPlace *place, const char *tail) {
    static const char no_fence[FENCE_BYTES];
    return is_sealed(place, tail, END_BYTES) && !memcmp(tail + SAME_AT, place->same, SAME_BYTES)
        && !memcmp(tail + FENCE_AT, no_fence, FENCE_BYTES);
}

static void make_mark(const SyncPlace *place, const char *end, char *mark) {
    memset(mark, 0, DURABLE_BYTES);
    memcpy(mark + 4, "\xf5T", 2);
    memcpy(mark + MARK_SEGMENT_AT, end + SEGMENT_AT, 4);
    memcpy(mark + MARK_POSITION_AT, end + POSITION_AT, 8);
    memcpy(mark + MARK_NEXT_AT, end + NEXT_AT, 8);
    memcpy(mark + MARK_CRC_AT, end + CRC_AT, 4);
    memcpy(mark + MARK_LAST_US_AT, end + LAST_US_AT, 8);
    memcpy(mark + MARK_SIZE_AT, end + SIZE_AT, 8);
    write_u32(mark, crc32c(place->tail_seed, mark + 4, DURABLE_BYTES - 4));
}

/* Write the durable mark, unless the tail has one that is as far. */
static Step write_durable(const SyncPlace *place, const char *mark, bool is_locked) {
    char tail[TAIL_BYTES];
    Step step = read_whole_tail(place, tail);
    if (step != DONE) return step;
    const char *known = tail + DURABLE_AT;
    bool is_known = is_sealed(place, known, DURABLE_BYTES);
    if ((is_known && (known[MARK_FAILED_AT] || known[MARK_FAILED_AT + 1]))) return LEFT;
    if (is_locked && (!is_known || read_i64(known + MARK_NEXT_AT) < read_i64(mark + MARK_NEXT_AT)))
        step = write_mark(place, mark);
    if (step != DONE) return step;
    /* If it is not, what the sync covered is unknown. */
    return is_same(place, tail) ? DONE : LEFT;
}

Synced sync_round(const SyncPlace *place, int64_t known, bool looks) {
    char tail[TAIL_BYTES], mark[DURABLE_BYTES];
    Synced synced = {DONE, false, 0, 0};
    Step step = looks ? look_at_path(place) : DONE;
    if (step == DONE) step = read_whole_tail(place, tail);
    if (step != DONE) return step == LEFT ? left : raised;
    if (!is_same(place, tail)) return left;
    synced.durable = read_i64(tail + NEXT_AT);
    if (known >= synced.durable) return synced;
    make_mark(place, tail, mark);
    if (UNLIKELY(place->io != Py_None)) {
        Synced by_io = sync_by_io(place);
        if (by_io.step != DONE) return by_io;
    } else if (UNLIKELY((synced.error = sync_segment(place)) != 0)) {
        synced.step = FAILED;
        synced.is_sync_lost = true;
        return synced;
    }
    bool is_locked = false;
    step = try_lock(place, &is_locked);
    if (step == DONE) step = write_durable(place, mark, is_locked);
    if (is_locked) step = unlock(place, step);
    if (step != DONE) return step == LEFT ? left : raised;
    return synced;
}
