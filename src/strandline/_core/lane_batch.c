/* Appends of several events as one frame: of rows, or of columns. */
#include "lane.h"

/* Compute the sizes of rows and of events; false if one is left to Python. */
static bool measure(PyObject *events, Py_ssize_t count, int64_t bytes_max, size_t *rows,
                    int64_t *size_bytes) {
    *rows = 0;
    *size_bytes = 0;
    for (Py_ssize_t index = 0; index < count; index++) {
        Event *event = (Event *)PyList_GetItem(events, index);
        if (Py_TYPE(event) != EventType || event_size(event) > bytes_max) return false;
        *rows += event->row_length;
        *size_bytes += event_size(event);
    }
    return true;
}

static void write_rows(char *to, PyObject *events, Py_ssize_t count) {
    to = msgpack_put_array_head(to, (size_t)count);
    for (Py_ssize_t index = 0; index < count; index++) {
        Event *event = (Event *)PyList_GetItem(events, index);
        memcpy(to, event->row, event->row_length);
        to += event->row_length;
    }
}

Step lane_append_events(Lane *lane, PyObject *events, int64_t bytes_max, Placed *placed,
                        int64_t *size_bytes) {
    size_t rows;
    Py_ssize_t count = PyList_Size(events);
    if (count < 1 || !lane_is_free(lane) || !measure(events, count, bytes_max, &rows, size_bytes))
        return LEFT;
    bool is_columns = count >= COLUMNS_MIN;
    size_t head = count < 16 ? 1 : 3;
    ColumnsLayout layout;
    size_t body_length = is_columns ? columns_measure(&layout, events, count) : head + rows;
    if (!body_length || body_length > FRAME_BYTES_MAX) return LEFT;
    char *body = lane_begin_body(lane, body_length);
    if (!body) return FAILED;
    /* Nothing calls Python between measuring and writing: the list cannot change. */
    if (is_columns) columns_write(body, &layout, events, count);
    else write_rows(body, events, count);
    Step step = lane_append_body(lane, is_columns ? FRAME_COLUMNS : FRAME_ROWS, body_length,
                                 (uint32_t)count, *size_bytes, placed);
    lane->is_busy = false;
    return step;
}

PyObject *lane_append_many(Lane *lane, PyObject *args) {
    PyObject *events;
    long long bytes_max;
    Placed placed;
    int64_t size_bytes;
    if (!PyArg_ParseTuple(args, "O!L:append_many", &PyList_Type, &events, &bytes_max)) return NULL;
    return lane_answer(lane_append_events(lane, events, bytes_max, &placed, &size_bytes), &placed);
}
