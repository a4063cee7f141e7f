/* Selected columns of many frames, joined. */
#include "reader.h"

/* The bits of `wanted`: the texts, when an event occurred, and when it was appended. */
enum { OCCURRED = TEXT_COLUMNS, APPENDED, GATHERED_COLUMNS };

/* As Arrow has it: `cells` are the numbers, or where each text begins and the last one ends.
 * There are no bits until a value is missing. */
typedef struct {
    Buffer bits, cells, content;
} GatheredColumn;

typedef struct Gathering {
    GatheredColumn columns[GATHERED_COLUMNS];
    unsigned int wanted;
    size_t rows;
} Gathering;

/* Call `act` with each buffer. */
static void for_each_buffer(Gathering *all, void (*act)(Buffer *)) {
    for (int which = 0; which < GATHERED_COLUMNS; which++) {
        act(&all->columns[which].bits);
        act(&all->columns[which].cells);
        act(&all->columns[which].content);
    }
}

static void free_bytes(Buffer *buffer) { free(buffer->bytes); }

void gathering_free(Gathering *all) {
    if (all) for_each_buffer(all, free_bytes);
    free(all);
}

static bool is_wanted(const Gathering *all, int column) { return all->wanted >> column & 1; }

/* --- a frame --- */

static uint32_t text_bytes(const Columns *columns, int column) {
    const char *offsets = columns->offsets[column];
    return read_u32(offsets + 4 * (size_t)columns->count) - read_u32(offsets);
}

/* Whether the columns of a frame can be added. */
static bool can_take(const Gathering *all, const Columns *columns) {
    for (int column = 0; column < TEXT_COLUMNS; column++) {
        if (!is_wanted(all, column)) continue;
        size_t before = all->columns[column].content.length;
        if (!columns_rise(columns, column) || before + text_bytes(columns, column) > INT32_MAX)
            return false;
    }
    return all->rows + columns->count <= INT32_MAX;
}

static bool take_bits(GatheredColumn *column, const char *bits, size_t before, uint32_t count) {
    if (!bits && !column->bits.length) return true;
    size_t length = (before + count + 7) / 8, more = length - column->bits.length;
    if (!buffer_reserve(&column->bits, more)) return false;
    /* All rows have a value, except those that are cleared below. */
    memset(column->bits.bytes + column->bits.length, 0xff, more);
    column->bits.length = length;
    for (uint32_t row = 0; bits && row < count; row++) {
        size_t at = before + row;
        if (!bit_at(bits, row)) column->bits.bytes[at / 8] &= (char)~(1 << (at % 8));
    }
    return true;
}

static bool take_texts(GatheredColumn *column, const Columns *columns, int which) {
    const char *offsets = columns->offsets[which];
    uint32_t first = read_u32(offsets), before = (uint32_t)column->content.length;
    if (!column->cells.length && !buffer_put(&column->cells, &(uint32_t){0}, 4)) return false;
    if (!buffer_reserve(&column->cells, 4 * (size_t)columns->count)) return false;
    char *to = column->cells.bytes + column->cells.length;
    for (size_t row = 0; row < columns->count; row++)
        write_u32(to + 4 * row, read_u32(offsets + 4 * (row + 1)) - first + before);
    column->cells.length += 4 * (size_t)columns->count;
    return buffer_put(&column->content, columns->content[which] + first, text_bytes(columns, which));
}

static bool take_number(GatheredColumn *column, int64_t number, uint32_t count) {
    if (!buffer_reserve(&column->cells, 8 * (size_t)count)) return false;
    char *to = column->cells.bytes + column->cells.length;
    for (size_t row = 0; row < count; row++) write_i64(to + 8 * row, number);
    column->cells.length += 8 * (size_t)count;
    return true;
}

/* False without memory. */
static bool take_frame(Gathering *all, const Columns *columns, int64_t timestamp_us) {
    uint32_t count = columns->count;
    for (int which = 0; which < GATHERED_COLUMNS; which++) {
        GatheredColumn *column = &all->columns[which];
        const char *bits = which == 0 ? columns->key_bits : which == OCCURRED ? columns->time_bits : NULL;
        if (!is_wanted(all, which)) continue;
        if (!take_bits(column, bits, all->rows, count)) return false;
        bool is_taken = which < TEXT_COLUMNS ? take_texts(column, columns, which)
            : which == OCCURRED ? buffer_put(&column->cells, columns->times, 8 * (size_t)count)
                                : take_number(column, timestamp_us, count);
        if (!is_taken) return false;
    }
    all->rows += count;
    return true;
}

/* --- many frames --- */

/* False with an exception. */
static bool gather(Reader *reader, Gathering *all, size_t rows_max, int64_t pause) {
    VerifiedFrame frame;
    Columns columns;
    while (all->rows < rows_max && reader->position < pause && reader_look(reader, &frame)) {
        if (frame.kind != FRAME_COLUMNS || !columns_find(&columns, frame.body, frame.length, frame.count)
            || !can_take(all, &columns))
            break;
        if (!take_frame(all, &columns, frame.timestamp_us)) {
            PyErr_NoMemory();
            return false;
        }
        reader_pass(reader, &frame);
    }
    return !PyErr_Occurred();
}

/* Return a copy in memory that `allocate` returns. */
static PyObject *copy_of(const Buffer *buffer, PyObject *allocate) {
    PyObject *size = PyLong_FromLongLong((long long)buffer->length);
    PyObject *copy = size ? call_one(allocate, size) : NULL;
    Py_XDECREF(size);
    PyObject *alone = copy ? PyTuple_Pack(1, copy) : NULL;
    Py_buffer view;
    bool is_copied = alone && PyArg_ParseTuple(alone, "w*", &view);
    if (is_copied) {
        if (view.len != (Py_ssize_t)buffer->length) {
            PyErr_SetString(PyExc_ValueError, "the allocated memory does not have the requested size");
            is_copied = false;
        } else if (buffer->length) {
            memcpy(view.buf, buffer->bytes, buffer->length);
        }
        PyBuffer_Release(&view);
    }
    Py_XDECREF(alone);
    if (!is_copied) Py_CLEAR(copy);
    return copy;
}

/* Return `(bits, cells)`, of texts with their content; None for no bits. */
static PyObject *parts_of(const GatheredColumn *column, bool is_text, PyObject *allocate) {
    PyObject *bits = column->bits.length ? copy_of(&column->bits, allocate) : new_reference(Py_None);
    PyObject *cells = bits ? copy_of(&column->cells, allocate) : NULL;
    PyObject *content = cells && is_text ? copy_of(&column->content, allocate) : NULL, *parts = NULL;
    if (cells && (content || !is_text))
        parts = is_text ? PyTuple_Pack(3, bits, cells, content) : PyTuple_Pack(2, bits, cells);
    Py_XDECREF(bits);
    Py_XDECREF(cells);
    Py_XDECREF(content);
    return parts;
}

static PyObject *list_of(const Gathering *all, PyObject *allocate) {
    PyObject *list = PyList_New(0);
    for (int which = 0; list && which < GATHERED_COLUMNS; which++) {
        if (!is_wanted(all, which)) continue;
        PyObject *parts = parts_of(&all->columns[which], which < TEXT_COLUMNS, allocate);
        if (!parts || PyList_Append(list, parts)) Py_CLEAR(list);
        Py_XDECREF(parts);
    }
    return list;
}

/* Return the reader's buffers, emptied; NULL with an exception. */
static Gathering *emptied(Reader *reader) {
    if (!reader->gathering) reader->gathering = calloc(1, sizeof *reader->gathering);
    if (!reader->gathering) {
        PyErr_NoMemory();
        return NULL;
    }
    for_each_buffer(reader->gathering, buffer_reset);
    reader->gathering->rows = 0;
    return reader->gathering;
}

PyObject *reader_columns(Reader *reader, PyObject *args) {
    unsigned int wanted;
    Py_ssize_t rows_max, bytes_max;
    PyObject *allocate, *found = NULL;
    if (!PyArg_ParseTuple(args, "InnO:columns", &wanted, &rows_max, &bytes_max, &allocate)) return NULL;
    if (reader->is_busy) {
        PyErr_SetString(PyExc_ValueError, "another thread reads from this iterator");
        return NULL;
    }
    Gathering *all = emptied(reader);
    if (!all) return NULL;
    all->wanted = wanted;
    reader->is_busy = true;
    if (gather(reader, all, (size_t)rows_max, reader->position + bytes_max))
        found = list_of(all, allocate);
    reader->is_busy = false;
    return found;
}
