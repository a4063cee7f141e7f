/* Frames of columns: an Arrow record batch of key, kind, payload, headers and time.
 *
 * The message begins with a FlatBuffer whose bytes are the same for every such batch, except
 * for the length of the body, the count of rows, and the place of each buffer. Python passes one
 * that pyarrow has made, and the positions of these numbers in it.
 */
#include "core.h"

enum { COLUMN_COUNT = 5, KEY = 0, KIND = 1, TIME_BITS = 12, TIMES = 13 };

static struct {
    char *head;
    size_t length, body_length_at, rows_at, buffers_at, nodes_at;
} known;

PyObject *columns_learn(PyObject *module, PyObject *args) {
    (void)module;
    const char *head;
    Py_ssize_t length, body_length_at, rows_at, buffers_at, nodes_at;
    if (!PyArg_ParseTuple(args, "y#nnnn", &head, &length, &body_length_at, &rows_at, &buffers_at,
                          &nodes_at))
        return NULL;
    bool is_ordered = 0 < body_length_at && body_length_at + 8 <= rows_at
        && rows_at + 8 <= buffers_at && buffers_at + 16 * COLUMN_BUFFERS <= nodes_at
        && nodes_at + 16 * COLUMN_COUNT <= length;
    char *copy = is_ordered ? malloc((size_t)length) : NULL;
    if (!copy) {
        PyErr_SetString(PyExc_ValueError, "this is no message of five columns");
        return NULL;
    }
    memcpy(copy, head, (size_t)length);
    free(known.head);
    known.head = copy;
    known.length = (size_t)length;
    known.body_length_at = (size_t)body_length_at;
    known.rows_at = (size_t)rows_at;
    known.buffers_at = (size_t)buffers_at;
    known.nodes_at = (size_t)nodes_at;
    Py_RETURN_NONE;
}

static size_t padded(size_t length) { return (length + 7) & ~(size_t)7; }

/* --- reading --- */

static bool is_same(const char *message, size_t start, size_t stop) {
    return !memcmp(message + start, known.head + start, stop - start);
}

static bool has_known_head(const char *message, size_t length) {
    size_t buffers_end = known.buffers_at + 16 * COLUMN_BUFFERS;
    return known.head && length >= known.length && is_same(message, 0, known.body_length_at)
        && is_same(message, known.body_length_at + 8, known.rows_at)
        && is_same(message, known.rows_at + 8, known.buffers_at)
        && is_same(message, buffers_end, known.nodes_at)
        && is_same(message, known.nodes_at + 16 * COLUMN_COUNT, known.length);
}

static uint64_t nulls_in(const char *message, int column) {
    return read_u64(message + known.nodes_at + 16 * (size_t)column + 8);
}

static uint32_t offset_at(const Columns *columns, int column, uint32_t row) {
    return read_u32(columns->offsets[column] + 4 * (size_t)row);
}

bool columns_rise(const Columns *columns, int column) {
    uint32_t before = offset_at(columns, column, 0);
    for (uint32_t row = 1; row <= columns->count; row++) {
        uint32_t end = offset_at(columns, column, row);
        if (end < before) return false;
        before = end;
    }
    return before <= columns->content_length[column];
}

/* Whether the first and the last offset of a text column lie within its content. */
static bool ends_are_within(const Columns *columns, int column) {
    uint32_t first = offset_at(columns, column, 0), last = offset_at(columns, column, columns->count);
    return first <= last && last <= columns->content_length[column];
}

/* Whether exactly `nulls` of the first `count` bits, in at most `size` bytes, are not set. */
static bool counts_nulls(const char *bits, uint64_t size, uint32_t count, uint64_t nulls) {
    if (size < ((uint64_t)count + 7) / 8) return false;
    uint64_t found = 0;
    for (uint32_t row = 0; row < count; row++) found += !bit_at(bits, row);
    return found == nulls;
}

/* Whether each kind is plain, and each key is text. */
static bool texts_are_plain(const Columns *columns) {
    for (uint32_t row = 0; row < columns->count; row++) {
        uint32_t start = offset_at(columns, KIND, row), end = offset_at(columns, KIND, row + 1);
        if (!is_plain_kind((const byte *)columns->content[KIND] + start, end - start)) return false;
        start = offset_at(columns, KEY, row);
        end = offset_at(columns, KEY, row + 1);
        if (!is_utf8((const byte *)columns->content[KEY] + start, end - start)) return false;
    }
    return true;
}

/* Whether a buffer consists of at least `count` whole values of this width. */
static bool holds(uint64_t size, uint64_t width, uint64_t count) {
    return size % width == 0 && size / width >= count;
}

bool columns_find(Columns *columns, const char *message, size_t length, uint32_t count) {
    if (!has_known_head(message, length) || read_u64(message + known.rows_at) != count) return false;
    const char *body = message + known.length;
    uint64_t body_length = length - known.length;
    if (read_u64(message + known.body_length_at) != body_length) return false;
    uint64_t at[COLUMN_BUFFERS], size[COLUMN_BUFFERS], used = 0;
    for (size_t index = 0; index < COLUMN_BUFFERS; index++) {
        at[index] = read_u64(message + known.buffers_at + 16 * index);
        size[index] = read_u64(message + known.buffers_at + 16 * index + 8);
        /* In sequence, as this file writes them. */
        if (at[index] != used || size[index] > body_length - used) return false;
        used += padded(size[index]);
        if (used > body_length) return false;
    }
    for (int column = 0; column < COLUMN_COUNT; column++)
        if (read_u64(message + known.nodes_at + 16 * (size_t)column) != count) return false;
    columns->count = count;
    for (int column = 0; column < TEXT_COLUMNS; column++) {
        int bits = 3 * column, offsets = bits + 1, content = bits + 2;
        if (column != KEY && nulls_in(message, column)) return false;
        if (!holds(size[offsets], 4, (uint64_t)count + 1)) return false;
        columns->offsets[column] = body + at[offsets];
        columns->content[column] = body + at[content];
        columns->content_length[column] = size[content];
        if (!ends_are_within(columns, column)) return false;
    }
    uint64_t no_key = nulls_in(message, KEY), no_time = nulls_in(message, 4);
    if (no_key && !counts_nulls(body + at[0], size[0], count, no_key)) return false;
    if (no_time && !counts_nulls(body + at[TIME_BITS], size[TIME_BITS], count, no_time)) return false;
    if (!holds(size[TIMES], 8, count)) return false;
    columns->key_bits = no_key ? body + at[0] : NULL;
    columns->time_bits = no_time ? body + at[TIME_BITS] : NULL;
    columns->times = body + at[TIMES];
    return true;
}

bool columns_open(Columns *columns, const char *message, size_t length, uint32_t count) {
    if (!columns_find(columns, message, length, count)) return false;
    for (int column = 0; column < TEXT_COLUMNS; column++)
        if (!columns_rise(columns, column)) return false;
    return texts_are_plain(columns);
}

static size_t cell(const Columns *columns, int column, uint32_t row, const char **content) {
    uint32_t start = offset_at(columns, column, row);
    *content = columns->content[column] + start;
    return offset_at(columns, column, row + 1) - start;
}

Event *columns_event(const Columns *columns, uint32_t row) {
    EventParts parts = {0};
    parts.key_length = cell(columns, KEY, row, &parts.key);
    parts.kind_length = cell(columns, KIND, row, &parts.kind);
    parts.payload_length = cell(columns, 2, row, &parts.payload);
    parts.headers_length = cell(columns, 3, row, &parts.headers);
    parts.has_key = bit_at(columns->key_bits, row);
    if (!parts.has_key) parts.key_length = 0;
    parts.has_occurred_at = bit_at(columns->time_bits, row);
    if (parts.has_occurred_at) parts.occurred_at_us = read_i64(columns->times + 8 * (size_t)row);
    return event_of_parts(&parts);
}

/* --- writing --- */

static Event *event_at(PyObject *events, Py_ssize_t row) {
    return (Event *)PyList_GetItem(events, row);
}

/* Compute the place of each buffer. The caller has checked that `events` are events. */
static void lay_out(ColumnsLayout *layout, PyObject *events, Py_ssize_t count) {
    size_t content[TEXT_COLUMNS] = {0}, bits = ((size_t)count + 7) / 8;
    memset(layout, 0, sizeof *layout);
    for (Py_ssize_t row = 0; row < count; row++) {
        const Event *event = event_at(events, row);
        content[0] += event->key.length;
        content[1] += event->kind.length;
        content[2] += event->payload.length;
        content[3] += event->headers.length;
        layout->keys_missing += !event->has_key;
        layout->times_missing += !event->has_occurred_at;
    }
    for (int column = 0; column < TEXT_COLUMNS; column++) {
        layout->length[3 * column + 1] = 4 * ((size_t)count + 1);
        layout->length[3 * column + 2] = content[column];
    }
    if (layout->keys_missing) layout->length[0] = bits;
    if (layout->times_missing) layout->length[TIME_BITS] = bits;
    layout->length[TIMES] = 8 * (size_t)count;
    for (int index = 0; index < COLUMN_BUFFERS; index++) {
        layout->at[index] = layout->total;
        layout->total += padded(layout->length[index]);
    }
}

size_t columns_measure(ColumnsLayout *layout, PyObject *events, Py_ssize_t count) {
    if (!known.head) return 0;
    lay_out(layout, events, count);
    for (int column = 0; column < TEXT_COLUMNS; column++)
        if (layout->length[3 * column + 2] > INT32_MAX) return 0;
    return known.length + layout->total;
}

static void write_head(char *message, const ColumnsLayout *layout, Py_ssize_t count) {
    memcpy(message, known.head, known.length);
    write_u64(message + known.body_length_at, layout->total);
    write_u64(message + known.rows_at, (uint64_t)count);
    for (size_t index = 0; index < COLUMN_BUFFERS; index++) {
        write_u64(message + known.buffers_at + 16 * index, layout->at[index]);
        write_u64(message + known.buffers_at + 16 * index + 8, layout->length[index]);
    }
    for (size_t column = 0; column < COLUMN_COUNT; column++) {
        Py_ssize_t nulls = column == 0 ? layout->keys_missing
            : column == 4              ? layout->times_missing
                                       : 0;
        write_u64(message + known.nodes_at + 16 * column, (uint64_t)count);
        write_u64(message + known.nodes_at + 16 * column + 8, (uint64_t)nulls);
    }
}

static uint32_t put_cell(char *content, uint32_t at, const char *from, uint32_t length) {
    memcpy(content + at, from, length);
    return at + length;
}

static void set_bit(char *bits, Py_ssize_t row) { bits[row / 8] |= (char)(1 << (row % 8)); }

void columns_write(char *message, const ColumnsLayout *layout, PyObject *events, Py_ssize_t count) {
    write_head(message, layout, count);
    char *body = message + known.length, *content[TEXT_COLUMNS], *offsets[TEXT_COLUMNS];
    uint32_t ends[TEXT_COLUMNS] = {0};
    for (int index = 0; index < COLUMN_BUFFERS; index++) {
        size_t end = layout->at[index] + layout->length[index];
        memset(body + end, 0, padded(layout->length[index]) - layout->length[index]);
    }
    memset(body + layout->at[0], 0, layout->length[0]);
    memset(body + layout->at[TIME_BITS], 0, layout->length[TIME_BITS]);
    for (int column = 0; column < TEXT_COLUMNS; column++) {
        offsets[column] = body + layout->at[3 * column + 1];
        content[column] = body + layout->at[3 * column + 2];
        write_u32(offsets[column], 0);
    }
    for (Py_ssize_t row = 0; row < count; row++) {
        const Event *event = event_at(events, row);
        const char *stored = event->row;
        if (event->has_key) {
            ends[0] = put_cell(content[0], ends[0], stored + event->key.at, event->key.length);
            if (layout->keys_missing) set_bit(body + layout->at[0], row);
        }
        ends[1] = put_cell(content[1], ends[1], stored + event->kind.at, event->kind.length);
        ends[2] = put_cell(content[2], ends[2], stored + event->payload.at, event->payload.length);
        ends[3] = put_cell(content[3], ends[3], event_headers(event), event->headers.length);
        for (int column = 0; column < TEXT_COLUMNS; column++)
            write_u32(offsets[column] + 4 * (row + 1), ends[column]);
        write_i64(body + layout->at[TIMES] + 8 * row, event->has_occurred_at ? event->occurred_at_us : 0);
        if (event->has_occurred_at && layout->times_missing) set_bit(body + layout->at[TIME_BITS], row);
    }
}
