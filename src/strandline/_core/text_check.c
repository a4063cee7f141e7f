/* Whether the texts of an Arrow column have valid offsets, in order, and are UTF-8. */
#include "core.h"

/* Checked in runs, so that a character beyond ASCII is found early. */
enum { RUN_BYTES = 1024 };

static bool is_ascii_run(const byte *text, size_t length) {
    uint64_t seen[4] = {0};
    for (; length >= 32; length -= 32, text += 32)
        for (size_t word = 0; word < 4; word++) seen[word] |= read_u64(text + 8 * word);
    uint64_t all = seen[0] | seen[1] | seen[2] | seen[3];
    for (; length; length--) all |= *text++;
    return !(all & 0x8080808080808080u);
}

static bool is_ascii(const byte *text, size_t length) {
    for (; length > RUN_BYTES; length -= RUN_BYTES, text += RUN_BYTES)
        if (!is_ascii_run(text, RUN_BYTES)) return false;
    return is_ascii_run(text, length);
}

static int64_t offset_at(const byte *offsets, size_t width, size_t index) {
    int64_t wide;
    int32_t narrow;
    if (width == sizeof wide) memcpy(&wide, offsets + index * sizeof wide, sizeof wide);
    else memcpy(&narrow, offsets + index * sizeof narrow, sizeof narrow);
    return width == sizeof wide ? wide : narrow;
}

/* Inlined for each width. Each offset is read once: the value that is checked is the one used. */
static inline __attribute__((always_inline)) bool
are_in_order(const byte *offsets, size_t width, size_t count, const byte *content, int64_t size) {
    int64_t first = offset_at(offsets, width, 0), last = offset_at(offsets, width, count);
    if (first < 0 || first > last || last > size) return false;
    bool is_plain = is_ascii(content + first, (size_t)(last - first));
    if (!is_plain && !is_utf8(content + first, (size_t)(last - first))) return false;
    int64_t before = first;
    for (size_t index = 1; index < count; index++) {
        int64_t end = offset_at(offsets, width, index);
        if (end < before || end > last) return false;
        /* The whole is UTF-8, and so is each text, unless one begins within a character. */
        if (!is_plain && end < last && is_continuation(content[end])) return false;
        before = end;
    }
    return true;
}

PyObject *are_texts(PyObject *module, PyObject *args) {
    Py_buffer offsets, content;
    Py_ssize_t width, first, count;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*nnny*", &offsets, &width, &first, &count, &content)) return NULL;
    bool are = (width == sizeof(int32_t) || width == sizeof(int64_t)) && first >= 0 && count >= 0;
    Py_ssize_t known = are ? offsets.len / width : 0;
    are = first < known && count < known - first;
    if (are) {
        const byte *from = (const byte *)offsets.buf + first * width, *text = content.buf;
        /* The interpreter's lock is released: nothing but the two buffers is touched, which are
         * exported until they are released below. */
        Py_BEGIN_ALLOW_THREADS
        are = width == sizeof(int64_t)
            ? are_in_order(from, sizeof(int64_t), (size_t)count, text, content.len)
            : are_in_order(from, sizeof(int32_t), (size_t)count, text, content.len);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&content);
    return PyBool_FromLong(are);
}
