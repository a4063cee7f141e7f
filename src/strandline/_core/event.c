/* Events: created from a caller's arguments, and from stored bytes. */
#include "core.h"

PyTypeObject *EventType;

/* The heads of five parts, and a number. */
enum { ROW_HEADS_BYTES = 40 };
/* No stored event is larger than this. */
static const size_t EVENT_BYTES_MAX = UINT32_MAX - 4096;

static Event *event_with_room(size_t row_bytes) {
    Event *event = PyObject_NewVar(Event, EventType, (Py_ssize_t)row_bytes);
    if (event) event->kind_text = event->key_text = event->payload_value = event->headers_value = NULL;
    return event;
}

Event *event_copy(const Event *event) {
    Event *copy = event_with_room(event->row_length);
    if (!copy) return NULL;
    copy->occurred_at_us = event->occurred_at_us;
    copy->key = event->key;
    copy->kind = event->kind;
    copy->payload = event->payload;
    copy->headers = event->headers;
    copy->row_length = event->row_length;
    copy->has_key = event->has_key;
    copy->has_headers = event->has_headers;
    copy->has_occurred_at = event->has_occurred_at;
    memcpy(copy->row, event->row, event->row_length);
    return copy;
}

int64_t events_size(PyObject *events) {
    int64_t size = 0;
    for (Py_ssize_t index = PyList_Size(events); index-- > 0;)
        size += event_size((Event *)PyList_GetItem(events, index));
    return size;
}

static char *put_part(Event *event, char *to, Run *run, const char *content, size_t length) {
    run->at = (uint32_t)(to - event->row);
    run->length = (uint32_t)length;
    memcpy(to, content, length);
    return to + length;
}

static char *put_nil(char *to) {
    *to = (char)0xc0;
    return to + 1;
}

Event *event_of_parts(const EventParts *parts) {
    size_t size = parts->kind_length + parts->key_length + parts->payload_length
        + parts->headers_length;
    if (size > EVENT_BYTES_MAX) {
        PyObject *answer = PyObject_CallFunction(twins.raise_too_large, "n", (Py_ssize_t)size);
        Py_XDECREF(answer);
        return NULL;
    }
    Event *event = event_with_room(size + ROW_HEADS_BYTES);
    if (!event) return NULL;
    char *to = msgpack_put_array_head(event->row, 5);
    event->has_key = parts->has_key;
    event->key = (Run){0, 0};
    if (parts->has_key) {
        to = msgpack_put_text_head(to, parts->key_length);
        to = put_part(event, to, &event->key, parts->key, parts->key_length);
    } else {
        to = put_nil(to);
    }
    to = msgpack_put_text_head(to, parts->kind_length);
    to = put_part(event, to, &event->kind, parts->kind, parts->kind_length);
    to = msgpack_put_bytes_head(to, parts->payload_length);
    to = put_part(event, to, &event->payload, parts->payload, parts->payload_length);
    event->has_headers = parts->headers_length != 2 || memcmp(parts->headers, "{}", 2);
    event->headers = (Run){0, 2};
    if (event->has_headers) {
        to = msgpack_put_bytes_head(to, parts->headers_length);
        to = put_part(event, to, &event->headers, parts->headers, parts->headers_length);
    } else {
        to = put_nil(to);
    }
    event->has_occurred_at = parts->has_occurred_at;
    event->occurred_at_us = parts->occurred_at_us;
    to = parts->has_occurred_at ? msgpack_put_int(to, parts->occurred_at_us) : put_nil(to);
    event->row_length = (uint32_t)(to - event->row);
    return event;
}

/* --- checks --- */

/* Whether all of eight bytes are printable ASCII. */
static inline bool are_printable(uint64_t eight) {
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    uint64_t is_control = (eight - ones * 0x20) & ~eight, is_last_or_above = (eight + ones) | eight;
    return !((is_control | is_last_or_above) & highs);
}

bool is_plain_kind(const byte *text, size_t length) {
    if (length < 1 || length > KIND_BYTES_MAX) return false;
    const byte *end = text + length;
    if (length >= 8) {
        for (; end - text > 8; text += 8)
            if (!are_printable(read_u64(text))) return false;
        return are_printable(read_u64(end - 8));
    }
    for (; text < end; text++)
        if (*text < 0x20 || *text > 0x7e) return false;
    return true;
}

/* --- from what a caller passes --- */

/* Where JSON is written. Nothing calls Python between writing it and copying from it. */
static Buffer scratch;

/* Set `content` to the UTF-8 of a str; false, without an exception, for anything else. */
static bool take_plain_text(PyObject *text, const char **content, size_t *length) {
    if (Py_TYPE(text) != &PyUnicode_Type) return false;
    *content = text_utf8(text, length);
    return *content;
}

static bool take_plain_kind(PyObject *kind, EventParts *parts) {
    return take_plain_text(kind, &parts->kind, &parts->kind_length)
        && is_plain_kind((const byte *)parts->kind, parts->kind_length);
}

static bool take_time(PyObject *occurred_at, EventParts *parts) {
    parts->has_occurred_at = occurred_at != Py_None;
    if (!parts->has_occurred_at) return true;
    PyObject *us = call_one(twins.us_from_datetime, occurred_at);
    if (!us) return false;
    parts->occurred_at_us = PyLong_AsLongLong(us);
    Py_DECREF(us);
    return !PyErr_Occurred();
}

/* Keep the texts of the caller, which then need not be decoded. */
static Event *with_texts(Event *event, PyObject *kind, PyObject *key) {
    if (event) {
        event->kind_text = new_reference(kind);
        if (event->has_key && key) event->key_text = new_reference(key);
    }
    return event;
}

/* Return the event; NULL, possibly without an exception, if Python has to check it. */
static Event *event_if_plain(const Arguments *given) {
    EventParts parts = {.has_key = given->key != Py_None, .headers = "{}", .headers_length = 2};
    /* First, because it calls Python. On an error Python repeats all checks in its own order. */
    if (!take_time(given->occurred_at, &parts)) {
        PyErr_Clear();
        return NULL;
    }
    if (!take_plain_kind(given->kind, &parts)) return NULL;
    if (parts.has_key && !take_plain_text(given->key, &parts.key, &parts.key_length)) return NULL;
    buffer_reset(&scratch);
    if (!json_encode(&scratch, given->payload)) return NULL;
    parts.payload_length = scratch.length;
    if (given->headers) {
        if (!json_encode_headers(&scratch, given->headers)) return NULL;
        parts.headers_length = scratch.length - parts.payload_length;
        parts.headers = scratch.bytes + parts.payload_length;
    }
    parts.payload = scratch.bytes;
    return with_texts(event_of_parts(&parts), given->kind, given->key);
}

static PyObject *event_stored_as(PyObject *const *stored);

/* Do the same by the functions of Python, in the order in which Python calls them. */
static PyObject *event_by_python(const Arguments *given) {
    PyObject *stored[5] = {0}, *event = NULL;
    if (!(stored[0] = call_one(twins.check_kind, given->kind))) goto done;
    if (!(stored[1] = call_one(twins.encode_payload, given->payload))) goto done;
    stored[2] = given->key == Py_None ? new_reference(Py_None) : call_one(twins.check_key, given->key);
    if (!stored[2]) goto done;
    stored[3] = given->headers ? call_one(twins.encode_headers, given->headers)
                               : PyBytes_FromStringAndSize("{}", 2);
    if (!stored[3]) goto done;
    stored[4] = given->occurred_at == Py_None ? new_reference(Py_None)
                                              : call_one(twins.us_from_datetime, given->occurred_at);
    if (stored[4]) event = event_stored_as(stored);
done:
    for (int part = 0; part < 5; part++) Py_XDECREF(stored[part]);
    return event;
}

PyObject *event_of_arguments(const Arguments *given) {
    Event *event = event_if_plain(given);
    return event || PyErr_Occurred() ? (PyObject *)event : event_by_python(given);
}

/* --- from what was stored --- */

static bool set_bytes(PyObject *bytes, const char **content, size_t *length) {
    *content = PyBytes_AsString(bytes);
    if (!*content) return false;
    *length = (size_t)PyBytes_Size(bytes);
    return true;
}

static bool set_stored_time(EventParts *parts, PyObject *us) {
    parts->has_occurred_at = us != Py_None;
    if (!parts->has_occurred_at) return true;
    int is_large;
    parts->occurred_at_us = PyLong_AsLongLongAndOverflow(us, &is_large);
    /* Beyond every datetime: this raises CorruptError. */
    if (is_large) Py_XDECREF(call_one(twins.datetime_from_us, us));
    return !PyErr_Occurred();
}

/* Return a new reference to the result of `check` for a text that is not plain. */
static PyObject *checked_text(PyObject *text, PyObject *check, const char **content, size_t *length) {
    Py_ssize_t size;
    PyObject *checked = call_one(check, text);
    if (!checked) return NULL;
    *content = PyUnicode_AsUTF8AndSize(checked, &size);
    if (!*content) Py_CLEAR(checked);
    else *length = (size_t)size;
    return checked;
}

static PyObject *event_stored_as(PyObject *const *stored) {
    EventParts parts = {.has_key = stored[2] != Py_None};
    Event *event = NULL;
    PyObject *key = NULL, *kind = take_plain_kind(stored[0], &parts)
        ? new_reference(stored[0])
        : checked_text(stored[0], twins.check_kind, &parts.kind, &parts.kind_length);
    if (!kind) return NULL;
    if (parts.has_key) {
        key = take_plain_text(stored[2], &parts.key, &parts.key_length)
            ? new_reference(stored[2])
            : checked_text(stored[2], twins.check_key, &parts.key, &parts.key_length);
        if (!key) goto done;
    }
    if (set_bytes(stored[1], &parts.payload, &parts.payload_length)
        && set_bytes(stored[3], &parts.headers, &parts.headers_length)
        && set_stored_time(&parts, stored[4]))
        event = with_texts(event_of_parts(&parts), kind, key);
done:
    Py_DECREF(kind);
    Py_XDECREF(key);
    return (PyObject *)event;
}

static bool has_five(const char *name, Py_ssize_t count) {
    if (count != 5) PyErr_Format(PyExc_TypeError, "%s() takes 5 arguments", name);
    return count == 5;
}

PyObject *event_load(PyObject *type, PyObject *const *args, Py_ssize_t count) {
    (void)type;
    return has_five("load", count) ? event_stored_as(args) : NULL;
}

PyObject *event_load_many(PyObject *type, PyObject *const *args, Py_ssize_t given) {
    (void)type;
    PyObject *columns[5] = {0}, *events = NULL;
    if (!has_five("load_many", given)) return NULL;
    for (int column = 0; column < 5; column++)
        if (!(columns[column] = PySequence_List(args[column]))) goto done;
    Py_ssize_t count = PyList_Size(columns[0]);
    for (int column = 1; column < 5; column++)
        if (PyList_Size(columns[column]) != count) {
            PyErr_SetString(PyExc_ValueError, "the columns differ in length");
            goto done;
        }
    events = PyList_New(count);
    for (Py_ssize_t row = 0; events && row < count; row++) {
        PyObject *stored[5];
        for (int column = 0; column < 5; column++) stored[column] = PyList_GetItem(columns[column], row);
        PyObject *event = event_stored_as(stored);
        if (!event) Py_CLEAR(events);
        else PyList_SetItem(events, row, event);
    }
done:
    for (int column = 0; column < 5; column++) Py_XDECREF(columns[column]);
    return events;
}
