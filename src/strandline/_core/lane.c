/* Lane: appends plain events to one partition in place of Python.
 *
 * Either a lane has the head of the partition (it is armed), or PartitionWriter does. `arm`
 * hands it over when Python leaves the partition, `disarm` takes it back when Python enters;
 * both are called with the partition's mutex held. As long as the interpreter's lock is not
 * released, an append is one step to all other threads. It is released in two places only,
 * `lane_pwrite_large` and `lane_wait_for_lock`.
 *
 * An append does nothing and returns NotImplemented where Python has to append: if the lane is
 * not armed, the partition has to be checked, another process has the lock, the segment is full,
 * space has to be reserved, or the record is too large.
 */
#include "lane.h"
#include <unistd.h>

PyTypeObject *LaneType;

enum {
    /* A longer write releases the interpreter's lock. */
    SHORT_WRITE_BYTES = 64 * 1024,
    /* A longer frame is not kept for readers. */
    KEPT_BYTES_MAX = 8 * 1024,
    /* After so many bytes the system is requested to begin writing them to disk. */
    WRITEBACK_BYTES = 4 << 20,
    /* For frames of this size no zeros are written ahead. */
    LARGE_BYTES = 128 * 1024
};
static PyObject *lane_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *io, *clock, *fenced, *close_lock;
    long long segment_bytes, ahead_bytes;
    int is_exclusive, may_map;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OOOOLLpp:Lane", &io, &clock, &fenced, &close_lock,
                          &segment_bytes, &ahead_bytes, &is_exclusive, &may_map))
        return NULL;
    Lane *lane = (Lane *)PyType_GenericAlloc(type, 0);
    if (!lane) return NULL;
    lane->io = new_reference(io);
    lane->clock = new_reference(clock);
    lane->fenced = new_reference(fenced);
    lane->close_lock = new_reference(close_lock);
    lane->files = new_reference(Py_None);
    lane->segment_bytes = segment_bytes;
    lane->ahead_bytes = ahead_bytes;
    lane->is_exclusive = is_exclusive;
    lane->may_map = may_map;
    lane->pid = (uint32_t)getpid();
    snprintf(lane->holder, sizeof lane->holder, "%-20u\n", lane->pid);
    return (PyObject *)lane;
}

static int lane_traverse(Lane *lane, visitproc visit, void *arg) {
    Py_VISIT(lane->io);
    Py_VISIT(lane->clock);
    Py_VISIT(lane->fenced);
    Py_VISIT(lane->close_lock);
    Py_VISIT(lane->files);
    Py_VISIT((PyObject *)lane->watch);
    Py_VISIT(Py_TYPE(lane));
    return 0;
}

static int lane_clear(Lane *lane) {
    lane->is_armed = false;
    lane_end_lease(lane);
    Py_CLEAR(lane->io);
    Py_CLEAR(lane->clock);
    Py_CLEAR(lane->fenced);
    Py_CLEAR(lane->close_lock);
    Py_CLEAR(lane->files);
    Py_CLEAR(lane->watch);
    return 0;
}

static void lane_dealloc(Lane *lane) {
    PyTypeObject *type = Py_TYPE(lane);
    PyObject_GC_UnTrack(lane);
    lane_clear(lane);
    tail_map_close(lane->map);
    free(lane->lock_path);
    free(lane->frame.bytes);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(lane);
    Py_DECREF(type);
}

/* --- handing over the head --- */

/* See core.pyi for what is given. */
static PyObject *lane_arm(Lane *lane, PyObject *args) {
    PyObject *files;
    const char *path, *end, *durable_slot;
    Py_ssize_t end_length, durable_length;
    unsigned long long device, inode;
    Lane to = {0};
    long long next, position, last_us, size_bytes, durable, reserved;
    if (!PyArg_ParseTuple(
            args, "OiiiisKKIILLLLILLdy#y#:arm", &files, &to.segment_fd, &to.tail_fd, &to.lock_fd,
            &to.holder_fd, &path, &device, &inode, &to.frame_seed, &to.tail_seed, &next, &position,
            &last_us, &size_bytes, &to.head.crc, &durable, &reserved, &to.check_at, &end,
            &end_length, &durable_slot, &durable_length))
        return NULL;
    bool may_arm = !lane->is_closed && !lane->is_owed && !lane->is_broken && !lane->is_busy
        && end_length == END_BYTES && durable_length >= DURABLE_BYTES && durable <= next;
    char *own_path = may_arm ? strdup(path) : NULL;
    if (!own_path) Py_RETURN_FALSE;
    free(lane->lock_path);
    lane->lock_path = own_path;
    PyObject *before = lane->files;
    lane->files = new_reference(files);
    lane->segment_fd = to.segment_fd;
    lane->tail_fd = to.tail_fd;
    if (files != before) lane_map_tail(lane);
    lane_keep_map(lane);
    Py_DECREF(before);
    lane->lock_fd = to.lock_fd;
    lane->holder_fd = to.holder_fd;
    lane->lock_device = device;
    lane->lock_inode = inode;
    lane->frame_seed = to.frame_seed;
    lane->tail_seed = to.tail_seed;
    lane->head = (Head){next, position, last_us, size_bytes, to.head.crc};
    lane->durable = durable;
    lane->reserved = reserved;
    lane->check_at = to.check_at;
    memcpy(lane->end, end, END_BYTES);
    memcpy(lane->durable_slot, durable_slot, DURABLE_BYTES);
    lane->look_at = 0;
    lane->others_wrote = lane->is_held = false;
    lane->is_armed = lane->is_owed = true;
    Py_RETURN_TRUE;
}

static void wait_while_busy(Lane *lane) {
    while (lane->is_busy) {
        /* The interpreter's lock is released for the thread that writes. */
        Py_BEGIN_ALLOW_THREADS
        usleep(10);
        Py_END_ALLOW_THREADS
    }
}

static PyObject *lane_disarm(Lane *lane, PyObject *unused) {
    (void)unused;
    lane->is_armed = false;
    wait_while_busy(lane);
    lane_end_lease(lane);
    if (!lane->is_owed) Py_RETURN_NONE;
    const Head *head = &lane->head;
    return Py_BuildValue("(LLLLILLy#y#O)", (long long)head->next, (long long)head->position,
                         (long long)head->last_us, (long long)head->size_bytes, head->crc,
                         (long long)lane->durable, (long long)lane->reserved, lane->end,
                         (Py_ssize_t)END_BYTES, lane->durable_slot, (Py_ssize_t)DURABLE_BYTES,
                         lane->others_wrote ? Py_True : Py_False);
}

static PyObject *lane_settle(Lane *lane, PyObject *unused) {
    (void)unused;
    lane->is_owed = lane->is_armed = lane->is_broken = false;
    Py_RETURN_NONE;
}

static PyObject *lane_announce_to(Lane *lane, PyObject *watch) {
    if (Py_TYPE(watch) != TailWatchType) {
        PyErr_SetString(PyExc_TypeError, "give a TailWatch");
        return NULL;
    }
    Py_CLEAR(lane->watch);
    lane->watch = (TailWatch *)new_reference(watch);
    Py_RETURN_NONE;
}

static PyObject *lane_hold(Lane *lane, PyObject *unused) {
    (void)unused;
    lane->is_held = true;
    Py_RETURN_NONE;
}

static PyObject *lane_close(Lane *lane, PyObject *unused) {
    (void)unused;
    lane->is_closed = true;
    lane->is_armed = false;
    /* The files are closed next. Through a seam, the caller may be within an append. */
    if (lane->io == Py_None) {
        wait_while_busy(lane);
        lane_end_lease(lane);
        tail_map_close(lane->map);
        lane->map = NULL;
    }
    Py_RETURN_NONE;
}

/* --- one append --- */

/* Whether a frame of this size can be appended without Python. */
static bool has_room(Lane *lane, size_t size) {
    if (lane->head.position >= lane->segment_bytes || lane->head.next < lane->durable) return false;
    int64_t end = lane->head.position + (int64_t)size;
    if (end <= lane->reserved) return true;
    if (size < LARGE_BYTES) return lane_reserve(lane, end);
    lane->reserved = end;
    return true;
}

static void write_frame_head(Lane *lane, int kind, size_t body_length, uint32_t count, int64_t now) {
    char *frame = lane->frame.bytes;
    int64_t lag = lane->head.next - lane->durable;
    memcpy(frame + 4, "\xf5S", 2);
    frame[6] = (char)kind;
    frame[7] = 0;
    write_u32(frame + 8, lane->head.crc);
    write_u32(frame + 12, (uint32_t)body_length);
    write_i64(frame + 16, lane->head.next);
    write_i64(frame + 24, now);
    write_u32(frame + 32, count);
    write_u32(frame + 36, lag > UINT32_MAX ? UINT32_MAX : (uint32_t)lag);
    write_u32(frame, crc32c(lane->frame_seed, frame + 4, FRAME_HEAD - 4 + body_length));
}

/* Write the prepared frame, and publish the new end of the partition. A failure leaves the files
 * in an unknown state: the lane is broken, as Python's flush would be. */
static bool write_frame(Lane *lane, size_t size, uint32_t count, int64_t now, int64_t size_bytes) {
    const char *frame = lane->frame.bytes;
    lane->is_broken = true; /* Until it is done. */
    bool is_written = size > SHORT_WRITE_BYTES
        ? lane_pwrite_large(lane, frame, size, lane->head.position)
        : lane_pwrite(lane, lane->segment_fd, frame, size, lane->head.position);
    if (is_written) {
        lane->head.crc = read_u32(frame);
        lane->head.next += count;
        lane->head.position += (int64_t)size;
        lane->head.last_us = now;
        lane->head.size_bytes += size_bytes;
        is_written = lane_publish_end(lane);
    }
    if (is_written) {
        lane->is_broken = false;
        lane->appends++;
        lane->frame_at = lane->head.position - (int64_t)size;
        lane->frame.length = size;
        int64_t end = lane->head.position;
        int64_t begun = lane->frame_at / WRITEBACK_BYTES * WRITEBACK_BYTES;
        if (UNLIKELY(end - begun >= WRITEBACK_BYTES && lane->io == Py_None))
            begin_writeback(lane->segment_fd, begun, end - begun);
    } else {
        lane->is_armed = false;
    }
    return is_written;
}

Step lane_append_body(Lane *lane, int kind, size_t body_length, uint32_t count, int64_t size_bytes,
                      Placed *placed) {
    int64_t now;
    Step step = lane_enter(lane);
    if (step != DONE) return step;
    placed->offset = lane->head.next;
    bool is_known = lane_now(lane, &now);
    bool is_done = is_known && has_room(lane, FRAME_HEAD + body_length);
    if (is_done) {
        if (now < lane->head.last_us) now = lane->head.last_us;
        write_frame_head(lane, kind, body_length, count, now);
        is_known = write_frame(lane, FRAME_HEAD + body_length, count, now, size_bytes);
        placed->timestamp_us = now;
    }
    lane_leave(lane);
    if (!is_known || PyErr_Occurred()) return FAILED;
    return is_done ? DONE : LEFT;
}

char *lane_begin_body(Lane *lane, size_t body_length) {
    buffer_reset(&lane->frame);
    if (!buffer_reserve(&lane->frame, FRAME_HEAD + body_length)) {
        PyErr_NoMemory();
        return NULL;
    }
    lane->is_busy = true;
    return lane->frame.bytes + FRAME_HEAD;
}

Step lane_append_event(Lane *lane, Event *event, int64_t bytes_max, Placed *placed) {
    if (!lane_is_free(lane) || event_size(event) > bytes_max
        || event->row_length > SHORT_WRITE_BYTES / 2)
        return LEFT;
    size_t body_length = 1 + (size_t)event->row_length;
    char *body = lane_begin_body(lane, body_length);
    if (!body) return FAILED;
    memcpy(msgpack_put_array_head(body, 1), event->row, event->row_length);
    Step step = lane_append_body(lane, FRAME_ROWS, body_length, 1, event_size(event), placed);
    lane->is_busy = false;
    return step;
}

PyObject *lane_answer(Step step, const Placed *placed) {
    if (step == FAILED) return NULL;
    if (step == LEFT) Py_RETURN_NOTIMPLEMENTED;
    return Py_BuildValue("(LL())", (long long)placed->offset, (long long)placed->timestamp_us);
}

static PyObject *lane_append(Lane *lane, PyObject *const *args, Py_ssize_t given) {
    if (given != 2) {
        PyErr_SetString(PyExc_TypeError, "append() takes an event and bytes_max");
        return NULL;
    }
    long long bytes_max = PyLong_AsLongLong(args[1]);
    if (bytes_max < 0 && PyErr_Occurred()) return NULL;
    if (Py_TYPE(args[0]) != EventType) Py_RETURN_NOTIMPLEMENTED;
    Placed placed;
    Step step = lane_append_event(lane, (Event *)args[0], bytes_max, &placed);
    return lane_answer(step, &placed);
}

static PyObject *lane_last_frame(Lane *lane, PyObject *unused) {
    (void)unused;
    const char *frame = lane->frame.bytes;
    size_t size = lane->frame.length;
    if (lane->is_busy || size < FRAME_HEAD || size > KEPT_BYTES_MAX) Py_RETURN_NONE;
    int64_t base = read_i64(frame + 16);
    return Py_BuildValue("(LLLIy#)", (long long)lane->frame_at, (long long)base,
                         (long long)(base + read_u32(frame + 32)), read_u32(frame), frame,
                         (Py_ssize_t)size);
}

static PyObject *lane_is_broken(Lane *lane, void *closure) {
    (void)closure;
    return PyBool_FromLong(lane->is_broken);
}

static PyObject *lane_is_closed(Lane *lane, void *closure) {
    (void)closure;
    return PyBool_FromLong(lane->is_closed);
}

static PyObject *lane_is_mapped(Lane *lane, void *closure) {
    (void)closure;
    return PyBool_FromLong(lane->map != NULL);
}

static PyObject *lane_is_leased(Lane *lane, void *closure) {
    (void)closure;
    return PyBool_FromLong(lane->is_leased && lease_is_kept(&lane->lease));
}

static PyObject *lane_appends(Lane *lane, void *closure) {
    (void)closure;
    return PyLong_FromLongLong(lane->appends);
}

static PyObject *lane_is_armed(Lane *lane, void *closure) {
    (void)closure;
    return PyBool_FromLong(lane_is_free(lane));
}

static PyGetSetDef attributes[] = {{"is_broken", (getter)lane_is_broken, NULL, NULL, NULL},
                                   {"is_armed", (getter)lane_is_armed, NULL, NULL, NULL},
                                   {"is_closed", (getter)lane_is_closed, NULL, NULL, NULL},
                                   {"is_mapped", (getter)lane_is_mapped, NULL, NULL, NULL},
                                   {"is_leased", (getter)lane_is_leased, NULL, NULL, NULL},
                                   {"appends", (getter)lane_appends, NULL, NULL, NULL},
                                   {0}};
static PyMethodDef methods[] = {
    {"arm", (PyCFunction)(void *)lane_arm, METH_VARARGS, NULL},
    {"disarm", (PyCFunction)(void *)lane_disarm, METH_NOARGS, NULL},
    {"settle", (PyCFunction)(void *)lane_settle, METH_NOARGS, NULL},
    {"announce_to", (PyCFunction)(void *)lane_announce_to, METH_O, NULL},
    {"hold", (PyCFunction)(void *)lane_hold, METH_NOARGS, NULL},
    {"close", (PyCFunction)(void *)lane_close, METH_NOARGS, NULL},
    {"append", (PyCFunction)(void *)lane_append, METH_FASTCALL, NULL},
    {"last_frame", (PyCFunction)(void *)lane_last_frame, METH_NOARGS, NULL},
    {"append_many", (PyCFunction)(void *)lane_append_many, METH_VARARGS, NULL},
    {0}};
static PyType_Slot slots[] = {{Py_tp_new, lane_new},
                              {Py_tp_dealloc, lane_dealloc},
                              {Py_tp_traverse, lane_traverse},
                              {Py_tp_clear, lane_clear},
                              {Py_tp_getset, attributes},
                              {Py_tp_methods, methods},
                              {0}};
PyType_Spec lane_spec = {"strandline._core.Lane", sizeof(Lane), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
