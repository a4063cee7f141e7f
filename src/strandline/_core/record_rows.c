/* The rows of a database for events, or for drafts of them, each with its checksum.
 *
 * Does what SqliteDelta does with `_content` and `record_crc`, for a whole append at once.
 */
#include "core.h"

/* A draft is a key, a body and a size; a body is kind, payload, headers and time. */
enum { DRAFT_FIELDS = 3, BODY_FIELDS = 4, ROW_FIELDS = 10, TOPIC_ID_BYTES = 16, CRC_HEAD = 76 };

/* What the rows of one append have in common. */
typedef struct {
    const char *topic_id;
    PyObject *tenant, *now; /* A tenant of NULL: the row has no such field. */
    int64_t place, offset, now_us;
    uint32_t partition;
} Common;

typedef struct {
    const char *content;
    Py_ssize_t length; /* -1 if there is none. */
} Part;

/* The bytes of a text, or of None; false if Python has to check it. */
static bool take_text(PyObject *text, Part *part) {
    *part = (Part){"", -1};
    if (text == Py_None) return true;
    if (Py_TYPE(text) != &PyUnicode_Type) return false;
    part->content = PyUnicode_AsUTF8AndSize(text, &part->length);
    if (part->content) return true;
    PyErr_Clear();
    return false;
}

static bool take_bytes(PyObject *bytes, Part *part) {
    if (Py_TYPE(bytes) != &PyBytes_Type) return false;
    *part = (Part){PyBytes_AsString(bytes), PyBytes_Size(bytes)};
    return true;
}

static bool take_number(PyObject *number, int64_t *value) {
    int is_large = 0;
    if (Py_TYPE(number) != &PyLong_Type) return false;
    *value = PyLong_AsLongLongAndOverflow(number, &is_large);
    return !is_large;
}

static uint32_t checksum(const Common *common, const Part parts[5], int64_t occurred_at_us,
                         bool has_time, int64_t size_bytes) {
    char head[CRC_HEAD];
    int64_t value_length = parts[4].length;
    memcpy(head, common->topic_id, TOPIC_ID_BYTES);
    write_u32(head + 16, common->partition);
    write_i64(head + 20, common->offset);
    write_i64(head + 28, common->now_us);
    write_i64(head + 36, has_time ? occurred_at_us : -1);
    for (int part = 0; part < 4; part++)
        write_u32(head + 44 + 4 * part, (uint32_t)parts[part].length);
    write_i64(head + 60, has_time ? ~value_length : value_length);
    write_i64(head + 68, size_bytes);
    uint32_t crc = crc32c(0, head, CRC_HEAD);
    for (int part = 0; part < 5; part++)
        if (parts[part].length > 0) crc = crc32c(crc, parts[part].content, (size_t)parts[part].length);
    return crc;
}

/* The fields of one row that are not common. The objects are new references, or NULL. */
typedef struct {
    PyObject *key, *kind, *time, *size;
    PyObject *value, *headers; /* Of a draft, whose parts are in them. */
    Part parts[5]; /* Key, tenant, kind, headers, value. */
    int64_t occurred_at_us, size_bytes;
} Content;

/* Read a draft; false, without an exception, if Python has to. */
static bool take_draft(PyObject *draft, Content *content) {
    PyObject *body = PyTuple_Size(draft) == DRAFT_FIELDS ? PyTuple_GetItem(draft, 1) : NULL;
    if (!body || PyTuple_Size(body) != BODY_FIELDS) return PyErr_Clear(), false;
    content->key = new_reference(PyTuple_GetItem(draft, 0));
    content->kind = new_reference(PyTuple_GetItem(body, 0));
    content->value = new_reference(PyTuple_GetItem(body, 1));
    content->headers = new_reference(PyTuple_GetItem(body, 2));
    content->time = new_reference(PyTuple_GetItem(body, 3));
    content->size = new_reference(PyTuple_GetItem(draft, 2));
    return take_text(content->key, &content->parts[0]) && take_text(content->kind, &content->parts[2])
        && take_bytes(content->headers, &content->parts[3])
        && take_bytes(content->value, &content->parts[4])
        && take_number(content->size, &content->size_bytes)
        && (content->time == Py_None || take_number(content->time, &content->occurred_at_us));
}

static Part part_of(const Event *event, Run run) {
    return (Part){event->row + run.at, (Py_ssize_t)run.length};
}

/* Read an event; false with an exception if there is no memory. */
static bool take_event(Event *event, Content *content) {
    content->parts[0] = event->has_key ? part_of(event, event->key) : (Part){"", -1};
    content->parts[2] = part_of(event, event->kind);
    content->parts[3] = (Part){event_headers(event), (Py_ssize_t)event->headers.length};
    content->parts[4] = part_of(event, event->payload);
    content->occurred_at_us = event->occurred_at_us;
    content->size_bytes = event_size(event);
    content->key = event_key(event, NULL);
    content->kind = event_kind(event, NULL);
    content->time = event->has_occurred_at ? PyLong_FromLongLong(event->occurred_at_us)
                                           : new_reference(Py_None);
    content->size = PyLong_FromLongLong(content->size_bytes);
    return content->key && content->kind && content->time && content->size;
}

static void release(Content *content) {
    Py_XDECREF(content->key);
    Py_XDECREF(content->kind);
    Py_XDECREF(content->value);
    Py_XDECREF(content->headers);
    Py_XDECREF(content->time);
    Py_XDECREF(content->size);
}

/* A part as a bytearray, which `sqlite3` binds directly. For bytes it first looks for an adapter,
 * which takes longer than copying a few hundred bytes. */
static PyObject *blob_of(const Part *part) {
    if (part->length < 0) return new_reference(Py_None);
    return PyByteArray_FromStringAndSize(part->content, part->length);
}

/* Return the row; NULL with an exception where there is no memory. */
static PyObject *row_of(const Common *common, Content *content) {
    bool has_time = content->time != Py_None;
    Part *headers = &content->parts[3];
    if (headers->length == 2 && !memcmp(headers->content, "{}", 2)) headers->length = -1;
    uint32_t crc = checksum(common, content->parts, content->occurred_at_us, has_time,
                            content->size_bytes);
    PyObject *fields[ROW_FIELDS];
    int count = 0;
    fields[count++] = PyLong_FromLongLong(common->place);
    fields[count++] = new_reference(common->now);
    fields[count++] = new_reference(content->key);
    if (common->tenant) fields[count++] = new_reference(common->tenant);
    fields[count++] = new_reference(content->kind);
    fields[count++] = blob_of(&content->parts[4]);
    fields[count++] = blob_of(headers);
    fields[count++] = new_reference(content->time);
    fields[count++] = new_reference(content->size);
    fields[count++] = PyLong_FromUnsignedLong(crc);
    PyObject *row = PyTuple_New(count);
    for (int field = 0; field < count; field++) {
        if (row && !fields[field]) Py_CLEAR(row);
        if (row) PyTuple_SetItem(row, field, fields[field]);
        else Py_XDECREF(fields[field]);
    }
    return row;
}

/* Return the row of an event or a draft; NULL without an exception if Python has to make it. */
static PyObject *row_for(const Common *common, PyObject *value) {
    Content content = {0};
    bool is_event = Py_TYPE(value) == EventType;
    bool is_taken = (is_event ? take_event((Event *)value, &content) : take_draft(value, &content))
        && take_text(common->tenant ? common->tenant : Py_None, &content.parts[1]);
    PyObject *row = is_taken ? row_of(common, &content) : NULL;
    release(&content);
    return row;
}

/* `record_rows(values, tenant, topic_id, partition, place, offset, now_us)`; see core.pyi. */
PyObject *record_rows(PyObject *module, PyObject *args) {
    (void)module;
    Common common;
    PyObject *values;
    Py_ssize_t id_length;
    long long place, offset;
    if (!PyArg_ParseTuple(args, "OOy#ILLO:record_rows", &values, &common.tenant, &common.topic_id,
                          &id_length, &common.partition, &place, &offset, &common.now))
        return NULL;
    if (Py_TYPE(values) != &PyList_Type || id_length != TOPIC_ID_BYTES
        || !take_number(common.now, &common.now_us))
        Py_RETURN_NOTIMPLEMENTED;
    Py_ssize_t count = PyList_Size(values);
    PyObject *rows = PyList_New(count);
    for (Py_ssize_t index = 0; rows && index < count; index++) {
        PyObject *value = PyList_GetItem(values, index);
        common.place = place + index;
        common.offset = offset + index;
        PyObject *row = row_for(&common, value);
        if (row) PyList_SetItem(rows, index, row);
        else Py_CLEAR(rows);
    }
    if (rows || PyErr_Occurred()) return rows;
    Py_RETURN_NOTIMPLEMENTED;
}

/* `record_row(event, topic_id, partition, place, offset, now_us)`; see core.pyi. */
PyObject *record_row(PyObject *module, PyObject *args) {
    (void)module;
    Common common = {0};
    PyObject *event;
    Py_ssize_t id_length;
    long long place, offset;
    if (!PyArg_ParseTuple(args, "O!y#ILLO:record_row", EventType, &event, &common.topic_id,
                          &id_length, &common.partition, &place, &offset, &common.now))
        return NULL;
    if (id_length != TOPIC_ID_BYTES || !take_number(common.now, &common.now_us)) {
        PyErr_SetString(PyExc_ValueError, "expected a topic id of 16 bytes, and a time of 64 bits");
        return NULL;
    }
    common.place = place;
    common.offset = offset;
    return row_for(&common, event);
}

PyObject *sizes_of(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *events;
    long long bytes_max;
    if (!PyArg_ParseTuple(args, "O!L:sizes_of", &PyList_Type, &events, &bytes_max)) return NULL;
    Py_ssize_t count = PyList_Size(events);
    PyObject *sizes = PyList_New(count);
    for (Py_ssize_t index = 0; sizes && index < count; index++) {
        Event *event = (Event *)PyList_GetItem(events, index);
        bool is_plain = Py_TYPE(event) == EventType && event_size(event) <= bytes_max;
        PyObject *size = is_plain ? PyLong_FromLongLong(event_size(event)) : NULL;
        if (size) PyList_SetItem(sizes, index, size);
        else Py_CLEAR(sizes);
    }
    if (sizes || PyErr_Occurred()) return sizes;
    Py_RETURN_NOTIMPLEMENTED;
}
