/* Reader: the records of one segment, one by one, from verified frames.
 *
 * Stops before a frame of an uncommon kind, or one that does not verify: Python reads that frame,
 * and may create a new reader after it. A frame is checked as a whole before its first record
 * is created, so no record is read twice.
 */
#include "reader.h"
#include <errno.h>
#include <unistd.h>

PyTypeObject *ReaderType;

enum {
    CHUNK_BYTES = 256 * 1024,
    /* A longer read releases the interpreter's lock. */
    SHORT_READ_BYTES = 64 * 1024
};

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    Reader given = {0};
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OOiILLLLLOOLp:Reader", &given.file, &given.io, &given.fd, &given.seed,
                          &given.position, &given.base, &given.end, &given.stop, &given.pause,
                          &given.topic, &given.partition, &given.bytes_left, &given.is_first))
        return NULL;
    Reader *reader = (Reader *)PyType_GenericAlloc(type, 0);
    if (!reader) return NULL;
    given.ob_base = reader->ob_base;
    *reader = given;
    Py_INCREF(reader->file);
    Py_INCREF(reader->io);
    Py_INCREF(reader->topic);
    Py_INCREF(reader->partition);
    reader->error = new_reference(Py_None);
    return (PyObject *)reader;
}

static void reader_dealloc(Reader *reader) {
    Py_DECREF(reader->file);
    Py_DECREF(reader->io);
    Py_DECREF(reader->topic);
    Py_DECREF(reader->partition);
    Py_DECREF(reader->error);
    free(reader->content);
    gathering_free(reader->gathering);
    free_object(reader);
}

/* --- bytes --- */

/* Keep the OSError that was raised, for Python to translate; false if it is another error. */
static bool keep_error(Reader *reader) {
    PyObject *type, *value, *traceback;
    if (!PyErr_ExceptionMatches(PyExc_OSError)) return false;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *before = reader->error;
    reader->error = value;
    Py_DECREF(before);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return true;
}

/* This and the next read `wanted` bytes from `position + skip` to `content + skip`. */
static ssize_t read_by_seam(Reader *reader, size_t skip, size_t wanted) {
    PyObject *bytes = PyObject_CallMethod(reader->io, "pread", "inL", reader->fd, (Py_ssize_t)wanted,
                                          reader->position + (long long)skip);
    if (!bytes) return -1;
    const char *content = PyBytes_AsString(bytes);
    ssize_t got = content ? PyBytes_Size(bytes) : -1;
    if (got > (ssize_t)wanted) got = (ssize_t)wanted;
    if (got > 0) memcpy(reader->content + skip, content, (size_t)got);
    Py_DECREF(bytes);
    return got;
}

/* Releases the interpreter's lock if `wanted` is large. */
static ssize_t read_by_system(Reader *reader, size_t skip, size_t wanted) {
    ssize_t got;
    char *to = reader->content + skip;
    off_t from = (off_t)(reader->position + (long long)skip);
    if (wanted <= SHORT_READ_BYTES) {
        got = pread(reader->fd, to, wanted, from);
    } else {
        /* The lock is released: `is_busy` keeps other threads out of this reader. */
        Py_BEGIN_ALLOW_THREADS
        got = pread(reader->fd, to, wanted, from);
        Py_END_ALLOW_THREADS
    }
    if (got < 0) PyErr_SetFromErrno(PyExc_OSError);
    return got;
}

/* Return `length` bytes from `position` on; NULL if there are fewer, or with an error.
 *
 * Bytes that were read before are kept. A read of a long frame includes the head of the next one,
 * so that the next read can take just that frame. */
static const char *bytes_ahead(Reader *reader, size_t length) {
    int64_t skip = reader->position - reader->content_at;
    size_t kept = skip >= 0 && (uint64_t)skip < reader->length ? reader->length - (size_t)skip : 0;
    if (length <= kept) return reader->content + skip;
    size_t left = (size_t)(reader->end - reader->position);
    size_t wanted = length + FRAME_HEAD > CHUNK_BYTES ? length + FRAME_HEAD : CHUNK_BYTES;
    if (wanted > left) wanted = left;
    if (wanted < length) return NULL;
    if (wanted > reader->room) {
        char *content = realloc(reader->content, wanted);
        if (!content) return NULL;
        reader->content = content;
        reader->room = wanted;
    }
    if (kept) memmove(reader->content, reader->content + skip, kept);
    reader->content_at = reader->position;
    reader->length = kept;
    ssize_t got = reader->io == Py_None ? read_by_system(reader, kept, wanted - kept)
                                        : read_by_seam(reader, kept, wanted - kept);
    if (got < 0) {
        keep_error(reader);
        return NULL;
    }
    reader->length += (size_t)got;
    return reader->length >= length ? reader->content : NULL;
}

/* --- frames --- */

static bool rows_are_plain(Unpacking rows, uint32_t count) {
    for (uint32_t row = 0; row < count; row++)
        if (!event_row_is_plain(&rows)) return false;
    return rows.at == rows.end;
}

static bool open_rows(Reader *reader, const char *body, size_t length, uint32_t count) {
    size_t rows;
    reader->rows = (Unpacking){(const byte *)body, (const byte *)body + length};
    return msgpack_take_array(&reader->rows, &rows) && rows == count
        && rows_are_plain(reader->rows, count);
}

bool reader_look(Reader *reader, VerifiedFrame *found) {
    if (reader->base >= reader->stop || reader->position >= reader->pause
        || reader->end - reader->position < FRAME_HEAD)
        return false;
    const char *frame = bytes_ahead(reader, FRAME_HEAD);
    if (!frame) return false;
    uint32_t body_length = read_u32(frame + 12), count = read_u32(frame + 32);
    bool is_ours = !memcmp(frame + 4, "\xf5S", 2) && frame[7] == 0
        && body_length <= FRAME_BYTES_MAX && count && read_i64(frame + 16) == reader->base
        && reader->end - reader->position - FRAME_HEAD >= (int64_t)body_length;
    if (!is_ours) return false;
    frame = bytes_ahead(reader, FRAME_HEAD + (size_t)body_length);
    if (!frame) return false;
    if (crc32c(reader->seed, frame + 4, FRAME_HEAD - 4 + (size_t)body_length) != read_u32(frame))
        return false;
    *found = (VerifiedFrame){frame + FRAME_HEAD, body_length, count, frame[6], read_i64(frame + 24)};
    return true;
}

void reader_pass(Reader *reader, const VerifiedFrame *frame) {
    reader->position += FRAME_HEAD + (int64_t)frame->length;
    reader->base += frame->count;
}

/* Open the next frame; false at the end, before one that Python has to read, or with an error. */
static bool open_frame(Reader *reader) {
    VerifiedFrame frame;
    if (!reader_look(reader, &frame)) return false;
    if (frame.kind == FRAME_ROWS) {
        if (!open_rows(reader, frame.body, frame.length, frame.count)) return false;
    } else if (frame.kind != FRAME_COLUMNS
               || !columns_open(&reader->columns, frame.body, frame.length, frame.count)) {
        return false;
    }
    reader->kind = frame.kind;
    reader->timestamp_us = frame.timestamp_us;
    reader->offset = reader->base;
    reader_pass(reader, &frame);
    reader->frame_stop = reader->base;
    return true;
}

/* Count the next record; false, also for all later ones, if it exceeds the remaining size. */
static bool has_room(Reader *reader, int64_t size) {
    reader->is_full = size > reader->bytes_left && !reader->is_first;
    if (reader->is_full) return false;
    reader->bytes_left -= size;
    reader->is_first = false;
    return true;
}

static PyObject *next_record(Reader *reader) {
    if (reader->is_full) return NULL;
    while (!reader->kind || reader->offset >= reader->frame_stop) {
        reader->kind = 0;
        if (!open_frame(reader)) return NULL;
    }
    if (reader->offset >= reader->stop) return NULL;
    Event *event = reader->kind == FRAME_ROWS
        ? event_of_row(&reader->rows)
        : columns_event(&reader->columns,
                        (uint32_t)(reader->offset + reader->columns.count - reader->frame_stop));
    if (!event) return NULL;
    if (!has_room(reader, event_size(event))) {
        Py_DECREF(event);
        return NULL;
    }
    return record_of(reader->topic, reader->partition, reader->offset++, reader->timestamp_us, NULL,
                     Py_None, (PyObject *)event);
}

static PyObject *reader_next(Reader *reader) {
    if (UNLIKELY(reader->is_busy)) {
        PyErr_SetString(PyExc_ValueError, "another thread reads from this iterator");
        return NULL;
    }
    reader->is_busy = true;
    PyObject *record = next_record(reader);
    reader->is_busy = false;
    return record;
}

/* --- for a follower --- */

int64_t reader_place(PyObject *object, int64_t *position) {
    const Reader *reader = (const Reader *)object;
    *position = reader->position;
    return reader->base;
}

void reader_fetch(PyObject *object, int64_t end) {
    Reader *reader = (Reader *)object;
    size_t wanted = (size_t)(end - reader->position);
    if (wanted > reader->room) {
        char *content = realloc(reader->content, wanted);
        if (!content) return;
        reader->content = content;
        reader->room = wanted;
    }
    ssize_t got = pread(reader->fd, reader->content, wanted, reader->position);
    reader->content_at = reader->position;
    reader->length = got > 0 ? (size_t)got : 0;
}

PyObject *reader_take(PyObject *object, int64_t end, int64_t stop) {
    Reader *reader = (Reader *)object;
    PyObject *records = PyList_New(0), *record;
    reader->end = reader->pause = end;
    reader->stop = stop;
    reader->bytes_left = INT64_MAX;
    while (records && (record = reader_next(reader))) {
        if (PyList_Append(records, record)) Py_CLEAR(records);
        Py_DECREF(record);
    }
    if (PyErr_Occurred()) Py_CLEAR(records);
    return records;
}

static PyMemberDef members[] = {
    {"position", T_LONGLONG, offsetof(Reader, position), READONLY, NULL},
    {"base", T_LONGLONG, offsetof(Reader, base), READONLY, NULL},
    {"bytes_left", T_LONGLONG, offsetof(Reader, bytes_left), READONLY, NULL},
    {"is_full", T_BOOL, offsetof(Reader, is_full), READONLY, NULL},
    {"error", T_OBJECT_EX, offsetof(Reader, error), READONLY, NULL},
    {0}};

static PyMethodDef methods[] = {{"columns", (PyCFunction)(void *)reader_columns, METH_VARARGS, NULL},
                                {0}};

static PyType_Slot slots[] = {{Py_tp_new, reader_new},
                              {Py_tp_dealloc, reader_dealloc},
                              {Py_tp_members, members},
                              {Py_tp_methods, methods},
                              {Py_tp_iter, PyObject_SelfIter},
                              {Py_tp_iternext, reader_next},
                              {0}};
PyType_Spec reader_spec = {
    "strandline._core.Reader", sizeof(Reader), 0, Py_TPFLAGS_DEFAULT, slots};
