/* Rows: an event as MessagePack, [key, kind, payload, headers, occurred_at_us]. */
#include "core.h"

typedef struct {
    const byte *start, *key, *kind, *payload, *headers;
    size_t key_length, kind_length, payload_length, headers_length;
    int64_t occurred_at_us;
    bool has_occurred_at;
} Row;

/* Read one row; false if we do not write such rows. Key and headers may be missing. */
static bool take_row(Unpacking *in, Row *row) {
    *row = (Row){.start = in->at, .headers_length = 2};
    size_t count;
    if (!msgpack_take_array(in, &count) || count != 5 || in->at - row->start != 1) return false;
    if (!msgpack_take_nil(in) && !msgpack_take_text(in, &row->key, &row->key_length)) return false;
    if (!msgpack_take_text(in, &row->kind, &row->kind_length)) return false;
    if (!msgpack_take_bytes(in, &row->payload, &row->payload_length)) return false;
    if (!msgpack_take_nil(in) && !msgpack_take_bytes(in, &row->headers, &row->headers_length))
        return false;
    if (msgpack_take_nil(in)) return true;
    row->has_occurred_at = true;
    return msgpack_take_int(in, &row->occurred_at_us);
}

bool event_row_is_plain(Unpacking *in) {
    Row row;
    return take_row(in, &row) && is_plain_kind(row.kind, row.kind_length)
        && (!row.key || is_utf8(row.key, row.key_length));
}

static Run run_of(const Row *row, const byte *content, size_t length) {
    return (Run){content ? (uint32_t)(content - row->start) : 0, (uint32_t)length};
}

Event *event_of_row(Unpacking *in) {
    Row row;
    if (!take_row(in, &row)) {
        PyErr_SetString(PyExc_ValueError, "a row was changed while it was read");
        return NULL;
    }
    size_t length = (size_t)(in->at - row.start);
    Event *event = PyObject_NewVar(Event, EventType, (Py_ssize_t)length);
    if (!event) return NULL;
    memcpy(event->row, row.start, length);
    event->row_length = (uint32_t)length;
    event->kind_text = event->key_text = event->payload_value = event->headers_value = NULL;
    event->has_key = row.key != NULL;
    event->has_headers = row.headers != NULL;
    event->has_occurred_at = row.has_occurred_at;
    event->occurred_at_us = row.occurred_at_us;
    event->key = run_of(&row, row.key, row.key_length);
    event->kind = run_of(&row, row.kind, row.kind_length);
    event->payload = run_of(&row, row.payload, row.payload_length);
    event->headers = run_of(&row, row.headers, row.headers_length);
    return event;
}
