/* The system calls of a lane, or the same calls, in the same order, of the `io` and `clock` that it
 * was given. */
#include "lane.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* How long a lane tries to take a lock that another process holds: first without pauses, then with
 * them. And how long a process that has released it on request waits for the other to take it. */
static const double WAIT_S = 0.005, GIVE_WAY_S = 0.00005;
enum { SPINS = 16, PAUSE_US = 20 };
/* How often a lane checks that the lock file is in its place. */
static const double LOOK_S = 0.01;
/* How many zeros are written ahead, at least. */
enum { STEP_MIN_BYTES = 64 * 1024 };

/* Whether a call succeeded; its result is not needed. */
static bool is_done(PyObject *result) {
    Py_XDECREF(result);
    return result != NULL;
}

static bool raise_errno(void) {
    PyErr_SetFromErrno(PyExc_OSError);
    return false;
}

/* May be called without the interpreter's lock; 0 or an errno. */
static int write_all(int fd, const char *data, size_t length, int64_t at) {
    while (length) {
        ssize_t written = pwrite(fd, data, length, at);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return written ? errno : EIO;
        data += written;
        length -= (size_t)written;
        at += written;
    }
    return 0;
}

bool lane_pwrite(Lane *lane, int fd, const char *data, size_t length, int64_t at) {
    if (UNLIKELY(lane->io != Py_None))
        return is_done(PyObject_CallMethod(
            lane->io, "pwrite", "iy#L", fd, data, (Py_ssize_t)length, (long long)at));
    errno = write_all(fd, data, length, at);
    return LIKELY(!errno) || raise_errno();
}

bool lane_pwrite_large(Lane *lane, const char *data, size_t length, int64_t at) {
    if (lane->io != Py_None) return lane_pwrite(lane, lane->segment_fd, data, length, at);
    int failed, fd = lane->segment_fd;
    /* The interpreter's lock is released: `is_busy` keeps other threads out of the lane, and
     * `disarm` waits for it. `files` stays, as only `arm` replaces it. */
    Py_BEGIN_ALLOW_THREADS
    failed = write_all(fd, data, length, at);
    Py_END_ALLOW_THREADS
    errno = failed;
    return LIKELY(!failed) || raise_errno();
}

/* 0 or an errno. */
static int write_zeros(int fd, int64_t from, int64_t length) {
    static const char zeros[64 * 1024];
    int failed = posix_fallocate(fd, from, length);
    for (int64_t to = from + length; !failed && from < to; from += (int64_t)sizeof zeros) {
        int64_t left = to - from, most = (int64_t)sizeof zeros;
        failed = write_all(fd, zeros, (size_t)(left < most ? left : most), from);
    }
    return failed;
}

/* See `step_bytes` in reserved_space.py. */
static int64_t step_bytes(const Lane *lane, int64_t end) {
    int64_t step = end / 2 > STEP_MIN_BYTES ? end / 2 : STEP_MIN_BYTES;
    return step < lane->ahead_bytes ? step : lane->ahead_bytes;
}

bool lane_reserve(Lane *lane, int64_t end) {
#ifdef __linux__
    if (lane->io != Py_None) return false;
    int fd = lane->segment_fd, failed;
    int64_t length = step_bytes(lane, end);
    /* The interpreter's lock is released, as in `lane_pwrite_large`. */
    Py_BEGIN_ALLOW_THREADS
    failed = write_zeros(fd, end, length);
    Py_END_ALLOW_THREADS
    if (!failed) lane->reserved = end + length;
    return !failed;
#else
    (void)lane, (void)end;
    return false;
#endif
}

bool lane_pread(Lane *lane, int fd, char *data, size_t length, int64_t at) {
    /* 0xff for the part that the file lacks: an invalid slot, which is not a missing fence. */
    memset(data, 0xff, length);
    if (UNLIKELY(lane->io != Py_None)) {
        PyObject *bytes = PyObject_CallMethod(
            lane->io, "pread", "inL", fd, (Py_ssize_t)length, (long long)at);
        const char *content = bytes ? PyBytes_AsString(bytes) : NULL;
        if (content) {
            size_t got = (size_t)PyBytes_Size(bytes);
            memcpy(data, content, got < length ? got : length);
        }
        Py_XDECREF(bytes);
        return content != NULL;
    }
    return pread(fd, data, length, at) >= 0 || raise_errno();
}

bool lane_try_lock(Lane *lane, bool *is_locked) {
    if (UNLIKELY(lane->io != Py_None)) {
        PyObject *answer = PyObject_CallMethod(lane->io, "try_lock", "i", lane->lock_fd);
        int is_true = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        *is_locked = is_true > 0;
        return is_true >= 0;
    }
    *is_locked = flock(lane->lock_fd, LOCK_EX | LOCK_NB) == 0;
    return *is_locked || errno == EWOULDBLOCK || raise_errno();
}

/* Keeps the exception that is set, if one is. What cannot be unlocked is closed, and an
 * OSError of it is dropped, as in PartitionLock.release. */
void lane_unlock(Lane *lane) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    bool is_unlocked = lane->io == Py_None
        ? flock(lane->lock_fd, LOCK_UN) == 0
        : is_done(PyObject_CallMethod(lane->io, "unlock", "i", lane->lock_fd));
    if (!is_unlocked) {
        PyObject *own[3] = {0};
        if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_OSError))
            PyErr_Fetch(&own[0], &own[1], &own[2]);
        PyErr_Clear();
        lane->is_armed = false;
        if (!is_done(PyObject_CallFunctionObjArgs(lane->close_lock, NULL))) PyErr_Clear();
        if (own[0] && !type) {
            type = own[0];
            value = own[1];
            traceback = own[2];
        } else {
            for (int each = 0; each < 3; each++) Py_XDECREF(own[each]);
        }
    }
    if (type) PyErr_Restore(type, value, traceback);
}

/* Whether this process released the lock on request, and the other one has not taken it yet. */
static bool gives_way(const Lane *lane, double waited_s) {
    return lane->has_yielded && waited_s < GIVE_WAY_S && lane_is_wanted(lane);
}

bool lane_wait_for_lock(Lane *lane) {
    if (!lane->map) return false;
    bool is_locked = false;
    int fd = lane->lock_fd;
    double begun = lane->now;
    lease_end_of_file(lane->lock_device, lane->lock_inode);
    /* The interpreter's lock is released: `is_busy` keeps other threads out of the lane, and
     * `disarm` and `close` wait for it. `files` stays, as only `arm` replaces it. */
    Py_BEGIN_ALLOW_THREADS
    for (int tries = 0; !is_locked && lane->now - begun < WAIT_S; tries++) {
        bool is_giving_way = gives_way(lane, lane->now - begun);
        if (tries < SPINS || is_giving_way) sched_yield();
        else usleep(PAUSE_US);
        if (!is_giving_way) {
            is_locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
            /* Again each time: a process that takes the lock clears it. */
            if (!is_locked) __atomic_store_n(lane_wanted(lane), 1, __ATOMIC_SEQ_CST);
        }
        lane->now = monotonic_s();
    }
    Py_END_ALLOW_THREADS
    return is_locked;
}

bool lane_lock_in_place(Lane *lane, bool *is_in_place) {
    /* A process that replaces the lock file fences the tail, which every append checks. */
    *is_in_place = true;
    if (lane->map && lane->now < lane->look_at) return true;
    if (UNLIKELY(lane->io != Py_None)) {
        PyObject *identity = PyObject_CallMethod(lane->io, "identity", "s", lane->lock_path);
        unsigned long long device = 0, inode = 0;
        bool is_known = identity && PyArg_ParseTuple(identity, "KK", &device, &inode);
        Py_XDECREF(identity);
        *is_in_place = is_known && device == lane->lock_device && inode == lane->lock_inode;
        if (is_known || !PyErr_ExceptionMatches(PyExc_OSError)) return is_known;
        PyErr_Clear(); /* It is missing: left to Python. */
        return true;
    }
    struct stat found;
    *is_in_place = lstat(lane->lock_path, &found) == 0
        && (uint64_t)found.st_dev == lane->lock_device && (uint64_t)found.st_ino == lane->lock_inode;
    if (*is_in_place) lane->look_at = lane->now + LOOK_S;
    return true;
}

double monotonic_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

bool lane_now(Lane *lane, int64_t *now_us) {
    if (UNLIKELY(lane->clock != Py_None)) {
        PyObject *us = PyObject_CallMethod(lane->clock, "now_us", NULL);
        *now_us = us ? PyLong_AsLongLong(us) : 0;
        Py_XDECREF(us);
        return !PyErr_Occurred();
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *now_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    return true;
}

bool clock_monotonic(PyObject *clock, double *now) {
    if (UNLIKELY(clock != Py_None)) {
        PyObject *value = PyObject_CallMethod(clock, "monotonic", NULL);
        *now = value ? PyFloat_AsDouble(value) : 0;
        Py_XDECREF(value);
        return !PyErr_Occurred();
    }
    *now = monotonic_s();
    return true;
}
