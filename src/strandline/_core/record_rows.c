/* The rows of a database that drafts of events become, each with its checksum.
 *
 * What SqliteDelta does with `_content` and `record_crc`, for all drafts of an append at once.
 */
#include "core.h"

/* A draft is a key, a body and a size; a body is kind, payload, headers and time. */
enum { DRAFT_FIELDS = 3, BODY_FIELDS = 4, ROW_FIELDS = 10, TOPIC_ID_BYTES = 16, CRC_HEAD = 76 };

/* What the rows of one append have in common. */
typedef struct {
    const char *topic_id;
    PyObject *tenant, *now;
    int64_t place, offset, now_us;
    uint32_t partition;
} Common;

typedef struct {
    const char *content;
    Py_ssize_t length; /* -1 if there is none. */
} Part;

/* The bytes of a text, or of None; false where Python has to look at it. */
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

/* Return the row of a draft; NULL, without an exception, where Python has to make it. */
static PyObject *row_of(const Common *common, PyObject *draft) {
    PyObject *key = PyTuple_GetItem(draft, 0), *body = PyTuple_GetItem(draft, 1);
    PyObject *size = PyTuple_GetItem(draft, 2);
    if (PyTuple_Size(body) != BODY_FIELDS) return PyErr_Clear(), NULL;
    PyObject *kind = PyTuple_GetItem(body, 0), *value = PyTuple_GetItem(body, 1);
    PyObject *headers = PyTuple_GetItem(body, 2), *time = PyTuple_GetItem(body, 3);
    int64_t occurred_at_us = 0, size_bytes;
    bool has_time = time != Py_None;
    Part parts[5]; /* Key, tenant, kind, headers, value. */
    if (!take_text(key, &parts[0]) || !take_text(common->tenant, &parts[1])
        || !take_text(kind, &parts[2]) || !take_bytes(headers, &parts[3])
        || !take_bytes(value, &parts[4]) || !take_number(size, &size_bytes)
        || (has_time && !take_number(time, &occurred_at_us)))
        return NULL;
    if (parts[3].length == 2 && !memcmp(parts[3].content, "{}", 2)) {
        headers = Py_None;
        parts[3].length = -1;
    }
    uint32_t crc = checksum(common, parts, occurred_at_us, has_time, size_bytes);
    PyObject *row = PyTuple_New(ROW_FIELDS);
    PyObject *fields[ROW_FIELDS] = {PyLong_FromLongLong(common->place), common->now, key,
                                    common->tenant, kind, value, headers, time, size,
                                    PyLong_FromUnsignedLong(crc)};
    if (!row || !fields[0] || !fields[ROW_FIELDS - 1]) {
        Py_XDECREF(row);
        Py_XDECREF(fields[0]);
        Py_XDECREF(fields[ROW_FIELDS - 1]);
        return NULL;
    }
    for (int field = 1; field < ROW_FIELDS - 1; field++) Py_INCREF(fields[field]);
    for (int field = 0; field < ROW_FIELDS; field++) PyTuple_SetItem(row, field, fields[field]);
    return row;
}

static bool is_draft(PyObject *draft) {
    bool is_one = PyTuple_Size(draft) == DRAFT_FIELDS;
    PyErr_Clear();
    return is_one;
}

/* `record_rows(drafts, tenant, topic_id, partition, place, offset, now_us)`; see core.pyi. */
PyObject *record_rows(PyObject *module, PyObject *args) {
    (void)module;
    Common common;
    PyObject *drafts;
    Py_ssize_t id_length;
    long long place, offset;
    if (!PyArg_ParseTuple(args, "OOy#ILLO:record_rows", &drafts, &common.tenant, &common.topic_id,
                          &id_length, &common.partition, &place, &offset, &common.now))
        return NULL;
    if (Py_TYPE(drafts) != &PyList_Type || id_length != TOPIC_ID_BYTES
        || !take_number(common.now, &common.now_us))
        Py_RETURN_NOTIMPLEMENTED;
    Py_ssize_t count = PyList_Size(drafts);
    PyObject *rows = PyList_New(count);
    for (Py_ssize_t index = 0; rows && index < count; index++) {
        PyObject *draft = PyList_GetItem(drafts, index);
        common.place = place + index;
        common.offset = offset + index;
        PyObject *row = is_draft(draft) ? row_of(&common, draft) : NULL;
        if (row) PyList_SetItem(rows, index, row);
        else Py_CLEAR(rows);
    }
    if (rows || PyErr_Occurred()) return rows;
    Py_RETURN_NOTIMPLEMENTED;
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
